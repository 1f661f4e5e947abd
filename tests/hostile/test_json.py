"""JSON that two readers could read apart, in the signed statement and around it.

Every statement here is signed by the trusted key: only reading stands between it and a model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hushdoc_corruption import (
    ENVELOPE,
    MODEL,
    Act,
    Refused,
    Scene,
    acceptances,
    cases,
    forged,
    refusals,
    replaced,
)


def _text(old: str, new: str | bytes) -> Act:
    """Replaces a piece of the signed text, byte by byte, and signs it again."""
    spelled = new.encode() if isinstance(new, str) else new
    return lambda scene: scene.resign(replaced(old.encode(), spelled))


def _all(change: Callable[[bytes], bytes]) -> Act:
    return lambda scene: scene.resign(change)


def _around(change: Callable[[bytes], bytes]) -> Act:
    """Changes the envelope's own text; the payload and its signature stay."""

    def act(scene: Scene) -> None:
        path = scene / ENVELOPE
        path.write_bytes(change(path.read_bytes()))

    return act


def _number(spelled: str) -> Act:
    """Another spelling of delta, which every policy reads."""
    return _text('"delta":1e-05', f'"delta":{spelled}')


def _manifest(change: Callable[[bytes], bytes]) -> Act:
    def act(scene: Scene) -> None:
        content = scene.files()["hushdoc.json"]
        assert change(content) != content
        scene.seal(contents=scene.files(hushdoc_DOT_json=change(content)))

    return act


def _without(path: str) -> Act:
    def edit(statement: dict[str, Any]) -> None:
        place: Any = statement
        *folders, last = path.split(".")
        for name in folders:
            place = place[int(name)] if isinstance(place, list) else place[name]
        del place[last]

    return lambda scene: scene.forge(edit)


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def _padded(size: int) -> Act:
    """Blanks are nothing to JSON; the limit holds for them as well."""
    return _all(lambda payload: payload + b" " * (size - len(payload)))


UTILITY = '"utility":{"f1":0.7}'
ISSUER = '"issuer":"the tests"'

# json.loads accepts each of these: with a key twice it keeps the last, other readers the first;
# NaN and the infinities are no JSON, and 1e400, 1e-400 and 2**53 + 1 are other numbers to other
# readers; a surrogate alone is replaced, dropped or kept.
LENIENT: dict[str, Act] = {
    "key-twice-at-the-top": _text('{"_type"', '{"_type":"x","_type"'),
    "key-twice-last-wins": _text(
        '"coversAllPrivateAccesses":true',
        '"coversAllPrivateAccesses":false,"coversAllPrivateAccesses":true',
    ),
    "key-twice-first-wins": _text('"epsilon":', '"epsilon":0.1,"epsilon":'),
    "key-twice-by-escape": _text('"unit":"document"', '"\\u0075nit":"user","unit":"document"'),
    "key-twice-in-a-note": _text(UTILITY, '"utility":{"f1":0.7,"f1":0.9}'),
    "nan": _number("NaN"),
    "infinity": _text('"auditLowerBound":null', '"auditLowerBound":Infinity'),
    "minus-infinity": _text('"auditLowerBound":null', '"auditLowerBound":-Infinity'),
    "nan-in-a-note": _text(UTILITY, '"utility":{"f1":NaN}'),
    "too-large-for-a-double": _number("1e400"),
    "too-small-for-a-double": _number("1e-400"),
    "too-small-with-a-point": _number("0." + "0" * 400 + "1"),
    "integer-past-2-to-the-53": _text('"count":350', '"count":9007199254740993'),
    "integer-of-a-thousand-digits": _text('"count":350', f'"count":{"9" * 1000}'),
    "surrogate-alone": _text(ISSUER, '"issuer":"\\ud800"'),
    "surrogate-low-alone": _text(ISSUER, '"issuer":"\\udc00"'),
    "surrogates-in-wrong-order": _text(ISSUER, '"issuer":"\\udc00\\ud800"'),
    "surrogate-in-a-key": _text(UTILITY, '"utility":{"\\ud800":0.7}'),
    "depth-33": _text(UTILITY, f'"utility":{{"f1":{_nested(31)}}}'),
    # json.loads decodes bytes with `surrogatepass`.
    "utf-8-of-a-surrogate": _text(ISSUER, b'"issuer":"\xed\xa0\x80"'),
    # json.loads takes UTF-16 and UTF-32 by looking at the first bytes.
    "utf-16": _all(lambda payload: payload.decode().encode("utf-16")),
    "utf-16-without-a-mark": _all(lambda payload: payload.decode().encode("utf-16-le")),
    "utf-32": _all(lambda payload: payload.decode().encode("utf-32")),
    # ... and bytes with a mark; a text with one it refuses.
    "byte-order-mark": _all(lambda payload: b"\xef\xbb\xbf" + payload),
}

