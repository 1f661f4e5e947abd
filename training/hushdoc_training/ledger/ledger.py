"""The budget of one protected data set across all its training runs, kept in one file.

A run reserves its steps before it reads a document, and charges each of them before that step's
noise is drawn. The rule: all runs together, with the charged steps of closed runs and all reserved
steps of open ones, stay within the cap as privacy loss distributions compose them. So a run that
would pass the cap never starts, a run that was reserved can always finish, and whatever a crash
cuts off stays charged.

**Documents that change.** A ledger is bound to its documents by a salted digest of their content,
and a run on others is refused. Where documents were added, removed or relabelled since, declare
it with `admit`: every run of the file then counts for every document that was ever in it. That is
never too little for any of them; a document that joined late is protected better than it says.
Where records are parts of documents, as windows of tokens are, all runs have to cut them alike: a
window of 512 tokens is several of 128, and no declaration makes it one.
What must not be is a new ledger for documents that an older one already counts. Certificates commit
to the ledger and not to its documents: else two of them would tell whether any joined or left.

**Settings that follow results.** Composition is proven where noise, sampling rate and number of
steps of each run do not depend on what earlier runs showed; everything else (learning rate,
clipping norm, the model) may follow their noised outputs: weights, and losses with noise. It may
not follow un-noised numbers of a run, such as its losses: whoever reads them marks the run with
`note_read`, and what is claimed from the ledger then says that settings were chosen by something
that is not part of epsilon. Claims made from a ledger declare this.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
import sqlite3
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from hushdoc.accounting import mechanism as words
from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Mechanism, Sequence
from hushdoc.arguments import printable
from hushdoc.certificate import vocabulary
from hushdoc.errors import InputError, PrivacyError
from hushdoc_training.ledger import runs as ledger_runs
from hushdoc_training.ledger import storage
from hushdoc_training.ledger.runs import LedgerRun, LedgerStatement, Spent, composed

ADJACENCIES = ("add-remove",)
"""Relations between neighbouring data sets that a ledger counts."""

LAST_CHARGE = ContextVar("last_charge", default="")
"""What was charged last here, to any ledger: the run's mark and the step, as "mark:step"."""

MAX_TEXT = 200
"""Longest name or title (characters)."""

MAX_STEPS = 1_000_000
"""Most steps of one run."""

