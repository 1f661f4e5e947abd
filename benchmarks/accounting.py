"""How fast and how tight the accountants are, beside dp-accounting and prv-accountant.

    python benchmarks/accounting.py

Every time is that of a fresh process, or of questions whose answers are not cached. The grid holds
our PLD bound against the pessimistic one of dp-accounting, whose interval is chosen and refined for
each setting until it errs by less than ours: what is left of the gap is ours. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dp_accounting
import machine
import numpy as np
from dp_accounting.pld import PLDAccountant
from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled

RATES = (1e-3, 0.01, 0.05, 1 / 7, 0.5, 1.0)
NOISES = (0.6, 1.0, 2.0, 5.0)
STEPS = (1, 10, 100, 1000, 10_000)
DELTAS = (1e-7, 1e-5, 1 / 389)
SMALLEST, LARGEST = 0.02, 40.0
"""Epsilons of the grid; outside of them nobody states one, and an oracle takes minutes."""

ORACLE_PRECISION = 2e-5
"""Relative error of epsilon that the oracle's interval is chosen for; ours aims at 1e-4."""

REFINEMENTS = 3
"""How often the oracle's interval is divided by four where it is the looser one."""

QUESTION = (1e-2, 1.0, 10_000, 1e-5)
"""The rate, noise, steps and delta that are timed."""

OURS = """
from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
step = PoissonSampled(sampling_rate={0!r}, event=Gaussian(noise_multiplier={1!r}))
pld.epsilon(Composed(event=step, count={2!r}), {3!r})
"""
THEIRS = """
import dp_accounting
from dp_accounting.pld import PLDAccountant
step = dp_accounting.PoissonSampledDpEvent({0!r}, dp_accounting.GaussianDpEvent({1!r}))
accountant = PLDAccountant(value_discretization_interval={4!r})
accountant.compose(dp_accounting.SelfComposedDpEvent(step, {2!r}))
accountant.get_epsilon({3!r})
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Steps of Gaussian noise on Poisson samples."""

    rate: float
    noise: float
    steps: int

    def mechanism(self) -> Mechanism:
        """Returns it in our words."""
        gaussian = Gaussian(noise_multiplier=self.noise)
        step = PoissonSampled(sampling_rate=self.rate, event=gaussian)
        return Composed(event=step, count=self.steps)

    def event(self) -> dp_accounting.DpEvent:
        """Returns it in the words of dp-accounting."""
        gaussian = dp_accounting.GaussianDpEvent(self.noise)
        step = dp_accounting.PoissonSampledDpEvent(self.rate, gaussian)
        return dp_accounting.SelfComposedDpEvent(step, self.steps)


