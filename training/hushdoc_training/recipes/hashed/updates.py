"""Tables that are trained further after they were released, and what is certified of them.

Whoever receives the next table holds the first one too; `hushdoc_training.runs.continued` adds up
what the two guarantee. A filled update (Hash the Universe, claim 3) changes every row: rows that
training left alone by made-up amounts. Whoever holds both tables sees the amounts, so it is these
that are attacked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.claim import Claim
from hushdoc.errors import AnnotationError, CheckpointError
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import filling, linear, whole_texts
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.filling import Update
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed.crf import Trained
from hushdoc_training.recipes.hashed.settings import CRFSettings
from hushdoc_training.runs import continued
from hushdoc_training.table_checkpoint import TableCheckpoint

FAMILY = "joint-normal"
"""The paper's distribution of an update: weight and amount belong together."""

Floats = npt.NDArray[np.float32]


def beside(claim: Claim, before: Claim) -> Claim:
    """Returns the claim of a filled table that was trained further: no guarantee, both measured."""
    require_filled(before)
    (earlier,), (new,) = continued.one_guarantee(before), continued.one_guarantee(claim)
    guarantee = replace(
        new,
        composition="two releases: the table that training went on from, and this one; whoever "
        "holds both sees by how much each row changed",
        assumes=continued.both_of(earlier.assumes, new.assumes),
    )
    if earlier.kind == "none" and new.kind != "none":
        guarantee = replace(
            guarantee,
            kind="none",
            transcript=None,
            assumes=(),
            reason=f"The table that training went on from had no guarantee: {earlier.reason}",
        )
    both = continued.listed_together(claim, before)
    caveat = (
        "Attacks on this table were attacks on what changed, by somebody who holds the "
        f"earlier table as well; those marked '{continued.BEFORE.strip()}' were on that one."
    )
    return replace(
        both, guarantees=(guarantee,), caveats=continued.both_of(both.caveats, (caveat,))
    )


def require_filled(before: Claim) -> None:
    """Refuses a table with a guarantee, which a filled update of it would not keep."""
    (earlier,) = continued.one_guarantee(before)
    if earlier.kind not in ("empirical", "none") or earlier.unit != "token-term":
        raise CheckpointError(
            f"The released table has a guarantee of kind {earlier.kind}, unit {earlier.unit}; "
            "expected a filled table, for a filled update guarantees less. Update it by the mode "
            "that it was made by."
        )


def released(folder: Path) -> TableCheckpoint:
    """Returns a table of classes of whole texts, to be trained further."""
    found = table_checkpoint.load(folder)
    fits = found.scheme.level == "sentence" and not (
        found.scheme.bigrams or found.scheme.skip_grams or found.scheme.clusters
    )
    if not fits or not np.array_equal(found.transitions, whole_texts.one_class(found.tags)):
        raise CheckpointError(
            f"The table in '{folder}' does not classify whole documents by their words; "
            "expected what `hushdoc train classifier` wrote. Give its run folder."
        )
    return found


def fit_and_fill(
    corpus: Corpus,
    before: TableCheckpoint,
    settings: CRFSettings,
    *,
    stream: SecretStream | None = None,
) -> tuple[Trained, Floats]:
    """Returns by how much each row changes, filled, and the next table."""
    if corpus.names != before.tags:
        raise AnnotationError(
            f"The documents are of the classes {', '.join(corpus.names)}, the released table knows "
            f"{', '.join(before.tags)}; expected the same, in the same order. Train a new table."
        )
    features = corpus.features(before.scheme, min_document_frequency=settings.threshold)
    old = _lean(before.weights)
    update = Update(
        released=old,
        amounts=linear.amounts(
            linear.counted(whole_texts.whole(features, corpus), before.scheme.rows),
            whole_texts.classes(corpus),
            old,
        ),
    )
    stream = stream or SecretStream()
    if settings.fill == "paper-fill":
        made = filling.updated_paper_fill(update, stream=stream, family=settings.family)
    else:
        made = filling.updated_noisy_fill(update, stream=stream, noise=settings.spreads)
    trained = Trained(
        fitted=FittedTable(
            weights=update.amounts,
            seen=~np.isnan(update.amounts),
            transitions=np.zeros((old.shape[1],) * 2, dtype=np.float32),
            labels=corpus.names[-old.shape[1] :],
        ),
        settings=settings,
        weights=_full(made - old, corpus),
        features=features,
        corpus=corpus,
        scheme=before.scheme,
        clusters=None,
    )
    return trained, _full(made, corpus)


def as_update(settings: CRFSettings) -> CRFSettings:
    """Returns how an update is filled where a first table is filled so."""
    return replace(settings, family=FAMILY)


def _lean(weights: Floats) -> Floats:
    """Returns one column of two classes, which differ in nothing else."""
    return weights[:, 1:] - weights[:, :1] if weights.shape[1] == 2 else weights


def _full(weights: Floats, corpus: Corpus) -> Floats:
    model = linear.LinearModel(
        classes=corpus.names, weights=weights, intercepts=np.zeros(weights.shape[1])
    )
    return model.columns()
