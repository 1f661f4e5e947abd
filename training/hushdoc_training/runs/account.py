"""A private run's account in the ledger of its documents.

Written in this order, so that a kill between any two writes never undercounts: run folder,
reservation, then for each step the ledger's charge, the folder's own charge, the noise; at the end
the checkpoint, then the closing. Drawn steps <= charges in the folder <= charges in the ledger <=
reserved steps, always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hushdoc.errors import InputError, PrivacyError
from hushdoc_training.audited_claims import REFUTED
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.ledger.runs import LedgerStatement
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.private_view import Read
from hushdoc_training.runs import receipts
from hushdoc_training.runs.receipts import Declared, Preview
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import last_charge, last_head, read_log

TUNED = "results that its settings were chosen by"
"""What a run of unaccounted tuning is noted to have read, in its ledger."""

CHANGED = "documents were added, removed or relabelled"
"""Why a ledger counts for other documents than before, where their owner says so."""


class Auditable(Protocol):
    """What audits of a recipe have found."""

    def require_unrefuted(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a run will say of itself beside its receipt, and the budget that it is charged to.

    Attributes:
        declared: What its claim will declare; the numbers are those of the receipt.
        documents: Digest of the documents' content, which ledger and resumed runs compare; it never
            leaves the trainer.
        title: What the ledger calls the run, for people.
        cut: How documents become the records that are protected, where these are parts of them;
            ledger and resumed runs compare it.
        ledger: The budget of the documents, if one is kept.
        documents_changed: Whether some were added, removed or relabelled since the last run.
    """

    declared: Declared
    documents: str
    title: str
    cut: str = ""
    ledger: Ledger | None = None
    documents_changed: bool = False

    def digest(self, plan: PrivacyPlan) -> str:
        """Returns a digest of what will be claimed, by which a resumed run is compared."""
        return receipts.preview(plan, self.declared).digest

    def check(self, plan: PrivacyPlan, *, resume: bool = False) -> str | None:
        """Refuses what has no room or no certificate, before a folder is taken or a step charged.

        Args:
            plan: What the run will do.
            resume: Whether the ledger has reserved it before.

        Returns:
            What is to be known before the first step, where a ledger is kept.

        Raises:
            CertificateError: A field of the claim would be wrong.
            InputError: WRONG_UNIT or WRONG_DELTA, or the ledger can't be read.
            PrivacyError: NOT_REPRODUCED, where a checker would not find the claim's epsilon;
                BUDGET_EXCEEDED, OTHER_DOCUMENTS or OTHER_RECORDS.
        """
        receipts.preview(plan, self.declared)
        if self.ledger is None or resume:
            return None
        self.require_fit(plan)
        if self.documents_changed:
            self.ledger.admit(self.documents, reason=CHANGED)
        room = self.ledger.require_room(
            step=plan.step, steps=plan.steps, documents=self.documents, cut=self.cut
        )
        return announcement(room, receipts.preview(plan, self.declared, ledger=room))

    def require_unrefuted(self, found: Auditable) -> None:
        """Refuses a run whose recipe an audit refutes; the ledger keeps that for its certificates.

        Raises:
            PrivacyError: AUDIT_CONTRADICTION.
        """
        try:
            found.require_unrefuted()
        except PrivacyError as error:
            if self.ledger is not None:
                self.ledger.note_refuted(str(error).removesuffix(REFUTED))
            raise

    def require_fit(self, plan: PrivacyPlan) -> None:
        """Raises InputError WRONG_UNIT or WRONG_DELTA unless the ledger counts for a plan."""
        if self.ledger is not None:
            _require_fit(self.ledger, plan)


