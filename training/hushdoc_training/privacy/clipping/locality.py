"""Whether losses that were picked or sorted are each still their own row's."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping.unwrapped_torch import grad

# Of a row's largest gradient: more than bfloat16 rounds, and less than other rows' scales differ.
_ROUNDING = 2e-2


def require_local(losses: torch.Tensor, moved: Iterable[torch.Tensor]) -> None:
    """Returns if each loss depends on its own row alone of what was moved on the way to it.

    Scaling every loss by a number of its own has to scale the gradients of its row by the same.

    Args:
        losses: Shape [rows]; its graph is kept.
        moved: Tensors with an entry for every row, before they were moved.

    Raises:
        PrivacyError: A loss depends on another row.
    """
    sources = [tensor for tensor in moved if tensor.requires_grad]
    if not sources or not losses.requires_grad:
        return
    rows = len(losses)
    generator = torch.Generator()
    generator.seed()  # a known one would tell how to pass
    scales = torch.exp2(16 * torch.rand(rows, generator=generator) - 8).to(losses.device)
    found = [
        grad(total, sources, retain_graph=True, allow_unused=True)
        for total in (losses.sum(), (losses * scales.to(losses)).sum())
    ]
    for plain, scaled in zip(*found, strict=True):
        if plain is not None and not _is_scaled(plain, scaled, scales):
            raise PrivacyError(
                "The losses were picked by their content, or put in another order, on the way "
                "from the model's output, and are no longer one for each row in the order of the "
                "rows: a loss depends on another row. Return the losses in the order of the rows."
            )


def _is_scaled(plain: torch.Tensor, scaled: torch.Tensor | None, scales: torch.Tensor) -> bool:
    rows = len(scales)
    if scaled is None or not plain.dim() or len(plain) % rows:
        return False
    before = plain.float().reshape(rows, -1)
    after = scaled.float().reshape(rows, -1)
    expected = before * scales.float().unsqueeze(1)
    size = torch.maximum(expected.abs(), after.abs()).amax(1)
    off = (after - expected).abs().amax(1) > _ROUNDING * size
    # What is not finite is left out of the sum.
    return not bool((off & torch.isfinite(before.sum(1))).any())
