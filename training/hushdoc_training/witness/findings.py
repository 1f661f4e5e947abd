"""Findings: what was expected by the claim, what was seen, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NOISE_TOLERANCE = 0.01
"""Largest relative difference of a standard deviation that is put down to nothing."""
MOVE_TOLERANCE = 0.01
"""By how much more than the clipping norm a record may seem to move a sum: rounding."""
SIGMAS = 5.0
"""Statistical errors that a seen number may be off by, where few numbers were seen."""
MOST_COMPARED = 1 << 24
"""Numbers of noise that are compared with one another; of more, the first ones."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One comparison."""

    what: str
    expected: str  # by the claim
    seen: str
    agrees: bool


@dataclass(frozen=True, kw_only=True)
class Witnessed:
    """What a witness says of one command.

    Attributes:
        command: What ran, without `hushdoc`.
        runs: How often it ran.
        findings: In the order in which they were made.
    """

    command: tuple[str, ...]
    runs: int
    findings: tuple[Finding, ...]

    @property
    def agrees(self) -> bool:
        """Whether all that was seen agrees with the claim."""
        return all(finding.agrees for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON would have it."""
        return {
            "command": list(self.command),
            "runs": self.runs,
            "agrees": self.agrees,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def lines(self) -> Iterable[str]:
        """Returns the table that people read."""
        rows = [("", "what", "by the claim", "seen")]
        rows += [
            ("ok" if finding.agrees else "DIFFERS", finding.what, finding.expected, finding.seen)
            for finding in self.findings
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            yield "  ".join((*cells, row[3])).rstrip()


def steps(claimed: int, seen: int) -> Finding:
    """Compares how many steps were taken."""
    return Finding(
        what="number of steps", expected=f"{claimed}", seen=f"{seen}", agrees=claimed == seen
    )


def noise(
    what: str, residuals: npt.NDArray[Any], *, expected: float, draws: int = 1
) -> list[Finding]:
    """Compares numbers that are noise, each the difference or sum of `draws` draws of it.

    Three findings: their standard deviation, whether they are bell-shaped, by the fourth moment,
    and whether each has noise of its own.
    """
    values = residuals.astype(np.float64).ravel()
    count, std = len(values), float(np.sqrt(np.mean(np.square(values)) / draws))
    allowed = max(NOISE_TOLERANCE, SIGMAS / math.sqrt(2 * count))
    off = abs(std / expected - 1) if math.isfinite(std) else math.inf
    deviation = Finding(
        what=f"{what}: standard deviation",
        expected=f"{expected:.5g} +- {allowed:.1%}",
        seen=f"{std:.5g} over {count} numbers",
        agrees=off <= allowed,
    )
    spread = float(np.mean(np.square(values))) or math.inf
    fourth = float(np.mean(values**4)) / spread**2 / 3.0
    room = SIGMAS * math.sqrt(96 / count) / 3 + 0.01
    bell = Finding(
        what=f"{what}: fourth moment of a normal",
        expected=f"1 +- {room:.2g}",
        seen=f"{fourth:.4g}",
        agrees=abs(fourth - 1) <= room,
    )
    return [deviation, bell, _apart(what, values[:MOST_COMPARED])]


def _apart(what: str, values: npt.NDArray[np.float64]) -> Finding:
    """Compares numbers with those that stand any fixed distance further on.

    Noise that two numbers share is none in their difference, whatever each alone looks like.
    """
    count = len(values)
    size = 1 << (2 * count).bit_length()
    power = np.square(np.abs(np.fft.rfft(values, size)))
    products = np.fft.irfft(power, size)[1:count] / (float(values @ values) or 1.0)
    found = float(np.abs(products).max(initial=0.0))
    room = math.sqrt(2 * math.log(1e6 * count) / count)  # one in a million is further off
    return Finding(
        what=f"{what}: each number has its own",
        expected=f"correlations 0 +- {room:.2g}",
        seen=f"at most {found:.2g}",
        agrees=found <= room,
    )


def moved(what: str, seen: float, *, most: float) -> Finding:
    """Compares how far a record moved a sum with how far it may."""
    return Finding(
        what=what,
        expected=f"at most {most:.5g}",
        seen=f"{seen:.5g}",
        agrees=seen <= most * (1 + MOVE_TOLERANCE),
    )


def coin(what: str, *, drawn: bool, expected: bool) -> Finding:
    """Compares whether a coin drew its record."""
    words = {True: "drawn", False: "left out"}
    return Finding(what=what, expected=words[expected], seen=words[drawn], agrees=drawn == expected)


def true(what: str, agrees: bool, *, seen: str = "") -> Finding:
    """Notes whether something holds that every claim says."""
    return Finding(
        what=what, expected="yes", seen=seen or ("yes" if agrees else "no"), agrees=agrees
    )


def uncorrelated(what: str, one: npt.NDArray[Any], other: npt.NDArray[Any]) -> Finding:
    """Compares noise of two places, of which no part may be the same."""
    first, second = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    size = float(np.linalg.norm(first) * np.linalg.norm(second)) or 1.0
    found, room = float(first @ second) / size, SIGMAS / math.sqrt(len(first))
    return Finding(
        what=what,
        expected=f"correlation 0 +- {room:.2g}",
        seen=f"{found:.2g}",
        agrees=abs(found) <= room,
    )
