"""Classes of whole texts by a table of hashed features: a linear classifier, released filled.

`train_filled` bolts a fill on a linear classifier of scikit-learn ("Hash the Universe", section 3)
and attacks what comes out. It writes the checkpoint of a table whose transitions, a public
constant, let a text have one class alone; so do the tables with noise of `private_runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import DataAccess
from hushdoc.errors import AnnotationError
from hushdoc.hashing import FeatureScheme
from hushdoc.runtime.hashed.table import HashedTable, item_scores
from hushdoc_training import table_checkpoint
from hushdoc_training.audit import coincidence
from hushdoc_training.audit.coincidence import Puzzle
from hushdoc_training.audit.roc import Attack
from hushdoc_training.crf import claims, linear, whole_texts
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import crf, updates
from hushdoc_training.recipes.hashed import table_attacks as attacks_on_tables
from hushdoc_training.recipes.hashed.crf import Trained
from hushdoc_training.recipes.hashed.settings import CRFSettings
from hushdoc_training.runs.run_folder import CHECKPOINT
from hushdoc_training.table_checkpoint import TableCheckpoint

ALGORITHM = "linear support vectors by stochastic gradients (scikit-learn's SGDClassifier)"
FURTHER = "passive-aggressive, one class against the rest, from the released table"
ONE_CLASS = "a public constant: all sentences of a text have one label"

Say = Callable[[str], None]
Report = Callable[[Attack], None]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How many texts get their own class: shares, and how many texts were asked."""

    right: float
    commonest: float  # the share if all got the commonest class
    texts: int


def scheme(rows: int) -> FeatureScheme:
    """Returns the features of all these tables: tokens alone.

    They bring the least noise to a sum, and a term has one row.
    """
    return FeatureScheme(rows=rows, bigrams=False, skip_grams=False)


def train_filled(
    corpus: Corpus,
    own: FeatureScheme,
    settings: CRFSettings,
    *,
    out: Path,
    name: str,
    released: TableCheckpoint | None = None,
    accesses: tuple[DataAccess, ...] = (),
    report: Report | None = None,
    progress: Say | None = None,
) -> TableCheckpoint:
    """Fits, fills, attacks, and writes `out/checkpoint`.

    A CheckpointError refuses a released table with a guarantee that this one could not keep.
    """
    require_classes(corpus, released)
    if released is not None:
        updates.require_filled(released.claim)
    say = progress or (lambda what: None)
    say("Fitting and filling")
    if released is None:
        trained = fit_and_fill(corpus, own, settings)
        weights = trained.weights
    else:
        trained, weights = updates.fit_and_fill(corpus, released, settings)
    audits: tuple[Audit, ...] = ()
    if settings.fill != "none":
        say("Attacking the table")
        audits = tuple(attack.audit() for attack in _reported(attacks(trained), report))
    claim = claims.claim(
        claims.FilledTable(
            name=name,
            fill=settings.fill,
            rows=own.rows,
            columns=len(corpus.names),
            settings={
                "algorithm": ALGORITHM if released is None else FURTHER,
                "min_document_frequency": settings.threshold,
                "transitions": ONE_CLASS,
                **({"noise": settings.spreads} if settings.fill == "noisy-fill" else {}),
                **({"family": settings.family} if settings.fill == "paper-fill" else {}),
            },
            audits=audits,
            labels_from_documents=corpus.names_from_documents,
        )
    )
    if released is not None:
        claim = updates.beside(claim, released.claim)
    table = TableCheckpoint(
        weights=weights.astype(np.float32, copy=False),
        transitions=whole_texts.one_class(corpus.names),
        tags=corpus.names,
        scheme=own,
        claim=replace(claim, data_accesses=(*claim.data_accesses, *accesses)),
    )
    out.mkdir(parents=True, exist_ok=True)
    table_checkpoint.save(out / CHECKPOINT, table)
    return table


