"""Book-keeping against its own self-test, and against one backward pass per record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from hushdoc_training.privacy.clipping import BookKeeping, Clipper, OneByOne, check

LossesOf = Callable[[Sequence[int]], torch.Tensor]


def self_test(
    model: nn.Module, losses_of: LossesOf, num_examples: int, **settings: Any
) -> frozenset[str]:
    """Tries book-keeping on losses, and returns the parameters that none of them reaches."""
    clipper = BookKeeping(model, clipping_norm=1.0)
    return frozenset(check(clipper, losses_of, num_examples=num_examples, **settings))


def assert_exact(
    model: nn.Module, losses: Callable[[], torch.Tensor], records: torch.Tensor | int
) -> Clipper:
    """Compares norms and sums; a number stands for as many records of one example."""
    records = torch.arange(records) if isinstance(records, int) else records
    ours, truth = (make(model, clipping_norm=0.05) for make in (BookKeeping, OneByOne))
    found, expected = (clipper.add(losses, records) for clipper in (ours, truth))
    torch.testing.assert_close(found.norms, expected.norms, rtol=1e-4, atol=1e-6)
    for name, total in truth.sums.items():
        assert (ours.sums[name] - total).norm() <= 1e-5 * total.norm() + 1e-7, name
    return ours
