"""Weights that trainings of this process have left, known by their content.

A claim is of the steps of one training. Whoever trains further what another one has left (its
output layer first, then all of it; or the same start once more, which the first run has moved)
releases weights that hold the steps of both. So each training notes what it has moved, and a later
one that begins with any of it says so. Trainings without privacy note theirs too: no claim of the
start's own speaks of them. Other processes' steps are not known here: models are saved with their
claims, and what a checkpoint held when it was read its claim tells of. One that is about protected
documents is added up where a recipe goes on from it, and no claim of other steps alone does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from hushdoc.certificate.claim import Claim
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.ownership import some
from hushdoc_training.privacy.released_state import checksums

_LEFT: dict[int, str | None] = {}
"""Checksums of parameters as private steps left them, each with the id of the ledger that counts
these steps: "" of none, None where nobody said."""

_LEFT_OPENLY: dict[int, str | None] = {}
"""The same of trainings without privacy, which no ledger counts."""

_READ = "_hushdoc_read"
"""What `read` keeps stands there in a model, so that copies of the model have it too."""

_PROTECTED = "_hushdoc_read_of_protected"
"""Stands likewise in a model whose claim is about protected documents: the commitment of the one
ledger that counts them, '' without."""

_NOTED = "_hushdoc_noted"
"""What `note` keeps stands there in a model that is gone on with."""


class Moved:
    """Parameters of one training, whose content is noted where it has moved."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], *, private: bool = True) -> None:
        """Takes them as they are before the first step."""
        self._before = {*checksums(parameters).values()}
        self._left = _LEFT if private else _LEFT_OPENLY

    def end(self, parameters: Mapping[str, torch.Tensor], *, ledger: str | None = None) -> None:
        """Notes contents that none had before, under whatever name; once more does no harm."""
        for value in {*checksums(parameters).values()} - self._before:
            self._left[value] = self._left.get(value) if ledger is None else ledger


def begun_with(model: nn.Module, *, ledger: str | None = None) -> tuple[str, ...]:
    """Returns the names of a model's parameters that hold what private steps have left.

    With a ledger's id those alone whose steps another one is known to count, or none.
    """
    counted = () if ledger is None else (None, ledger)
    return tuple(name for name, known in ledgers(model).items() if known not in counted)


def ledgers(model: nn.Module) -> dict[str, str | None]:
    """Returns the parameters that hold what private steps have left, and which ledger counts it."""
    named = dict(model.named_parameters())
    found = checksums(named) if _LEFT else {}
    left = {name: _LEFT[value] for name, value in found.items() if value in _LEFT}
    for known in _protected(model):
        left = {name: left.get(name) or known for name in named}
    return left


def is_of_protected(model: nn.Module) -> bool:
    """Returns whether a model, or a part of it, was read with a claim of protected documents."""
    return bool(_protected(model))


def _protected(model: nn.Module) -> list[str]:
    return [getattr(part, _PROTECTED) for part in model.modules() if hasattr(part, _PROTECTED)]


def read(model: nn.Module, claim: Claim | None) -> None:
    """Notes what a model holds that was just read with its claim, which tells of all of it."""
    setattr(model, _READ, frozenset(checksums(dict(model.named_parameters())).values()))
    if claim is not None and claim.protected_data:
        found = {data.commitment or "" for data in claim.protected_data}
        setattr(model, _PROTECTED, found.pop() if len(found) == 1 else "")


def note(model: nn.Module, found: Mapping[str, str | None]) -> None:
    """Keeps what `ledgers` returned of a run's start in the model that the run goes on with."""
    setattr(model, _NOTED, dict(found))


def noted(model: nn.Module) -> dict[str, str | None]:
    """Returns what `note` has kept; the weights tell no longer whose steps they hold besides."""
    return dict(getattr(model, _NOTED, {}))


def untold(model: Any, *, claimed: bool, private: bool = True) -> tuple[str, ...]:
    """Returns the names of a start's parameters that its claim can't tell of.

    They hold what trainings of this process have left. With a claim (`claimed`) that is told of
    what was read with it. Without `private` what private steps have left is passed over.
    """
    left = {*_LEFT_OPENLY, *(_LEFT if private else ())}
    if not left:
        return ()
    told: frozenset[int] = getattr(model, _READ, frozenset()) if claimed else frozenset()
    found = checksums(dict(model.named_parameters()))
    return tuple(name for name, value in found.items() if value in left and value not in told)


def refused(names: tuple[str, ...]) -> PrivacyError:
    """Returns the error for weights of which a claim would leave steps out."""
    return PrivacyError(
        f"The training began with what an earlier private training had left ({some(names)}), and a "
        "claim of its own steps alone would leave out what that one spent. Charge both to one "
        "ledger, which adds them up; or begin with weights that no private step has moved: load or "
        "make the model anew for every training.",
        code="TRAINED_BEFORE",
    )
