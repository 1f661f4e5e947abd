"""Envelopes and statements held against other implementations, both ways."""

from __future__ import annotations

import base64
import json
from typing import Any

import hushdoc_builders as build
import pytest

from hushdoc.certificate import statement as certificate_statement
from hushdoc.errors import CertificateError
from hushdoc.serialization import strict_json
from hushdoc.signing import dsse as signing
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore

dsse = pytest.importorskip("securesystemslib.dsse")
signers = pytest.importorskip("securesystemslib.signer")
exceptions = pytest.importorskip("securesystemslib.exceptions")
attestation = pytest.importorskip("in_toto_attestation.v1.statement")

PAYLOAD = b'{"_type": "toy"}'
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493


def store_of(*private: Any) -> TrustStore:
    return TrustStore.of(TrustedKey.of(key, name=f"key {n}") for n, key in enumerate(private))


def their_key(private: Any, keyid: str | None = None) -> Any:
    ours = keys.key_id(keys.public_key_of(private))
    return signers.SSlibKey.from_crypto(private.public_key(), keyid=keyid or ours)


def their_envelope(*private: Any, payload_type: str = signing.PAYLOAD_TYPE) -> bytes:
    envelope = dsse.Envelope(PAYLOAD, payload_type, {})
    for key in private:
        envelope.sign(signers.CryptoSigner(key, their_key(key)))
    return json.dumps(envelope.to_dict()).encode()


def they_accept(line: bytes, *private: Any, threshold: int = 1) -> bool:
    envelope = dsse.Envelope.from_dict(json.loads(line))
    try:
        envelope.verify([their_key(key) for key in private], threshold)
    except exceptions.VerificationError:
        return False
    return True


def we_accept(line: bytes, *private: Any, threshold: int = 1) -> bool:
    try:
        signing.verify(line, store_of(*private), threshold=threshold)
    except CertificateError:
        return False
    return True


@pytest.fixture(params=keys.ALGORITHMS)
def private(request: pytest.FixtureRequest) -> Any:
    return keys.generate_key(request.param)


def test_securesystemslib_trusts_what_we_sign(private: Any) -> None:
    line = signing.sign(PAYLOAD, private).encode()
    assert they_accept(line, private)
    assert dsse.Envelope.from_dict(json.loads(line)).payload == PAYLOAD
    second = keys.generate_key()
    line = signing.add_signature(line, second).encode()
    assert they_accept(line, private, second, threshold=2)
    assert not they_accept(line, keys.generate_key())


def test_we_trust_what_securesystemslib_signs(private: Any) -> None:
    second = keys.generate_key(keys.ECDSA_P256)
    line = their_envelope(private, second)
    found = signing.verify(line, store_of(private, second), threshold=2)
    assert (found.payload, len(found.keys)) == (PAYLOAD, 2)
    assert not we_accept(line, keys.generate_key())
    assert not we_accept(their_envelope(private, payload_type="text/plain"), private)


def test_both_refuse_what_was_edited(private: Any) -> None:
    sound = json.loads(their_envelope(private))
    other = base64.b64encode(b"{}").decode()
    for edit in ({"payload": other}, {"payloadType": "text/plain"}, {"signatures": []}):
        line = json.dumps({**sound, **edit}).encode()
        assert not they_accept(line, private)
        assert not we_accept(line, private)


def test_both_encode_alike_before_signing() -> None:
    for payload_type, payload in (("", b""), ("é", b"\0\xff"), ("a b", b"1 2 3" * 999)):
        theirs = dsse.Envelope(payload, payload_type, {}).pae()
        assert signing.pae(payload_type, payload) == theirs


def test_a_key_id_of_their_own_making_is_another_key_to_us(private: Any) -> None:
    """DSSE lets a key id narrow the keys to try; ours is SHA-256 of the raw key, theirs is not."""
    signer = signers.CryptoSigner(private)
    envelope = dsse.Envelope(PAYLOAD, signing.PAYLOAD_TYPE, {})
    envelope.sign(signer)
    data = envelope.to_dict()
    assert not we_accept(json.dumps(data).encode(), private)
    del data["signatures"][0]["keyid"]
    assert we_accept(json.dumps(data).encode(), private)


def test_we_are_stricter_about_base64(private: Any) -> None:
    """DSSE has verifiers take both alphabets; we take the standard one, and that spelled one way.

    An envelope is read by us alone, and one payload in many spellings helps nobody but whoever
    wants a line that two readers see differently.
    """
    payload = b"\xfb\xff\xbe??>"
    line = json.loads(signing.sign(payload, private))
    assert set("+/") <= set(line["payload"])
    url_safe = {**line, "payload": line["payload"].replace("+", "-").replace("/", "_")}
    content = json.dumps(url_safe).encode()
    assert they_accept(content, private)
    assert not we_accept(content, private)


