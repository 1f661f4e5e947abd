"""PrivateRun: a folder in which private training outlives kills, crashes and Ctrl-C.

It holds `plan.json` (what a resumed run must share), `charges` (a line for every step, on the disk
before its records are drawn), `records` (a digest of the data, for a resumed run to compare) and
`state-<step>/` (weights and optimizer, to go on from). All of it stays with the trainer.

Where several processes train together, the first alone reads and writes the folder; the others need
not see it. They agree with it on when to stop and when to save, and what fails there is raised in
all of them. Any number of processes can go on with what any number left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hushdoc.errors import CheckpointError
from hushdoc.system import atomic_files
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.step import Step
from hushdoc_training.runs import gathering, state

PLAN = "plan.json"
CHARGES = "charges"
RECORDS = "records"


@dataclass(frozen=True, kw_only=True)
class PrivateRun:
    """A run's folder; make one with `open`, and give its `charge` to the PrivateTraining.

    Attributes:
        folder: Where it stands.
        plan: What it follows.
        charges: What it has spent.
        group: The processes that train together.
    """

    folder: Path
    plan: PrivacyPlan
    charges: state.Charges | state.Followed
    group: Group

    @classmethod
    def open(
        cls,
        folder: Path,
        plan: PrivacyPlan,
        *,
        resume: bool = False,
        processes: Any = None,
    ) -> PrivateRun:
        """Claims an empty folder, or returns to a run with the same plan.

        Args:
            folder: A new folder, or the one of an interrupted run. Of several processes the first
                one's counts, and its `resume`.
            plan: What the run follows.
            resume: Whether to go on with the run that stands there.
            processes: torch.distributed's group, as the PrivateTraining gets it.

        Raises:
            OutputExistsError: The folder holds something and `resume` is off.
            CheckpointError: There is nothing to resume, it followed another plan, or what it has
                spent is lost.
            PrivacyError: Processes differ in their plans, or the first one failed.
        """
        group = Group.current(processes)
        group.require_agreement({"the plan": asdict(plan)})
        own: list[state.Charges] = []

        def claim() -> int:
            own.append(_claimed(folder, plan, resume=resume))
            return own[0].charged

        charged = gathering.first_finds(group, claim)
        charges = own[0] if own else state.Followed(charged)
        return cls(folder=folder, plan=plan, charges=charges, group=group)

    def charge(self, step: int) -> None:
        """Charges a step for good; its records may be drawn when this returns."""
        self.charges.charge(step)

    def train(
        self,
        training: PrivateTraining[Any],
        *,
        save_every: float = 120.0,
        seen: Callable[[Step], None] | None = None,
    ) -> bool:
        """Takes the steps that are left; Ctrl-C finishes the step under way and saves.

        Args:
            training: Made with this run's `charge`.
            save_every: Seconds between states.
            seen: Called after every step.

        Returns:
            Whether all steps are taken; otherwise the run can be resumed.

        Raises:
            CheckpointError: A state can't be read, all steps are charged and none was saved,
                charges are lost, or the run was begun on other records.
            OutputWriteError: The disk is full; the last saved state stays.
            PrivacyError: Another process trains in the folder, the first of several failed, or
                what records hold can't be seen.
            ValueError: The training has another plan, or does not charge this run.
        """
        if training.plan != self.plan:
            raise ValueError("training follows another plan than this run; give both the same.")
        if Group.current(self.group.handle) != self.group:
            raise ValueError(
                "the run was opened before torch.distributed was started; open it after that."
            )
        with ExitStack() as stack:
            held = state.held(self.folder / PLAN)
            self.group.first_does(lambda: stack.enter_context(held))
            self.group.first_does(lambda: state.clear_partial(self.folder))
            self.group.first_does(lambda: _require_same_records(self.folder, training))
            self._return_to(training)
            return self._take_steps(training, save_every, seen)

    def _return_to(self, training: PrivateTraining[Any]) -> None:
        """Loads the last state and counts what was charged, also since this run was opened."""
        restored = state.restore(self.folder, training.model, training.optimizer, self.group)
        charged = gathering.first_finds(self.group, self.charges.read)
        self.charges.charged = charged
        if restored > charged:
            raise CheckpointError(
                f"The run in '{self.folder}' saved step {restored}, and its file '{CHARGES}' says "
                f"{charged}: charges are lost. Restore the file, or start a new run in another "
                "folder; what this one spent stays spent."
            )
        if not restored and charged >= training.plan.steps:
            raise CheckpointError(
                f"All {training.plan.steps} steps of the run in '{self.folder}' are charged and no "
                "state was saved, so there is nothing to finish. Start a new run in another "
                "folder; what this one spent stays spent."
            )
        training.resume(charged)

    def _take_steps(
        self,
        training: PrivateTraining[Any],
        save_every: float,
        seen: Callable[[Step], None] | None,
    ) -> bool:
        saved_at = time.monotonic()
        with state.interrupts() as interrupted:
            stop = False
            while training.charged < training.plan.steps and not stop:
                step = training.step()
                if seen is not None:
                    seen(step)
                late = self.group.is_first and time.monotonic() - saved_at > save_every
                stop, due = self._settle(training, step.number, interrupted(), late)
                if due:
                    self._save(training)
                    saved_at = time.monotonic()
            self._save(training)
        return training.charged >= training.plan.steps

    def _settle(self, training: PrivateTraining[Any], step: int, *wishes: bool) -> tuple[bool, ...]:
        """Returns what any process wishes, after a step that the first one has charged."""
        if isinstance(self.charges, state.Followed):
            self.charges.charged = step
        flags = (self.charges.charged != step, *wishes)
        if self.group.size > 1:
            device = next(training.model.parameters()).device
            told = torch.tensor(flags, dtype=torch.int32, device=device)
            self.group.sum([told])
            flags = tuple(bool(one) for one in told.tolist())
        if flags[0]:
            raise ValueError("training was made without this run's charge; pass it on.")
        return flags[1:]

    def _save(self, training: PrivateTraining[Any]) -> None:
        training.require_kept()
        state.save(self.folder, training.charged, training.model, training.optimizer, self.group)


def _claimed(folder: Path, plan: PrivacyPlan, *, resume: bool) -> state.Charges:
    if resume:
        _require_same(folder, plan)
        return state.Charges(folder / CHARGES)
    state.clear_partial(folder, only=f".{PLAN}.")
    if folder.is_dir() and not (folder / PLAN).exists():
        state.clear_unbegun(folder / CHARGES)
    atomic_files.require_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # First, so that a run without its charges has lost them, wherever a kill came.
    charges = state.Charges.begin(folder / CHARGES)
    atomic_files.write_file(folder / PLAN, json.dumps(asdict(plan), indent=2).encode())
    return charges


def _require_same(folder: Path, plan: PrivacyPlan) -> None:
    try:
        stored = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"'{folder}' holds no run to resume ({error}). Start it without resume first."
        ) from error
    asked = json.loads(json.dumps(asdict(plan)))
    changed = sorted(name for name in asked if stored.get(name) != asked[name])
    if changed:
        raise CheckpointError(
            f"The run in '{folder}' was planned otherwise: {', '.join(changed)}. A budget holds "
            "for one run as it was planned; resume with the same plan, or start a new run in "
            "another folder."
        )


def _require_same_records(folder: Path, training: PrivateTraining[Any]) -> None:
    path, found = folder / RECORDS, training.fingerprint()
    stored = path.read_text(encoding="ascii") if path.is_file() else None
    if stored is None:  # new, or of a version that wrote none
        atomic_files.write_file(path, found.encode("ascii"))
    elif stored != found:
        raise CheckpointError(
            f"The run in '{folder}' was begun on other records, or with another `fingerprint` of "
            "them. Resume with the same data in the same order, or start a new run in another "
            "folder; what this one spent stays spent."
        )
