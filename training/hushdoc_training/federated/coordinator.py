"""The coordinator of a federated run: sends weights, learns sums, steps, and keeps its place.

It holds nothing private: weights, the state of the step, and who was missing when. There is no
clock and no network: `start`, `receive` and `tick` are told the time and return what to send.

A round goes: begun, on the disk -> sum -> stepped -> saved whole -> the next. A round that aborts,
or that a kill cut off, saves nothing but that it was: every attempt is a round of the plan, with
noise and a charge of its own. So weights are never half-updated, and never stepped twice.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors.numpy

from hushdoc.errors import CheckpointError, FederatedRunError, FrameError, HushdocError
from hushdoc.serialization import strict_json
from hushdoc.signing.keys import PrivateKey
from hushdoc.system import atomic_files
from hushdoc_training.federated import frames, testimony
from hushdoc_training.federated.account import alone
from hushdoc_training.federated.clear_sum import ClearCoordinator
from hushdoc_training.federated.client import (
    MAX_PROBLEMS,
    OTHER_PAYLOAD,
    model_payload,
)
from hushdoc_training.federated.frames import Frame, Order
from hushdoc_training.federated.participation import DRAWN
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.federated.roster import COORDINATOR, Roster
from hushdoc_training.federated.server_steps import ServerStep
from hushdoc_training.federated.standing import LOG, PROGRESS
from hushdoc_training.federated.sum_coordinator import SumCoordinator
from hushdoc_training.privacy.trained_tensors import Weights
from hushdoc_training.randomness.integer_noise import Integers
from hushdoc_training.randomness.secret_stream import SecretStream

STATE = "state.safetensors"
WEIGHTS = "weights"

STEPPED = "stepped"
"""Outcome of a round that moved the weights; any other is the code of why it did not."""

GATHERING, SUMMING, CLOSING = ("gathering", "summing", "closing")
PAUSED, FINISHED = ("paused", "finished")

MISSED_IN_A_ROW = 3
"""Rounds in a row that a client misses before it counts as gone."""

Outgoing = tuple[str, bytes]
"""The name of a party, and a frame for it."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """How long is waited (seconds) before it goes on without some, or gives up.

    Attributes:
        clients: For all clients to say that they are there, and for receipts at the end.
        run: For the whole run, from its start or resumption.
    """

    clients: float = 600.0
    run: float = 7 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A round as it went: what the log has of it.

    Attributes:
        round: Its number, from 1.
        outcome: STEPPED, or the code of why not.
        reason: Why not, in words.
        missing: Clients that did not answer.
        refused: What some of them said instead, by name: the code of an error.
        seconds: From its beginning.
        sent: Bytes of payload and frames that were sent.
        received: Bytes that came.
    """

    round: int
    outcome: str
    reason: str
    missing: tuple[str, ...]
    refused: Mapping[str, str]
    seconds: float
    sent: int
    received: int


@dataclass
class _Progress:
    """What is known of the rounds: public, and all that a resumed run needs but the weights."""

    run: str
    roster: str
    sessions: int = 0  # processes that have coordinated the run
    begun: int = 0  # rounds, aborted ones included
    aborted: list[int] = field(default_factory=list)
    missed: dict[str, int] = field(default_factory=dict)  # in a row
    took_part: list[str] = field(default_factory=list)  # in some sum


