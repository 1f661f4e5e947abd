"""Checks of a certificate against a policy; what is not declared is denied.

`check` is a pure function of policy and certificate, so that checking one model can't change what
is accepted of the next. There is no way to skip a check silently: `Policy.integrity_only` is the
named one, and its report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.arguments import printable
from hushdoc.certificate import vocabulary
from hushdoc.certificate.audit_reports import AuditReport, refuted
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import WATCHES_TRAINING, Claim, Guarantee
from hushdoc.policy.policy import Policy
from hushdoc.policy.report import PolicyReport, RuleResult


def check(
    policy: Policy, certificate: Certificate, *, audits: Iterable[AuditReport] = ()
) -> PolicyReport:
    """Returns the result of every rule of the policy; none of them hides another.

    All guarantees against the policy's adversary for an accepted unit must pass. Where there is
    none for an accepted unit, those for other units are judged, so that the report is complete.
    Signature and identity have been checked; `audits` are what trusted auditors signed, besides
    the issuer's own. Recomputing `offline` needs dp-accounting (MissingExtraError).
    """
    if not policy.privacy_required:
        return PolicyReport(rules=(_integrity_only(),))
    claim = certificate.claim
    against = [item for item in claim.guarantees if item.adversary == policy.adversary]
    accepted = [item for item in against if item.unit in policy.privacy_units]
    judged = accepted or against
    rules = [
        _assurance(policy, certificate),
        RuleResult(
            rule="adversary",
            code="NO_GUARANTEE_FOR_ADVERSARY",
            found=_words(item.adversary for item in claim.guarantees),
            allowed=policy.adversary,
            passed=bool(against),
        ),
        RuleResult(
            rule="unit",
            code="UNIT_NOT_ACCEPTED",
            found=_words(item.unit for item in against),
            allowed=_words(policy.privacy_units),
            passed=bool(accepted),
        ),
    ]
    for guarantee in judged or (None,):
        rules += _guarantee_rules(policy, guarantee, claim.transcripts)
    rules += [
        _accesses(policy, claim, judged),
        _derivation(policy, certificate),
        _overlap(policy, claim),
        _audits(claim, judged, audits),
    ]
    return PolicyReport(rules=(*rules, *_recomputed(certificate, policy)))


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """A rule about one guarantee: what it reads, what it allows, when it passes."""

    name: str
    code: str
    found: Callable[[Guarantee], str]
    allowed: Callable[[Policy], str]
    passes: Callable[[Policy, Guarantee, Mapping[str, Mechanism]], bool]


def _among(name: str, code: str, attribute: str, limit: str) -> _Rule:
    """The rule that the policy accepts a word of the guarantee."""
    return _Rule(
        name=name,
        code=code,
        found=attrgetter(attribute),
        allowed=lambda policy: _words(getattr(policy, limit)),
        passes=lambda policy, item, _: attrgetter(attribute)(item) in getattr(policy, limit),
    )


def _at_most(name: str, code: str, limit: str) -> _Rule:
    """The rule that a number of the guarantee exists and is within the limit."""

    def passes(policy: Policy, item: Guarantee, _: Mapping[str, Mechanism]) -> bool:
        value = getattr(item, name)
        return value is not None and value <= getattr(policy, limit)

    return _Rule(
        name=name,
        code=code,
        found=lambda item: (
            "no number" if getattr(item, name) is None else f"{getattr(item, name):g}"
        ),
        allowed=lambda policy: f"at most {getattr(policy, limit):g}",
        passes=passes,
    )


_GUARANTEE_RULES = (
    _among("kind", "KIND_NOT_ALLOWED", "kind", "kinds"),
    _among("adjacency", "ADJACENCY_NOT_ACCEPTED", "adjacency", "adjacency"),
    _among("accountant", "ACCOUNTANT_NOT_ACCEPTED", "accountant.name", "accountants"),
    _at_most("epsilon", "EPSILON_TOO_LARGE", "max_epsilon"),
    _at_most("delta", "DELTA_TOO_LARGE", "max_delta"),
    _Rule(
        name="coverage",
        code="UNACCOUNTED_ACCESS",
        found=lambda item: (
            "every access" if item.covers_all_private_accesses else "not every access"
        ),
        allowed=lambda policy: "every access" if policy.require_full_coverage else "any",
        passes=lambda policy, item, _: (
            item.covers_all_private_accesses or not policy.require_full_coverage
        ),
    ),
    _Rule(
        name="sampling",
        code="SAMPLING_MISMATCH",
        found=attrgetter("sampling_as_implemented"),
        allowed=lambda policy: "as accounted" if policy.require_sampling_as_implemented else "any",
        passes=lambda policy, item, transcripts: (
            not policy.require_sampling_as_implemented or _sampled_as_accounted(item, transcripts)
        ),
    ),
    _among("tuning", "TUNING_NOT_ACCEPTED", "hyperparameter_tuning", "hyperparameter_tuning"),
    _among("noise source", "RNG_NOT_ACCEPTED", "rng", "rngs"),
)


def _guarantee_rules(
    policy: Policy, guarantee: Guarantee | None, transcripts: Mapping[str, Mechanism]
) -> list[RuleResult]:
    """The results of the rules about one guarantee; without a guarantee each of them fails."""
    return [
        RuleResult(
            rule=rule.name if guarantee is None else f"{rule.name} ({guarantee.unit})",
            code=rule.code,
            found="no such guarantee" if guarantee is None else rule.found(guarantee),
            allowed=rule.allowed(policy),
            passed=guarantee is not None and rule.passes(policy, guarantee, transcripts),
        )
        for rule in _GUARANTEE_RULES
    ]


def _sampled_as_accounted(guarantee: Guarantee, transcripts: Mapping[str, Mechanism]) -> bool:
    """Whether batches were sampled as the transcript accounts for them.

    Without amplification full batches pass as well. Shuffled or fixed-size batches do not: one
    record more changes which others are sampled.
    """
    if guarantee.transcript is None or guarantee.transcript not in transcripts:
        return False
    transcript = transcripts[guarantee.transcript]
    fitting = {"poisson"} if mechanism.is_amplified(transcript) else {"poisson", "full-batch"}
    if mechanism.is_fixed_size(transcript):
        # No batch is both of a fixed size and a Poisson sample.
        fitting = {"fixed-size"} if "full-batch" in fitting else set()
    return guarantee.sampling_as_implemented in fitting


def _accesses(policy: Policy, claim: Claim, judged: list[Guarantee]) -> RuleResult:
    backing = {guarantee.transcript for guarantee in judged}
    open_accesses = [
        f"{printable(access.purpose)} ({access.treatment})"
        for access in claim.data_accesses
        if access.treatment == "unaccounted"
        or (access.accounted_in and not (backing and backing <= {*access.accounted_in}))
    ]
    read = {access.data for access in claim.data_accesses}
    unread = [data.name for data in claim.protected_data if data.name not in read]
    found = [*open_accesses, *(f"no access to {printable(name)} is declared" for name in unread)]
    if not claim.protected_data:
        found.append("no protected data is declared")
    return RuleResult(
        rule="data accesses",
        code="UNACCOUNTED_ACCESS",
        found=_words(found) if found else "all accounted for",
        allowed="all accounted for" if policy.require_full_coverage else "any",
        passed=not found or not policy.require_full_coverage,
    )


def _derivation(policy: Policy, certificate: Certificate) -> RuleResult:
    dependent = [
        printable(step["step"]) for step in certificate.derivation if step["dataDependent"]
    ]
    return RuleResult(
        rule="derivation",
        code="UNACCOUNTED_ACCESS",
        found=_words(dependent) if dependent else "no step read protected data",
        allowed="no step read protected data" if policy.require_full_coverage else "any",
        passed=not dependent or not policy.require_full_coverage,
    )


def _overlap(policy: Policy, claim: Claim) -> RuleResult:
    found = {data.overlap_with_protected for data in claim.public_data}
    return RuleResult(
        rule="public data overlap",
        code="PUBLIC_DATA_OVERLAP",
        found=_words(found) if found else "no public data",
        allowed=_words(policy.public_overlap),
        passed=found <= set(policy.public_overlap),
    )


def _audits(claim: Claim, judged: list[Guarantee], reports: Iterable[AuditReport]) -> RuleResult:
    """An audit that refutes a guarantee always rejects, whoever ran it."""
    measured = [*claim.audits, *(audit for report in reports for audit in report.audits)]
    found = []
    for guarantee in judged:
        epsilon, delta = guarantee.epsilon, guarantee.delta
        if epsilon is None or delta is None:
            continue
        bound = guarantee.audit_lower_bound
        if bound is not None and bound > epsilon:
            found.append(f"the issuer's own lower bound {bound:g} lies above epsilon {epsilon:g}")
        about = [
            audit
            for audit in measured
            if audit.unit == guarantee.unit and _sees_no_more(audit.adversary, guarantee.adversary)
        ]
        against = refuted([(epsilon, delta), *guarantee.profile], about)
        if against is not None:
            audit, (claimed, _) = against
            found.append(
                f"{printable(audit.method, limit=80)} shows at least {audit.epsilon_lower:g}, "
                f"{claimed:g} is declared"
            )
    return RuleResult(
        rule="audits",
        code="AUDIT_CONTRADICTION",
        found=_words(found)
        if found
        else f"{len(measured)} audit{'s' * (len(measured) != 1)}, none above the claim",
        allowed="no lower bound above the claim",
        passed=not found,
    )


def _sees_no_more(auditor: str, adversary: str) -> bool:
    """Whether the adversary can do all that an auditor with this view can."""
    wider = {
        "api-user": ("model-recipient", *WATCHES_TRAINING),
        "model-recipient": WATCHES_TRAINING,
    }
    return auditor == adversary or adversary in wider.get(auditor, ())


def _assurance(policy: Policy, certificate: Certificate) -> RuleResult:
    ranks = vocabulary.ASSURANCES
    return RuleResult(
        rule="assurance",
        code="ASSURANCE_TOO_LOW",
        found=certificate.assurance,
        allowed=f"at least {policy.min_assurance}",
        passed=ranks.index(certificate.assurance) >= ranks.index(policy.min_assurance),
    )


def _recomputed(certificate: Certificate, policy: Policy) -> list[RuleResult]:
    return [
        RuleResult(
            rule=f"recompute ({certificate.claim.guarantees[finding.index].unit})",
            code=finding.code or "EPSILON_NOT_REPRODUCED",
            found=finding.message,
            allowed="at least what the transcript gives",
            passed=finding.code is None,
        )
        for finding in certificate.recompute(policy.recompute)
    ]


def _integrity_only() -> RuleResult:
    return RuleResult(
        rule="integrity only",
        code="NO_POLICY",
        found="no privacy rule was checked",
        allowed="anything: the policy demands a signature and intact files only",
        passed=True,
    )


def _words(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values))) or "none"
