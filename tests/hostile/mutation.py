"""Random damage to everything that is read, and what became of it.

Blind damage (bits, cuts, copies, numbers in text) and damage that knows JSON. Statements, models
and tables are signed again by the trusted key, so that the readers behind the signature are
reached. What is accepted all the same is handed back, for an oracle to judge.

As a program, `mutation.py FOLDER SEED NUMBER` writes its tally as JSON, so that the memory that
reading takes can be measured without that of the oracles.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import random
import re
import resource
import signal
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from hushdoc import artifact, revocation, signing
from hushdoc.accounting.mechanism import (
    ADJACENCIES,
    ADVERSARIES,
    KINDS,
    PRIVACY_UNITS,
    RNGS,
    SAMPLINGS,
    TUNINGS,
)
from hushdoc.errors import HushdocError
from hushdoc.policy import Policy
from hushdoc.trust import TrustedKey, TrustStore

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SECONDS = 5.0
"""No single input may take longer to refuse."""

Random = random.Random

NUMBERS = (
    "0", "-0", "-1", "1", "2", "9", "1e400", "-1e400", "1e-400", "NaN", "Infinity", "true", "null",
    "9007199254740991", "9007199254740993", "18446744073709551616", "0.1", "1e-5", "1E5",
    "01", "1.",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, 1e-300, 1e300, 2**53 - 1, "", "x", "document", "dp",
    "user", "none", "\u0000", "d\u043ecument", [], {}, [[]], [0.0, 0.0], {"type": "gaussian"},
)  # fmt: skip


def damaged(content: bytes, rng: Random, other: bytes = b"") -> bytes:
    """Returns bytes with one to four pieces of blind damage."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(_BLIND)(content, rng, other)
    return content


def _place(content: bytes, rng: Random) -> int:
    return rng.randrange(len(content) + 1)


def _slice(content: bytes, rng: Random) -> tuple[int, int]:
    start = _place(content, rng)
    return start, min(len(content), start + rng.choice((1, 2, 4, 8, 40, 400, 4000)))


def _flip(content: bytes, rng: Random, _: bytes) -> bytes:
    if not content:
        return b"\0"
    place = rng.randrange(len(content))
    changed = content[place] ^ (1 << rng.randrange(8))
    return content[:place] + bytes([changed]) + content[place + 1 :]


def _overwrite(content: bytes, rng: Random, _: bytes) -> bytes:
    start, stop = _slice(content, rng)
    filler = rng.choice((b"\0", b"\xff", b"\x80", b" ", b'"', b"{", b"9"))
    return content[:start] + filler * (stop - start) + content[stop:]


def _cut(content: bytes, rng: Random, _: bytes) -> bytes:
    return content[: _place(content, rng)]


def _delete(content: bytes, rng: Random, _: bytes) -> bytes:
    start, stop = _slice(content, rng)
    return content[:start] + content[stop:]


def _insert(content: bytes, rng: Random, _: bytes) -> bytes:
    place = _place(content, rng)
    more = rng.choice((rng.randbytes(rng.choice((1, 2, 8))), b" ", b"\n", b"\0", b",", b"[" * 50))
    return content[:place] + more + content[place:]


def _copy(content: bytes, rng: Random, _: bytes) -> bytes:
    start, stop = _slice(content, rng)
    place = _place(content, rng)
    return content[:place] + content[start:stop] + content[place:]


def _double(content: bytes, rng: Random, _: bytes) -> bytes:
    start, stop = _slice(content, rng)
    return content[:stop] + content[start:stop] * rng.choice((1, 2, 20)) + content[stop:]


def _splice(content: bytes, rng: Random, other: bytes) -> bytes:
    """The beginning of one sound input and the end of another."""
    return content[: _place(content, rng)] + other[_place(other, rng) :]


