"""Keys, envelopes and trust: what holds, and every way in which it does not."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc import signing, trust
from hushdoc.errors import (
    CertificateError,
    InputError,
    OutputExistsError,
    SignatureError,
)

PAYLOAD = b'{"_type": "toy"}'
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493


def envelope_of(line: str) -> dict[str, Any]:
    return json.loads(line)


def code_of(content: bytes | dict[str, Any], store: trust.TrustStore, **options: Any) -> str:
    line = json.dumps(content).encode() if isinstance(content, dict) else content
    with pytest.raises(CertificateError) as caught:
        signing.verify(line, store, **options)
    return caught.value.code


def test_the_official_vector_of_dsse() -> None:
    assert (
        signing.pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert signing.pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_what_is_signed_is_verified(build: ModuleType, key: Any) -> None:
    line = signing.sign(PAYLOAD, key)
    assert "\n" not in line
    found = signing.verify(line.encode(), build.trust(key))
    assert found.payload == PAYLOAD
    assert [item.keyid for item in found.keys] == [trust.key_id(signing.public_key_of(key))]


def test_a_key_id_is_a_hint_only(build: ModuleType, key: Any) -> None:
    envelope = envelope_of(signing.sign(PAYLOAD, key))
    del envelope["signatures"][0]["keyid"]
    assert signing.verify(json.dumps(envelope).encode(), build.trust(key)).keys
    envelope["signatures"][0]["keyid"] = "0" * 64
    assert code_of(envelope, build.trust(key)) == "NO_TRUSTED_SIGNATURE"


def test_fields_that_dsse_does_not_name_are_ignored(build: ModuleType, key: Any) -> None:
    envelope = {**envelope_of(signing.sign(PAYLOAD, key)), "algorithm": "none"}
    assert signing.verify(json.dumps(envelope).encode(), build.trust(key)).payload == PAYLOAD


def test_an_unknown_signer_is_refused(build: ModuleType, key: Any, other_key: Any) -> None:
    line = signing.sign(PAYLOAD, key).encode()
    assert code_of(line, build.trust(other_key)) == "NO_TRUSTED_SIGNATURE"


def test_an_empty_trust_store_trusts_nobody(build: ModuleType, key: Any) -> None:
    assert code_of(signing.sign(PAYLOAD, key).encode(), build.trust()) == "NO_TRUSTED_KEYS"


def test_one_key_counts_once(build: ModuleType, key: Any, other_key: Any) -> None:
    first = envelope_of(signing.sign(PAYLOAD, key))
    both = trust_store = build.trust(key, other_key)
    first["signatures"] *= 2
    assert code_of(first, trust_store, threshold=2) == "NO_TRUSTED_SIGNATURE"
    first["signatures"][1] = envelope_of(signing.sign(PAYLOAD, other_key))["signatures"][0]
    assert len(signing.verify(json.dumps(first).encode(), both, threshold=2).keys) == 2


def test_an_edited_payload_or_signature_is_refused(build: ModuleType, key: Any) -> None:
    store = build.trust(key)
    sound = envelope_of(signing.sign(PAYLOAD, key))
    edited = base64.b64encode(PAYLOAD.replace(b"toy", b"boy")).decode()
    assert code_of({**sound, "payload": edited}, store) == "NO_TRUSTED_SIGNATURE"
    raw = bytearray(base64.b64decode(sound["signatures"][0]["sig"]))
    for index in range(len(raw)):
        raw[index] ^= 1
        sound["signatures"][0]["sig"] = base64.b64encode(raw).decode()
        assert code_of(sound, store) == "NO_TRUSTED_SIGNATURE"
        raw[index] ^= 1


def test_a_second_spelling_of_a_signature_is_refused(build: ModuleType, key: Any) -> None:
    """S + L satisfies the equation as well; a careless library accepts it."""
    sound = envelope_of(signing.sign(PAYLOAD, key))
    raw = base64.b64decode(sound["signatures"][0]["sig"])
    scalar = int.from_bytes(raw[32:], "little") + GROUP_ORDER
    sound["signatures"][0]["sig"] = base64.b64encode(
        raw[:32] + scalar.to_bytes(32, "little")
    ).decode()
    assert code_of(sound, build.trust(key)) == "NO_TRUSTED_SIGNATURE"


@pytest.mark.parametrize(
    "edit",
    [
        {"payloadType": "application/json"},
        {"payloadType": "application/vnd.in-toto+json "},
        {"payloadType": None},
        {"payload": None},
        {"payload": "e30"},
        {"payload": "e30=\n"},
        {"payload": " e30="},
        {"payload": "e31="},
        {"payload": "-_-_"},
        {"payload": "é"},
        {"signatures": None},
        {"signatures": {}},
        {"signatures": [1]},
        {"signatures": [{"keyid": 1, "sig": "AA=="}]},
        {"signatures": [{"keyid": "a"}]},
        {"signatures": [{"keyid": "a", "sig": "AA"}]},
        {"signatures": [{"keyid": "a", "sig": "AA=="}] * 1000},
    ],
)
def test_a_malformed_envelope_is_refused(build: ModuleType, key: Any, edit: dict[str, Any]) -> None:
    sound = envelope_of(signing.sign(PAYLOAD, key))
    assert code_of({**sound, **edit}, build.trust(key)) == "BAD_ENVELOPE"


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{}", b'{"payload":1,"payload":2}'])
def test_what_is_no_envelope_is_refused(build: ModuleType, key: Any, content: bytes) -> None:
    assert code_of(content, build.trust(key)) == "BAD_ENVELOPE"


def test_an_envelope_without_signatures_proves_nothing(build: ModuleType, key: Any) -> None:
    sound = envelope_of(signing.sign(PAYLOAD, key))
    assert code_of({**sound, "signatures": []}, build.trust(key)) == "NO_TRUSTED_SIGNATURE"


def test_a_huge_envelope_is_not_parsed(build: ModuleType, key: Any) -> None:
    content = b" " * (signing.MAX_ENVELOPE_BYTES + 1)
    assert code_of(content, build.trust(key)) == "CERT_TOO_LARGE"


def test_a_key_speaks_for_its_models_only(build: ModuleType, key: Any) -> None:
    keys = build.trust(key, models=("receipts",)).keys
    signing.require_authorised(keys, "receipts")
    with pytest.raises(SignatureError) as caught:
        signing.require_authorised(keys, "invoices")
    assert caught.value.code == "KEY_NOT_AUTHORISED_FOR_MODEL"


def test_a_private_key_is_for_its_owner_and_never_replaced(tmp_path: Path, key: Any) -> None:
    path = tmp_path / "release.key"
    signing.write_private_key(key, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert signing.public_key_of(signing.load_private_key(path)) == signing.public_key_of(key)
    before = path.read_bytes()
    with pytest.raises(OutputExistsError):
        signing.write_private_key(signing.generate_key(), path)
    assert path.read_bytes() == before


def test_what_is_no_private_key_is_said_so(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    path = tmp_path / "other.key"
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for content in (b"", b"hello", other):
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            signing.load_private_key(path)
        assert caught.value.code == "BAD_KEY"
    with pytest.raises(InputError):
        signing.load_private_key(tmp_path / "none.key")
