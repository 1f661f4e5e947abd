"""The coordinator's side of secure sums: it adds masked vectors up, and learns their sum alone.

It needs no trust for that: `sum_client` refuses what would show more. It holds one vector however
many clients there are, and knows no clock: `tick` is told the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hushdoc_training.federated import frames, masks, secret_sharing
from hushdoc_training.federated.frames import ANSWER, CONFIRM, KEYS, OPEN, SHARES, VECTOR, Frame
from hushdoc_training.federated.secret_sharing import SHARE_BYTES
from hushdoc_training.federated.secure_sum import (
    ALL_OR_NOTHING,
    SEALED_BYTES,
    Aborted,
    Opening,
    Place,
    SumTerms,
    bits_of,
    require_length,
    unexpected,
)


@dataclass(kw_only=True)
class _Round:
    """What the coordinator knows of one round."""

    place: Place
    awaited: str
    expected: tuple[str, ...]
    words: masks.Words
    transcript: str = ""
    advertised: str = ""
    public: dict[str, bytes] = field(default_factory=dict)
    sharing: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    list_of_survivors: bytes = b""
    lost: set[str] = field(default_factory=set)
    arrived: dict[str, bytes] = field(default_factory=dict)


class SumCoordinator:
    """The coordinator's part in the sums of a run.

    Attributes:
        total: The sum of the last round, integers of shape [numbers]; None until there is one.
        survivors: Whose vectors are in it.
        aborted: Why there is none.
    """

    def __init__(self, terms: SumTerms) -> None:
        """Begins without a round."""
        self.terms = terms
        self.total: masks.Integers | None = None
        self.survivors: tuple[str, ...] = ()
        self.aborted: Aborted | None = None
        self._round: _Round | None = None
        self._last_round = -1
        self._deadline = 0.0
        self._agreed: frozenset[str] = frozenset()
        self._steps = {
            KEYS: self._advertise,
            SHARES: self._deliver,
            VECTOR: self._summed,
            CONFIRM: self._reveal,
            ANSWER: self._unmask,
        }

    @property
    def awaited(self) -> str:
        """The phase whose frames are waited for; OPEN between rounds."""
        return OPEN if self._round is None else self._round.awaited

    @property
    def deadline(self) -> float | None:
        """When the phase's time is over, by the clock of `now`; None between rounds."""
        return None if self._round is None else self._deadline

    @property
    def missing(self) -> tuple[str, ...]:
        """Whose frame is waited for."""
        held = self._round
        return () if held is None else tuple(n for n in held.expected if n not in held.arrived)

    def open(self, round: int, attempt: int, members: Sequence[str], now: float) -> list[Frame]:
        """Returns what opens a round.

        Args:
            round: Its number, larger than any before it.
            attempt: What the frames of this round carry besides.
            members: Its clients, as many as the terms say.
            now: Seconds of any clock that does not go back.

        Raises:
            ValueError: Another number of clients, or a round that was begun before.
        """
        terms, names = self.terms, tuple(sorted(set(members)))
        if len(names) != terms.clients_per_round or len(members) != len(names):
            raise ValueError(f"Found {len(members)} members; expected {terms.clients_per_round}.")
        if round <= self._last_round:
            raise ValueError(f"Round {round} was begun before; expected a later one.")
        self.total, self.survivors, self.aborted = None, (), None
        agreed = self._agreed >= set(names)
        place = Place(round=round, attempt=attempt)
        self._last_round, self._deadline = round, now + terms.seconds
        self._round = _Round(
            place=place,
            awaited=VECTOR if agreed else KEYS,
            expected=names,
            words=np.zeros(terms.numbers, dtype=masks.RINGS[terms.ring_bits]),
        )
        opening = Opening(members=names, agreed=agreed).encoded()
        return self._to_each(names, OPEN, opening)

    def receive(self, frame: Frame, now: float) -> list[Frame]:
        """Returns what to send after a frame that `frames.decode` has read; most often nothing.

        Raises:
            FrameError: The frame is late, early, doubled or malformed; it changes nothing.
        """
        held = self._round
        place = Place(round=frame.round, attempt=frame.attempt)
        if (
            held is None
            or (place, frame.phase) != (held.place, held.awaited)
            or frame.sender not in self.missing
        ):
            raise unexpected(frame, self.awaited)
        held.arrived[frame.sender] = self._taken(frame, held)
        return self._go_on(now)

    def lost(self, name: str, now: float) -> list[Frame]:
        """Returns what to send once it is known that a client says no more in this round."""
        if self._round is not None:
            self._round.lost.add(name)
        return self._go_on(now)

    def tick(self, now: float) -> list[Frame]:
        """Returns what to send once the time of a phase is over."""
        if self._round is not None and now > self._deadline:
            self._round.lost.update(self.missing)
        return self._go_on(now)

    def _go_on(self, now: float) -> list[Frame]:
        """Begins the next phase once nobody more can come, or gives up."""
        held = self._round
        if held is None:
            return []
        waited_for = set(self.missing) - held.lost
        if len(held.arrived) + len(waited_for) < self.terms.threshold:
            return self._abort(
                "TOO_FEW_CLIENTS",
                f"{len(held.arrived)} clients sent {held.awaited}; expected at least "
                f"{self.terms.threshold}",
                self.missing,
            )
        if waited_for:
            return []
        self._deadline = now + self.terms.seconds
        arrived = dict(sorted(held.arrived.items()))
        step, held.arrived = self._steps[held.awaited], {}
        return step(held, arrived)

    def _taken(self, frame: Frame, held: _Round) -> bytes:
        """Returns what is kept of a frame; a vector is added up at once."""
        terms = self.terms
        if held.awaited == KEYS:
            keys = 1 if terms.mode == ALL_OR_NOTHING else 3
            require_length(frame, keys * masks.KEY_BYTES)
            self._require_agreeable(frame)
            held.public[frame.sender] = bytes(frame.payload)
            return frame.encoded
        if held.awaited == VECTOR:
            require_length(frame, terms.vector_bytes)
            held.words += np.frombuffer(frame.payload, dtype=held.words.dtype)
            return b""
        if held.awaited == CONFIRM:
            if frame.payload != held.list_of_survivors:
                raise frames.bad_frame(f"of {frame.sender} confirms another list of survivors")
            return frame.encoded
        size, of = (
            (SEALED_BYTES, len(held.public) - 1)
            if held.awaited == SHARES
            else (SHARE_BYTES, len(held.sharing))
        )
        require_length(frame, size * of)
        return bytes(frame.payload)

    def _require_agreeable(self, frame: Frame) -> None:
        """Drops keys on which nobody can agree: else all others would drop those of everybody."""
        agreed = 1 if self.terms.mode == ALL_OR_NOTHING else 2  # the third part is a digest
        for part in range(agreed):
            public = bytes(frame.payload[part * masks.KEY_BYTES : (part + 1) * masks.KEY_BYTES])
            masks.require_agreeable(public, frame.sender)

    def _advertise(self, held: _Round, arrived: dict[str, bytes]) -> list[Frame]:
        terms, present = self.terms, tuple(arrived)
        held.public = {name: held.public[name] for name in present}
        said = (part for name in present for part in (name, held.public[name].hex()))
        held.advertised = held.transcript = terms.transcript(held.place, *said)
        if terms.mode == ALL_OR_NOTHING:
            self._agreed = frozenset(present)
        self._await(VECTOR if terms.mode == ALL_OR_NOTHING else SHARES, present)
        return self._to_each(present, frames.ADVERTISE, frames.bundle(arrived.values()))

    def _deliver(self, held: _Round, arrived: dict[str, bytes]) -> list[Frame]:
        present, sharing = tuple(held.public), tuple(arrived)
        bits = bits_of(sharing, present)
        held.sharing = sharing
        held.transcript = self.terms.transcript(held.place, held.transcript, *sharing)
        self._await(VECTOR, sharing)
        return [
            self._frame(name, frames.DELIVER, bits + self._sealed_for(name, present, arrived))
            for name in sharing
        ]

    def _sealed_for(
        self, holder: str, present: tuple[str, ...], arrived: dict[str, bytes]
    ) -> bytes:
        """Returns what each other client encrypted to one."""
        sealed = []
        for sender, content in arrived.items():
            if sender != holder:
                place = [name for name in present if name != sender].index(holder)
                sealed.append(content[place * SEALED_BYTES : (place + 1) * SEALED_BYTES])
        return b"".join(sealed)

    def _summed(self, held: _Round, arrived: dict[str, bytes]) -> list[Frame]:
        held.survivors = tuple(arrived)
        if self.terms.mode == ALL_OR_NOTHING:
            return self._finish(held)
        bits = bits_of(held.survivors, tuple(held.public))
        held.list_of_survivors = bytes.fromhex(held.transcript) + bits
        self._await(CONFIRM, held.survivors)
        return self._to_each(held.survivors, frames.SURVIVORS, held.list_of_survivors)

    def _reveal(self, held: _Round, arrived: dict[str, bytes]) -> list[Frame]:
        self._await(ANSWER, arrived)
        return self._to_each(arrived, frames.REVEAL, frames.bundle(arrived.values()))

    def _unmask(self, held: _Round, arrived: dict[str, bytes]) -> list[Frame]:
        """Rebuilds each survivor's seed and each other's key, and takes their masks away."""
        present, used = list(held.public), list(arrived)[: self.terms.threshold]
        for number, name in enumerate(held.sharing):
            cut = slice(number * SHARE_BYTES, (number + 1) * SHARE_BYTES)
            shares = {
                present.index(holder) + 1: int.from_bytes(arrived[holder][cut], "little")
                for holder in used
            }
            secret = secret_sharing.rebuilt(shares).to_bytes(SHARE_BYTES, "little")
            remove = self._remove_own if name in held.survivors else self._remove_pairs
            if not remove(held, name, secret):
                return self._abort(
                    "SECRET_NOT_REBUILT",
                    f"answers do not give back what {name} advertised: it shared something else, "
                    f"or one of {', '.join(used)} answered with a wrong share",
                    tuple(sorted(held.lost)),
                )
        return self._finish(held)

    def _remove_own(self, held: _Round, name: str, seed: bytes) -> bool:
        """Whether a seed is the advertised one; then its mask is taken away."""
        terms = self.terms
        if terms.commitment(held.place, name, seed) != held.public[name][2 * masks.KEY_BYTES :]:
            return False
        key = terms.self_key(held.place, name, seed, held.transcript)
        masks.add_mask(held.words, key, subtract=True)
        return True

    def _remove_pairs(self, held: _Round, name: str, private: bytes) -> bool:
        """Whether a key is the advertised one; then what survivors added for it is taken away."""
        pair = masks.KeyPair(private)
        if pair.public != held.public[name][: masks.KEY_BYTES]:
            return False
        for other in held.survivors:
            shared = pair.shared(held.public[other][: masks.KEY_BYTES], other)
            chain = self.terms.chain(held.place, shared, name, other, held.advertised)
            self.terms.add_pair_mask(
                held.words, held.place, chain, (other, name), held.transcript, remove=True
            )
        return True

    def _finish(self, held: _Round) -> list[Frame]:
        self.total = masks.centred(held.words, self.terms.ring_bits)
        self.survivors, self._round = held.survivors, None
        return []

    def _abort(self, code: str, reason: str, clients: tuple[str, ...]) -> list[Frame]:
        # Whoever was started again has lost what was agreed on: the next round asks for new keys.
        self._agreed, self._round = frozenset(), None
        self.aborted = Aborted(code=code, reason=reason, clients=clients)
        return []

    def _await(self, phase: str, names: Iterable[str]) -> None:
        held = self._round
        assert held is not None
        held.awaited, held.expected = phase, tuple(names)

    def _to_each(self, names: Iterable[str], phase: str, payload: bytes) -> list[Frame]:
        return [self._frame(name, phase, payload) for name in names]

    def _frame(self, recipient: str, phase: str, payload: bytes) -> Frame:
        held = self._round
        assert held is not None
        return self.terms.frame(held.place, phase, self.terms.coordinator, recipient, payload)
