"""Signatures in hostile hands: strangers, one key that counts twice, twins, and weak keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hushdoc_corruption import (
    ENVELOPE,
    Act,
    Refused,
    Scene,
    acceptances,
    b64,
    case,
    cases,
    edit_envelope,
    on_signature,
    plus_order,
    refusals,
)

from hushdoc.signing import dsse, keys, revocation
from hushdoc.signing.keys import ECDSA_P256, sign_message
from hushdoc.signing.trust_store import TrustedKey


def _text(field: str, change: Callable[[str], str]) -> Act:
    """Changes how the base64 of a field is spelled."""

    def edit(data: dict[str, Any]) -> None:
        place = data if field == "payload" else data["signatures"][0]
        place[field] = change(place[field])

    return edit_envelope(edit)


def _with_tail_bits(text: str) -> str:
    """Sets a bit that the padding leaves over: another spelling of the same bytes."""
    assert text.endswith("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = text.rstrip("=")
    return body[:-1] + alphabet[alphabet.index(body[-1]) | 1] + text[len(body) :]


def _padded_payload(scene: Scene) -> None:
    """Gives the payload a length whose base64 needs padding, so that there are bits left over."""
    payload = scene.payload()
    while len(payload) % 3 == 0:
        payload += b" "
    scene.sign(payload)


def _twice(scene: Scene, *, named: bool) -> None:
    """The same key signs twice; Ed25519 makes the same signature, P-256 another one."""
    data = scene.envelope()
    second = dict(data["signatures"][0])
    if not named:
        second["keyid"] = ""
    data["signatures"].append(second)
    scene.write_envelope(data)
    scene.trust(TrustedKey.of(scene.key), TrustedKey.of(scene.other_key), threshold=2)


def _payload_edited(data: dict[str, Any]) -> None:
    payload = base64.b64decode(data["payload"])
    data["payload"] = b64(payload.replace(b'"issuer":"the tests"', b'"issuer":"the TESTS"'))


def _wrong_keyid(data: dict[str, Any]) -> None:
    data["signatures"][0]["keyid"] = "0" * 64


def _stranger_under_a_known_name(scene: Scene) -> None:
    scene.sign(scene.payload(), scene.other_key)
    data = scene.envelope()
    data["signatures"][0]["keyid"] = TrustedKey.of(scene.key).keyid
    scene.write_envelope(data)


def _signed_as(make: Callable[[Scene], bytes]) -> Act:
    """Puts another signature in the place of the sound one."""

    def act(scene: Scene) -> None:
        data = scene.envelope()
        data["signatures"][0]["sig"] = b64(make(scene))
        scene.write_envelope(data)

    return act


NEUTRAL = (1).to_bytes(32, "little") + bytes(32)
"""R the neutral element and S zero: holds for any message where the key is neutral as well."""


def _of_another_envelope(scene: Scene) -> None:
    signature = scene.envelope()["signatures"]
    scene.seal(scene.build.certify(issuer="somebody else"))
    data = scene.envelope()
    scene.write_envelope({**data, "signatures": signature})


def _of_another_type(scene: Scene) -> None:
    """A sound signature of the trusted key over these very bytes, but as a revocation list."""
    line = dsse.sign(scene.payload(), scene.key, payload_type=revocation.PAYLOAD_TYPE)
    scene.write_envelope({**json.loads(line), "payloadType": dsse.PAYLOAD_TYPE})


def _under_another_type(scene: Scene) -> None:
    line = dsse.sign(scene.payload(), scene.key, payload_type=revocation.PAYLOAD_TYPE)
    (scene / ENVELOPE).write_text(line)


def _many(scene: Scene, number: int) -> None:
    data = scene.envelope()
    junk = {"keyid": "", "sig": b64(b"x" * 64)}
    scene.write_envelope({**data, "signatures": [junk] * number + data["signatures"]})


def _roles(*roles: str) -> Act:
    return lambda scene: scene.trust(TrustedKey.of(scene.key, roles=roles))


def _models(scene: Scene, *models: str) -> None:
    scene.trust(TrustedKey.of(scene.key, models=models))


def _one_of_two_for_the_model(scene: Scene) -> None:
    """Two trusted keys signed, but only one of them may speak for this model."""
    scene.sign(scene.payload(), scene.key, scene.other_key)
    scene.trust(
        TrustedKey.of(scene.key),
        TrustedKey.of(scene.other_key, models=("receipt-kie",)),
        threshold=2,
    )


def _algorithm_in_the_envelope(scene: Scene) -> None:
    """The envelope names an algorithm of its own; only the trust store's counts."""
    scene.sign(scene.payload(), scene.other_key)
    data = scene.envelope()
    data["signatures"][0] |= {"alg": "none", "keyid": TrustedKey.of(scene.key).keyid}
    scene.write_envelope(data)


