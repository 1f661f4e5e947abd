"""Policy: what an application demands of a model; what is not declared is denied.

A policy is frozen data, from Python or from TOML; `hushdoc.policy.rules.check` checks a certificate
against it.
"""

from __future__ import annotations

import codecs
import dataclasses
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hushdoc import arguments
from hushdoc.accounting import mechanism
from hushdoc.certificate import vocabulary
from hushdoc.certificate.claim import COVERED_TREATMENTS, OVERLAPS
from hushdoc.certificate.recompute import CERTIFYING_ACCOUNTANTS, RECOMPUTE_MODES
from hushdoc.errors import InputError
from hushdoc.signing.trust_store import TrustStore
from hushdoc.system import atomic_files

REVOCATION_MODES = ("if-present", "required")
"""Whether a revocation list may be missing. Either way one that exists is obeyed, and the model is
refused if it is stale, older than one seen before, or not signed by a trusted key."""

MAX_BYTES = 64 * 1024
"""A policy file is never larger."""

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_LONGEST_AGE = 36_500
"""Days: a hundred years."""

_LARGEST = {"max_epsilon": 1e9, "max_delta": 1.0}
"""The largest limits; infinity would hide that nothing is demanded, and 1e5 be meant for 1e-5."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """An application's limits. What is not named here is not accepted.

    Attributes:
        trust: The keys that are trusted.
        max_epsilon: Largest epsilon of any accepted guarantee.
        max_delta: Largest delta.
        privacy_units: Units that count; there is no order among them.
        adversary: Against whom the guarantee must hold.
        adjacency: Neighbouring relations that count.
        kinds: Kinds of guarantee that count.
        accountants: Accountants that are trusted; gdp-clt and none never are.
        threshold: How many different trusted keys must have signed.
        require_signature: Whether a trusted signature is required.
        require_full_coverage: Whether the guarantee must cover every access to protected data.
        require_sampling_as_implemented: Whether batches must have been sampled as accounted.
        treatments: Treatments of accesses to protected data that count; unaccounted never does.
        hyperparameter_tuning: Ways of choosing settings that are accepted.
        public_overlap: Accepted overlaps of public with protected data.
        rngs: Accepted sources of noise.
        min_assurance: The lowest accepted assurance, which is the signers' word: who demands the
            signature of another party sets `threshold` and trusts keys accordingly.
        model: The required name of the model, or None for any.
        min_version: Its lowest accepted version.
        max_age_days: Largest age of the certificate, or None for any.
        revocation: One of REVOCATION_MODES.
        revocations: The file of the revocation list, or None.
        recompute: One of `recompute.RECOMPUTE_MODES`.
        max_total_bytes: Largest sum of all files.
        max_files: Largest number of files.
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
    treatments: Collection[str] = frozenset({"accounted", "not-released"})
    hyperparameter_tuning: Collection[str] = frozenset({"none", "public-data", "accounted"})
    public_overlap: Collection[str] = frozenset({"none"})
    rngs: Collection[str] = frozenset({"csprng"})
    min_assurance: str = "self-attested"
    model: str | None = None
    min_version: int = 0
    max_age_days: float | None = None
    revocation: str = "if-present"
    revocations: Path | None = None
    recompute: str = "fast"
    max_total_bytes: int = 1 << 30
    max_files: int = 64
    privacy_required: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Freezes the sets and refuses unknown words and meaningless numbers."""
        for name, words in _VOCABULARIES.items():
            chosen = getattr(self, name)
            if not _are_words(chosen, words):
                raise ValueError(
                    f"{name} is {arguments.short_repr(chosen)}; expected a set of words out of "
                    f"{words}."
                )
            object.__setattr__(self, name, frozenset(chosen))
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected one of {words}.")
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value <= largest
            ):
                raise ValueError(
                    f"{name} is {arguments.short_repr(value)}; expected a number from 0 to "
                    f"{largest:g}."
                )
        for name, least in _INTEGERS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; expected an integer from {least}.")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected True or False.")
        if self.threshold > 1 and not self.require_signature:
            raise ValueError(
                f"threshold is {self.threshold!r} and require_signature False, so that no key is "
                "asked for. Require signatures, or leave threshold out."
            )
        self._check_freshness()
        trust: object = self.trust
        if not isinstance(trust, TrustStore):
            raise ValueError(
                f"trust is {arguments.described(trust)}; expected a TrustStore. Read one with "
                "TrustStore.from_file(path)."
            )
        if self.model is not None and not (isinstance(self.model, str) and self.model):
            raise ValueError(f"model is {self.model!r}; expected a name or None.")

    def _check_freshness(self) -> None:
        days = self.max_age_days
        if days is not None and (
            isinstance(days, bool)
            or not isinstance(days, int | float)
            or not 0 < days <= _LONGEST_AGE
        ):
            raise ValueError(
                f"max_age_days is {arguments.short_repr(days)}; expected a number of days up to "
                f"{_LONGEST_AGE}, or None."
            )
        if self.revocations is not None:
            given: object = self.revocations
            if not isinstance(given, str | Path):
                found = arguments.described(given)
                raise ValueError(f"revocations is {found}; expected the path of a list, or None.")
            object.__setattr__(self, "revocations", Path(self.revocations))
        elif self.revocation == "required":
            raise ValueError("revocation is 'required'; give the path of the list in revocations.")

    @classmethod
    def integrity_only(cls, trust: TrustStore, *, model: str | None = None) -> Policy:
        """Returns the policy that demands a trusted signature and intact files, no privacy.

        Args:
            trust: The keys that are trusted.
            model: The required name of the model, or None for any.
        """
        policy = cls(trust=trust, max_epsilon=0, max_delta=0, privacy_units=(), model=model)
        object.__setattr__(policy, "privacy_required", False)
        return policy

    @classmethod
    def from_toml(cls, path: str | Path) -> Policy:
        """Returns the policy of a TOML file; its keys are the arguments of Policy.

        Args:
            path: The file. `trust` in it is the path of a trust store and `revocations` that of a
                revocation list, relative to the file.

        Raises:
            InputError: BAD_POLICY: a key is unknown or missing, or a value is wrong.
        """
        path = Path(path)
        content = b""
        try:
            content = atomic_files.read_file(path, max_bytes=MAX_BYTES)
            if len(content) > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES} bytes")
            if content.startswith(_MARKS):
                raise _bad_policy(path, "it starts with a byte order mark, expected plain UTF-8")
            values = tomllib.loads(content.decode("utf-8"))
        except UnicodeDecodeError as problem:
            found = f"it is no UTF-8 at byte {problem.start}, expected plain UTF-8"
            raise _bad_policy(path, found) from problem
        except OSError as problem:
            reason = problem.strerror or type(problem).__name__
            raise InputError(
                f"The policy '{path}' can't be read: {reason}. Check the path.", code="BAD_POLICY"
            ) from problem
        except (ValueError, RecursionError) as problem:
            hint = f". {arguments.BACKSLASHES}" if b"\\" in content else ""
            found = f"it can't be read as TOML: {str(problem)[:200]}{hint}"
            raise _bad_policy(path, found) from problem
        keys = {item.name: item for item in dataclasses.fields(cls) if item.init}
        unknown = sorted(values.keys() - keys.keys())
        if unknown:
            raise _bad_policy(path, f"unknown keys {unknown}, expected some of {sorted(keys)}")
        lacking = [
            name
            for name, item in keys.items()
            if item.default is dataclasses.MISSING and name not in values
        ]
        if lacking:
            raise _bad_policy(path, f"it lacks the keys {lacking}")
        if not isinstance(values["trust"], str):
            raise _bad_policy(path, "'trust' is not the path of a trust store")
        if "\0" in str(values.get("revocations")):
            raise _bad_policy(path, "the path 'revocations' contains a NUL")
        for name in ("trust", "revocations"):
            if arguments.has_controls(values.get(name)):
                raise _bad_policy(
                    path,
                    f"the path '{name}' has control characters: {values[name]!r}. "
                    f"{arguments.BACKSLASHES}",
                )
        values["trust"] = TrustStore.from_file(path.parent / values["trust"])
        if isinstance(values.get("revocations"), str):
            values["revocations"] = path.parent / values["revocations"]
        try:
            return cls(**values)
        except (TypeError, ValueError) as problem:
            raise _bad_policy(path, str(problem).removesuffix(".")) from problem


_VOCABULARIES: Mapping[str, Collection[str]] = {
    "privacy_units": vocabulary.PRIVACY_UNITS,
    "adjacency": mechanism.ADJACENCIES,
    "kinds": vocabulary.KINDS,
    "accountants": sorted(CERTIFYING_ACCOUNTANTS),
    "treatments": COVERED_TREATMENTS,
    "hyperparameter_tuning": vocabulary.TUNINGS,
    "public_overlap": OVERLAPS,
    "rngs": vocabulary.RNGS,
}
_WORDS = {
    "adversary": vocabulary.ADVERSARIES,
    "min_assurance": vocabulary.ASSURANCES,
    "recompute": RECOMPUTE_MODES,
    "revocation": REVOCATION_MODES,
}
_INTEGERS = {"threshold": 1, "min_version": 0, "max_files": 1, "max_total_bytes": 1}
_FLAGS = ("require_signature", "require_full_coverage", "require_sampling_as_implemented")


def _are_words(chosen: Any, words: Collection[str]) -> bool:
    """Returns whether these are some of the words; neither a text nor a mapping holds any."""
    try:
        return not isinstance(chosen, str | Mapping) and set(chosen) <= set(words)
    except TypeError:
        return False


def _bad_policy(path: Path, found: str) -> InputError:
    return InputError(
        f"The policy '{path}' is refused: {found}. Correct the file.", code="BAD_POLICY"
    )
