"""Partitions: who holds which record in a simulated federation; each record once, from a seed.

A partition is a list of indices for each client. The seed is no secret: partitions are for
simulations, in which one party knows all records. A guarantee needs `apart`: in the others one
record more may move all others to other clients, so they are for measuring what training learns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

import numpy as np

from hushdoc import arguments

Partition = list[list[int]]


def equal(records: int, clients: int, *, seed: int) -> Partition:
    """Returns shares that differ by one record at most, in a random order.

    Example:
        >>> [len(held) for held in equal(7, 3, seed=0)]
        [3, 2, 2]
    """
    order = _generator(clients, seed).permutation(records)
    return [sorted(part.tolist()) for part in np.array_split(order, clients)]


def by_provider(providers: Sequence[Hashable], clients: int, *, seed: int) -> Partition:
    """Returns whole providers, each at one client, the next largest to who holds least.

    Args:
        providers: Of every record.
        clients: How many there are; some hold nothing where there are fewer providers.
        seed: Of the order among providers of one size.
    """
    generator = _generator(clients, seed)
    held: dict[Hashable, list[int]] = {}
    for index, provider in enumerate(providers):
        held.setdefault(provider, []).append(index)
    groups = list(held.values())
    order = sorted(generator.permutation(len(groups)).tolist(), key=lambda at: -len(groups[at]))
    shares: Partition = [[] for _ in range(clients)]
    for at in order:
        min(shares, key=len).extend(groups[at])
    return [sorted(share) for share in shares]


def apart(keys: Sequence[bytes], proportions: Sequence[Sequence[float]], *, seed: int) -> Partition:
    """Returns shares in which each record's client is drawn by its own key, whatever others are.

    So one record more moves no other, as a guarantee about one record needs.

    Args:
        keys: Of every record; those with the same go together, by the same proportions.
        proportions: Of every record, how likely each client is to hold it, to any scale.
        seed: What is drawn along with keys.

    Raises:
        ValueError: Proportions are negative, all zero, or of unlike numbers of clients.
    """
    table = np.asarray(proportions, dtype=np.float64)
    if table.ndim != 2 or not (table >= 0).all() or not (table.sum(1) > 0).all():
        raise ValueError(
            "proportions is no table of records by clients; expected numbers from 0 for each "
            "record, not all of them 0."
        )
    shares: Partition = [[] for _ in range(table.shape[1])]
    for index, (key, ends) in enumerate(zip(keys, table.cumsum(1), strict=True)):
        drawn = ends[-1] * _word(seed, key) / 2**64
        shares[min(int(np.searchsorted(ends, drawn, side="right")), len(shares) - 1)].append(index)
    return shares


def dirichlet(label: str, clients: int, *, concentration: float, seed: int) -> list[float]:
    """Returns how likely each client is to hold a record of a label: proportions of a Dirichlet.

    (Hsu, Qi and Brown: Measuring the Effects of Non-Identical Data Distribution, 2019.)

    Args:
        label: Of the record; others play no part.
        clients: How many there are.
        concentration: Small for clients with few labels each, large for alike ones.
        seed: What is drawn along with the label.
    """
    if not 0 < concentration < float("inf"):
        raise ValueError(f"concentration is {concentration!r}; expected a number above 0.")
    generator = _generator(clients, _word(seed, label.encode("utf-8", "surrogatepass")))
    found: list[float] = generator.dirichlet([concentration] * clients).tolist()
    return found


def _word(seed: int, key: bytes) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} ".encode() + key).digest()[:8], "big")


def _generator(clients: int, seed: int) -> np.random.Generator:
    arguments.integer(clients, what="clients")
    return np.random.default_rng(seed)
