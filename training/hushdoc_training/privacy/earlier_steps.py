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

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from hushdoc.certificate.claim import Claim
from hushdoc.errors import PrivacyError
from hushdoc_training.inherited_claims import LEDGER_RUNS
from hushdoc_training.ledger.ledger import LAST_CHARGE
from hushdoc_training.ledger.runs import LedgerStatement
from hushdoc_training.privacy.ownership import some
from hushdoc_training.privacy.released_state import checksums
from hushdoc_training.receipt import Held

_NOWHERE = frozenset({""})

_LEFT: dict[int, frozenset[str]] = {}
"""Checksums of parameters as private steps left them, each with where all steps were charged that
they hold, as `receipt.Held` has it."""

_LEFT_OPENLY: dict[int, frozenset[str]] = {}
"""The same of trainings without privacy, which no ledger counts."""

_READ = "_hushdoc_read"
"""What `read` keeps stands there in a model, so that copies of the model have it too."""

_PROTECTED = "_hushdoc_read_of_protected"
"""Stands likewise in a model whose claim is about protected documents: where all steps that the
claim counts were charged."""


class Charges:
    """Charges steps, and notes which runs of which ledgers count them."""

    def __init__(self, charge: Callable[[int], object]) -> None:
        """Begins with none charged."""
        self._charge = charge
        self._last: dict[str, str] = {}

    def __call__(self, step: int) -> None:
        """Charges a step."""
        LAST_CHARGE.set("")
        self._charge(step)
        charged = LAST_CHARGE.get()
        self._last[charged.rpartition(":")[0]] = charged

    @property
    def seen(self) -> frozenset[str]:
        """Where this process has charged steps, in all."""
        return frozenset(self._last.values())

    @property
    def charged(self) -> frozenset[str]:
        """The same, and "" where it has charged none, of whatever it has moved."""
        return self.seen or _NOWHERE


class Moved:
    """Parameters of one training, whose content is noted where it has moved."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], *, private: bool = True) -> None:
        """Takes them as they are before the first step."""
        self._before = {*checksums(parameters).values()}
        self._left = _LEFT if private else _LEFT_OPENLY

    def end(
        self, parameters: Mapping[str, torch.Tensor], *, charged: Iterable[str] = _NOWHERE
    ) -> None:
        """Notes contents that none had before, under whatever name; once more does no harm.

        `charged` says where all steps were that they hold, those of the start included.
        """
        for value in {*checksums(parameters).values()} - self._before:
            self._left[value] = self._left.get(value, frozenset()).union(charged)


class Left:
    """What a private training has moved, also while it is open and where nobody closes it."""

    def __init__(
        self,
        training: object,
        parameters: Mapping[str, torch.Tensor],
        charged: Callable[[], Iterable[str]],
    ) -> None:
        """Takes the parameters as they are before the first step.

        Neither `charged`, which says where all steps were charged that they hold, nor the
        parameters may lead to the training, which would never end then.
        """
        moved = Moved(parameters)

        def note() -> None:
            moved.end(parameters, charged=charged())

        self.note = note
        self.end = weakref.finalize(training, note)
        self.end.atexit = False
        _OPEN.add(self)


_OPEN: weakref.WeakSet[Left] = weakref.WeakSet()
"""Those of trainings that may take another step."""


def begun_with(model: nn.Module) -> Held:
    """Returns the parameters that hold what private steps have left, and where these count."""
    for left in list(_OPEN):
        if left.end.alive:
            left.note()
    named = dict(model.named_parameters())
    found = checksums(named) if _LEFT else {}
    held = {name: _LEFT[value] for name, value in found.items() if value in _LEFT}
    for charged in _protected(model):
        held = {name: held.get(name, frozenset()) | charged for name in named}
    return tuple((name, tuple(sorted(held[name]))) for name in sorted(held))


def charged_in(held: Held) -> frozenset[str]:
    """Returns where all steps were charged that anything of a start holds."""
    return frozenset(one for _, charged in held for one in charged)


def uncounted(held: Held, ledger: LedgerStatement | None) -> tuple[str, ...]:
    """Returns the names of parameters that hold steps which a ledger does not count."""
    counted = {one for one in charged_in(held) if ledger is not None and ledger.counts(one)}
    return tuple(name for name, charged in held if not counted.issuperset(charged))


def is_of_protected(model: nn.Module) -> bool:
    """Returns whether a model, or a part of it, was read with a claim of protected documents."""
    return bool(_protected(model))


def _protected(model: nn.Module) -> list[frozenset[str]]:
    return [getattr(part, _PROTECTED) for part in model.modules() if hasattr(part, _PROTECTED)]


def read(model: nn.Module, claim: Claim | None) -> None:
    """Notes what a model holds that was just read with its claim, which tells of all of it."""
    setattr(model, _READ, frozenset(checksums(dict(model.named_parameters())).values()))
    if claim is not None and claim.protected_data:
        setattr(model, _PROTECTED, _charged_by(claim))


def _charged_by(claim: Claim) -> frozenset[str]:
    """Returns which steps of which runs a claim counts, where it says so of all of them."""
    marks, transcripts = claim.training.get(LEDGER_RUNS), [*claim.transcripts.values()]
    events = getattr(transcripts[0], "events", ()) if len(transcripts) == 1 else ()
    if not isinstance(marks, list | tuple) or len(marks) != len(events):
        return _NOWHERE
    runs = zip(marks, events, strict=True)
    return frozenset(f"{mark}:{getattr(event, 'count', '')}" for mark, event in runs) or _NOWHERE


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
