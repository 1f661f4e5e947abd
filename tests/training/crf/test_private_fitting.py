from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_tables import FreePlan, clauses, features_of

from hushdoc.accounting import calibration
from hushdoc_training.audit.roc import measured
from hushdoc_training.crf import private_fitting
from hushdoc_training.crf.chain import RecordSet, record_set
from hushdoc_training.crf.private_fitting import PrivateTable, Settings, Start, Training
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream

TAGS = ("O", "TERM")
DEFAULTS = Settings()


def start_of(rows: int, tags: tuple[str, ...] = TAGS) -> Start:
    return Start(tags=tags, scales=np.ones(rows), transitions=private_fitting.transitions_of(tags))


def fitted(
    items: list[list[int]],
    labels: list[int],
    records: list[int],
    *,
    rows: int,
    plan: private_fitting.Plan,
    settings: Settings = DEFAULTS,
    key: int | None = None,
    start: Start | None = None,
) -> PrivateTable:
    return private_fitting.fit_private(
        features_of(items),
        np.array(labels, dtype=np.int64),
        sequences=np.array(records),
        records=np.array(records),
        start=start or start_of(rows),
        plan=plan,
        settings=settings,
        stream=SecretStream(key=None if key is None else key.to_bytes(32, "big")),
    )


def test_clauses_are_learned_under_epsilon_eight() -> None:
    items, labels, records = clauses(250)
    plan = PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=1.0, steps=8, clipping_norm=1.0, expected_records=200
    )
    table = fitted(items[:4000], labels[:4000], records[:201], rows=1024, plan=plan)
    assert table.weights.shape == (1024, 2)
    difference = (table.weights[:, 1] - table.weights[:, 0]).astype(float)
    scores = np.array([difference[item].sum() for item in items[4000:]])
    true = np.array(labels[4000:]) == 1
    assert scores[true].mean() > scores[~true].mean() + 4 * scores[~true].std()


def test_every_cell_and_transition_carries_noise() -> None:
    table = fitted([[1]], [1], [0, 1], rows=50, plan=FreePlan(noise_multiplier=2.0))
    again = fitted([[1]], [1], [0, 1], rows=50, plan=FreePlan(noise_multiplier=2.0))
    assert (table.weights != again.weights).all()
    assert (table.transitions != again.transitions).all()


def eager(data: RecordSet, rows: int) -> RecordSet:
    """The same records, but every row of the table counts as read in every step."""
    records = tuple(replace(record, rows=data.rows[record.rows]) for record in data.records)
    return RecordSet(rows=np.arange(rows, dtype=np.int32), records=records)


