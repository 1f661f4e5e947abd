"""The best of several runs against dp-accounting, and where the number of runs is extreme."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as theirs
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import (
    REPETITIONS,
    Composed,
    Gaussian,
    Mechanism,
    PoissonSampled,
    RepeatAndSelect,
)

SHAPES = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}


def run_of(noise: float, steps: int) -> Mechanism:
    step = PoissonSampled(sampling_rate=1 / 7, event=Gaussian(noise_multiplier=noise))
    return Composed(event=step, count=steps)


FUNSD = run_of(1.5013, 350)


def best(event: Mechanism, distribution: str, runs: float) -> Mechanism:
    return RepeatAndSelect(event=event, distribution=distribution, expected_runs=runs)


@pytest.mark.parametrize("distribution", REPETITIONS)
@pytest.mark.parametrize("runs", [1.5, 10.0, 1000.0])
@pytest.mark.parametrize("noise", [1.5013, 6.0])
def test_it_is_dp_accounting(distribution: str, runs: float, noise: float) -> None:
    event = run_of(noise, 350)
    orders = np.asarray(rdp.ORDERS)
    expected = theirs._compute_rdp_repeat_and_select(
        orders, rdp.rdp(event), runs, SHAPES[distribution]
    )
    found = rdp.rdp(best(event, distribution, runs))
    epsilon = theirs.compute_epsilon(orders, expected, 1e-5)[0]
    assert rdp.epsilon_from_rdp(found, 1e-5) == pytest.approx(epsilon, rel=2e-3)
    # Theirs converts with more care where a run is nearly private at once.
    assert (found <= expected * 1.01).all()


@pytest.mark.parametrize(
    ("distribution", "whole_orders", "all_orders"),
    [("logarithmic", 13.4, 12.80), ("geometric", 15.9, 14.02), ("poisson", 19.5, 17.70)],
)
def test_best_of_ten_runs_of_funsd(
    distribution: str, whole_orders: float, all_orders: float
) -> None:
    """Whole orders alone cost half an epsilon and more; ten runs that are all used cost 38.7."""
    mechanism = best(FUNSD, distribution, 10.0)
    orders = [float(order) for order in range(2, 65)]
    coarse = rdp.epsilon_from_rdp(rdp.rdp(mechanism, orders), 1 / 389, orders)
    assert coarse == pytest.approx(whole_orders, abs=0.05)
    assert rdp.epsilon(mechanism, 1 / 389) == pytest.approx(all_orders, abs=0.01)
    assert rdp.epsilon(mechanism, 1 / 389) < pld.epsilon(Composed(event=FUNSD, count=10), 1 / 389)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(REPETITIONS), st.floats(1, 1e6), st.floats(1, 10), st.floats(1e-9, 1e-2))
def test_more_runs_cost_more_and_one_costs_at_least_the_run(
    distribution: str, runs: float, factor: float, delta: float
) -> None:
    event = run_of(3.0, 100)
    here = rdp.epsilon(best(event, distribution, runs), delta)
    assert here >= rdp.epsilon(event, delta) * (1 - 1e-9)
    assert here <= rdp.epsilon(best(event, distribution, runs * factor), delta) * (1 + 1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("distribution", REPETITIONS)
@pytest.mark.parametrize("runs", [1.0, 1 + 1e-15, 1e100, 1e308])
def test_extreme_numbers_of_runs(distribution: str, runs: float) -> None:
    for event in (FUNSD, run_of(0.0, 3), run_of(1e300, 3)):
        found = rdp.rdp(best(event, distribution, runs))
        assert not np.isnan(found).any()
        assert (found >= rdp.rdp(event) * (1 - 1e-9)).all()


def test_nothing_can_be_selected_from_what_reads_nothing() -> None:
    assert rdp.epsilon(best(run_of(1.0, 0), "poisson", 9.0), 0.0) == 0
