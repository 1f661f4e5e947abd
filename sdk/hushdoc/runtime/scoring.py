"""Calibration of scores: from a model's probabilities to the share of answers that are right.

A model's own probabilities are too high or too low; by how much was measured when it was exported,
on documents that nobody has to protect, and is part of its artifact. An answer below the artifact's
threshold is reported as such, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hushdoc.errors import ArtifactError

MAX_KNOTS = 256
"""Knots of one curve; more would be noise."""

COOLEST, HOTTEST = 1e-6, 1e6
"""Temperatures between which no sound logits overflow or vanish."""


@contextmanager
def settings_errors(what: str, *, code: str | None = None) -> Iterator[None]:
    """Turns what goes wrong with settings of a manifest into one ArtifactError."""
    try:
        yield
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{what} can't be read: {error}. Export the artifact again with this version of "
            "hushdoc.",
            code=code,
        ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """How raw scores become calibrated ones; part of the artifact's signed manifest.

    Attributes:
        temperature: What logits, and the transitions of a chain, are divided by before they become
            probabilities.
        raw: Knots of a curve from raw scores, rising; none where they stay as they are.
        calibrated: The calibrated score at each knot, never falling; straight lines in between.
        threshold: Answers with a lower calibrated score are below the threshold; with 0 none is.
        fitted_on: The documents it was measured on.
        num_answers: How many answers were compared with the truth.
    """

    temperature: float = 1.0
    raw: tuple[float, ...] = ()
    calibrated: tuple[float, ...] = ()
    threshold: float = 0.0
    fitted_on: str
    num_answers: int

    def __post_init__(self) -> None:
        """Refuses values that make no such curve."""
        if not COOLEST <= self.temperature <= HOTTEST:
            raise ValueError(
                f"temperature is {self.temperature!r}; expected a number from {COOLEST:g} to "
                f"{HOTTEST:g}."
            )
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold!r}; expected a number from 0 to 1.")
        if len(self.raw) != len(self.calibrated) or not _fits(self.raw, self.calibrated):
            raise ValueError(
                f"raw has {len(self.raw)} and calibrated {len(self.calibrated)} knots; expected as "
                f"many of each, none or 2 to {MAX_KNOTS}, from 0 to 1, raw rising and calibrated "
                "never falling."
            )
        if self.num_answers < 0:
            raise ValueError(f"num_answers is {self.num_answers}; expected 0 or more.")

    def calibrate(self, score: float) -> float:
        """Returns the calibrated score of a raw one; outside the knots the nearest knot's."""
        return float(np.interp(score, self.raw, self.calibrated)) if self.raw else score

    def ranked(self, raw: Sequence[float], *, left: float) -> list[float]:
        """Returns the scores of raw ones, best first, of which a curve is the best one's alone.

        One is right at most: the others get what the best one leaves, in proportion to their own
        parts of what its raw score leaves, and none has more than the best.
        """
        if not self.raw:
            return list(raw)
        best = self.calibrate(raw[0])
        share = (1 - best) / max(left, 1e-12)
        return [best, *(min(best, share * value) for value in raw[1:])]

    def accepts(self, score: float) -> bool:
        """Returns whether a calibrated score reaches the threshold."""
        return score >= self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest."""
        return {**asdict(self), "raw": list(self.raw), "calibrated": list(self.calibrated)}

    @classmethod
    def from_dict(cls, data: Any) -> Scoring:
        """Returns what a manifest holds; ArtifactError where a key or type is wrong."""
        with settings_errors("The scores' calibration"):
            settings = dict(_checked(data))
            return cls(
                **{**settings, "raw": tuple(data["raw"]), "calibrated": tuple(data["calibrated"])}
            )


def _checked(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise TypeError(f"it is {type(data).__name__}, not an object")
    numbers = [data["temperature"], data["threshold"], *data["raw"], *data["calibrated"]]
    if any(type(value) not in (int, float) for value in numbers):
        raise TypeError("temperature, threshold and knots must be numbers")
    if type(data["num_answers"]) is not int or type(data["fitted_on"]) is not str:
        raise TypeError("num_answers must be an integer and fitted_on a string")
    return data


def _fits(raw: Sequence[float], calibrated: Sequence[float]) -> bool:
    if not raw:
        return True
    values = np.asarray([raw, calibrated], dtype=np.float64)
    inside = bool(((values >= 0) & (values <= 1)).all())  # written so that NaN fails
    rising = bool((np.diff(values[0]) > 0).all() and (np.diff(values[1]) >= 0).all())
    return 2 <= len(raw) <= MAX_KNOTS and inside and rising