def test_we_are_stricter_about_duplicate_keys(private: Any) -> None:
    """Two readers could take another one of both payloads each; json.loads takes the last."""
    line = signing.sign(PAYLOAD, private)
    twice = ('{"payload":"e30=",' + line[1:]).encode()
    assert they_accept(twice, private)
    assert not we_accept(twice, private)


def test_nobody_trusts_s_plus_l() -> None:
    """The library refuses it through `cryptography`; its older pure Python did not."""
    key = keys.generate_key()
    line = json.loads(signing.sign(PAYLOAD, key))
    raw = base64.b64decode(line["signatures"][0]["sig"])
    scalar = int.from_bytes(raw[32:], "little") + GROUP_ORDER
    forged = base64.b64encode(raw[:32] + scalar.to_bytes(32, "little")).decode()
    line["signatures"][0]["sig"] = forged
    assert not they_accept(json.dumps(line).encode(), key)
    assert not we_accept(json.dumps(line).encode(), key)


def test_we_are_stricter_about_keys_of_small_order() -> None:
    """Under the neutral point one signature holds for everything; they trust it, we don't."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    neutral = (1).to_bytes(32, "little")
    public = Ed25519PublicKey.from_public_bytes(neutral)
    forged = base64.b64encode(neutral + bytes(32)).decode()
    line = {
        "payload": base64.b64encode(PAYLOAD).decode(),
        "payloadType": signing.PAYLOAD_TYPE,
        "signatures": [{"keyid": "thief", "sig": forged}],
    }
    envelope = dsse.Envelope.from_dict(json.loads(json.dumps(line)))
    assert envelope.verify([signers.SSlibKey.from_crypto(public, keyid="thief")], 1)
    with pytest.raises(CertificateError) as caught:
        TrustedKey(name="thief", public_key=neutral)
    assert caught.value.code == "WEAK_KEY"


def subjects() -> tuple[Any, ...]:
    return (
        build.Subject(name="labels.json", sha256="cd" * 32, size=3),
        build.Subject(name=build.ENTRY, sha256="ab" * 32, size=2**40),
    )


def whole(content: str) -> bytes:
    """Spells integers as such: protobuf has doubles only, and writes a size as 3.0.

    We refuse that spelling. Nothing is lost by it, because a signed payload is never spelled
    anew: who builds a statement with that library writes its JSON like this before signing.
    """

    def number(spelled: str) -> float | int:
        value = float(spelled)
        return int(value) if value.is_integer() else value

    with pytest.raises(CertificateError):
        certificate_statement.parse_statement(content.encode())
    return strict_json.dumps(json.loads(content, parse_float=number))


def test_in_toto_reads_our_statement_and_we_read_theirs() -> None:
    json_format = pytest.importorskip("google.protobuf.json_format")
    ours = certificate_statement.statement(build.certify(), subjects())
    message = json_format.Parse(ours, attestation.Statement([], "", {}).pb)
    statement = attestation.Statement.copy_from_pb(message)
    statement.validate()
    assert statement.pb.predicate_type == certificate_statement.PREDICATE_TYPE
    theirs = json_format.MessageToJson(statement.pb)
    assert json.loads(theirs) == json.loads(ours)
    assert certificate_statement.parse_statement(
        whole(theirs)
    ) == certificate_statement.parse_statement(ours)


def test_a_statement_that_in_toto_builds_is_read() -> None:
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor

    json_format = pytest.importorskip("google.protobuf.json_format")
    certified = build.certify()
    described = [
        ResourceDescriptor(
            name=subject.name,
            digest={"sha256": subject.sha256},
            annotations={"size": subject.size},
        ).pb
        for subject in subjects()
    ]
    predicate = strict_json.loads(strict_json.dumps(certified.to_dict()), what="toy")
    built = attestation.Statement(described, certificate_statement.PREDICATE_TYPE, predicate)
    built.validate()
    content = whole(json_format.MessageToJson(built.pb))
    found, files = certificate_statement.parse_statement(content)
    assert found.certificate_id == certified.certificate_id
    assert set(files) == set(subjects())


def test_we_are_stricter_about_subjects() -> None:
    """in-toto has subjects without a size, or with another digest; we hash and measure each."""
    json_format = pytest.importorskip("google.protobuf.json_format")
    data = json.loads(certificate_statement.statement(build.certify(), subjects()))
    del data["subject"][0]["annotations"]
    message = json_format.ParseDict(data, attestation.Statement([], "", {}).pb)
    attestation.Statement.copy_from_pb(message).validate()
    with pytest.raises(CertificateError) as caught:
        certificate_statement.parse_statement(strict_json.dumps(data))
    assert caught.value.code == "BAD_SUBJECT"
