from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from hushdoc.errors import InputError
from hushdoc_training.crf import distributions, filling
from hushdoc_training.crf.filling import Floats, Update
from hushdoc_training.crf.fitting import FittedTable
from hushdoc_training.randomness.secret_stream import SecretStream


def stream(number: int = 0) -> SecretStream:
    return SecretStream(key=bytes([number]) * 32)


def table_of(weights: Floats) -> FittedTable:
    columns = weights.shape[1]
    return FittedTable(
        weights=weights,
        seen=~np.isnan(weights),
        transitions=np.zeros((columns, columns), np.float32),
        labels=tuple(f"label {number}" for number in range(columns)),
    )


def learned(rows: int = 6000, share: float = 0.3, columns: int = 2) -> Floats:
    """A table as CRFsuite leaves it: antisymmetric rows with heavy tails, repeated, with gaps."""
    generator = np.random.default_rng(3)
    weights = np.full((rows, columns), np.nan, np.float32)
    places = generator.permutation(rows)[: int(share * rows)]
    base = generator.standard_t(3, (len(places) // 4 + 1, columns)).repeat(4, axis=0)
    values = base[: len(places)]
    if columns > 1:
        values -= values.mean(axis=1, keepdims=True)
    values[generator.random(values.shape) < 0.2] = np.nan
    values[np.isnan(values).all(axis=1)] = 1.0
    weights[places] = values
    return weights


class TestRandomness:
    def test_choices_are_even_and_within(self) -> None:
        drawn = stream().choices(70_000, 7)
        assert (drawn.min(), drawn.max()) == (0, 6)
        assert np.bincount(drawn) == pytest.approx(np.full(7, 10_000), abs=400)

    def test_draws_have_their_probabilities(self) -> None:
        drawn = stream().draws(100_000, np.array([0.0, 0.2, 0.0, 0.7, 0.1, 0.0]))
        counts = np.bincount(drawn, minlength=6)
        assert counts == pytest.approx([0, 20_000, 0, 70_000, 10_000, 0], abs=600)
        assert (counts[[0, 2, 5]] == 0).all()


class TestLaws:
    def test_a_missing_weight_follows_the_ones_that_are_there(self) -> None:
        covariance = np.array([[2.0, -1.2, 0.3], [-1.2, 1.0, 0.0], [0.3, 0.0, 0.5]])
        distribution = distributions.Mixture(
            shares=np.ones(1), means=np.array([[1.0, 2.0, 3.0]]), covariances=covariance[None]
        )
        rows = np.full((200_000, 3), np.nan)
        rows[:, 0], rows[:, 2] = 3.0, 2.0
        known, missing = [0, 2], 1
        gain = covariance[missing, known] @ np.linalg.inv(covariance[np.ix_(known, known)])
        mean = 2.0 + gain @ [2.0, -1.0]
        variance = covariance[1, 1] - gain @ covariance[known, missing]
        made = distribution.complete(rows, stream())
        assert np.array_equal(made[:, known], rows[:, known])
        assert made[:, 1].mean() == pytest.approx(mean, abs=0.01)
        assert made[:, 1].var() == pytest.approx(variance, rel=0.02)

    def test_parts_of_a_mixture_are_chosen_by_what_is_known(self) -> None:
        distribution = distributions.Mixture(
            shares=np.array([0.5, 0.5]),
            means=np.array([[-5.0, 10.0], [5.0, -10.0]]),
            covariances=np.array([np.eye(2), 4 * np.eye(2)]),
        )
        rows = np.full((2000, 2), np.nan)
        rows[:1000, 0], rows[1000:, 0] = -5.0, 5.0
        made = distribution.complete(rows, stream())[:, 1]
        assert made[:1000].mean() == pytest.approx(10, abs=0.2)
        assert made[:1000].std() == pytest.approx(1, abs=0.1)
        assert made[1000:].mean() == pytest.approx(-10, abs=0.3)
        assert made[1000:].std() == pytest.approx(2, abs=0.2)

    @pytest.mark.parametrize("family", distributions.FAMILIES)
    def test_draws_have_the_moments_of_what_was_fitted(self, family: str) -> None:
        generator = np.random.default_rng(0)
        rows = generator.normal(size=(3000, 2)) @ np.array([[1.0, -0.8], [0.0, 0.3]]) + [2.0, -1.0]
        drawn = distributions.fitted(family, rows, stream()).draw(100_000, stream(1))
        assert drawn.mean(axis=0) == pytest.approx(rows.mean(axis=0), abs=0.1)
        assert drawn.std(axis=0) == pytest.approx(rows.std(axis=0), rel=0.1)
        correlation = np.corrcoef(drawn.T)[0, 1]
        if family == "normals":
            assert abs(correlation) < 0.02
        else:
            assert correlation == pytest.approx(np.corrcoef(rows.T)[0, 1], abs=0.1)

    def test_a_singular_distribution_can_be_completed(self) -> None:
        rows = np.random.default_rng(0).normal(size=(500, 1)) @ np.array([[1.0, -1.0]])
        distribution = distributions.fitted("joint-normal", rows, stream())
        made = distribution.complete(np.array([[0.7, np.nan], [np.nan, 0.2]]), stream())
        assert made.sum(axis=1) == pytest.approx(np.zeros(2), abs=1e-5)

    def test_one_row_is_no_distribution(self) -> None:
        with pytest.raises(InputError, match="at least 2") as caught:
            distributions.fitted("normals", np.zeros((1, 2)), stream())
        assert caught.value.code == "TOO_FEW_ROWS"

    def test_an_unknown_family_is_refused(self) -> None:
        with pytest.raises(ValueError, match="cauchy"):
            distributions.fitted("cauchy", np.zeros((3, 2)), stream())


class TestPublished:
    @pytest.mark.parametrize(
        ("family", "columns"), list(itertools.product(distributions.FAMILIES, (1, 2, 5)))
    )
    def test_learned_weights_stay_and_no_other_is_missing(self, family: str, columns: int) -> None:
        weights = learned(columns=columns)
        made = filling.paper_fill(table_of(weights), stream=stream(), family=family)
        there = ~np.isnan(weights)
        assert np.array_equal(made[there], weights[there])
        assert np.isfinite(made).all()
        assert made.any(axis=1).all()
        assert made.dtype == np.float32

    def test_made_up_rows_have_the_distribution_of_complete_ones(self) -> None:
        weights = learned(40_000)
        complete = weights[~np.isnan(weights).any(axis=1)]
        made = filling.paper_fill(table_of(weights), stream=stream())
        drawn = made[np.isnan(weights).all(axis=1)]
        assert drawn.std(axis=0) == pytest.approx(complete.std(axis=0), rel=0.03)
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03

    def test_weights_that_occurred_and_stayed_zero_are_there_unless_zeros_are_drawn(self) -> None:
        weights = np.full((400, 2), np.nan, np.float32)
        weights[:100] = np.random.default_rng(0).normal(size=(100, 2))
        seen = np.zeros((400, 2), dtype=bool)
        seen[:200], seen[200:300, 0] = True, True
        table = replace(table_of(weights), seen=seen)
        made = filling.paper_fill(table, stream=stream())
        assert np.array_equal(made[:100], weights[:100])
        assert not made[100:200].any()
        assert not made[200:300, 0].any()
        assert made[200:300, 1].all()
        assert made[300:].all()
        # The law is that of all complete rows, of which half are zeros.
        assert filling.complete_rows(table.realized).shape == (200, 2)
        drawn = filling.paper_fill(table, stream=stream(), zeros_drawn=True)
        assert np.array_equal(drawn[:100], weights[:100])
        assert drawn[100:].all()

    def test_without_complete_rows_missing_weights_count_as_zeros(self) -> None:
        weights = np.full((50, 2), np.nan, np.float32)
        weights[:10, 0], weights[10:20, 1] = 1.0, -1.0
        assert filling.complete_rows(weights).shape == (20, 2)
        assert np.isfinite(filling.paper_fill(table_of(weights), stream=stream())).all()


class TestNoisyFill:
    def test_no_learned_number_is_released(self) -> None:
        weights = learned()
        made = filling.noisy_fill(table_of(weights), stream=stream())
        there = ~np.isnan(weights)
        assert not (made[there] == weights[there]).any()
        assert np.isfinite(made).all()
        assert len(np.unique(made[:, 0])) > 0.99 * len(made)

    def test_genuine_and_made_up_rows_have_one_distribution(self) -> None:
        from scipy.stats import ks_2samp  # type: ignore[import-untyped]

        weights = learned(60_000)
        made = filling.noisy_fill(table_of(weights), stream=stream(), noise=0.5)
        genuine = table_of(weights).genuine
        for column in range(2):
            found = ks_2samp(made[genuine, column], made[~genuine, column])
            assert found.pvalue > 0.01

    def test_rows_of_several_labels_add_up_to_nothing(self) -> None:
        for columns in (2, 5):
            made = filling.noisy_fill(table_of(learned(columns=columns)), stream=stream())
            assert np.abs(made.sum(axis=1)).max() < 1e-4 * np.abs(made).max()
        assert np.abs(filling.noisy_fill(table_of(learned(columns=1)), stream=stream())).max() > 0

    def test_with_little_noise_differences_between_labels_are_kept(self) -> None:
        weights = learned()
        table = table_of(weights)
        made = filling.noisy_fill(table, stream=stream(), noise=1e-6)
        unfilled = table.unfilled()
        expected = unfilled[table.genuine, 1] - unfilled[table.genuine, 0]
        found = made[table.genuine, 1] - made[table.genuine, 0]
        assert found == pytest.approx(expected, abs=1e-4)

    @pytest.mark.parametrize("noise", [0.5, 2.0])
    def test_noise_is_as_wide_as_asked(self, noise: float) -> None:
        table = table_of(learned(60_000))
        rows = table.unfilled()[table.genuine].astype(np.float64)
        rows -= rows.mean(axis=1, keepdims=True)
        made = filling.noisy_fill(table, stream=stream(), noise=noise)[table.genuine]
        assert (made - rows).std(axis=0) == pytest.approx(noise * rows.std(axis=0), rel=0.02)

    def test_scaled_rows_get_noise_in_units_of_their_scale(self) -> None:
        weights = learned()
        scales = np.where(np.arange(len(weights)) % 2, 1.0, 0.01)
        scaled = replace(table_of(weights * scales[:, None].astype(np.float32)))
        made = filling.noisy_fill(scaled, stream=stream(), noise=1.0, scales=scales)
        even = (made / scales[:, None])[:, 0]
        loud, quiet = (np.sort(np.abs(even[scales == scale])) for scale in (1.0, 0.01))
        assert np.median(quiet) == pytest.approx(np.median(loud), rel=0.1)
        alike = filling.noisy_fill(scaled, stream=stream(), noise=1.0)
        assert np.median(np.abs(alike[scales == 0.01])) > 10 * np.median(
            np.abs(made[scales == 0.01])
        )

    def test_copies_are_of_every_label_alike(self) -> None:
        # A tenth of the rows occur with the second label, and all of them say 5; the others -5.
        weights = np.full((20_000, 2), np.nan, np.float32)
        weights[:1000], weights[:100] = [5.0, -5.0], [-5.0, 5.0]
        table = replace(
            table_of(weights),
            seen=np.stack([np.arange(20_000) < 1000, np.arange(20_000) < 100], axis=1),
        )
        made = filling.noisy_fill(table, stream=stream(), noise=0.01, scales=np.ones(20_000))
        share = (made[1000:, 1] > 0).mean()
        # Half as often as one of the hundred, half as often as any: 1/2 + 1/2 * 1/10.
        assert share == pytest.approx(0.55, abs=0.02)
        plain = filling.noisy_fill(table, stream=stream(), noise=0.01)
        assert (plain[1000:, 1] > 0).mean() == pytest.approx(0.1, abs=0.02)

    def test_labels_that_no_row_occurred_with_count_for_nothing(self) -> None:
        weights = learned(rows=500)
        seen = ~np.isnan(weights)
        seen[:, 1] = False
        table = replace(table_of(weights), seen=seen | (~np.isnan(weights) & (np.arange(2) == 0)))
        made = filling.noisy_fill(table, stream=stream(), scales=np.ones(500))
        assert np.isfinite(made).all()

    def test_two_fills_differ_everywhere(self) -> None:
        table = table_of(learned())
        first, second = (filling.noisy_fill(table, stream=SecretStream()) for _ in range(2))
        assert (first != second).mean() > 0.99

    def test_nothing_learned_is_refused(self) -> None:
        nothing = table_of(np.full((9, 2), np.nan, np.float32))
        for fill in (filling.noisy_fill, filling.paper_fill):
            with pytest.raises(InputError, match="Train on more documents"):
                fill(nothing, stream=stream())

    @pytest.mark.parametrize("noise", [0.0, -1.0, float("nan")])
    def test_no_noise_is_refused(self, noise: float) -> None:
        with pytest.raises(ValueError, match="noise"):
            filling.noisy_fill(table_of(learned()), stream=stream(), noise=noise)


class TestUpdates:
    def update(self) -> Update:
        generator = np.random.default_rng(1)
        released = generator.normal(size=(20_000, 2)).astype(np.float32)
        amounts = np.full(released.shape, np.nan, np.float32)
        amounts[:5000] = 0.5 * released[:5000] + generator.normal(size=(5000, 2)) * 0.1
        return Update(released=released, amounts=amounts)

    def test_unchanged_rows_get_amounts_that_fit_their_weights(self) -> None:
        update = self.update()
        made = filling.updated_paper_fill(update, stream=stream())
        assert made[:5000] == pytest.approx(update.released[:5000] + update.amounts[:5000])
        drawn = (made - update.released)[5000:]
        for column in range(2):
            slope = np.polyfit(update.released[5000:, column], drawn[:, column], 1)[0]
            assert slope == pytest.approx(0.5, abs=0.01)
        assert (drawn - 0.5 * update.released[5000:]).std() == pytest.approx(0.1, rel=0.05)

    def test_noisy_amounts_are_never_released_as_they_are(self) -> None:
        update = self.update()
        made = filling.updated_noisy_fill(update, stream=stream())
        exact = update.released[:5000] + update.amounts[:5000]
        assert not (made[:5000] == exact).any()
        changed, unchanged = np.split(made - update.released, [5000])
        assert changed.std(axis=0) == pytest.approx(unchanged.std(axis=0), rel=0.05)

    def test_what_does_not_fit_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no weight missing"):
            Update(released=learned(), amounts=learned())


@pytest.mark.parametrize("fill", [filling.paper_fill, filling.noisy_fill])
def test_filling_a_table_of_full_size_costs_little_more_than_drawing_it(fill: object) -> None:
    weights = learned(2**21, share=0.1)
    table = table_of(weights)
    spent, drawn = [], []
    for _ in range(3):
        start = time.process_time()
        fill(table, stream=stream())  # type: ignore[operator]
        spent.append(time.process_time() - start)
        start = time.process_time()
        np.random.default_rng(0).normal(size=weights.shape)
        drawn.append(time.process_time() - start)
    # .27 s against .04 s, seven times as long; a loop over rows would take a hundred times as long.
    assert min(spent) < 40 * min(drawn)
