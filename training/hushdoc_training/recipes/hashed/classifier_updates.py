"""Kinds of whole texts, learned further from a released table (Hash the Universe, claim 3).

What is released is the next table, filled so that every row changed: unchanged ones by made-up
amounts. Whoever holds both tables sees the amounts, so it is these that are attacked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hushdoc.errors import AnnotationError, CheckpointError
from hushdoc_training import table_checkpoint
from hushdoc_training.crf import filling, linear, whole_texts
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.crf.filling import Update
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed.crf import Trained
from hushdoc_training.recipes.hashed.settings import CRFSettings
from hushdoc_training.table_checkpoint import TableCheckpoint

FAMILY = "joint-normal"
"""The paper's distribution of an update: weight and amount belong together."""

Floats = npt.NDArray[np.float32]


def released(folder: Path) -> TableCheckpoint:
    """Returns a table that tells kinds of whole texts, to be trained further.

    Args:
        folder: The checkpoint of it, or the run folder around it.

    Raises:
        CheckpointError: There is none, or it finds something else.
    """
    found = table_checkpoint.load(folder)
    fits = found.scheme.level == "sentence" and not (
        found.scheme.bigrams or found.scheme.skip_grams or found.scheme.clusters
    )
    if not fits or not np.array_equal(found.transitions, whole_texts.one_class(found.tags)):
        raise CheckpointError(
            f"The table in '{folder}' does not tell kinds of whole documents by their words; "
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
    """Returns by how much each row changes, filled, and the next table.

    Args:
        corpus: Texts of the released table's kinds.
        before: The released table.
        settings: How to fill: "paper-fill" or "noisy-fill".
        stream: For tests; chance comes from the operating system otherwise.

    Raises:
        AnnotationError: The corpus has other kinds.
        InputError: Too little changed to fill the rest.
    """
    if corpus.names != before.tags:
        raise AnnotationError(
            f"The documents are of the kinds {', '.join(corpus.names)}, the released table knows "
            f"{', '.join(before.tags)}; expected the same, in the same order. Train a new table."
        )
    features = corpus.features(before.scheme, min_document_frequency=settings.threshold)
    old = _lean(before.weights)
    update = Update(
        released=old,
        amounts=linear.amounts(
            linear.counted(whole_texts.whole(features, corpus), before.scheme.rows),
            whole_texts.kinds(corpus),
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


def as_stated(settings: CRFSettings) -> CRFSettings:
    """Returns how an update is filled where a first table is filled so.

    Args:
        settings: Of a first table.
    """
    return replace(settings, family=FAMILY)


def _lean(weights: Floats) -> Floats:
    """Returns one column of two kinds, which differ in nothing else."""
    return weights[:, 1:] - weights[:, :1] if weights.shape[1] == 2 else weights


def _full(weights: Floats, corpus: Corpus) -> Floats:
    model = linear.LinearModel(
        classes=corpus.names, weights=weights, intercepts=np.zeros(weights.shape[1])
    )
    return model.columns()
