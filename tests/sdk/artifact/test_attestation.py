"""The signed lines of an artifact: certificate first, audits after it, nothing else."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.artifact import artifact, attestation, folder
from hushdoc.errors import HushdocError
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


def code_of(path: Path, policy: Policy) -> str:
    with pytest.raises(HushdocError) as caught:
        read(path, policy)
    return caught.value.code


def test_the_digest_is_that_of_the_signed_bytes(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    found = read(path, policy_of(build, key, other_key))
    assert found.digest == build.payload_digest(path)
    assert (found.audits, found.untrusted_audits) == ((), 0)


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


def test_an_auditor_for_other_models_is_not_trusted(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    build.append_audit(path, other_key)
    auditors = build.trust(other_key, roles=("audit",), models=("receipts",)).keys
    trust = TrustStore(keys=(*build.trust(key).keys, *auditors))
    assert read(path, build.policy(key, trust=trust)).untrusted_audits == 1


def test_an_audit_of_another_certificate_is_refused(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    other = build.seal(tmp_path / "b", key, build.certify(issuer="somebody else"))
    build.append_audit(other, other_key)
    build.append_line(path, (other / build.ENVELOPE).read_text().splitlines()[1])
    assert code_of(path, policy_of(build, key, other_key)) == "BAD_SUBJECT"


def test_an_audit_with_another_id_is_refused(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    build.append_audit(path, other_key, build.audit_report(certificate_id="f" * 32))
    assert code_of(path, policy_of(build, key, other_key)) == "BAD_SUBJECT"


def test_only_audits_may_follow(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    payload = dsse.read_envelope((path / build.ENVELOPE).read_bytes().rstrip(b"\n")).payload
    build.append_line(path, dsse.sign(payload, other_key))
    assert code_of(path, policy_of(build, key, other_key)) == "WRONG_PREDICATE"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["{}"], "BAD_ENVELOPE"),
        ([""], "BAD_ENVELOPE"),
        (["not json"], "BAD_ENVELOPE"),
        (["{}"] * 17, "BAD_ENVELOPE"),
        (["x" * (64 * 1024 + 1)], "CERT_TOO_LARGE"),
        (["x" * 70_000] * 60, "CERT_TOO_LARGE"),
    ],
)
def test_further_lines_are_held_to_the_form(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path, lines: list[str], code: str
) -> None:
    path = build.seal(tmp_path / "a", key)
    for line in lines:
        build.append_line(path, line)
    assert code_of(path, policy_of(build, key, other_key)) == code


def test_an_audit_above_the_claim_rejects_the_model(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    policy = policy_of(build, key, other_key)
    build.append_audit(path, other_key, build.audit_report(build.audit(epsilon_lower=7.0)))
    assert artifact.verify(path, policy, now=NOW).passed
    build.append_audit(path, other_key, build.audit_report(build.audit(epsilon_lower=7.9)))
    with pytest.raises(HushdocError) as caught:
        artifact.open_artifact(path, policy, now=NOW)
    assert caught.value.code == "AUDIT_CONTRADICTION"
    # Without trust in its auditor the same line says nothing.
    assert artifact.verify(path, build.policy(key), now=NOW).passed


def test_old_certificates_are_stale(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    assert code_of(path, policy_of(build, key, other_key, max_age_days=0.1)) == "STALE"
    assert read(path, policy_of(build, key, other_key, max_age_days=1))


def revoke(build: ModuleType, path: Path, key: Any, **revoked: Any) -> None:
    """Writes a revocation list that `key` signed."""
    found = revocation.successor(None, valid_for=timedelta(days=7), now=NOW, **revoked)
    path.write_text(revocation.sign_list(found, key) + "\n")


def test_a_revoked_certificate_or_key_is_refused(
    build: ModuleType, key: Any, other_key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    listed = tmp_path / "revocations.jsonl"
    revoker = signing_keys.generate_key()
    keys = (*build.trust(key).keys, *build.trust(revoker, roles=("revocation",)).keys)
    policy = build.policy(key, trust=TrustStore(keys=keys), revocations=listed)
    assert read(path, policy).signers
    revoke(build, listed, revoker, certificates=["ab" * 16])
    assert read(path, policy).signers
    revoke(build, listed, revoker, certificates=[build.CERTIFICATE_ID])
    assert code_of(path, policy) == "REVOKED"
    revoke(build, listed, revoker, keys=[keys[0].keyid])
    assert code_of(path, policy) == "REVOKED"
    revoke(build, listed, key, keys=[])
    assert code_of(path, policy) == "REVOCATION_UNAVAILABLE"


def test_a_demanded_list_must_be_there_and_none_may_be_older_than_one_seen(
    build: ModuleType, key: Any, tmp_path: Path
) -> None:
    path = build.seal(tmp_path / "a", key)
    listed = tmp_path / "revocations.jsonl"
    trust = build.trust(key, roles=("certificate", "revocation"))
    required = build.policy(key, trust=trust, revocation="required", revocations=listed)
    assert code_of(path, required) == "REVOCATION_UNAVAILABLE"
    revoke(build, listed, key)
    assert read(path, required).signers
    newer = dataclasses.replace(trust, min_revocation_sequence=2)
    assert code_of(path, dataclasses.replace(required, trust=newer)) == "REVOCATION_ROLLBACK"


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
