"""The weights that a run begins with, as a digest that a resumed run shares.

A run that was interrupted before its first state takes its start anew, which must be the same one:
the claim says what the start had learned from.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # folders of runs are looked into where torch is not installed
    from torch import nn


def digest(model: nn.Module, *, after: bytes = b"") -> str:
    """Returns the SHA-256 of some bytes and all weights and buffers, trained or not, by name."""
    import torch

    made = hashlib.sha256(after)
    for name, value in sorted(model.state_dict().items()):
        held = value.detach().cpu().contiguous()
        made.update(f"{name} {held.dtype} {list(held.shape)}\n".encode())
        made.update(held.reshape(-1).view(torch.uint8).numpy().data)
    return made.hexdigest()
