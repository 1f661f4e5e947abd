"""Items, documents and plans for tests of fitting tables, with and without noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushdoc.hashing import Features


@dataclass(frozen=True, kw_only=True)
class FreePlan:
    """A plan whose noise no accountant has seen."""

    sampling_rate: float = 1.0
    steps: int = 4
    clipping_norm: float = 1.0
    noise_multiplier: float = 0.0
    expected_records: int = 4


def features_of(items: list[list[int]]) -> Features:
    offsets = np.cumsum([0, *map(len, items)])
    return Features(indices=np.array(sum(items, []), dtype=np.int32), offsets=offsets)


def clauses(count: int) -> tuple[list[list[int]], list[int], list[int]]:
    """Documents of 20 items over rows 5 to 999; one item is a clause, and has rows 0 and 1."""
    chance = np.random.default_rng(3)
    items, labels = [], []
    for _ in range(count):
        place = int(chance.integers(20))
        for item in range(20):
            rows = set(chance.integers(5, 1000, size=8).tolist())
            items.append(sorted(rows | ({0, 1} if item == place else set())))
            labels.append(int(item == place))
    return items, labels, list(range(0, 20 * count + 1, 20))