def _key_in_the_envelope(scene: Scene) -> None:
    """The envelope brings its own key along."""
    scene.sign(scene.payload(), scene.other_key)
    data = scene.envelope()
    data["publicKey"] = b64(keys.public_key_of(scene.other_key))
    data["signatures"][0]["cert"] = data["publicKey"]
    scene.write_envelope(data)


REFUSED: Refused = {
    "NO_TRUSTED_SIGNATURE": {
        "of-a-stranger": lambda s: s.sign(s.payload(), s.other_key),
        "none": edit_envelope(lambda d: d.update(signatures=[])),
        "one-where-two-are-demanded": lambda s: s.trust(
            TrustedKey.of(s.key), TrustedKey.of(s.other_key), threshold=2
        ),
        # securesystemslib accepts no second signature under one key id either; a blank id, which
        # DSSE allows, is another name for the same key, so keys are counted and not names.
        "one-key-twice-for-threshold-2": lambda s: _twice(s, named=True),
        "one-key-twice-without-its-name": lambda s: _twice(s, named=False),
        "of-the-other-algorithm": lambda s: s.sign(s.payload(), keys.generate_key(ECDSA_P256)),
        "payload-edited": edit_envelope(_payload_edited),
        "payload-with-one-space-more": _text(
            "payload", lambda text: b64(base64.b64decode(text) + b" ")
        ),
        "payload-empty": edit_envelope(lambda d: d.update(payload="")),
        "made-for-another-type": _of_another_type,
        "made-for-another-envelope": _of_another_envelope,
        "over-the-bare-payload": _signed_as(lambda s: sign_message(s.payload(), s.key)),
        "over-the-base64": _signed_as(
            lambda s: sign_message(s.envelope()["payload"].encode(), s.key)
        ),
        "under-a-wrong-key-id": edit_envelope(_wrong_keyid),
        "of-a-stranger-under-a-known-key-id": _stranger_under_a_known_name,
        "brings-its-own-algorithm": _algorithm_in_the_envelope,
        "brings-its-own-key": _key_in_the_envelope,
        "empty": on_signature(lambda sig: b""),
        "cut": on_signature(lambda sig: sig[:-1]),
        "extended": on_signature(lambda sig: sig + b"\0"),
        "one-bit": on_signature(lambda sig: bytes([sig[0] ^ 1]) + sig[1:]),
        "neutral-element": _signed_as(lambda s: NEUTRAL),
        # securesystemslib's vendored Ed25519 accepts S + L, so that one signature would be many.
        "s-plus-the-order": on_signature(plus_order),
    },
    "NO_TRUSTED_KEYS": {
        "nobody-is-trusted": lambda s: s.trust(),
        "of-an-auditor": _roles("audit"),
        "of-a-revoker": _roles("revocation", "audit"),
    },
    "KEY_NOT_AUTHORISED_FOR_MODEL": {
        "for-other-models": lambda s: _models(s, "a", "b"),
        "for-no-model": _models,
        "for-a-model-of-other-case": lambda s: _models(s, "Invoice-KIE"),
        "for-models-that-begin-so": lambda s: _models(s, "invoice-*", "invoice-"),
        "one-of-two-keys-for-this-model": _one_of_two_for_the_model,
    },
    "BAD_ENVELOPE": {
        "payload-is-null": edit_envelope(lambda d: d.update(payload=None)),
        "payload-is-absent": edit_envelope(lambda d: d.pop("payload")),
        "payload-is-an-object": edit_envelope(
            lambda d: d.update(payload=json.loads(base64.b64decode(d["payload"])))
        ),
        "type-edited": edit_envelope(lambda d: d.update(payloadType="application/json")),
        "type-of-other-case": edit_envelope(
            lambda d: d.update(payloadType="application/vnd.in-toto+JSON")
        ),
        "type-with-parameters": edit_envelope(
            lambda d: d.update(payloadType="application/vnd.in-toto+json; charset=utf-8")
        ),
        "type-is-absent": edit_envelope(lambda d: d.pop("payloadType")),
        "under-another-type": _under_another_type,
        "key-id-is-a-number": edit_envelope(lambda d: d["signatures"][0].update(keyid=1)),
        "is-a-text": edit_envelope(lambda d: d.update(signatures=["x"])),
        "list-is-an-object": edit_envelope(lambda d: d.update(signatures={})),
        "list-is-absent": edit_envelope(lambda d: d.pop("signatures")),
        "sig-is-null": edit_envelope(lambda d: d["signatures"][0].update(sig=None)),
        "one-thousand": lambda s: _many(s, 999),
        "seventeen": lambda s: _many(s, 16),
        "base64-without-padding": _text("sig", lambda t: t.rstrip("=")),
        "base64-with-bits-left-over-sig": _text("sig", _with_tail_bits),
        "base64-with-bits-left-over-payload": lambda s: (
            _padded_payload(s),
            _text("payload", _with_tail_bits)(s),
        ),
        "base64-for-web-addresses": lambda s: (
            s.write_envelope({**s.envelope(), "signatures": [{"sig": b64(b"\xff" * 64)}]}),
            _text("sig", lambda t: t.replace("/", "_"))(s),
        ),
    },
}

