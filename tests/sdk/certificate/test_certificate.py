"""Certificates: statement and back, identity and time, and what a reader refuses."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
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


@pytest.mark.parametrize("year", [1970, 2150])
def test_a_clock_that_cant_be_right_dates_no_certificate(
    year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Any:
            return datetime(year, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(certificate, "datetime", Clock)
    with pytest.raises(CertificateError) as caught:
        certificate.utc_now()
    assert caught.value.code == "CLOCK_IMPLAUSIBLE"


def test_a_false_guarantee_is_never_signed(build: ModuleType) -> None:
    for change, code in (
        ({"epsilon": 1.0, "profile": ()}, "EPSILON_NOT_REPRODUCED"),
        ({"transcript": None}, "NO_TRANSCRIPT"),
    ):
        with pytest.raises(CertificateError) as caught:
            statement.statement(build.certify(build.guarantee(**change)), SUBJECTS)
        assert caught.value.code == code


def test_it_is_explained_with_its_model(build: ModuleType) -> None:
    model = ModelIdentity(name="x\x1b[2J", version=1, task="kie", format="onnx", entry="m.onnx")
    text = explain(dataclasses.replace(build.certify(), model=model))
    assert "x\\x1b[2J, version 1" in text
    assert "only the issuer attests" in text
    assert "NOT GUARANTEED" in text
