from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hushdoc.certificate.audit_reports import Audit
from hushdoc_training.audit import roc


def test_area_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    chance = np.random.default_rng(0)
    true, false = chance.integers(0, 9, size=50) + 2.0, chance.integers(0, 9, size=80) * 1.0
    kind = np.repeat([1, 0], [50, 80])
    expected = metrics.roc_auc_score(kind, np.concatenate([true, false]))
    assert roc.area(true, false)[0] == pytest.approx(expected)


def test_deviation_is_that_of_repetitions() -> None:
    chance = np.random.default_rng(1)
    areas, deviations = zip(
        *(roc.area(chance.normal(0.7, 1, size=60), chance.normal(size=90)) for _ in range(400)),
        strict=True,
    )
    assert np.mean(deviations) == pytest.approx(np.std(areas), rel=0.1)


def test_deviation_counts_clusters_as_one() -> None:
    chance = np.random.default_rng(2)
    areas, deviations, naive = [], [], []
    for _ in range(300):
        shared = chance.normal(size=30)
        true = shared + 0.5 + 0.1 * chance.normal(size=30)
        false = np.repeat(shared, 5) + 0.1 * chance.normal(size=150)
        clusters = (np.arange(30), np.repeat(np.arange(30), 5))
        area, deviation = roc.area(true, false, clusters)
        areas.append(area)
        deviations.append(deviation)
        naive.append(roc.area(true, false)[1])
    assert np.mean(deviations) == pytest.approx(np.std(areas), rel=0.15)
    assert np.mean(naive) > 2 * np.std(areas)


@pytest.mark.parametrize("count", [4, 14])
@pytest.mark.parametrize("area", [0.5, 0.8, 0.95])
def test_intervals_of_areas_hold_of_few_scores_too(count: int, area: float) -> None:
    chance, apart = np.random.default_rng(5), stats.norm.ppf(area) * math.sqrt(2)
    held = 0
    for _ in range(300):
        true, false = chance.normal(apart, 1, count), chance.normal(size=count)
        low, high = roc.measured("toy", true, false).auc_interval
        held += low <= area <= high
    assert held >= 0.92 * 300  # three deviations below CONFIDENCE


def test_few_scores_without_an_overlap_do_not_show_an_area_of_one() -> None:
    """Known answer: of 10 and 10, the equation is solved by .80022."""
    low, high = roc.measured("toy", np.arange(10.0) + 20, np.arange(10.0)).auc_interval
    assert (low, high) == (pytest.approx(0.80022, abs=2e-5), 1.0)
    below = roc.measured("toy", np.arange(10.0), np.arange(10.0) + 20).auc_interval
    assert below == pytest.approx((0.0, 1 - low))
    # Several scores of each show no more where they are one provider's.
    whose = np.repeat(np.arange(10), 5)
    true, false = np.arange(50.0) + 100, np.arange(50.0)
    again = roc.measured("toy", true, false, clusters=(whose, whose + 10)).auc_interval
    assert again == pytest.approx((low, 1.0))


def test_rates_at_a_threshold() -> None:
    false = np.arange(1000.0)
    found = roc.measured("toy", np.array([998.5, 998.5, 3.0, 2000.0]), false, fpr=0.001)
    assert (found.tpr, found.fpr) == (0.75, 0.001)
    strict = roc.measured("toy", np.array([998.5, 2000.0]), false, fpr=0.0005)
    assert (strict.tpr, strict.fpr) == (0.5, 0.0)


def test_equal_scores_are_no_evidence() -> None:
    found = roc.measured("toy", np.ones(20), np.ones(2000))
    assert (found.auc, found.tpr, found.fpr) == (0.5, 0.0, 0.0)


