from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushdoc.hashing import FeatureScheme, features
from hushdoc_training.crf import private_linear
from hushdoc_training.crf.private_fitting import public_scales
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream

SCHEME = FeatureScheme(rows=2003, bigrams=False, skip_grams=False)
NAMES = ("cars", "faith", "space")


def messages(count: int, seed: int) -> tuple[list[list[str]], np.ndarray]:
    chance = np.random.default_rng(seed)
    labels = chance.integers(3, size=count)
    made = []
    for label in labels:
        own = [f"{NAMES[label]}{number}" for number in chance.integers(30, size=5)]
        made.append([*own, *(f"w{number}" for number in chance.integers(500, size=15))])
    return made, labels


def test_messages_are_told_apart_under_epsilon_four() -> None:
    train, labels = messages(900, 0)
    test, true = messages(300, 1)
    plan = PrivacyPlan.calibrated(
        epsilon=4, sampling_rate=1.0, steps=8, clipping_norm=1.0, expected_records=900
    )
    table = private_linear.fit_private_linear(
        features(train, SCHEME),
        labels,
        names=NAMES,
        scales=public_scales(features(messages(200, 2)[0], SCHEME), SCHEME.rows),
        plan=plan,
        stream=SecretStream(),
    )
    found = features(test, SCHEME)
    guesses = [table.weights[found.rows_of(item)].sum(axis=0).argmax() for item in range(300)]
    assert (np.array(guesses) == true).mean() > 0.85
    assert not table.transitions.any()
    assert (table.weights != 0).all()


def test_transitions_are_refused() -> None:
    plan = PrivacyPlan.calibrated(
        epsilon=4, sampling_rate=1.0, steps=1, clipping_norm=1.0, expected_records=1
    )
    with pytest.raises(ValueError, match="no neighbours"):
        private_linear.fit_private_linear(
            features([["a"]], SCHEME),
            np.array([0]),
            names=NAMES,
            scales=np.ones(SCHEME.rows),
            plan=plan,
            stream=SecretStream(),
            settings=replace(private_linear.LINEAR, transition_scale=0.1),
        )


@pytest.mark.parametrize("scales", [SCHEME.rows, np.ones(SCHEME.rows)], ids=["counted", "given"])
def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_charged(
    scales: int | np.ndarray,
) -> None:
    plan = PrivacyPlan.calibrated(
        epsilon=1, sampling_rate=1.0, steps=1000, clipping_norm=1.0, expected_records=300
    )
    charged: list[int] = []
    with pytest.raises(ValueError, match="fewer steps"):
        private_linear.fit_private_linear(
            features([["a"], ["b"]], SCHEME),
            np.array([0, 1]),
            names=NAMES,
            scales=scales,
            plan=plan,
            stream=SecretStream(),
            charge=charged.append,
        )
    assert not charged
