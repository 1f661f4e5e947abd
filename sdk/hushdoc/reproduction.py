"""Reproduction: whether the numbers of a claim follow from its own transcripts.

The fast check: Renyi accounting in numpy, milliseconds. It proves arithmetic, not that training
ran that way; that is what assurance and audits are for. A claim that this engine can't reproduce
is not reproduced, whatever else may prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hushdoc.accounting.mechanism import (
    Composed,
    Mechanism,
    Sequence,
)
from hushdoc.claim import Claim, Guarantee

CERTIFYING_ACCOUNTANTS = frozenset({"pld", "prv", "rdp", "zcdp", "analytic-gaussian"})
"""Accountants whose epsilon is an upper bound. gdp-clt says 6.07 where 7.98 holds."""

MAX_DIFFERENT_STEPS = 256
"""Different (sampling rate, noise) in one transcript; each costs the check some milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What recomputing one guarantee gave.

    Attributes:
        index: Which guarantee of the claim.
        code: None where every number follows from the transcript.
        claimed: Epsilon as stated.
        recomputed: Epsilon at the same delta as this engine finds it, if it could.
        message: What was found and expected, in words.
    """

    index: int
    code: str | None
    claimed: float | None
    recomputed: float | None
    message: str


_Finding = Callable[..., Reproduction]


def reproduce(claim: Claim) -> tuple[Reproduction, ...]:
    """Returns one finding for each guarantee of kind dp or dp-conditional.

    Args:
        claim: What training says.
    """
    return tuple(
        _reproduce(index, guarantee, claim.transcripts)
        for index, guarantee in enumerate(claim.guarantees)
        if guarantee.kind in ("dp", "dp-conditional")
    )


def _reproduce(
    index: int, guarantee: Guarantee, transcripts: Mapping[str, Mechanism]
) -> Reproduction:
    def finding(code: str | None, message: str, recomputed: float | None = None) -> Reproduction:
        return Reproduction(
            index=index,
            code=code,
            claimed=guarantee.epsilon,
            recomputed=recomputed,
            message=message,
        )

    if guarantee.transcript is None or guarantee.transcript not in transcripts:
        return finding("NO_TRANSCRIPT", "no transcript, so epsilon can't be recomputed")
    obstacle = _obstacle(guarantee, transcripts[guarantee.transcript])
    if obstacle is not None:
        return finding("EPSILON_NOT_REPRODUCED", obstacle)
    contradiction = _contradiction(_points(guarantee))
    if contradiction is not None:
        return finding("EPSILON_NOT_REPRODUCED", contradiction)
    return _compare(guarantee, transcripts[guarantee.transcript], finding)


def _compare(guarantee: Guarantee, transcript: Mechanism, finding: _Finding) -> Reproduction:
    # numpy is loaded only where something is to be recomputed.
    from hushdoc.accounting import rdp

    points = _points(guarantee)
    recomputed = rdp.profile(transcript, [delta for _, delta in points])
    for (claimed, delta), (found, _) in zip(points, recomputed, strict=True):
        # The engine adds ROUNDING on top of the truth; half of it is left to other machines.
        if not claimed * (1 + rdp.ROUNDING / 2) >= found:
            return finding(
                "EPSILON_NOT_REPRODUCED",
                f"epsilon {claimed:g} is stated at delta {delta:g}, the transcript gives {found:g}",
                recomputed[0][0],
            )
    return finding(
        None,
        f"epsilon {points[0][0]:g} is stated, the transcript gives {recomputed[0][0]:g}",
        recomputed[0][0],
    )


def _points(guarantee: Guarantee) -> list[tuple[float, float]]:
    """The promise and the points of its profile; a number that is missing makes it unprovable."""
    epsilon = -1.0 if guarantee.epsilon is None else guarantee.epsilon
    return [(epsilon, guarantee.delta or 0.0), *guarantee.profile]


def _obstacle(guarantee: Guarantee, transcript: Mechanism) -> str | None:
    """Returns why this engine can't speak about the guarantee, or None."""
    if guarantee.adjacency != "add-remove":
        return f"adjacency {guarantee.adjacency} is stated, this engine recomputes add-remove"
    if guarantee.accountant.name not in CERTIFYING_ACCOUNTANTS:
        return f"accountant {guarantee.accountant.name} does not bound epsilon from above"
    steps = set(_steps(transcript))
    if len(steps) > MAX_DIFFERENT_STEPS:
        return f"{len(steps)} different steps, this engine recomputes up to {MAX_DIFFERENT_STEPS}"
    return None


def _contradiction(points: list[tuple[float, float]]) -> str | None:
    """Returns which two points can't both be the promise: epsilon falls as delta grows."""
    ordered = sorted(points, key=lambda point: (point[1], -point[0]))
    for (epsilon, delta), (weaker_epsilon, weaker_delta) in zip(ordered, ordered[1:], strict=False):
        if weaker_epsilon > epsilon or (delta == weaker_delta and epsilon != weaker_epsilon):
            return (
                f"the profile states epsilon {epsilon:g} at delta {delta:g} and "
                f"{weaker_epsilon:g} at delta {weaker_delta:g}, which contradict one another"
            )
    return None


def _steps(event: Mechanism) -> Iterator[Mechanism]:
    match event:
        case Composed():
            yield from _steps(event.event)
        case Sequence():
            for part in event.events:
                yield from _steps(part)
        case _:
            yield event
