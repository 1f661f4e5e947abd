from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training.crf.fitting import FittedTable, fit
from hushdoc_training.crf.frequency import frequent

SCHEME = FeatureScheme(rows=60_000)


@dataclass(frozen=True, kw_only=True)
class Contracts:
    """Invented contracts, a table learned from them, and the words of others."""

    sentences: Sequence[list[str]]
    labels: np.ndarray
    documents: np.ndarray
    found: Features
    table: FittedTable
    others: list[str]


def word(chance: np.random.Generator) -> str:
    return "".join(chance.choice(list("abdefgiklmnoprstuvz"), size=7))


def invented(count: int, chance: np.random.Generator) -> tuple[list[list[str]], list[int]]:
    """Contracts of 12 sentences about names that no other has; one of them is a clause.

    Half of the clauses can't be told by their words, so that a model has to learn them by heart.
    """
    common = [word(chance) for _ in range(150)]
    sentences, labels = [], []
    for _ in range(count):
        place = int(chance.integers(12))
        for item in range(12):
            words = [str(chance.choice(common)) for _ in range(9)]
            for at in (2, 6):
                words.insert(at, word(chance))
            clause = item == place
            telling = clause and chance.random() < 0.5
            sentences.append([*words[:5], "governed", "laws", *words[5:]] if telling else words)
            labels.append(int(clause))
    return sentences, labels


def learned(least_records: int) -> Contracts:
    chance = np.random.default_rng(7)
    sentences, labels = invented(60, chance)
    others, _ = invented(60, chance)
    documents = np.arange(0, len(sentences) + 1, 12)
    found = frequent(sentences, SCHEME, documents, least_records=least_records)
    table = fit(
        found,
        np.array(labels),
        documents,
        scheme=SCHEME,
        names=("O", "LAW"),
        iterations=10,
    )
    return Contracts(
        sentences=sentences,
        labels=np.array(labels),
        documents=documents,
        found=found,
        table=table,
        others=[token for words in others for token in words],
    )


@pytest.fixture(scope="session")
def contracts() -> Contracts:
    return learned(least_records=1)


@pytest.fixture(scope="session")
def without_rare() -> Contracts:
    return learned(least_records=3)
