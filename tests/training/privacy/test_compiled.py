"""Models that torch.compile made faster are trained as they were written: exact, and no faster."""

from __future__ import annotations

import pytest
import torch
from private_simulator import DIVISOR, clipped_sum, flat, same_sum, small_model, squares, training

from hushdoc_training.privacy.clipping import (
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
    settings = {"losses": squares(compiled), "backend": backend, "max_examples": 2}
    with training(model, draws=[[1, 2, 8]], **settings) as made:  # record 2 is larger than a batch
        made.step()
    moved = (before - flat(model)) * DIVISOR
    assert same_sum(moved, clipped_sum([1, 2, 8]))


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
