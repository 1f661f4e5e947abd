"""A client's side of secure sums: one vector a round, one list of survivors, one answer.

The coordinator is not trusted. What it sends that does not fit the phase is dropped (FrameError).
What shows that it, or another client, departs from what was agreed ends the round for this client
(PrivacyError): its secrets are erased, and nothing more is sent or answered in that round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hushdoc.errors import PrivacyError
from hushdoc_training.federated import frames, masks, secret_sharing
from hushdoc_training.federated.frames import ADVERTISE, DELIVER, OPEN, REVEAL, SURVIVORS, Frame
from hushdoc_training.federated.secret_sharing import SHARE_BYTES
from hushdoc_training.federated.secure_sum import (
    ALL_OR_NOTHING,
    BITS_BYTES,
    SEALED_BYTES,
    SURVIVORS_BYTES,
    Opening,
    Place,
    SumTerms,
    named,
    require_length,
    unexpected,
)

CONTRIBUTION = "contribution"
"""What a client waits for that is not a frame: `contribute`."""

_PHASES = 2
"""How many times a phase's time a client waits: others may take all of it, and it was not first."""

_NONCE = bytes(12)  # every key seals one message alone


@dataclass(kw_only=True)
class _Round:
    """What a client knows and keeps secret in one round."""

    place: Place
    members: tuple[str, ...]
    awaited: str = ADVERTISE
    transcript: str = ""
    mask_pair: masks.KeyPair | None = None
    share_pair: masks.KeyPair | None = None
    share_secrets: dict[str, bytearray] = field(default_factory=dict)
    private: bytearray = field(default_factory=bytearray)
    seed: bytearray = field(default_factory=bytearray)
    public: dict[str, bytes] = field(default_factory=dict)
    chains: dict[str, masks.Chain] = field(default_factory=dict)
    shares: dict[str, bytearray] = field(default_factory=dict)
    sharing: tuple[str, ...] = ()
    signed: bytes = b""

    def erase(self) -> None:
        """Overwrites what is secret."""
        secrets = (*self.shares.values(), *self.share_secrets.values())
        masks.erase(self.private, self.seed, *secrets)
        for chain in self.chains.values():
            chain.erase()
        self.mask_pair = self.share_pair = None


