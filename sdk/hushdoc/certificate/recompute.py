"""Reproduction: whether the numbers of a claim follow from its own transcripts.

Three ways. `fast`: Renyi accounting in milliseconds, which proves most claims; only one below what
it proves goes to the exact engine. `exact`: privacy loss distributions at once. `offline`: exact,
and google/differential-privacy must confirm it as a second implementation, which is looser for
some mechanisms and has no words for others. Each proves arithmetic, not that training ran that
way; that is what assurance and audits are for. A claim that can't be reproduced is refused,
whatever else may prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate.claim import Claim, Guarantee

RECOMPUTE_WAYS = ("fast", "exact", "offline")
"""How epsilon is recomputed."""

CERTIFYING_ACCOUNTANTS = frozenset({"pld", "prv", "rdp", "zcdp", "analytic-gaussian"})
"""Accountants whose epsilon is an upper bound. gdp-clt says 6.07 where 7.98 holds."""


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


def reproduce(claim: Claim, *, way: str = "fast") -> tuple[Reproduction, ...]:
    """Returns one finding for each guarantee of kind dp or dp-conditional.

    Args:
        claim: What training says.
        way: One of RECOMPUTE_WAYS.

    Raises:
        MissingExtraError: `offline` needs dp-accounting.
    """
    return tuple(
        _reproduce(index, guarantee, claim.transcripts, way)
        for index, guarantee in enumerate(claim.guarantees)
        if guarantee.kind in ("dp", "dp-conditional")
    )


def _reproduce(
    index: int, guarantee: Guarantee, transcripts: Mapping[str, Mechanism], way: str
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
    obstacle = _obstacle(guarantee)
    if obstacle is not None:
        return finding("EPSILON_NOT_REPRODUCED", obstacle)
    contradiction = _contradiction(_points(guarantee))
    if contradiction is not None:
        return finding("EPSILON_NOT_REPRODUCED", contradiction)
    return _compare(guarantee, transcripts[guarantee.transcript], way, finding)


def _compare(
    guarantee: Guarantee, transcript: Mechanism, way: str, finding: _Finding
) -> Reproduction:
    for claimed, delta in _points(guarantee):
        if way == "fast" and _proven_by_rdp(transcript, claimed, delta, guarantee.adjacency):
            continue
        obstacle = _refuted(transcript, claimed, delta, guarantee.adjacency, way)
        if obstacle is not None:
            return finding("EPSILON_NOT_REPRODUCED", obstacle, _least(guarantee, transcript, way))
    least = _least(guarantee, transcript, way)
    return finding(
        None, f"epsilon {guarantee.epsilon:g} is stated, the transcript gives {least:.6g}", least
    )


def _proven_by_rdp(transcript: Mechanism, epsilon: float, delta: float, adjacency: str) -> bool:
    # numpy is loaded only where something is to be recomputed.
    from hushdoc.accounting import rdp

    # The engine adds ROUNDING on top of the truth; half of it is left to other machines.
    return rdp.epsilon(transcript, delta, adjacency=adjacency) <= epsilon * (1 + rdp.ROUNDING / 2)


def _refuted(
    transcript: Mechanism, epsilon: float, delta: float, adjacency: str, way: str
) -> str | None:
    """Returns why a point is not proven, or None where the exact engine, or both, prove it."""
    from hushdoc.accounting import pld

    if not pld.holds(transcript, epsilon, delta, adjacency=adjacency):
        least = pld.epsilon(transcript, delta, adjacency=adjacency)
        return f"epsilon {epsilon:g} is stated at delta {delta:g}, the transcript gives {least:.6g}"
    if way != "offline":
        return None
    from hushdoc.accounting import offline

    second = offline.epsilon(transcript, delta, adjacency=adjacency)
    if second is None:
        return "dp-accounting has no words for this transcript, so it can't confirm it"
    if not second <= epsilon:
        return (
            f"epsilon {epsilon:g} is stated at delta {delta:g}, dp-accounting confirms no less "
            f"than {second:.6g}"
        )
    return None


def _least(guarantee: Guarantee, transcript: Mechanism, way: str) -> float:
    """What the transcript gives, by the engine that had to decide."""
    from hushdoc.accounting import pld, rdp

    claimed, delta = _points(guarantee)[0]
    if way == "fast" and _proven_by_rdp(transcript, claimed, delta, guarantee.adjacency):
        return rdp.epsilon(transcript, delta, adjacency=guarantee.adjacency)
    return pld.epsilon(transcript, delta, adjacency=guarantee.adjacency)


def _points(guarantee: Guarantee) -> list[tuple[float, float]]:
    """The promise and the points of its profile; a number that is missing makes it unprovable."""
    epsilon = -1.0 if guarantee.epsilon is None else guarantee.epsilon
    return [(epsilon, guarantee.delta or 0.0), *guarantee.profile]


def _obstacle(guarantee: Guarantee) -> str | None:
    """Returns why this engine can't speak about the guarantee, or None."""
    if guarantee.accountant.name not in CERTIFYING_ACCOUNTANTS:
        return f"accountant {guarantee.accountant.name} does not bound epsilon from above"
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
