"""Weights that private steps of this process have left, known by their content.

A claim is of the steps of one training. Whoever trains further what another one has left (its
output layer first, then all of it; or the same start once more, which the first run has moved)
releases weights that hold the steps of both. So each training notes what it has moved, and a later
one that begins with any of it says so. Other processes' steps are not known here: models are saved
with their claims.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.ownership import some
from hushdoc_training.privacy.released_state import checksums

_LEFT: set[int] = set()
"""Checksums of parameters as private steps left them."""


class Moved:
    """Parameters of one training, whose content is noted where it has moved."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Takes them as they are before the first step."""
        self._before = {*checksums(parameters).values()}

    def end(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Notes contents that none had before, under whatever name; once more does no harm."""
        _LEFT.update({*checksums(parameters).values()} - self._before)


def begun_with(model: nn.Module) -> tuple[str, ...]:
    """Returns the names of a model's parameters that hold what private steps have left."""
    if not _LEFT:
        return ()
    found = checksums(dict(model.named_parameters()))
    return tuple(name for name, value in found.items() if value in _LEFT)


def refused(names: tuple[str, ...]) -> PrivacyError:
    """Returns the error for weights of which a claim would leave steps out."""
    return PrivacyError(
        f"The training began with what an earlier private training had left ({some(names)}), and a "
        "claim of its own steps alone would leave out what that one spent. Charge both to one "
        "ledger, which adds them up; or begin with weights that no private step has moved: load or "
        "make the model anew for every training.",
        code="TRAINED_BEFORE",
    )