@pytest.mark.parametrize(("hits", "total"), [(0, 10), (3, 10), (10, 10), (1, 2000)])
def test_shares_have_exact_intervals(hits: int, total: int) -> None:
    low, high = roc.clopper_pearson(hits, total, 0.1)

    def at_most(count: int, share: float) -> float:
        return sum(
            math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(count + 1)
        )

    assert low <= hits / total <= high
    if hits:
        assert 1 - at_most(hits - 1, low) == pytest.approx(0.05)
    if hits < total:
        assert at_most(hits, high) == pytest.approx(0.05)


def test_randomised_response_is_refuted_below_its_epsilon_and_not_above() -> None:
    chance = np.random.default_rng(3)
    keep = math.e / (1 + math.e)
    lowers = []
    for _ in range(20):
        true = (chance.random(20_000) < keep) + chance.random(20_000) / 2
        false = (chance.random(20_000) < 1 - keep) + chance.random(20_000) / 2
        fpr = float((false >= 1).mean())
        lowers.append(roc.measured("coins", true, false, fpr=fpr).epsilon_lower(0.0))
    assert sum(lower > 1.0 for lower in lowers) <= 4
    assert np.mean(lowers) > 0.9


def test_audit_is_a_record_that_certificates_take() -> None:
    found = roc.measured("toy", np.arange(50.0) + 40, np.arange(50.0), fpr=0.1)
    plain = found.audit()
    assert Audit.from_dict(plain.to_dict(), "audit") == plain
    assert (plain.epsilon_lower, plain.delta, plain.confidence) == (None, None, None)
    bound = found.audit(delta=1e-5)
    assert bound.problem() is None
    assert bound.epsilon_lower == found.epsilon_lower(1e-5)
    assert bound.confidence == roc.CONFIDENCE


def test_scores_must_be_there_and_be_numbers() -> None:
    with pytest.raises(ValueError, match="some of each"):
        roc.measured("toy", np.array([]), np.ones(3))
    with pytest.raises(ValueError, match="NaN"):
        roc.measured("toy", np.array([np.nan]), np.ones(3))


@pytest.mark.parametrize(("hits", "total"), [(0, 7), (1, 2000), (1000, 1000), (14_321, 20_000)])
@pytest.mark.parametrize("error", [0.05, 0.01 / 6])
def test_intervals_are_those_of_the_beta_distribution(hits: int, total: int, error: float) -> None:
    beta = pytest.importorskip("scipy.stats").beta
    low, high = roc.clopper_pearson(hits, total, error)
    assert low == pytest.approx(beta.ppf(error / 2, hits, total - hits + 1) if hits else 0.0)
    last = beta.ppf(1 - error / 2, hits + 1, total - hits) if hits < total else 1.0
    assert high == pytest.approx(last)


def test_an_attack_that_finds_everybody_shows_as_much_as_so_many_trials_can() -> None:
    found = roc.measured("toy", np.full(1000, 1.0), np.full(1000, 0.0), unit="document")
    most = 1 - 0.025 ** (1 / 1000)
    assert found.auc == 1.0
    assert found.epsilon_lower(1e-5) == pytest.approx(math.log((1 - most - 1e-5) / most), rel=1e-6)
    assert found.audit(delta=1e-5).epsilon_lower == found.epsilon_lower(1e-5) > 5


def test_a_bound_of_two_rates_holds_in_both_directions_and_shrinks_with_the_error() -> None:
    """Few members are missed: that shows as much as few alarms would."""
    true, false = np.full(5000, 1.0), np.r_[np.full(4000, 0.0), np.full(1000, 2.0)]
    missed = roc.measured("toy", true, false, fpr=0.2)
    hidden = roc.measured("toy", -false, -true, fpr=0.0)
    assert missed.epsilon_lower(0.0) == pytest.approx(hidden.epsilon_lower(0.0))
    assert missed.epsilon_lower(0.0) > math.log(0.5 / 0.001)
    lowers = [missed.epsilon_lower(1e-5, error) for error in (0.2, 0.05, 0.01, 1e-4)]
    assert lowers == sorted(lowers, reverse=True)
