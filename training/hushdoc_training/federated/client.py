"""A client of a federated run: charges a round, computes, adds its noise, and sends once.

Contract. Nothing is drawn before the round is charged on the disk. What leaves is a vector with
this client's share of the noise, once for a round that the signed plan has for it; never a count, a
loss or a reason that depends on a document. Which weights come does not matter to the guarantee:
the mechanism may be adaptive. There is no clock and no network: `receive` takes bytes and the time
and returns bytes.

A round goes: model, whatever the sum asks before -> charged -> vector -> whatever it asks after.
What can't be done is refused to the coordinator by a code alone; why is kept here, in `problems`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hushdoc.errors import FederatedRunError, FrameError, HushdocError, InputError, PrivacyError
from hushdoc.serialization import strict_json
from hushdoc.signing.keys import PrivateKey
from hushdoc_training.federated import frames
from hushdoc_training.federated.account import Account
from hushdoc_training.federated.adversaries import ADVERSARIES
from hushdoc_training.federated.clear_sum import ClearClient
from hushdoc_training.federated.frames import Frame, Order
from hushdoc_training.federated.plan import FEDAVG, FederatedPlan
from hushdoc_training.federated.roster import COORDINATOR, Roster
from hushdoc_training.federated.sum_client import CONTRIBUTION, SumClient
from hushdoc_training.federated.testimony import Testimony
from hushdoc_training.federated.updates import Update
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.claims import ClaimDetails
from hushdoc_training.privacy.trained_tensors import Weights
from hushdoc_training.randomness.integer_noise import Integers
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.receipt import Receipt

MAX_PROBLEMS = 100
"""How many of the last problems a party keeps."""

_USUAL = frozenset(("FRAME_REPLAYED", "FRAME_STALE", "FRAME_UNEXPECTED"))
"""Codes of frames that come late or again wherever a connection was lost."""

OTHER_PAYLOAD = 1 << 20
"""Bytes that any payload may have beside the numbers in it."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the owner of a client's documents lets a roster do, whatever it says.

    Attributes:
        max_epsilon: Against every adversary, at the plan's delta; None for a plan without privacy.
        max_delta: Of the plan.
        min_clients: Fewest clients in a round.
    """

    max_epsilon: float | None = 8.0
    max_delta: float = 1e-5
    min_clients: int = 2

    def require(self, plan: FederatedPlan) -> None:
        """Raises PrivacyError BEYOND_LIMITS where a plan does more than the owner lets it."""
        found: list[str] = []
        if plan.clients_per_round < self.min_clients:
            found.append(f"{plan.clients_per_round} clients in a round, under {self.min_clients}")
        if self.max_epsilon is not None:
            if plan.delta is None:
                found.append("no privacy at all")
            elif plan.delta > self.max_delta:
                found.append(f"delta {plan.delta:g}, above {self.max_delta:g}")
            else:
                for whom in ADVERSARIES:  # whomever the roster's plan is against
                    spent = plan.epsilon_against(whom)
                    if spent > self.max_epsilon * (1 + 1e-9):
                        found.append(f"epsilon {spent:.4g} against {whom}")
        if found:
            raise PrivacyError(
                f"The roster's plan has {'; '.join(found)}. Its owner's limits are epsilon "
                f"{self.max_epsilon} at delta {self.max_delta:g}. Refuse the roster, or set other "
                "limits.",
                code="BEYOND_LIMITS",
            )


class Client:
    """One client's side of a run.

    Attributes:
        name: As the roster has it.
        closed: Whether the coordinator has ended the run.
        problems: The last frames that were dropped and rounds that were refused, each with why;
            they may tell of documents and never leave the client.
    """

    def __init__(
        self,
        roster: Roster,
        key: PrivateKey,
        *,
        account: Account,
        update: Update,
        summing: SumClient | ClearClient,
        meter: Meter | None = None,
        receipt: Callable[[], Receipt] | None = None,
        checks: ClaimDetails | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Checks the roster against the key and the owner's limits, then reserves all rounds.

        Args:
            roster: As it was approved.
            key: This client's own.
            account: What rounds are charged to.
            update: What is computed.
            summing: What hides vectors on their way into the sum.
            meter: The update's, which notes the noise that is added here as well; None where the
                update adds its own noise, or there is none.
            receipt: Returns what the update executed, where it adds its own noise.
            checks: What the update's self-test read and assumes, for the coordinator to say; None
                where there was none.
            limits: What a plan may do; the usual ones by default.

        Raises:
            InputError: NOT_IN_ROSTER, where the key is no client's.
            PrivacyError: BEYOND_LIMITS, or as of `Account.reserve`.
            OutputWriteError: The disk is full.
        """
        self.name = roster.party_of(key).name
        self._number = roster.number_of(self.name)
        self._roster, self._key = roster, key
        self._plan = FederatedPlan.from_dict(roster.plan)
        (limits or Limits()).require(self._plan)
        account.reserve()
        self._account, self._update, self._summing = account, update, summing
        self._meter, self._own_receipt, self._stream = meter, receipt, SecretStream()
        self._checks = checks
        earlier = account.receipt
        if meter is not None and earlier is not None:
            meter.go_on(earlier)
        self._model: tuple[int, Weights] | None = None
        self._order = Order()
        self._keys = {COORDINATOR: roster.public_keys[COORDINATOR]}
        self.closed = False
        self.problems: deque[HushdocError] = deque(maxlen=MAX_PROBLEMS)
        self._untold: deque[str] = deque(maxlen=MAX_PROBLEMS)

    @property
    def idle(self) -> bool:
        """Whether no round is under way."""
        return self._summing.place is None

    def hello(self) -> list[bytes]:
        """Returns what a client says when it starts, and after a connection was lost."""
        return [self._said(frames.HELLO, self._account.next_round, b"")]

    def receive(self, data: bytes, now: float) -> list[bytes]:
        """Returns the answers to a frame; one that does not fit is dropped, and noted."""
        try:
            frame = frames.decode(
                data,
                self._keys,
                run=self._roster.run,
                roster=self._roster.digest,
                recipient=self.name,
                max_payload=4 * self._plan.numbers + OTHER_PAYLOAD,
            )
            self._order.accept(frame)
        except FrameError as error:
            self._note(error)
            return []
        try:
            return self._answered(frame, now)
        except FrameError as error:
            self._note(error)
            return []
        except HushdocError as error:
            return self._refused(frame, error)
        except Exception as error:  # out of memory, or a mistake of ours
            self._summing.close()
            return self._refused(frame, _failed(f"Answering '{frame.phase}' failed", error))

    def tick(self, now: float) -> None:
        """Forgets a round that nobody has gone on with for a long time."""
        self._summing.tick(now)

    def leave(self) -> None:
        """Erases what was agreed on with others; whoever drives the client calls it at the end."""
        self._summing.leave()

    def news(self) -> list[str]:
        """Returns what went wrong since the last call, in words for the documents' owner alone.

        What comes late or again is usual, and left out.
        """
        told = list(self._untold)
        self._untold.clear()
        return told

    def _refused(self, frame: Frame, error: HushdocError) -> list[bytes]:
        """Keeps why a frame is refused, and returns what the coordinator is told: a code alone."""
        self._note(error)
        code = error.code if isinstance(error, PrivacyError) else "CLIENT_FAILED"
        refusal = strict_json.dumps({"code": code})
        # At the place of the frame that was refused: what is older than a client's own last
        # frame is dropped, and the coordinator would wait for it.
        return [self._said(frames.REFUSE, frame.round, refusal, attempt=frame.attempt)]

    def _note(self, error: HushdocError) -> None:
        self.problems.append(error)
        if error.code not in _USUAL:
            self._untold.append(f"{error.code}: {error}")

    def _answered(self, frame: Frame, now: float) -> list[bytes]:
        if frame.phase == frames.CLOSE:
            return self._close(frame)
        if frame.phase == frames.HELLO:
            return self.hello()
        answers: list[Frame] = []
        if frame.phase == frames.MODEL:
            self._model = frame.round, read_model(frame, weights_in(self._plan))
        else:
            answers = self._summing.receive(frame, now)
            if frame.phase == frames.OPEN:
                self._require_planned(frame.round)
        return [frames.encode(made, self._key) for made in (*answers, *self._contributed())]

    def _contributed(self) -> list[Frame]:
        """Returns this client's vector once the round's model is there and its sum waits for it."""
        place, model = self._summing.place, self._model
        ready = self._summing.awaited == CONTRIBUTION
        if place is None or model is None or model[0] != place.round or not ready:
            return []
        self._model = None
        try:
            own = self._account.enter(place.round, self._summing.members)
            return self._summing.contribute(self._vector(model[1], own))
        except BaseException:
            self._summing.close()
            raise

    def _require_planned(self, number: int) -> None:
        """Ends a round that has just been opened, unless the plan has it, with these clients."""
        clients = [self._roster.number_of(name) for name in self._summing.members]
        try:
            if number >= self._plan.rounds:
                raise _not_planned(f"round {number} of {self._plan.rounds}, from 0")
            if self._number not in clients:
                raise _not_planned(f"round {number} without {self.name}, to which it was sent")
            self._plan.turns.require(clients, number, self._roster.run)
        except PrivacyError:
            self._summing.close()
            raise

    def _vector(self, weights: Weights, number: int) -> Integers:
        """Returns what the sum gets; every error on the way has one code, whatever a document did.

        Raises:
            FederatedRunError: CLIENT_FAILED.
        """
        try:
            return self._noised(self._update.compute(weights, number))
        except Exception as error:
            failed = _failed(f"The client's own round {number} failed and stays charged", error)
        # Out here it keeps no traceback, which would hold what the round had in memory.
        raise failed

    def _noised(self, total: Integers) -> Integers:
        """Returns a sum with this client's noise, if the plan shares it; the receipt is kept."""
        plan, meter = self._plan, self._meter
        if meter is not None:
            # By what the roster fixes; the coordinator divides, after the noise.
            meter.divided(plan.expected_records)
        vector = plan.grid.noised(total, self._stream, meter or _nothing_noted(plan))
        receipt = self._receipt()
        if receipt is not None:
            self._account.keep(receipt)
        return vector

    def _receipt(self) -> Receipt | None:
        if self._own_receipt is not None:
            return self._own_receipt()
        return None if self._meter is None else self._meter.receipt()

    def _close(self, frame: Frame) -> list[bytes]:
        self._account.close()
        self.closed = True
        self.leave()
        account = self._account
        told = Testimony.of(account.taken, account.receipt, self._checks).encoded()
        return [self._said(frames.RECEIPT, frame.round, account.testify(told))]

    def _said(self, phase: str, round: int, payload: bytes, *, attempt: int = 0) -> bytes:
        frame = Frame(
            run=self._roster.run,
            roster=self._roster.digest,
            round=round,
            attempt=attempt,
            phase=phase,
            sender=self.name,
            recipient=COORDINATOR,
            payload=payload,
        )
        return frames.encode(frame, self._key)


