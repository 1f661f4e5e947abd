"""Tables are made of whole steps of a public grid, alike for cells that were read and others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_tables import FreePlan, clauses, features_of

from hushdoc.hashing import FeatureScheme
from hushdoc_training.audit.float_pattern import float_pattern
from hushdoc_training.crf import private_fitting, term_release
from hushdoc_training.crf.private_fitting import Settings, Start, Training
from hushdoc_training.crf.term_release import LogOddsTable
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.secret_stream import SecretStream

TAGS = ("O", "TERM")
ROWS = 16_000


def training_of(items: list[list[int]], labels: list[int], **changed: object) -> Training:
    ends = np.arange(len(items) + 1)
    start = Start(
        tags=TAGS, scales=np.full(ROWS, 0.7), transitions=private_fitting.transitions_of(TAGS)
    )
    plan = replace(FreePlan(noise_multiplier=1.5, steps=6), **changed)  # type: ignore[arg-type]
    data = private_fitting.data_of(features_of(items), np.array(labels), ends, ends, start)
    return Training(data, start, plan, Settings(), SecretStream())


def test_every_step_goes_whole_steps_of_the_grid() -> None:
    items, labels, _ = clauses(20)
    training = training_of(items, labels)
    for _ in range(6):
        before = training._went.copy()
        training.step()
        for went in (training._went, training._moves):
            assert np.array_equal(went, np.rint(went))
        assert (training._went != before).all()


def test_last_bits_do_not_tell_which_cells_were_read() -> None:
    """As far as their law goes: half of the rows are read, by records that no step draws."""
    training = training_of(
        [[row] for row in range(ROWS // 2)], [1] * (ROWS // 2), sampling_rate=0.0
    )
    weights = training.run().weights
    read = np.arange(ROWS) < ROWS // 2
    attack = float_pattern(weights, read)
    assert attack.auc == pytest.approx(0.5, abs=0.03)
    # Whole steps also where a cell is the sum of all its draws: as many are even as odd, say.
    worth = training._rate * training._lattice.step / training._num_averaged * 0.7
    for cells in (weights[read], weights[~read]):
        steps = cells.astype(np.float64) / worth
        near = np.abs(steps) < 2**22
        assert near.sum() > 20
        assert np.abs(steps[near] - np.rint(steps[near])).max() < 0.26  # float32 keeps 24 bits


def test_a_released_row_of_terms_is_a_multiple_of_the_grid_and_stays_in_the_ball() -> None:
    chance = np.random.default_rng(5)
    weights = chance.normal(size=(2000, 3)).astype(np.float32)
    scheme = FeatureScheme(rows=2000, bigrams=False, skip_grams=False)
    table = LogOddsTable(weights=weights, bound=0.5, scheme=scheme)
    grid = lattice.of_truncated(norm=0.5, noise_multiplier=4.0)
    released = term_release.released(table, noise_std=2.0, stream=SecretStream())
    cells = getattr(released, "weights", released).astype(np.float64)
    assert np.array_equal(cells / grid.step, np.rint(cells / grid.step))
    rows = term_release.projected(weights.astype(np.float64), 0.5)
    inside = lattice.truncated(rows * (1 - 1e-9), grid.step)
    assert np.linalg.norm(inside, axis=1).max() <= grid.sensitivity
    assert (cells - rows).std() == pytest.approx(2.0, rel=0.03)