# No reader of JSON should take these, and json.loads does not.
MALFORMED: dict[str, Act] = {
    "nothing": _all(lambda payload: b""),
    "blanks": _all(lambda payload: b" \n"),
    "comma-too-many": _text("}}", "},}"),
    "character-after": _all(lambda payload: payload + b"x"),
    "second-value-after": _all(lambda payload: payload + b" {}"),
    "nul-after": _all(lambda payload: payload + b"\0"),
    "form-feed-between": _all(lambda payload: b"\x0c" + payload),
    "fixed-blank-between": _all(lambda payload: "\u00a0".encode() + payload),
    "comment": _text("{", "{/* */"),
    "single-quotes": _text('"_type"', "'_type'"),
    "name-without-quotes": _text('"_type"', "_type"),
    "line-end-in-a-text": _text(ISSUER, '"issuer":"a\nb"'),
    "nul-in-a-text": _text(ISSUER, '"issuer":"a\0b"'),
    "bad-escape": _text(ISSUER, '"issuer":"\\x41"'),
    "half-an-escape": _text(ISSUER, '"issuer":"\\u00"'),
    "zeros-in-front": _text('"count":350', '"count":0350'),
    "plus-in-front": _text('"count":350', '"count":+350'),
    "hexadecimal": _text('"count":350', '"count":0x15E'),
    "digits-with-lines": _text('"count":350', '"count":3_50'),
    "other-digits": _text('"count":350', '"count":\u0663\u0665\u0660'),
    "point-in-front": _number(".00001"),
    "point-at-the-end": _number("1."),
    "other-spelling-of-true": _text(":true", ":True"),
    "not-utf-8": _text(ISSUER, b'"issuer":"\xff"'),
    "utf-8-longer-than-needed": _text(ISSUER, b'"issuer":"\xc0\xaf"'),
    "utf-8-past-the-last-letter": _text(ISSUER, b'"issuer":"\xf4\x90\x80\x80"'),
    "utf-8-cut": _all(lambda payload: payload[:-1] + b"\xc3"),
    "depth-100000": _text(UTILITY, f'"utility":{{"f1":{_nested(100_000)}}}'),
    "depth-100000-never-closed": _all(lambda payload: b"[" * 100_000),
}

# Sound JSON, another meaning: what a field may hold is closed.

# The envelope is JSON as well, and is read before any signature is verified.
AROUND: dict[str, Act] = {
    "key-twice": _around(lambda c: c.replace(b'{"payload"', b'{"payload":"","payload"', 1)),
    "key-twice-by-escape": _around(lambda c: c.replace(b"{", b'{"\\u0070ayload":"",', 1)),
    "signatures-twice": _around(lambda c: c.replace(b"{", b'{"signatures":[],', 1)),
    "nan": _around(lambda c: c.replace(b"{", b'{"x":NaN,', 1)),
    "infinity": _around(lambda c: c.replace(b"{", b'{"x":-Infinity,', 1)),
    "number-too-large": _around(lambda c: c.replace(b"{", b'{"x":1e400,', 1)),
    "byte-order-mark": _around(lambda c: b"\xef\xbb\xbf" + c),
    "utf-16": _around(lambda c: c.decode().encode("utf-16-be")),
    "surrogate": _around(lambda c: c.replace(b"{", b'{"x":"\\ud800",', 1)),
    "not-utf-8": _around(lambda c: c.replace(b"{", b'{"x":"\xff",', 1)),
    "depth": _around(lambda c: c.replace(b"{", b'{"x":' + _nested(32).encode() + b",", 1)),
    "depth-100000": _around(
        lambda c: c.replace(b"{", b'{"x":' + _nested(100_000).encode() + b",", 1)
    ),
}

