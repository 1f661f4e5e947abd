"""Hashed CRF: labelled documents become a filled table that can be sealed.

corpus -> features -> fit -> fill -> attack -> claim -> checkpoint
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import DataAccess, PublicData
from hushdoc.errors import InputError
from hushdoc.hashing import Clusters, Features, FeatureScheme
from hushdoc.synthetic_documents import SyntheticDocuments
from hushdoc_training import inherited_claims, table_checkpoint
from hushdoc_training.crf import (
    claims,
    filling,
    fitting,
    noiseless_fitting,
    private_fitting,
    term_cost,
)
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.crf.private_fitting import Start
from hushdoc_training.crf.term_cost import AdjacentDistributions, TermCost, Terms
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed.settings import BATCH, CRFSettings
from hushdoc_training.runs.run_folder import CHECKPOINT
from hushdoc_training.table_checkpoint import TableCheckpoint

Floats = npt.NDArray[np.float32]

RANKS = (1, 10, 100, 1000)
"""The frequency ranks of figure 2 of the paper."""

CLUSTERS_NAME = "clusters of public word vectors"


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What training made, of which only `weights` and what follows from them may leave."""

    fitted: FittedTable  # what was learned, with its gaps
    settings: CRFSettings
    weights: Floats  # the table to release, shape [rows, labels]
    features: Features  # of the training documents, without those that were dropped
    corpus: Corpus
    scheme: FeatureScheme
    clusters: Clusters | None
    scales: npt.NDArray[np.float64] | None = None  # shape [rows]; public, so attackers know it

    @property
    def even_weights(self) -> Floats:
        """The table to release in units of its rows' scales, as an attacker sees it."""
        if self.scales is None:
            return self.weights
        return np.asarray(self.weights / self.scales[:, None], dtype=np.float32)


Attack = Callable[[Trained], Sequence[Audit]]
"""Attacks a table, knowing all that there is to know."""


def train(
    corpus: Corpus,
    scheme: FeatureScheme,
    settings: CRFSettings,
    *,
    out: Path,
    name: str,  # what the certificate calls the documents
    clusters: Clusters | None = None,
    public: Features | None = None,  # public sentences, which scale the rows; of "batch"
    public_data: tuple[PublicData, ...] = (),  # what else was used, such as these sentences
    attack: Attack | None = None,  # measures the finished table; else the claim's kind is "none"
    with_costs: bool = False,
    accesses: tuple[DataAccess, ...] = (),  # how else the documents are read
    caveats: tuple[str, ...] = (),
    sealed: SyntheticDocuments | None = None,  # the set that the corpus was made of, if it is one
    progress: Callable[[str], None] | None = None,  # called with a word or two on what comes next
) -> Trained:
    """Fits, fills and attacks a table and writes its checkpoint as `out/checkpoint`.

    With costs, the paper's measured cost of frequent terms is computed from the documents and
    released with the claim.
    """
    say = progress or (lambda what: None)
    say("Fitting and filling")
    trained = fit_and_fill(corpus, scheme, settings, clusters=clusters, public=public)
    if attack is not None:
        say("Attacking the table")
    made = claims.FilledTable(
        name=name,
        fill=settings.fill,
        rows=scheme.rows,
        columns=len(corpus.names),
        settings=settings.reported(),
        public_data=public_data + (() if clusters is None else (_word_clusters(),)),
        audits=() if attack is None else tuple(attack(trained)),
        costs=_reported_costs(trained) if with_costs else {},
        labels_from_documents=corpus.names_from_documents,
    )
    claim = claims.claim(made)
    if sealed is not None:
        claim = inherited_claims.claim_of(
            sealed, claim.public_data, training=claim.training, releases=claim.releases
        )
    table = TableCheckpoint(
        weights=trained.weights,
        transitions=trained.fitted.transitions,
        tags=corpus.names,
        scheme=scheme,
        claim=replace(
            claim,
            data_accesses=(*claim.data_accesses, *accesses),
            caveats=(*claim.caveats, *caveats),
        ),
        clusters=clusters,
    )
    out.mkdir(parents=True, exist_ok=True)
    table_checkpoint.save(out / CHECKPOINT, table)
    return trained