def fit_and_fill(
    corpus: Corpus,
    own: FeatureScheme,
    settings: CRFSettings,
    *,
    stream: SecretStream | None = None,
) -> Trained:
    """Returns a linear classifier as a filled table."""
    features = corpus.features(own, min_document_frequency=settings.threshold)
    numbers = whole_texts.classes(corpus)
    with linear.unconverged():
        model = linear.fit(
            linear.counted(whole_texts.whole(features, corpus), own.rows),
            [f"{number:09}" for number in numbers.tolist()],  # in the order of the corpus's names
            classifier=linear.support_vectors(intercept=False),
        )
    filled = model.filled(lambda table: crf.fill(table, settings, stream=stream))
    return Trained(
        fitted=model.table(),
        settings=settings,
        weights=filled.columns(),
        features=features,
        corpus=corpus,
        scheme=own,
        clusters=None,
    )


def attacks(trained: Trained) -> Iterator[Attack]:
    """Yields what attacks on a filled table achieve: on its rows, and on terms of few texts.

    Terms that more texts have are asked for apart, as `table_attacks` does.
    """
    yield from attacks_on_tables.attacks_on_rows(trained)
    counts = attacks_on_tables.documents_of_terms(trained.corpus)
    few = max(attacks_on_tables.RARE_DOCUMENTS, trained.settings.threshold - 1)
    for wanted, whose in (
        (range(1, few + 1), f"at most {few} documents"),
        (range(few + 1, max(counts.values(), default=0) + 1), f"more than {few} documents"),
    ):
        found = _puzzles(trained.corpus, counts, wanted)
        if len(found) >= attacks_on_tables.LEAST_PUZZLES:
            table = trained.weights, found, trained.scheme
            scores = coincidence.candidate_scores(*table)
            for method, guesses in (
                (coincidence.TRACES, coincidence.traces(*table)),
                (coincidence.SCORE, scores),
                (coincidence.RANK, scores.standing()),
            ):
                yield guesses.attack(f"{method}, terms of {whose}")


def score(table: TableCheckpoint, corpus: Corpus) -> Accuracy:
    """Returns how many texts a table gives their own class, as a reader would."""
    weights = HashedTable(
        weights=table.weights, transitions=table.transitions.astype(np.float64), scale=None
    )
    features = whole_texts.whole(corpus.features(table.scheme), corpus)
    there = whole_texts.classes(corpus)
    given = item_scores(features, weights).argmax(axis=1)
    return Accuracy(
        right=float((given == there).mean()),
        commonest=float(np.bincount(there).max() / len(there)),
        texts=len(there),
    )


def _reported(found: Iterator[Attack], report: Report | None) -> Iterator[Attack]:
    for attack in found:
        if report is not None:
            report(attack)
        yield attack


def _puzzles(corpus: Corpus, counts: Any, wanted: range) -> list[Puzzle]:
    """Returns places in texts, to be guessed among names that no text has; every class counts."""
    # Elsewhere the label 0 says that there is none, and nothing is asked of it.
    shifted = replace(corpus, labels=corpus.labels + 1)
    found = attacks_on_tables.puzzles_of(shifted, counts, wanted)
    return [replace(puzzle, label=puzzle.label - 1) for puzzle in found]


def require_declared_classes(corpus: Corpus) -> None:
    """Refuses fewer than two classes, and documents that all are gone, whatever is in the others.

    Under differential privacy no more may be asked of the documents: whether training starts, or a
    warning of a class that none of them has, would tell of a single one.
    """
    if len(corpus.names) < 2 or not len(corpus.owners):
        raise AnnotationError(
            f"There are {len(corpus.names)} classes and "
            f"{'some' if len(corpus.owners) else 'no'} texts; expected at least 2 classes, and a "
            "text with words of one. Name the classes with --label, or check the data path."
        )


def require_classes(corpus: Corpus, released: TableCheckpoint | None = None) -> None:
    """Refuses texts that teach nothing; a table that knows all classes may learn more of some."""
    there = set(np.unique(corpus.labels).tolist())
    missing = [name for number, name in enumerate(corpus.names) if number not in there]
    if there and released is not None:
        return
    if missing or len(there) < 2:
        few = "1 class" if there else "none with a word"
        found = f"none of the class '{missing[0]}'" if missing else few
        raise AnnotationError(
            f"Of the texts to learn from there is {found}; expected some with words of each class, "
            "and at least 2 classes. Give more texts, or name the classes to learn."
        )
