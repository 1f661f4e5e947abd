"""The PLD accountant against three others, exact curves, the published figures, its boundaries."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hushdoc_builders import run_of, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

from hushdoc.accounting import gdp, pld, rdp
from hushdoc.accounting.loss_bounds import Bounds
from hushdoc.accounting.mechanism import (
    ADJACENCIES,
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    HashFill,
    Mechanism,
    Parallel,
    RepeatAndSelect,
    Sequence,
    WithoutReplacement,
)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

FUNSD_NOISE, FUNSD_DELTA = 1.5013, 1 / 389


def federated(share: float, noise: float) -> Mechanism:
    """FeAm-DP on FUNSD as it is: which clients take part is public."""
    step = ClusterSampled(sampling_rate=share, event=sampled(1 / 7 / share, noise))
    return Composed(event=step, count=350)


DELTAS = (1e-7, 1e-5, 1 / 389)
GRID = list(
    itertools.product((1e-3, 0.01, 0.05, 1 / 7, 0.5, 1.0), (0.6, 1.0, 2.0, 5.0), (1, 30, 500))
)
SLOW = [(rate, noise, 10_000) for rate, noise, steps in GRID if steps == 1]
ENDS, BETWEEN = (1e-3, 1 / 7, 1.0), (0.01, 0.05, 0.5)


def oracle(rate: float, noise: float, steps: int, interval: float) -> dict[float, float]:
    gaussian = dp_accounting.GaussianDpEvent(noise)
    step = dp_accounting.PoissonSampledDpEvent(rate, gaussian)
    accountant = PLDAccountant(value_discretization_interval=interval)
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    return {delta: accountant.get_epsilon(delta) for delta in DELTAS}


def hold_against_dp_accounting(rate: float, noise: float, steps: int) -> int:
    """Never below the pessimistic answer, however fine, and within 1 % of it."""
    ours = {delta: pld.epsilon(run_of(rate, noise, steps), delta) for delta in DELTAS}
    used = {delta: found for delta, found in ours.items() if 0.02 < found < 40}
    if not used:
        return 0
    # Its error in each step is about interval^2 / 12 times the order of the best Renyi bound.
    interval = min(
        math.sqrt(2.4e-4 * found / (steps * (1 + 2 * math.log(1 / delta) / found)))
        for delta, found in used.items()
    )
    for fineness in (1, 4, 16, 64):
        theirs = oracle(rate, noise, steps, interval / fineness)
        if all(found >= theirs[delta] for delta, found in used.items()):
            break
    for delta, found in used.items():
        assert theirs[delta] <= found <= 1.01 * theirs[delta]
    return len(used)


@pytest.mark.parametrize("noise", sorted({noise for _, noise, _ in GRID}))
@pytest.mark.parametrize("steps", [1, 30, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "rates", [ENDS, pytest.param(BETWEEN, marks=pytest.mark.slow)], ids=["ends", "between"]
)
def test_it_is_dp_accounting_from_above(noise: float, steps: int, rates: tuple[float, ...]) -> None:
    settings = [
        setting for setting in GRID if setting[0] in rates and setting[1:] == (noise, steps)
    ]
    assert sum(hold_against_dp_accounting(*setting) for setting in settings) >= 2


def test_that_grid_is_large_enough() -> None:
    assert len(GRID) * len(DELTAS) >= 200


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "noise", "steps"), SLOW)
def test_it_is_dp_accounting_from_above_for_many_steps(
    rate: float, noise: float, steps: int
) -> None:
    hold_against_dp_accounting(rate, noise, steps)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [(0.01, 1.0, 1000, 1e-5), (0.05, 2.0, 500, 1e-6), (0.2, 3.0, 100, 1e-5)],
)
def test_bounds_meet_those_of_prv_accountants(
    rate: float, noise: float, steps: int, delta: float
) -> None:
    found = pld.bounds(run_of(rate, noise, steps), delta)
    accountant = PRVAccountant(
        prvs=[PoissonSubsampledGaussianMechanism(rate, noise)],
        max_self_compositions=[steps],
        eps_error=0.01,
        delta_error=delta / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(delta, [steps])
    assert found.upper <= upper
    assert found.upper >= lower
    opacus = pytest.importorskip("opacus.accountants").PRVAccountant()
    opacus.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found.upper == pytest.approx(opacus.get_epsilon(delta), abs=0.011)


@pytest.mark.parametrize("noise", [0.5, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.05])
@pytest.mark.parametrize("steps", [1, 100])
def test_plain_gaussians_are_the_analytic_gaussian(noise: float, delta: float, steps: int) -> None:
    mechanism = Composed(event=Gaussian(noise_multiplier=noise * math.sqrt(steps)), count=steps)
    exact = gdp.gaussian_epsilon(1 / noise, delta)
    found = pld.bounds(mechanism, delta)
    assert found.lower <= exact <= found.upper <= exact * 1.0005


@pytest.mark.parametrize(("rate", "noise"), [(0.2, 0.771484375), (1000 / 4149, 0.83251953125)])
def test_published_rows_of_provider_privacy(rate: float, noise: float) -> None:
    """7.98 is printed; the PRV accountant's own bounds are 7.984 and 7.979 give or take 1e-3."""
    found = pld.bounds(run_of(rate, noise, 10), 1e-5)
    assert 7.975 <= found.lower <= found.upper <= 7.99
    assert found.upper - found.lower < 2e-3


