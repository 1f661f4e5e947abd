"""Envelopes: what holds, and every way in which it does not."""

from __future__ import annotations

import base64
import json
from types import ModuleType
from typing import Any

import pytest

from hushdoc.errors import CertificateError, InputError
from hushdoc.signing import dsse, keys
from hushdoc.signing import trust_store as trust

PAYLOAD = b'{"_type": "toy"}'


def envelope_of(line: str) -> dict[str, Any]:
    return json.loads(line)


def code_of(content: bytes | dict[str, Any], store: trust.TrustStore, **options: Any) -> str:
    line = json.dumps(content).encode() if isinstance(content, dict) else content
    with pytest.raises(CertificateError) as caught:
        dsse.verify(line, store, **options)
    return caught.value.code


def test_the_official_vector_of_dsse() -> None:
    assert (
        dsse.pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert dsse.pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


DSSE_VECTOR = {
    "payload": "aGVsbG8gd29ybGQ=",
    "payloadType": "http://example.com/HelloWorld",
    "signatures": [
        {
            "sig": "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeC"
            "UjW2JIZA=="
        }
    ],
}
DSSE_POINT = (
    46950820868899156662930047687818585632848591499744589407958293238635476079160,
    5640078356564379163099075877009565129882514886557779369047442380624545832820,
)


def test_the_official_envelope_of_dsse() -> None:
    """Its P-256 signature is r and s side by side; we take DER, as key services give it."""
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    public = b"\4" + b"".join(number.to_bytes(32, "big") for number in DSSE_POINT)
    key = trust.TrustedKey(name="dsse", public_key=public, algorithm=keys.ECDSA_P256)
    store = trust.TrustStore.of([key])
    content = json.dumps(DSSE_VECTOR).encode()
    kind = DSSE_VECTOR["payloadType"]
    assert code_of(content, store, payload_type=kind) == "NO_TRUSTED_SIGNATURE"
    raw = base64.b64decode(DSSE_VECTOR["signatures"][0]["sig"])
    sig = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    content = json.dumps(
        {**DSSE_VECTOR, "signatures": [{"sig": base64.b64encode(sig).decode()}]}
    ).encode()
    found = dsse.verify(content, store, payload_type=kind)
    assert (found.payload, found.keys) == (b"hello world", (key,))


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_both_algorithms_sign(algorithm: str) -> None:
    private = keys.generate_key(algorithm)
    store = trust.TrustStore.of([trust.TrustedKey.of(private, name="x")])
    line = dsse.sign(PAYLOAD, private).encode()
    assert b"\n" not in line
    found = dsse.verify(line, store)
    assert (found.payload, found.keys) == (PAYLOAD, store.keys)
    assert algorithm.encode() not in line


def role_store(*roles_of_keys: tuple[Any, tuple[str, ...]]) -> trust.TrustStore:
    return trust.TrustStore.of(
        trust.TrustedKey.of(key, name=f"key {index}", roles=roles)
        for index, (key, roles) in enumerate(roles_of_keys)
    )


def test_only_keys_with_the_role_count(key: Any, other_key: Any) -> None:
    store = role_store((key, ("certificate",)), (other_key, ("audit", "revocation")))
    by_certifier, by_auditor = (dsse.sign(PAYLOAD, item).encode() for item in (key, other_key))
    assert dsse.verify(by_certifier, store).keys == store.keys[:1]
    assert dsse.verify(by_auditor, store, role="audit").keys == store.keys[1:]
    assert code_of(by_auditor, store) == "NO_TRUSTED_SIGNATURE"
    assert code_of(by_certifier, store, role="audit") == "NO_TRUSTED_SIGNATURE"
    assert code_of(by_certifier, store, role="revocation") == "NO_TRUSTED_SIGNATURE"
    both = dsse.add_signature(by_certifier, other_key).encode()
    assert dsse.verify(both, store).keys == store.keys[:1]
    assert code_of(both, store, threshold=2) == "NO_TRUSTED_SIGNATURE"


def test_signatures_are_added_for_a_threshold(key: Any, other_key: Any) -> None:
    third = keys.generate_key(keys.ECDSA_P256)
    store = role_store(*((item, ("certificate",)) for item in (key, other_key, third)))
    line = dsse.sign(PAYLOAD, key)
    assert code_of(line.encode(), store, threshold=3) == "NO_TRUSTED_SIGNATURE"
    for added in (other_key, third):
        line = dsse.add_signature(line.encode(), added)
        assert "\n" not in line
    found = dsse.verify(line.encode(), store, threshold=3)
    assert (found.payload, found.keys) == (PAYLOAD, store.keys)


def test_adding_keeps_what_it_does_not_know(key: Any, other_key: Any) -> None:
    envelope = envelope_of(dsse.sign(PAYLOAD, key))
    envelope["note"] = {"é": [1.5, None]}
    envelope["signatures"][0]["cert"] = "x"
    added = json.loads(dsse.add_signature(json.dumps(envelope).encode(), other_key))
    assert len(added["signatures"]) == 2
    assert {**added, "signatures": added["signatures"][:1]} == envelope


def refusal(line: bytes, private: Any) -> str:
    with pytest.raises((InputError, CertificateError)) as caught:
        dsse.add_signature(line, private)
    return caught.value.code


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_a_key_signs_once(algorithm: str) -> None:
    private = keys.generate_key(algorithm)
    envelope = envelope_of(dsse.sign(PAYLOAD, private))
    assert refusal(json.dumps(envelope).encode(), private) == "ALREADY_SIGNED"
    for keyid in ("", "0" * 64):  # found by its signature, where the hint is gone or wrong
        envelope["signatures"][0]["keyid"] = keyid
        assert refusal(json.dumps(envelope).encode(), private) == "ALREADY_SIGNED"


def test_more_signatures_than_readers_take_are_not_added(key: Any) -> None:
    line = dsse.sign(PAYLOAD, key)
    for _ in range(dsse.MAX_SIGNATURES - 1):
        line = dsse.add_signature(line.encode(), keys.generate_key())
    assert len(dsse.read_envelope(line.encode()).signatures) == dsse.MAX_SIGNATURES
    assert refusal(line.encode(), keys.generate_key()) == "LIMIT_EXCEEDED"


def test_nothing_is_added_to_what_is_no_envelope(key: Any, other_key: Any) -> None:
    assert refusal(b"{}", key) == "BAD_ENVELOPE"
    other_type = dsse.sign(PAYLOAD, key, payload_type="x").encode()
    assert refusal(other_type, other_key) == "BAD_ENVELOPE"


def test_what_no_reader_reads_is_not_signed(key: Any) -> None:
    with pytest.raises(CertificateError) as caught:
        dsse.sign(b"x" * dsse.MAX_ENVELOPE_BYTES, key)
    assert caught.value.code == "CERT_TOO_LARGE"


def test_no_signature_makes_an_envelope_too_long_to_read(key: Any, other_key: Any) -> None:
    head = len(dsse.sign(b"", key))
    line = dsse.sign(b"x" * ((dsse.MAX_ENVELOPE_BYTES - head - 20) // 4 * 3), key).encode()
    assert 0 <= dsse.MAX_ENVELOPE_BYTES - len(line) < 30
    assert refusal(line, other_key) == "CERT_TOO_LARGE"


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_a_signature_made_elsewhere_is_attached_once_it_holds(key: Any, algorithm: str) -> None:
    private = keys.generate_key(algorithm)
    signer = trust.TrustedKey.of(private, name="service")
    line = dsse.sign(PAYLOAD, key).encode()
    made = keys.sign_message(dsse.pae(dsse.PAYLOAD_TYPE, PAYLOAD), private)
    attached = dsse.attach(line, signer, made).encode()
    store = trust.TrustStore.of([signer, trust.TrustedKey.of(key, name="release")])
    assert len(dsse.verify(attached, store, threshold=2).keys) == 2
    for wrong in (b"", made + b"\0", made[::-1], keys.sign_message(PAYLOAD, private)):
        with pytest.raises(InputError) as caught:
            dsse.attach(line, signer, wrong)
        assert caught.value.code == "BAD_SIGNATURE"


def test_a_threshold_is_at_least_one(build: ModuleType, key: Any) -> None:
    with pytest.raises(ValueError, match="threshold"):
        dsse.verify(dsse.sign(PAYLOAD, key).encode(), build.trust(key), threshold=0)
