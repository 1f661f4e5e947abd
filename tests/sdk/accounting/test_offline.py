"""dp-accounting as a second implementation: what it confirms, and what it has no words for."""

from __future__ import annotations

import math
import sys
from functools import lru_cache

import pytest

from hushdoc.accounting import offline, pld, rdp
from hushdoc.accounting.mechanism import (
    ADJACENCIES,
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    HashFill,
    Mechanism,
    Parallel,
    PoissonSampled,
    RepeatAndSelect,
    Sequence,
    WithoutReplacement,
)
from hushdoc.errors import MissingExtraError

DELTA = 1e-5
NOISE = Gaussian(noise_multiplier=2.0)
STEP = PoissonSampled(sampling_rate=0.1, event=NOISE)
STEPS = Composed(event=STEP, count=20)
FIXED = Composed(event=WithoutReplacement(population=100, sample_size=10, event=NOISE), count=20)


def tuned(distribution: str) -> RepeatAndSelect:
    return RepeatAndSelect(event=STEPS, distribution=distribution, expected_runs=10.0)


BOTH_BY_PLD: dict[str, Mechanism] = {
    "gaussian": NOISE,
    "repeated gaussian": Composed(event=Gaussian(noise_multiplier=10.0), count=100),
    "one sample": STEP,
    "sampled steps": STEPS,
    "steps of steps": Composed(event=Composed(event=STEP, count=5), count=4),
    "all records": Composed(event=PoissonSampled(sampling_rate=1.0, event=NOISE), count=3),
    "several": Sequence(events=(STEPS, Gaussian(noise_multiplier=5.0))),
}
BOTH_BY_RDP: dict[str, Mechanism] = {name: tuned(name) for name in ("logarithmic", "geometric")}


@lru_cache
def the_library_s(name: str, adjacency: str) -> float | None:
    return offline.epsilon(BOTH_BY_PLD[name], DELTA, adjacency=adjacency)


@pytest.mark.parametrize(
    ("name", "adjacency"),
    [*((name, "add-remove") for name in BOTH_BY_PLD), ("several", "zero-out")],
)
def test_both_exact_engines_agree(name: str, adjacency: str) -> None:
    second = the_library_s(name, adjacency)
    ours = pld.epsilon(BOTH_BY_PLD[name], DELTA, adjacency=adjacency)
    assert second == pytest.approx(ours, rel=2e-3)
    # What the exact engine proves, the second one confirms; and the fast one all the more.
    assert second is not None
    assert second <= ours * (1 + 1e-9)
    assert second <= rdp.epsilon(BOTH_BY_PLD[name], DELTA, adjacency=adjacency)


@pytest.mark.parametrize("name", ["gaussian", "repeated gaussian", "all records"])
def test_both_exact_engines_agree_where_a_record_is_replaced(name: str) -> None:
    second = the_library_s(name, "replace-one")
    ours = pld.epsilon(BOTH_BY_PLD[name], DELTA, adjacency="replace-one")
    assert second == pytest.approx(ours, rel=2e-3)
    # Twice the norm is half the noise: far above the epsilon of adding or removing.
    added = the_library_s(name, "add-remove")
    assert added is not None
    assert second is not None
    assert second > 1.8 * added


@pytest.mark.parametrize("name", ["one sample", "sampled steps", "several"])
def test_replacing_a_sampled_record_lies_within_our_bounds(name: str) -> None:
    second = the_library_s(name, "replace-one")
    added = the_library_s(name, "add-remove")
    assert second is not None
    assert added is not None
    assert added < second <= pld.epsilon(BOTH_BY_PLD[name], DELTA, adjacency="replace-one")


