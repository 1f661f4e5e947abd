from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import filling, term_cost
from hushdoc_training.crf.term_cost import AdjacentDistributions, renyi_of_normals

ORDERS = np.array([1.1, 1.5, 2.0, 4.0, 16.0])


def two_labels(count: int = 200_000) -> term_cost.Doubles:
    """Rows of two labels with exactly normal and opposite weights."""
    normal = NormalDist()
    values = np.array([normal.inv_cdf((place + 0.5) / count) for place in range(count)])
    return np.stack([values, -values], axis=1)


def integrated(order: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    """The divergence by its definition: an integral, by a fine sum in logarithms."""
    places = np.linspace(-60, 60, 400_001)
    logs = []
    for mean, deviation in (one, other):
        logs.append(
            -0.5 * ((places - mean) / deviation) ** 2 - math.log(deviation * math.sqrt(2 * math.pi))
        )
    values = order * logs[0] + (1 - order) * logs[1]
    total = np.logaddexp.reduce(values) + math.log(places[1] - places[0])
    return float(total) / (order - 1)


class TestDivergence:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize(
        ("one", "other"),
        [((0.0, 1.0), (0.0, 1.0)), ((0.3, 0.9), (-0.2, 1.0)), ((0.0, 1.0), (0.5, 1.02))],
    )
    def test_it_is_the_integral(
        self, order: float, one: tuple[float, float], other: tuple[float, float]
    ) -> None:
        found = renyi_of_normals(np.array([order]), *one, *other)[0]
        assert found == pytest.approx(integrated(order, one, other), rel=1e-6, abs=1e-9)

    def test_it_is_infinite_from_where_the_integral_diverges(self) -> None:
        # v = alpha s2^2 + (1 - alpha) s1^2 is 0 at alpha = s1^2 / (s1^2 - s2^2).
        limit = 1 / (1 - 0.9**2)
        below, at, above = renyi_of_normals(
            np.array([limit - 1e-6, limit, limit + 1]), 0.0, 1.0, 0.0, 0.9
        )
        assert math.isfinite(below)
        assert math.isinf(at)
        assert math.isinf(above)
        assert np.isfinite(renyi_of_normals(np.array([1e6]), 0.0, 0.9, 0.0, 1.0)).all()

    def test_it_grows_with_the_order_and_is_never_negative(self) -> None:
        orders = term_cost.ORDERS
        for one, other in (((0.1, 0.95), (0.0, 1.0)), ((0.0, 1.0), (0.1, 0.95))):
            found = renyi_of_normals(orders, *one, *other)
            found = found[np.isfinite(found)]
            assert (found >= 0).all()
            assert (np.diff(found) >= -1e-9).all()

    def test_distributions_without_width(self) -> None:
        assert renyi_of_normals(ORDERS, 1.0, 0.0, 1.0, 0.0).tolist() == [0.0] * 5
        assert np.isinf(renyi_of_normals(ORDERS, 1.0, 0.0, 1.0, 0.1)).all()


@pytest.fixture(scope="module")
def distributions() -> AdjacentDistributions:
    return AdjacentDistributions(two_labels())


class TestCost:
    def test_the_figures_of_the_hundredth_word_both_ways(
        self, distributions: AdjacentDistributions
    ) -> None:
        found = distributions.cost_of_share(0.0007, 1e-5)
        assert found.without_term == pytest.approx(0.0087, abs=5e-5)
        assert found.with_term == pytest.approx(0.1244, abs=2e-4)
        assert found.epsilon == found.with_term

    def test_the_figures_of_the_first_word_both_ways(
        self, distributions: AdjacentDistributions
    ) -> None:
        found = distributions.cost_of_share(0.07, 1e-5)
        assert found.without_term == pytest.approx(0.358, abs=1e-3)
        assert found.with_term == pytest.approx(6.206, abs=5e-3)

    def test_fitted_distributions_are_those_of_the_values_that_are_left(self) -> None:
        rows = np.random.default_rng(0).gamma(1.0, size=(500, 2))
        left = []
        for column in rows.T:
            far = np.argsort(np.abs(column - column.mean()))
            left.append(column[far[:-37]])
        forth, back = AdjacentDistributions(rows).divergences(37, ORDERS)
        expected = [
            sum(renyi_of_normals(ORDERS, a.mean(), a.std(), b.mean(), b.std()) for a, b in pairs)
            for pairs in (zip(left, rows.T, strict=True), zip(rows.T, left, strict=True))
        ]
        assert forth == pytest.approx(expected[0], rel=1e-9)
        assert back == pytest.approx(expected[1], rel=1e-9)

    def test_more_features_cost_more(self, distributions: AdjacentDistributions) -> None:
        costs = [distributions.cost(removed) for removed in (0, 10, 100, 1000, 10_000)]
        for name in ("without_term", "with_term"):
            values = [getattr(cost, name) for cost in costs]
            assert values == sorted(values)
        assert costs[0].epsilon == pytest.approx(0, abs=1e-4)

    def test_a_term_of_all_rows_has_no_bound(self) -> None:
        found = AdjacentDistributions(np.array([[1.0], [2.0], [4.0]])).cost(2)
        assert math.isinf(found.epsilon)

    def test_releases_add_up_and_delta_is_paid_once(
        self, distributions: AdjacentDistributions
    ) -> None:
        one = distributions.divergences(140)
        once = term_cost.composed([one], removed=140)
        twice = term_cost.composed([one, one], removed=140)
        assert once == distributions.cost(140)
        assert once.with_term < twice.with_term < 2 * once.with_term

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5])
    def test_a_delta_that_means_nothing_is_refused(
        self, distributions: AdjacentDistributions, delta: float
    ) -> None:
        with pytest.raises(ValueError, match="delta"):
            distributions.cost(3, delta)

    def test_rows_that_have_no_distribution_are_refused(self) -> None:
        with pytest.raises(ValueError, match="two rows"):
            AdjacentDistributions(np.zeros((1, 2)))


