"""Models that torch.compile made faster are trained as they were written: exact, and no faster."""

from __future__ import annotations

import pytest
import torch
from private_simulator import DIVISOR, clipped_sum, flat, same_sum, small_model, squares, training
from torch import nn

from hushdoc_training.privacy.clipping import (
    BookKeeping,
    OneByOne,
    OpacusHooks,
    check,
    uncompiled,
)


@pytest.mark.parametrize("backend", ["book-keeping", "one-by-one", "opacus"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_step_is_that_of_the_model_as_it_was_written(backend: str, *, whole: bool) -> None:
    model = small_model()
    # The compiler's own default, which frees what a second backward pass would need.
    compiled = torch.compile(model) if whole else model
    if not whole:
        model.compile()
    before = flat(model)
    with training(model, draws=[[1, 4, 8]], losses=squares(compiled), backend=backend) as made:
        made.step()
    moved = (before - flat(model)) * DIVISOR
    assert same_sum(moved, clipped_sum([1, 4, 8]))


@pytest.mark.parametrize("kind", [BookKeeping, OneByOne, OpacusHooks])
def test_clippers_do_the_same_by_themselves(kind: type) -> None:
    torch.manual_seed(0)
    model, examples = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)), torch.randn(4, 6)
    compiled = torch.compile(model, backend="aot_eager")
    compiled(examples)  # compiled by now
    truth, found = (kind(model, clipping_norm=0.1) for _ in range(2))
    truth.add(lambda: model(examples).square().sum(1), torch.arange(4))
    found.add(lambda: compiled(examples).square().sum(1), torch.arange(4))
    for name, total in truth.sums.items():
        assert same_sum(found.sums[name], total, in_weights=False)
    large = [
        lambda: compiled(examples[:2]).square().sum(1),
        lambda: compiled(examples[2:]).square().sum(1),
    ]
    truth.add_large([lambda: model(examples).square().sum(1)])
    found.add_large(large)
    for name, total in truth.sums.items():
        assert same_sum(found.sums[name], total, in_weights=False)
    assert (
        check(found, lambda some: compiled(examples[list(some)]).square().sum(1), num_examples=4)
        is not None
    )


def test_compiled_functions_stay_compiled_outside() -> None:
    calls: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        def run(*values: torch.Tensor) -> object:
            calls.append(1)
            return graph.forward(*values)

        return run

    double = torch.compile(lambda x: 2 * x, backend=backend)
    with uncompiled():
        assert float(double(torch.ones(()))) == 2
    assert not calls
    assert float(double(torch.ones(()))) == 2
    assert calls
