"""Policy: what an application demands of a model's certificate; what is not stated is denied.

A policy is frozen data and `check` a pure function of policy and certificate, so that checking
one model can't change what is accepted of the next. There is no way to skip a check silently:
`Policy.integrity_only` is the named one, and its report says so.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate import Certificate
from hushdoc.claim import OVERLAPS, Claim, Guarantee
from hushdoc.errors import InputError
from hushdoc.explanation import printable
from hushdoc.policy_report import PolicyReport, RuleResult
from hushdoc.reproduction import CERTIFYING_ACCOUNTANTS
from hushdoc.trust import TrustStore

RECOMPUTE_WAYS = ("fast",)
"""How epsilon is recomputed: fast is Renyi accounting in numpy."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """An application's limits. What is not named here is not accepted.

    Attributes:
        trust: The keys that are believed.
        max_epsilon: Largest epsilon of any accepted guarantee.
        max_delta: Largest delta.
        privacy_units: Units that count; there is no order among them.
        adversary: Against whom the guarantee must hold.
        adjacency: Neighbouring relations that count.
        kinds: Kinds of guarantee that count.
        accountants: Accountants that are believed; gdp-clt and none never are.
        threshold: How many different trusted keys must have signed.
        require_signature: Whether a trusted signature is needed at all.
        require_full_coverage: Whether every access to protected data must be in the promise.
        require_sampling_as_implemented: Whether batches must have been drawn as accounted.
        hyperparameter_tuning: Ways of choosing settings that are accepted.
        public_overlap: Accepted overlaps of public with protected data.
        rngs: Accepted sources of noise.
        min_assurance: The least assurance.
        model: The name the model must have, or None for any.
        min_version: The least version of it.
        recompute: One of RECOMPUTE_WAYS.
        max_total_bytes: Largest sum of all files.
        max_files: Most files.
        privacy_required: False only by `integrity_only`.

    Example:
        >>> policy = Policy(
        ...     trust=TrustStore(keys=()), max_epsilon=8, max_delta=1e-5,
        ...     privacy_units={"document"},
        ... )
        >>> policy.adversary, sorted(policy.kinds)
        ('model-recipient', ['dp'])
    """

    trust: TrustStore
    max_epsilon: float
    max_delta: float
    privacy_units: Collection[str]
    adversary: str = "model-recipient"
    adjacency: Collection[str] = frozenset({"add-remove"})
    kinds: Collection[str] = frozenset({"dp"})
    accountants: Collection[str] = CERTIFYING_ACCOUNTANTS
    threshold: int = 1
    require_signature: bool = True
    require_full_coverage: bool = True
    require_sampling_as_implemented: bool = True
    hyperparameter_tuning: Collection[str] = frozenset({"none", "public-data", "accounted"})
    public_overlap: Collection[str] = frozenset({"none"})
    rngs: Collection[str] = frozenset({"csprng"})
    min_assurance: str = "self-attested"
    model: str | None = None
    min_version: int = 0
    recompute: str = "fast"
    max_total_bytes: int = 1 << 30
    max_files: int = 64
    privacy_required: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Freezes the sets and refuses words and numbers that no policy can mean."""
        for name, words in _VOCABULARIES.items():
            chosen = getattr(self, name)
            if isinstance(chosen, str) or not set(chosen) <= set(words):
                raise ValueError(f"{name} is {chosen!r}; expected a set of words out of {words}.")
            object.__setattr__(self, name, frozenset(chosen))
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected one of {words}.")
        for name in ("max_epsilon", "max_delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"{name} is {value!r}; expected a number from 0.")
        for name, least in _WHOLE_NUMBERS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; expected a whole number from {least}.")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected True or False.")
        if not isinstance(self.trust, TrustStore):
            raise ValueError("trust is no TrustStore; read one with TrustStore.from_file(path).")
        if not isinstance(self.model, str | None):
            raise ValueError(f"model is {self.model!r}; expected a name or None.")

    @classmethod
    def integrity_only(cls, trust: TrustStore, *, model: str | None = None) -> Policy:
        """Returns the policy that demands a trusted signature and intact files, no privacy.

        Args:
            trust: The keys that are believed.
            model: The name the model must have, or None for any.
        """
        policy = cls(
            trust=trust, max_epsilon=math.inf, max_delta=1.0, privacy_units=(), model=model
        )
        object.__setattr__(policy, "privacy_required", False)
        return policy

    @classmethod
    def from_toml(cls, path: str | Path) -> Policy:
        """Returns the policy that a TOML file states; its keys are the arguments of Policy.

        Args:
            path: The file. `trust` in it is the path of a trust store, relative to the file.

        Raises:
            InputError: BAD_POLICY: a key is unknown or missing, or a value is wrong.
        """
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise _bad_policy(path, f"it can't be read as TOML: {problem}") from problem
        known = {item.name for item in dataclasses.fields(cls) if item.init}
        unknown = sorted(values.keys() - known)
        if unknown:
            raise _bad_policy(path, f"unknown keys {unknown}, expected some of {sorted(known)}")
        if not isinstance(values.get("trust"), str):
            raise _bad_policy(path, "no key 'trust' with the path of a trust store")
        values["trust"] = TrustStore.from_file(path.parent / values["trust"])
        try:
            return cls(**values)
        except (TypeError, ValueError) as problem:
            raise _bad_policy(path, str(problem)) from problem


