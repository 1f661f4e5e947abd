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

from hushdoc.accounting.mechanism import Mechanism, num_events
from hushdoc.accounting.work import Work
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.errors import LimitExceededError

RECOMPUTE_MODES = ("fast", "exact", "offline")
"""How epsilon is recomputed."""

CERTIFYING_ACCOUNTANTS = frozenset({"pld", "prv", "rdp", "zcdp", "analytic-gaussian"})
"""Accountants whose epsilon is an upper bound. gdp-clt gives 6.07 where 7.98 holds."""

MAX_QUESTIONS = 20_000
"""Points of all guarantees, each times the events of its transcript."""

MAX_WORK = 12_000_000
"""Of one certificate, in the units of `accounting.work`: a second or two on one core."""

_UNITS_OF_A_SECOND_OPINION = 500_000


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The result of recomputing one guarantee: `code` is None where all numbers follow."""

    index: int
    code: str | None
    claimed: float | None
    recomputed: float | None
    message: str


def reproduce(claim: Claim, *, mode: str = "fast") -> tuple[Reproduction, ...]:
    """Returns one result for each guarantee of kind dp or dp-conditional.

    All guarantees together may take MAX_QUESTIONS and MAX_WORK; the rest is not reproduced.
    """
    claimed = [
        (index, guarantee, claim.transcripts.get(guarantee.transcript or ""))
        for index, guarantee in enumerate(claim.guarantees)
        if guarantee.kind in ("dp", "dp-conditional")
    ]
    questions = sum(_questions(guarantee, transcript) for _, guarantee, transcript in claimed)
    work, known = Work(limit=MAX_WORK), set[tuple[str | None, str]]()
    found = []
    for index, guarantee, transcript in claimed:
        code: str | None
        least: float | None
        try:
            if questions > MAX_QUESTIONS:
                raise LimitExceededError(_too_many(questions))
            if transcript is not None and (guarantee.transcript, guarantee.adjacency) not in known:
                known.add((guarantee.transcript, guarantee.adjacency))
                _count_renyi(transcript, guarantee.adjacency, work)
            code, message, least = _reproduced(guarantee, transcript, mode, work)
        except LimitExceededError as problem:
            code, message, least = "EPSILON_NOT_REPRODUCED", str(problem).rstrip("."), None
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


def _questions(guarantee: Guarantee, transcript: Mechanism | None) -> int:
    """Points times events: what any reader has to answer, whatever its engine."""
    return 0 if transcript is None else len(_points(guarantee)) * num_events(transcript)


def _too_many(questions: int) -> str:
    return (
        f"the points of all guarantees times the events of their transcripts are {questions}, at "
        f"most {MAX_QUESTIONS} are recomputed"
    )


def _count_renyi(transcript: Mechanism, adjacency: str, work: Work) -> None:
    from hushdoc.accounting import rdp

    work.add(rdp.work_of(transcript, adjacency=adjacency))


def _reproduced(
    guarantee: Guarantee, transcript: Mechanism | None, mode: str, work: Work
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
    first = None
    for claimed, delta in _points(guarantee):
        obstacle_found, least = _judged(
            transcript, claimed, delta, guarantee.adjacency, mode=mode, work=work
        )
        first = least if first is None else first
        if obstacle_found is not None:
            return "EPSILON_NOT_REPRODUCED", obstacle_found, first
    return (
        None,
        f"epsilon {guarantee.epsilon:g} is declared, the transcript gives {first:.6g}",
        first,
    )


def _judged(
    transcript: Mechanism, epsilon: float, delta: float, adjacency: str, *, mode: str, work: Work
) -> tuple[str | None, float]:
    """Returns why a point is not proven, or None; and the epsilon of the engine that decided."""
    # numpy is loaded only where something is to be recomputed.
    from hushdoc.accounting import pld, rdp

    if mode == "fast":
        renyi = rdp.epsilon(transcript, delta, adjacency=adjacency)
        # The engine adds ROUNDING on top of the truth; half of it is left to other machines.
        if renyi <= epsilon * (1 + rdp.ROUNDING / 2):
            return None, renyi
    proven, least = pld.decide(transcript, epsilon, delta, adjacency=adjacency, work=work)
    if not proven:
        return (
            f"epsilon {epsilon:g} is declared at delta {delta:g}, the transcript gives {least:.6g}",
            least,
        )
    if mode == "offline":
        return _unconfirmed(transcript, epsilon, delta, adjacency, work), least
    return None, least


def _unconfirmed(
    transcript: Mechanism, epsilon: float, delta: float, adjacency: str, work: Work
) -> str | None:
    """Returns why a second implementation does not confirm a point, or None where it does."""
    from hushdoc.accounting import offline

    work.add(_UNITS_OF_A_SECOND_OPINION)
    second = offline.epsilon(transcript, delta, adjacency=adjacency)
    if second is None:
        return "dp-accounting does not support this transcript, so it can't confirm it"
    if not second <= epsilon:
        return (
            f"epsilon {epsilon:g} is declared at delta {delta:g}, dp-accounting confirms no less "
            f"than {second:.6g}"
        )
    return None


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
