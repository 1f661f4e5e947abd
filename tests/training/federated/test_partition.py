"""Partitions hold every record once, and are what they are called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc_training.federated import partition
from hushdoc_training.federated.partition import Partition

WAYS: dict[str, Callable[[int, int, int], Partition]] = {
    "equal": lambda records, clients, seed: partition.equal(records, clients, seed=seed),
    "size": lambda records, clients, seed: partition.by_size(
        records, range(1, clients + 1), seed=seed
    ),
    "provider": lambda records, clients, seed: partition.by_provider(
        [index % 5 for index in range(records)], clients, seed=seed
    ),
    "dirichlet": lambda records, clients, seed: partition.dirichlet(
        [index % 3 for index in range(records)], clients, concentration=0.3, seed=seed
    ),
}


@pytest.mark.parametrize("way", WAYS)
@given(records=st.integers(0, 60), clients=st.integers(1, 17), seed=st.integers(0, 99))
def test_every_record_is_held_once(way: str, records: int, clients: int, seed: int) -> None:
    held = WAYS[way](records, clients, seed)
    assert len(held) == clients
    assert sorted(index for share in held for index in share) == list(range(records))
    assert held == WAYS[way](records, clients, seed)


def test_a_provider_is_at_one_client() -> None:
    providers = [name for name in "abcdefgh" for _ in range(ord(name) - ord("a") + 1)]
    held = partition.by_provider(providers, 3, seed=4)
    of_clients = [{providers[index] for index in share} for share in held]
    assert sum(map(len, of_clients)) == 8
    assert max(map(len, held)) <= 4 / 3 * 12  # of 36 records (Graham 1969)
    assert partition.by_provider(["a"], 2, seed=0).count([]) == 1


def test_a_small_concentration_parts_labels() -> None:
    labels = [index % 4 for index in range(4000)]

    def largest(concentration: float) -> float:
        held = partition.dirichlet(labels, 4, concentration=concentration, seed=1)
        table = np.array([np.bincount([labels[i] for i in share], minlength=4) for share in held])
        return float((table.max(0) / 1000).mean())

    assert largest(0.05) > 0.8
    assert largest(1000.0) < 0.3


@pytest.mark.parametrize(
    "refused",
    [
        lambda: partition.equal(3, 0, seed=0),
        lambda: partition.by_size(3, [], seed=0),
        lambda: partition.by_size(3, [0, 0], seed=0),
        lambda: partition.by_size(3, [1, -1], seed=0),
        lambda: partition.dirichlet([1], 2, concentration=0.0, seed=0),
    ],
)
def test_what_is_no_partition_is_refused(refused: Callable[[], Partition]) -> None:
    with pytest.raises(ValueError, match="expected"):
        refused()
