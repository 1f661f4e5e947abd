"""A federated run that is attacked: the published epsilon of FeAm-DP is refuted by counting.

The data set is the worst case: one window's gradient has the clipping norm, all others are zero.
Whoever receives the model after every round and knows who took part (which is public) adds up
likelihood ratios of the sums and guesses whether the window was there.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

CLIENTS, CLIENT_RATE = 4, 0.5
RUNS_WITH, RUNS_WITHOUT = 30_000, 600_000
CONFIDENCE = 0.999


def scores(
    figures: ModuleType, runs: int, *, present: bool, random: np.random.Generator
) -> NDArray[np.float32]:
    """Log-likelihood ratios of whole runs.

    Only rounds in which the window's client takes part say anything, so how many there are is
    drawn first, and a run takes part in the simulation for as many rounds.
    """
    noise, rate = figures.FUNSD_NOISE, figures.FUNSD_RATE / CLIENT_RATE
    rounds = np.sort(random.binomial(figures.FUNSD_STEPS, CLIENT_RATE, runs))[::-1]
    found = np.zeros(runs, np.float32)
    for played in range(1, int(rounds[0]) + 1):
        left = int(np.searchsorted(-rounds, -played, side="right"))
        sums = random.standard_normal(left, np.float32) * np.float32(noise)
        if present:
            sums += random.random(left, np.float32) < rate
        ratio = np.exp((2 * sums - 1) / np.float32(2 * noise**2))
        found[:left] += np.log1p(np.float32(rate) * (ratio - 1))
    return found


def binomial_bound(count: int, runs: int, *, upper: bool) -> float:
    """The exact (Clopper, Pearson 1934) bound on a probability at half of what may fail."""
    miss = (1 - CONFIDENCE) / 2

    def tail(share: float) -> float:
        """P(at most count), or P(at least count)."""
        values = range(count + 1) if upper else range(count)
        total = math.fsum(math.exp(_log_binomial(runs, value, share)) for value in values)
        return total if upper else 1 - total

    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        above = tail(share) < miss if upper else tail(share) > miss
        low, high = (low, share) if above else (share, high)
    return high if upper else low


def _log_binomial(runs: int, value: int, share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0 if value == runs * share else -math.inf
    ways = math.lgamma(runs + 1) - math.lgamma(value + 1) - math.lgamma(runs - value + 1)
    return ways + value * math.log(share) + (runs - value) * math.log1p(-share)


def test_seven_is_refuted(figures: ModuleType) -> None:
    random = np.random.default_rng(20261121)
    pilot = scores(figures, 20_000, present=True, random=random)
    threshold = float(np.quantile(pilot, 0.95))

    present = scores(figures, RUNS_WITH, present=True, random=random)
    absent = scores(figures, RUNS_WITHOUT, present=False, random=random)
    hits, alarms = int(np.sum(present > threshold)), int(np.sum(absent > threshold))
    least_hits = binomial_bound(hits, RUNS_WITH, upper=False)
    most_alarms = binomial_bound(alarms, RUNS_WITHOUT, upper=True)
    lower = math.log((least_hits - figures.FUNSD_DELTA) / most_alarms)

    assert lower > figures.computed()["window"]
    assert lower < figures.computed()["FeAm-DP, 4 clients, model-recipient"]


def test_the_attack_claims_nothing_where_nothing_is_to_be_found(figures: ModuleType) -> None:
    """Both times without the window: no epsilon is refuted."""
    random = np.random.default_rng(7)
    runs = 20_000
    first = scores(figures, runs, present=False, random=random)
    second = scores(figures, runs, present=False, random=random)
    threshold = float(np.quantile(first, 0.9))
    hits, alarms = int(np.sum(first > threshold)), int(np.sum(second > threshold))
    least_hits = binomial_bound(hits, runs, upper=False)
    most_alarms = binomial_bound(alarms, runs, upper=True)
    assert math.log(least_hits / most_alarms) < 0.05
