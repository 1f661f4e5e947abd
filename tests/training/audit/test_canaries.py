"""Canaries: they show what a training without noise gives away, and what a claim allows."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from small_tables import FreePlan

from hushdoc.accounting import calibration
from hushdoc.hashing import Features
from hushdoc_training.audit import canaries
from hushdoc_training.audit.canaries import Canaries, Data
from hushdoc_training.audit.roc import Attack, clopper_pearson
from hushdoc_training.crf import private_fitting
from hushdoc_training.crf.private_fitting import Settings, Start
from hushdoc_training.randomness.secret_stream import SecretStream

ROWS, STEPS, DELTA = 6000, 4, 1e-5
SCALES = np.full(ROWS, 0.05)
NORMAL = NormalDist()


def documents() -> Data:
    """60 documents of 5 items of 3 features, of which every fifth is a clause."""
    generator = np.random.default_rng(0)
    items = 300
    indices = np.sort(generator.integers(0, 500, size=(items, 3)), axis=1) + [[0, 500, 1000]]
    ends = np.arange(0, items + 1, 5)
    return Data(
        features=Features(
            indices=indices.ravel().astype(np.int32), offsets=np.arange(0, 3 * items + 1, 3)
        ),
        labels=(np.arange(items) % 5 == 0).astype(np.int64),
        sequences=ends,
        records=ends,
    )


@pytest.fixture(scope="module")
def planted() -> tuple[Data, Canaries]:
    return canaries.plant(
        documents(), rows=ROWS, count=1500, label=1, generator=np.random.default_rng(1)
    )


def attacked(planted: tuple[Data, Canaries], noise_multiplier: float, number: int = 0) -> Attack:
    data, chosen = planted
    table = private_fitting.fit_private(
        data.features,
        data.labels,
        sequences=data.sequences,
        records=data.records,
        start=Start(
            tags=("O", "LAW"), scales=SCALES, transitions=private_fitting.transitions_of("OL")
        ),
        plan=FreePlan(noise_multiplier=noise_multiplier, steps=STEPS, expected_records=1000),
        settings=Settings(total_learning_rate=300.0),
        stream=SecretStream(key=bytes([number]) * 32),
    )
    return chosen.attack(table.weights)


def calibrated(epsilon: float) -> float:
    return calibration.noise_multiplier(
        epsilon=epsilon, delta=DELTA, sampling_rate=1.0, steps=STEPS, accountant="pld"
    )


def test_without_noise_every_canary_is_found(planted: tuple[Data, Canaries]) -> None:
    found = attacked(planted, 1e-3)
    assert (found.auc, found.tpr) == (1.0, 1.0)
    assert found.epsilon_lower(DELTA) > 5


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_they_see_nearly_all_that_a_guarantee_allows_and_no_more(
    planted: tuple[Data, Canaries], epsilon: float
) -> None:
    multiplier = calibrated(epsilon)
    found = attacked(planted, multiplier)
    # Of four iterates the last two are averaged: the first three steps count whole, the last half.
    seen = 3.5 / math.sqrt(3.25) / multiplier
    # The area of 1500 and 1500 scores has a deviation of .01.
    assert found.auc == pytest.approx(NORMAL.cdf(seen / math.sqrt(2)), abs=0.04)
    assert found.epsilon_lower(DELTA) <= epsilon
    most = clopper_pearson(round(found.fpr * 1500), 1500, 0.05)[1]
    allowed = NORMAL.cdf(math.sqrt(STEPS) / multiplier + NORMAL.inv_cdf(most))
    assert found.tpr_interval[0] <= min(allowed, math.exp(epsilon) * most + DELTA)


def test_a_claim_with_too_little_noise_is_refuted(planted: tuple[Data, Canaries]) -> None:
    found = attacked(planted, calibrated(1.0) / 6)
    audit = found.audit(delta=DELTA)
    assert audit.unit == "document"
    assert audit.problem() is None
    assert audit.epsilon_lower is not None
    assert audit.epsilon_lower > 1.0


def test_canaries_are_records_of_their_own_in_rows_of_their_own(
    planted: tuple[Data, Canaries],
) -> None:
    data, chosen = planted
    before = documents()
    rows = np.concatenate([chosen.planted, chosen.left_out])
    assert len(np.unique(rows)) == len(rows) == 3000
    assert not set(rows.tolist()) & set(before.features.indices.tolist())
    assert not set(chosen.left_out.tolist()) & set(data.features.indices.tolist())
    assert len(data.records) == len(before.records) + 1500
    first = len(before.labels)
    assert data.records[-1] == data.features.num_items == len(data.labels)
    assert set(data.features.indices[data.features.offsets[first] :][:64].tolist()) == {
        int(chosen.planted[0])
    }


def test_a_full_table_has_no_place_for_them() -> None:
    with pytest.raises(ValueError, match="rows are free"):
        canaries.plant(
            documents(), rows=1500, count=900, label=1, generator=np.random.default_rng(0)
        )
