"""Partitions: who holds which record in a simulated federation; each record once, from a seed.

A partition is a list of indices for each client. The seed is no secret: partitions are for
simulations, in which one party knows all records.
"""

from __future__ import annotations

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


def by_size(records: int, sizes: Sequence[float], *, seed: int) -> Partition:
    """Returns shares in proportion to the sizes.

    Example:
        >>> [len(held) for held in by_size(10, [1, 3, 6], seed=0)]
        [1, 3, 6]
    """
    if not sizes or min(sizes) < 0 or not sum(sizes) > 0:
        raise ValueError(f"sizes is {list(sizes)!r}; expected numbers from 0, not all of them 0.")
    order = _generator(len(sizes), seed).permutation(records)
    return [sorted(part.tolist()) for part in np.split(order, _ends(records, sizes))]


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


def dirichlet(
    labels: Sequence[Hashable], clients: int, *, concentration: float, seed: int
) -> Partition:
    """Returns shares whose labels differ: each label's records go by proportions from a Dirichlet.

    (Hsu, Qi and Brown: Measuring the Effects of Non-Identical Data Distribution, 2019.)

    Args:
        labels: Of every record.
        clients: How many there are.
        concentration: Small for clients with few labels each, large for alike ones.
        seed: Of the proportions.
    """
    if not 0 < concentration < float("inf"):
        raise ValueError(f"concentration is {concentration!r}; expected a number above 0.")
    generator = _generator(clients, seed)
    shares: Partition = [[] for _ in range(clients)]
    for label in dict.fromkeys(labels):
        own = [index for index, found in enumerate(labels) if found == label]
        proportions = generator.dirichlet([concentration] * clients)
        parts = np.split(generator.permutation(own), _ends(len(own), proportions.tolist()))
        for share, part in zip(shares, parts, strict=True):
            share.extend(part.tolist())
    return [sorted(share) for share in shares]


def _ends(records: int, sizes: Sequence[float]) -> list[int]:
    """Returns where shares end, but for the last."""
    shares = np.cumsum(np.asarray(sizes, dtype=np.float64))
    return np.rint(records * shares[:-1] / shares[-1]).astype(int).tolist()


def _generator(clients: int, seed: int) -> np.random.Generator:
    arguments.integer(clients, what="clients")
    return np.random.default_rng(seed)
