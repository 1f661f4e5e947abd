"""Everything that is read, in the hands of random damage, and what became of it.

Statements, models and tables are signed again by the trusted key, so that the readers behind the
signature are reached. What is accepted all the same is handed back, for an oracle to judge.
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from hushdoc_damage import damaged, edited, restated

from hushdoc.artifact import artifact
from hushdoc.artifact import folder as artifact_folder
from hushdoc.errors import HushdocError
from hushdoc.policy.policy import Policy
from hushdoc.signing import dsse, revocation
from hushdoc.signing.trust_store import TrustedKey, TrustStore

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SECONDS = 5.0
"""No single input may take more CPU time to refuse: other processes' time is not counted."""


@dataclass
class Target:
    """One thing that is read.

    Attributes:
        name: What it is called in the tally.
        sound: The honest input.
        read: Reads any input, and returns what was read of it or raises.
        is_json: Whether it is damaged with knowledge of JSON as well.
        restate: Whether it is never damaged, but made to promise something else.
    """

    name: str
    sound: bytes
    read: Callable[[bytes], object]
    is_json: bool = False
    restate: bool = False


@dataclass(kw_only=True)
class Tally:
    """What became of the damage.

    Attributes:
        tried: Different inputs, for each target.
        refused: How many of these were refused with an error of ours.
        codes: Codes of these errors.
        accepted: What was accepted although it differs from the sound input.
        wrong: What raised anything else, took too long, or was an internal error.
    """

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    accepted: list[tuple[str, bytes]] = field(default_factory=list)
    wrong: list[tuple[str, str, bytes]] = field(default_factory=list)


class Toy:
    """A sealed artifact in a folder of its own, every part of which can be replaced."""

    def __init__(self, build: ModuleType, folder: Path, name: str) -> None:
        """Seals an honest artifact of a model in ONNX, or of a table."""
        self.build, self.folder = build, folder / name
        self.key = build.known_key(1)
        self.policy = build.policy(self.key)
        build.write_files(self.folder, self.files())
        self.statement = build.raw_statement(
            self.certified(), artifact_folder.subjects_of(self.folder)
        )
        self.write_statement(json.dumps(self.statement).encode())

    def files(self) -> dict[str, bytes]:
        """Returns the honest files."""
        return self.build.files()  # type: ignore[no-any-return]

    def certified(self) -> Any:
        """Returns the honest certificate."""
        return self.build.certify()

    def write_statement(self, payload: bytes) -> None:
        """Signs any payload."""
        self.build.sign_into(self.folder, self.key, payload)

    def verify(self) -> artifact.VerificationReport:
        """Returns what verifying finds, or raises."""
        return artifact.verify(self.folder, self.policy, now=NOW)

    def read_envelope(self, content: bytes) -> object:
        """Reads any bytes as the envelope file; nothing is signed again."""
        (self.folder / self.build.ENVELOPE).write_bytes(content)
        return self.verify()

    def read_statement(self, content: bytes) -> object:
        """Reads any bytes as the statement, signed again."""
        self.write_statement(content)
        return self.verify()

    def read_file(self, name: str, content: bytes, *, signed: bool = True) -> object:
        """Reads any bytes as one of the files, signed again unless others are to be signed."""
        path = self.folder / name
        sound = path.read_bytes()
        path.write_bytes(content)
        statement = json.loads(json.dumps(self.statement))
        for subject in statement["subject"]:
            if signed and subject["name"] == name:
                subject["digest"]["sha256"] = hashlib.sha256(content).hexdigest()
                subject["annotations"]["size"] = len(content)
        try:
            self.write_statement(json.dumps(statement).encode())
            return self.verify()
        finally:
            path.write_bytes(sound)


TABLE = "table.safetensors"
ROWS, COLUMNS = 8, 4


class TableToy(Toy):
    """The same around a table of hashed features."""

    def files(self) -> dict[str, bytes]:
        """Returns the honest files."""
        weights = struct.pack("<32f", *range(1, 33))
        header = json.dumps(
            {
                "__metadata__": {"hushdoc.certificate_id": self.build.CERTIFICATE_ID},
                "table": {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [0, 128]},
            }
        ).encode()
        declared = {"tensor": "table", "rows": ROWS, "columns": COLUMNS, "reference": None}
        manifest = {
            **self.build.MANIFEST,
            "entry": TABLE,
            "preprocessing": {"hashTable": declared},
        }
        return self.build.files(  # type: ignore[no-any-return]
            onnx__model_DOT_onnx=None,
            table_DOT_safetensors=struct.pack("<Q", len(header)) + header + weights,
            hushdoc_DOT_json=json.dumps(manifest).encode(),
        )

    def certified(self) -> Any:
        """Returns the honest certificate."""
        identity = self.build.ModelIdentity(
            name="invoice-kie", version=3, task="kie", format="safetensors", entry=TABLE
        )
        return self.build.certify(model=identity)


