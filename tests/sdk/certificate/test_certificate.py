"""Certificates: statement and back, identity and time, and what a reader refuses."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from hushdoc.certificate import certificate, statement
from hushdoc.certificate.certificate import ModelIdentity
from hushdoc.certificate.subjects import Subject
from hushdoc.errors import CertificateError
from hushdoc.explanation import explain

SUBJECTS = (
    Subject(name="hushdoc.json", sha256="ab" * 32, size=2),
    Subject(name="onnx/model.onnx", sha256="cd" * 32, size=3),
)
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


def test_what_is_written_is_read_back(build: ModuleType) -> None:
    content = statement.statement(build.certify(), SUBJECTS)
    found, subjects = statement.parse_statement(content)
    assert subjects == SUBJECTS
    assert statement.statement(found, subjects) == content
    assert found.model.name == "invoice-kie"
    assert found.claim.guarantees[0].accountant.name == "rdp"


def test_it_is_an_in_toto_statement_with_a_flat_predicate(build: ModuleType) -> None:
    data = json.loads(statement.statement(build.certify(), SUBJECTS))
    assert data["_type"] == "https://in-toto.io/Statement/v1"
    assert data["predicateType"] == "https://hushdoc.dev/privacy-certificate/v1"
    assert data["subject"][0] == {
        "name": "hushdoc.json",
        "digest": {"sha256": "ab" * 32},
        "annotations": {"size": 2},
    }
    predicate = data["predicate"]
    assert predicate["schemaVersion"] == 1
    assert predicate["certificateId"] == build.CERTIFICATE_ID
    assert predicate["guarantees"][0]["unit"] == "document"
    assert predicate["critical"] == []


def test_ids_are_random_and_times_are_utc() -> None:
    ids = {certificate.new_certificate_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(len(item) == 32 for item in ids)
    assert certificate.utc_now().endswith("Z")


def test_a_false_guarantee_is_never_signed(build: ModuleType) -> None:
    for change, code in (
        ({"epsilon": 1.0, "profile": ()}, "EPSILON_NOT_REPRODUCED"),
        ({"transcript": None}, "NO_TRANSCRIPT"),
    ):
        with pytest.raises(CertificateError) as caught:
            statement.statement(build.certify(build.guarantee(**change)), SUBJECTS)
        assert caught.value.code == code


def changed(build: ModuleType, edit: dict[str, Any], where: str | None = "predicate") -> bytes:
    data = build.raw_statement(build.certify(), SUBJECTS)
    (data[where] if where else data).update(edit)
    return json.dumps(data).encode()


def code_of(content: bytes) -> str:
    with pytest.raises(CertificateError) as caught:
        statement.parse_statement(content)
    return caught.value.code


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        ({"schemaVersion": 2}, "UNKNOWN_VALUE"),
        ({"schemaVersion": True}, "BAD_FIELD"),
        ({"schemaVersion": "1"}, "BAD_FIELD"),
        ({"critical": ["audits"]}, "UNKNOWN_CRITICAL"),
        ({"critical": ["audits"], "audits": []}, "UNKNOWN_CRITICAL"),
        ({"critical": None}, "BAD_FIELD"),
        ({"notes": []}, "BAD_FIELD"),
        ({"certificateId": "0" * 31}, "BAD_FIELD"),
        ({"certificateId": "A" * 32}, "BAD_FIELD"),
        ({"certificateId": "\u0660" * 32}, "BAD_FIELD"),
        ({"issuedAt": "2026-11-21"}, "BAD_FIELD"),
        ({"issuedAt": "2026-13-21T08:00:00Z"}, "BAD_FIELD"),
        ({"issuedAt": "2026-11-21T08:00:00+00:00"}, "BAD_FIELD"),
        ({"issuedAt": 1795593600}, "BAD_FIELD"),
        ({"expiresAt": "2026-11-21T07:59:59Z"}, "BAD_FIELD"),
        ({"expiresAt": "never"}, "BAD_FIELD"),
        ({"issuer": ""}, "BAD_FIELD"),
        ({"assurance": "certain"}, "UNKNOWN_VALUE"),
        ({"derivation": [{"step": "quantize"}]}, "BAD_FIELD"),
        ({"derivation": [{"step": "quantize", "dataDependent": "no"}]}, "BAD_FIELD"),
        ({"model": {"name": "x"}}, "BAD_FIELD"),
        ({"model": None}, "BAD_FIELD"),
        ({"guarantees": []}, "BAD_FIELD"),
    ],
)
def test_a_wrong_predicate_is_refused(build: ModuleType, edit: dict[str, Any], code: str) -> None:
    assert code_of(changed(build, edit)) == code


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        ({"_type": "https://in-toto.io/Statement/v0.1"}, "BAD_STATEMENT"),
        ({"extra": 1}, "BAD_STATEMENT"),
        ({"predicateType": "https://slsa.dev/provenance/v1"}, "WRONG_PREDICATE"),
        ({"predicateType": None}, "WRONG_PREDICATE"),
        ({"predicate": None}, "BAD_FIELD"),
        ({"predicate": []}, "BAD_FIELD"),
        ({"subject": []}, "BAD_SUBJECT"),
        ({"subject": {}}, "BAD_SUBJECT"),
    ],
)
def test_a_wrong_statement_is_refused(build: ModuleType, edit: dict[str, Any], code: str) -> None:
    assert code_of(changed(build, edit, where=None)) == code


def test_what_is_no_strict_json_is_refused(build: ModuleType) -> None:
    sound = changed(build, {})
    for content in (
        b"",
        b"[]",
        sound[:-1],
        b"\xef\xbb\xbf" + sound,
        sound.decode().encode("utf-16"),
        sound.replace(b'"schemaVersion": 1', b'"schemaVersion": 1, "schemaVersion": 1'),
        sound.replace(b'"schemaVersion": 1', b'"schemaVersion": NaN'),
        sound.replace(b'"delta": 1e-05', b'"delta": 1e-400'),
    ):
        assert content != sound
        assert code_of(content) == "BAD_STATEMENT"
    assert code_of(sound + b" " * 300_000) == "CERT_TOO_LARGE"


@pytest.mark.parametrize(
    ("name", "code"), [("../model.onnx", "BAD_PATH"), ("hushdoc.json", "BAD_SUBJECT")]
)
def test_a_wrong_list_of_files_is_refused(build: ModuleType, name: str, code: str) -> None:
    """`test_subjects` has the others."""
    data = build.raw_statement(build.certify(), SUBJECTS)
    data["subject"].append({**data["subject"][0], "name": name})
    assert code_of(json.dumps(data).encode()) == code


def test_the_entry_must_be_signed(build: ModuleType) -> None:
    data = build.raw_statement(build.certify(), SUBJECTS[:1])
    assert code_of(json.dumps(data).encode()) == "BAD_SUBJECT"


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"model": "receipt-kie"}, "WRONG_MODEL"),
        ({"model": "Invoice-kie"}, "WRONG_MODEL"),
        ({"min_version": 4}, "ROLLBACK"),
        ({"now": datetime(1970, 1, 1, tzinfo=UTC)}, "CLOCK_IMPLAUSIBLE"),
        ({"now": NOW - timedelta(hours=2)}, "NOT_YET_VALID"),
        ({"now": datetime(2027, 11, 21, tzinfo=UTC)}, "EXPIRED"),
        ({"now": datetime(2100, 1, 1, tzinfo=UTC)}, "EXPIRED"),
        ({"now": datetime(9000, 1, 1, tzinfo=UTC)}, "CLOCK_IMPLAUSIBLE"),
        ({"max_age": timedelta(days=1), "now": NOW + timedelta(days=2)}, "STALE"),
    ],
)
def test_another_model_or_time_is_refused(
    build: ModuleType, wanted: dict[str, Any], code: str
) -> None:
    found = build.certify(expires_at="2027-11-21T00:00:00Z")
    given = {"model": None, "min_version": 0, "now": NOW, **wanted}
    with pytest.raises(CertificateError) as caught:
        certificate.require_valid(found, **given)
    assert caught.value.code == code


def test_the_right_model_at_the_right_time_is_accepted(build: ModuleType) -> None:
    found = build.certify(expires_at="2027-11-21T00:00:00Z")
    certificate.require_valid(found, model="invoice-kie", min_version=3, now=NOW)
    certificate.require_valid(
        found, model=None, min_version=0, now=NOW - timedelta(hours=1, minutes=4)
    )
    certificate.require_valid(build.certify(), model=None, min_version=0, now=NOW)


def test_it_is_explained_with_its_model(build: ModuleType) -> None:
    model = ModelIdentity(name="x\x1b[2J", version=1, task="kie", format="onnx", entry="m.onnx")
    text = explain(dataclasses.replace(build.certify(), model=model))
    assert "x\\x1b[2J, version 1" in text
    assert "only the issuer attests" in text
    assert "NOT GUARANTEED" in text