@dataclass(frozen=True, kw_only=True)
class LedgerAccount:
    """One run in a ledger, or outside of any."""

    ledger: Ledger | None = None
    documents: str = ""  # digest of the documents' content
    run_id: str = ""
    charged: int = 0  # what the ledger had charged when the run was begun or resumed

    def charge(self, step: int) -> str | None:
        """Charges a step for good, and returns the ledger's head; then noise may be drawn."""
        return None if self.ledger is None else self.ledger.charge(self.run_id, step)

    def statement(self, charged: int) -> LedgerStatement | None:
        """Returns what the ledger declares of all runs, and of this one that has charged so far."""
        if self.ledger is None:
            return None
        return self.ledger.statement(run_id=self.run_id, charged=charged)

    def reads(self) -> tuple[Read, ...]:
        """Returns who read un-noised numbers of the run, as the ledger has it."""
        known = None if self.ledger is None else self.ledger.find(self.run_id)
        return () if known is None else tuple(Read(*pair) for pair in known.reads)

    def note_read(self, read: Read) -> None:
        """Notes that somebody reads un-noised numbers of the run."""
        if self.ledger is not None:
            what, declared = read
            self.ledger.note_read(self.run_id, what, declared_unused=declared)

    def note_tuning(self, declared: Declared) -> None:
        """Notes that settings followed what is no part of epsilon: so do those of later runs."""
        if declared.hyperparameter_tuning == "unaccounted":
            self.note_read(Read(TUNED, ""))

    def close(self) -> None:
        """Ends the run in its ledger."""
        if self.ledger is not None:
            self.ledger.close(self.run_id, reason="finished")


def join(run: Run, plan: PrivacyPlan, terms: Terms) -> LedgerAccount:
    """Reserves a run's steps, or returns to what it reserved before.

    A PrivacyError refuses a run that does not fit into the budget or is closed, and with
    LEDGER_BEHIND one whose folder holds charges that the ledger lacks.
    """
    ledger = terms.ledger
    if ledger is None:
        return LedgerAccount()
    require_newest(ledger, run)
    reserved = ledger.reserve(
        run.run_id,
        title=terms.title,
        step=plan.step,
        steps=plan.steps,
        claim=terms.digest(plan),
        documents=terms.documents,
        cut=terms.cut,
    )
    account = LedgerAccount(
        ledger=ledger, documents=terms.documents, run_id=run.run_id, charged=reserved.charged
    )
    account.note_tuning(terms.declared)
    return account


def announcement(statement: LedgerStatement, preview: Preview) -> str:
    """Returns what is to be known before the first step: the epsilon that will be certified."""
    others = statement.num_runs - 1
    runs = "no other run" if not others else "1 other" if others == 1 else f"{others} others"
    return (
        f"Ledger: this run and {runs} on these documents come to epsilon {preview.epsilon:.4g} "
        f"at delta {preview.delta:g}, and the certificate will state that; at most "
        f"{statement.epsilon:g} is allowed."
    )


def require_newest(ledger: Ledger, run: Run) -> None:
    """Raises PrivacyError LEDGER_BEHIND where a run's folder knows of charges that it lacks."""
    entries = read_log(run.log)  # first: who trains there meanwhile charges the ledger first
    last = last_charge(entries)
    known = ledger.find(run.run_id)
    recorded = known.charged if known is not None else 0
    if last > recorded:
        raise ledger.behind(run.run_id, charged=last, known=recorded)
    noted = last_head(entries)
    if noted is not None:
        ledger.require_head(noted)


def _require_fit(ledger: Ledger, plan: PrivacyPlan) -> None:
    if plan.privacy_unit != ledger.unit:
        raise InputError(
            f"The run protects each {plan.privacy_unit}, the ledger '{ledger.path}' counts for "
            f"each {ledger.unit}. Plan with --privacy-unit {ledger.unit}, or give the ledger that "
            "was made for this unit.",
            code="WRONG_UNIT",
        )
    if plan.delta != ledger.delta:
        raise InputError(
            f"The run is planned at delta={plan.delta:g}, the ledger '{ledger.path}' counts at "
            f"delta={ledger.delta:g}. Plan with --delta {ledger.delta:g}.",
            code="WRONG_DELTA",
        )
