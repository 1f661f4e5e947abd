"""The same bytes to two readers: what we accept, others read alike; where we refuse more, why.

Every difference that is allowed stands in a table with its reason. Inputs are sound ones with
random damage, so most are refused by both.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hushdoc_builders import known_key
from hushdoc_corruption import ED25519_ORDER, attempt, plus_order
from hushdoc_damage import damaged, damages, edited
from hushdoc_oracles import same

from hushdoc.certificate import statement
from hushdoc.errors import CertificateError
from hushdoc.serialization import strict_json
from hushdoc.signing import dsse
from hushdoc.signing.keys import ECDSA_P256, ED25519, sign_message
from hushdoc.signing.trust_store import TrustedKey, TrustStore

# JSON: ours against json.loads, which is more lenient.

LENIENT_JSON = re.compile(
    "twice in one object|NaN|Infinity|double can't represent|beyond 2\\*\\*53|lone surrogate"
    "|deeper than|byte order mark|not UTF-8"
)
"""Two readers could read these apart, so they are refused here: see `strict_json`."""


def test_strict_json_reads_what_json_loads_reads_or_refuses_with_a_reason() -> None:
    sound = [
        json.dumps({"a": [1, 2.5, {"b": None, "c": True}], "d": "e\u00e9\u2028", "f": -3}).encode(),
        json.dumps([0, -0.0, 1e-5, 1e300, "", "\ud83d\ude00", [[[]]]]).encode(),
        b'{"a":1e2,"b":[1E-7,0.5],"c":"\\u00e9\\n"}',
    ]
    tally: Counter[str] = Counter()
    for content in damages(sound, 4000, 1, is_json=True):
        try:
            theirs = (json.loads(content),)
        except (ValueError, RecursionError):
            theirs = ()  # type: ignore[assignment]
        ours, refused = attempt(lambda content=content: strict_json.loads(content, what="It"))
        if refused is None:
            assert theirs, content
            # Spelled again, so that 1 and true, and 0.0 and -0.0, are told apart.
            assert json.dumps(ours) == json.dumps(theirs[0])
            tally["both read"] += 1
            continue
        # json.loads guesses other encodings from where zeros stand.
        guessed = json.detect_encoding(content) != "utf-8"
        assert not theirs or guessed or LENIENT_JSON.search(str(refused)), content
        tally["stricter" if theirs else "both refuse"] += 1
    assert min(tally.values()) > 20
    assert len(tally) == 3


# Signatures: ours against cryptography, and against the Ed25519 that securesystemslib brings.


def _signatures(key: Any, message: bytes, rng: random.Random) -> Iterator[bytes]:
    made = sign_message(message, key)
    yield made
    yield made[:-1]
    yield made + b"\0"
    yield b""
    yield bytes(len(made))
    for _ in range(6):
        yield damaged(made, rng, sign_message(b"another", key))


def _cryptography_says(key: Any, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        if isinstance(key, ec.EllipticCurvePrivateKey):
            key.public_key().verify(signature, message, ec.ECDSA(hashes.SHA256()))
        else:
            key.public_key().verify(signature, message)
    except InvalidSignature:
        return False
    return True


@pytest.mark.parametrize("algorithm", [ED25519, ECDSA_P256])
def test_cryptography_says_the_same_of_every_signature(algorithm: str) -> None:
    rng = random.Random(2)
    verdicts: Counter[bool] = Counter()
    for number in range(60):
        key = known_key(number, algorithm)
        trusted = TrustedKey.of(key)
        message = rng.randbytes(rng.randrange(200))
        for signature in _signatures(key, message, rng):
            ours = trusted.verifies(signature, message)
            assert ours == _cryptography_says(key, signature, message)
            verdicts[ours] += 1
        assert not trusted.verifies(sign_message(message, key), message + b"x")
    assert min(verdicts.values()) >= 60


def _vendored_says(public: bytes, signature: bytes, message: bytes) -> bool:
    from securesystemslib._vendor.ed25519 import ed25519

    try:
        ed25519.checkvalid(signature, message, public)
    except Exception:  # it raises whatever decoding a point raises
        return False
    return True


def test_the_ed25519_of_securesystemslib_says_the_same_but_for_s_plus_l() -> None:
    rng = random.Random(3)
    stricter = 0
    for number in range(12):
        key = known_key(number)
        trusted, message = TrustedKey.of(key), rng.randbytes(40)
        made = sign_message(message, key)
        for signature in (*_signatures(key, message, rng), plus_order(made)):
            ours = trusted.verifies(signature, message)
            theirs = _vendored_says(trusted.public_key, signature, message)
            # RFC 8032 demands S below L; without that one signature has several spellings.
            too_large = int.from_bytes(signature[32:64], "little") >= ED25519_ORDER
            assert ours == (theirs and not too_large)
            stricter += theirs and not ours
    assert stricter == 12


# Envelopes: ours against securesystemslib.


def _sslib_key(key: Any) -> Any:
    from securesystemslib.signer import SSlibKey

    return SSlibKey.from_crypto(key.public_key(), keyid=TrustedKey.of(key).keyid)


def _sslib_reads(content: bytes, keys: list[Any], threshold: int) -> tuple[Any, ...] | None:
    """Returns payload and key ids, or None where securesystemslib refuses."""
    from securesystemslib.dsse import Envelope

    try:
        envelope = Envelope.from_dict(json.loads(content))
        found = envelope.verify(keys, threshold)
    except Exception:  # whatever malformed input runs into
        return None
    if envelope.payload_type != dsse.PAYLOAD_TYPE:
        return None  # left to its callers
    return envelope.payload, set(found)


WE_ARE_STRICTER = re.compile(
    "base64|twice in one object|not UTF-8|signature that is not an object|list of up to|"
    "NaN|Infinity|double can't represent|beyond 2|lone surrogate"
)
"""securesystemslib decodes base64 and JSON leniently, and takes any number of signatures."""


@pytest.mark.parametrize("count", [800, pytest.param(8000, marks=pytest.mark.slow)])
def test_securesystemslib_trusts_the_same_envelopes(count: int) -> None:
    rng = random.Random(4)
    keys = [known_key(*key) for key in ((1, ED25519), (2, ECDSA_P256), (3, ED25519))]
    strangers = [known_key(4)]
    trust = TrustStore.of(TrustedKey.of(key) for key in keys)
    theirs_keys = [_sslib_key(key) for key in keys]
    tally: Counter[str] = Counter()
    for _ in range(count):
        signers = rng.sample([*keys, *strangers], rng.randrange(1, 4))
        line = dsse.sign(rng.randbytes(60), signers[0]).encode()
        for key in signers[1:]:
            line = dsse.add_signature(line, key).encode()
        threshold = rng.randrange(1, 3)
        if rng.random() < 0.7:
            line = edited(line, rng) if rng.random() < 0.6 else damaged(line, rng, line)
        theirs = _sslib_reads(line, theirs_keys, threshold)
        found, refused = attempt(
            lambda line=line, most=threshold: dsse.verify(line, trust, threshold=most)
        )
        if refused is not None:
            assert theirs is None or WE_ARE_STRICTER.search(str(refused)), (line, refused)
            tally["both refuse" if theirs is None else "stricter"] += 1
            continue
        if theirs is None:
            # It reads no envelope in which a key id is missing or comes twice, and trusts no
            # key but the one that is named; DSSE calls the id a hint.
            named = [item.get("keyid", "") for item in json.loads(line)["signatures"]]
            assert "" in named or len(set(named)) < len(named)
            tally["laxer"] += 1
            continue
        payload, keyids = theirs
        assert found.payload == payload
        # It stops looking at the threshold.
        assert keyids <= {key.keyid for key in found.keys}
        tally["both trust"] += 1
    assert tally["both trust"] > count / 9
    assert tally["both refuse"] > count / 9
    assert tally["stricter"] + tally["laxer"] < count / 5


# Statements: ours against in-toto's own classes.


def test_in_toto_reads_every_statement_that_we_read(build: ModuleType, tmp_path: Path) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    build.write_files(tmp_path, build.files())
    subjects = build.artifact_folder.subjects_of(tmp_path)
    sound = json.dumps(build.raw_statement(build.certify(), subjects)).encode()
    read = 0
    for content in damages([sound], 1500, 5, is_json=True):
        try:
            certificate, files = statement.parse_statement(content)
        except CertificateError:
            continue
        read += 1
        proto = json_format.Parse(content, statement_pb2.Statement())
        Statement.copy_from_pb(proto).validate()
        assert [(item.name, dict(item.digest)) for item in proto.subject] == [
            (file.name, {"sha256": file.sha256}) for file in files
        ]
        assert proto.predicate_type == statement.PREDICATE_TYPE
        # In a protobuf struct every number is a double.
        assert same(certificate.to_dict(), json_format.MessageToDict(proto.predicate))
    assert read > 30
