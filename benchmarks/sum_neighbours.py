"""How many neighbours secure sums of more than 64 clients would need: computed, and not built.

    python benchmarks/sum_neighbours.py           ten thousand clients, seconds
    python benchmarks/sum_neighbours.py --quick   a thousand

Instead of all pairs, each client would mask and share with k neighbours: those next to it on k / 2
rings, whose orders follow from numbers that all clients committed to beforehand, so that nobody
chooses neighbours. s shares rebuild a secret. For the chances below, over all clients together, no
client may have s colluding neighbours (against a `listener`, who follows the protocol), or so many
that a `liar` gets both of its secrets by two lists of survivors, 2 s <= k + 1 + colluding, its own
share being one; and s neighbours of each have to be left. Numbers of colluding and of silent
neighbours are hypergeometric. Then such graphs are drawn, and it is counted in how many of them
honest clients that are left do not hang together, so that the sum of a part would show. The last
line is JSON: neighbours and threshold by share of colluding and silent clients.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

import machine
import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.stats import hypergeom

CHANCE_OF_LEAK = 2.0**-40
CHANCE_OF_LOSS = 2.0**-20
SHARES = ((0.05, 0.02), (0.1, 0.05), (0.2, 0.1))
GRAPHS = 20


def main() -> int:
    """Computes every degree, draws graphs, and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a thousand clients")
    options = parser.parse_args()
    clients = 1_000 if options.quick else 10_000
    generator = np.random.default_rng(1)
    result: dict[str, Any] = {"clients": clients}
    for colluding, silent in SHARES:
        for liar in (False, True):
            neighbours, threshold = needed(clients, colluding, silent, liar=liar)
            apart = sum(
                not hangs_together(clients, neighbours, colluding + silent, generator)
                for _ in range(GRAPHS)
            )
            name = f"{colluding:g} colluding, {silent:g} silent, {'liar' if liar else 'listener'}"
            result[name] = {"neighbours": neighbours, "threshold": threshold, "apart": apart}
            print(f"{name:45} {neighbours} neighbours, threshold {threshold}, apart {apart}")
    result |= {
        "graphs": GRAPHS,
        "quick": options.quick,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine.description(),
    }
    print(json.dumps(result))
    return 0


def needed(clients: int, colluding: float, silent: float, *, liar: bool) -> tuple[int, int]:
    """Returns the fewest neighbours, an even number, and the threshold that goes with them."""
    others = clients - 1
    bad, gone = round(colluding * clients), round(silent * clients)
    for neighbours in range(2, others, 2):
        most = most_of(others, bad, neighbours, CHANCE_OF_LEAK / clients)
        left = neighbours - most_of(others, gone, neighbours, CHANCE_OF_LOSS / clients)
        least = (neighbours + 1 + most) // 2 + 1 if liar else most + 1
        if least <= left:
            return neighbours, least
    raise ValueError(f"No number of neighbours of {clients} clients is enough.")


def most_of(others: int, marked: int, drawn: int, chance: float) -> int:
    """Returns how many marked ones are exceeded with less than this chance."""
    numbers = np.arange(drawn + 1)
    beyond = hypergeom.sf(numbers, others, marked, drawn)
    return int(numbers[beyond < chance][0])


def hangs_together(
    clients: int, neighbours: int, out: float, generator: np.random.Generator
) -> bool:
    """Draws a graph of rings, and returns whether those who are left in it are one part."""
    orders = [generator.permutation(clients) for _ in range(neighbours // 2)]
    one = np.concatenate(orders)
    other = np.concatenate([np.roll(order, 1) for order in orders])
    left = np.ones(clients, dtype=bool)
    left[generator.choice(clients, round(out * clients), replace=False)] = False
    kept = left[one] & left[other]
    edges = (np.ones(kept.sum()), (one[kept], other[kept]))
    parts, _ = connected_components(coo_matrix(edges, shape=(clients, clients)), directed=False)
    return int(parts - (~left).sum()) == 1


if __name__ == "__main__":
    sys.exit(main())