_VOCABULARIES: Mapping[str, Collection[str]] = {
    "privacy_units": mechanism.PRIVACY_UNITS,
    "adjacency": mechanism.ADJACENCIES,
    "kinds": mechanism.KINDS,
    "accountants": sorted(CERTIFYING_ACCOUNTANTS),
    "hyperparameter_tuning": mechanism.TUNINGS,
    "public_overlap": OVERLAPS,
    "rngs": mechanism.RNGS,
}
_WORDS = {
    "adversary": mechanism.ADVERSARIES,
    "min_assurance": mechanism.ASSURANCES,
    "recompute": RECOMPUTE_WAYS,
}
_WHOLE_NUMBERS = {"threshold": 1, "min_version": 0, "max_files": 1, "max_total_bytes": 1}
_FLAGS = ("require_signature", "require_full_coverage", "require_sampling_as_implemented")


def _bad_policy(path: Path, found: str) -> InputError:
    return InputError(f"The policy '{path}' is refused: {found}. Mend the file.", code="BAD_POLICY")


def check(policy: Policy, certificate: Certificate) -> PolicyReport:
    """Returns what every rule of the policy finds in a certificate; nothing is hidden by another.

    All guarantees against the policy's adversary about an accepted unit must pass. Where there is
    none about an accepted unit, those about other units are judged, so that the report is whole.

    Args:
        policy: The application's limits.
        certificate: One whose signature and identity have been checked.
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
    ]
    return PolicyReport(rules=(*rules, *_recomputed(certificate)))


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """A rule about one guarantee: what it reads, what it allows, when it passes."""

    name: str
    code: str
    found: Callable[[Guarantee], str]
    allowed: Callable[[Policy], str]
    passes: Callable[[Policy, Guarantee, Mapping[str, Mechanism]], bool]


def _among(name: str, code: str, attribute: str, limit: str) -> _Rule:
    """The rule that a word of the guarantee is among those that the policy accepts."""
    return _Rule(
        name=name,
        code=code,
        found=attrgetter(attribute),
        allowed=lambda policy: _words(getattr(policy, limit)),
        passes=lambda policy, item, _: attrgetter(attribute)(item) in getattr(policy, limit),
    )


def _at_most(name: str, code: str, limit: str) -> _Rule:
    """The rule that a number of the guarantee is there and within the limit."""

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
    """What the rules about one guarantee find; without a guarantee each of them fails."""
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
    """Whether batches were drawn as the transcript counts them.

    Without amplification full batches will do as well; shuffled or fixed-size batches won't, as
    one record more then changes which others are drawn.
    """
    if guarantee.transcript is None or guarantee.transcript not in transcripts:
        return False
    amplified = mechanism.is_amplified(transcripts[guarantee.transcript])
    fitting = {"poisson"} if amplified else {"poisson", "full-batch"}
    return guarantee.sampling_as_implemented in fitting


def _accesses(policy: Policy, claim: Claim, judged: list[Guarantee]) -> RuleResult:
    backing = {guarantee.transcript for guarantee in judged}
    open_accesses = [
        f"{printable(access.purpose)} ({access.treatment})"
        for access in claim.data_accesses
        if access.treatment == "unaccounted"
        or (access.accounted_in is not None and backing != {access.accounted_in})
    ]
    read = {access.data for access in claim.data_accesses}
    unread = [data.name for data in claim.protected_data if data.name not in read]
    found = [*open_accesses, *(f"no access to {printable(name)} is stated" for name in unread)]
    if not claim.protected_data:
        found.append("no protected data is stated")
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


def _assurance(policy: Policy, certificate: Certificate) -> RuleResult:
    ranks = mechanism.ASSURANCES
    return RuleResult(
        rule="assurance",
        code="ASSURANCE_TOO_LOW",
        found=certificate.assurance,
        allowed=f"at least {policy.min_assurance}",
        passed=ranks.index(certificate.assurance) >= ranks.index(policy.min_assurance),
    )


def _recomputed(certificate: Certificate) -> list[RuleResult]:
    return [
        RuleResult(
            rule=f"recompute ({certificate.claim.guarantees[finding.index].unit})",
            code=finding.code or "EPSILON_NOT_REPRODUCED",
            found=finding.message,
            allowed="at least what the transcript gives",
            passed=finding.code is None,
        )
        for finding in certificate.recompute()
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
