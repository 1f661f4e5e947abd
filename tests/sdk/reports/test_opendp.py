"""Entries for the registry of deployments: its fields, honest numbers, and no foreign markup."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from hushdoc.reports.opendp import registry_entries

yaml = pytest.importorskip("yaml")

DIGEST = "ab" * 32
HOSTILE = "x\x1b[2J\u202e: [y](javascript:1) <script> $\\epsilon$ `a`\r\n- z # \U0001f600"

TEMPLATE: dict[str, set[str]] = {
    "basic": {
        "name",
        "data_curators",
        "description",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "data_product_sector",
        "publication_date",
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit",
        "privacy_unit_details",
        "number_of_privacy_units",
        "privacy_parameters",
        "privacy_parameters_details",
    },
    "deployment_model": {
        "model_name",
        "model_name_details",
        "trust_assumptions",
        "actors",
        "release_type",
        "release_type_details",
        "data_source_type",
        "data_source_type_details",
        "access_type",
        "access_type_details",
    },
    "implementation": {
        "preprocessing_and_hyperparameter_tuning",
        "mechanisms",
        "composition",
        "post_processing",
        "justification",
        "utility",
        "additional_information",
    },
    "administrative": {"evidence_sources", "status", "registry_authors", "tier"},
}
"""The sections and fields of the registry's own template."""


def entries(build: ModuleType, *guarantees: Any, **change: Any) -> list[dict[str, Any]]:
    text = registry_entries(build.certify(*guarantees, **change), payload_sha256=DIGEST)
    return [entry["deployment"] for entry in yaml.safe_load_all(text)]


def test_an_entry_has_the_fields_of_the_template(build: ModuleType) -> None:
    (entry,) = entries(build)
    assert {name: set(section) for name, section in entry.items()} == TEMPLATE
    assert entry["basic"]["publication_date"] == "2026-11-21"
    assert entry["basic"]["data_product_type"] == "Machine learning model"
    assert entry["administrative"]["status"] == "Draft"


def test_a_guarantee_has_its_numbers_as_numbers(build: ModuleType) -> None:
    guarantee = build.guarantee()
    (entry,) = entries(build, guarantee)
    assert entry["dp_variant"]["variant_name"] == "Approximate DP"
    assert entry["privacy_loss"]["privacy_parameters"] == {
        "epsilon": pytest.approx(guarantee.epsilon, rel=1e-5),
        "delta": 1e-5,
    }
    assert entry["privacy_loss"]["privacy_unit"] == "document"
    assert "350 times" in entry["implementation"]["mechanisms"]
    assert entry["deployment_model"]["model_name"] == "Central"


def test_what_a_certificate_does_not_know_stays_empty(build: ModuleType) -> None:
    (entry,) = entries(build)
    assert entry["basic"]["intended_use"] == entry["basic"]["data_product_region"] == ""
    assert entry["basic"]["data_product_sector"] is None
    assert entry["implementation"]["justification"] == ""
    assert entry["privacy_loss"]["number_of_privacy_units"] is None


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"kind": "empirical"}, "# NO DIFFERENTIAL PRIVACY IS GUARANTEED HERE"),
        ({"kind": "dp-conditional", "condition": "so."}, "# DIFFERENTIAL PRIVACY ONLY ON A COND"),
        ({"epsilon": 1.0, "profile": ()}, "# THE NUMBERS DO NOT FOLLOW"),
        ({"covers_all_private_accesses": False}, "# NOT FOR EVERY ACCESS TO PROTECTED DATA"),
    ],
)
def test_anything_less_than_a_guarantee_has_no_numbers(
    build: ModuleType, change: dict[str, Any], warning: str
) -> None:
    certificate = build.certify(build.guarantee(**change))
    text = registry_entries(certificate, payload_sha256=DIGEST)
    assert text.splitlines()[1].startswith(warning)
    (entry,) = [entry["deployment"] for entry in yaml.safe_load_all(text)]
    assert entry["privacy_loss"]["privacy_parameters"] == {}
    assert entry["dp_variant"]["variant_name"] is None
    assert entry["administrative"]["tier"] == 1


def test_kind_none_says_so(build: ModuleType) -> None:
    (entry,) = entries(build, build.no_guarantee())
    details = entry["privacy_loss"]["privacy_parameters_details"]
    assert details.startswith("No privacy guarantee for any document")
    tuning = entry["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert "No guarantee covers an access" in tuning


def test_each_guarantee_is_an_entry_of_its_own(build: ModuleType) -> None:
    server = build.guarantee(adversary="server", aggregation="individual-updates")
    first, second, third = entries(build, build.guarantee(), server, build.no_guarantee())
    assert first["privacy_loss"]["privacy_parameters"]
    assert second["deployment_model"]["model_name"] == "Federated"
    assert (
        "only the noise that this client added"
        in (second["deployment_model"]["model_name_details"])
    )
    assert third["privacy_loss"]["privacy_parameters"] == {}
    # What one of them does not cover stands in all of them.
    assert "No privacy guarantee" in first["implementation"]["additional_information"]


def test_it_says_that_it_is_a_rendering_and_of_what(build: ModuleType) -> None:
    text = registry_entries(build.certify(), payload_sha256=DIGEST)
    assert text.startswith("# Unsigned rendering")
    assert DIGEST in text.splitlines()[0]
    assert text == registry_entries(build.certify(), payload_sha256=DIGEST)


def test_hostile_texts_stay_texts(build: ModuleType) -> None:
    text = registry_entries(build.hostile(HOSTILE), payload_sha256=DIGEST)
    assert not {"\x1b", "\u202e", "\r"} & set(text)
    entry, *_ = yaml.safe_load_all(text)
    deployment = entry["deployment"]
    assert {name: set(section) for name, section in deployment.items()} == TEMPLATE
    name = deployment["basic"]["name"]
    for foreign in ("](", "<script", " $", " `"):
        assert foreign not in name.replace("\\" + foreign.strip()[0], "")
    assert "\U0001f600" in name
    assert set(entry["url_slug"]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
