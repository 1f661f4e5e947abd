"""Checks of a certificate against a policy; what is not declared is denied.

`check` is a pure function of policy and certificate, so that checking one model can't change what
is accepted of the next. There is no way to skip a check silently: `Policy.integrity_only` is the
named one, and its report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from hushdoc.accounting import mechanism
from hushdoc.certificate import vocabulary
from hushdoc.certificate.audit_reports import AuditReport
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import Claim, Guarantee
from hushdoc.policy.access_rules import access_rules
from hushdoc.policy.contradiction_rules import contradiction_rules
from hushdoc.policy.policy import Policy
from hushdoc.policy.report import PolicyReport, RuleResult, words


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
            found=words(item.adversary for item in claim.guarantees),
            allowed=policy.adversary,
            passed=bool(against),
        ),
        RuleResult(
            rule="unit",
            code="UNIT_NOT_ACCEPTED",
            found=words(item.unit for item in against),
            allowed=words(policy.privacy_units),
            passed=bool(accepted),
        ),
    ]
    for guarantee in judged or (None,):
        rules += _guarantee_rules(policy, guarantee, claim)
    rules += access_rules(policy, certificate, judged)
    rules += contradiction_rules(claim, judged, audits)
    return PolicyReport(rules=(*rules, *_recomputed(certificate, policy)))


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """A rule about one guarantee: what it reads, what it allows, when it passes."""

    name: str
    code: str
    found: Callable[[Guarantee], str]
    allowed: Callable[[Policy], str]
    passes: Callable[[Policy, Guarantee, Claim], bool]


def _among(name: str, code: str, attribute: str, limit: str) -> _Rule:
    """The rule that the policy accepts a word of the guarantee."""
    return _Rule(
        name=name,
        code=code,
        found=attrgetter(attribute),
        allowed=lambda policy: words(getattr(policy, limit)),
        passes=lambda policy, item, _: attrgetter(attribute)(item) in getattr(policy, limit),
    )


def _at_most(name: str, code: str, limit: str) -> _Rule:
    """The rule that a number of the guarantee exists and is within the limit."""

    def passes(policy: Policy, item: Guarantee, _: Claim) -> bool:
        value = getattr(item, name)
        return value is not None and value <= getattr(policy, limit)

    return _Rule(
        name=name,
        code=code,
        found=lambda item: (
            "no number" if getattr(item, name) is None else f"{getattr(item, name):.15g}"
        ),
        allowed=lambda policy: f"at most {getattr(policy, limit):.15g}",
        passes=passes,
    )


_GUARANTEE_RULES = (
    _Rule(
        name="unit of the data",
        code="UNIT_NOT_IN_DATA",
        found=attrgetter("unit"),
        allowed=lambda policy: "a unit of all protected data",
        passes=lambda policy, item, claim: all(
            item.unit in [unit.unit for unit in data.units] for data in claim.protected_data
        ),
    ),
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
        passes=lambda policy, item, claim: (
            not policy.require_sampling_as_implemented or _sampled_as_accounted(item, claim)
        ),
    ),
    _Rule(
        name="cluster sampling",
        code="SAMPLING_MISMATCH",
        found=attrgetter("cluster_sampling_as_implemented"),
        allowed=lambda policy: "as accounted" if policy.require_sampling_as_implemented else "any",
        passes=lambda policy, item, claim: (
            not policy.require_sampling_as_implemented or _clusters_as_accounted(item, claim)
        ),
    ),
    _among("tuning", "TUNING_NOT_ACCEPTED", "hyperparameter_tuning", "hyperparameter_tuning"),
    _among("noise source", "RNG_NOT_ACCEPTED", "rng", "rngs"),
)


def _guarantee_rules(policy: Policy, guarantee: Guarantee | None, claim: Claim) -> list[RuleResult]:
    """The results of the rules about one guarantee; without a guarantee each of them fails."""
    return [
        RuleResult(
            rule=rule.name if guarantee is None else f"{rule.name} ({guarantee.unit})",
            code=rule.code,
            found="no such guarantee" if guarantee is None else rule.found(guarantee),
            allowed=rule.allowed(policy),
            passed=guarantee is not None and rule.passes(policy, guarantee, claim),
        )
        for rule in _GUARANTEE_RULES
    ]


def _sampled_as_accounted(guarantee: Guarantee, claim: Claim) -> bool:
    """Whether batches were sampled as the transcript accounts for them.

    Without amplification full batches pass as well. Shuffled or fixed-size batches do not: one
    record more changes which others are sampled.
    """
    transcript = claim.transcripts.get(guarantee.transcript or "")
    if transcript is None:
        return False
    fitting = {"poisson"} if mechanism.is_amplified(transcript) else {"poisson", "full-batch"}
    if mechanism.is_fixed_size(transcript):
        # No batch is both of a fixed size and a Poisson sample.
        fitting = {"fixed-size"} if "full-batch" in fitting else set()
    return guarantee.sampling_as_implemented in fitting


def _clusters_as_accounted(guarantee: Guarantee, claim: Claim) -> bool:
    """Whether clusters were drawn anew in each round, where the transcript counts on that."""
    transcript = claim.transcripts.get(guarantee.transcript or "")
    if transcript is None or not mechanism.draws_clusters(transcript):
        return True
    return guarantee.cluster_sampling_as_implemented == "each-round"


def _assurance(policy: Policy, certificate: Certificate) -> RuleResult:
    ranks = vocabulary.ASSURANCES
    return RuleResult(
        rule="assurance",
        code="ASSURANCE_TOO_LOW",
        found=f"{certificate.assurance}, as the signers say",
        allowed=f"at least {policy.min_assurance}",
        passed=ranks.index(certificate.assurance) >= ranks.index(policy.min_assurance),
    )


def _recomputed(certificate: Certificate, policy: Policy) -> list[RuleResult]:
    """The results for all guarantees, whoever their adversaries are."""
    guarantees = certificate.claim.guarantees
    return [
        RuleResult(
            rule=f"recompute ({guarantees[finding.index].unit}, "
            f"{guarantees[finding.index].adversary})",
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