@pytest.mark.parametrize("averaged", [0.01, 0.5, 1.0])
def test_noise_of_unread_cells_has_the_law_of_noise_drawn_in_every_step(averaged: float) -> None:
    rows = 40_000
    data = record_set(
        features_of([[0, 2], [1]]),
        np.array([0, 1]),
        sequences=np.array([0, 2]),
        records=np.array([0, 2]),
    )
    start = replace(start_of(rows), scales=np.where(np.arange(rows) < rows // 2, 1.0, 3.0))
    plan, settings = FreePlan(noise_multiplier=1.5, steps=6), Settings(averaged=averaged)
    tables = [
        Training(version, start, plan, settings, SecretStream(key=bytes([number] * 32))).run()
        for number, version in enumerate((data, eager(data, rows)))
    ]
    lazy, drawn = (table.weights[3:] / start.scales[3:, None] for table in tables)
    assert lazy.std() == pytest.approx(drawn.std(), rel=0.02)
    for table in (lazy, drawn):
        left, right = table[: rows // 2], table[rows // 2 :]
        assert left.std() == pytest.approx(right.std(), rel=0.03)
        assert abs(np.corrcoef(table.T)[0, 1]) < 0.02
    levels = np.linspace(0.01, 0.99, 25)
    quantiles = [np.quantile(table, levels) for table in (lazy, drawn)]
    np.testing.assert_allclose(quantiles[0], quantiles[1], atol=0.06 * drawn.std())


def test_cells_that_are_read_do_not_depend_on_which_others_are() -> None:
    items, labels, records = clauses(5)
    data = record_set(
        features_of(items), np.array(labels), sequences=np.array(records), records=np.array(records)
    )
    runs = [
        Training(version, start_of(1024), FreePlan(), Settings(), SecretStream()).run().weights
        for version in (data, eager(data, 1024))
    ]
    np.testing.assert_allclose(*runs, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_one_record_moves_the_sum_by_at_most_the_clipping_norm(seed: int) -> None:
    chance = np.random.default_rng(seed)
    items = [chance.choice(30, size=6, replace=False).tolist() for _ in range(40)]
    labels = chance.integers(2, size=40)
    start = replace(start_of(30), scales=chance.uniform(0.1, 40, size=30))
    plan = FreePlan(clipping_norm=0.7)

    def total(last: int) -> np.ndarray:
        data = record_set(
            features_of(items[:last]),
            labels[:last],
            sequences=np.arange(0, last + 1, 10),
            records=np.arange(0, last + 1, 10),
        )
        training = Training(
            RecordSet(rows=np.arange(30, dtype=np.int32), records=eager(data, 30).records),
            start,
            plan,
            Settings(transition_scale=5.0),
            SecretStream(),
        )
        training.rows += np.random.default_rng(9).normal(size=training.rows.shape)
        steps = np.concatenate([part.ravel() for part in training._clipped_sum()])
        return steps * training._lattice.step

    assert np.linalg.norm(total(40) - total(30)) <= 0.7  # the rounding included
    assert np.linalg.norm(total(40) - total(30)) == pytest.approx(0.7, rel=1e-4)


def test_a_step_without_records_is_noise_alone() -> None:
    plan = FreePlan(sampling_rate=1e-12, noise_multiplier=1.0)
    items, labels, records = clauses(20)
    table = fitted(items, labels, records, rows=1024, plan=plan, key=1)
    read = np.unique(np.concatenate(items))
    rest = np.setdiff1d(np.arange(1024), read)
    assert table.weights[read].std() == pytest.approx(table.weights[rest].std(), rel=0.2)


def test_records_are_drawn_at_the_sampling_rate() -> None:
    items, labels, records = [[0]] * 1000, [1] * 1000, list(range(1001))
    plan = FreePlan(sampling_rate=0.25, steps=1, expected_records=1000)
    whole = replace(plan, sampling_rate=1.0)
    settings = Settings(total_learning_rate=1.0, averaged=1.0)
    part, everything = (
        fitted(items, labels, records, rows=2, plan=p, settings=settings).weights[0, 1]
        for p in (plan, whole)
    )
    assert part / everything == pytest.approx(0.25, abs=0.07)


def statistics(*, with_canary: bool, multiplier: float, runs: int) -> np.ndarray:
    """What the best attacker looks at: the cell that one record alone can move."""
    items = [[0]] * 3 + ([[1]] if with_canary else [])
    labels = [0] * 3 + ([1] if with_canary else [])
    plan = FreePlan(noise_multiplier=multiplier, steps=1)
    settings = Settings(total_learning_rate=1.0, transition_scale=0.0, averaged=0.01)
    found = []
    for _ in range(runs):
        weights = fitted(
            items, labels, list(range(len(items) + 1)), rows=2, plan=plan, settings=settings
        ).weights
        found.append(float(weights[1, 1] - weights[1, 0]))
    return np.array(found)


def test_no_attack_on_a_record_beats_epsilon_and_less_noise_is_noticed() -> None:
    multiplier = calibration.noise_multiplier(
        epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=1, accountant="pld"
    )
    found = {}
    for share in (1.0, 0.2):
        inside, outside = (
            statistics(with_canary=canary, multiplier=share * multiplier, runs=200)
            for canary in (True, False)
        )
        fpr = 0.05
        attack = measured("canary", inside, outside, unit="document", fpr=fpr)
        found[share] = attack.epsilon_lower(1e-5)
    assert found[1.0] <= 1.0
    assert found[0.2] > 1.0


def test_a_record_that_is_not_finite_counts_as_nothing() -> None:
    start = replace(start_of(4), weights=np.full((4, 2), 0.0))
    assert start.weights is not None
    start.weights[2] = [np.inf, -np.inf]
    items, labels = [[0], [2]], [1, 1]
    table = fitted(items, labels, [0, 1, 2], rows=4, plan=FreePlan(), start=start)
    alone = fitted([[0]], [1], [0, 1], rows=4, plan=FreePlan(), start=start)
    np.testing.assert_allclose(table.weights[0], alone.weights[0], rtol=1e-5)


def test_training_goes_on_from_public_weights() -> None:
    start = replace(start_of(4), weights=np.array([[1.0, 2.0]] * 4), scales=np.full(4, 0.5))
    table = fitted([[0]], [1], [0, 1], rows=4, plan=FreePlan(), start=start)
    np.testing.assert_allclose(table.weights[1:], [[1.0, 2.0]] * 3)
    assert table.weights[0, 1] > 2.0


def test_scales_come_from_public_text_and_none_is_zero() -> None:
    items = [[0, 1], [0], [0, 2], [0, 1], [0, 1]]
    scales = private_fitting.public_scales(features_of(items), 5, least=2)
    assert (scales > 0).all()
    assert scales[1] > scales[2] > 0
    assert scales[2] == scales[3] == scales[4]
    norms = [float(np.square(scales[item]).sum()) for item in items]
    assert np.mean(norms) == pytest.approx(1.0)


def test_public_transitions_spell_fields() -> None:
    tags = ("O", "B-x", "I-x", "B-y", "I-y")
    found = private_fitting.transitions_of(tags)
    assert found[1, 2] == found[2, 2] == 0.0
    assert found[0, 2] == found[3, 2] == found[2, 4] == found.min()
    assert found[0, 1] < found[0, 0] == 0.0


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match="row 7"):
        fitted([[7]], [1], [0, 1], rows=4, plan=FreePlan())
    with pytest.raises(ValueError, match="above 0"):
        replace(start_of(4), scales=np.zeros(4))
    with pytest.raises(ValueError, match="transitions"):
        replace(start_of(4), tags=("O",))
    with pytest.raises(ValueError, match="weights"):
        replace(start_of(4), weights=np.zeros((3, 2)))


def test_how_many_gradients_are_held_at_once_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items, labels, records = clauses(11)
    plan = PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=0.7, steps=3, clipping_norm=1.0, expected_records=10
    )
    made = []
    for held in (1024, 4, 1):
        monkeypatch.setattr(private_fitting, "_CHUNK_RECORDS", held)
        made.append(fitted(items, labels, records, rows=1000, plan=plan, key=3))
    for other in made[1:]:
        assert np.allclose(made[0].weights, other.weights, rtol=0, atol=1e-6)
        assert np.allclose(made[0].transitions, other.transitions, rtol=0, atol=1e-6)


def test_a_record_of_any_length_counts_as_one_of_the_length_that_is_set() -> None:
    """Drawn to a length, a record that says all of it ten times moves the table as before."""
    settings = Settings(total_learning_rate=1.0, emphasis=1.0, transition_scale=0.0, length=0.1)

    def table(settings: Settings, scale: float) -> np.ndarray:
        start = replace(start_of(20), scales=np.full(20, scale))
        made = fitted(
            [[1, 2]], [1], [0, 1], rows=20, plan=FreePlan(), settings=settings, start=start
        )
        return made.weights[1:3, 1] / scale

    short, long = table(settings, 1.0), table(settings, 10.0)
    np.testing.assert_allclose(short, long, rtol=1e-4)
    assert (short > 0).all()
    # Any other meets the clipping norm, which is ten times as long.
    assert table(replace(settings, length=None), 10.0).min() > 5 * short.max()


@pytest.mark.parametrize(
    ("epsilon", "steps", "rate", "says"),
    [(1, 1000, 500.0, "fewer steps"), (8, 4, 1e7, "smaller rate")],
)
def test_what_no_table_can_hold_is_refused_before_anything_is_charged(
    epsilon: float, steps: int, rate: float, says: str
) -> None:
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon, sampling_rate=1.0, steps=steps, clipping_norm=1.0, expected_records=300
    )
    charged: list[int] = []
    with pytest.raises(ValueError, match=says):
        private_fitting.fit_private(
            features_of([[0], [1]]),
            np.array([0, 1]),
            sequences=np.array([0, 2]),
            records=np.array([0, 2]),
            start=start_of(50),
            plan=plan,
            settings=Settings(total_learning_rate=rate),
            stream=SecretStream(),
            charge=charged.append,
        )
    assert not charged
