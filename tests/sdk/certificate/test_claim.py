"""Claims: what is written is read back; more wrong fields are in `tests/hostile`."""

from __future__ import annotations

import dataclasses
import json
import math
from types import ModuleType
from typing import Any

import pytest
from hushdoc_damage import at
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.certificate.claim import Claim
from hushdoc.errors import CertificateError
from hushdoc.serialization.records import camel, upwards


def test_what_is_written_is_read_back(build: ModuleType) -> None:
    claim = build.claim(build.guarantee(), build.no_guarantee(unit="user"))
    again = Claim.from_json(claim.to_json())
    assert again.to_json() == claim.to_json()
    assert again.guarantees[0].unit == "document"
    assert again.transcripts == claim.transcripts


def test_keys_are_the_words_of_the_schema(build: ModuleType) -> None:
    data = json.loads(build.claim().to_json())
    assert set(data) == {
        "protectedData",
        "publicData",
        "dataAccesses",
        "releases",
        "guarantees",
        "transcripts",
        "preRegisteredAudits",
        "audits",
        "training",
        "utility",
        "caveats",
    }
    assert {"unitDefinition", "coversAllPrivateAccesses", "samplingAsImplemented"} <= set(
        data["guarantees"][0]
    )
    assert data["guarantees"][0]["accountant"]["errorBound"] is None
    assert camel("count_is_public") == "countIsPublic"


@given(st.floats(1e-300, 1e300))
def test_numbers_are_rounded_upwards_and_only_once(value: float) -> None:
    rounded = upwards(value)
    assert value <= rounded <= value * (1 + 1e-5)
    assert upwards(rounded) == rounded


def test_epsilon_and_delta_are_rounded_upwards_when_written(build: ModuleType) -> None:
    claim = build.claim(build.guarantee(epsilon=7.00000001, delta=1 / 149, profile=()))
    found = Claim.from_json(claim.to_json()).guarantees[0]
    assert found.epsilon == 7.00001
    assert found.delta == 0.00671141
    assert Claim.from_json(build.claim().to_json()).guarantees[0].delta == 1e-5


def edited(build: ModuleType, *path: Any, value: Any) -> bytes:
    data = json.loads(build.claim().to_json())
    at(data, path[:-1])[path[-1]] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        (("guarantees", 0, "adjacency"), "swap", "UNKNOWN_VALUE"),
        (("guarantees", 0, "rng"), "torch", "UNKNOWN_VALUE"),
        (("guarantees", 0, "delta"), None, "BAD_FIELD"),
        (("guarantees", 0, "profile"), [[8]], "BAD_FIELD"),
        (("guarantees", 0, "profile"), [8, 1e-5], "BAD_FIELD"),
        (("guarantees", 0, "kind"), "dp-conditional", "BAD_FIELD"),
        (("guarantees", 0, "auditLowerBound"), -3, "BAD_FIELD"),
        (("guarantees", 0, "gdpMu"), "3", "BAD_FIELD"),
        (("guarantees", 0, "aggregation"), "trusted", "UNKNOWN_VALUE"),
        (("releases", 0), "the model", "UNKNOWN_VALUE"),
        (("audits",), [{}], "BAD_FIELD"),
        (("preRegisteredAudits",), [{"protocol": "ask"}], "BAD_FIELD"),
        (("dataAccesses", 0, "accountedIn"), ["other"], "BAD_FIELD"),
        (("dataAccesses", 0, "accountedIn"), "training", "BAD_FIELD"),
        (("dataAccesses", 0, "treatment"), "unaccounted", "BAD_FIELD"),
        (("protectedData", 0, "units", 0, "count"), -1, "BAD_FIELD"),
        (("publicData", 0, "overlapWithProtected"), "some", "UNKNOWN_VALUE"),
        (("caveats",), "none", "BAD_FIELD"),
        (("training",), [], "BAD_FIELD"),
    ],
)
def test_a_wrong_field_is_refused(
    build: ModuleType, path: tuple[Any, ...], value: Any, code: str
) -> None:
    with pytest.raises(CertificateError) as caught:
        Claim.from_json(edited(build, *path, value=value))
    assert caught.value.code == code


@pytest.mark.parametrize("path", ["guarantees", "transcripts", "training"])
def test_a_missing_field_is_refused(build: ModuleType, path: str) -> None:
    data = json.loads(build.claim().to_json())
    del data[path]
    with pytest.raises(CertificateError, match=path) as caught:
        Claim.from_json(json.dumps(data).encode())
    assert caught.value.code == "BAD_FIELD"


def test_what_cannot_be_read_is_never_written(build: ModuleType) -> None:
    with pytest.raises(CertificateError, match="adversary"):
        build.claim(build.guarantee(adversary="everybody")).to_json()
    with pytest.raises(ValueError, match="finite"):
        build.claim(build.guarantee(epsilon=math.inf)).to_json()


@pytest.mark.parametrize(
    "numbers", [{"epsilon": 1.0}, {"delta": 1e-5}, {"profile": ((1.0, 1e-5),)}]
)
def test_no_guarantee_has_no_numbers(build: ModuleType, numbers: dict[str, Any]) -> None:
    with pytest.raises(CertificateError, match="kind is none, so epsilon and delta must be null"):
        build.claim(dataclasses.replace(build.no_guarantee(), **numbers)).to_json()
