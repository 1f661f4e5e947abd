"""The RDP accountant against three others, high precision, and its own boundaries."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from hushdoc_builders import run_of, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import (
    REPETITIONS,
    ClusterSampled,
    Composed,
    Gaussian,
    Mechanism,
    Parallel,
    PoissonSampled,
    RepeatAndSelect,
    Sequence,
    WithoutReplacement,
)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

OPACUS_ORDERS = [1 + x / 10 for x in range(1, 100)] + [float(x) for x in range(12, 64)]


def theirs(*, rate: float, noise: float, steps: int) -> dp_accounting.DpEvent:
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(step, steps)


@lru_cache
def opacus_step(rate: float, noise: float) -> np.ndarray:
    opacus_rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    found = opacus_rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=OPACUS_ORDERS)
    return np.asarray(found)


GRID = [
    (rate, noise, steps)
    for rate in (1e-6, 1e-3, 0.01, 1 / 7, 0.5, 0.99, 1.0)
    for noise in (0.3, 0.7, 1.5, 10.0, 100.0)
    for steps in (1, 350, 1_000_000)
]


@pytest.mark.parametrize(("rate", "noise", "steps"), GRID)
@pytest.mark.parametrize("delta", [1e-9, pytest.param(1e-5, marks=pytest.mark.slow), 1 / 389])
def test_it_is_opacus_with_the_same_orders(
    rate: float, noise: float, steps: int, delta: float
) -> None:
    opacus_rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    spent = steps * opacus_step(rate, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = opacus_rdp.get_privacy_spent(orders=OPACUS_ORDERS, rdp=spent, delta=delta)
    mechanism = run_of(rate, noise, steps)
    own = rdp.rdp(mechanism, OPACUS_ORDERS)
    same_orders = rdp.epsilon_from_rdp(own, delta, OPACUS_ORDERS)
    # Opacus does not know that a delta above the total variation needs no epsilon at all.
    assert same_orders in (0.0, pytest.approx(expected, rel=1e-6))
    assert rdp.epsilon(mechanism, delta) <= same_orders * (1 + 1e-12)


@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [(1 / 7, 1.5, 350), (0.2, 0.77, 10), (1.0, 5.0, 20), (0.01, 0.6, 1000), (1e-3, 0.5, 10_000)],
)
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_it_never_says_less_than_the_exact_accountant(
    rate: float, noise: float, steps: int, delta: float
) -> None:
    event = theirs(rate=rate, noise=noise, steps=steps)
    exact = PLDAccountant(value_discretization_interval=1e-3)
    exact.compose(event)
    renyi = RdpAccountant()
    renyi.compose(event)
    found = rdp.epsilon(run_of(rate, noise, steps), delta)
    assert exact.get_epsilon(delta) <= found
    assert found <= renyi.get_epsilon(delta) * (1 + 1e-3)


@pytest.mark.parametrize(
    "rate",
    [1e-6, 1 / 7, 0.9999, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (1e-3, 0.9))],
)
@pytest.mark.parametrize("noise", [0.3, 1.5, 30.0])
@pytest.mark.parametrize(
    "order",
    [1.001, 2, 2.7, 19.75, *(pytest.param(n, marks=pytest.mark.slow) for n in (1.35, 9.9, 17))],
)
def test_no_order_is_below_the_integral(rate: float, noise: float, order: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(30):
        q, s = mpmath.mpf(rate), mpmath.mpf(noise)
        split = s * s * mpmath.log(1 / q - 1) + 0.5
        points = {-40 * s, mpmath.mpf(0), mpmath.mpf(order), order + 10 * s, order + 40 * s}
        if abs(split) < 40 * s:
            points.add(split)
        twice = 2 * s * s
        exact = mpmath.quad(
            lambda z: (
                mpmath.exp(-z * z / twice)
                * ((1 - q) + q * mpmath.exp((2 * z - 1) / twice)) ** order
            ),
            sorted(points),
        ) / mpmath.sqrt(mpmath.pi * twice)
        expected = float(mpmath.log(exact) / (mpmath.mpf(order) - 1))
    found = float(rdp.rdp(run_of(rate, noise, 1), [order])[0])
    assert found >= expected * (1 - 1e-12)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-10)


def test_the_published_run_of_funsd() -> None:
    """Opacus says 7.998 and the PLD accountant 7.00 for these 389 chunks."""
    found = rdp.epsilon(run_of(1 / 7, 1.50146484375, 350), 1 / 389)
    assert found == pytest.approx(7.994, abs=1e-3)


@pytest.mark.parametrize(
    ("rate", "noise", "expected"),
    [(0.2, 0.771484375, 9.1955), (1000 / 4149, 0.83251953125, 9.1091)],
)
def test_the_published_rows_of_provider_privacy(rate: float, noise: float, expected: float) -> None:
    """Both are 7.98 by PLD at delta 1e-5; RDP alone certifies a seventh more."""
    assert rdp.epsilon(run_of(rate, noise, 10), 1e-5) == pytest.approx(expected, abs=1e-4)


SIGMAS = st.floats(0.3, 100)
RATES = st.floats(1e-6, 1)
STEPS = st.integers(1, 10**6)
DELTAS = st.floats(1e-12, 0.5)


@settings(deadline=None, max_examples=30)
@given(SIGMAS, RATES, STEPS, DELTAS, st.floats(1.01, 3))
def test_it_only_grows_with_what_costs(
    noise: float, rate: float, steps: int, delta: float, factor: float
) -> None:
    here = rdp.epsilon(run_of(rate, noise, steps), delta)
    slack = 1 + 1e-9
    assert rdp.epsilon(run_of(rate, noise * factor, steps), delta) <= here * slack
    assert rdp.epsilon(run_of(rate / factor, noise, steps), delta) <= here * slack
    assert rdp.epsilon(run_of(rate, noise, steps // 2), delta) <= here * slack
    assert rdp.epsilon(run_of(rate, noise, steps), delta / factor) >= here / slack


@pytest.mark.parametrize("noise", [0.5, 2.0, 40.0])
def test_sampling_everything_is_the_plain_gaussian(noise: float) -> None:
    orders = np.asarray(rdp.ORDERS)
    everything = rdp.rdp(run_of(1.0, noise, 7))
    assert everything == pytest.approx(7 * orders / (2 * noise**2), rel=1e-12)
    almost = rdp.rdp(run_of(1 - 1e-12, noise, 7))
    assert almost == pytest.approx(everything, rel=1e-9)


def test_a_vanishing_rate_spends_vanishing_epsilon() -> None:
    found = [rdp.epsilon(run_of(rate, 1.0, 1), 1e-5) for rate in (1e-2, 1e-6, 0)]
    assert found[0] > found[1] == found[2] == 0


@pytest.mark.parametrize("noise", [0.0, 1e-200, 1e-5])
def test_no_noise_means_no_bound_worth_the_name(noise: float) -> None:
    assert rdp.epsilon(run_of(0.5, noise, 10), 1e-5) > 1e9
    assert rdp.epsilon(Gaussian(noise_multiplier=0.0), 1e-5) == math.inf


def test_what_reads_nothing_spends_nothing() -> None:
    for nothing in (
        run_of(0.0, 0.0, 10),
        run_of(0.5, 0.0, 0),
        Sequence(events=()),
        PoissonSampled(sampling_rate=0.5, event=Sequence(events=())),
    ):
        assert rdp.epsilon(nothing, 0.0) == 0
        assert rdp.epsilon(nothing, 1e-5) == 0


@pytest.mark.parametrize(
    "almost_nothing",
    [
        run_of(1e-300, 1.0, 1),
        run_of(5e-324, 1e160, 1),
        PoissonSampled(
            sampling_rate=1e-200,
            event=sampled(1e-200, 1.0),
        ),
        sampled(0.5, 1e300),
        Gaussian(noise_multiplier=1e300),
    ],
)
def test_almost_nothing_is_not_nothing(almost_nothing: Mechanism) -> None:
    """What underflows in double precision still has no finite epsilon at delta 0."""
    assert rdp.epsilon(almost_nothing, 0.0) == math.inf
    assert rdp.epsilon(almost_nothing, 1e-12) == 0


def test_delta_at_its_ends() -> None:
    mechanism = run_of(0.5, 1.0, 10)
    assert rdp.epsilon(mechanism, 0.0) == math.inf
    assert rdp.epsilon(mechanism, 1.0) == 0
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="delta"):
            rdp.epsilon(mechanism, wrong)


def test_orders_must_be_above_one() -> None:
    with pytest.raises(ValueError, match="orders"):
        rdp.rdp(Gaussian(noise_multiplier=1.0), [1.0])


def test_a_sequence_is_the_sum_of_its_parts() -> None:
    first, second = run_of(0.1, 1.0, 5), Gaussian(noise_multiplier=3.0)
    both = rdp.rdp(Sequence(events=(first, second)))
    assert both == pytest.approx(rdp.rdp(first) + rdp.rdp(second))


def test_gaussians_on_one_sample_are_one_gaussian() -> None:
    twice = Composed(event=Gaussian(noise_multiplier=2.0), count=2)
    mixed = Sequence(events=(twice, Gaussian(noise_multiplier=1.0)))
    one = Gaussian(noise_multiplier=1 / math.sqrt(1.5))
    assert rdp.rdp(PoissonSampled(sampling_rate=0.3, event=mixed)) == pytest.approx(
        rdp.rdp(PoissonSampled(sampling_rate=0.3, event=one)), rel=1e-12
    )


def test_a_sample_of_a_sample_is_a_sample() -> None:
    inner = sampled(0.5, 1.0)
    outer = PoissonSampled(sampling_rate=0.4, event=inner)
    assert rdp.rdp(outer) == pytest.approx(rdp.rdp(run_of(0.2, 1.0, 1)))


def test_what_sampling_cannot_be_shown_to_help_is_counted_in_full() -> None:
    steps = run_of(0.5, 1.0, 10)
    assert rdp.rdp(PoissonSampled(sampling_rate=0.01, event=steps)) == pytest.approx(rdp.rdp(steps))


def test_a_smaller_delta_has_a_larger_epsilon() -> None:
    mechanism = run_of(1 / 7, 1.5, 350)
    found = [rdp.epsilon(mechanism, delta) for delta in (1e-6, 1e-5, 1e-3)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("share", [1e-9, 0.3, 0.999])
def test_a_cluster_by_public_public_mixture(share: float) -> None:
    inner = run_of(0.2, 1.0, 1)
    found = rdp.rdp(ClusterSampled(sampling_rate=share, event=inner))
    order = np.asarray(rdp.ORDERS)
    spent = rdp.rdp(inner)
    used = (order - 1) * spent < 600
    expected = np.log1p(share * np.expm1((order - 1)[used] * spent[used])) / (order - 1)[used]
    assert found[used] == pytest.approx(expected, rel=1e-9)
    assert (found <= spent).all()
    assert (found[~used] > 0).all()


def test_disjoint_parts_cost_the_largest_at_each_order() -> None:
    parts = (run_of(0.2, 1.0, 5), Gaussian(noise_multiplier=2.0))
    found = rdp.rdp(Parallel(events=parts))
    assert found == pytest.approx(np.maximum(*(rdp.rdp(part) for part in parts)))
    assert rdp.epsilon(Parallel(events=parts), 1e-5, adjacency="replace-one") == math.inf


def hockey_stick_moment(step: Mechanism, order: float, adjacency: str) -> float:
    """The RDP that follows from the exact accountant's curve, from below."""
    epsilons = np.linspace(0, 4, 33)
    deltas = np.asarray([pld.delta(step, epsilon, adjacency=adjacency) for epsilon in epsilons])
    ratio = np.exp(epsilons)
    weights = (order * (order - 1) * ratio ** (order - 2) * deltas)[1:] * np.diff(ratio)
    return float(np.log1p(np.sum(weights))) / (order - 1)


