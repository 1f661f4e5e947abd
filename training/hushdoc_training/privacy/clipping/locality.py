"""Whether each loss still depends on its own example alone after examples were reordered."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.unwrapped_torch import grad

# Of an example's largest gradient: more than bfloat16 rounds, and less than other examples' scales
# differ.
_ROUNDING = 2e-2


def require_local(losses: torch.Tensor, moved: Iterable[torch.Tensor]) -> None:
    """Requires that each loss depends on its own example alone of what was moved on the way to it.

    Scaling every loss by a number of its own has to scale the gradients of its example by the same.
    """
    sources = [tensor for tensor in moved if tensor.requires_grad]
    if not sources or not losses.requires_grad:
        return
    examples = len(losses)
    generator = torch.Generator()
    generator.seed()  # with a known one a loss could be built to pass
    scales = torch.exp2(16 * torch.rand(examples, generator=generator) - 8).to(losses.device)
    found = [
        grad(total, sources, retain_graph=True, allow_unused=True)
        for total in (losses.sum(), (losses * scales.to(losses)).sum())
    ]
    for plain, scaled in zip(*found, strict=True):
        if plain is not None and not _is_scaled(plain, scaled, scales):
            raise PrivacyError(
                "The losses were picked by their content, or put in another order, on the way "
                "from the model's output, and are no longer one for each example in the examples' "
                "order: a loss depends on another example. Return the losses in that order."
            )


def _is_scaled(plain: torch.Tensor, scaled: torch.Tensor | None, scales: torch.Tensor) -> bool:
    examples = len(scales)
    if scaled is None or not plain.dim() or len(plain) % examples:
        return False
    before = plain.float().reshape(examples, -1)
    after = scaled.float().reshape(examples, -1)
    expected = before * scales.float().unsqueeze(1)
    size = torch.maximum(expected.abs(), after.abs()).amax(1)
    off = (after - expected).abs().amax(1) > _ROUNDING * size
    # What is not finite is left out of the sum.
    return not bool((off & torch.isfinite(before.sum(1))).any())