CASES = (
    *cases("signature/", REFUSED),
    # base64.b64decode skips letters that are not of its alphabet, among them line ends, and takes
    # bits behind the last byte for nothing; one value has one spelling here.
    *(
        case(f"signature/base64-{name}-{field}", _text(field, change), "BAD_ENVELOPE")
        for field in ("payload", "sig")
        for name, change in (
            ("with-line-ends", lambda text: "\n".join((text[:40], text[40:]))),
            ("with-a-space", lambda text: f" {text}"),
            ("with-a-foreign-character", lambda text: f"{text[:9]}!{text[9:]}"),
            ("with-more-padding", lambda text: text + "===="),
            ("in-fullwidth-characters", lambda text: chr(ord(text[0]) + 0xFEE0) + text[1:]),
        )
    ),
)


test_is_refused = refusals(CASES)


def _blank_key_id(data: dict[str, Any]) -> None:
    data["signatures"][0]["keyid"] = ""


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        "blank-key-id": edit_envelope(_blank_key_id),
        "no-key-id": edit_envelope(lambda data: data["signatures"][0].pop("keyid")),
        # DSSE: what it does not name is ignored.
        "unknown-field": edit_envelope(lambda data: data.update(note="x")),
        "sixteen": lambda scene: _many(scene, 15),
        "two-of-two": lambda scene: (
            scene.sign(scene.payload(), scene.key, scene.other_key),
            scene.trust(TrustedKey.of(scene.key), TrustedKey.of(scene.other_key), threshold=2),
        ),
        "two-roles": _roles("certificate", "audit"),
    }
)


@pytest.mark.parametrize("spelled", ["YR==", "Y Q==", "Y\nQ==", "YQ====", "!YQ=="])
def test_base64_reads_what_is_refused_here(spelled: str) -> None:
    assert base64.b64decode(spelled) == b"a"


def test_securesystemslib_accepts_the_signature_that_is_refused_here() -> None:
    from securesystemslib._vendor.ed25519 import ed25519

    key = keys.generate_key()
    public, made = keys.public_key_of(key), sign_message(b"message", key)
    ed25519.checkvalid(plus_order(made), b"message", public)
    assert not TrustedKey(name="", public_key=public).verifies(plus_order(made), b"message")
