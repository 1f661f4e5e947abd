"""Secure sums: what clients and coordinator of one run agree on, and how they derive and say it.

In the mode `all-or-nothing` clients agree on keys once, and then send one message a round, or there
is no sum. In the mode `threshold` a round survives `silent` clients: each client adds a mask of its
own besides those of the pairs, and shares the secrets of both among all clients of the round. Then
the survivors sign one list of survivors, and reveal for each client on it their share of its own
mask's seed, for each other client that of its key: never both (Bonawitz and others, 2017).

Why one list is enough. A list counts with m - t signatures of m clients, of whom c may sign any; an
honest client signs one a round. Two lists would need 2 (m - t) of at most m + c signatures, and m
is above 2 t + c. Answers to lists that few have signed would be too much even where no client's two
secrets come out: with a list for each client, keys of more than t clients would. What is signed
includes which keys and shares clients were given, so clients that were shown different ones sign
different lists; and each pair's masks depend on it, so theirs never cancel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushdoc.errors import FrameError
from hushdoc.serialization import strict_json
from hushdoc_training.federated import frames, masks
from hushdoc_training.federated.frames import Frame
from hushdoc_training.federated.secret_sharing import SHARE_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ALL_OR_NOTHING, THRESHOLD = MODES = ("all-or-nothing", "threshold")

MAX_CLIENTS = 64
"""Clients of one round."""

BITS_BYTES = MAX_CLIENTS // 8
SURVIVORS_BYTES = 32 + BITS_BYTES
SEALED_BYTES = 2 * SHARE_BYTES + 16
"""Two shares, and the tag of AES-GCM."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A round and the attempt at it. Every round number is tried once; a retry is a new round."""

    round: int
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Aborted:
    """Why there is no sum of a round.

    Attributes:
        code: TOO_FEW_CLIENTS; SECRET_NOT_REBUILT where shares give not what was advertised.
        reason: In words.
        clients: Who is missing. Nobody is for the sake of a wrong share: it may be anybody's.
    """

    code: str
    reason: str
    clients: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a roster fixes for all sums of a run, those in the clear too.

    Attributes:
        run: Its name.
        roster: The roster's digest.
        silent: Clients whose silence a round survives.
        numbers: Numbers of a sum.
        seconds: How long a phase is waited for.
    """

    run: str
    roster: str
    silent: int
    numbers: int
    seconds: float

    def frame(self, place: Place, phase: str, sender: str, recipient: str, payload: bytes) -> Frame:
        """Returns a frame that is to be sent."""
        return Frame(
            run=self.run,
            roster=self.roster,
            round=place.round,
            attempt=place.attempt,
            phase=phase,
            sender=sender,
            recipient=recipient,
            payload=payload,
        )


@dataclass(frozen=True, kw_only=True)
class SumTerms(Terms):
    """What a roster fixes for all secure sums of a run; `silent` is 0 in the mode `all-or-nothing`.

    Attributes:
        keys: Public keys of all parties by name.
        coordinator: Which of them adds up.
        mode: One of MODES.
        clients_per_round: Clients of a round, 2 to MAX_CLIENTS.
        colluding: Clients that may tell the coordinator all they know.
        rounds: Rounds there may be, failed ones included.
        ring_bits: Bits of a number, 32 or 64.

    Raises:
        ValueError: A sum of these terms can't be secure, or there is no such mode or ring.
    """

    keys: Mapping[str, Ed25519PublicKey]
    coordinator: str = "coordinator"
    mode: str
    clients_per_round: int
    colluding: int
    rounds: int
    ring_bits: int

    def __post_init__(self) -> None:
        """Refuses what can't be secure."""
        clients = self.clients_per_round
        if self.mode not in MODES or self.ring_bits not in masks.RINGS:
            raise ValueError(
                f"Found the mode {self.mode!r} and a ring of {self.ring_bits} bits; expected one "
                f"of {', '.join(MODES)}, and 32 or 64 bits."
            )
        require_size(clients)
        if clients >= len(self.keys):
            raise ValueError(
                f"A round has {clients} clients; expected at most the {len(self.keys) - 1} of the "
                "roster."
            )
        if self.mode == ALL_OR_NOTHING and self.silent:
            raise ValueError(f"A round of {ALL_OR_NOTHING} survives no silent client.")
        if min(self.silent, self.colluding) < 0 or clients <= 2 * self.silent + self.colluding:
            raise ValueError(
                f"{clients} clients a round are too few for {self.silent} silent and "
                f"{self.colluding} colluding ones; expected more than twice the silent ones and "
                "the colluding ones together."
            )

    @property
    def threshold(self) -> int:
        """Clients without whom there is no sum."""
        return self.clients_per_round - self.silent

    @property
    def vector_bytes(self) -> int:
        """Bytes of a masked vector."""
        return self.numbers * self.ring_bits // 8

    def signed_by_clients(
        self, signed: Sequence[bytes], place: Place, phase: str
    ) -> dict[str, bytes]:
        """Returns what clients said in a phase, by their names in order, each signed by itself.

        FrameError where a frame is another's, of another place or phase, or a client speaks twice.
        """
        said: dict[str, bytes] = {}
        for data in signed:
            frame = frames.decode(
                data, self.keys, run=self.run, roster=self.roster, recipient=frames.EVERYBODY
            )
            here = (frame.round, frame.attempt, frame.phase) == (place.round, place.attempt, phase)
            if not here or frame.sender in (self.coordinator, *said):
                raise unexpected(frame, f"{phase}, round {place.round}, once of each client")
            said[frame.sender] = bytes(frame.payload)
        return dict(sorted(said.items()))

    def context(self, place: Place, purpose: str, *parts: str | int) -> bytes:
        """Returns what a key of one round is for."""
        of = (self.run, self.roster, place.round, place.attempt)
        return masks.context(purpose, *of, *parts)

    def transcript(self, place: Place, *parts: str) -> str:
        """Returns the digest of what was said in a round so far, in hexadecimal."""
        return hashlib.sha256(self.context(place, "transcript", *parts)).hexdigest()

    def commitment(self, place: Place, name: str, seed: bytes | bytearray) -> bytes:
        """Returns the digest by which a rebuilt seed is recognised."""
        return hashlib.sha256(self.context(place, "seed", name) + seed).digest()

    def chain(
        self, place: Place, shared: bytearray, one: str, other: str, transcript: str
    ) -> masks.Chain:
        """Returns the chain of keys of two clients that agreed on a secret in this round."""
        info = self.context(place, "pair", *sorted((one, other)), transcript)
        return masks.Chain(shared, info, round=place.round)

    def add_pair_mask(
        self,
        words: masks.Words,
        place: Place,
        chain: masks.Chain,
        pair: tuple[str, str],
        transcript: str,
        *,
        remove: bool = False,
    ) -> None:
        """Adds to the first client's numbers what hides them and cancels with the second's.

        Args:
            words: The numbers, changed in place.
            place: The round.
            chain: Of the two clients.
            pair: Whose numbers these are, and with whom they cancel.
            transcript: What both clients know to be the same.
            remove: Takes away what was added.
        """
        first, second = sorted(pair)
        key = chain.key(place.round, self.context(place, "mask", first, second, transcript))
        masks.add_mask(words, key, subtract=(pair[0] == second) is not remove)
        masks.erase(key)

    def self_key(
        self, place: Place, name: str, seed: bytes | bytearray, transcript: str
    ) -> bytearray:
        """Returns the key of a client's own mask."""
        return masks.derived(seed, self.context(place, "self", name, transcript))

    def share_context(self, place: Place, sender: str, holder: str, transcript: str) -> bytes:
        """Returns what binds an encrypted pair of shares to its way."""
        return self.context(place, "share", sender, holder, transcript)


