"""Convolutions: their settings, and the pairs that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from hushdoc_training.privacy.clipping.gradient_terms import (
    CANCELLED,
    gram,
    is_cancelled,
    kept_examples,
)
from hushdoc_training.privacy.clipping.grouping import Grouping


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """The settings of a convolution, as ATen's backward function names them."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int

    def backward(
        self,
        gradient: torch.Tensor,
        image: torch.Tensor,
        weight: torch.Tensor,
        *,
        of_image: bool,
        of_weight: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the gradients of the image and of the weight; None where not asked for."""
        found: Any = torch.ops.aten.convolution_backward(
            gradient,
            image,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            self.transposed,
            self.output_padding,
            self.groups,
            [of_image, of_weight, False],
        )
        return found[0], found[1]


class Convolved:
    """Pairs of a convolution: its images and the gradients of its output."""

    def __init__(
        self,
        grouping: Grouping,
        image: torch.Tensor,
        gradient: torch.Tensor,
        weight: torch.Tensor,
        settings: Convolution,
    ) -> None:
        """Keeps a pair, both shaped [examples, channels, ...]."""
        self.grouping = grouping
        self.image = image
        self.gradient = gradient
        self.weight = weight  # for its shape alone: its content may be gone
        self.settings = settings
        self.cancelled: list[int] = []  # of those that `squares` measured

    def of(self, record: int) -> torch.Tensor:
        """Returns one record's gradient."""
        if not self.grouping.size(record):
            return torch.zeros_like(self.weight, dtype=torch.float32)
        image = self.grouping.take(self.image, record)
        return self._weight_gradient(self.grouping.take(self.gradient, record), image)

    def squares(self) -> torch.Tensor:
        """Returns squared norms by Gram matrices of unfolded images, or by the gradients."""
        result = self.image.new_zeros(self.grouping.num_records, dtype=torch.float32)
        for record in range(self.grouping.num_records):
            if self.grouping.size(record):
                result[record] = self._square(record)
        return result

    def add_to(self, total: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds the clipped sum as one weight gradient."""
        by_example = self.grouping.factors_of_examples(factors)
        kept = kept_examples(by_example)
        image, gradient = self.image, self.gradient
        if kept is not None:
            if not len(kept):
                return
            image, gradient, by_example = image[kept], gradient[kept], by_example[kept]
        scale = by_example.reshape(-1, *[1] * (gradient.dim() - 1))
        total.add_(self._weight_gradient(gradient * scale, image))

    def _square(self, record: int) -> torch.Tensor:
        image = self.grouping.take(self.image, record)
        gradient = self.grouping.take(self.gradient, record)
        positions = gradient[:, 0].numel()
        p, d = self.weight.shape[0], self.weight.shape[1:].numel()
        plain = self.settings.groups == 1 and not self.settings.transposed and image.dim() == 4
        if plain and positions * (p + d) < 2 * p * d:
            v = F.unfold(
                image.float(),
                self.weight.shape[2:],
                dilation=tuple(self.settings.dilation),
                padding=tuple(self.settings.padding),
                stride=tuple(self.settings.stride),
            )
            u = gradient.float().flatten(2)
            square, trace = gram(u.transpose(1, 2).flatten(0, 1), v.transpose(1, 2).flatten(0, 1))
            if square > CANCELLED * trace:
                return square
        square = self._weight_gradient(gradient, image).square().sum()
        trace = self._weight_gradient(gradient.float().square(), image.float().square()).sum()
        if is_cancelled(square, trace):
            self.cancelled.append(record)
        return square

    def _weight_gradient(self, gradient: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        return self.settings.backward(
            gradient.float(),
            image.float(),
            torch.zeros_like(self.weight, dtype=torch.float32),
            of_image=False,
            of_weight=True,
        )[1].contiguous()