class TestUpdates:
    """Claim 3 of the paper: an update is released by a distribution of twice as many columns."""

    def update(self) -> filling.Update:
        generator = np.random.default_rng(5)
        released = generator.normal(size=(6000, 2)).astype(np.float32)
        amounts = np.full(released.shape, np.nan, np.float32)
        amounts[:4000] = generator.normal(size=(4000, 2)) + 0.7 * released[:4000]
        amounts[4000:4200, 0] = 1.0
        return filling.Update(released=released, amounts=amounts)

    def test_of_one_column_it_is_the_distribution_of_that_column(self) -> None:
        rows = np.random.default_rng(0).gamma(1.0, size=(500, 1))
        for found, expected in zip(
            term_cost.joint_divergences(rows, 37, ORDERS),
            AdjacentDistributions(rows).divergences(37, ORDERS),
            strict=True,
        ):
            assert found == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
    def test_it_is_the_divergence_of_joint_normals(self, order: float) -> None:
        generator = np.random.default_rng(1)
        rows = generator.normal(size=(3000, 3)) @ generator.normal(size=(3, 3)) + [1.0, -2.0, 0.5]
        off = rows - rows.mean(axis=0)
        distances = np.einsum("ri,ij,rj->r", off, np.linalg.inv(np.cov(rows.T, ddof=0)), off)
        part = rows[np.argsort(distances)[:-60]]
        found = [way[0] for way in term_cost.joint_divergences(rows, 60, np.array([order]))]
        for divergence, (one, other) in zip(found, ((part, rows), (rows, part)), strict=True):
            first, second = (np.cov(distribution.T, ddof=0) for distribution in (one, other))
            mixed = order * second + (1 - order) * first
            shift = one.mean(axis=0) - other.mean(axis=0)
            sizes = [np.linalg.slogdet(distribution)[1] for distribution in (mixed, first, second)]
            # Gil, Alajaji, Linder 2013, table 2: the multivariate case.
            expected = order / 2 * shift @ np.linalg.solve(mixed, shift) - (
                sizes[0] - (1 - order) * sizes[1] - order * sizes[2]
            ) / (2 * (order - 1))
            assert divergence == pytest.approx(expected, rel=1e-6)

    def test_units_do_not_matter_and_empty_directions_cost_nothing(self) -> None:
        rows = np.random.default_rng(2).normal(size=(800, 2))
        plain = term_cost.joint_divergences(rows, 20, ORDERS)
        turned = rows @ np.array([[3.0, -1.0], [0.2, 5.0]])
        opposite = np.concatenate([rows, -rows[:, :1]], axis=1)
        for other in (turned, opposite):
            found = term_cost.joint_divergences(other, 20, ORDERS)
            for one, two in zip(plain, found, strict=True):
                assert one == pytest.approx(two, rel=1e-6)

    def test_the_cost_of_an_update_adds_to_that_of_the_first_release(self) -> None:
        update = self.update()
        rows = filling.changed_rows(update)
        assert rows.shape == (4000, 4)
        assert np.array_equal(rows, np.hstack([update.released, update.amounts])[:4000])
        first = AdjacentDistributions(update.released.astype(np.float64)).divergences(30)
        further = term_cost.joint_divergences(rows, 20)
        whole = term_cost.composed([first, further], removed=50)
        for way, place in (("without_term", 0), ("with_term", 1)):
            parts = [
                getattr(term_cost.composed([release], removed=50), way)
                for release in (first, further)
            ]
            # Divergences add up order by order, and delta is paid once instead of twice.
            assert max(parts) < getattr(whole, way) < sum(parts)
            by_hand = first[place] + further[place] + math.log(1e5) / (term_cost.ORDERS - 1)
            assert getattr(whole, way) == pytest.approx(by_hand.min())

    def test_a_term_of_all_rows_has_no_bound(self) -> None:
        assert np.isinf(term_cost.joint_divergences(np.eye(3), 2, ORDERS)[0]).all()
        with pytest.raises(ValueError, match="from 0"):
            term_cost.joint_divergences(np.eye(3), -1)