@pytest.mark.parametrize("order", [2.0, 4.0])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_replaced_records_cost_no_less_than_their_curve(order: float, rate: float) -> None:
    noise = Gaussian(noise_multiplier=2.0)
    batch = WithoutReplacement(population=100, sample_size=round(100 * rate), event=noise)
    for step in (batch, PoissonSampled(sampling_rate=rate, event=noise)):
        found = rdp.rdp(step, [order], adjacency="replace-one")[0]
        assert found >= hockey_stick_moment(step, order, "replace-one") * (1 - 1e-3)
        assert found <= rdp.rdp(noise, [order], adjacency="replace-one")[0]


def test_replacing_a_record_is_twice_the_distance() -> None:
    found = rdp.rdp(Gaussian(noise_multiplier=4.0), adjacency="replace-one")
    assert found == pytest.approx(rdp.rdp(Gaussian(noise_multiplier=2.0)))


def test_delta_from_rdp_is_the_inverse() -> None:
    spent = rdp.rdp(run_of(1 / 7, 1.5, 350))
    for delta in (1e-9, 1e-5, 1e-2):
        epsilon = rdp.epsilon_from_rdp(spent, delta)
        assert rdp.delta_from_rdp(spent, epsilon) == pytest.approx(delta, rel=1e-3)
    assert rdp.delta_from_rdp(spent, 0.0) <= 1
    assert rdp.delta_from_rdp(np.zeros(3), 0.0, [2.0, 3.0, 4.0]) == 0
    assert rdp.delta_from_rdp(np.full(3, math.inf), 5.0, [2.0, 3.0, 4.0]) == 1


