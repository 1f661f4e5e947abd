"""Audited claims: what training runs' own audits found, and the refusal of what they refute.

Audited is mostly a twin: the same recipe under the same settings on invented documents, with the
noise of a smaller epsilon, because few canaries can refute a small epsilon and none a large one. So
its bound is held against what the twin's own checkpoint claims. A certificate's audit has no field
for that; the claim's `training` says it under AUDITS, one entry for each audit of another run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from hushdoc.arguments import printable, short_repr
from hushdoc.certificate.audit_reports import Audit, refuted
from hushdoc.certificate.claim import WATCHES_TRAINING, Claim, Guarantee
from hushdoc.errors import InputError, PrivacyError
from hushdoc_training.inherited_claims import STARTED_FROM

AUDITS = "audits"
"""The key of a claim's `training` that says what each audited run claimed itself."""

REFUTED = (
    ": what was trained reveals more than its guarantee allows. Release nothing; find what draws, "
    "clips or adds noise otherwise than planned."
)
"""Ends the message of an audit that refutes what it tested."""

_LOWER, _CLAIMED = "epsilon_lower", "claimed_epsilon"


@dataclass(frozen=True, kw_only=True)
class AuditedRun:
    """One audit, and what the run that it attacked claims.

    Attributes:
        audit: With a bound.
        claimed: The epsilon of the audited run's own claim, at the audit's delta.
        ceiling: The bound that the audit would have shown had every guess been right.
        details: How it was done, for people; JSON.
    """

    audit: Audit
    claimed: float
    ceiling: float
    details: Mapping[str, Any] = field(default_factory=dict)

    def require_unrefuted(self) -> None:
        """Raises PrivacyError if the audited run reveals more than it claims."""
        _require(self._entry())

    def _entry(self) -> dict[str, Any]:
        return {
            "method": self.audit.method,
            _CLAIMED: self.claimed,
            _LOWER: self.audit.epsilon_lower,
            "delta": self.audit.delta,
            "confidence": self.audit.confidence,
            "ceiling": self.ceiling,
            **self.details,
        }


def with_audits(claim: Claim, runs: Sequence[AuditedRun]) -> Claim:
    """Returns a claim with the results of audits of its own recipe; without any the same claim."""
    if not runs:
        return claim
    audits = tuple(run.audit for run in runs)
    entries = [run._entry() for run in runs]
    return replace(
        claim,
        audits=(*claim.audits, *audits),
        training={**claim.training, AUDITS: [*claim.training.get(AUDITS, []), *entries]},
        guarantees=tuple(_with_bound(guarantee, audits) for guarantee in claim.guarantees),
    )


def require_unrefuted(claim: Claim) -> None:
    """Refuses a claim that its own audits refute, or hold nothing against.

    Training that goes on from a refuted run releases what that one left, however large its epsilon.

    Raises:
        PrivacyError: An audit shows more than the claim, or than the audited run claims itself.
        InputError: An audit of what is guaranteed has no lower bound, or an entry is malformed.
    """
    for entry in _entries(claim.training):
        _require(entry)
    for guarantee in claim.guarantees:
        if guarantee.kind in ("dp", "dp-conditional"):
            _require_above(guarantee, [audit for audit in claim.audits if _is_of(audit, guarantee)])


def _entries(training: Any) -> Iterator[Any]:
    """Yields what is said of audited runs, of a claim and of all that its training went on from."""
    while isinstance(training, Mapping):
        entries = training.get(AUDITS, [])
        yield from entries if isinstance(entries, list | tuple) else [entries]
        training = training.get(STARTED_FROM)


def _require(entry: Any) -> None:
    lower, claimed = (
        entry.get(key) if isinstance(entry, Mapping) else None for key in (_LOWER, _CLAIMED)
    )
    if not (_is_epsilon(lower) and _is_epsilon(claimed)):
        raise InputError(
            f"An entry of the claim's training.{AUDITS} has {_LOWER} {short_repr(lower)} and "
            f"{_CLAIMED} {short_repr(claimed)}; expected two numbers from 0. Train again.",
            code="BAD_AUDIT",
        )
    if lower > claimed:
        claims = f"the run that it attacked claims {claimed:g}"
        raise _refuted(str(entry.get("method")), lower, claims)


def _is_epsilon(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and value >= 0


def _require_above(guarantee: Guarantee, audits: Sequence[Audit]) -> None:
    for audit in audits:
        if audit.epsilon_lower is None:
            raise InputError(
                f"The audit '{printable(audit.method, limit=80)}' is about one {audit.unit}, for "
                "which epsilon is guaranteed, and has no lower bound of epsilon; expected one with "
                "its delta and confidence. Give the audit the guarantee's delta.",
                code="BAD_AUDIT",
            )
    epsilon, delta, bound = guarantee.epsilon, guarantee.delta, guarantee.audit_lower_bound
    if epsilon is None or delta is None:
        return
    if bound is not None and bound > epsilon:
        raise _refuted("auditLowerBound", bound, f"epsilon {epsilon:g} is guaranteed")
    against = refuted([(epsilon, delta), *guarantee.profile], audits)
    if against is not None:
        audit, lower, (claimed, _) = against
        raise _refuted(audit.method, lower, f"{claimed:g} is guaranteed")


def _refuted(method: str, lower: float, claimed: str) -> PrivacyError:
    return PrivacyError(
        f"The audit '{printable(method, limit=120)}' shows an epsilon of at least {lower:.4g}, and "
        f"{claimed}{REFUTED}",
        code="AUDIT_CONTRADICTION",
    )


def _with_bound(guarantee: Guarantee, audits: Sequence[Audit]) -> Guarantee:
    bounds = [
        audit.epsilon_lower
        for audit in audits
        if _is_of(audit, guarantee) and audit.epsilon_lower is not None
    ]
    if guarantee.kind not in ("dp", "dp-conditional") or not bounds:
        return guarantee
    return replace(guarantee, audit_lower_bound=max(*bounds, guarantee.audit_lower_bound or 0.0))


def _is_of(audit: Audit, guarantee: Guarantee) -> bool:
    """Whether an audit is about the unit of a guarantee, with a view that its adversary has."""
    watched = audit.adversary in WATCHES_TRAINING and audit.adversary != guarantee.adversary
    return audit.unit == guarantee.unit and not watched
