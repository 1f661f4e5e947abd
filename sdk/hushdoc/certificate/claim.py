"""Claim: what training declares about privacy; written by training, sealed by export.

A claim declares which guarantee holds against whom and for which unit, from which mechanism it can
be recomputed, which data were read for what, and what is not guaranteed. It is plain data. What is
not declared is not guaranteed: a policy reads nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate import vocabulary
from hushdoc.certificate.audit_reports import MAX_RESULTS, Audit, PreRegisteredAudit
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import (
    Codec,
    Record,
    anything,
    flag,
    integer,
    keyed,
    listed,
    matching,
    number,
    optional,
    pair,
    record,
    stored,
    text,
    word,
)

OVERLAPS = ("none", "unknown", "partial", "contained")
"""How far public data contain records of the protected data."""

TREATMENTS = (
    "accounted",
    "declared-public",
    "not-released",
    "post-processing",
    "unaccounted",
)
"""How an access to protected data is accounted for. `accounted`: it is part of the transcript that
`accounted_in` names. `declared-public`: the owner declared its result (such as a label set) public.
`not-released`: no adversary of this claim sees its result. `post-processing`: it read only what was
already released. `unaccounted`: it leaks, and no guarantee covers it."""

COVERED_TREATMENTS = tuple(word for word in TREATMENTS if word != "unaccounted")
"""Those that a policy may accept."""

RELEASES = (
    "final-weights",
    "hash-table",
    "checkpoints",
    "round-updates",
    "synthetic-records",
    "logs",
    "metrics",
)
"""What can leave the training site."""

AGGREGATIONS = ("central", "secure-sum", "individual-updates")
"""What the adversary sees of training. `central`: nothing, records were in one place. `secure-sum`:
sums over all clients of a round. `individual-updates`: the update of each client, which carries
only the noise that this client added."""

WATCHES_TRAINING = ("server", "co-client", "network-observer")
"""Adversaries that see more than what is released in the end."""

MAX_GUARANTEES, MAX_POINTS, MAX_TRANSCRIPTS = 64, 32, 16
"""Limits on what a reader recomputes."""

_commitment = matching(
    "salted-sha256:[0-9a-f]{64}",
    "salted-sha256: and 64 hexadecimal digits (a digest without salt answers guesses)",
)
_epsilon = number(rounded_up=True)
_delta = number(maximum=1.0, rounded_up=True)
_mechanism: Codec[Mechanism] = Codec(read=mechanism.from_dict, write=mechanism.to_dict)


@dataclass(frozen=True, kw_only=True)
class Accountant(Record):
    """What computed epsilon.

    Attributes:
        name: One of ACCOUNTANTS.
        library: Whose code, such as "hushdoc".
        version: Of that library.
        error_bound: How far epsilon may lie above the true value, if known.
    """

    name: str = stored(word(vocabulary.ACCOUNTANTS))
    library: str = stored(text)
    version: str = stored(text)
    error_bound: float | None = stored(optional(number()))


@dataclass(frozen=True, kw_only=True)
class Guarantee(Record):
    """One guarantee: against whom it holds, for which unit, how strong it is and why.

    `guarantees` has a factory for each kind.

    Attributes:
        adversary: Against whom, one of ADVERSARIES.
        observes: What that adversary sees, in words.
        knows: What it may know besides, in words.
        assumes: What must be true for the guarantee to hold, each in words.
        aggregation: One of AGGREGATIONS.
        kind: One of KINDS.
        unit: One of PRIVACY_UNITS.
        unit_definition: What one unit is in these data, in words.
        adjacency: One of ADJACENCIES.
        epsilon: None for kind none; rounded upwards when written.
        delta: None for kind none; rounded upwards when written.
        profile: More points ((epsilon, delta), ...) of the same guarantee.
        gdp_mu: The same mechanism's mu by the central limit theorem, for comparison alone: it
            underestimates, and nothing is certified with it.
        accountant: What computed epsilon.
        transcript: The key in the claim's transcripts that epsilon can be recomputed from.
        composition: How runs and releases add up, in words.
        covers_all_private_accesses: Whether the guarantee covers every access to protected data.
        sampling_as_implemented: One of SAMPLINGS: how the code that ran drew its batches.
        cluster_sampling_as_implemented: One of CLUSTER_SAMPLINGS: how it drew clusters of records.
        hyperparameter_tuning: One of TUNINGS.
        rng: One of RNGS: where the noise came from.
        floating_point: How rounding of the noise was handled, in words.
        audit_lower_bound: The largest epsilon that the issuer's own audits refute, if any ran.
        reason: Why there is no guarantee; for kind none and only there.
        condition: What else must hold; for kind dp-conditional and only there.
    """

    adversary: str = stored(word(vocabulary.ADVERSARIES))
    observes: str = stored(text)
    knows: str = stored(text)
    assumes: tuple[str, ...] = stored(listed(text))
    aggregation: str = stored(word(AGGREGATIONS))
    kind: str = stored(word(vocabulary.KINDS))
    unit: str = stored(word(vocabulary.PRIVACY_UNITS))
    unit_definition: str = stored(text)
    adjacency: str = stored(word(mechanism.ADJACENCIES))
    epsilon: float | None = stored(optional(_epsilon))
    delta: float | None = stored(optional(_delta))
    profile: tuple[tuple[float, float], ...] = stored(
        listed(pair(_epsilon, _delta), maximum=MAX_POINTS)
    )
    gdp_mu: float | None = stored(optional(number()))
    accountant: Accountant = stored(record(Accountant))
    transcript: str | None = stored(optional(text))
    composition: str = stored(text)
    covers_all_private_accesses: bool = stored(flag)
    sampling_as_implemented: str = stored(word(vocabulary.SAMPLINGS))
    cluster_sampling_as_implemented: str = stored(word(vocabulary.CLUSTER_SAMPLINGS))
    hyperparameter_tuning: str = stored(word(vocabulary.TUNINGS))
    rng: str = stored(word(vocabulary.RNGS))
    floating_point: str = stored(text)
    audit_lower_bound: float | None = stored(optional(number()))
    reason: str | None = stored(optional(text))
    condition: str | None = stored(optional(text))

    def problem(self) -> str | None:
        """Returns where kind and numbers contradict one another, or None."""
        if (self.reason is not None) != (self.kind == "none"):
            return f"kind is {self.kind} and reason is {self.reason!r}; kind none needs a reason"
        if (self.condition is not None) != (self.kind == "dp-conditional"):
            return (
                f"kind is {self.kind} and condition is {self.condition!r}; dp-conditional needs one"
            )
        if self.adversary in WATCHES_TRAINING and self.aggregation == "central":
            return (
                f"adversary is {self.adversary} and aggregation is central; declare whether "
                "it sees secure-sum or individual-updates"
            )
        numbers = self.epsilon is not None, self.delta is not None
        if self.kind == "none" and (any(numbers) or self.profile):
            return "kind is none, so epsilon and delta must be null and profile empty"
        if self.kind in ("dp", "dp-conditional") and not all(numbers):
            return f"kind is {self.kind}, so epsilon and delta must be numbers"
        return None


@dataclass(frozen=True, kw_only=True)
class ProtectedUnit(Record):
    """How many units of one type the protected data hold.

    Attributes:
        unit: One of PRIVACY_UNITS.
        count: None unless the number is public: under add-remove it is itself protected.
        count_is_public: Whether the owner declared the number public.
    """

    unit: str = stored(word(vocabulary.PRIVACY_UNITS))
    count: int | None = stored(optional(integer()))
    count_is_public: bool = stored(flag)

    def problem(self) -> str | None:
        """Returns why a number that is not public is refused, or None."""
        if self.count is not None and not self.count_is_public:
            return f"count is {self.count} but not public; write null, or declare it public"
        return None


@dataclass(frozen=True, kw_only=True)
class ProtectedData(Record):
    """A data set that guarantees are about.

    Attributes:
        name: What it is called.
        units: Its units and, where public, how many.
        contribution_bound: How much one unit can contribute and what enforces it, in words.
        commitment: "salted-sha256:" and the digest of a secret salt followed by its content, or by
            the name of the ledger that counts what is spent of it; never a bare hash, which would
            answer whether a guessed record is in it.
    """

    name: str = stored(text)
    units: tuple[ProtectedUnit, ...] = stored(listed(record(ProtectedUnit)))
    contribution_bound: str = stored(text)
    commitment: str | None = stored(optional(_commitment), default=None)


@dataclass(frozen=True, kw_only=True)
class PublicData(Record):
    """Data or weights that were used without any guarantee.

    Attributes:
        name: What they are called.
        uses: What for: pretraining, vocabulary, masks, tuning.
        uri: Where they come from.
        digest: Of what was used, such as "sha256:...".
        privacy_status: In words: public, licensed, invented.
        overlap_with_protected: One of OVERLAPS.
    """

    name: str = stored(text)
    uses: tuple[str, ...] = stored(listed(text))
    uri: str | None = stored(optional(text), default=None)
    digest: str | None = stored(optional(text), default=None)
    privacy_status: str = stored(text)
    overlap_with_protected: str = stored(word(OVERLAPS))


@dataclass(frozen=True, kw_only=True)
class DataAccess(Record):
    """One access to protected data.

    Attributes:
        data: Name of the protected data.
        purpose: What for: training, tuning, early stopping, label set, data set size, metrics.
        accounted_in: Keys of the transcripts that contain it, one for each view of the same
            training; for treatment accounted and only there.
        treatment: One of TREATMENTS.
    """

    data: str = stored(text)
    purpose: str = stored(text)
    accounted_in: tuple[str, ...] = stored(listed(text))
    treatment: str = stored(word(TREATMENTS))

    def problem(self) -> str | None:
        """Returns why treatment and transcript do not fit, or None."""
        if bool(self.accounted_in) != (self.treatment == "accounted"):
            return (
                f"treatment is {self.treatment} and accountedIn is {list(self.accounted_in)}; "
                "accounted needs the key of a transcript and only accounted has one"
            )
        return None


@dataclass(frozen=True, kw_only=True)
class Claim(Record):
    """All that training declares about privacy, before it is signed.

    Attributes:
        protected_data: What the guarantees are about.
        public_data: What was used without a guarantee.
        data_accesses: Every access to protected data.
        releases: What leaves the training site, each one of RELEASES.
        guarantees: One for each adversary and unit.
        transcripts: The mechanisms that epsilon can be recomputed from, by name.
        pre_registered_audits: Audits that may refute the claim, agreed beforehand.
        audits: What the issuer's own attacks measured.
        training: Settings, for people.
        utility: Scores, for people.
        caveats: What a reader must know besides, each in words.
    """

    protected_data: tuple[ProtectedData, ...] = stored(listed(record(ProtectedData)))
    public_data: tuple[PublicData, ...] = stored(listed(record(PublicData)))
    data_accesses: tuple[DataAccess, ...] = stored(listed(record(DataAccess)))
    releases: tuple[str, ...] = stored(listed(word(RELEASES)))
    guarantees: tuple[Guarantee, ...] = stored(listed(record(Guarantee), maximum=MAX_GUARANTEES))
    transcripts: Mapping[str, Mechanism] = stored(keyed(_mechanism, maximum=MAX_TRANSCRIPTS))
    pre_registered_audits: tuple[PreRegisteredAudit, ...] = stored(
        listed(record(PreRegisteredAudit)), default=()
    )
    audits: tuple[Audit, ...] = stored(listed(record(Audit), maximum=MAX_RESULTS))
    training: Mapping[str, Any] = stored(keyed(anything))
    utility: Mapping[str, Any] = stored(keyed(anything))
    caveats: tuple[str, ...] = stored(listed(text))

    def problem(self) -> str | None:
        """Returns which name has no referent, or None."""
        if not self.guarantees:
            return (
                "there is no guarantee; declare kind none with a reason where there is no privacy"
            )
        names = {data.name for data in self.protected_data}
        for name in (guarantee.transcript for guarantee in self.guarantees):
            if name is not None and name not in self.transcripts:
                return f"a guarantee names the transcript {name!r}, which does not exist"
        for access in self.data_accesses:
            if access.data not in names:
                return f"an access names the data {access.data!r}, which is not protected data here"
            unknown = [name for name in access.accounted_in if name not in self.transcripts]
            if unknown:
                return f"an access names the transcripts {unknown}, which do not exist"
        return None

    def to_json(self) -> bytes:
        """Returns the text of a checkpoint's `claim.json`; what can't be read back is refused."""
        content = strict_json.dumps(self.to_dict())
        Claim.from_json(content)
        return content

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Returns the claim that `to_json` wrote."""
        return cls.from_dict(strict_json.loads(content, what="The claim"), "claim")
