"""The signed lines of an artifact: certificate first, audits after it, nothing else."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.artifact import attestation, folder
from hushdoc.certificate.audit_reports import MAX_AUDITS
from hushdoc.certificate.subjects import ENVELOPE_FILE
from hushdoc.errors import CertificateError, SignatureError
from hushdoc.policy.policy import Policy
from hushdoc.signing import dsse, revocation
from hushdoc.signing import keys as signing_keys
from hushdoc.signing.trust_store import TrustStore

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def policy_of(build: ModuleType, key: Any, auditor: Any, **change: Any) -> Policy:
    """Trusts one key for certificates and another one for audits."""
    keys = (*build.trust(key).keys, *build.trust(auditor, roles=("audit",)).keys)
    return build.policy(key, **{"trust": TrustStore(keys=keys), **change})  # type: ignore[no-any-return]


def read(path: Path, policy: Policy) -> attestation.Attestation:
    with folder.opened(path) as descriptor:
        return attestation.read(descriptor, policy, now=NOW)


def test_the_digest_is_that_of_the_signed_bytes(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    found = read(path, policy_of(build, key, other_key))
    assert found.digest == build.payload_digest(path)
    assert (found.audits, found.untrusted_audits) == ((), 0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("checkpoint.json", "hushdoc export FOLDER"),
        ("run.json", "hushdoc export FOLDER"),
        ("model.onnx", "ask its issuer"),
    ],
)
def test_what_training_wrote_is_told_from_an_artifact_without_a_certificate(
    build: ModuleType, key: Any, tmp_path: Path, name: str, hint: str
) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(CertificateError, match=hint) as told:
        read(tmp_path, build.policy(key))
    assert told.value.code == "MISSING_CERTIFICATE"


def test_an_audit_by_a_trusted_auditor_is_trusted(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    build.append_audit(path, other_key)
    found = read(path, policy_of(build, key, other_key))
    assert found.audits == (build.audit_report(),)
    assert found.untrusted_audits == 0


def test_an_audit_by_anybody_else_says_nothing(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    build.append_audit(path, signing_keys.generate_key())
    # The issuer's key may sign certificates, not audits of its own model.
    build.append_audit(path, key)
    found = read(path, policy_of(build, key, other_key))
    assert (found.audits, found.untrusted_audits) == ((), 2)


def test_an_artifact_has_no_more_audits_than_are_read(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    for _ in range(MAX_AUDITS):
        build.append_audit(path, other_key)
    assert len(read(path, policy_of(build, key, other_key)).audits) == MAX_AUDITS
    build.append_audit(path, other_key)
    with pytest.raises(CertificateError, match=f"up to {MAX_AUDITS} audits") as caught:
        read(path, policy_of(build, key, other_key))
    assert caught.value.code == "BAD_ENVELOPE"


def test_an_auditor_for_other_models_is_not_trusted(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    build.append_audit(path, other_key)
    auditors = build.trust(other_key, roles=("audit",), models=("receipts",)).keys
    trust = TrustStore(keys=(*build.trust(key).keys, *auditors))
    assert read(path, build.policy(key, trust=trust)).untrusted_audits == 1


def revoke(build: ModuleType, path: Path, key: Any, **revoked: Any) -> None:
    """Writes a revocation list that `key` signed."""
    found = revocation.successor(None, valid_for=timedelta(days=7), now=NOW, **revoked)
    path.write_text(revocation.sign_list(found, key) + "\n")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ELOOP, errno.ENOTDIR])
def test_a_list_is_not_there_where_the_system_says_so_alone(
    build: ModuleType, key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Path.exists answers no to such errors too, to all of them from Python 3.14."""
    path = build.seal(tmp_path / "a", key)
    policy = build.policy(key, revocations=tmp_path / "none" / "revocations.jsonl")
    assert read(path, policy).signers

    def fails(path: Path, *, max_bytes: int) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(revocation.atomic_files, "read_file", fails)
    with pytest.raises(CertificateError) as caught:
        read(path, policy)
    assert caught.value.code == "REVOCATION_UNAVAILABLE"


