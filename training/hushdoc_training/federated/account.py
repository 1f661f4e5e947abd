"""A client's account of a run: which rounds it took part in, on its own disk and in its own ledger.

Written in this order, so that a kill between any two writes never undercounts: the reservation of
all rounds that the client may take part in; then, for each round, the journal, the ledger's charge,
the coins. A round that the journal knows is never entered again, whatever became of it: what was
drawn in it may have been sent, so it stays charged and is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    Record,
    flag,
    integer,
    listed,
    matching,
    sha256,
    stored,
    text,
)
from hushdoc.serialization.strict_json import MAX_BYTES
from hushdoc.system import atomic_files, locks
from hushdoc_training.federated.roster import Roster
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.receipt import Receipt

JOURNAL = "rounds.json"
RECEIPT = "receipt.json"
TESTIMONY = "testimony.json"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a client's documents may be spent on.

    Attributes:
        ledger: The budget of the documents over all runs.
        documents: Digest of their content, which never leaves the client.
        step: What one round is that the client takes part in.
        cut: How documents become the records that are protected, where these are parts of them.
    """

    ledger: Ledger
    documents: str
    step: Mechanism
    cut: str = ""


@dataclass(frozen=True, kw_only=True)
class Journal(Record):
    """What a client has to know of a run after a kill.

    Attributes:
        run: Name of the run.
        roster: Digest of the roster that it was entered under.
        next_round: The first round that can still be entered.
        taken: How many rounds were entered.
        closed: Whether the run has ended for this client.
        met: Clients of the rounds that were entered.
    """

    run: str = stored(matching("[0-9a-f]{32}", "32 hexadecimal digits"))
    roster: str = stored(sha256)
    next_round: int = stored(integer(), default=0)
    taken: int = stored(integer(), default=0)
    closed: bool = stored(flag, default=False)
    met: tuple[str, ...] = stored(listed(text), default=())


