"""PrivateRun: a folder in which private training outlives kills, crashes and Ctrl-C.

It holds `plan.json` (what a resumed run must share), `charges` (a line for every step, on the disk
before its records are drawn) and `state-<step>/` (weights and optimizer, to go on from). All three
stay with the trainer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hushdoc import files
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc_training.privacy import resuming
from hushdoc_training.privacy.distributed import Group
from hushdoc_training.privacy.engine import PrivateTraining, Step
from hushdoc_training.privacy.plan import PrivacyPlan

PLAN = "plan.json"
CHARGES = "charges"


@dataclass(frozen=True, kw_only=True)
class PrivateRun:
    """A run's folder; make one with `open`, and give its `charge` to the PrivateTraining.

    Attributes:
        folder: Where it stands.
        plan: What it follows.
        charges: What it has spent.
    """

    folder: Path
    plan: PrivacyPlan
    charges: resuming.Charges

    @classmethod
    def open(cls, folder: Path, plan: PrivacyPlan, *, resume: bool = False) -> PrivateRun:
        """Claims an empty folder, or returns to a run with the same plan.

        Args:
            folder: A new folder, or the one of an interrupted run.
            plan: What the run follows.
            resume: Whether to go on with the run that stands there.

        Raises:
            OutputExistsError: The folder holds something and `resume` is off.
            CheckpointError: There is nothing to resume, or it followed another plan.
            PrivacyError: Several processes train together.
        """
        if Group.found().size > 1:
            raise PrivacyError(
                "A PrivateRun writes the whole model from one process, and here several train "
                "together. Save with torch.distributed.checkpoint, charge a ledger, and after a "
                "restart call the training's `resume` with what the ledger holds."
            )
        if resume:
            _require_same(folder, plan)
            resuming.clear_partial(folder)
        else:
            resuming.clear_partial(folder, only=f".{PLAN}.")
            files.require_free(folder)
            folder.mkdir(parents=True, exist_ok=True)
            files.write_file(folder / PLAN, json.dumps(asdict(plan), indent=2).encode())
        return cls(folder=folder, plan=plan, charges=resuming.Charges(folder / CHARGES))

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
            CheckpointError: A state can't be read, or all steps are charged and none was saved.
            OutputWriteError: The disk is full; the last saved state stays.
            ValueError: The training has another plan, or does not charge this run.
        """
        if training.plan != self.plan:
            raise ValueError("training follows another plan than this run; give both the same.")
        restored = resuming.restore(self.folder, training.model, training.optimizer)
        if not restored and self.charges.charged >= training.plan.steps:
            raise CheckpointError(
                f"All {training.plan.steps} steps of the run in '{self.folder}' are charged and no "
                "state was saved, so there is nothing to finish. Start a new run in another "
                "folder; what this one spent stays spent."
            )
        training.resume(self.charges.charged)
        saved_at = time.monotonic()
        with resuming.interrupts() as interrupted:
            while training.charged < training.plan.steps and not interrupted():
                step = training.step()
                if self.charges.charged != step.number:
                    raise ValueError("training was made without this run's charge; pass it on.")
                if seen is not None:
                    seen(step)
                if time.monotonic() - saved_at > save_every:
                    self._save(training)
                    saved_at = time.monotonic()
            self._save(training)
        return training.charged >= training.plan.steps

    def _save(self, training: PrivateTraining[Any]) -> None:
        resuming.save(self.folder, training.charged, training.model, training.optimizer)


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