class SumClient:
    """One client's part in the sums of a run."""

    def __init__(self, terms: SumTerms, name: str, *, last_round: int = -1) -> None:
        """Takes part under a name of the roster; no round is open yet.

        Args:
            terms: What the roster fixes.
            name: Of this client.
            last_round: The last round that this client began before it was started again; of it and
                those before it nothing more is sent.
        """
        self.terms, self.name = terms, name
        self._round: _Round | None = None
        self._last_round = last_round
        self._deadline = 0.0
        self._agreed: dict[str, masks.Chain] = {}
        self._steps = {
            ADVERTISE: self._agree,
            DELIVER: self._keep_shares,
            SURVIVORS: self._confirm,
            REVEAL: self._answer,
        }

    @property
    def awaited(self) -> str:
        """The phase whose frame is waited for, or CONTRIBUTION; OPEN between rounds."""
        return OPEN if self._round is None else self._round.awaited

    @property
    def place(self) -> Place | None:
        """The round that is open."""
        return None if self._round is None else self._round.place

    @property
    def members(self) -> tuple[str, ...]:
        """Clients of the round that is open."""
        return () if self._round is None else self._round.members

    def receive(self, frame: Frame, now: float) -> list[Frame]:
        """Returns what to send in answer to a frame that `frames.decode` has read.

        Args:
            frame: From the coordinator.
            now: Seconds of any clock that does not go back.

        Raises:
            FrameError: The frame does not fit; it changes nothing.
            PrivacyError: ROUND_NOT_AS_PLANNED, SURVIVORS_DIFFER, BAD_SHARE, NO_AGREEMENT: the round
                is over for this client, and its secrets are erased.
        """
        if frame.sender != self.terms.coordinator:
            raise unexpected(frame, self.awaited)
        if frame.phase == OPEN and frame.round > self._last_round:
            step = self._open
        else:
            self._require_awaited(frame)
            step = self._steps[frame.phase]
        try:
            answer = step(frame)
        except PrivacyError:
            self.close()
            raise
        self._deadline = now + _PHASES * self.terms.seconds
        return answer

    def contribute(self, values: masks.Integers) -> list[Frame]:
        """Returns this client's masked vector.

        Args:
            values: Integers with this client's share of the noise, shape [numbers], int64.

        Raises:
            PrivacyError: NOT_AWAITED, where no vector is due: none is ever sent twice.
            ValueError: Another shape or type.
        """
        held = self._round
        if held is None or held.awaited != CONTRIBUTION:
            raise PrivacyError(
                f"A vector is to be sent while {self.awaited} is waited for. Each round has one, "
                "and a second one, subtracted from the first, would show this client alone.",
                code="NOT_AWAITED",
            )
        if values.shape != (self.terms.numbers,) or values.dtype != np.int64:
            raise ValueError(
                f"Found values of {values.dtype} and shape {values.shape}; expected int64 and "
                f"[{self.terms.numbers}]."
            )
        words = masks.to_ring(values, self.terms.ring_bits)
        terms, place, transcript = self.terms, held.place, held.transcript
        for other in held.sharing:
            if other != self.name:
                chain = self._chains[other]
                terms.add_pair_mask(words, place, chain, (self.name, other), transcript)
        if terms.mode == ALL_OR_NOTHING:
            self._round = None
        else:
            key = terms.self_key(place, self.name, held.seed, transcript)
            masks.add_mask(words, key)
            masks.erase(key, held.seed)
            held.awaited = SURVIVORS
        return [self._frame(place, frames.VECTOR, words.tobytes())]

    def tick(self, now: float) -> None:
        """Closes a round whose next frame has not come in time."""
        if self._round is not None and now > self._deadline:
            self.close()

    def close(self) -> None:
        """Ends the round that is open and erases its secrets; nothing more is sent in it."""
        if self._round is not None:
            self._round.erase()
            self._round = None

    def leave(self) -> None:
        """Ends the run for this client: erases what was agreed on with others, too."""
        self.close()
        self._forget()

    def _forget(self) -> None:
        for chain in self._agreed.values():
            chain.erase()
        self._agreed = {}

    @property
    def _chains(self) -> dict[str, masks.Chain]:
        held = self._held()
        return self._agreed if self.terms.mode == ALL_OR_NOTHING else held.chains

    def _held(self) -> _Round:
        assert self._round is not None
        return self._round

    def _require_awaited(self, frame: Frame) -> None:
        """Raises unless a frame is the one that is waited for."""
        held = self._round
        here = held is not None and (frame.round, frame.attempt) == (
            held.place.round,
            held.place.attempt,
        )
        if held is not None and here and frame.phase == SURVIVORS and held.signed:
            if bytes(frame.payload) != held.signed:
                self.close()
                raise PrivacyError(
                    "The coordinator shows a second list of survivors in one round. Answering "
                    "for both would show one client's sum; nothing is answered. Keep the signed "
                    "frames: they prove it.",
                    code="SURVIVORS_DIFFER",
                )
            raise unexpected(frame, self.awaited)
        if not here or frame.phase != self.awaited or frame.phase not in self._steps:
            raise unexpected(frame, self.awaited)

    def _open(self, frame: Frame) -> list[Frame]:
        opening = Opening.decoded(frame.payload)
        self.close()
        self._last_round = frame.round
        place, members = Place(round=frame.round, attempt=frame.attempt), opening.members
        if (
            len(members) != self.terms.clients_per_round
            or self.name not in members
            or self.terms.coordinator in members
            or not all(name in self.terms.keys for name in members)
            or frame.round >= self.terms.rounds
        ):
            raise PrivacyError(
                f"The coordinator opens round {frame.round} with {len(members)} clients; the plan "
                f"has rounds below {self.terms.rounds} of {self.terms.clients_per_round} clients "
                "of the roster, this one among them. Nothing is sent.",
                code="ROUND_NOT_AS_PLANNED",
            )
        held = self._round = _Round(place=place, members=members)
        if opening.agreed:
            return self._go_on_as_agreed(held)
        if self.terms.mode == ALL_OR_NOTHING:
            held.mask_pair = masks.KeyPair()
            payload = held.mask_pair.public
        else:
            payload = self._draw(held)
        return [self._frame(place, frames.KEYS, payload, recipient=frames.EVERYBODY)]

    def _go_on_as_agreed(self, held: _Round) -> list[Frame]:
        missing = set(held.members) - {self.name} - self._agreed.keys()
        if self.terms.mode != ALL_OR_NOTHING or missing:
            raise PrivacyError(
                f"Round {held.place.round} is to go on with keys that this client has not agreed "
                "on, or has lost. The coordinator has to ask all of its clients for keys again.",
                code="NO_AGREEMENT",
            )
        held.sharing = held.members
        held.transcript = self.terms.transcript(held.place, *held.members)
        held.awaited = CONTRIBUTION
        return []

    def _draw(self, held: _Round) -> bytes:
        """Draws the secrets of a round with a threshold; returns what is public of them."""
        held.private, held.mask_pair = masks.sharable_key_pair()
        held.share_pair = masks.KeyPair()
        held.seed = masks.sharable_seed()
        commitment = self.terms.commitment(held.place, self.name, held.seed)
        return held.mask_pair.public + held.share_pair.public + commitment

    def _agree(self, frame: Frame) -> list[Frame]:
        """Reads everybody's keys, and with a threshold shares this client's secrets."""
        held, terms = self._held(), self.terms
        public = self._advertised(frame, held)
        present = tuple(public)
        said = terms.transcript(held.place, *(x for n in present for x in (n, public[n].hex())))
        assert held.mask_pair is not None
        chains = {
            name: terms.chain(
                held.place,
                held.mask_pair.shared(public[name][: masks.KEY_BYTES], name),
                *(self.name, name, said),
            )
            for name in present
            if name != self.name
        }
        if terms.mode == ALL_OR_NOTHING:
            self._forget()
            self._agreed, held.mask_pair = chains, None
            return self._go_on_as_agreed(held)
        assert held.share_pair is not None
        own, theirs = held.share_pair, slice(masks.KEY_BYTES, 2 * masks.KEY_BYTES)
        held.share_secrets = {name: own.shared(public[name][theirs], name) for name in chains}
        held.mask_pair = held.share_pair = None
        sealed = self._sealed(held, public, said)
        held.members, held.public, held.transcript = present, public, said
        held.chains, held.awaited = chains, DELIVER
        return [self._frame(held.place, frames.SHARES, sealed)]

    def _advertised(self, frame: Frame, held: _Round) -> dict[str, bytes]:
        """Returns each client's public part, each signed by itself for this round."""
        terms = self.terms
        signed = frames.unbundle(frame.payload, most=len(held.members))
        public = terms.signed_by_clients(signed, held.place, frames.KEYS)
        keys = [content[: masks.KEY_BYTES] for content in public.values()]
        own = self._own_public(held)
        if (
            not public.keys() <= set(held.members)
            or public.get(self.name) != own
            or len(public) < terms.threshold
            or len(set(keys)) < len(keys)
            or {len(content) for content in public.values()} != {len(own)}
        ):
            raise PrivacyError(
                f"The coordinator hands on keys of {len(public)} clients, of which one is no "
                "member, or two are the same, or this client's own is missing; expected at least "
                f"{terms.threshold} keys of members. Nothing is sent.",
                code="ROUND_NOT_AS_PLANNED",
            )
        return public

    def _own_public(self, held: _Round) -> bytes:
        assert held.mask_pair is not None
        if held.share_pair is None:
            return held.mask_pair.public
        commitment = self.terms.commitment(held.place, self.name, held.seed)
        return held.mask_pair.public + held.share_pair.public + commitment

    def _sealed(self, held: _Round, public: dict[str, bytes], said: str) -> bytes:
        """Returns each other client's shares of this one's secrets, encrypted to it."""
        split = [
            secret_sharing.split(
                int.from_bytes(secret, "little"),
                threshold=self.terms.threshold,
                holders=len(public),
            )
            for secret in (held.seed, held.private)
        ]
        masks.erase(held.private)
        sealed = []
        for place, name in enumerate(public):
            both = b"".join(shares[place].to_bytes(SHARE_BYTES, "little") for shares in split)
            if name == self.name:
                held.shares[name] = bytearray(both)
                continue
            info = self.terms.share_context(held.place, self.name, name, said)
            key = masks.derived(held.share_secrets[name], info)
            sealed.append(AESGCM(key).encrypt(_NONCE, both, info))
            masks.erase(key)
        return b"".join(sealed)

    def _keep_shares(self, frame: Frame) -> list[Frame]:
        """Keeps the shares that others encrypted to this client; then a vector is due."""
        held, terms = self._held(), self.terms
        sharing = named(frame.payload[:BITS_BYTES], held.members)
        require_length(frame, BITS_BYTES + (len(sharing) - 1) * SEALED_BYTES)
        if self.name not in sharing or len(sharing) < terms.threshold:
            raise PrivacyError(
                f"The coordinator goes on with {len(sharing)} clients; expected at least "
                f"{terms.threshold}, this one among them. Nothing is sent.",
                code="ROUND_NOT_AS_PLANNED",
            )
        others = [name for name in sharing if name != self.name]
        for number, name in enumerate(others):
            start = BITS_BYTES + number * SEALED_BYTES
            info = terms.share_context(held.place, name, self.name, held.transcript)
            key = masks.derived(held.share_secrets[name], info)
            try:
                sealed = frame.payload[start : start + SEALED_BYTES]
                held.shares[name] = bytearray(AESGCM(key).decrypt(_NONCE, sealed, info))
            except InvalidTag:
                raise PrivacyError(
                    f"The shares of {name} were not encrypted to this client for this round, or "
                    "changed on the way. Nothing is sent.",
                    code="BAD_SHARE",
                ) from None
            finally:
                masks.erase(key)
        masks.erase(*held.share_secrets.values())
        held.sharing = sharing
        held.transcript = terms.transcript(held.place, held.transcript, *sharing)
        held.awaited = CONTRIBUTION
        return []

    def _confirm(self, frame: Frame) -> list[Frame]:
        """Signs the list of survivors, the only one in this round."""
        held = self._held()
        require_length(frame, SURVIVORS_BYTES)
        survivors = named(frame.payload[32:], held.members)
        if (
            frame.payload[:32] != bytes.fromhex(held.transcript)
            or self.name not in survivors
            or not set(survivors) <= set(held.sharing)
            or len(survivors) < self.terms.threshold
        ):
            raise PrivacyError(
                f"The coordinator lists {len(survivors)} survivors, or tells others another "
                f"course of this round; expected at least {self.terms.threshold} clients that "
                "shared their secrets, this one among them. Nothing is answered.",
                code="SURVIVORS_DIFFER",
            )
        held.signed, held.awaited = bytes(frame.payload), REVEAL
        return [self._frame(held.place, frames.CONFIRM, held.signed, recipient=frames.EVERYBODY)]

    def _answer(self, frame: Frame) -> list[Frame]:
        """Reveals one share for each client, once enough have signed the same list."""
        held = self._held()
        survivors = set(named(held.signed[32:], held.members))
        signed = frames.unbundle(frame.payload, most=len(held.members))
        said = self.terms.signed_by_clients(signed, held.place, frames.CONFIRM)
        same = {name for name, content in said.items() if content == held.signed} & survivors
        if len(same) < self.terms.threshold or len(same) < len(said):
            raise PrivacyError(
                f"{len(same)} of {len(said)} survivors signed the list that this client signed; "
                f"expected all, and at least {self.terms.threshold}. Nothing is answered.",
                code="SURVIVORS_DIFFER",
            )
        payload = b"".join(
            bytes(
                held.shares[name][:SHARE_BYTES]
                if name in survivors
                else held.shares[name][SHARE_BYTES:]
            )
            for name in held.sharing
        )
        place = held.place
        self.close()
        return [self._frame(place, frames.ANSWER, payload)]

    def _frame(
        self, place: Place, phase: str, payload: bytes, *, recipient: str | None = None
    ) -> Frame:
        to = recipient or self.terms.coordinator
        return self.terms.frame(place, phase, self.name, to, payload)