MANIFEST: dict[str, Act] = {
    "key-twice": _manifest(lambda c: c.replace(b"{", b'{"entry":"x",', 1)),
    "nan": _manifest(lambda c: c.replace(b"64", b"NaN", 1)),
    "byte-order-mark": _manifest(lambda c: b"\xef\xbb\xbf" + c),
    "key-unknown": _manifest(lambda c: c.replace(b"{", b'{"command":"x",', 1)),
    "version-true": _manifest(lambda c: c.replace(b'"formatVersion": 2', b'"formatVersion": true')),
    "version-unknown": _manifest(lambda c: c.replace(b'"formatVersion": 2', b'"formatVersion": 9')),
    "inputs-null": _manifest(lambda c: c.replace(b'"inputs": [', b'"inputs": null, "x": [')),
    "task-unknown": _manifest(lambda c: c.replace(b'"kie"', b'"anything"')),
    "task-of-another": _manifest(lambda c: c.replace(b'"kie"', b'"docvqa"')),
    "entry-of-another": _manifest(lambda c: c.replace(MODEL.encode(), b"labels.json")),
    "entry-outside": _manifest(lambda c: c.replace(MODEL.encode(), b"../../model.onnx")),
    "is-a-list": _manifest(lambda c: b"[" + c + b"]"),
    "is-empty": _manifest(lambda c: b""),
    "too-large": _manifest(lambda c: c + b" " * (256 * 1024)),
}

REFUSED: Refused = {
    "BAD_STATEMENT": {
        "payload-is-null": _all(lambda payload: b"null"),
        "payload-is-a-list": _all(lambda payload: b"[" + payload + b"]"),
        "payload-is-a-text": _all(lambda payload: json.dumps(payload.decode()).encode()),
        "key-unknown-at-the-top": _text('{"_type"', '{"x":1,"_type"'),
        "key-missing-at-the-top": _without("predicateType"),
    },
    "BAD_FIELD": {
        "key-unknown": _text('"critical":[]', '"critical":[],"trusted":true'),
        "key-of-other-case": _text('"unit":"document"', '"Unit":"document"'),
        "key-in-lookalike-characters": _text('"kind":"dp"', '"k\u0456nd":"dp"'),
        "key-missing": _without("predicate.guarantees.0.rng"),
        "predicate-is-null": forged("predicate", None),
        "boolean-as-a-number": _number("true"),
        "boolean-as-an-integer": _text('"count":350', '"count":true'),
        "boolean-as-a-version": _text('"schemaVersion":1', '"schemaVersion":true'),
        "number-as-a-boolean": forged("predicate.guarantees.0.coversAllPrivateAccesses", 1),
        "text-as-a-boolean": forged("predicate.guarantees.0.coversAllPrivateAccesses", "true"),
        "text-as-a-number": _number('"1e-05"'),
        "list-as-a-number": _number("[1e-05]"),
        "fraction-as-an-integer": _text('"count":350', '"count":350.0'),
        "object-as-a-list": forged("predicate.guarantees", {"0": {}}),
        "list-as-an-object": forged("predicate.transcripts", []),
        "text-empty": _text(ISSUER, '"issuer":""'),
        "text-of-4001-characters": _text(ISSUER, f'"issuer":"{"x" * 4001}"'),
        "list-of-1001-entries": forged("predicate.caveats", ["x"] * 1001),
        "map-of-1001-keys": forged("predicate.utility", {f"k{n}": 0 for n in range(1001)}),
        "pair-of-three": forged("predicate.guarantees.0.profile", [[8.0, 1e-5, 0.0]]),
    },
    "CERT_TOO_LARGE": {
        "one-byte-too-many": _padded(256 * 1024 + 1),
    },
}

CASES = (
    *cases("json/", REFUSED),
    *cases("json/", {"BAD_STATEMENT": LENIENT | MALFORMED}),
    *cases("json/envelope-", {"BAD_ENVELOPE": AROUND}),
    *cases("json/manifest-", {"BAD_MANIFEST": MANIFEST}),
)


test_is_refused = refusals(CASES)


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        "as-long-as-allowed": _padded(256 * 1024),
        "as-deep-as-allowed": _text(UTILITY, f'"utility":{{"f1":{_nested(29)}}}'),
        "pair-of-surrogates": _text(ISSUER, '"issuer":"\\ud83d\\ude00"'),
        "0.00001": _number("0.00001"),
        "1E-5": _number("1E-5"),
        "blank": _text('"count":350', '"count" :\t350'),
    }
)


@pytest.mark.parametrize("name", LENIENT)
def test_json_loads_reads_what_is_refused_here(name: str, make_scene: Callable[[], Scene]) -> None:
    scene = make_scene()
    LENIENT[name](scene)
    assert isinstance(json.loads(scene.payload()), dict)


@pytest.mark.parametrize("name", MALFORMED)
def test_json_loads_refuses_the_rest_as_well(name: str, make_scene: Callable[[], Scene]) -> None:
    scene = make_scene()
    MALFORMED[name](scene)
    with pytest.raises((ValueError, RecursionError)):
        json.loads(scene.payload())
