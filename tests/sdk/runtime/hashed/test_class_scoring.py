"""The confidence of a class: never saturated, and comparable between short and long texts."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.errors import ArtifactError
from hushdoc.runtime.hashed import class_scoring
from hushdoc.runtime.hashed.class_scoring import ClassConfidence, confidence, is_classifier
from hushdoc.runtime.hashed.table import HashedTable

numbers = st.floats(-1e6, 1e6)
units = st.floats(1e-6, 1e6)
sums = st.lists(numbers, min_size=2, max_size=6)


@given(sums, units, st.data())
def test_confidence_follows_the_margin(told: list[float], unit: float, data: st.DataObject) -> None:
    label = data.draw(st.integers(0, len(told) - 1))
    found = confidence(np.array(told), label, unit=unit)
    assert 0 <= found <= 1
    more = data.draw(st.floats(0, 1e6))
    further = [value + more * (place == label) for place, value in enumerate(told)]
    assert confidence(np.array(further), label, unit=unit) >= found
    others = [value + more * (place != label) for place, value in enumerate(told)]
    assert confidence(np.array(others), label, unit=unit) <= found + 1e-9
    order = data.draw(st.permutations(range(len(told))))
    moved = np.array([told[place] for place in order])
    assert confidence(moved, order.index(label), unit=unit) == pytest.approx(found)
    best = max(confidence(np.array(told), other, unit=unit) for other in range(len(told)))
    assert confidence(np.array(told), int(np.argmax(told)), unit=unit) == pytest.approx(best)


@given(st.lists(st.floats(0, 1e4), min_size=2, max_size=9, unique=True))
def test_large_margins_stay_distinguishable(
    leads: list[float],
) -> None:
    leads = [round(lead, 3) for lead in leads]
    found = {lead: confidence(np.array([lead, 0.0]), 0, unit=1.0) for lead in leads}
    assert [found[lead] for lead in sorted(found)] == sorted(set(found.values()))
    assert all(value < 1 for value in found.values())


@pytest.mark.parametrize(
    ("told", "label", "unit", "wanted"),
    [
        ([0.0, 0.0], 0, 1.0, 0.5),
        ([2.0, 0.0], 0, 2.0, 0.75),
        ([2.0, 0.0], 1, 2.0, 0.25),
        ([5.0, 5.0, 5.0], 1, 9.0, 0.5 - 0.5 * math.log(2) / (1 + math.log(2))),
        ([math.log(6), math.log(2), 0.0], 0, 1.0, 0.5 + 0.5 * math.log(2) / (1 + math.log(2))),
        ([1e9, 0.0, 0.0], 0, 1e-6, 1.0),
        ([1e9, 0.0, 0.0], 1, 1e-6, 0.0),
    ],
)
def test_known_confidence(told: list[float], label: int, unit: float, wanted: float) -> None:
    assert confidence(np.array(told), label, unit=unit) == pytest.approx(wanted, abs=1e-12)


def test_a_long_text_is_no_surer_for_saying_nothing() -> None:
    generator = np.random.default_rng(5)
    rule = ClassConfidence(spread=math.sqrt(2))
    means = []
    for length in (10, 100, 1000):
        noise = generator.normal(size=(400, length, 2)).sum(axis=1)
        unit = rule.unit(length)
        means.append(np.mean([confidence(told, int(told.argmax()), unit=unit) for told in noise]))
    assert max(means) - min(means) < 0.02
    assert max(means) < 0.75


@pytest.mark.parametrize("tags", [("O", "law", "sea"), ("law",), ("a", "b")])
@pytest.mark.parametrize("level", ["sentence", "token"])
def test_what_is_classifier(tags: tuple[str, ...], level: str) -> None:
    never = np.where(np.eye(len(tags), dtype=bool), 0.0, class_scoring.FORBIDDEN)
    assert is_classifier(tags, level, never) == (tags == ("a", "b") and level == "sentence")
    assert not is_classifier(tags, level, never / 2 - (len(tags) == 1))
    assert not is_classifier(tags, level, never + 1)


def test_the_rule_survives_the_manifest() -> None:
    rule = ClassConfidence(spread=0.25)
    assert rule.to_dict() == {"rule": "margin", "spread": 0.25}
    assert ClassConfidence.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    assert rule.unit(0) == rule.unit(1) == 0.25


WRONG = [
    None,
    3,
    [],
    {},
    {"rule": "margin"},
    {"spread": 1.0},
    {"rule": "lead", "spread": 1.0},
    {"rule": "margin", "spread": 0.0},
    {"rule": "margin", "spread": -1.0},
    {"rule": "margin", "spread": 1e300},
    {"rule": "margin", "spread": float("nan")},
    {"rule": "margin", "spread": True},
    {"rule": "margin", "spread": "1"},
    {"rule": "margin", "spread": 1.0, "more": 1},
]


@pytest.mark.parametrize("data", WRONG)
def test_other_json_is_no_rule(data: Any) -> None:
    with pytest.raises(ArtifactError, match="can't be read") as raised:
        ClassConfidence.from_dict(data)
    assert raised.value.code == "BAD_MANIFEST"


def test_spread_has_six_digits_and_never_nothing() -> None:
    level = HashedTable(weights=np.ones((4, 2)), transitions=np.zeros((2, 2)))
    assert ClassConfidence.of(level).spread == class_scoring.SMALLEST
    third = HashedTable(weights=np.array([[1 / 3, 0.0]]), transitions=np.zeros((2, 2)))
    assert ClassConfidence.of(third).spread == 0.333333
