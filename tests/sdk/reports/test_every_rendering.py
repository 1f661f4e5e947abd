"""What no guarantee covers stands in whatever a certificate is rendered as."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from hushdoc import explanation
from hushdoc.reports import certificate_page, cyclonedx, model_card, opendp

DIGEST = "ab" * 32

RENDERINGS: dict[str, Callable[[Any], str]] = {
    "plain words": explanation.explain,
    "page": lambda it: certificate_page.certificate_page(it, None, ()),
    "card": lambda it: model_card.model_card(it, payload_sha256=DIGEST),
    "cyclonedx": lambda it: json.dumps(
        cyclonedx.bill_of_materials(it, (), payload_sha256=DIGEST)["metadata"]["component"]
    ),
    "opendp": lambda it: opendp.registry_entries(it, payload_sha256=DIGEST),
}

WHOLE = ("page", "cyclonedx", "opendp")
"""Those in which several texts of a certificate stand in one."""

LIMIT = "No guarantee covers a step after training, which read protected data: "


@pytest.mark.parametrize("name", RENDERINGS)
def test_a_step_after_training_that_read_protected_data(build: ModuleType, name: str) -> None:
    steps = (
        {"step": "export to ONNX", "dataDependent": False},
        {"step": "scales of int8 by private pages", "dataDependent": True},
    )
    shown = RENDERINGS[name](build.certify(derivation=steps))
    assert f"{LIMIT}scales of int8 by private pages." in shown
    assert f"{LIMIT}export" not in shown


def test_what_reads_outside_of_epsilon_is_called_no_guarantee(build: ModuleType) -> None:
    """By what programs read: the card's tag, a property, and numbers in a registry."""
    step = {"step": "scales by private pages", "dataDependent": True}
    labels = build.DataAccess(
        data="invoices", purpose="labels", accounted_in=(), treatment="unaccounted"
    )
    for certified in (
        build.certify(derivation=(step,)),
        build.certify(data_accesses=(*build.claim().data_accesses, labels)),
        build.certify(build.guarantee(covers_all_private_accesses=False)),
    ):
        assert "- differential-privacy" not in RENDERINGS["card"](certified)
        assert "yes, against the adversaries" not in RENDERINGS["cyclonedx"](certified)
        assert "privacy_parameters: {}" in RENDERINGS["opendp"](certified)


@pytest.mark.parametrize("name", WHOLE)
def test_no_assumption_is_cut_off(build: ModuleType, name: str) -> None:
    """Each text has up to 4,000 characters, and there are many."""
    assumed = (*(f"{number}: {'x' * 3990}" for number in range(30)), "nobody colludes")
    guarantee = build.guarantee(assumes=assumed, observes="y" * 4000, knows=f"{'z' * 3990} but one")
    shown = RENDERINGS[name](build.certify(guarantee))
    assert "nobody colludes" in shown
    assert "z but one" in shown