def weights_in(plan: FederatedPlan) -> int:
    """Returns how many numbers are trained: all of an update, but for FedAvg's count at its end."""
    return plan.numbers - (plan.algorithm == FEDAVG)


def model_payload(weights: Weights) -> bytes:
    """Returns the payload of a model: 4 bytes for each trained number."""
    return weights.astype("<f4").tobytes()


def read_model(frame: Frame, numbers: int) -> Weights:
    """Returns the weights of a round, float32, shape [d].

    Raises:
        InputError: BAD_MODEL, where they are not `numbers` finite ones.
    """
    if len(frame.payload) != 4 * numbers:
        raise _bad_model(frame, f"{len(frame.payload)} bytes of weights, expected {4 * numbers}")
    weights = np.frombuffer(frame.payload, dtype="<f4").astype(np.float32)
    if not np.isfinite(weights).all():
        raise _bad_model(frame, "weights that are not finite")
    return weights


def _bad_model(frame: Frame, found: str) -> InputError:
    return InputError(
        f"The model of round {frame.round} has {found}. Ask the coordinator what it sends.",
        code="BAD_MODEL",
    )


def _failed(what: str, error: Exception) -> FederatedRunError:
    """Returns what stands for an error here, whatever it was."""
    why = str(error)
    if not isinstance(error, HushdocError):
        why = f"{error!r}. If memory is not short and it comes again, stop and report it"
    return FederatedRunError(f"{what}: {why}", code="CLIENT_FAILED")


def _not_planned(found: str) -> PrivacyError:
    return PrivacyError(
        f"The coordinator asks for {found}. A client answers what the approved roster plans, and "
        "nothing else; ask the coordinator which roster it runs.",
        code="NOT_AS_PLANNED",
    )


def _nothing_noted(plan: FederatedPlan) -> Meter:
    """Returns a meter for a grid without noise, which notes nothing in it."""
    if plan.share_width:
        raise ValueError("meter is None where clients share the noise; give the update's.")
    return Meter(planned_steps=plan.cap, privacy_unit=plan.privacy_unit)