def test_batches_of_a_fixed_size_count_twice_the_norm() -> None:
    """Half the noise multiplier: the library's RDP means the sensitivity, ours the norm."""
    second = offline.epsilon(FIXED, DELTA, adjacency="replace-one")
    unsampled = offline.epsilon(Composed(event=NOISE, count=20), DELTA, adjacency="replace-one")
    assert second is not None
    assert unsampled is not None
    assert second < unsampled / 2
    whole = WithoutReplacement(population=10, sample_size=10, event=NOISE)
    assert offline.epsilon(whole, DELTA, adjacency="replace-one") == pytest.approx(
        rdp.epsilon(NOISE, DELTA, adjacency="replace-one"), rel=1e-3
    )
    assert offline.epsilon(FIXED, DELTA) is None


@pytest.mark.parametrize("name", BOTH_BY_RDP)
def test_the_best_of_several_runs_agrees(name: str) -> None:
    second = offline.epsilon(BOTH_BY_RDP[name], DELTA)
    assert second == pytest.approx(rdp.epsilon(BOTH_BY_RDP[name], DELTA), rel=1e-3)


def test_a_poisson_number_of_runs_agrees() -> None:
    second = offline.epsilon(tuned("poisson"), DELTA)
    assert second == pytest.approx(rdp.epsilon(tuned("poisson"), DELTA), rel=1e-3)


@pytest.mark.parametrize("size", [1, 2])
def test_a_group_agrees(size: int) -> None:
    group = Grouped(size=size, event=Composed(event=STEP, count=3))
    second = offline.epsilon(group, DELTA, interval=1e-2)
    assert second == pytest.approx(pld.epsilon(group, DELTA), rel=0.01)


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (Composed(event=NOISE, count=0), 0.0),
        (Sequence(events=()), 0.0),
        (PoissonSampled(sampling_rate=0.0, event=NOISE), 0.0),
        (Grouped(size=3, event=Composed(event=STEP, count=0)), 0.0),
        (Gaussian(noise_multiplier=0.0), math.inf),
        (PoissonSampled(sampling_rate=0.1, event=Gaussian(noise_multiplier=0.0)), math.inf),
    ],
)
def test_nothing_read_and_nothing_hidden(mechanism: Mechanism, epsilon: float) -> None:
    assert offline.epsilon(mechanism, DELTA) == epsilon


@pytest.mark.parametrize(
    "mechanism",
    [
        HashFill(rows=8, columns=2),
        Parallel(events=(NOISE, NOISE)),
        ClusterSampled(sampling_rate=0.5, event=STEP),
        Composed(event=ClusterSampled(sampling_rate=0.5, event=STEP), count=2),
        Sequence(events=(NOISE, HashFill(rows=8, columns=2))),
        PoissonSampled(sampling_rate=0.5, event=STEP),
        RepeatAndSelect(event=HashFill(rows=8, columns=2), distribution="poisson", expected_runs=2),
        Grouped(size=2, event=NOISE),
        Grouped(size=1001, event=STEP),
        Composed(event=NOISE, count=100_001),
    ],
)
def test_what_it_has_no_words_for_is_not_guessed(mechanism: Mechanism) -> None:
    for adjacency in ADJACENCIES:
        assert offline.epsilon(mechanism, DELTA, adjacency=adjacency) is None


def test_all_places_of_one_term_is_not_its_word() -> None:
    assert offline.epsilon(NOISE, DELTA, adjacency="all-occurrences-of-one-term") is None


def test_a_group_is_not_told_by_replacing() -> None:
    assert offline.epsilon(Grouped(size=2, event=STEP), DELTA, adjacency="replace-one") is None


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtraError, match=r"hushdoc\[offline\]"):
        offline.epsilon(NOISE, DELTA)


@pytest.mark.parametrize(("rate", "noise"), [(5e-324, 1.0), (0.001, 0.048), (0.0, 1.0)])
def test_what_the_library_can_not_compute_is_not_confirmed(rate: float, noise: float) -> None:
    step = PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise))
    found = offline.epsilon(step, 1e-5)
    assert found is None or 0 <= found < 1e-3
