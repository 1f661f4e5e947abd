"""PrivateRun: a folder in which private training outlives kills, crashes and Ctrl-C.

Every recipe trains in one, and so may a model of your own. `run_folder` says what the folder holds;
a charge is on the disk before that step's records are drawn, in the ledger first where one is kept.
All of it stays with the trainer.

Where several processes train together, the first alone reads and writes the folder; the others need
not see it. They agree with it on when to stop and when to save, and what fails there is raised in
all of them. Any number of processes can go on with what any number left.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hushdoc.arguments import counted
from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError, OutputWriteError, PrivacyError
from hushdoc.system import forking
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.private_steps import PrivateSteps
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.privacy.step import Step
from hushdoc_training.private_view import EARLY_END, PrivateView, Read
from hushdoc_training.receipt import Receipt
from hushdoc_training.runs import account as accounts
from hushdoc_training.runs import gathering, loop, receipts, state
from hushdoc_training.runs.account import LedgerAccount, Terms
from hushdoc_training.runs.run_folder import CHECKPOINT, SETTINGS, Run
from hushdoc_training.runs.step_log import StepLog, StepReport


class FollowedCharges:
    """What the first of several processes has charged, as the others know it."""

    def __init__(self, charged: int) -> None:
        """Begins with what the first process read."""
        self.charged = charged

    def read(self) -> int:
        """Returns what the first process reported last."""
        return self.charged

    def charge(self, step: int, **beside: str) -> None:
        """Raises PrivacyError: this process holds no file."""
        raise PrivacyError(
            f"Step {step} was to be charged by a process that is not the run's first, and only "
            "the first writes the run's folder. Give `PrivateRun.open` and `PrivateTraining` the "
            "same `processes`."
        )


@dataclass(frozen=True, kw_only=True)
class PrivateRun:
    """A run's folder; make one with `open`, and give its `charge` to the PrivateTraining.

    Attributes:
        folder: Where it stands.
        plan: What it follows.
        charges: What it has spent: its log, in the first process.
        group: The processes that train together.
        account: Its place in the ledger of its documents, in the first process.
        terms: What it may certify; None where the caller makes the claim.
        views: What notes its reads of un-noised numbers, in the first process.
        turn: Lets one thread charge at a time.
    """

    folder: Path
    plan: PrivacyPlan
    charges: StepLog | FollowedCharges
    group: Group
    account: LedgerAccount
    terms: Terms | None
    views: list[PrivateView] = field(default_factory=list, repr=False, compare=False)
    turn: forking.Lock = field(default_factory=forking.Lock, repr=False, compare=False)

    @classmethod
    def open(
        cls,
        folder: Path,
        plan: PrivacyPlan,
        *,
        settings: Mapping[str, Any] | None = None,
        terms: Terms | None = None,
        resume: bool = False,
        processes: Any = None,
    ) -> PrivateRun:
        """Claims an empty folder and reserves its steps, or returns to a run with the same plan.

        Args:
            folder: A new folder, or the one of an interrupted run. Of several processes the first
                one's counts, and its `resume`.
            plan: What the run follows.
            settings: What else a resumed run must share; JSON.
            terms: What the run may certify, and the ledger that it is charged to.
            resume: Whether to go on with the run that stands there.
            processes: torch.distributed's group, as the PrivateTraining gets it.

        Raises:
            OutputExistsError: The folder holds something and `resume` is off.
            CheckpointError: There is nothing to resume, it was asked for otherwise, or what it has
                spent is lost.
            InputError: The ledger counts another unit or at another delta.
            PrivacyError: Processes differ in their plans, the first one failed, or the ledger has
                no room.
        """
        group = Group.current(processes)
        group.require_agreement({"the plan": asdict(plan)})
        opened: list[tuple[StepLog | FollowedCharges, LedgerAccount]] = []

        def claim() -> int:
            if terms is not None:
                terms.require_fit(plan)
            run = Run.open(folder, _asked(plan, settings, terms), resume=resume)
            opened.append(_opened(run, plan, terms))
            return opened[0][0].charged

        charged = gathering.first_finds(group, claim)
        charges, account = opened[0] if opened else (FollowedCharges(charged), LedgerAccount())
        return cls(
            folder=folder, plan=plan, charges=charges, group=group, account=account, terms=terms
        )

    def charge(self, step: int) -> None:
        """Charges a step for good; its records may be drawn when this returns.

        Those before it that were not charged count as charged too. A PrivacyError refuses one that
        is charged already, or not planned: a second training in the same run, say.
        """
        with self.turn:
            self._charge(step)

    def _charge(self, step: int) -> None:
        if not self.charges.charged < step <= self.plan.steps:
            raise PrivacyError(
                f"The run in '{self.folder}' has charged step {self.charges.charged} of "
                f"{self.plan.steps}, and is asked for step {step}. A step is charged once, in "
                "order; train once in a run, and start a new one in another folder.",
                code="NOT_RESERVED",
            )
        head = self.account.charge(step)  # before the folder: the ledger never holds less
        self.charges.charge(step, **({} if head is None else {"head": head}))

    def read_charges(self) -> int:
        """Returns the last step that is charged by now, in the folder or in the ledger.

        A line of the log that a crash cut counts as a step, and after the last one as no further.
        """
        found = max(self.charges.read(), self.account.charged)
        self.charges.charged = min(found, self.plan.steps)
        return self.charges.charged

    def train(
        self,
        training: PrivateSteps,
        *,
        save_every: float = loop.SAVE_EVERY_SECONDS,
        before: Callable[[int], None] | None = None,
        seen: Callable[[Step], None] | None = None,
    ) -> bool:
        """Takes the steps that are left; Ctrl-C finishes the step under way and saves.

        Args:
            training: Made with this run's `charge`.
            save_every: Seconds between states.
            before: Called with the number of every step before it, to set a learning rate, say.
            seen: Called after every step; what it reads of it is noted in this folder.

        Returns:
            Whether all steps are taken; otherwise the run can be resumed.

        Raises:
            CheckpointError: A state can't be read, all steps are charged and none was saved,
                charges are lost, or the run was begun on other records.
            OutputWriteError: The disk is full; the last saved state stays.
            PrivacyError: Another process trains in the folder, the first of several failed,
                what records hold can't be seen, or the model is what another private training had
                left, and no ledger counts both (TRAINED_BEFORE).
            ValueError: The training has another plan, or does not charge this run.
        """
        if training.plan != self.plan:
            raise ValueError("training follows another plan than this run; give both the same.")
        if Group.current(self.group.handle) != self.group:
            raise ValueError(
                "the run was opened before torch.distributed was started; open it after that."
            )

        def take(number: int) -> None:
            if before is not None:
                before(number)
            try:
                step = training.step()
            except OutputWriteError:  # of the ledger or the log, before anything was drawn
                self._keep_taken(training)
                raise
            if seen is not None:
                seen(step)

        with ExitStack() as stack:
            lock = state.locked(self.folder / SETTINGS)
            self.group.first_does(lambda: stack.enter_context(lock))
            self.group.first_does(lambda: state.clear_partial(self.folder))
            self.group.first_does(lambda: self._require_same_records(training))
            self._return_to(training)
            if training.charged < self.plan.steps:
                self.group.first_does(lambda: state.require_room(self.folder, training.model))
            self.keep_reads_of(training.view)
            charged = loop.take_steps(
                training.charged,
                self.plan.steps,
                take=take,
                save=lambda number: self._save(training),
                save_every=save_every,
                agree=lambda *wishes: self._agree(training, *wishes),
            )
        return charged >= self.plan.steps

    def keep_reads_of(self, view: PrivateView) -> None:
        """Notes in this folder and in its ledger who reads un-noised numbers; `train` does so."""
        if isinstance(self.charges, StepLog):
            noted = [Read(**entry["read"]) for entry in self.charges.entries if "read" in entry]
            known = {(read.what, bool(read.declared_unused)) for read in noted}
            lost = (  # with the log; the ledger shortens long words
                read
                for read in self.account.reads()
                if (read.what, bool(read.declared_unused)) not in known
            )
            view.kept_by(self._keep_read, earlier=[*noted, *lost])
            self.views.append(view)

    def _keep_read(self, read: Read) -> None:
        """Writes a read down, in the ledger first, before the number is handed out."""
        self.account.note_read(read)
        if isinstance(self.charges, StepLog):
            self.charges.note(read=read._asdict())

    def report(self, *, title: str, quiet: bool = False) -> StepReport:
        """Returns what shows and logs the steps of this run, in its first process."""
        if isinstance(self.charges, FollowedCharges):
            raise ValueError("only the run's first process reports its steps.")
        return StepReport(
            self.charges,
            self.folder / "training.png",
            steps=self.plan.steps,
            epsilon_after=self.plan.epsilon_after,
            title=title,
            quiet=quiet,
        )

    def claim(self, receipt: Receipt, **declared: Any) -> Claim:
        """Returns the claim of the run and of all that its ledger holds by now.

        It is of unaccounted tuning where un-noised numbers were read and not declared unused.

        Args:
            receipt: What was executed, as the training says or the table that was fitted.
            **declared: What else, or what instead, its `Declared` says.

        Raises:
            PrivacyError: What ran is not what was planned (both values are named), it can't be
                certified, or this process does not know the ledger.
        """
        if self.terms is None:
            raise ValueError("the run has no terms; make its claim by `receipts.claim_of`.")
        if self.terms.ledger is not self.account.ledger or not self.group.is_first:
            raise PrivacyError(
                "Only the run's first process knows what its ledger holds, and who has read its "
                "un-noised numbers; a claim without it would leave these out. Make the claim there."
            )
        self.plan.require_executed(receipt)
        self._require_charged(receipt)
        if not self.views:
            self.keep_reads_of(PrivateView())
        view = self.views[-1]
        if self.charges.charged < self.plan.steps:
            view.note(EARLY_END)
        if isinstance(self.charges, StepLog):
            self.charges.note(receipt=json.loads(receipt.to_json()))
        said = replace(self.terms.declared, **declared)
        self.account.note_tuning(said)
        return receipts.claim(
            receipt,
            said,
            delta=self.plan.delta,
            accountant=self.plan.accountant,
            ledger=self.account.statement(self.charges.charged),
            view=view,
        )

    def _require_charged(self, receipt: Receipt) -> None:
        """Refuses a claim of more steps than were charged, such as of a training beside the run."""
        if receipt.steps > self.charges.charged:
            raise PrivacyError(
                f"{receipt.steps} steps were drawn, and the run in '{self.folder}' has charged "
                f"{self.charges.charged}. Give the training or the fit this run's `charge`.",
                code="NOT_CHARGED",
            )

    @property
    def is_finished(self) -> bool:
        """Whether the run has left its checkpoint; it was killed before it ended, then."""
        return (self.folder / CHECKPOINT).is_dir()

    def finish(self, write: Callable[[Path], None]) -> None:
        """Writes the checkpoint and ends the run."""
        write(self.folder / CHECKPOINT)
        self.close()

    def close(self) -> None:
        """Removes what only a resumed run would need, and ends the run in its ledger."""
        state.discard_states(self.folder)
        self.account.close()

    def _require_same_records(self, training: PrivateSteps) -> None:
        """Compares what records hold with the run's first start, unless its settings name them."""
        if self.terms is not None or isinstance(self.charges, FollowedCharges):
            return
        found, stored = training.fingerprint(), self.charges.find("records")
        if stored is None:
            self.charges.note(records=found)
        elif stored != found:
            raise CheckpointError(
                f"The run in '{self.folder}' was begun on other records, or with another "
                "`fingerprint` of them. Resume with the same data in the same order, or start a "
                "new run in another folder; what this one spent stays spent."
            )

    def _return_to(self, training: PrivateSteps) -> None:
        """Loads the last state and counts what was charged, also since this run was opened."""
        restored, receipt = self._restored(training)
        charged = gathering.first_finds(self.group, self.read_charges)
        self.charges.charged = charged  # in other processes too
        loop.require_state(self.folder, self.plan.steps, charged=charged, restored=restored)
        if not restored:
            self.group.first_does(lambda: self._require_no_earlier_steps(training.model))
        if charged > restored and self.group.is_first:
            further = f"training goes on with step {charged + 1}"
            warnings.warn(
                f"{counted(charged - restored, 'charged step')} after the last saved state (step "
                f"{restored}) left nothing, and stay charged; "
                f"{further if charged < self.plan.steps else 'no step is left'}.",
                stacklevel=2,
            )
        training.resume(charged, restored=restored, receipt=receipt)

    def _require_no_earlier_steps(self, model: nn.Module) -> None:
        """Refuses a start that holds steps which the run's claim would leave out."""
        if self.terms is None or self.terms.declared.started_from is not None:
            return  # whoever makes the claim is asked, or it has the start's steps
        statement = self.account.statement(0)
        several = statement if statement is not None and statement.num_runs > 1 else None
        if found := earlier_steps.uncounted(earlier_steps.begun_with(model), several):
            raise earlier_steps.refused(found)

    def _restored(self, training: PrivateSteps) -> tuple[int, Receipt | None]:
        """Loads the last state; returns its step, and the receipt of how it came to be."""
        step, written = state.restore(self.folder, training.model, training.optimizer, self.group)
        return step, Receipt.from_json(written.encode()) if written else None

    def _agree(
        self, training: PrivateSteps, step: int, stop: bool, late: bool
    ) -> tuple[bool, bool]:
        """Returns what any process wishes, after a step that the first one has charged."""
        if isinstance(self.charges, FollowedCharges):
            self.charges.charged = step
        flags = [self.charges.charged != step, stop, late and self.group.is_first]
        if self.group.size > 1:
            device = next(training.model.parameters()).device
            wished = torch.tensor(flags, dtype=torch.int32, device=device)
            self.group.sum([wished])
            flags = [bool(flag) for flag in wished.tolist()]
        if flags[0]:
            raise ValueError("training was made without this run's charge; pass it on.")
        return flags[1], flags[2]

    def _keep_taken(self, training: PrivateSteps) -> None:
        """Saves the steps before one that could not be charged, where they can be saved."""
        if training.has_receipt and self.group.size == 1:  # other processes are not asked to gather
            with suppress(OutputWriteError):
                self._save(training)

    def _save(self, training: PrivateSteps) -> None:
        training.require_kept()
        receipt = training.receipt.to_json().decode() if training.has_receipt else ""
        try:
            state.save(
                self.folder,
                training.charged,
                training.model,
                training.optimizer,
                self.group,
                receipt=receipt,
            )
        except OutputWriteError as error:
            raise OutputWriteError(
                f"{error} Then go on from the last saved state, if there is one, with --resume: "
                "what was charged stays charged."
            ) from error


