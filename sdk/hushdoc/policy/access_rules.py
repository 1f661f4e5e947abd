"""Rules about what was read: protected data, what was done afterwards, and public data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.arguments import printable
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, DataAccess, Guarantee
from hushdoc.policy.policy import Policy
from hushdoc.policy.report import RuleResult, words


def access_rules(
    policy: Policy, certificate: Certificate, judged: Sequence[Guarantee]
) -> list[RuleResult]:
    """Returns the results of all rules about accesses to data."""
    claim = certificate.claim
    return [
        _treatments(policy, claim),
        _accesses(policy, claim, judged),
        _transcripts(policy, claim, judged),
        _derivation(policy, certificate),
        _overlap(policy, claim),
    ]


def _treatments(policy: Policy, claim: Claim) -> RuleResult:
    found = [
        f"{printable(access.purpose)} ({access.treatment})"
        for access in claim.data_accesses
        if access.treatment not in policy.treatments
    ]
    treated = words(access.treatment for access in claim.data_accesses)
    return _coverage(policy, "treatments", found, words(policy.treatments), sound=treated)


def _accesses(policy: Policy, claim: Claim, judged: Sequence[Guarantee]) -> RuleResult:
    backing = {guarantee.transcript for guarantee in judged}
    accounted = [access for access in claim.data_accesses if access.accounted_in]
    found = [
        f"{printable(access.purpose)} (accounted in {obstacle})"
        for access in accounted
        for obstacle in _obstacles(access, backing, claim.transcripts)
    ]
    covered = {access.data for access in accounted}
    found += [
        f"no access to {printable(data.name)} is accounted"
        for data in claim.protected_data
        if data.name not in covered
    ]
    if not claim.protected_data:
        found.append("no protected data is declared")
    return _coverage(policy, "data accesses", found, "all accounted for")


def _obstacles(
    access: DataAccess, backing: set[str | None], transcripts: Mapping[str, Mechanism]
) -> Iterable[str]:
    """Why the transcripts of an access do not account for it."""
    if not (backing and backing <= {*access.accounted_in}):
        yield f"{words(map(printable, access.accounted_in))}, not for every guarantee"
    for name in access.accounted_in:
        if name in transcripts and not mechanism.reads_data(transcripts[name]):
            yield f"{printable(name)}, which reads nothing"


def _transcripts(policy: Policy, claim: Claim, judged: Sequence[Guarantee]) -> RuleResult:
    """A transcript that no guarantee rests on would be spent and counted nowhere."""
    resting = [item for item in claim.guarantees if item.kind in ("dp", "dp-conditional")]
    used = {item.transcript for item in (*judged, *resting)}
    found = [f"no guarantee rests on {printable(name)}" for name in claim.transcripts.keys() - used]
    return _coverage(policy, "transcripts", found, "those of guarantees")


def _derivation(policy: Policy, certificate: Certificate) -> RuleResult:
    dependent = [
        printable(step["step"]) for step in certificate.derivation if step["dataDependent"]
    ]
    allowed = "no step read protected data"
    return _coverage(policy, "derivation", dependent, allowed)


def _coverage(
    policy: Policy, rule: str, found: list[str], allowed: str, *, sound: str = ""
) -> RuleResult:
    """A rule that passes where nothing is found, or full coverage is not required."""
    return RuleResult(
        rule=rule,
        code="UNACCOUNTED_ACCESS",
        found=words(found) if found else sound or allowed,
        allowed=allowed if policy.require_full_coverage else "any",
        passed=not found or not policy.require_full_coverage,
    )


def _overlap(policy: Policy, claim: Claim) -> RuleResult:
    found = {data.overlap_with_protected for data in claim.public_data}
    passed = found <= set(policy.public_overlap)
    told = "" if passed else "; who trains declares it by --public-overlap"
    return RuleResult(
        rule="public data overlap",
        code="PUBLIC_DATA_OVERLAP",
        found=words(found) if found else "no public data",
        allowed=words(policy.public_overlap) + told,
        passed=passed,
    )
