"""Bounded tables: labelled documents become a checkpoint whose single rows are hidden by noise.

The promise is about rows of the finished table, and conditional: through training a term or a
document may change every row (`crf.bounded`). Its certificate is "dp-conditional" and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from hushdoc.accounting import calibration
from hushdoc.certificate.claim import DataAccess, PublicData
from hushdoc.errors import AnnotationError
from hushdoc.hashing import Clusters, FeatureScheme
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import bounded, private_fitting
from hushdoc_training.crf.bounded import BoundedSettings, BoundedTable
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.recipes.hashed import private_audits, private_tables
from hushdoc_training.recipes.hashed.crf import CLUSTERS_NAME
from hushdoc_training.table_checkpoint import TableCheckpoint

PASSES = 4
"""Over the documents; with the rate and the emphasis below what the benchmark was run with."""

RARITY = 2.0
"""What public transitions hold a run of a label to cost: short rows can't outweigh more."""


def settings_of(*, bound: float, passes: int | None = None) -> BoundedSettings:
    """Returns how a bounded table is learned.

    Args:
        bound: Largest length of a row.
        passes: Over the documents; PASSES where there is none.
    """
    return BoundedSettings(bound=bound, epochs=passes or PASSES, learning_rate=0.03, emphasis=4.0)


def protect_rows(
    corpus: Corpus,
    scheme: FeatureScheme,
    *,
    epsilon: float,
    delta: float,
    out: Path,
    name: str,
    settings: BoundedSettings,
    neighbouring_rows: int = 1,
    clusters: Clusters | None = None,
    accesses: tuple[DataAccess, ...] = (),
    caveats: tuple[str, ...] = (),
    audited: bool = True,
    progress: Callable[[str], None] | None = None,
) -> TableCheckpoint:
    """Learns without privacy inside a ball, adds noise once and writes `out/checkpoint`.

    Args:
        corpus: Labelled documents.
        scheme: What their features are.
        epsilon: Of the content of some rows of the table.
        delta: At which it holds.
        out: A new folder for the run.
        name: What the certificate calls the documents.
        settings: Of training.
        neighbouring_rows: In how many rows neighbouring tables may differ.
        clusters: The scheme's clusters of words, public data.
        accesses: How else the documents are read, for the certificate.
        caveats: What else its reader should know.
        audited: Whether the same release of a table of invented documents is attacked, for the
            certificate.
        progress: Told in a word or two what comes next.

    Raises:
        AnnotationError: There is nothing to learn.
        OutputExistsError: A checkpoint stands there already.
        ValueError: A number is no positive one.
    """
    if len(np.unique(corpus.labels)) < 2:
        raise AnnotationError(
            f"All {len(corpus.labels)} {corpus.level}s of the documents have one label; expected "
            "at least two labels. Mark what the model shall find, or give more documents."
        )
    say = progress or (lambda what: None)
    say("Fitting")
    multiplier = calibration.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_rate=1.0, steps=1, accountant="pld"
    )
    noise_std = 2 * settings.bound * float(np.sqrt(neighbouring_rows)) * multiplier
    table = fit(corpus, scheme, settings, clusters)
    public_data = () if clusters is None else (_clusters(),)
    weights, claim = private_tables.release_rows(
        table, noise_std=noise_std, delta=delta, name=name, rows=neighbouring_rows,
        public_data=public_data,
    )  # fmt: skip
    if audited:
        say("Attacking the same release of invented documents")
        found = private_audits.attacks_on_rows(
            scheme,
            lambda invented: fit(invented, scheme, settings, clusters),
            noise_std=noise_std,
            neighbouring_rows=neighbouring_rows,
        )
        claim = private_audits.with_attacks(claim, found)
    training = {**claim.training, **asdict(settings), "features": scheme.to_dict()}
    made = TableCheckpoint(
        weights=weights,
        transitions=_transitions(corpus).astype(np.float32),
        tags=corpus.names,
        scheme=scheme,
        claim=replace(
            claim,
            training=training,
            data_accesses=(*claim.data_accesses, *accesses),
            caveats=(*claim.caveats, *caveats),
        ),
        clusters=clusters,
    )
    out.mkdir(parents=True, exist_ok=True)
    table_checkpoint.save(out / "checkpoint", made)
    return made


def fit(
    corpus: Corpus,
    scheme: FeatureScheme,
    settings: BoundedSettings,
    clusters: Clusters | None = None,
) -> BoundedTable:
    """Returns a bounded table of a corpus.

    Args:
        corpus: Labelled documents.
        scheme: What their features are.
        settings: Of training.
        clusters: The scheme's clusters of words.
    """
    return bounded.fit_bounded(
        corpus.features(scheme, clusters),
        corpus.labels,
        sequences=corpus.documents,
        records=corpus.records,
        rows=scheme.rows,
        transitions=_transitions(corpus),
        settings=settings,
        # The order of documents, and no secret: the promise takes training as it comes.
        generator=np.random.default_rng(0),
    )


def _transitions(corpus: Corpus) -> private_fitting.Floats:
    return private_fitting.transitions_of(corpus.names, rarity=RARITY)


def _clusters() -> PublicData:
    return PublicData(
        name=CLUSTERS_NAME,
        uses=("one feature of each word",),
        uri=None,
        digest=None,
        privacy_status="public",
        overlap_with_protected="unknown",
    )
