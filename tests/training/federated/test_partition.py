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
    "provider": lambda records, clients, seed: partition.by_provider(
        [index % 5 for index in range(records)], clients, seed=seed
    ),
    "apart": lambda records, clients, seed: partition.apart(
        [bytes([index]) for index in range(records)],
        [range(1, clients + 1)] * records or np.ones((0, clients)),
        seed=seed,
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


@given(keys=st.sets(st.binary(max_size=4), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_one_record_less_moves_no_other(keys: set[bytes], seed: int) -> None:
    def holders(kept: list[bytes]) -> dict[bytes, int]:
        held = partition.apart(kept, [[1.0, 2.0, 3.0]] * len(kept), seed=seed)
        return {kept[at]: client for client, share in enumerate(held) for at in share}

    some = sorted(keys)
    whole = holders(some)
    without = holders(some[1:]) if some[1:] else {}
    assert without == {key: client for key, client in whole.items() if key != some[0]}


def test_shares_are_as_large_as_proportions_say() -> None:
    keys = [f"{index}".encode() for index in range(6000)]
    held = partition.apart(keys, [[1.0, 0.0, 2.0, 3.0]] * 6000, seed=7)
    np.testing.assert_allclose([len(share) / 1000 for share in held], [1, 0, 2, 3], atol=0.15)


def test_a_small_concentration_parts_labels() -> None:
    def largest(concentration: float) -> float:
        drawn = [
            partition.dirichlet(label, 4, concentration=concentration, seed=1) for label in "abcdef"
        ]
        assert np.allclose(np.sum(drawn, axis=1), 1)
        return float(np.max(drawn, axis=1).mean())

    assert largest(0.05) > 0.8
    assert largest(1000.0) < 0.3


@pytest.mark.parametrize(
    "refused",
    [
        lambda: partition.equal(3, 0, seed=0),
        lambda: partition.apart([b"a"], [], seed=0),
        lambda: partition.apart([b"a"], [[0.0, 0.0]], seed=0),
        lambda: partition.apart([b"a"], [[1.0, -1.0]], seed=0),
        lambda: partition.dirichlet("a", 2, concentration=0.0, seed=0),
    ],
)
def test_what_is_no_partition_is_refused(refused: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        refused()
