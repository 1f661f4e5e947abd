"""Calibrated scores: curves that never fall, thresholds that set apart and drop nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.errors import ArtifactError
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.runtime.extraction import judged, of_text
from hushdoc.runtime.scoring import MAX_KNOTS, Scoring

SCORING = Scoring(
    raw=(0.2, 0.6, 0.9),
    calibrated=(0.0, 0.5, 0.7),
    threshold=0.5,
    fitted_on="invented pages",
    num_answers=200,
)


def test_scores_follow_the_curve_and_its_ends() -> None:
    assert [SCORING.calibrate(score) for score in (0, 0.2, 0.4, 0.9, 1)] == [0, 0, 0.25, 0.7, 0.7]
    assert SCORING.accepts(0.5)
    assert not SCORING.accepts(0.4999)
    plain = Scoring(fitted_on="x", num_answers=0)
    assert plain.calibrate(0.3) == 0.3
    assert plain.accepts(0.0)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_order_is_kept(scores: list[float]) -> None:
    made = [SCORING.calibrate(score) for score in sorted(scores)]
    assert made == sorted(made)


def test_answers_below_the_threshold_are_set_apart_and_none_is_lost() -> None:
    found = [of_text("total", str(place), 0, 5, place / 10) for place in range(11)]
    sure, unsure = judged(found, SCORING)
    assert [item.label for item in sure] == ["6", "7", "8", "9", "10"]
    assert [item.label for item in unsure] == ["0", "1", "2", "3", "4", "5"]
    assert sure[0] == replace(found[6], score=0.5)
    assert judged(found, None) == (tuple(found), ())


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"temperature": 1e-300},
        {"temperature": 1e300},
        {"threshold": 1.1},
        {"threshold": float("nan")},
        {"raw": (0.2, 0.6)},
        {"raw": (0.6, 0.2, 0.9)},
        {"raw": (0.2, 0.2, 0.9)},
        {"calibrated": (0.5, 0.4, 0.7)},
        {"calibrated": (0.5, 0.6, float("nan"))},
        {"calibrated": (0.5, 0.6, 1.7)},
        {"raw": (0.5,), "calibrated": (0.5,)},
        {"num_answers": -1},
        {
            "raw": tuple(n / 999 for n in range(MAX_KNOTS + 1)),
            "calibrated": (0.5,) * (MAX_KNOTS + 1),
        },
    ],
)
def test_what_is_no_curve_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        replace(SCORING, **change)
    with pytest.raises(ArtifactError, match="calibration can't be read"):
        Scoring.from_dict({**SCORING.to_dict(), **change})


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        [],
        {},
        {**SCORING.to_dict(), "more": 1},
        {**SCORING.to_dict(), "raw": "abc"},
        {**SCORING.to_dict(), "raw": None},
        {**SCORING.to_dict(), "threshold": True},
        {**SCORING.to_dict(), "threshold": 10**400},
        {**SCORING.to_dict(), "temperature": 10**400},
        {**SCORING.to_dict(), "raw": [0, 10**400]},
        {**SCORING.to_dict(), "num_answers": 2.0},
        {**SCORING.to_dict(), "fitted_on": 3},
    ],
)
def test_other_json_is_no_calibration(data: Any) -> None:
    with pytest.raises(ArtifactError, match="calibration can't be read"):
        Scoring.from_dict(data)


def test_it_travels_in_the_preprocessing_contract() -> None:
    plain = Preprocessing(cls_id=1, sep_id=2, pad_id=0)
    assert "scores" not in plain.to_dict()
    assert Preprocessing.from_dict(plain.to_dict()) == plain
    scored = replace(plain, scores=SCORING)
    assert Preprocessing.from_dict(json.loads(json.dumps(scored.to_dict()))) == scored
    with pytest.raises(ArtifactError, match="calibration"):
        Preprocessing.from_dict({**scored.to_dict(), "scores": {"threshold": 0.5}})
