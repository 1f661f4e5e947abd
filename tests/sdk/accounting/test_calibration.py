"""Noise that keeps a target, and hardly more."""

from __future__ import annotations

import math

import pytest
from hushdoc_builders import run_of, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc.accounting import calibration, gdp, pld, rdp
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    HashFill,
    Mechanism,
)


def spent(noise: float, *, delta: float, sampling_rate: float, steps: int) -> float:
    return rdp.epsilon(run_of(sampling_rate, noise, steps), delta)


@settings(deadline=None, max_examples=12)
@given(
    st.floats(0.05, 100),
    st.floats(1e-9, 1e-2),
    st.floats(1e-3, 1.0),
    st.integers(1, 100_000),
)
def test_the_target_is_kept_and_hardly_more(
    epsilon: float, delta: float, sampling_rate: float, steps: int
) -> None:
    arguments = {"delta": delta, "sampling_rate": sampling_rate, "steps": steps}
    noise = calibration.noise_multiplier(epsilon=epsilon, **arguments)
    assert spent(noise, **arguments) <= epsilon
    assert spent(noise * (1 - 1e-4), **arguments) > epsilon


@pytest.mark.parametrize(("delta", "expected"), [(1 / 149, 1.4204), (1e-5, 1.8983)])
def test_document_unit_of_funsd(delta: float, expected: float) -> None:
    """The exact (PLD) accountant needs 1.30 and 1.79; what RDP certifies needs more."""
    found = calibration.noise_multiplier(epsilon=8, delta=delta, sampling_rate=1 / 7, steps=350)
    assert found == pytest.approx(expected, abs=2e-4)


def test_a_huge_target_needs_next_to_nothing() -> None:
    found = calibration.noise_multiplier(epsilon=1e9, delta=0.5, sampling_rate=1e-6, steps=1)
    assert 0 < found < 0.01


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", math.inf),
        ("epsilon", math.nan),
        ("delta", 0.0),
        ("delta", 1.0),
        ("sampling_rate", 0.0),
        ("sampling_rate", 1.5),
        ("steps", 0),
        ("steps", 2.5),
        ("steps", True),
    ],
)
def test_wrong_arguments_are_named(name: str, value: float) -> None:
    arguments = {"epsilon": 8.0, "delta": 1e-5, "sampling_rate": 0.1, "steps": 10, name: value}
    with pytest.raises(ValueError, match=name):
        calibration.noise_multiplier(**arguments)  # type: ignore[arg-type]


def test_a_sampling_rate_may_be_one() -> None:
    given = {"epsilon": 8.0, "delta": 1e-5, "steps": 10}
    assert calibration.noise_multiplier(**given, sampling_rate=1.0) > 0
    with pytest.raises(ValueError, match=r"rate is 1\.5; expected more than 0 and at most 1\."):
        calibration.noise_multiplier(**given, sampling_rate=1.5)


def test_a_target_that_no_noise_reaches_is_said_so() -> None:
    with pytest.raises(ValueError, match="No noise multiplier"):
        calibration.noise_multiplier(epsilon=1e-9, delta=1e-12, sampling_rate=1.0, steps=1)


@pytest.mark.parametrize(("delta", "expected"), [(1 / 149, 1.30), (1e-5, 1.79)])
def test_the_exact_accountant_needs_less_noise(delta: float, expected: float) -> None:
    arguments = {"delta": delta, "sampling_rate": 1 / 7, "steps": 350}
    found = calibration.noise_multiplier(epsilon=8, accountant="pld", **arguments)
    assert found == pytest.approx(expected, abs=0.005)
    assert pld.epsilon(run_of(1 / 7, found, 350), delta) <= 8
    assert found < calibration.noise_multiplier(epsilon=8, **arguments)


def sampled_clients(noise: float) -> Mechanism:
    step = ClusterSampled(sampling_rate=0.5, event=sampled(2 / 7, noise))
    return Composed(event=step, count=350)


def providers(noise: float) -> Mechanism:
    step = ClusterSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=noise))
    return Composed(event=step, count=10)


def test_noise_for_a_true_eight_in_federated_training() -> None:
    found = calibration.calibrated(sampled_clients, epsilon=8, delta=1 / 389)
    assert found == pytest.approx(1.84, abs=0.005)
    found = calibration.calibrated(providers, epsilon=8, delta=1e-5)
    assert found == pytest.approx(1.204, abs=0.001)


@pytest.mark.parametrize("accountant", calibration.CALIBRATING_ACCOUNTANTS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_any_mechanism_is_calibrated_to_what_the_same_bound_proves(
    accountant: str, adjacency: str
) -> None:
    def make(noise: float) -> Mechanism:
        return Gaussian(noise_multiplier=noise)

    found = calibration.calibrated(
        make, epsilon=1, delta=1e-5, accountant=accountant, adjacency=adjacency
    )
    ask = {"pld": pld.epsilon, "rdp": rdp.epsilon}[accountant]
    assert ask(make(found), 1e-5, adjacency=adjacency) <= 1
    assert ask(make(found * 0.999), 1e-5, adjacency=adjacency) > 1
    distance = 2 if adjacency == "replace-one" else 1
    exact = gdp.gaussian_epsilon(distance / found, 1e-5)
    assert exact <= 1
    if accountant == "pld":
        assert exact > 0.999


def test_an_unknown_accountant_is_named() -> None:
    with pytest.raises(ValueError, match="gdp-clt"):
        calibration.calibrated(providers, epsilon=1, delta=1e-5, accountant="gdp-clt")


def test_what_no_noise_helps_is_said_so() -> None:
    with pytest.raises(ValueError, match="No noise multiplier"):
        calibration.calibrated(
            lambda _: HashFill(rows=1, columns=1), epsilon=1, delta=1e-5, accountant="rdp"
        )
