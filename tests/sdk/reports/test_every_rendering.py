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