# ---- The best of several runs

SHAPES = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}


FUNSD = run_of(1 / 7, 1.5013, 350)


def best(event: Mechanism, distribution: str, runs: float) -> Mechanism:
    return RepeatAndSelect(event=event, distribution=distribution, expected_runs=runs)


@pytest.mark.parametrize("distribution", REPETITIONS)
@pytest.mark.parametrize("runs", [1.5, 10.0, 1000.0])
@pytest.mark.parametrize("noise", [1.5013, 6.0])
def test_selection_is_that_of_dp_accounting(distribution: str, runs: float, noise: float) -> None:
    event = run_of(1 / 7, noise, 350)
    orders = np.asarray(rdp.ORDERS)
    expected = rdp_privacy_accountant._compute_rdp_repeat_and_select(
        orders, rdp.rdp(event), runs, SHAPES[distribution]
    )
    found = rdp.rdp(best(event, distribution, runs))
    epsilon = rdp_privacy_accountant.compute_epsilon(orders, expected, 1e-5)[0]
    assert rdp.epsilon_from_rdp(found, 1e-5) == pytest.approx(epsilon, rel=2e-3)
    # dp-accounting converts more carefully where a run is nearly private at once.
    assert (found <= expected * 1.01).all()


@pytest.mark.parametrize(
    ("distribution", "integer_orders", "all_orders"),
    [("logarithmic", 13.4, 12.80), ("geometric", 15.9, 14.02), ("poisson", 19.5, 17.70)],
)
def test_best_of_ten_runs_of_funsd(
    distribution: str, integer_orders: float, all_orders: float
) -> None:
    """Integer orders alone cost half an epsilon and more; ten runs that are all used cost 38.7."""
    mechanism = best(FUNSD, distribution, 10.0)
    orders = [float(order) for order in range(2, 65)]
    coarse = rdp.epsilon_from_rdp(rdp.rdp(mechanism, orders), 1 / 389, orders)
    assert coarse == pytest.approx(integer_orders, abs=0.05)
    assert rdp.epsilon(mechanism, 1 / 389) == pytest.approx(all_orders, abs=0.01)
    assert rdp.epsilon(mechanism, 1 / 389) < pld.epsilon(Composed(event=FUNSD, count=10), 1 / 389)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(REPETITIONS), st.floats(1, 1e6), st.floats(1, 10), st.floats(1e-9, 1e-2))
def test_more_runs_cost_more_and_one_costs_at_least_the_run(
    distribution: str, runs: float, factor: float, delta: float
) -> None:
    event = run_of(1 / 7, 3.0, 100)
    here = rdp.epsilon(best(event, distribution, runs), delta)
    assert here >= rdp.epsilon(event, delta) * (1 - 1e-9)
    assert here <= rdp.epsilon(best(event, distribution, runs * factor), delta) * (1 + 1e-9)


@pytest.mark.parametrize("distribution", REPETITIONS)
@pytest.mark.parametrize("runs", [1.0, 1 + 1e-15, 1e100, 1e308])
def test_extreme_numbers_of_runs(distribution: str, runs: float) -> None:
    for event in (
        FUNSD,
        run_of(1 / 7, 0.0, 3),
        run_of(1 / 7, 1e300, 3),
    ):
        found = rdp.rdp(best(event, distribution, runs))
        assert not np.isnan(found).any()
        assert (found >= rdp.rdp(event) * (1 - 1e-9)).all()


def test_nothing_can_be_selected_from_what_reads_nothing() -> None:
    assert rdp.epsilon(best(run_of(1 / 7, 1.0, 0), "poisson", 9.0), 0.0) == 0
