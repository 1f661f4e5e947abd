"""Fitting: a calibration from a model's answers and whether they were right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import InputError
from hushdoc.runtime.decoding import log_softmax
from hushdoc.runtime.scoring import Scoring

MIN_ANSWERS = 50
"""Fewer can't tell how often a model is right."""

THRESHOLD = 0.5
"""Below it an answer is more likely wrong than right."""

_MAX_BINS, _MIN_IN_BIN = 20, 10
_TEMPERATURES = (0.05, 20.0)

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """A model's answers and whether they were right."""

    scores: Floats  # the raw score of each answer
    right: Flags  # whether it was
    documents: Numbers  # the number of the document that each is about
    logits: Floats | None = None  # for classifiers, shape [answers, labels]
    truth: Numbers | None = None  # for classifiers the right label's number

    def part(self, chosen: Flags) -> Answers:
        """Returns some of the answers."""
        return Answers(
            scores=self.scores[chosen],
            right=self.right[chosen],
            documents=self.documents[chosen],
            logits=None if self.logits is None else self.logits[chosen],
            truth=None if self.truth is None else self.truth[chosen],
        )


def fit(answers: Answers, *, fitted_on: str, threshold: float = THRESHOLD) -> Scoring:
    """Returns the calibration that fits answers, at least MIN_ANSWERS.

    Fields get a curve that never falls; classifiers a temperature, which keeps their scores a
    distribution over the labels. Answers below the threshold are put `below_threshold`;
    `fitted_on` names the documents.
    """
    if len(answers.scores) < MIN_ANSWERS:
        raise InputError(
            f"The model gave {len(answers.scores)} answers on these documents; at least "
            f"{MIN_ANSWERS} are needed to measure how often it is right. Give more documents, with "
            "what the model was trained to find."
        )
    common: dict[str, Any] = {
        "threshold": threshold,
        "fitted_on": fitted_on,
        "num_answers": len(answers.scores),
    }
    if answers.logits is not None and answers.truth is not None:
        return Scoring(temperature=temperature(answers.logits, answers.truth), **common)
    raw, calibrated = curve(answers.scores, answers.right)
    return Scoring(raw=raw, calibrated=calibrated, **common)


def curve(scores: Floats, right: Flags) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the knots of a curve from scores to the share of right answers, never falling.

    Scores are put into bins of equal counts, so that no knot hangs on a few answers; each bin's
    share is drawn towards one half by half a right and half a wrong answer, and falling shares are
    pooled (Ayer et al. 1955). So are those whose mean scores, to six digits, are the same.
    """
    order = np.argsort(scores, kind="stable")
    bins = np.array_split(order, max(1, min(_MAX_BINS, len(order) // _MIN_IN_BIN)))
    knots: list[list[float]] = []  # mean score, right answers, answers of each pool
    for members in bins:
        knots.append([float(scores[members].sum()), float(right[members].sum()), len(members)])
        while len(knots) > 1 and (
            _share(knots[-2]) >= _share(knots[-1]) or _mean(knots[-2]) >= _mean(knots[-1])
        ):
            last = knots.pop()
            knots[-1] = [one + other for one, other in zip(knots[-1], last, strict=True)]
    raw = [_mean(knot) for knot in knots]
    calibrated = [round(_share(knot), 6) for knot in knots]
    if len(raw) == 1:  # one share for all scores: a level line
        raw, calibrated = [0.0, 1.0], calibrated * 2
    return tuple(raw), tuple(calibrated)


def _mean(knot: Sequence[float]) -> float:
    return round(knot[0] / knot[2], 6)


def _share(knot: Sequence[float]) -> float:
    return (knot[1] + 0.5) / (knot[2] + 1)


def temperature(logits: Floats, truth: Numbers) -> float:
    """Returns what logits, shape [answers, labels], are divided by to fit the truth best.

    One answer more, of the mean of the tenth that the model is least sure of, counts as right for
    each label alike: from a few answers that are all right does not follow that none is ever wrong.
    """
    top = np.sort(logits, axis=1)[:, -2:]
    unsure = np.argsort(top[:, -1] - top[:, 0], kind="stable")[: max(1, len(top) // 10)]
    low, high = (float(np.log(bound)) for bound in _TEMPERATURES)
    # The loss has one minimum in the logarithm of the temperature; thirds close in on it.
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if _loss(logits, truth, unsure, np.exp(left)) < _loss(logits, truth, unsure, np.exp(right)):
            high = right
        else:
            low = left
    return round(float(np.exp((low + high) / 2)), 6)


def _loss(logits: Floats, truth: Numbers, unsure: Numbers, divisor: float) -> float:
    logs = log_softmax(logits / divisor)
    return -float(logs[np.arange(len(truth)), truth].sum() + logs[unsure].mean())


def calibration_error(scores: Floats, right: Flags) -> float:
    """Returns the mean gap between scores and shares, in ten bins (Naeini et al. 2015)."""
    places = np.minimum((scores * 10).astype(np.int64), 9)
    gaps = np.bincount(places, weights=scores - right, minlength=10)
    return float(np.abs(gaps).sum() / max(1, len(scores)))


def scored(answers: Answers, scoring: Scoring) -> Floats:
    """Returns the calibrated score of each answer."""
    if answers.logits is None:
        return np.asarray([scoring.calibrate(score) for score in answers.scores])
    scaled = answers.logits / scoring.temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray((powers / powers.sum(axis=1, keepdims=True)).max(axis=1))
