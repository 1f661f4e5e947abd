"""Tables draw whom their coins draw; commands take every document, so a smaller rate is tried."""

from __future__ import annotations

import numpy as np
import pytest

from hushdoc.hashing import Features
from hushdoc_training.crf import private_fitting
from hushdoc_training.crf.private_fitting import Settings, Start
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.witness.command_runs import entropy
from hushdoc_training.witness.entropy import just_above, just_below, key_with, replaced
from hushdoc_training.witness.table_spy import Floats, TableSpy

RECORDS, RATE = 6, 0.3


def first_move(key: bytes, *, poisoned: bool) -> Floats:
    """Returns by how much the first step moves a table of six records of one item each."""
    each = np.arange(RECORDS + 1)
    items = Features(indices=each[:-1].astype(np.int32) % 4, offsets=each)
    start = Start(tags=("O", "X"), scales=np.ones(4), transitions=np.zeros((2, 2)))
    plan = PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=RATE, steps=1, expected_records=2, clipping_norm=1.0
    )
    with TableSpy(records=RECORDS, poisoned=poisoned) as spy, replaced(entropy(1, key)):
        private_fitting.fit_private(
            items,
            each[:-1] % 2,
            sequences=each,
            records=each,
            start=start,
            plan=plan,
            settings=Settings(),
            stream=SecretStream(),
        )
    assert spy.seen is not None
    return spy.seen.first


@pytest.mark.parametrize("drawn", [True, False])
def test_a_coin_hardly_below_the_rate_draws_and_one_hardly_above_does_not(drawn: bool) -> None:
    near = just_below if drawn else just_above
    key = key_with(RECORDS, lambda coins: near(RATE, coins[-1]), what="such a coin")
    moved = np.abs(first_move(key, poisoned=False) - first_move(key, poisoned=True)).sum()
    assert (moved > 0) == drawn
