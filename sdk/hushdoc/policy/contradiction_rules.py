"""Rules about what contradicts a guarantee: others in its own certificate, and audits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hushdoc.arguments import printable
from hushdoc.certificate import adversaries
from hushdoc.certificate.audit_reports import Audit, AuditReport, refuted
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.policy.report import RuleResult, words


def contradiction_rules(
    claim: Claim, judged: Sequence[Guarantee], reports: Iterable[AuditReport]
) -> list[RuleResult]:
    """Returns the results of all rules about contradictions."""
    return [_adversaries(claim), _audits(claim, judged, reports)]


def _adversaries(claim: Claim) -> RuleResult:
    """Whoever sees less can't learn more, so a certificate that says so is wrong somewhere."""
    found = [
        f"{_short(lesser)} against {lesser.adversary}, who sees less than {wider.adversary} "
        f"({_short(wider)})"
        for lesser, wider in adversaries.contradictions(claim.guarantees)
    ]
    return RuleResult(
        rule="adversaries",
        code="GUARANTEES_CONTRADICT",
        found=words(found) if found else "none is weaker for an adversary who sees less",
        allowed="none weaker for an adversary who sees less",
        passed=not found,
    )


def _short(item: Guarantee) -> str:
    numbers = "" if item.epsilon is None else f" with epsilon {item.epsilon:g} at {item.delta:g}"
    return f"{item.kind}{numbers} for a {item.unit}"


def _audits(
    claim: Claim, judged: Sequence[Guarantee], reports: Iterable[AuditReport]
) -> RuleResult:
    """An audit that refutes a guarantee always rejects, whoever ran it."""
    measured = [*claim.audits, *(audit for report in reports for audit in report.audits)]
    found = [shown for guarantee in judged for shown in _refutations(guarantee, measured)]
    return RuleResult(
        rule="audits",
        code="AUDIT_CONTRADICTION",
        found=words(found)
        if found
        else f"{len(measured)} audit{'s' * (len(measured) != 1)}, none above the claim",
        allowed="no lower bound above the claim",
        passed=not found,
    )


def _refutations(guarantee: Guarantee, measured: Sequence[Audit]) -> Iterable[str]:
    """What shows that a guarantee with numbers does not hold."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon is None or delta is None:
        return
    bound = guarantee.audit_lower_bound
    if bound is not None and bound > epsilon:
        yield f"the issuer's own lower bound {bound:g} lies above epsilon {epsilon:g}"
    about = [
        audit
        for audit in measured
        if audit.unit == guarantee.unit
        and adversaries.sees_no_more(audit.adversary, guarantee.adversary)
    ]
    against = refuted([(epsilon, delta), *guarantee.profile], about)
    if against is not None:
        audit, shown, (claimed, _) = against
        how = "shows" if audit.epsilon_lower is not None else "has rates that show"
        method = printable(audit.method, limit=80)
        yield f"{method} {how} at least {shown:g}, {claimed:g} is declared"