def _number(content: bytes, rng: Random, _: bytes) -> bytes:
    """Another number where one is spelled in text."""
    found = list(re.finditer(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", content))
    if not found:
        return _flip(content, rng, b"")
    match = rng.choice(found)
    return content[: match.start()] + rng.choice(NUMBERS).encode() + content[match.end() :]


def _binary_number(content: bytes, rng: Random, _: bytes) -> bytes:
    """Another number where one of four or eight bytes may be."""
    place = _place(content, rng)
    value = rng.choice((0, 1, 0x7F, 0xFF, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
    packed = struct.pack("<Q", value)[: rng.choice((1, 4, 8))]
    return content[:place] + packed + content[place + len(packed) :]


_BLIND: tuple[Callable[[bytes, Random, bytes], bytes], ...] = (
    _flip, _flip, _overwrite, _cut, _delete, _insert, _copy, _double, _splice, _number,
    _binary_number,
)  # fmt: skip


def edited(content: bytes, rng: Random) -> bytes:
    """Returns JSON with one to three edits that know its structure."""
    data = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _edit(data, rng)
    text = json.dumps(data, ensure_ascii=rng.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def _edit(data: Any, rng: Random) -> Any:
    places = [place for place in _places(data) if place]
    if not places:
        return rng.choice(VALUES)
    path = rng.choice(places)
    parent, last = _at(data, path[:-1]), path[-1]
    value = parent[last]
    match rng.randrange(8):
        case 0:
            parent[last] = rng.choice(VALUES)
        case 1:
            del parent[last]
        case 2:
            parent[last] = [value]
        case 3:
            parent[last] = json.loads(json.dumps(_at(data, rng.choice(places))))
        case 4 if isinstance(value, int | float) and not isinstance(value, bool):
            parent[last] = rng.choice(
                (value + 1, value - 1, value * 0.99, value * 1.01, value / 2, value * 2, -value)
            )
        case 4 | 5 if isinstance(value, str):
            parent[last] = _respelled(value, rng)
        case 6 if isinstance(parent, dict):
            parent[_respelled(str(last), rng)] = parent.pop(last)
        case 7 if isinstance(parent, list):
            parent.append(json.loads(json.dumps(value)))
        case _ if isinstance(parent, dict):
            parent[rng.choice(("x", "kind", "unit", "type", "critical"))] = rng.choice(VALUES)
        case _:
            parent.reverse()
    return data


def restated(content: bytes, rng: Random) -> bytes:
    """Returns a statement that promises something else, in words that every reader knows."""
    data = json.loads(content)
    predicate = data["predicate"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        promise = rng.choice(predicate["guarantees"])
        match rng.randrange(6):
            case 0:
                field, words = rng.choice(_WORDS)
                promise[field] = rng.choice(words)
            case 1:
                field = rng.choice(("epsilon", "delta"))
                if promise[field] is not None:
                    promise[field] *= rng.choice(_FACTORS)
            case 2:
                promise["profile"] = [
                    [epsilon * rng.choice(_FACTORS), delta * rng.choice(_FACTORS)]
                    for epsilon, delta in promise["profile"]
                ]
            case 3:
                _scale(predicate["transcripts"]["training"], rng)
            case 4:
                predicate["guarantees"].append(json.loads(json.dumps(promise)))
            case _:
                promise["coversAllPrivateAccesses"] = rng.random() < 0.5
                promise["auditLowerBound"] = rng.choice((None, 1.0, 7.3, 7.5, 9.0))
    return json.dumps(data).encode()


def _scale(event: dict[str, Any], rng: Random) -> None:
    """Changes one number somewhere in a transcript, or wraps what is there into another event."""
    places = [event]
    while "event" in places[-1]:
        places.append(places[-1]["event"])
    place = rng.choice(places)
    numbers = [name for name, value in place.items() if isinstance(value, int | float)]
    if numbers and rng.random() < 0.8:
        name = rng.choice(numbers)
        changed = place[name] * rng.choice(_FACTORS)
        place[name] = round(changed) if isinstance(place[name], int) else min(changed, 1e6)
        if name == "samplingRate":
            place[name] = min(place[name], 1.0)
        return
    inner = dict(place)
    place.clear()
    place.update(
        rng.choice(
            (
                {"type": "composed", "event": inner, "count": rng.choice((0, 1, 2))},
                {"type": "group", "event": inner, "size": rng.choice((1, 2, 3))},
                {"type": "parallel", "events": [inner, inner]},
                {"type": "sequence", "events": [inner, inner]},
                {"type": "cluster-sampled", "event": inner, "samplingRate": 0.5},
                {"type": "hash-fill", "rows": 8, "columns": 4},
            )
        )
    )


_FACTORS = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0001, 1.01, 1.07, 1.1, 2.0, 10.0)
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("adversary", ADVERSARIES),
    ("kind", KINDS),
    ("unit", PRIVACY_UNITS),
    ("adjacency", ADJACENCIES),
    ("samplingAsImplemented", SAMPLINGS),
    ("hyperparameterTuning", TUNINGS),
    ("rng", RNGS),
)


def _respelled(text: str, rng: Random) -> str:
    place = rng.randrange(len(text) + 1)
    return rng.choice(
        (
            text.upper(),
            text + " ",
            text + "\0",
            text[:place] + text[place + 1 :],
            text[:place] + "\u200b" + text[place:],
            text.replace("o", "\u043e").replace("e", "\u0435"),
            text[::-1],
            text * 2,
        )
    )


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield from _places(data[key], (*path, key))


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        data = data[step]
    return data


@dataclass(kw_only=True)
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
        self.key = signing.generate_key()
        self.policy = build.policy(self.key)
        build.write_files(self.folder, self.files())
        self.statement = build.raw_statement(self.certified(), artifact.subjects_of(self.folder))
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

    def read_file(self, name: str, content: bytes) -> object:
        """Reads any bytes as one of the files, signed again."""
        path = self.folder / name
        sound = path.read_bytes()
        path.write_bytes(content)
        statement = json.loads(json.dumps(self.statement))
        for subject in statement["subject"]:
            if subject["name"] == name:
                subject["digest"]["sha256"] = hashlib.sha256(content).hexdigest()
                subject["annotations"]["size"] = len(content)
        try:
            self.write_statement(json.dumps(statement).encode())
            return self.verify()
        finally:
            path.write_bytes(sound)

    def read_unsigned(self, name: str, content: bytes) -> object:
        """Reads any bytes as one of the files, of which others were signed."""
        path = self.folder / name
        sound = path.read_bytes()
        path.write_bytes(content)
        try:
            self.write_statement(json.dumps(self.statement).encode())
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
        manifest = {
            **self.build.MANIFEST,
            "entry": TABLE,
            "preprocessing": {"hashTable": {"tensor": "table", "rows": ROWS, "columns": COLUMNS}},
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
        line = signing.sign(content, model.key, payload_type=revocation.PAYLOAD_TYPE)
        return revocation.read_list(line.encode(), revoker, now=NOW)

    def read_policy(content: bytes) -> object:
        (folder / "policy.toml").write_bytes(content)
        return Policy.from_toml(folder / "policy.toml")

    def of_file(name: str, toy: Toy, *, signed: bool = True) -> Callable[[bytes], object]:
        read = toy.read_file if signed else toy.read_unsigned
        return lambda content: read(name, content)

    entry = build.ENTRY
    return (
        Target(
            name="envelope",
            sound=(model.folder / build.ENVELOPE).read_bytes(),
            read=model.read_envelope,
            is_json=True,
        ),
        Target(
            name="statement",
            sound=json.dumps(model.statement).encode(),
            read=model.read_statement,
            is_json=True,
        ),
        Target(
            name="promise",
            sound=json.dumps(model.statement).encode(),
            read=model.read_statement,
            restate=True,
        ),
        Target(
            name="manifest",
            sound=sound["hushdoc.json"],
            read=of_file("hushdoc.json", model),
            is_json=True,
        ),
        Target(name="onnx", sound=sound[entry], read=of_file(entry, model)),
        Target(name="safetensors", sound=sound[TABLE], read=of_file(TABLE, table)),
        Target(name="unsigned-onnx", sound=sound[entry], read=of_file(entry, model, signed=False)),
        Target(
            name="unsigned-safetensors",
            sound=sound[TABLE],
            read=of_file(TABLE, table, signed=False),
        ),
        Target(name="trust-store", sound=store.to_json(), read=TrustStore.from_json, is_json=True),
        Target(name="revocation-list", sound=revoked.to_json(), read=read_list, is_json=True),
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

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _builders() -> ModuleType:
    path = Path(__file__).parents[1] / "sdk" / "builders.py"
    spec = importlib.util.spec_from_file_location("hushdoc_builders", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hushdoc_builders"] = module
    spec.loader.exec_module(module)
    return module


def main(folder: str, seed: str, number: str) -> None:
    """Writes the tally of a run, and the most memory it took in bytes, as JSON."""
    found = targets(_builders(), Path(folder))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    tally = run(found, seed=int(seed), number=int(number))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told = {
        "tried": tally.tried,
        "refused": tally.refused,
        "codes": tally.codes,
        "accepted": [
            (name, base64.b64encode(content).decode()) for name, content in tally.accepted
        ],
        "wrong": [
            (name, why, base64.b64encode(content).decode()) for name, why, content in tally.wrong
        ],
        "memory": {"before": before, "after": after},
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
