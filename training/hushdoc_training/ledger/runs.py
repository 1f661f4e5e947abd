"""Runs as a ledger's file holds them: rows that are validated, and what they compose to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.accounting import mechanism as words
from hushdoc.accounting.mechanism import Composed, Mechanism, Sequence
from hushdoc.errors import HushdocError, InputError, PrivacyError
from hushdoc.serialization import strict_json
from hushdoc_training.ledger import storage


@dataclass(frozen=True, kw_only=True)
class LedgerRun:
    """One run as the ledger knows it.

    `charged` is the last step that was charged; all up to it count, lost ones included. `reads` are
    its un-noised numbers that somebody saw, each with the declaration that it is unused or "". The
    `mark` is the seal of its reservation, which no run of a copy that went another way has.
    """

    number: int
    run_id: str
    title: str
    step: Mechanism
    reserved: int
    charged: int
    closed: bool
    claim: str
    commitment: str
    at: str
    mark: str
    reads: tuple[tuple[str, str], ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """The numbers that somebody saw, without those that were declared unused."""
        return tuple(what for what, declared in self.reads if not declared)

    @property
    def counted(self) -> int:
        """Steps that the cap has to hold: reserved ones until the run is closed."""
        return self.charged if self.closed else self.reserved

    def require_open(self) -> None:
        """Raises PrivacyError if the run can take no further step."""
        if self.closed:
            raise PrivacyError(
                f"Run {self.run_id} is closed in the ledger after {self.charged} of "
                f"{self.reserved} steps, and what it left was freed for other runs. It can't go "
                "on; start a new run in another folder.",
                code="RUN_CLOSED",
            )

    def require_same(self, step: Mechanism, steps: int, claim: str, commitment: str) -> None:
        """Raises PrivacyError if the run is closed or was reserved for something else."""
        self.require_open()
        wanted = (step, steps, claim, commitment)
        if (self.step, self.reserved, self.claim, self.commitment) != wanted:
            raise PrivacyError(
                f"Run {self.run_id} was reserved for {self.reserved} steps with another plan, "
                "another claim or other documents. Resume it as it was started, or start a new "
                "run.",
                code="RUN_DIFFERS",
            )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Where a budget stands, all at the ledger's delta.

    `reserved` is epsilon if open runs take all steps that they reserved; it may not pass `cap`.
    """

    charged: float
    reserved: float
    cap: float


@dataclass(frozen=True, kw_only=True)
class LedgerStatement:
    """What a ledger says of all its runs, in the order of reservation; claims are made from it.

    `mechanism` is what they spend of each `unit`, and of no larger one, and `marks` are of the runs
    of its events, "" of one that is not reserved yet. `ledger_id` names the file and stays with the
    trainer. The `commitment` is that of the ledger, whatever documents its runs read. Of
    `read_runs` somebody saw un-noised numbers, and did not declare them unused: what came after may
    have been chosen by them. Audits that `refuted` a recipe before a run found what they say.
    """

    mechanism: Sequence
    marks: tuple[str, ...]
    unit: str
    ledger_id: str
    commitment: str
    epsilon: float
    delta: float
    read_runs: int = 0
    refuted: tuple[str, ...] = ()

    def counts(self, charged: str) -> bool:
        """Returns whether a run is among them up to a step, of its mark and that, "mark:step"."""
        mark, _, step = charged.rpartition(":")
        counted = {
            known: event.count
            for known, event in zip(self.marks, self.mechanism.events, strict=True)
            if known and isinstance(event, Composed)
        }
        return step.isdecimal() and int(step) <= counted.get(mark, 0)

    @property
    def num_runs(self) -> int:
        """How many runs took or may take a step."""
        return len(self.mechanism.events)


def read(
    database: sqlite3.Connection, path: Path, key: bytes, run_id: str | None = None
) -> tuple[LedgerRun, ...]:
    """Returns every run in the order of reservation, or the one of an id."""
    where = "ORDER BY number"
    if run_id is not None:
        number = database.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if number is None:
            raise InputError(
                f"The ledger '{path}' knows no run '{run_id}'. `hushdoc ledger show` lists its "
                "runs.",
                code="UNKNOWN_RUN",
            )
        where = f"WHERE number = {int(number[0])}"
    found = storage.rows(database, path, "runs", key, where)
    return tuple(_read(database, path, key, row) for row in found)


def composed(counts: Iterable[tuple[Mechanism, int]]) -> Sequence:
    """Returns steps and how often each was taken as one transcript; none taken, none listed."""
    return Sequence(
        events=tuple(Composed(event=step, count=count) for step, count in counts if count)
    )


def most_steps(fits: Callable[[int], bool], *, fails: int, tolerance: float = 0.0) -> int:
    """Returns the largest number of steps that fits, by halving."""
    most = 0
    while fails - most > max(1, tolerance * most):
        middle = (most + fails) // 2
        if fits(middle):
            most = middle
        else:
            fails = middle
    return most


def _read(database: sqlite3.Connection, path: Path, key: bytes, row: tuple[Any, ...]) -> LedgerRun:
    values = dict(zip(storage.COLUMNS["runs"], row, strict=True))
    number, step = values["number"], values["step"]
    last = f"WHERE run = {number} ORDER BY step DESC LIMIT 1"
    charged = [row[1] for row in storage.rows(database, path, "charges", key, last)]
    closings = storage.rows(database, path, "closings", key, f"WHERE run = {number}")
    reads = storage.rows(database, path, "reads", key, f"WHERE run = {number}")
    mark = "SELECT seal FROM chain WHERE place = (SELECT place FROM runs WHERE number = ?)"
    whole = [number, values["reserved"], *charged]
    texts = [text for name, text in values.items() if name not in ("number", "reserved")]
    if not all(isinstance(value, int) and value > 0 for value in whole):
        raise storage.bad_ledger(path, f"run {number} has a count that is not a positive integer")
    if not all(isinstance(text, str) for text in texts):
        raise storage.bad_ledger(path, f"run {number} holds a value that is not text")
    return LedgerRun(
        **{**values, "step": _step(step, path, number)},
        charged=charged[0] if charged else 0,
        closed=bool(closings),
        mark=str(database.execute(mark, (number,)).fetchone()[0]),
        reads=tuple((what, declared) for _, what, declared, _ in reads),
    )


def _step(text: str, path: Path, number: int) -> Mechanism:
    try:
        content = text.encode("utf-8")
        return words.from_dict(strict_json.loads(content, what="The step"), "step")
    except (HushdocError, UnicodeEncodeError) as error:
        raise storage.bad_ledger(
            path, f"the step of run {number} can't be read ({error})"
        ) from error
