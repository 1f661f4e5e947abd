"""The attacks that a filled table is put to before its certificate is written.

Each looks at the released table as a recipient would. Rows of the table are told apart into genuine
and made-up ones; where items are sentences, words that few documents have are blacked out and
guessed among words that no document has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hushdoc.audits import Audit
from hushdoc_training.audit import coincidence
from hushdoc_training.audit.antisymmetry import antisymmetry
from hushdoc_training.audit.float_pattern import float_pattern
from hushdoc_training.audit.multiplicity import multiplicity
from hushdoc_training.audit.roc import Attack
from hushdoc_training.audit.two_sample import two_sample
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.data import invented_contracts
from hushdoc_training.recipes.hashed_crf import Trained

LEAST_ROWS = 20
"""Genuine and made-up rows, below which no rate could be told."""

RARE_DOCUMENTS = 2
PUZZLES, CANDIDATES, LEAST_PUZZLES = 300, 100, 20

Report = Callable[[Attack], None]


def audits(trained: Trained, *, report: Report | None = None) -> tuple[Audit, ...]:
    """Returns what every attack on a table achieved; none where it has too few rows of a kind.

    Args:
        trained: What training made.
        report: Called with each result as soon as it is known.
    """
    found = []
    for attack in attacks(trained):
        if report is not None:
            report(attack)
        found.append(attack.audit())
    return tuple(found)


def attacks(trained: Trained) -> Iterator[Attack]:
    """Yields what every attack on a table achieves.

    Args:
        trained: What training made.
    """
    genuine = trained.fitted.genuine
    if min(genuine.sum(), (~genuine).sum()) < LEAST_ROWS:
        return
    for attack in (antisymmetry, multiplicity, float_pattern, two_sample):
        yield attack(trained.weights, genuine)
    if trained.scheme.level == "sentence" and trained.scheme.bigrams:
        yield from _attacks_on_terms(trained)


def _attacks_on_terms(trained: Trained) -> Iterator[Attack]:
    rare = _puzzles(trained.corpus)
    learned = coincidence.learned_from(
        rare, trained.fitted.genuine, trained.scheme, trained.clusters
    )
    # Where rare words left no rows to learn from, that is what is measured.
    puzzles = learned if len(learned) >= LEAST_PUZZLES else rare
    if len(puzzles) < LEAST_PUZZLES:
        return
    table = trained.weights, puzzles, trained.scheme, trained.clusters
    yield coincidence.closeness(*table).attack(coincidence.CLOSENESS)
    yield coincidence.candidate_scores(*table).standing().attack(coincidence.RANK)


def _puzzles(corpus: Corpus) -> Sequence[coincidence.Puzzle]:
    """Returns places in labelled sentences where a word stood that few documents have."""
    counts = _documents_of_terms(corpus)
    others = [
        name
        for name in invented_contracts.names(4 * CANDIDATES, seed=1)
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
        eligible=lambda term: counts[term.lower()] <= RARE_DOCUMENTS,
    )


def _documents_of_terms(corpus: Corpus) -> Counter[str]:
    counts: Counter[str] = Counter()
    records = corpus.records.tolist()
    for first, last in zip(records[:-1], records[1:], strict=True):
        counts.update(
            {token.lower() for tokens in corpus.sentences[first:last] for token in tokens}
        )
    return counts
