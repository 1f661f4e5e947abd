"""Runs secure sums between real clients and a coordinator, with faults put in on the way."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hushdoc.errors import FrameError, PrivacyError
from hushdoc_training.federated import frames
from hushdoc_training.federated.frames import EVERYBODY, Frame
from hushdoc_training.federated.masks import Integers
from hushdoc_training.federated.secure_sum import SumTerms
from hushdoc_training.federated.sum_client import CONTRIBUTION, SumClient
from hushdoc_training.federated.sum_coordinator import SumCoordinator

RUN, ROSTER = "0a" * 16, "0b" * 32

Change = Callable[[Frame], Sequence[Frame]]
"""What becomes of a frame on its way: itself, others, or nothing."""


def secret_of(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def names(count: int) -> list[str]:
    return [f"client-{number:02}" for number in range(count)]


def terms(clients: int, *, mode: str = "threshold", **changed: object) -> SumTerms:
    parties = ("coordinator", *names(clients))
    given: dict[str, object] = {
        "run": RUN,
        "roster": ROSTER,
        "keys": {name: secret_of(name).public_key() for name in parties},
        "mode": mode,
        "clients_per_round": clients,
        "silent": 0,
        "colluding": 0,
        "rounds": 100,
        "numbers": 5,
        "ring_bits": 32,
        "seconds": 10.0,
        **changed,
    }
    return SumTerms(**given)  # type: ignore[arg-type]


class Parties:
    """A coordinator and its clients, their signed frames, and what each of them refused."""

    def __init__(self, agreed: SumTerms) -> None:
        self.terms = agreed
        self.secrets = {name: secret_of(name) for name in agreed.keys}
        self.coordinator = SumCoordinator(agreed)
        self.clients = {
            name: SumClient(agreed, name) for name in agreed.keys if name != "coordinator"
        }
        self.refused: dict[str, str] = {}
        self.dropped: list[tuple[str, str]] = []
        self.sent: list[Frame] = []
        self.values: dict[str, Integers] = {}
        self.now = 0.0

    def round(
        self,
        number: int,
        values: Mapping[str, Integers],
        *,
        change: Change = lambda frame: [frame],
        attempt: int = 0,
    ) -> Integers | None:
        """Runs one round to its end; whoever sends nothing is waited for until time is over."""
        self.values, self.change = dict(values), change
        waiting = self.coordinator.open(number, attempt, list(values), self.now)
        while True:
            while waiting:
                waiting = [out for frame in waiting for out in self._deliver(frame)]
            if self.coordinator.awaited == frames.OPEN:
                return self.coordinator.total
            self.now += self.terms.seconds + 1
            waiting = self.coordinator.tick(self.now)

    def signed(self, frame: Frame) -> Frame:
        """Returns a frame as its recipient reads it."""
        reader = frame.recipient if frame.recipient != EVERYBODY else "coordinator"
        data = frames.encode(frame, self.secrets[frame.sender])
        return frames.decode(
            data, self.terms.keys, run=self.terms.run, roster=self.terms.roster, recipient=reader
        )

    def _deliver(self, frame: Frame) -> list[Frame]:
        return [out for changed in self.change(frame) for out in self.take(self.signed(changed))]

    def take(self, frame: Frame) -> list[Frame]:
        """Gives a frame to whom it is for, and notes what is refused."""
        self.sent.append(frame)
        name = frame.recipient if frame.recipient != EVERYBODY else "coordinator"
        try:
            if name == "coordinator":
                return self.coordinator.receive(frame, self.now)
            client = self.clients[name]
            answer = client.receive(frame, self.now)
            if client.awaited == CONTRIBUTION and name in self.values:
                answer += client.contribute(self.values[name])
            return answer
        except FrameError as error:
            self.dropped.append((name, error.code))
        except PrivacyError as error:
            self.refused[name] = error.code
        return []


def drawn(agreed: SumTerms, *, seed: int = 0, members: int | None = None) -> dict[str, Integers]:
    """Returns each client's integers, whose sums stay inside the ring."""
    generator = np.random.default_rng(seed)
    most = 2 ** (agreed.ring_bits - 8)
    return {
        name: generator.integers(-most, most, agreed.numbers)
        for name in names(members or agreed.clients_per_round)
    }


def total(values: Mapping[str, Integers], *, without: Sequence[str] = ()) -> Integers:
    return np.sum([v for name, v in values.items() if name not in without], axis=0)


def silent(*who: str, phase: str) -> Change:
    """Clients from whom nothing comes from a phase on."""
    since = frames.PHASES.index(phase)

    def change(frame: Frame) -> list[Frame]:
        late = frames.PHASES.index(frame.phase) >= since
        return [] if frame.sender in who and late else [frame]

    return change


def hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, no salt and one block."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def counter_mode(key: bytes, size: int) -> bytes:
    """AES-256 in counter mode by its definition, block by block."""
    blocks = b"".join(number.to_bytes(16) for number in range(-(-size // 16)))
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(blocks)[:size]