def test_a_list_that_was_seen_may_not_be_gone(build: ModuleType, key: Any, tmp_path: Path) -> None:
    path, listed = build.seal(tmp_path / "a", key), tmp_path / "revocations.jsonl"
    trust = build.trust(key, roles=("certificate", "revocation"))
    policy = build.policy(key, trust=trust, revocations=listed)
    assert read(path, policy).signers
    revoke(build, listed, key, certificates=["0" * 32])
    assert read(path, policy).signers
    listed.unlink()
    stored = replace(policy, trust=replace(trust, min_revocation_sequence=1))
    for seen in (policy, stored):
        with pytest.raises(CertificateError, match="number 1 has been seen") as caught:
            read(path, seen)
        assert caught.value.code == "REVOCATION_UNAVAILABLE"


@pytest.mark.parametrize(
    "step",
    [
        {"step": "train-on-synthetic-documents", "certificate": "ab" * 16},
        {"step": "calibrate-scores", "from": "certificate:" + "ab" * 16},
    ],
)
def test_what_was_made_from_what_is_revoked_is_revoked(
    build: ModuleType, key: Any, tmp_path: Path, step: dict[str, str]
) -> None:
    """It has the guarantee of what it was made from, which its issuer took back."""
    certified = build.certify(derivation=({**step, "dataDependent": False},))
    path, listed = build.seal(tmp_path / "a", key, certified), tmp_path / "revocations.jsonl"
    trust = build.trust(key, roles=("certificate", "revocation"))
    policy = build.policy(key, trust=trust, revocations=listed)
    revoke(build, listed, key, certificates=["cd" * 16])
    assert read(path, policy).signers
    revoke(build, listed, key, certificates=["ab" * 16])
    with pytest.raises(CertificateError, match=f"The certificate {'ab' * 16}, of what") as caught:
        read(path, policy)
    assert caught.value.code == "REVOKED"


def test_a_revoked_auditor_says_nothing(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    build.append_audit(path, other_key)
    listed = tmp_path / "revocations.jsonl"
    keys = (
        *build.trust(key, roles=("certificate", "revocation")).keys,
        *build.trust(other_key, roles=("audit",)).keys,
    )
    policy = build.policy(key, trust=TrustStore(keys=keys), revocations=listed)
    assert len(read(path, policy).audits) == 1
    revoke(build, listed, key, keys=[keys[1].keyid])
    assert read(path, policy).untrusted_audits == 1


def test_who_is_left_after_a_revocation_has_to_speak_for_the_model(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    """Else a key for other models would vouch alone for what a stolen key has signed."""
    path = build.seal(tmp_path / "a", key)
    envelope = path / ENVELOPE_FILE
    envelope.write_text(dsse.add_signature(envelope.read_bytes().rstrip(), other_key) + "\n")
    revoker, listed = build.known_key(3), tmp_path / "revocations.jsonl"

    def policy(*models: str) -> Policy:
        trusted = (
            *build.trust(key).keys,
            *build.trust(other_key, models=models).keys,
            *build.trust(revoker, roles=("revocation",)).keys,
        )
        return build.policy(key, trust=TrustStore(keys=trusted), revocations=listed)  # type: ignore[no-any-return]

    for models in (("receipts",), ("*",)):
        assert len(read(path, policy(*models)).signers) == 2
    revoke(build, listed, revoker, keys=[build.trust(key).keys[0].keyid])
    (left,) = read(path, policy("*")).signers
    assert left.keyid == build.trust(other_key).keys[0].keyid
    with pytest.raises(SignatureError) as caught:
        read(path, policy("receipts"))
    assert caught.value.code == "KEY_NOT_AUTHORISED_FOR_MODEL"