def require_size(clients: int) -> None:
    """Raises ValueError where no secure sum has so many clients in a round."""
    if not 2 <= clients <= MAX_CLIENTS:
        raise ValueError(
            f"A round has {clients} clients; expected 2 to {MAX_CLIENTS} for a secure sum. Choose "
            "how many take part in a round (--clients-per-round), or add up in the coordinator's "
            "sight (--mode individual-updates), which costs more noise."
        )


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What opens a round: who is in it, and whether they keep the keys they agreed on before."""

    members: tuple[str, ...]
    agreed: bool

    def encoded(self) -> bytes:
        """Returns the payload."""
        return strict_json.dumps({"agreed": self.agreed, "members": list(self.members)})

    @classmethod
    def decoded(cls, payload: bytes | memoryview) -> Opening:
        """Returns what a payload says; FrameError BAD_FRAME where it has another form."""
        data = strict_json.loads(
            bytes(payload), what="An opening", code="BAD_FRAME", error=FrameError
        )
        match data:
            case {"agreed": bool(agreed), "members": [*members]} if (
                len(data) == 2
                and len(members) <= MAX_CLIENTS
                and all(isinstance(name, str) for name in members)
                and members == sorted(set(members))
            ):
                return cls(members=tuple(members), agreed=agreed)
        raise frames.bad_frame("opens a round with something else than a sorted list of members")


def bits_of(names: Sequence[str], members: Sequence[str]) -> bytes:
    """Returns which members these are, in BITS_BYTES."""
    return sum(1 << members.index(name) for name in names).to_bytes(BITS_BYTES, "little")


def named(bits: bytes | memoryview, members: Sequence[str]) -> tuple[str, ...]:
    """Returns whom `bits_of` named; FrameError BAD_FRAME where there are not so many members."""
    number = int.from_bytes(bits, "little")
    if number >> len(members):
        raise frames.bad_frame(f"names more than {len(members)} members")
    return tuple(name for place, name in enumerate(members) if number >> place & 1)


def require_length(frame: Frame, expected: int) -> None:
    """Raises FrameError BAD_FRAME unless a payload has exactly this length."""
    if len(frame.payload) != expected:
        raise frames.bad_frame(
            f"of {frame.sender} ({frame.phase}) has {len(frame.payload)} bytes of payload, "
            f"expected {expected}"
        )


def unexpected(frame: Frame, awaited: str) -> FrameError:
    """Returns the error for a frame that is late, early or of nobody who is waited for."""
    return FrameError(
        f"A frame of {frame.sender} ({frame.phase}, round {frame.round}) is not what is waited "
        f"for ({awaited}); it is dropped.",
        code="FRAME_UNEXPECTED",
    )