def targets(build: ModuleType, folder: Path) -> tuple[Target, ...]:
    """Returns everything that is read, over toys in a folder."""
    model, table = Toy(build, folder, "model"), TableToy(build, folder, "table")
    sound = {**table.files(), **model.files()}
    store = TrustStore(keys=(TrustedKey.of(model.key, name="key"),))
    (folder / "trust.json").write_bytes(store.to_json())
    revoker = TrustStore(keys=(TrustedKey.of(model.key, roles=("revocation",)),))
    revoked = revocation.successor(
        None, certificates=["ab" * 16], valid_for=timedelta(days=9), now=NOW
    )

    def read_list(content: bytes) -> object:
        line = dsse.sign(content, model.key, payload_type=revocation.PAYLOAD_TYPE)
        return revocation.read_list(line.encode(), revoker, now=NOW)

    def read_policy(content: bytes) -> object:
        (folder / "policy.toml").write_bytes(content)
        return Policy.from_toml(folder / "policy.toml")

    def of_file(name: str, toy: Toy, *, signed: bool = True) -> Callable[[bytes], object]:
        return lambda content: toy.read_file(name, content, signed=signed)

    entry, statement = build.ENTRY, json.dumps(model.statement).encode()
    envelope = (model.folder / build.ENVELOPE).read_bytes()
    manifest, onnx, weights = sound["hushdoc.json"], sound[entry], sound[TABLE]
    return (
        Target("envelope", envelope, model.read_envelope, is_json=True),
        Target("statement", statement, model.read_statement, is_json=True),
        Target("promise", statement, model.read_statement, restate=True),
        Target("manifest", manifest, of_file("hushdoc.json", model), is_json=True),
        Target("onnx", onnx, of_file(entry, model)),
        Target("safetensors", weights, of_file(TABLE, table)),
        Target("unsigned-onnx", onnx, of_file(entry, model, signed=False)),
        Target("unsigned-safetensors", weights, of_file(TABLE, table, signed=False)),
        Target("trust-store", store.to_json(), TrustStore.from_json, is_json=True),
        Target("revocation-list", revoked.to_json(), read_list, is_json=True),
        Target(
            name="policy",
            sound=b'trust = "trust.json"\nmax_epsilon = 8\nmax_delta = 1e-5\n'
            b'privacy_units = ["document"]\nthreshold = 1\nkinds = ["dp"]\n',
            read=read_policy,
        ),
    )


SHARES = {"statement": 6, "promise": 2, "onnx": 4, "safetensors": 4, "envelope": 3, "manifest": 2}
"""How often a target is tried, 1 where nothing else is said."""


def run(found: tuple[Target, ...], *, seed: int, number: int) -> Tally:
    """Returns what became of so many damaged inputs, each different from the sound one."""
    rng = random.Random(seed)
    tally = Tally()
    drawn = [item for item in found for _ in range(SHARES.get(item.name, 1))]
    while tally.tried.total() < number:
        target = rng.choice(drawn)
        if target.restate:
            content = restated(target.sound, rng)
        elif target.is_json and rng.random() < 0.6:
            content = edited(target.sound, rng)
        else:
            content = damaged(target.sound, rng, rng.choice(found).sound)
        if content != target.sound:
            _try(target, content, tally)
    return tally


def _try(target: Target, content: bytes, tally: Tally) -> None:
    tally.tried[target.name] += 1
    try:
        with _limited():
            target.read(content)
    except HushdocError as error:
        tally.refused[target.name] += 1
        tally.codes[error.code] += 1
        if error.code == "INTERNAL_ERROR":
            tally.wrong.append((target.name, str(error), content))
    except Exception as error:
        tally.wrong.append((target.name, f"{type(error).__name__}: {error}", content))
    else:
        tally.accepted.append((target.name, content))


@contextmanager
def _limited() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