class TestTerms:
    def counted(
        self, sentences: list[list[str]], scheme: FeatureScheme
    ) -> tuple[dict[str, int], int]:
        """Every feature of every word, one by one."""
        features: set[tuple[object, ...]] = set()
        for words in sentences:
            for place, word in enumerate(words):
                if scheme.level == "sentence":
                    features.add(("word", (word,)))
                else:
                    for offset in range(-scheme.window, scheme.window + 1):
                        features.add(("word", (word,), offset))
                for distance in range(1, 6):
                    for other in words[place + distance : place + distance + 1]:
                        kind = "bigram" if distance == 1 else "skip-gram"
                        for side in range(1 if scheme.level == "sentence" else 2):
                            features.add((kind, (word, other), side))
        count: dict[str, int] = {}
        for feature in features:
            for word in set(feature[1]):  # type: ignore[call-overload]
                count[word] = count.get(word, 0) + 1
        return count, len(features)

    @pytest.mark.parametrize("level", ["sentence", "token"])
    def test_they_are_counted_right(self, level: str) -> None:
        generator = np.random.default_rng(0)
        words = list("abcdefghij")
        sentences = [
            [words[number] for number in generator.integers(10, size=length)]
            for length in (0, 1, 2, 7, 30)
        ]
        scheme = FeatureScheme(level=level)
        found = term_cost.terms(sentences, scheme)
        count, total = self.counted(sentences, scheme)
        assert dict(zip(found.words, found.features.tolist(), strict=True)) == count
        assert found.total == total
        assert found.features.tolist() == sorted(found.features.tolist(), reverse=True)
        assert found.shares[0] == found.features[0] / total

    def test_no_sentence_has_no_word(self) -> None:
        assert term_cost.terms([], FeatureScheme()).words == ()
