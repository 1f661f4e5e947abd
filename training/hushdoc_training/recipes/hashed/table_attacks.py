"""The attacks that a filled table is put to before its certificate is written.

Each looks at the released table as a recipient would. Rows of the table are classified into those
that training had and made-up ones; where items are sentences, words are blacked out and guessed
among names that no document has. Two groups of words are attacked apart, for they fare differently:
those of few documents, and those of so many that training kept them, in sentences with a label and
in those without. What attacks find of the latter is partly what the table is for: which words such
items have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.audit_reports import Audit
from hushdoc_training.audit import coincidence
from hushdoc_training.audit.coincidence import Puzzle
from hushdoc_training.audit.float_pattern import float_pattern
from hushdoc_training.audit.roc import Attack
from hushdoc_training.audit.row_traces import antisymmetry, multiplicity, zeros
from hushdoc_training.audit.two_sample import two_sample
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.invented import clause_contracts
from hushdoc_training.recipes.hashed.crf import Trained

ROW_ATTACKS = (zeros, antisymmetry, multiplicity, float_pattern, two_sample)

LEAST_ROWS = 20
"""Rows of each group, below which no rate can be estimated."""

RARE_DOCUMENTS = 2
"""Where training dropped nothing, terms of at most so many documents are the rare ones."""

PUZZLES, CANDIDATES, LEAST_PUZZLES = 300, 100, 20

Report = Callable[[Attack], None]


def audits(trained: Trained, *, report: Report | None = None) -> tuple[Audit, ...]:
    """Returns what every attack on a table achieved; none where it has too few rows of a group."""
    found = []
    for attack in attacks(trained):
        if report is not None:
            report(attack)
        found.append(attack.audit())
    return tuple(found)


def attacks(trained: Trained) -> Iterator[Attack]:
    """Yields what every attack on a table achieves."""
    yield from attacks_on_rows(trained)
    if trained.scheme.level == "sentence":
        yield from _attacks_on_terms(trained)


def attacks_on_rows(trained: Trained) -> Iterator[Attack]:
    """Yields what attacks achieve that distinguish learned rows from made-up ones."""
    genuine = _genuine(trained)
    if min(genuine.sum(), (~genuine).sum()) >= LEAST_ROWS:
        for attack in ROW_ATTACKS:
            # How a number was made shows in the number itself, all else in units of its scale.
            exact = attack is float_pattern
            yield attack(trained.weights if exact else trained.even_weights, genuine)


def _genuine(trained: Trained) -> npt.NDArray[np.bool_]:
    """Returns the rows that the fill did not make up: of the paper's all that occurred."""
    if trained.settings.fill == "paper-fill":
        return np.asarray(trained.fitted.seen.any(axis=1))
    return trained.fitted.genuine


def _attacks_on_terms(trained: Trained) -> Iterator[Attack]:
    """Yields attacks on terms of few documents, and on those of more.

    Of the latter only those that were learned from count: an average over all would hide what the
    table reveals of them. Of the former too where there are some; where dropping left none, it is
    dropping that is measured.
    """
    few = max(RARE_DOCUMENTS, trained.settings.threshold - 1)
    counts = documents_of_terms(trained.corpus)
    more = range(few + 1, max(counts.values(), default=0) + 1)
    for wanted, outside, whose in (
        (range(1, few + 1), False, f"at most {few} documents"),
        (more, False, f"more than {few} documents"),
        (more, True, f"more than {few} documents, in sentences without a label"),
    ):
        found = puzzles_of(trained.corpus, counts, wanted, outside=outside)
        learned = coincidence.learned_from(
            found, trained.fitted.genuine, trained.scheme, trained.clusters
        )
        chosen = learned if len(learned) >= LEAST_PUZZLES else found
        if len(chosen) >= LEAST_PUZZLES:
            yield from _guessed(trained, chosen, f"terms of {whose}")


def _guessed(trained: Trained, puzzles: Sequence[Puzzle], whose: str) -> Iterator[Attack]:
    table = trained.even_weights, puzzles, trained.scheme, trained.clusters
    scores = coincidence.candidate_scores(*table)
    for method, guesses in (
        (coincidence.TRACES, coincidence.traces(*table)),
        (coincidence.CLOSENESS, coincidence.closeness(*table)),
        (coincidence.SCORE, scores),
        (coincidence.RANK, scores.standing()),
    ):
        yield guesses.attack(f"{method}, {whose}")


def puzzles_of(
    corpus: Corpus, counts: Counter[str], wanted: range, *, outside: bool = False
) -> list[Puzzle]:
    """Returns places in sentences, to be guessed among names that no document has."""
    others = [
        name
        for name in clause_contracts.names(4 * CANDIDATES, seed=1)
        if name.lower() not in counts
    ]
    return coincidence.puzzles(
        corpus.sentences,
        corpus.labels,
        others,
        count=PUZZLES,
        candidates=CANDIDATES,
        # An audit's choice, and no secret.
        generator=np.random.default_rng(0),
        eligible=lambda term: counts[term.lower()] in wanted,
        outside=outside,
    )


def documents_of_terms(corpus: Corpus) -> Counter[str]:
    """Returns in how many documents each word occurs, in small letters as features are."""
    counts: Counter[str] = Counter()
    records = corpus.records.tolist()
    for first, last in zip(records[:-1], records[1:], strict=True):
        counts.update(
            {token.lower() for tokens in corpus.sentences[first:last] for token in tokens}
        )
    return counts