def _asked(
    plan: PrivacyPlan, settings: Mapping[str, Any] | None, terms: Terms | None
) -> dict[str, Any]:
    """Returns what a resumed run must share."""
    asked = {**asdict(plan), **(settings or {})}
    if terms is not None:
        asked |= {
            "claim": terms.digest(plan),
            "documents": terms.documents,
            "cut": terms.cut,
        }
        if terms.ledger is not None:
            asked["ledger"] = terms.ledger.ledger_id
    return asked


def _opened(
    run: Run, plan: PrivacyPlan, terms: Terms | None
) -> tuple[StepLog | FollowedCharges, LedgerAccount]:
    """Returns what the run has charged, and its account with its steps reserved."""
    ledger = None if terms is None else terms.ledger
    if run.is_finished and terms is not None:  # killed between its checkpoint and its end
        if ledger is not None:  # an older copy would count the steps that it lacks as free
            accounts.require_newest(ledger, run)
        account = LedgerAccount(ledger=ledger, documents=terms.documents, run_id=run.run_id)
        return FollowedCharges(plan.steps), account
    account = LedgerAccount() if terms is None else accounts.join(run, plan, terms)
    if ledger is not None and not (run.log.is_file() and run.log.read_bytes().strip()):
        StepLog.begin(run.log, run.run_id)  # the ledger knows what the lost log has charged
    return StepLog(run.log, run.run_id), account
