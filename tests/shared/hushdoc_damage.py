"""Random damage: blind, with knowledge of JSON, and lies in words that every reader knows."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hushdoc.accounting.mechanism import ADJACENCIES
from hushdoc.certificate.vocabulary import (
    ADVERSARIES,
    KINDS,
    PRIVACY_UNITS,
    RNGS,
    SAMPLINGS,
    TUNINGS,
)

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
        return _value(rng)
    path = rng.choice(places)
    parent, last = at(data, path[:-1]), path[-1]
    value = parent[last]
    match rng.randrange(8):
        case 0:
            parent[last] = _value(rng)
        case 1:
            del parent[last]
        case 2:
            parent[last] = [value]
        case 3:
            parent[last] = json.loads(json.dumps(at(data, rng.choice(places))))
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
            parent[rng.choice(("x", "kind", "unit", "type", "critical"))] = _value(rng)
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


def _value(rng: Random) -> Any:
    """Returns a value of its own, which later edits may change."""
    return json.loads(json.dumps(rng.choice(VALUES)))


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


def at(data: Any, path: Sequence[Any]) -> Any:
    """Returns what stands deep in plain data."""
    for step in path:
        data = data[step]
    return data


def damages(
    sound: list[bytes], number: int, seed: int, *, is_json: bool = False
) -> Iterator[bytes]:
    """Yields damaged inputs; the sound ones come first."""
    rng = random.Random(seed)
    yield from sound
    for _ in range(number - len(sound)):
        content = rng.choice(sound)
        if is_json and rng.random() < 0.6:
            yield edited(content, rng)
        else:
            yield damaged(content, rng, rng.choice(sound))
