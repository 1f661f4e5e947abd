"""Which rows the self-test tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from private_simulator import small_model, squares, training
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.trial import require_exact, tried_rows


def test_rows_come_from_the_first_record_to_the_last() -> None:
    records = [[number, number + 0.5, -1] for number in range(100)]
    found = tried_rows(records)
    assert found[:2] == [0, 0.5]
    assert found[2:4] == [99, 99.5]
    assert len(found) == 12
    assert {int(row) for row in found} == {0, 99, 19, 79, 39, 59}


def test_records_without_rows_are_passed_over() -> None:
    assert tried_rows([[]] * 50 + [["a"]] + [[]] * 70 + [["b"]]) == ["b", "a"]
    assert tried_rows([[]] * 50) == []


def test_the_longest_and_the_shortest_row_come_first() -> None:
    records = [["aaaa"], ["bbb", "bbbb"], ["cccc"], ["cc", "ccccccc"], ["dddd"], ["e"]] * 40
    found = tried_rows(records, length=len)
    assert found[:2] == ["ccccccc", "e"]


@dataclass(frozen=True)
class Window:
    ids: np.ndarray[Any, Any]
    more: dict[str, list[torch.Tensor]]


@pytest.mark.parametrize(
    "make",
    [
        float,
        lambda n: torch.full((3,), n),
        lambda n: np.full((2, 2), n),
        lambda n: (1, [torch.tensor(n)]),
        lambda n: Window(ids=np.array([n]), more={"x": [torch.tensor(n)]}),
    ],
)
def test_rows_that_are_alike_are_tried_once(make: Any) -> None:
    records = [[make(2)], [make(2), make(2)], [make(3)]]
    assert len(tried_rows(records)) == 2


def test_things_that_cannot_be_compared_are_different() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError

    assert len(tried_rows([[Odd()], [Odd()]])) == 2


def ratio_of(model: nn.Module) -> Any:
    # Divided by what all rows of a batch hold: the same for rows that are alike.
    def losses(rows: Any) -> torch.Tensor:
        x = torch.stack(list(rows))
        return model(x).square().sum(1) / x.square().sum() * len(x)

    return losses


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_trial_of_rows_that_are_alike_is_refused(number: int) -> None:
    model, row = small_model(), torch.randn(6)
    trial = [[row.clone()] for _ in range(number)]
    with pytest.raises(PrivacyError, match="only one row that differs"):
        training(model, draws=[], losses=ratio_of(model), trial=trial).__enter__()


@pytest.mark.parametrize("trial", [[[0, 1]], [[0], [1]], [[0], [1], [2]]])
def test_a_trial_of_two_rows_finds_what_couples_them(trial: list[list[int]]) -> None:
    model, rows = small_model(), torch.randn(3, 6)
    public = [[rows[index] for index in record] for record in trial]
    with pytest.raises(PrivacyError, match="depends on other rows"):
        training(model, draws=[], losses=ratio_of(model), trial=public).__enter__()


def test_a_mean_over_the_longest_row_is_found_though_the_first_rows_are_full() -> None:
    model = nn.Linear(6, 1)
    x, lengths = torch.randn(300, 8, 6), torch.full((300,), 8)
    lengths[17] = 2
    clipper = clipping.book_keeping(model, clipping_norm=1.0)

    def losses(rows: Any) -> torch.Tensor:
        longest = int(lengths[rows].max())
        mask = (torch.arange(longest) < lengths[rows][:, None]).float()
        return (model(x[rows][:, :longest]).squeeze(-1).square() * mask).mean(1)

    with pytest.raises(PrivacyError, match="longest row"):
        require_exact(
            clipper,
            clipping.place(model),
            [[row] for row in range(300)],
            losses,
            tolerance=1e-3,
            length=lambda row: int(lengths[row]),
        )


def test_a_tried_record_that_is_not_finite_is_passed_over() -> None:
    model = small_model()
    records = [[torch.randn(6)] for _ in range(9)]
    records[0] = [torch.full((6,), float("inf"))]
    with training(model, draws=[[0, 1]], records=records, losses=squares(model)) as made:
        assert made.step().nonfinite == 1