@pytest.mark.parametrize(
    ("share", "noise", "expected"),
    [
        (1.0, FUNSD_NOISE, 7.00),
        (1.0, FUNSD_NOISE * math.sqrt(1 / 2), 12.8),
        (0.5, FUNSD_NOISE, 10.98),
        (0.5, FUNSD_NOISE * math.sqrt(1 / 2), 19.7),
        (0.5, FUNSD_NOISE * math.sqrt(3 / 4), 13.9),
        (0.5, FUNSD_NOISE * math.sqrt(7 / 8), 12.2),
        (0.5, FUNSD_NOISE / 2, 38.3),
        (0.5, FUNSD_NOISE / math.sqrt(8), 80.4),
        (0.5, 1.84, 8.01),
    ],
)
def test_sampled_clients(share: float, noise: float, expected: float) -> None:
    """Released model, against colluding clients, and for a server, K and C as published."""
    found = pld.bounds(federated(share, noise), FUNSD_DELTA)
    assert found.upper == pytest.approx(expected, abs=0.051)
    assert found.lower > found.upper * 0.99


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 7.0), (2, 18.5), (3, 33.9), (4, 53.1), (8, 167.5)]
)
def test_documents_of_several_chunks(size: int, expected: float) -> None:
    chunks = Grouped(size=size, event=run_of(1 / 7, FUNSD_NOISE, 350))
    found = pld.bounds(chunks, FUNSD_DELTA)
    assert found.upper == pytest.approx(expected, abs=0.06)
    assert found.lower > found.upper * 0.999


# Exact curves of one step. Where the likelihood ratio grows with the sum, the best test is a
# threshold, found here by bisection in plain Python.


def tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


def binomial(size: int, rate: float) -> list[float]:
    return [math.comb(size, b) * rate**b * (1 - rate) ** (size - b) for b in range(size + 1)]


def curve(
    present: list[tuple[float, float]], absent: list[tuple[float, float]], noise: float
) -> Callable[[float], float]:
    """The hockey-stick curve of two mixtures ((weight, mean), ...) whose ratio grows."""

    def mass(parts: list[tuple[float, float]], x: float) -> float:
        return math.fsum(w * tail((x - m) / noise) for w, m in parts)

    def density(parts: list[tuple[float, float]], x: float) -> float:
        return math.fsum(w * math.exp((2 * x * m - m * m) / (2 * noise**2)) for w, m in parts)

    def delta(epsilon: float) -> float:
        low, high = -60 * noise, 60 * noise + 10
        for _ in range(200):
            x = (low + high) / 2
            above = density(present, x) > math.exp(epsilon) * density(absent, x)
            low, high = (low, x) if above else (x, high)
        return max(0.0, mass(present, low) - math.exp(epsilon) * mass(absent, low))

    return delta