def fit_and_fill(
    corpus: Corpus,
    scheme: FeatureScheme,
    settings: CRFSettings,
    *,
    clusters: Clusters | None = None,
    public: Features | None = None,
    stream: SecretStream | None = None,
) -> Trained:
    """Returns a fitted and filled table."""
    features = corpus.features(scheme, clusters, min_document_frequency=settings.threshold)
    scales = _scales(scheme, settings, public)
    if scales is not None:
        fitted = noiseless_fitting.fit_without_noise(
            features,
            corpus.labels,
            sequences=corpus.documents,
            records=corpus.records,
            start=Start(
                tags=corpus.names,
                scales=scales,
                transitions=private_fitting.transitions_of(corpus.names),
            ),
            settings=settings.batch,
            steps=settings.passes,
            top_features_per_label=settings.top_features_per_label,
        )
    else:
        fitted = fitting.fit(
            features,
            corpus.labels,
            corpus.documents,
            scheme=scheme,
            names=corpus.names,
            algorithm=settings.algorithm,
            iterations=settings.passes,
            settings={"c": settings.c} if settings.algorithm == "pa" else None,
        )
    return Trained(
        fitted=fitted,
        settings=settings,
        weights=fill(fitted, settings, scales=scales, stream=stream),
        features=features,
        corpus=corpus,
        scheme=scheme,
        clusters=clusters,
        scales=scales,
    )


def _scales(
    scheme: FeatureScheme, settings: CRFSettings, public: Features | None
) -> npt.NDArray[np.float64] | None:
    if settings.algorithm != BATCH:
        return None
    if public is None:
        raise ValueError(
            "The algorithm 'batch' scales rows by public sentences; none are given. Pass their "
            "features as `public`."
        )
    return private_fitting.public_scales(public, scheme.rows, unseen_scale=settings.unseen_scale)


def fill(
    fitted: FittedTable,
    settings: CRFSettings,
    *,
    scales: npt.NDArray[np.float64] | None = None,
    stream: SecretStream | None = None,
) -> Floats:
    """Returns the table to release."""
    stream = stream or SecretStream()
    match settings.fill:
        case "paper-fill":
            return _sealable(filling.paper_fill(fitted, stream=stream, family=settings.family))
        case "noisy-fill":
            return filling.noisy_fill(fitted, stream=stream, noise=settings.spreads, scales=scales)
    return fitted.unfilled()


def _sealable(weights: Floats) -> Floats:
    """Returns a table without a row of zeros, by which verifiers recognise an unfilled one.

    The paper's fill keeps rows that training left at zero. Their first weight becomes the least
    that a file of half precision can hold, and no label changes by it.
    """
    empty = ~weights.any(axis=1)
    made = weights.copy()
    made[empty, 0] = np.finfo(np.float16).smallest_subnormal
    return made


def costs(trained: Trained) -> dict[int, TermCost]:
    """Returns the paper's measured cost of the words of the frequency ranks RANKS.

    It is a divergence of fitted distributions, whatever the fill: see `term_cost.KIND`.
    """
    found = terms(trained)
    rows = filling.complete_rows(trained.fitted.realized)
    if len(rows) < 2:
        raise InputError(
            f"{len(rows)} rows of the table were learned; a cost needs at least 2. Train on more "
            "documents.",
            code="TOO_FEW_ROWS",
        )
    distributions = AdjacentDistributions(rows)
    return {
        rank: distributions.cost_of_share(float(found.shares[rank - 1]))
        for rank in RANKS
        if rank <= len(found.words)
    }


def terms(trained: Trained) -> Terms:
    """Returns the words of the training documents, the one in most features first."""
    return term_cost.terms(trained.corpus.sentences, trained.scheme)


def _reported_costs(trained: Trained) -> dict[str, Any]:
    return {
        "termCost": term_cost.KIND,
        "delta": term_cost.DELTA,
        "byFrequencyRank": [
            {
                "rank": rank,
                # JSON has no infinity; null says that there is no bound.
                "withoutTermFirst": _finite(cost.without_term),
                "withTermFirst": _finite(cost.with_term),
            }
            for rank, cost in costs(trained).items()
        ],
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _word_clusters() -> PublicData:
    return PublicData(
        name=CLUSTERS_NAME,
        uses=("one feature of each word",),
        privacy_status="public",
        overlap_with_protected="unknown",
    )
