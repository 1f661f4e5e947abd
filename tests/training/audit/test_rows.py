"""Attacks that tell genuine rows from made-up ones: they find what the paper's fill leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hushdoc_training.audit import float_pattern, row_traces, two_sample
from hushdoc_training.audit.roc import Attack
from hushdoc_training.crf import filling
from hushdoc_training.randomness.secret_stream import SecretStream

ATTACKS: dict[str, Callable[..., Attack]] = {
    "zeros": row_traces.zeros,
    "antisymmetry": row_traces.antisymmetry,
    "multiplicity": row_traces.multiplicity,
    "float_pattern": float_pattern.float_pattern,
    "two_sample": two_sample.two_sample,
}


@pytest.mark.parametrize("name", ["zeros", "multiplicity", "two_sample"])
def test_the_paper_fill_leaks_which_rows_documents_had(contracts: Any, name: str) -> None:
    table = filling.paper_fill(contracts.table, stream=SecretStream())
    found = ATTACKS[name](table, contracts.table.seen.any(axis=1))
    assert found.auc_interval[0] > 0.8
    assert found.tpr_interval[0] > 0.3


@pytest.mark.parametrize("name", ["multiplicity", "two_sample"])
def test_with_zeros_drawn_it_leaks_which_rows_were_learned(contracts: Any, name: str) -> None:
    table = filling.paper_fill(contracts.table, stream=SecretStream(), zeros_drawn=True)
    found = ATTACKS[name](table, contracts.table.genuine)
    assert found.auc_interval[0] > 0.8
    assert found.tpr_interval[0] > 0.3
    assert row_traces.zeros(table, contracts.table.seen.any(axis=1)).auc == 0.5


def test_rows_that_add_up_to_nothing_are_found_where_both_weights_were_learned(
    contracts: Any,
) -> None:
    table = filling.paper_fill(contracts.table, stream=SecretStream())
    complete = np.isfinite(contracts.table.weights).all(axis=1)
    kept = complete | ~contracts.table.seen.any(axis=1)
    found = row_traces.antisymmetry(table[kept], complete[kept])
    assert found.auc_interval[0] > 0.99
    assert found.tpr > 0.9


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_on_rows_finds_anything_in_the_noisy_fill(without_rare: Any, name: str) -> None:
    genuine = without_rare.table.genuine
    areas, hits, trials = [], 0.0, 0
    # With some hundred genuine rows one fill's area has a deviation of .02: five are looked at.
    for number in range(5):
        stream = SecretStream(key=bytes([number]) * 32)
        found = ATTACKS[name](filling.noisy_fill(without_rare.table, stream=stream), genuine)
        areas.append(found.auc)
        hits += found.tpr * found.num_true
        trials += found.num_true
    assert np.mean(areas) <= 0.55
    assert hits / trials <= 0.01


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_see_nothing_where_there_is_nothing(name: str) -> None:
    chance = np.random.default_rng(0)
    table = chance.normal(size=(8000, 2)).astype(np.float32)
    found = ATTACKS[name](table, chance.random(8000) < 0.3)
    assert found.auc_interval[0] <= 0.5 <= found.auc_interval[1] or abs(found.auc - 0.5) < 0.02


def test_last_bits_show_numbers_of_few_decimals_and_of_half_precision() -> None:
    chance = np.random.default_rng(1)
    table = chance.normal(size=(6000, 2)).astype(np.float32)
    for altered in (table[:2000].round(6), table[:2000].astype(np.float16)):
        mixed = np.concatenate([altered.astype(np.float32), table[2000:]])
        found = float_pattern.float_pattern(mixed, np.arange(6000) < 2000)
        assert found.auc > 0.95


@pytest.mark.parametrize("sizes", [(1.0, 0.01), (10.0, 1.0), (100.0, 0.1)])
def test_last_bits_tell_no_rows_apart_by_their_size(sizes: tuple[float, float]) -> None:
    generator = np.random.default_rng(0)
    rows = np.concatenate([generator.normal(size=(20_000, 2)) * size for size in sizes])
    mixed = rows.astype(np.float32)
    genuine = np.arange(40_000) < 20_000
    low, high = float_pattern.float_pattern(mixed, genuine).auc_interval
    assert low < 0.505
    assert high > 0.495
    # Six decimals of small numbers are still seen.
    mixed[20_000:] = np.round(mixed[20_000:], 6)
    assert abs(float_pattern.float_pattern(mixed, genuine).auc - 0.5) > 0.05


def test_weights_of_zero_have_a_pattern_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = float_pattern.scores_of(np.array([[0.0], [-0.0], [1e-40]], np.float32))
    assert np.isfinite(scores).all()


def test_a_classifier_needs_rows_of_both_kinds() -> None:
    with pytest.raises(ValueError, match="at least 20 of each"):
        two_sample.two_sample(np.ones((50, 2), np.float32), np.arange(50) < 3)


def test_rows_are_spread_over_the_table() -> None:
    chosen = np.arange(1000) % 2 == 0
    assert row_traces.spread(chosen, 5000).tolist() == list(range(0, 1000, 2))
    few = row_traces.spread(chosen, 10)
    assert (len(few), few[0], few[-1]) == (10, 0, 998)