def reversed_curve(forward: Callable[[float], float]) -> Callable[[float], float]:
    """D_t(Q || P) = 1 - t + t D_(1/t)(P || Q)."""
    return lambda epsilon: 1 - math.exp(epsilon) * (1 - forward(-epsilon))


# The corners and the middle; slowly the edges too.
ONE_STEP = [
    pytest.param(
        rate, noise, size, marks=[pytest.mark.slow] if (rate == 0.2) != (noise == 1.5) else []
    )
    for rate in (0.01, 0.2, 0.7)
    for noise in (0.6, 1.5, 6.0)
    for size in (1, 2, 5)
]


@pytest.mark.parametrize(("rate", "noise", "size"), ONE_STEP)
@pytest.mark.parametrize("epsilon", [0.05, pytest.param(0.5, marks=pytest.mark.slow), 2.0])
def test_one_step_is_its_exact_curve(rate: float, noise: float, size: int, epsilon: float) -> None:
    weights = binomial(size, rate)
    removed = curve([(w, float(b)) for b, w in enumerate(weights)], [(1.0, 0.0)], noise)
    exact = max(removed(epsilon), reversed_curve(removed)(epsilon))
    mechanism = Grouped(size=size, event=sampled(rate, noise))
    if exact < 1e-9:  # Differences of doubles are no oracle there.
        assert pld.delta(mechanism, epsilon) < 2e-9
        return
    assert exact * (1 - 1e-9) <= pld.delta(mechanism, epsilon) <= exact * 1.005
    bounds = pld.bounds(mechanism, exact)
    assert bounds.lower <= epsilon * (1 + 1e-9)
    assert epsilon * (1 - 1e-9) <= bounds.upper <= epsilon * 1.001
    clustered = ClusterSampled(sampling_rate=0.3, event=mechanism)
    expected = 0.3 * exact
    if size == 1:
        assert expected * (1 - 1e-9) <= pld.delta(clustered, epsilon) <= expected * 1.005


