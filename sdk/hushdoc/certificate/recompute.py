"""Recomputation: whether the numbers of a claim follow from its own transcripts.

Three modes. `fast`: Renyi accounting in milliseconds, which proves most claims; only what it does
not prove goes to the exact engine. `exact`: privacy loss distributions at once. `offline`: exact,
and google/differential-privacy must confirm it as a second implementation, which is looser for
some mechanisms and does not support others. Each proves arithmetic, not that training ran that
way; that is what assurance and audits are for. A claim that can't be reproduced is refused,
whatever else may prove it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate.claim import Claim, Guarantee

RECOMPUTE_MODES = ("fast", "exact", "offline")
"""How epsilon is recomputed."""

CERTIFYING_ACCOUNTANTS = frozenset({"pld", "prv", "rdp", "zcdp", "analytic-gaussian"})
"""Accountants whose epsilon is an upper bound. gdp-clt gives 6.07 where 7.98 holds."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The result of recomputing one guarantee: `code` is None where all numbers follow."""

    index: int
    code: str | None
    claimed: float | None
    recomputed: float | None
    message: str


def reproduce(claim: Claim, *, mode: str = "fast") -> tuple[Reproduction, ...]:
    """Returns one result for each guarantee of kind dp or dp-conditional."""
    found = []
    for index, guarantee in enumerate(claim.guarantees):
        if guarantee.kind in ("dp", "dp-conditional"):
            code, message, least = _reproduced(
                guarantee, claim.transcripts.get(guarantee.transcript or ""), mode
            )
            found.append(
                Reproduction(
                    index=index,
                    code=code,
                    claimed=guarantee.epsilon,
                    recomputed=least,
                    message=message,
                )
            )
    return tuple(found)


def _reproduced(
    guarantee: Guarantee, transcript: Mechanism | None, mode: str
) -> tuple[str | None, str, float | None]:
    """Returns code, message and recomputed epsilon."""
    if transcript is None:
        return "NO_TRANSCRIPT", "no transcript, so epsilon can't be recomputed", None
    if guarantee.accountant.name not in CERTIFYING_ACCOUNTANTS:
        obstacle = f"accountant {guarantee.accountant.name} does not bound epsilon from above"
        return "EPSILON_NOT_REPRODUCED", obstacle, None
    contradiction = _contradiction(_points(guarantee))
    if contradiction is not None:
        return "EPSILON_NOT_REPRODUCED", contradiction, None
    for claimed, delta in _points(guarantee):
        if mode == "fast" and _proven_by_rdp(transcript, claimed, delta, guarantee.adjacency):
            continue
        obstacle_found = _unproven(transcript, claimed, delta, guarantee.adjacency, mode)
        if obstacle_found is not None:
            return "EPSILON_NOT_REPRODUCED", obstacle_found, _least(guarantee, transcript, mode)
    least = _least(guarantee, transcript, mode)
    return (
        None,
        f"epsilon {guarantee.epsilon:g} is declared, the transcript gives {least:.6g}",
        least,
    )


def _proven_by_rdp(transcript: Mechanism, epsilon: float, delta: float, adjacency: str) -> bool:
    # numpy is loaded only where something is to be recomputed.
    from hushdoc.accounting import rdp

    # The engine adds ROUNDING on top of the truth; half of it is left to other machines.
    return rdp.epsilon(transcript, delta, adjacency=adjacency) <= epsilon * (1 + rdp.ROUNDING / 2)


def _unproven(
    transcript: Mechanism, epsilon: float, delta: float, adjacency: str, mode: str
) -> str | None:
    """Returns why a point is not proven, or None where the exact engine, or both, prove it."""
    from hushdoc.accounting import pld

    if not pld.holds(transcript, epsilon, delta, adjacency=adjacency):
        least = pld.epsilon(transcript, delta, adjacency=adjacency)
        return (
            f"epsilon {epsilon:g} is declared at delta {delta:g}, the transcript gives {least:.6g}"
        )
    if mode != "offline":
        return None
    from hushdoc.accounting import offline

    second = offline.epsilon(transcript, delta, adjacency=adjacency)
    if second is None:
        return "dp-accounting does not support this transcript, so it can't confirm it"
    if not second <= epsilon:
        return (
            f"epsilon {epsilon:g} is declared at delta {delta:g}, dp-accounting confirms no less "
            f"than {second:.6g}"
        )
    return None


def _least(guarantee: Guarantee, transcript: Mechanism, mode: str) -> float:
    """The transcript's epsilon by the engine that had to decide."""
    from hushdoc.accounting import pld, rdp

    claimed, delta = _points(guarantee)[0]
    if mode == "fast" and _proven_by_rdp(transcript, claimed, delta, guarantee.adjacency):
        return rdp.epsilon(transcript, delta, adjacency=guarantee.adjacency)
    return pld.epsilon(transcript, delta, adjacency=guarantee.adjacency)


def _points(guarantee: Guarantee) -> list[tuple[float, float]]:
    """The guarantee and the points of its profile; a missing number makes it unprovable."""
    epsilon = -1.0 if guarantee.epsilon is None else guarantee.epsilon
    return [(epsilon, guarantee.delta or 0.0), *guarantee.profile]


def _contradiction(points: list[tuple[float, float]]) -> str | None:
    """Returns which two points contradict one another: epsilon falls as delta grows."""
    ordered = sorted(points, key=lambda point: (point[1], -point[0]))
    for (epsilon, delta), (weaker_epsilon, weaker_delta) in zip(ordered, ordered[1:], strict=False):
        if weaker_epsilon > epsilon or (delta == weaker_delta and epsilon != weaker_epsilon):
            return (
                f"the profile gives epsilon {epsilon:g} at delta {delta:g} and "
                f"{weaker_epsilon:g} at delta {weaker_delta:g}, which contradict one another"
            )
    return None
