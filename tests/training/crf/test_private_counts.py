"""How rare rows are is counted under the guarantee, as the first step of a training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_tables import FreePlan, features_of

from hushdoc_training.crf import private_counts, private_linear
from hushdoc_training.crf.chain import Grouping, RecordSet, record_set
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.secret_stream import SecretStream

ROWS = 300
NAMES = ("one", "other")


def texts(count: int, seed: int = 0) -> list[list[int]]:
    """Texts that all have row 0; half of them row 1; and rows of their own."""
    chance = np.random.default_rng(seed)
    return [
        sorted({0, *([1] if number % 2 else []), *chance.integers(2, ROWS, size=6).tolist()})
        for number in range(count)
    ]


def records(items: list[list[int]]) -> RecordSet:
    each = np.arange(len(items) + 1)
    labels = np.arange(len(items)) % 2
    return record_set(
        features_of(items),
        labels,
        sequences=each,
        records=Grouping(ends=each, unit="document"),
    )


@pytest.mark.parametrize("seed", range(4))
def test_one_record_moves_the_counts_by_at_most_the_clipping_norm(seed: int) -> None:
    items = texts(20, seed)
    plan = FreePlan(clipping_norm=0.7, noise_multiplier=2.0)
    grid = lattice.of_truncated(norm=0.7, noise_multiplier=2.0)

    def counts(some: list[list[int]]) -> np.ndarray:
        meter = Meter(planned_steps=1, privacy_unit="document")
        return private_counts._counted(
            records(some), ROWS, plan, grid, meter=meter, stream=SecretStream()
        )

    whole = counts(items)
    for left_out in range(20):
        apart = whole - counts(items[:left_out] + items[left_out + 1 :])
        moved = float(np.linalg.norm(apart)) * grid.step
        assert 0.69 < moved <= 0.7


class Kept(SecretStream):
    """Keeps the noise that it draws."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[np.ndarray] = []

    def lattice_noise(self, *arguments: object, **named: object) -> np.ndarray:
        self.seen.append(super().lattice_noise(*arguments, **named))  # type: ignore[arg-type]
        return self.seen[-1]


def test_every_count_has_the_noise_of_a_step() -> None:
    plan = FreePlan(noise_multiplier=3.0)
    stream = Kept()
    rows = 20_000
    found = private_counts.rarity_scales(records(texts(5)), rows, plan, stream=stream)
    [noise] = stream.seen
    assert noise.shape == (rows,)
    grid = lattice.of_truncated(norm=1.0, noise_multiplier=3.0)
    assert (noise * grid.step).std() == pytest.approx(3.0, rel=0.03)
    # Five texts can't be heard through it.
    assert (found.scales == 1.0).all()


def test_scales_follow_the_noisy_counts_alone() -> None:
    """Each scale, taken back to its count, is off the true count by the noise that was drawn."""
    stream = Kept()
    plan = FreePlan(noise_multiplier=2.0)
    items = [[0]] * 400 + [[row] for row in range(1, 21) for _ in range(40)]
    found = private_counts.rarity_scales(records(items), 30, plan, stream=stream)
    grid = lattice.of_truncated(norm=1.0, noise_multiplier=2.0)
    [noise] = stream.seen
    noise = noise * grid.step
    least = 3 * grid.width * grid.step
    largest = 400 + noise[0]
    counts = largest * (least / largest) ** np.sqrt(found.scales[1:21])
    assert counts == pytest.approx(40 + noise[1:21], rel=1e-5)


def test_what_all_records_have_is_common_and_what_few_have_is_rare() -> None:
    data = records(texts(400))
    plan = FreePlan(noise_multiplier=0.5)
    scales = private_counts.rarity_scales(data, ROWS, plan, stream=SecretStream()).scales
    assert scales[0] == private_counts.FLOOR
    assert private_counts.FLOOR <= scales[1] < 0.2
    assert np.median(scales[2:]) > 0.5
    assert scales.max() <= 1.0


def test_counting_is_one_of_the_steps_that_are_charged_and_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = PrivacyPlan.calibrated(
        epsilon=4, sampling_rate=1.0, steps=6, clipping_norm=1.0, expected_records=50
    )
    charged: list[int] = []
    items = texts(50)

    def fit(scales: int, plan: PrivacyPlan) -> private_linear.PrivateTable:
        return private_linear.fit_private_linear(
            features_of(items),
            np.arange(50) % 2,
            names=NAMES,
            scales=scales,
            plan=plan,
            stream=SecretStream(),
            unit="document",
            charge=charged.append,
        )

    count, step, taken = private_counts.noisy_counts, private_linear.Training.step, []

    def counted(*arguments: Any, **named: Any) -> np.ndarray:
        taken.append("count")
        return count(*arguments, **named)

    def stepped(training: private_linear.Training) -> None:
        taken.append("step")
        step(training)

    monkeypatch.setattr(private_counts, "noisy_counts", counted)
    monkeypatch.setattr(private_linear.Training, "step", stepped)
    table = fit(ROWS, plan)
    assert charged == [6]
    assert taken == ["count", *["step"] * 5]
    plan.require_executed(table.receipt)
    assert table.receipt.steps == 6
    assert table.weights.shape == (ROWS, 2)
    assert (table.weights != 0).all()
    with pytest.raises(ValueError, match="1 step"):
        fit(ROWS, replace(plan, steps=1))
    with pytest.raises(ValueError, match="row 299"):
        fit(299, plan)
    assert charged == [6]