@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("noise", [1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_one_replaced_record(rate: float, noise: float, epsilon: float) -> None:
    """In samples of a fixed size everybody else may be the opposite of the record: exact then."""
    fixed = curve([(1 - rate, -1.0), (rate, 1.0)], [(1.0, -1.0)], noise)(epsilon)
    batch = WithoutReplacement(
        population=100, sample_size=round(100 * rate), event=Gaussian(noise_multiplier=noise)
    )
    found = pld.delta(batch, epsilon, adjacency="replace-one")
    assert fixed * (1 - 1e-9) <= found <= fixed * 1.005 + 1e-12
    poisson = curve([(1 - rate, 0.0), (rate, 1.0)], [(1 - rate, 0.0), (rate, -1.0)], noise)(epsilon)
    found = pld.delta(sampled(rate, noise), epsilon, adjacency="replace-one")
    assert (
        poisson * (1 - 1e-9) <= found <= pld.delta(batch, epsilon, adjacency="replace-one") * 1.01
    )


def test_replaced_records_over_several_steps() -> None:
    """A lower bound by brute force: cells of sums, their losses rounded down, convolved."""
    rate, noise, steps, spacing = 0.2, 1.5, 6, 0.01
    edges = np.linspace(-10, 10, 40_001)
    upper_tail = np.asarray([[tail((x - m) / noise) for x in edges] for m in (-1, 0, 1)])
    minus, zero, plus = -np.diff(upper_tail, axis=1)
    first, second = (1 - rate) * zero + rate * plus, (1 - rate) * zero + rate * minus
    place = np.floor(np.log(first / second) / spacing).astype(int)
    distribution = np.bincount(place - place.min(), weights=first)
    total = distribution
    for _ in range(steps - 1):
        total = np.convolve(total, distribution)
    losses = (steps * place.min() + np.arange(len(total))) * spacing
    mechanism = run_of(rate, noise, steps)
    for epsilon in (0.2, 1.0, 2.5):
        above = losses > epsilon
        least = float(total[above] @ -np.expm1(epsilon - losses[above]))
        found = pld.delta(mechanism, epsilon, adjacency="replace-one")
        assert least <= found <= 2.5 * least


def test_a_replaced_record_costs_less_than_two_steps_over_the_data_without_it() -> None:
    mechanism = run_of(1 / 7, FUNSD_NOISE, 350)
    both = pld.epsilon(mechanism, FUNSD_DELTA, adjacency="replace-one")
    one = pld.epsilon(mechanism, FUNSD_DELTA / (1 + math.exp(both / 2)))
    assert both <= 2 * one
    assert both > 2 * pld.epsilon(mechanism, FUNSD_DELTA)


# Properties


RUNS = st.tuples(st.floats(1e-3, 1), st.floats(0.5, 20), st.integers(1, 2000))
SLACK = 1 + 2e-3
"""Every answer is at most this much above the smallest; two grids differ by less."""


@settings(deadline=None, max_examples=10)
@given(RUNS, st.floats(1e-10, 0.1), st.floats(1.05, 3))
def test_it_only_grows_with_what_costs(
    run: tuple[float, float, int], delta: float, factor: float
) -> None:
    rate, noise, steps = run
    here = pld.epsilon(run_of(rate, noise, steps), delta) * SLACK + 1e-9
    assert pld.epsilon(run_of(rate, noise * factor, steps), delta) <= here
    assert pld.epsilon(run_of(rate / factor, noise, steps), delta) <= here
    assert pld.epsilon(run_of(rate, noise, (steps + 1) // 2), delta) <= here
    assert pld.epsilon(run_of(rate, noise, steps), delta * factor) <= here


@settings(deadline=None, max_examples=10)
@given(RUNS, st.floats(1e-10, 0.1))
def test_bounds_are_in_order_and_delta_is_the_inverse(
    run: tuple[float, float, int], delta: float
) -> None:
    mechanism = run_of(*run)
    found = pld.bounds(mechanism, delta)
    assert 0 <= found.lower <= found.upper <= rdp.epsilon(mechanism, delta)
    assert pld.epsilon(mechanism, delta) == found.upper
    assert pld.holds(mechanism, found.upper, delta)
    assert pld.delta(mechanism, found.upper * SLACK + 1e-6) <= delta * 1.05


@settings(deadline=None, max_examples=10)
@given(RUNS, RUNS, st.floats(1e-8, 1e-2))
def test_a_sequence_has_no_order_and_costs_at_most_its_parts(
    first: tuple[float, float, int], second: tuple[float, float, int], delta: float
) -> None:
    parts = (run_of(*first), run_of(*second))
    here = pld.epsilon(Sequence(events=parts), delta)
    assert pld.epsilon(Sequence(events=parts[::-1]), delta) == pytest.approx(here, rel=1e-6)
    apart = sum(pld.epsilon(part, delta / 2) for part in parts)
    assert here <= apart * SLACK + 1e-9
    assert here * SLACK + 1e-9 >= max(pld.epsilon(part, delta) for part in parts)


def test_steps_of_steps_are_steps() -> None:
    nested = Composed(event=Composed(event=sampled(0.1, 1.0), count=5), count=4)
    assert pld.epsilon(nested, 1e-5) == pld.epsilon(run_of(0.1, 1.0, 20), 1e-5)


def test_a_poisson_sample_of_everything_is_the_plain_gaussian() -> None:
    plain = Composed(event=Gaussian(noise_multiplier=5.0), count=20)
    found = pld.epsilon(plain, 1e-5)
    assert pld.epsilon(run_of(1.0, 5.0, 20), 1e-5) == found
    assert pld.epsilon(run_of(1 - 1e-9, 5.0, 20), 1e-5) == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(("noise", "steps"), [(0.7, 1), (4.0, 15), (4.0, 400), (20.0, 400)])
def test_full_batches_are_one_gaussian_of_all_their_steps(noise: float, steps: int) -> None:
    """Balle and Wang 2018, theorem 8, of sensitivity one and noise / sqrt(steps)."""
    mu = math.sqrt(steps) / noise
    for epsilon in (0.3 * mu, mu, mu * mu / 2 + mu):
        raised = math.log(tail(epsilon / mu + mu / 2)) + epsilon
        exact = tail(epsilon / mu - mu / 2) - math.exp(raised)
        if exact < 1e-9:  # differences of doubles are no oracle there
            continue
        assert pld.epsilon(run_of(1.0, noise, steps), exact) == pytest.approx(epsilon, rel=1e-3)
        assert pld.epsilon(run_of(1.0, noise, steps), exact) >= epsilon * (1 - 1e-9)


# Events


def test_disjoint_parts_cost_as_much_as_the_largest() -> None:
    small, large = run_of(0.05, 2.0, 100), run_of(0.2, 1.0, 50)
    expected = pld.epsilon(large, 1e-5)
    assert pld.epsilon(Parallel(events=(small, large)), 1e-5) == expected
    after = Sequence(events=(Parallel(events=(small, large)), Gaussian(noise_multiplier=9.0)))
    whole = Sequence(events=(large, Gaussian(noise_multiplier=9.0)))
    assert pld.epsilon(after, 1e-5) == pytest.approx(pld.epsilon(whole, 1e-5), rel=1e-9)
    again = Composed(event=Parallel(events=(sampled(0.05, 1.0), sampled(0.2, 1.0))), count=50)
    assert pld.epsilon(again, 1e-5) == pytest.approx(expected, rel=1e-9)


def test_a_replaced_record_may_change_two_parts() -> None:
    both = Parallel(events=(sampled(0.1, 2.0), sampled(0.1, 1.0)))
    assert pld.epsilon(both, 1e-5, adjacency="replace-one") == math.inf


def test_the_size_of_a_fixed_batch_is_public_only_where_records_are_replaced() -> None:
    batch = WithoutReplacement(population=100, sample_size=10, event=Gaussian(noise_multiplier=1.0))
    assert pld.epsilon(batch, 1e-5) == math.inf
    assert 0 < pld.epsilon(batch, 1e-5, adjacency="replace-one") < 7
    everybody = WithoutReplacement(
        population=9, sample_size=9, event=Gaussian(noise_multiplier=4.0)
    )
    assert pld.epsilon(everybody, 1e-5, adjacency="replace-one") == pytest.approx(
        gdp.gaussian_epsilon(0.5, 1e-5), rel=1e-3
    )


def test_zero_out_is_add_remove_for_these_sums() -> None:
    mechanism = run_of(0.1, 1.0, 20)
    assert pld.epsilon(mechanism, 1e-5, adjacency="zero-out") == pld.epsilon(mechanism, 1e-5)


def test_what_has_no_distribution_of_losses_is_answered_by_renyi() -> None:
    tuned = RepeatAndSelect(
        event=run_of(0.1, 2.0, 50), distribution="geometric", expected_runs=10.0
    )
    assert pld.bounds(tuned, 1e-5) == Bounds(lower=0.0, upper=rdp.epsilon(tuned, 1e-5))
    again = Composed(event=Parallel(events=(run_of(0.1, 1.0, 9), tuned)), count=2)
    assert pld.epsilon(again, 1e-5) == rdp.epsilon(again, 1e-5)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_made_up_weights_never_have_an_epsilon(adjacency: str) -> None:
    filled = Sequence(events=(HashFill(rows=8, columns=3), Gaussian(noise_multiplier=9.0)))
    assert pld.epsilon(filled, 0.5, adjacency=adjacency) == math.inf
    assert pld.delta(filled, 100.0, adjacency=adjacency) == 1
    assert not pld.holds(filled, 1e6, 0.5, adjacency=adjacency)


def test_a_term_that_may_be_everywhere_has_no_bound() -> None:
    adjacency = "all-occurrences-of-one-term"
    assert pld.epsilon(run_of(0.1, 1.0, 2), 1e-5, adjacency=adjacency) == math.inf
    assert pld.epsilon(run_of(0.1, 1.0, 0), 1e-5, adjacency=adjacency) == 0


# Proof


def test_a_near_claim_is_proven_by_a_finer_grid() -> None:
    mechanism = run_of(0.2, 2.0, 300)
    coarse = pld.bounds(mechanism, 1e-5)
    claim = coarse.lower + 0.6 * (coarse.upper - coarse.lower)
    assert claim < coarse.upper
    assert pld.holds(mechanism, coarse.upper - 0.1 * (coarse.upper - coarse.lower), 1e-5)
    assert not pld.holds(mechanism, coarse.lower * 0.9999, 1e-5)
    assert not pld.holds(mechanism, coarse.lower / 2, 1e-5)


def test_a_claim_below_the_exact_gaussian_is_never_proven() -> None:
    exact = gdp.gaussian_epsilon(1.0, 1e-5)
    assert pld.holds(Gaussian(noise_multiplier=1.0), exact * 1.00001, 1e-5)
    assert not pld.holds(Gaussian(noise_multiplier=1.0), exact * 0.999999, 1e-5)


# Boundaries


def test_delta_at_its_ends() -> None:
    mechanism = run_of(0.5, 1.0, 10)
    assert pld.epsilon(mechanism, 0.0) == math.inf
    assert pld.epsilon(mechanism, 1.0) == 0
    for wrong in (-0.1, 1.1, math.nan):
        for ask in (pld.epsilon, pld.bounds):
            with pytest.raises(ValueError, match="delta"):
                ask(mechanism, wrong)
        with pytest.raises(ValueError, match="delta"):
            pld.holds(mechanism, 1.0, wrong)


def test_epsilon_at_its_ends() -> None:
    mechanism = run_of(0.5, 1.0, 10)
    assert pld.delta(mechanism, math.inf) == pytest.approx(0, abs=1e-300)
    assert 0.5 < pld.delta(mechanism, 0.0) < 1
    for wrong in (-0.1, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            pld.delta(mechanism, wrong)
        with pytest.raises(ValueError, match="epsilon"):
            pld.holds(mechanism, wrong, 1e-5)


def test_an_unknown_adjacency_is_refused() -> None:
    for ask in (pld.epsilon, pld.bounds, pld.delta, rdp.epsilon):
        with pytest.raises(ValueError, match="adjacency"):
            ask(run_of(0.5, 1.0, 1), 0.1, adjacency="swap")


@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.5])
def test_what_reads_nothing_spends_nothing(delta: float) -> None:
    for nothing in (run_of(0.0, 0.0, 10), run_of(0.5, 0.0, 0), Sequence(events=())):
        assert pld.bounds(nothing, delta) == Bounds(lower=0.0, upper=0.0)
        assert pld.delta(nothing, 0.0) == 0
        assert pld.holds(nothing, 0.0, delta)


@pytest.mark.parametrize("noise", [0.0, 1e-200, 1e-5])
def test_no_noise_means_no_bound_worth_the_name(noise: float) -> None:
    assert pld.epsilon(run_of(0.5, noise, 10), 1e-5) > 1e9