class Coordinator:
    """The coordinator's side of a run.

    Attributes:
        phase: GATHERING, SUMMING, CLOSING, PAUSED or FINISHED.
        weights: All trained numbers, float32, shape [d].
        attempts: The rounds of this process, as the log has them.
        problems: The last frames that were dropped, with why.
    """

    def __init__(
        self,
        roster: Roster,
        key: PrivateKey,
        *,
        folder: Path,
        weights: Weights,
        step: ServerStep,
        summing: SumCoordinator | ClearCoordinator,
        waits: Waits | None = None,
    ) -> None:
        """Begins a run, or goes on with the one in the folder.

        Args:
            roster: As it was approved.
            key: The coordinator's own.
            folder: For its state and log, of this run alone.
            weights: The start's, float32, shape [d].
            step: What steps; it goes on from the folder's state.
            summing: What adds vectors up.
            waits: How long is waited; the usual by default.

        Raises:
            InputError: NOT_IN_ROSTER, where the key is not the coordinator's.
            CheckpointError: The folder's state is of another run, or can't be read.
            FrameError: What a client said at the end was changed since.
        """
        roster.require_coordinator(key)
        self._roster, self._key, self._folder = roster, key, folder
        self._plan = FederatedPlan.from_dict(roster.plan)
        self._step, self._summing = step, summing
        self._waits = waits or Waits()
        self._order, self._stream = Order(), SecretStream()
        self._keys = dict(roster.public_keys)
        del self._keys[COORDINATOR]
        self._here: set[str] = set()
        self._refused: dict[str, str] = {}
        self._pausing = False
        self._members: tuple[str, ...] = ()
        self._until = self._run_until = 0.0
        self._began, self._sent, self._received = 0.0, 0, 0
        self.phase = GATHERING
        self.attempts: list[Attempt] = []
        self.problems: deque[HushdocError] = deque(maxlen=MAX_PROBLEMS)
        self.weights = weights
        with ExitStack() as undo:
            undo.enter_context(alone(folder))
            self._progress = self._opened()
            self._testified = testimony.kept(folder / testimony.RECEIPTS, roster)
            self._held = undo.pop_all()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Lets other processes in."""
        self._held.close()

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be sent or waited for; a run that is paused is resumed."""
        return self.phase in (PAUSED, FINISHED)

    @property
    def begun(self) -> int:
        """Rounds that were begun, aborted ones included."""
        return self._progress.begun

    @property
    def aborted(self) -> tuple[int, ...]:
        """Numbers (from 1) of rounds without a step."""
        return tuple(self._progress.aborted)

    @property
    def took_part(self) -> frozenset[str]:
        """Clients that some sum was made of."""
        return frozenset(self._progress.took_part)

    @property
    def deadline(self) -> float | None:
        """When to `tick` at the latest; None once the run is over."""
        if self.finished:
            return None
        waited = self._summing.deadline if self.phase == SUMMING else self._until
        return min(self._run_until, self._until if waited is None else waited)

    @property
    def testified(self) -> Mapping[str, Frame]:
        """The frames in which clients testified at the end, by name."""
        return dict(sorted(self._testified.items()))

    def pause(self) -> None:
        """Lets the round under way end, and begins no other; waits for nobody between rounds."""
        self._pausing = True

    def start(self, now: float) -> list[Outgoing]:
        """Asks all clients whether they are there."""
        self._until, self._run_until = now + self._waits.clients, now + self._waits.run
        return [self._said(party.name, frames.HELLO, b"") for party in self._roster.clients]

    def receive(self, data: bytes, now: float) -> list[Outgoing]:
        """Returns what to send after a frame; one that does not fit is dropped, and noted.

        Raises:
            FederatedRunError: TOO_FEW_CLIENTS, where so many are gone that no round can succeed;
                or NOT_FINITE, where weights would be infinite or no numbers.
            OutputWriteError: The disk is full; the last saved state stays.
        """
        try:
            frame = frames.decode(
                data,
                self._keys,
                run=self._roster.run,
                roster=self._roster.digest,
                recipient=COORDINATOR,
                max_payload=8 * self._plan.numbers + OTHER_PAYLOAD,
            )
            self._order.accept(frame)
            self._received += len(data)
            out = self._heard(frame, now)
        except FrameError as error:
            self.problems.append(error)
            return []
        return [*out, *self._go_on(now)]

    def tick(self, now: float) -> list[Outgoing]:
        """Returns what to send where a deadline has passed.

        Raises:
            FederatedRunError: As of `receive`, or RUN_TOO_LONG.
            OutputWriteError: As of `receive`.
        """
        if not self.finished and now >= self._run_until:
            raise FederatedRunError(
                f"The run was to take {self._waits.run:.0f} seconds, and {self.begun} of "
                f"{self._plan.rounds} rounds are begun. Resume it: it then has as long again.",
                code="RUN_TOO_LONG",
            )
        out = self._signed(self._summing.tick(now)) if self.phase == SUMMING else []
        return [*out, *self._go_on(now)]

    def _heard(self, frame: Frame, now: float) -> list[Outgoing]:
        match frame.phase:
            case frames.HELLO:
                return self._greet(frame, now)
            case frames.REFUSE:
                return self._refusal(frame, now)
            case frames.RECEIPT:
                return self._take_receipt(frame)
            case _:
                return self._signed(self._summing.receive(frame, now))

    def _greet(self, frame: Frame, now: float) -> list[Outgoing]:
        """Notes that a client is there; one that was started again says no more in its round."""
        self._here.add(frame.sender)
        self._progress.missed[frame.sender] = 0
        if self.phase == CLOSING:
            return [self._said(frame.sender, frames.CLOSE, b"")]
        if self.phase == SUMMING:
            return self._signed(self._summing.lost(frame.sender, now))
        return []

    def _refusal(self, frame: Frame, now: float) -> list[Outgoing]:
        told = _object(frame)
        match told:
            case {"code": str(code)} if len(told) == 1 and re.fullmatch("[A-Z0-9_]{1,60}", code):
                if self.phase == SUMMING and frame.round == self.begun - 1:
                    self._refused[frame.sender] = code
                    return self._signed(self._summing.lost(frame.sender, now))
                return []
        raise frames.bad_frame(f"of {frame.sender} refuses without a code")

    def _take_receipt(self, frame: Frame) -> list[Outgoing]:
        testimony.said(frame)
        testimony.keep(self._folder, frame)
        self._testified[frame.sender] = frame
        return []

    def _go_on(self, now: float) -> list[Outgoing]:
        """Begins the next round, or ends the run, where nothing of now is left to wait for."""
        if self.phase == SUMMING and self._settled(now):
            self.phase = GATHERING
        if self.phase == CLOSING and (now >= self._until or not self.owing):
            self.phase = FINISHED
        elif self._pausing and self.phase in (GATHERING, CLOSING):
            self.phase = PAUSED
        if self.phase == GATHERING and (now >= self._until or not self._awaited):
            self._require_enough()
            return self._begin(now) if self.begun < self._plan.rounds else self._close(now)
        return []

    @property
    def owing(self) -> tuple[str, ...]:
        """Clients whose receipt is not there yet."""
        known, clients = self._testified, self._roster.clients
        return tuple(party.name for party in clients if party.name not in known)

    @property
    def _absent(self) -> tuple[str, ...]:
        """Clients that have not said that they are there, or have missed too many rounds."""
        missed = self._progress.missed
        return tuple(
            party.name
            for party in self._roster.clients
            if party.name not in self._here or missed.get(party.name, 0) >= MISSED_IN_A_ROW
        )

    @property
    def _awaited(self) -> tuple[str, ...]:
        """Clients that are waited for: after the last round, such as owe a receipt alone."""
        absent, owing = self._absent, self.owing
        ended = self.begun >= self._plan.rounds
        return tuple(name for name in absent if name in owing) if ended else absent

    def _require_enough(self) -> None:
        absent, needed = self._absent, self._plan.clients_per_round - self._plan.silent
        left = len(self._roster.clients) - len(absent)
        if left < needed and self.begun < self._plan.rounds:
            raise FederatedRunError(
                f"{left} clients are left, and a round needs {needed}: {', '.join(absent)} did "
                f"not say that they are there, or missed {MISSED_IN_A_ROW} rounds in a row. Bring "
                f"them back and resume; {self.begun} of {self._plan.rounds} rounds are begun and "
                "stay charged.",
                code="TOO_FEW_CLIENTS",
            )

    def _begin(self, now: float) -> list[Outgoing]:
        self._progress.begun += 1
        self._write_progress()
        self._members = tuple(self._drawn(self.begun))
        self._refused, self.phase = {}, SUMMING
        self._began, self._sent, self._received = now, 0, 0
        said = self._said(frames.EVERYBODY, frames.MODEL, model_payload(self.weights))[1]
        out = [(name, said) for name in self._members]
        self._sent += len(said) * (len(out) - 1)
        opening = self._summing.open(self.begun - 1, self._progress.sessions, self._members, now)
        return [*out, *self._signed(opening)]

    def _close(self, now: float) -> list[Outgoing]:
        self.phase, self._until = CLOSING, now + self._waits.clients
        return [self._said(name, frames.CLOSE, b"") for name in self.owing]

    def _drawn(self, number: int) -> list[str]:
        """Returns the clients of a round."""
        turns = self._plan.turns
        if turns.how == DRAWN:
            drawn = turns.draw(self._stream)
        else:
            drawn = turns.schedule(number - 1, self._roster.run)
        return [self._roster.clients[client].name for client in drawn]

    def _settled(self, now: float) -> bool:
        """Whether the round has a sum, by which is stepped, or has none for good."""
        summing, aborted = self._summing, self._summing.aborted
        if summing.total is None and aborted is None:
            return False
        if aborted is None:
            assert summing.total is not None
            outcome, reason, known = STEPPED, "", {*self._progress.took_part}
            self._progress.took_part = sorted(known | set(summing.survivors))
            self._write_progress()
            self._stepped(summing.total)
            missing = tuple(name for name in self._members if name not in summing.survivors)
        else:
            self._progress.aborted.append(self.begun)
            outcome, reason, missing = aborted.code, aborted.reason, aborted.clients
        missed = self._progress.missed
        for name in self._members:
            missed[name] = missed.get(name, 0) + 1 if name in missing else 0
        self._write_progress()
        self._note(outcome, reason, missing, seconds=now - self._began)
        return True

    def _stepped(self, total: Integers) -> None:
        """Steps by a sum, and writes weights and step whole."""
        weights = self._step.apply(self.weights, total, self.begun)
        if not np.isfinite(weights).all():
            raise FederatedRunError(
                f"The weights after round {self.begun} would not be finite; nothing of it was "
                "saved. Start a new run with a smaller learning rate.",
                code="NOT_FINITE",
            )
        state = {f"step.{name}": np.asarray(value) for name, value in self._step.state().items()}
        metadata = {"round": str(self.begun), "roster": self._roster.digest}
        content = safetensors.numpy.save({WEIGHTS: weights, **state}, metadata=metadata)
        atomic_files.write_file(self._folder / STATE, content)
        self.weights = weights

    def _note(self, outcome: str, reason: str, missing: tuple[str, ...], *, seconds: float) -> None:
        attempt = Attempt(
            round=self.begun,
            outcome=outcome,
            reason=reason,
            missing=missing,
            refused=dict(self._refused),
            seconds=seconds,
            sent=self._sent,
            received=self._received,
        )
        self.attempts.append(attempt)
        try:
            with (self._folder / LOG).open("a", encoding="ascii") as log:
                log.write(json.dumps(asdict(attempt)) + "\n")
        except OSError as error:
            raise atomic_files.not_written(self._folder / LOG, error) from error

    def _opened(self) -> _Progress:
        """Returns what the folder knows of the run, and loads its weights."""
        digest, path = self._roster.digest, self._folder / PROGRESS
        progress = _Progress(run=self._roster.run, roster=digest)
        if path.exists():
            known = strict_json.read_file(
                path, what="The progress", code="BAD_CHECKPOINT", error=CheckpointError
            )
            known.pop("receipts", None)  # before frames were kept
            progress = _Progress(**known)
        if (progress.run, progress.roster) != (self._roster.run, digest):
            raise CheckpointError(
                f"'{self._folder}' is the folder of run {progress.run} under another roster. Give "
                "each run a folder of its own."
            )
        stepped = self._restored()
        if stepped < progress.begun and progress.begun not in progress.aborted:
            progress.aborted.append(progress.begun)  # a kill cut it off
        progress.sessions += 1
        self._progress = progress
        self._write_progress()
        return progress

    def _restored(self) -> int:
        """Loads weights and step as they were saved; returns the last round that was stepped."""
        path = self._folder / STATE
        if not path.exists():
            return 0
        try:
            with safetensors.safe_open(path, framework="numpy") as opened:
                metadata = opened.metadata()
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            weights = tensors.pop(WEIGHTS)
            if metadata["roster"] != self._roster.digest or weights.shape != self.weights.shape:
                raise ValueError("it is of another run")
            self._step.restore(
                {name.removeprefix("step."): value for name, value in tensors.items()}
            )
            self.weights = weights
            return int(metadata["round"])
        except (OSError, KeyError, ValueError, safetensors.SafetensorError) as error:
            raise CheckpointError(
                f"The state '{path}' can't be read: {error}. Start a new run under a new roster; "
                "what this one spent stays spent."
            ) from error

    def _write_progress(self) -> None:
        content = strict_json.dumps(asdict(self._progress))
        atomic_files.write_file(self._folder / PROGRESS, content)

    def _signed(self, made: Sequence[Frame]) -> list[Outgoing]:
        signed = [(frame.recipient, frames.encode(frame, self._key)) for frame in made]
        self._sent += sum(len(data) for _, data in signed)
        return signed

    def _said(self, recipient: str, phase: str, payload: bytes) -> Outgoing:
        place = self.begun - 1 if phase == frames.MODEL else self.begun
        (said,) = self._signed(
            [
                Frame(
                    run=self._roster.run,
                    roster=self._roster.digest,
                    round=place,
                    attempt=self._progress.sessions,
                    phase=phase,
                    sender=COORDINATOR,
                    recipient=recipient,
                    payload=payload,
                )
            ]
        )
        return said


def _object(frame: Frame) -> dict[str, Any]:
    """Returns a payload that is an object; FrameError BAD_FRAME for any other."""
    told = strict_json.loads(
        bytes(frame.payload), what="A payload", code="BAD_FRAME", error=FrameError
    )
    if not isinstance(told, dict):
        raise frames.bad_frame(f"of {frame.sender} ({frame.phase}) is no object")
    return told