_HEAD = re.compile("([0-9]{1,9}):([0-9a-f]{32})")
_CUT = "how documents are cut into records"
_REFUTED = "an audit refuted what it tested: "
_FACTS = ("ledger_id", "data", "unit", "adjacency", "epsilon", "delta", "salt")


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The budget of one data set; make one with `create` or `open`.

    Every method that reads the file raises InputError NO_LEDGER, BAD_LEDGER or LEDGER_TOO_NEW where
    no sound ledger stands there; every one that writes raises OutputWriteError, LEDGER_BUSY among
    its codes, where nothing could be written. `ledger_id` is the file's random name, by which
    another in its place is noticed; commitments are made with the secret `salt`.
    """

    path: Path
    ledger_id: str
    data: str
    unit: str
    adjacency: str
    epsilon: float
    delta: float
    salt: bytes = field(repr=False)

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        data: str,
        unit: str = "document",
        adjacency: str = "add-remove",
        epsilon: float,
        delta: float,
    ) -> Self:
        """Writes the empty ledger of a data set that nothing was trained on; overwrites nothing."""
        made = cls(
            path=path,
            ledger_id=secrets.token_hex(16),
            data=data,
            unit=unit,
            adjacency=adjacency,
            epsilon=float(epsilon),
            delta=float(delta),
            salt=secrets.token_bytes(32),
        )
        problem = made.problem()
        if problem is not None:
            raise ValueError(f"{problem}.")
        facts = {name: getattr(made, name) for name in _FACTS}
        storage.create(path, {"one": 1, **facts, "at": _now()})
        return made

    @classmethod
    def open(cls, path: Path) -> Self:
        """Returns the ledger that stands in a file."""
        with storage.reading(path) as database:
            account = storage.account(database, path)
            storage.require_sound(database, path, account["salt"])
        opened = cls(path=path, **{name: account[name] for name in _FACTS})
        problem = opened.problem()
        if problem is not None:
            raise storage.bad_ledger(path, problem)
        return opened

    def problem(self) -> str | None:
        """Returns what is wrong with the ledger's own words and numbers, or None."""
        name = self.data if isinstance(self.data, str) else ""
        if not (0 < len(name) <= MAX_TEXT and name.isprintable()):
            return (
                f"data is {self.data!r}; expected a name of up to {MAX_TEXT} printable characters"
            )
        if self.unit not in vocabulary.PRIVACY_UNITS:
            return f"unit is {self.unit!r}; expected one of {', '.join(vocabulary.PRIVACY_UNITS)}"
        if self.adjacency not in ADJACENCIES:
            return f"adjacency is {self.adjacency!r}; expected {' or '.join(ADJACENCIES)}"
        if not (isinstance(self.epsilon, float) and 0 < self.epsilon < math.inf):
            return f"epsilon is {self.epsilon!r}; expected a finite number above 0"
        if not (isinstance(self.delta, float) and 0 < self.delta < 1):
            return f"delta is {self.delta!r}; expected a number between 0 and 1"
        if not (isinstance(self.salt, bytes) and len(self.salt) == 32):
            return "its salt is not 32 bytes"
        return None if isinstance(self.ledger_id, str) else "it has no id"

    def commitment(self, documents: str) -> str:
        """Returns the salted commitment to documents, by which the ledger knows them again."""
        return "salted-sha256:" + hashlib.sha256(self.salt + documents.encode()).hexdigest()

    def runs(self) -> tuple[LedgerRun, ...]:
        """Returns all runs in the order of their reservation."""
        with storage.reading(self.path) as database:
            return self._runs(database)

    def head(self) -> str:
        """Returns the number of entries and the digest of them all, to be noted elsewhere."""
        with storage.reading(self.path) as database:
            self._require_this(database)
            return _head(database)

    def require_head(self, noted: str) -> None:
        """Raises PrivacyError LEDGER_BEHIND unless the file holds all entries up to a noted head.

        InputError BAD_HEAD: the text is not a head.
        """
        found = _HEAD.fullmatch(noted)
        if found is None:
            raise InputError(
                f"{printable(noted, limit=80)!r} is not a head of a ledger; expected what "
                "`hushdoc ledger show` prints, such as 12:0123...ef.",
                code="BAD_HEAD",
            )
        with storage.reading(self.path) as database:
            self._require_this(database)
            known = storage.holds(database, int(found[1]), found[2])
        if not known:
            raise PrivacyError(
                f"The ledger '{self.path}' lacks entries that the noted head {noted} stands for: "
                "it is an older copy, or went on from one, and has forgotten charges. Put the "
                "newest copy back; where none exists, what was spent is unknown and the data must "
                "be retired.",
                code="LEDGER_BEHIND",
            )

    def find(self, run_id: str) -> LedgerRun | None:
        """Returns a run, or None where the ledger does not know it."""
        return next((run for run in self.runs() if run.run_id == run_id), None)

    def mechanism(self) -> Sequence:
        """Returns all runs as a transcript: closed ones as charged, open ones as reserved."""
        return _composed(self.runs())

    def spent(self) -> Spent:
        """Returns epsilon charged, epsilon reserved, and the cap."""
        runs = self.runs()
        return Spent(
            charged=self._epsilon(composed((run.step, run.charged) for run in runs)),
            reserved=self._epsilon(_composed(runs)),
            cap=self.epsilon,
        )

    def room(self, step: Mechanism) -> int:
        """Returns how many more such steps fit, up to 2 % less than the most that do."""
        counts = [(run.step, run.counted) for run in self.runs()]

        def fits(number: int) -> bool:
            return self._epsilon(composed([*counts, (step, number)])) <= self.epsilon

        fails = 1
        while fits(fails):
            if fails >= MAX_STEPS:
                return MAX_STEPS
            fails *= 4
        return ledger_runs.most_steps(fits, fails=fails, tolerance=0.02)

    def statement(self, *, run_id: str = "", charged: int = 0) -> LedgerStatement:
        """Returns what a claim can say of all runs up to now.

        The run that asks names itself and the steps it has charged: PrivacyError LEDGER_BEHIND
        where the file lacks some of them.
        """
        runs = self.runs()
        known = next((run.counted for run in runs if run.run_id == run_id), 0)
        if known < charged:
            raise self.behind(run_id, charged=charged, known=known)
        return self._statement(runs, _composed(runs))

    def behind(self, run_id: str, *, charged: int, known: int) -> PrivacyError:
        """Returns the error that says which charges of a run are missing."""
        return PrivacyError(
            f"Run {run_id} has charged {charged} steps, its ledger '{self.path}' holds {known} of "
            "them: the ledger is an older copy. Put the newest copy back; with this one steps "
            "would be spent twice.",
            code="LEDGER_BEHIND",
        )

    def require_room(
        self, *, step: Mechanism, steps: int, documents: str, cut: str = ""
    ) -> LedgerStatement:
        """Returns what a claim would say after such a run; reserves nothing.

        Raises PrivacyError BUDGET_EXCEEDED, OTHER_DOCUMENTS or OTHER_RECORDS.
        """
        with storage.reading(self.path) as database:
            runs = self._runs(database)
            self._require_admitted(database, runs, documents, cut)
        return self._statement(runs, self._require_within(runs, step, steps))

    def reserve(
        self,
        run_id: str,
        *,
        title: str,
        step: Mechanism,
        steps: int,
        claim: str,
        documents: str,
        cut: str = "",
    ) -> LedgerRun:
        """Reserves the steps of a run, or finds the reservation that it already has.

        `claim` and `documents` are digests: of the claim that it begins with, and of the documents'
        content. `cut` says how documents become the records that are protected, where these are
        parts of them, as windows ("sequence") always are, and nothing where they are not. Raises
        PrivacyError BUDGET_EXCEEDED, OTHER_DOCUMENTS, OTHER_RECORDS, RUN_CLOSED, or RUN_DIFFERS
        where the id was reserved for something else.
        """
        if not run_id or not 1 <= steps <= MAX_STEPS:
            raise ValueError(
                f"run_id {run_id!r}, steps {steps}; expected a name, 1 to {MAX_STEPS}."
            )
        commitment = self.commitment(documents)
        with storage.writing(self.path) as database:
            runs = self._runs(database)
            for known in runs:
                if known.run_id == run_id:
                    known.require_same(step, steps, claim, commitment)
                    return known
            self._require_admitted(database, runs, documents, cut)
            self._require_within(runs, step, steps)
            if not runs:
                self._admit(database, commitment, "documents of the first run")
            if not runs and cut:
                self._admit(database, self.commitment(cut), _CUT)
            run = (run_id, _line(title), json.dumps(words.to_dict(step)), steps)
            row = (len(runs) + 1, *run, claim, commitment, _now())
            storage.add(database, "runs", self.salt, row)
            return self._run(database, run_id)

    def charge(self, run_id: str, step: int) -> str:
        """Charges a step, on the disk when the new head is returned; then noise may be drawn.

        Its number is above all that were charged; numbers left out count as charged. Raises
        InputError UNKNOWN_RUN, and PrivacyError RUN_CLOSED or NOT_RESERVED.
        """
        with storage.writing(self.path) as database:
            run = self._run(database, run_id)
            run.require_open()
            if not run.charged < step <= run.reserved:
                raise PrivacyError(
                    f"Run {run_id} asks to charge step {step}; it charged up to {run.charged} and "
                    f"reserved {run.reserved}. A step is charged once, in order, and within the "
                    "reservation; start a new run.",
                    code="NOT_RESERVED",
                )
            storage.add(database, "charges", self.salt, (run.number, step, _now()))
            made = _head(database)
        LAST_CHARGE.set(f"{run.mark}:{step}")
        return made

    def close(self, run_id: str, *, reason: str) -> LedgerRun:
        """Ends a run for good and frees what it reserved but did not charge; repeatable."""
        with storage.writing(self.path) as database:
            run = self._run(database, run_id)
            if not run.closed:
                row = (run.number, _line(reason), _now())
                storage.add(database, "closings", self.salt, row)
            return self._run(database, run_id)

    def note_read(self, run_id: str, what: str, *, declared_unused: str = "") -> None:
        """Notes that somebody sees un-noised numbers of a run, before they are shown; repeatable.

        Noted without its owner's declaration that nothing was or will be decided by them, it makes
        every claim of the ledger from now on one of `unaccounted` tuning.
        """
        with storage.writing(self.path) as database:
            run = self._run(database, run_id)
            row = (run.number, _line(what), _line(declared_unused))
            known = storage.rows(database, self.path, "reads", self.salt)
            if row not in [found[:-1] for found in known]:
                storage.add(database, "reads", self.salt, (*row, _now()))

    def note_refuted(self, audit: str) -> None:
        """Notes that the audit of a run's recipe refuted it, so that no later one hides that."""
        with storage.writing(self.path) as database:
            self._require_this(database)
            row = (self.commitment(secrets.token_hex(16)), _line(_REFUTED + audit), _now())
            storage.add(database, "contents", self.salt, row)

    def refuted(self) -> tuple[str, ...]:
        """Returns what audits that refuted a run's recipe have found, in the order of their end."""
        with storage.reading(self.path) as database:
            found = storage.rows(database, self.path, "contents", self.salt, "ORDER BY row.place")
        texts = (reason for _, reason, _ in found if reason.startswith(_REFUTED))
        return tuple(text.removeprefix(_REFUTED) for text in texts)

    def admit(self, documents: str, *, reason: str) -> None:
        """Binds the ledger to changed documents as well; every run counts for all of them."""
        with storage.writing(self.path) as database:
            self._require_this(database)
            self._admit(database, self.commitment(documents), _line(reason))

    def _runs(self, database: sqlite3.Connection) -> tuple[LedgerRun, ...]:
        self._require_this(database)
        return ledger_runs.read(database, self.path, self.salt)

    def _run(self, database: sqlite3.Connection, run_id: str) -> LedgerRun:
        self._require_this(database)
        return ledger_runs.read(database, self.path, self.salt, run_id)[0]

    def _contents(self, database: sqlite3.Connection) -> dict[str, str]:
        """Returns why each commitment was admitted."""
        found = storage.rows(database, self.path, "contents", self.salt)
        return {
            commitment: reason for commitment, reason, _ in found if not reason.startswith(_REFUTED)
        }

    def _admit(self, database: sqlite3.Connection, commitment: str, reason: str) -> None:
        if commitment not in self._contents(database):
            storage.add(database, "contents", self.salt, (commitment, reason, _now()))

    def _require_this(self, database: sqlite3.Connection) -> None:
        if storage.account(database, self.path)["ledger_id"] != self.ledger_id:
            raise storage.bad_ledger(self.path, "another ledger was put in its place")

    def _require_admitted(
        self, database: sqlite3.Connection, runs: tuple[LedgerRun, ...], documents: str, cut: str
    ) -> None:
        known = self._contents(database)
        cuts = {commitment for commitment, reason in known.items() if reason == _CUT}
        if self.unit == "sequence" and not cut:
            raise PrivacyError(
                f"The ledger '{self.path}' counts what is spent of each window of '{self.data}', "
                "and the run does not say how documents are cut into windows, so that a window of "
                "one run could be several of another. Say so: `cut` of `Terms` or of "
                "`Ledger.reserve`, by the tokenizer, the windows' length and the order of words.",
                code="OTHER_RECORDS",
            )
        if runs and cuts != ({self.commitment(cut)} if cut else set()):
            raise PrivacyError(
                f"The ledger '{self.path}' counts for records of '{self.data}' that this run does "
                "not have: documents would be cut into other windows of tokens, or into sentences "
                "in one run and not in another, so that a record of one run is several of another "
                "and their epsilons don't add up. Cut as the earlier runs did (--max-tokens, "
                "--word-order and the start's tokenizer, or --sentences-are-documents); declaring "
                "changed documents does not help.",
                code="OTHER_RECORDS",
            )
        if known and self.commitment(documents) not in known:
            raise PrivacyError(
                f"The ledger '{self.path}' counts for '{self.data}', and these documents are not "
                "the ones that its runs read. Give the ledger of these documents; where documents "
                "of the same data set were added, removed or relabelled, say so with "
                "--documents-changed, and every run counts for all of them.",
                code="OTHER_DOCUMENTS",
            )

    def _require_within(self, runs: tuple[LedgerRun, ...], step: Mechanism, steps: int) -> Sequence:
        """Returns all runs and the new one composed, if that keeps the cap."""
        counts = [(run.step, run.counted) for run in runs]
        planned = composed([*counts, (step, steps)])
        found = self._epsilon(planned)
        if found <= self.epsilon:
            return planned
        fitting = ledger_runs.most_steps(
            lambda number: self._epsilon(composed([*counts, (step, number)])) <= self.epsilon,
            fails=steps,
        )
        advice = f"At most {fitting} such steps fit" if fitting else "Not one such step fits"
        raise PrivacyError(
            f"With this run of {steps} steps, '{self.data}' would have spent "
            f"epsilon={found:.4g} at delta={self.delta:g}; its ledger allows {self.epsilon:g}, and "
            f"{self._epsilon(composed(counts)):.4g} is spent or reserved. {advice}: take fewer "
            "steps or more noise (a smaller --epsilon), or free what an abandoned run reserved "
            "with `hushdoc ledger close`.",
            code="BUDGET_EXCEEDED",
        )

    def _epsilon(self, mechanism: Sequence) -> float:
        return pld.epsilon(mechanism, self.delta) if mechanism.events else 0.0

    def _statement(self, runs: tuple[LedgerRun, ...], mechanism: Sequence) -> LedgerStatement:
        marks = [run.mark for run in runs if run.counted]
        return LedgerStatement(
            mechanism=mechanism,
            marks=(*marks, *[""] * (len(mechanism.events) - len(marks))),
            unit=self.unit,
            ledger_id=self.ledger_id,
            commitment=self.commitment(self.ledger_id),
            epsilon=self.epsilon,
            delta=self.delta,
            read_runs=sum(bool(run.read) for run in runs),
            refuted=self.refuted(),
        )


def _composed(runs: tuple[LedgerRun, ...]) -> Sequence:
    return composed((run.step, run.counted) for run in runs)


def _head(database: sqlite3.Connection) -> str:
    place, seal = storage.head(database)
    return f"{place}:{seal}"


def _line(text: str) -> str:
    """Text for people as one short line that no terminal obeys."""
    return printable(text, limit=MAX_TEXT)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
