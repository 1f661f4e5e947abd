"""The ML-BOM is valid CycloneDX, names what it renders, and never claims more than is signed."""

from __future__ import annotations

import json
from importlib import metadata
from types import ModuleType
from typing import Any, NoReturn

import pytest

from hushdoc import version
from hushdoc.reports.cyclonedx import SPEC_VERSIONS, bill_of_materials

DIGEST = "ab" * 32


def subjects(build: ModuleType) -> tuple[Any, ...]:
    return (
        build.Subject(name=build.ENTRY, sha256="cd" * 32, size=112),
        build.Subject(name="labels.json", sha256="ef" * 32, size=29),
    )


def bom(build: ModuleType, *guarantees: Any, version: str = "1.6", **change: Any) -> dict[str, Any]:
    certificate = build.certify(*guarantees, **change)
    return bill_of_materials(
        certificate, subjects(build), payload_sha256=DIGEST, spec_version=version
    )


def properties(document: dict[str, Any]) -> dict[str, str]:
    listed = document["metadata"]["component"]["properties"]
    found = {item["name"]: item["value"] for item in listed}
    assert len(found) == len(listed)
    return found


def everything(build: ModuleType) -> dict[str, Any]:
    return {
        "releases": ("final-weights", "logs"),
        "audits": (build.audit(), build.audit(epsilon_lower=None, delta=None, confidence=None)),
        "pre_registered_audits": (build.pre_registered(),),
        "utility": {"f1": 0.7, "fields": {"total": [1, 2]}},
        "expires_at": "2027-11-21T08:00:00Z",
    }


@pytest.mark.parametrize("version", SPEC_VERSIONS)
def test_it_is_valid_by_the_published_schema(build: ModuleType, version: str) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.from_version(version))
    guarantees = (
        build.guarantee(gdp_mu=1.1, audit_lower_bound=0.4),
        build.guarantee(adversary="server", aggregation="secure-sum"),
        build.no_guarantee(unit="user"),
        build.guarantee(kind="empirical"),
        build.guarantee(kind="dp-conditional", condition="nobody colludes."),
    )
    document = bom(build, *guarantees, version=version, **everything(build))
    assert validator.validate_str(json.dumps(document)) is None
    document["metadata"]["component"]["modelCard"]["surprise"] = 1
    assert validator.validate_str(json.dumps(document)) is not None


def test_it_has_what_every_reader_needs(build: ModuleType) -> None:
    document = bom(build)
    model = document["metadata"]["component"]
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["serialNumber"].startswith("urn:uuid:")
    assert (model["type"], model["name"], model["version"]) == (
        "machine-learning-model",
        "invoice-kie",
        "3",
    )
    assert model["hashes"] == [{"alg": "SHA-256", "content": "cd" * 32}]
    assert {item["name"]: item["hashes"][0]["content"] for item in model["components"]} == {
        build.ENTRY: "cd" * 32,
        "labels.json": "ef" * 32,
    }
    (reference,) = model["externalReferences"]
    assert (reference["type"], reference["url"]) == ("attestation", "privacy.intoto.jsonl")


def test_only_known_versions_are_written(build: ModuleType) -> None:
    with pytest.raises(ValueError, match="expected one of"):
        bom(build, version="1.4")


def test_it_says_that_it_is_a_rendering_and_of_what(build: ModuleType) -> None:
    document = bom(build)
    assert "Unsigned rendering" in document["metadata"]["component"]["description"]
    assert json.dumps(document).count(DIGEST) >= 3
    assert document == bom(build)


def test_every_guarantee_is_there_with_all_that_makes_it_one(build: ModuleType) -> None:
    found = properties(
        bom(build, build.guarantee(), build.no_guarantee(unit="user"), **everything(build))
    )
    assert found["hushdoc:guarantee:0:kind"] == "dp"
    for key in ("epsilon", "delta", "unit", "adjacency", "adversary", "accountant:name", "profile"):
        assert f"hushdoc:guarantee:0:{key}" in found
    assert found["hushdoc:guarantee:1:kind"] == "none"
    assert found["hushdoc:guarantee:1:reason"] == "training was not private."
    assert "hushdoc:guarantee:1:epsilon" not in found
    assert found["hushdoc:preRegisteredAudit:0:queryBudget"] == "1000"
    assert found["hushdoc:releases"] == "final-weights, logs"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "yes"),
        ({"kind": "dp-conditional", "condition": "so."}, "only on a condition"),
        ({"kind": "empirical"}, "no"),
        ({"covers_all_private_accesses": False}, "not for every access to protected data"),
        ({"epsilon": 1.0, "profile": ()}, "no"),
    ],
)
def test_only_a_guarantee_that_holds_is_called_one(
    build: ModuleType, change: dict[str, Any], expected: str
) -> None:
    document = bom(build, build.guarantee(**change))
    assert properties(document)["hushdoc:differentialPrivacyGuaranteed"].split(",")[0] == expected


def test_kind_none_reads_as_none_everywhere(build: ModuleType) -> None:
    document = bom(build, build.no_guarantee())
    considerations = document["metadata"]["component"]["modelCard"]["considerations"]
    assert considerations["technicalLimitations"][0].startswith("No privacy guarantee")
    (risk,) = considerations["ethicalConsiderations"]
    assert risk["mitigationStrategy"].startswith("No privacy guarantee")
    assert properties(document)["hushdoc:differentialPrivacyGuaranteed"] == "no"


def test_what_was_measured_does_not_carry_the_name_of_a_guarantee(build: ModuleType) -> None:
    found = properties(bom(build, build.guarantee(kind="empirical", epsilon=2.0, gdp_mu=1.5)))
    assert found["hushdoc:guarantee:0:measuredEpsilon"] == "2.0"
    assert not {"hushdoc:guarantee:0:epsilon", "hushdoc:guarantee:0:gdpMu"} & set(found)
    assert "underestimates" in found["hushdoc:guarantee:0:beside"]


def test_a_false_claim_is_the_first_limitation(build: ModuleType) -> None:
    document = bom(build, build.guarantee(epsilon=1.0, profile=()))
    considerations = document["metadata"]["component"]["modelCard"]["considerations"]
    assert "does NOT follow" in considerations["technicalLimitations"][0]
    assert "does NOT follow" in considerations["ethicalConsiderations"][0]["mitigationStrategy"]
    assert "does NOT follow" in properties(document)["hushdoc:guarantee:0:notReproduced"]


def test_audits_are_lower_bounds_with_their_ceiling(build: ModuleType) -> None:
    card = bom(build, **everything(build))["metadata"]["component"]["modelCard"]
    utility, _, audit, silent = card["quantitativeAnalysis"]["performanceMetrics"]
    assert utility["type"] == "as declared by the issuer: f1"
    assert audit["confidenceInterval"] == {"lowerBound": "0.5"}
    assert "can refute, never prove" in audit["type"]
    assert "could show at best 5.8" in audit["slice"]
    assert "confidenceInterval" not in silent
    assert (
        "quantitativeAnalysis" not in bom(build, utility={})["metadata"]["component"]["modelCard"]
    )


def test_it_names_the_version_that_ran_whatever_is_installed(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the sources, in an archive or on PYTHONPATH, has no metadata of a package."""

    def missing(name: str) -> NoReturn:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    (tool,) = bom(build)["metadata"]["tools"]["components"]
    assert tool["version"] == version.__version__
