"""What an attack's rates say of epsilon, where its auditor gives no bound.

(epsilon, delta)-DP bounds every test: of the shares of members and of non-members that it accuses,
each is at most e^epsilon times the other plus delta, and so are the shares that it doesn't accuse
(Wasserman, Zhou 2010, theorem 2.4; Kairouz, Oh, Viswanath 2015, theorem 2.1). Where the number of
trials is declared, half of them are taken as members and all as independent, and each rate is
bounded by Chernoff's inequality: n KL(found || true) <= log(1 / error) but with that probability,
and KL(q || p) >= (q - p)^2 / (2 max(p, q)) and >= (q - p)^2 / (2 max(1 - p, 1 - q)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

CONFIDENCE = 0.95
"""Probability that all rates of an audit lie within their bounds."""

Comparison = tuple[float, float]
"""A share that epsilon bounds by another: it is at most e^epsilon times that one, plus delta."""


def comparisons(
    rates: Sequence[tuple[float, float]], num_trials: int | None
) -> tuple[Comparison, ...]:
    """Returns what pairs of true and false positive rates compare; pessimistic by their bounds.

    Without `num_trials` the rates are taken as exact.
    """
    found: list[Comparison] = []
    for hits, alarms in rates:
        least_hits, most_hits = bounds(hits, num_trials, len(rates))
        least_alarms, most_alarms = bounds(alarms, num_trials, len(rates))
        found += [
            (least_hits, most_alarms),
            (1 - most_alarms, 1 - least_hits),
            (least_alarms, most_hits),
            (1 - most_hits, 1 - least_alarms),
        ]
    return tuple(found)


def least_epsilon(compared: Iterable[Comparison], delta: float) -> float:
    """Returns the least epsilon that comparisons leave at `delta`, from 0 to infinity."""
    ratios = (
        (above - delta) / below if below > 0 else math.inf
        for above, below in compared
        if above > delta
    )
    return math.log(max(1.0, max(ratios, default=1.0)))


def bounds(share: float, num_trials: int | None, num_pairs: int) -> tuple[float, float]:
    """Returns between which shares the true one lies, of half of so many trials.

    Each of `num_pairs` pairs of rates has four bounds, which share what CONFIDENCE leaves.
    """
    if num_trials == 0:
        return 0.0, 1.0
    error = 0.0
    if num_trials is not None:
        error = math.log(4 * num_pairs / (1 - CONFIDENCE)) / (num_trials / 2)
    return 1 - _most(1 - share, error), _most(share, error)


def _most(share: float, error: float) -> float:
    """The largest share that differs from the found one by so much divergence."""
    above = share + error + math.sqrt(error * (error + 2 * share))
    return min(1.0, above, share + math.sqrt(2 * error * (1 - share)))