def main() -> int:
    """Measures, and prints the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a minute: every eighth setting")
    options = parser.parse_args()
    gaps = [row for setting in settings(options.quick) for row in compare(setting)]
    relative = [gap for gap, _ in gaps]
    worst = max(gaps, key=lambda row: row[0])
    result = {
        "fast_ms": round(milliseconds(rdp.epsilon), 2),
        "exact_ms": round(milliseconds(pld.epsilon), 2),
        "exact_with_lower_bound_ms": round(milliseconds(pld.bounds), 2),
        "max_relative_gap": float(f"{max(relative):.3g}"),
        "min_relative_gap": float(f"{min(relative):.3g}"),
        "worst": worst[1],
        "grid_size": len(gaps),
        **beside_dp_accounting(runs=3 if options.quick else 9),
        **beside_prv_accountant(),
        "quick": options.quick,
        **machine.dated(),
        "numpy": np.__version__,
    }
    print(json.dumps(result))
    return 0


def settings(quick: bool) -> Iterator[Setting]:
    """Yields the grid."""
    grid = list(itertools.product(RATES, NOISES, STEPS))
    for rate, noise, steps in grid[:: 8 if quick else 1]:
        yield Setting(rate=rate, noise=noise, steps=steps)


def compare(setting: Setting) -> list[tuple[float, str]]:
    """Returns (our epsilon / theirs - 1, what it is about) for each delta."""
    mechanism = setting.mechanism()
    ours = {delta: pld.epsilon(mechanism, delta) for delta in DELTAS}
    used = {delta: found for delta, found in ours.items() if SMALLEST < found < LARGEST}
    if not used:
        return []
    interval = min(fine_interval(found, delta, setting.steps) for delta, found in used.items())
    theirs = oracle(setting, interval)
    for _ in range(REFINEMENTS):
        if all(found >= theirs[delta] for delta, found in used.items()):
            break
        interval /= 4
        theirs = oracle(setting, interval)
    rows = []
    for delta, found in used.items():
        what = f"rate {setting.rate:g}, noise {setting.noise:g}, {setting.steps} steps, {delta:.3g}"
        print(f"{what}: {found:.6f}, dp-accounting {theirs[delta]:.6f}", flush=True)
        rows.append((found / theirs[delta] - 1, what))
    return rows


def oracle(setting: Setting, interval: float) -> dict[float, float]:
    """Returns the pessimistic epsilon of dp-accounting for each delta."""
    accountant = PLDAccountant(value_discretization_interval=interval)
    accountant.compose(setting.event())
    return {delta: accountant.get_epsilon(delta) for delta in DELTAS}


def fine_interval(epsilon: float, delta: float, steps: int) -> float:
    """Returns an interval of losses for ORACLE_PRECISION.

    Connecting the dots adds interval^2 / 12 times the order of the best Renyi bound in each step;
    for a normal loss that order is about 1 + 2 log(1 / delta) / epsilon.
    """
    order = 1 + 2 * math.log(1 / delta) / epsilon
    return math.sqrt(12 * ORACLE_PRECISION * epsilon / (steps * order))


def milliseconds(ask: Any) -> float:
    """Returns the median time of a question that was never asked before."""
    rate, noise, steps, delta = QUESTION
    times = []
    for run in range(9):
        # Another noise each time, so that nothing is cached.
        mechanism = Setting(rate=rate, noise=noise + run / 1000, steps=steps).mechanism()
        began = time.perf_counter()
        ask(mechanism, delta)
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def beside_dp_accounting(runs: int) -> dict[str, float]:
    """Returns how long both take for one question, with all imports, one after the other."""
    rate, noise, steps, delta = QUESTION
    found = pld.epsilon(Setting(rate=rate, noise=noise, steps=steps).mechanism(), delta)
    # What dp-accounting needs to be as tight as ours.
    interval = math.sqrt(5) * fine_interval(found, delta, steps)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(runs):
        for name, code in (("ours", OURS), ("theirs", THEIRS)):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code.format(*QUESTION, interval)], check=True)
            times[name].append(time.perf_counter() - began)
    ours, theirs = statistics.median(times["ours"]), statistics.median(times["theirs"])
    return {
        "seconds_ours": round(ours, 3),
        "seconds_dp_accounting": round(theirs, 3),
        "ratio_to_dp_accounting": round(ours / theirs, 3),
    }


def beside_prv_accountant() -> dict[str, float]:
    """Returns what prv-accountant says to the same question, and how long it takes."""
    rate, noise, steps, delta = QUESTION
    began = time.perf_counter()
    accountant = PRVAccountant(
        prvs=[PoissonSubsampledGaussianMechanism(rate, noise)],
        max_self_compositions=[steps],
        eps_error=0.01,
        delta_error=delta / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(delta, [steps])
    seconds = time.perf_counter() - began
    bounds = pld.bounds(Setting(rate=rate, noise=noise, steps=steps).mechanism(), delta)
    return {
        "epsilon_lower": round(bounds.lower, 5),
        "epsilon_upper": round(bounds.upper, 5),
        "prv_epsilon_lower": round(float(lower), 5),
        "prv_epsilon_upper": round(float(upper), 5),
        "seconds_prv_accountant": round(seconds, 3),
    }


if __name__ == "__main__":
    sys.exit(main())