class Account:
    """One client's rounds; use it in a `with` block, which keeps other processes out."""

    def __init__(self, folder: Path, roster: Roster, *, rounds: int, budget: Budget | None) -> None:
        """Opens the account; nothing is reserved before `reserve`.

        Args:
            folder: The client's own, of this run alone.
            roster: As it was approved.
            rounds: Most rounds that the client takes part in.
            budget: What is charged; None where the plan has no privacy to count.

        Raises:
            CheckpointError: The folder has the journal of another run, or one that can't be read.
            PrivacyError: Another process has the folder.
        """
        self._path, self._rounds, self._budget = folder / JOURNAL, rounds, budget
        self._receipt, self._testimony = folder / RECEIPT, folder / TESTIMONY
        self._roster, self._run = roster, roster.run
        with ExitStack() as undo:
            undo.enter_context(alone(folder))
            self._journal = _read(self._path) or Journal(
                run=roster.run, roster=f"sha256:{roster.digest}"
            )
            if (self._journal.run, self._journal.roster) != (roster.run, f"sha256:{roster.digest}"):
                raise CheckpointError(
                    f"'{folder}' is the folder of run {self._journal.run} under another roster. "
                    "Give each run a folder of its own; what was charged stays charged."
                )
            self._held = undo.pop_all()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Lets other processes in."""
        self._held.close()

    @property
    def next_round(self) -> int:
        """The first round that can still be entered, from 0."""
        return self._journal.next_round

    @property
    def taken(self) -> int:
        """How many rounds were entered, all of them charged."""
        return self._journal.taken

    @property
    def rounds_left(self) -> int:
        """How many more rounds the client may enter; none once the run is closed."""
        return 0 if self._journal.closed else self._rounds - self._journal.taken

    def reserve(self) -> None:
        """Reserves all rounds in the ledger, once the owner's limits have let the plan pass.

        Raises:
            PrivacyError: The ledger refuses the run: BUDGET_EXCEEDED, OTHER_DOCUMENTS,
                OTHER_RECORDS, RUN_CLOSED or RUN_DIFFERS.
            OutputWriteError: The disk is full.
        """
        budget, roster = self._budget, self._roster
        if budget is None or self._journal.closed:
            return
        known = budget.ledger.reserve(
            self._run,
            title=f"federated run {roster.run}",
            step=budget.step,
            steps=self._rounds,
            claim=roster.digest,
            documents=budget.documents,
            cut=budget.cut,
        )
        # Of a journal that was lost, or put back from an older copy, the ledger knows the rest.
        self._write(taken=max(self.taken, known.charged))

    def enter(self, number: int, members: Iterable[str] = ()) -> int:
        """Charges a round, of these clients, and returns which of the own it is, from 1.

        Raises:
            PrivacyError: NOT_RESERVED, where the round was entered before, or the client has taken
                part as often as it may; or as the ledger refuses it.
            OutputWriteError: The disk is full; nothing may be drawn.
        """
        if number < self.next_round:
            raise PrivacyError(
                f"Round {number} was asked for, and rounds up to {self.next_round - 1} were "
                "entered or passed by. A round is entered once: it is lost, and stays charged.",
                code="NOT_RESERVED",
            )
        if self.rounds_left < 1:
            raise PrivacyError(
                f"This client has taken part in {self.taken} rounds of the {self._rounds} that the "
                "plan lets it, or the run is closed. Start a new run under a new roster.",
                code="NOT_RESERVED",
            )
        met = tuple(sorted({*self._journal.met, *members}))
        self._write(next_round=number + 1, taken=self.taken + 1, met=met)
        if self._budget is not None:
            self._budget.ledger.charge(self._run, self.taken)
        return self.taken

    @property
    def receipt(self) -> Receipt | None:
        """What was executed in the rounds up to now, as `keep` wrote it; None before the first."""
        if not self._receipt.exists():
            return None
        return Receipt.from_json(atomic_files.read_file(self._receipt, max_bytes=MAX_BYTES))

    def keep(self, receipt: Receipt) -> None:
        """Writes down what was executed up to now."""
        atomic_files.write_file(self._receipt, receipt.to_json())

    def testify(self, content: bytes) -> bytes:
        """Returns what the client says at the end: this, unless it has said something before."""
        if not self._testimony.exists():
            atomic_files.write_file(self._testimony, content)
        return atomic_files.read_file(self._testimony, max_bytes=MAX_BYTES)

    def close(self) -> None:
        """Ends the run for good, and frees the rounds that the client was not asked to take."""
        self._write(closed=True)
        if self._budget is not None:
            self._budget.ledger.close(self._run, reason="finished")

    def _write(self, **change: int | bool | tuple[str, ...]) -> None:
        changed = Journal(**{**vars(self._journal), **change})
        atomic_files.write_file(self._path, strict_json.dumps(changed.to_dict()))
        self._journal = changed


def journal_of(folder: Path) -> tuple[Journal, bytes] | None:
    """Returns what a client's folder knows of a run that has ended: rounds, and what was said."""
    journal, path = _read(folder / JOURNAL), folder / TESTIMONY
    if journal is None or not path.exists():
        return None
    return journal, atomic_files.read_file(path, max_bytes=MAX_BYTES)


def _read(path: Path) -> Journal | None:
    if not path.exists():
        return None
    data = strict_json.read_file(
        path, what="The journal", code="BAD_CHECKPOINT", error=CheckpointError
    )
    return Journal.from_dict(data, "journal")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keeps other processes out of a party's folder; a PrivacyError where one is in it."""
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locks.locked(folder, wait=False))
        except BlockingIOError as error:
            raise PrivacyError(
                f"'{folder}' is the folder of a client that is running, and two would answer one "
                "round twice. End the other one, or give this one its own folder and key."
            ) from error
        except OSError as error:
            raise atomic_files.not_written(folder, error) from error
        yield
