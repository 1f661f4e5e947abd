"""Certificates that say too much: well formed, signed by a trusted key, and not to be trusted.

Each is one lie in an otherwise honest certificate, so exactly the rules that are about it fail.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hushdoc_corruption import (
    Act,
    Refused,
    Scene,
    acceptances,
    against_server,
    case,
    cases,
    claims_of,
    refusals,
)

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    HashFill,
    PoissonSampled,
    Sequence,
)
from hushdoc.signing.trust_store import TrustedKey

NOISE = Gaussian(noise_multiplier=2.0)
STEP = PoissonSampled(sampling_rate=1 / 7, event=NOISE)
TRAINING = Composed(event=STEP, count=350)


def _states(**change: Any) -> Act:
    """A guarantee with another value, everything else as it was."""
    return lambda scene: scene.forge(certified=scene.build.certify(scene.build.guarantee(**change)))


def _claims(**change: Any) -> Act:
    """A certificate or claim with another value."""
    return lambda scene: scene.forge(certified=scene.build.certify(**change))


def _accountant(name: str) -> Act:
    def act(scene: Scene) -> None:
        accountant = dataclasses.replace(scene.build.guarantee().accountant, name=name)
        _states(accountant=accountant)(scene)

    return act


def _guarantees(*changes: dict[str, Any]) -> Act:
    """Several guarantees in one certificate."""
    return lambda scene: scene.forge(
        certified=scene.build.certify(*(scene.build.guarantee(**change) for change in changes))
    )


def _with_no_promise_for(unit: str) -> Act:
    return lambda scene: scene.forge(
        certified=scene.build.certify(scene.build.guarantee(), scene.build.no_guarantee(unit=unit))
    )


def _access(**change: Any) -> Act:
    """One more access to the protected data."""

    def act(scene: Scene) -> None:
        sound = scene.build.claim().data_accesses
        more = dataclasses.replace(sound[0], **change)
        _claims(data_accesses=(*sound, more))(scene)

    return act


def _second_run(scene: Scene) -> None:
    """Two runs on the same data; the promise is about one of them."""
    sound = scene.build.claim().data_accesses
    more = dataclasses.replace(sound[0], purpose="tuning", accounted_in=("tuning",))
    _claims(data_accesses=(*sound, more), transcripts={"training": TRAINING, "tuning": TRAINING})(
        scene
    )


def _overlap(word: str) -> Act:
    def act(scene: Scene) -> None:
        public = dataclasses.replace(
            scene.build.claim().public_data[0], overlap_with_protected=word
        )
        _claims(public_data=(public,))(scene)

    return act


def _second_data(scene: Scene) -> None:
    """More protected data, of which no access is stated."""
    first = scene.build.claim().protected_data[0]
    _claims(protected_data=(first, dataclasses.replace(first, name="receipts")))(scene)


def _second_data_that_was_read(scene: Scene) -> None:
    """More protected data, of which only one access is stated, whose result nobody sees."""
    claim = scene.build.claim()
    first, read = claim.protected_data[0], claim.data_accesses[0]
    more = dataclasses.replace(read, data="receipts", treatment="not-released", accounted_in=())
    _claims(
        protected_data=(first, dataclasses.replace(first, name="receipts")),
        data_accesses=(read, more),
    )(scene)


def _run_without_a_guarantee(scene: Scene) -> None:
    """A second run, said to be accounted for, that no guarantee rests on."""
    read = scene.build.claim().data_accesses[0]
    both = dataclasses.replace(read, accounted_in=("training", "tuning"))
    _claims(data_accesses=(both,), transcripts={"training": TRAINING, "tuning": TRAINING})(scene)


def _audit(**change: Any) -> Act:
    """An audit of the issuer's own."""
    return lambda scene: scene.forge(
        certified=scene.build.certify(audits=(scene.build.audit(**change),))
    )


def _audit_of_another(**change: Any) -> Act:
    """An audit that a trusted auditor signed in a further line."""

    def act(scene: Scene) -> None:
        auditor = TrustedKey.of(scene.other_key, roles=("audit",))
        scene.trust(*scene.policy.trust.keys, auditor)
        report = scene.build.audit_report(scene.build.audit(**change))
        scene.build.append_audit(scene.folder, scene.other_key, report)

    return act


def _demanding(act: Act, **demand: Any) -> Act:
    return lambda scene: (scene.demand(**demand), act(scene))[0]


def _clusters(word: str) -> Act:
    """Half of the clusters take part in each round, drawn in this way."""

    def act(scene: Scene) -> None:
        event = Composed(event=ClusterSampled(sampling_rate=0.5, event=STEP), count=350)
        guarantee = scene.build.guarantee(cluster_sampling_as_implemented=word)
        certified = scene.build.certify(guarantee, transcripts={"training": event})
        scene.forge(certified=certified)

    return act


def _epsilon_times(factor: float) -> Act:
    def act(scene: Scene) -> None:
        # Below what the exact engine finds, so that no way of recomputing proves it.
        least = pld.epsilon(TRAINING, scene.build.DELTA, adjacency="add-remove")
        _states(epsilon=least * factor, profile=())(scene)

    return act


NOT_REPRODUCED = "EPSILON_NOT_REPRODUCED"
NO_BOUND: dict[str, Any] = {"epsilon_lower": None, "delta": None, "confidence": None}
DERIVED = {"step": "calibrated on invoices", "dataDependent": True}
NO_SUCH_GUARANTEE = (
    "KIND_NOT_ALLOWED",
    "ADJACENCY_NOT_ACCEPTED",
    "ACCOUNTANT_NOT_ACCEPTED",
    "EPSILON_TOO_LARGE",
    "DELTA_TOO_LARGE",
    "UNACCOUNTED_ACCESS",
    "SAMPLING_MISMATCH",
    "TUNING_NOT_ACCEPTED",
    "RNG_NOT_ACCEPTED",
    "UNIT_NOT_ACCEPTED",
    "UNIT_NOT_IN_DATA",
)

# (what is done, how, code of the first rule that fails, codes of the others)

REFUSED: Refused = {
    "UNIT_NOT_IN_DATA": {
        "unit-that-the-data-lack": _demanding(
            _states(unit="page"), privacy_units={"document", "page"}
        ),
    },
    "GUARANTEES_CONTRADICT": {
        "weaker-against-who-sees-less": _guarantees(
            {}, {"adversary": "api-user", "epsilon": 9.0, "profile": ()}
        ),
        "conditional-against-who-sees-less": _guarantees(
            {}, {"adversary": "api-user", "kind": "dp-conditional", "condition": "if lucky"}
        ),
    },
    "ACCOUNTANT_NOT_ACCEPTED": {
        "accountant-not-demanded": _demanding(_accountant("rdp"), accountants={"pld"}),
    },
    "KIND_NOT_ALLOWED": {
        "empirical": _states(kind="empirical"),
        "conditional": _states(kind="dp-conditional", condition="if nobody looks"),
    },
    NOT_REPRODUCED: {
        "hash-fill-offered-as-dp": claims_of(HashFill(rows=8, columns=4)),
        "hash-fill-beside-training": claims_of(
            Sequence(events=(TRAINING, HashFill(rows=8, columns=4)))
        ),
        "epsilon-below-transcript": _epsilon_times(0.5),
        "epsilon-below-transcript-by-one-percent": _epsilon_times(0.99),
        "epsilon-below-transcript-exactly": _demanding(_epsilon_times(0.99), recompute="exact"),
        "epsilon-below-transcript-offline": _demanding(_epsilon_times(0.99), recompute="offline"),
        "epsilon-zero": _states(epsilon=0.0, profile=()),
        "delta-below-transcript": _states(delta=1e-12, profile=()),
        "delta-zero": _states(delta=0.0, profile=()),
        "profile-contradicts-epsilon": _states(profile=((1.0, 1e-5),)),
        "profile-rises-with-delta": _states(profile=((7.9, 1e-4),)),
        "profile-below-transcript": _states(profile=((1.0, 1e-4),)),
        "profile-of-delta-zero": _states(profile=((9.0, 0.0),)),
        "second-guarantee-false": _guarantees(
            {}, {"adversary": "api-user", "epsilon": 0.1, "profile": ()}
        ),
        # Without secure aggregation the server sees each update, with one client's noise alone.
        "provider-with-noise-of-one-client-only": against_server(
            aggregation="individual-updates", unit="document", epsilon=1.0, profile=()
        ),
    },
    "UNACCOUNTED_ACCESS": {
        "coverage-false": _states(covers_all_private_accesses=False),
        "access-unaccounted": _access(treatment="unaccounted", accounted_in=()),
        "access-in-another-transcript": _second_run,
        "no-access-stated": _claims(data_accesses=()),
        "no-protected-data-stated": _claims(data_accesses=(), protected_data=()),
        "no-access-to-one-data-set-stated": _second_data,
        "one-data-set-not-accounted": _second_data_that_was_read,
        "declared-public": _access(treatment="declared-public", accounted_in=()),
        "post-processing": _access(treatment="post-processing", accounted_in=()),
        "transcript-without-steps": claims_of(Composed(event=STEP, count=0)),
        "transcript-that-no-guarantee-rests-on": _run_without_a_guarantee,
        "derived-from-protected-data": _claims(derivation=(DERIVED,)),
    },
    "SAMPLING_MISMATCH": {
        "shuffled": _states(sampling_as_implemented="shuffled"),
        "sampling-unknown": _states(sampling_as_implemented="unknown"),
        "full-batch-counted-as-poisson": _states(sampling_as_implemented="full-batch"),
        "fixed-size-counted-as-poisson": _states(sampling_as_implemented="fixed-size"),
        "clusters-left-out-by-nobody-knows-whom": claims_of(
            ClusterSampled(sampling_rate=0.5, event=TRAINING)
        ),
    },
    "EPSILON_TOO_LARGE": {
        "epsilon-too-large": lambda s: s.demand(max_epsilon=7),
        "epsilon-enormous": _states(epsilon=1e300, profile=()),
        "second-guarantee-worse": _guarantees({}, {"epsilon": 20.0, "profile": ()}),
    },
    "DELTA_TOO_LARGE": {
        "delta-too-large": _states(delta=1e-4, profile=()),
        "delta-one": _states(delta=1.0, profile=()),
    },
    "TUNING_NOT_ACCEPTED": {
        "tuning-unaccounted": _states(hyperparameter_tuning="unaccounted"),
    },
    "RNG_NOT_ACCEPTED": {
        "noise-from-a-seed": _states(rng="seeded"),
    },
    "PUBLIC_DATA_OVERLAP": {
        f"public-data-overlap-{word}": _overlap(word)
        for word in ("unknown", "partial", "contained")
    },
    "ASSURANCE_TOO_LOW": {
        "assurance-too-low": lambda s: s.demand(min_assurance="third-party"),
        "assurance-reproduced-where-sealed-is-demanded": _demanding(
            _claims(assurance="third-party"), min_assurance="enclave-attested"
        ),
    },
    "AUDIT_CONTRADICTION": {
        "audit-above-claim": _audit(epsilon_lower=7.9),
        "audit-above-claim-by-asking-only": _audit(epsilon_lower=7.9, adversary="api-user"),
        "audit-above-claim-at-smaller-delta": _audit(epsilon_lower=99.0, delta=0.0),
        "audit-above-profile": _audit(epsilon_lower=7.0, delta=1e-4),
        "audit-above-claim-by-an-auditor": _audit_of_another(epsilon_lower=7.9),
        "audit-of-rates-above-claim": _audit(tpr_at_fpr=((1.0, 1e-4),), canaries=None, **NO_BOUND),
        "audit-bound-of-the-issuer-above-claim": _states(audit_lower_bound=7.6),
    },
}

CASES = (
    *cases("semantics/", REFUSED),
    case(
        "semantics/unit-downgraded",
        _states(unit="token-term"),
        "UNIT_NOT_ACCEPTED",
        "UNIT_NOT_IN_DATA",
    ),
    case(
        "semantics/unit-of-another-kind",
        _states(unit="user"),
        "UNIT_NOT_ACCEPTED",
        "UNIT_NOT_IN_DATA",
    ),
    case(
        "semantics/adjacency-swapped",
        _states(adjacency="replace-one"),
        "ADJACENCY_NOT_ACCEPTED",
        NOT_REPRODUCED,
    ),
    case(
        "semantics/adjacency-of-terms",
        _states(adjacency="all-occurrences-of-one-term"),
        "ADJACENCY_NOT_ACCEPTED",
        NOT_REPRODUCED,
    ),
    case("semantics/gdp-clt", _accountant("gdp-clt"), "ACCOUNTANT_NOT_ACCEPTED", NOT_REPRODUCED),
    case("semantics/no-accountant", _accountant("none"), "ACCOUNTANT_NOT_ACCEPTED", NOT_REPRODUCED),
    case(
        "semantics/empirical-offered-as-dp",
        _states(transcript=None),
        "SAMPLING_MISMATCH",
        "UNACCOUNTED_ACCESS",
        "NO_TRANSCRIPT",
    ),
    case(
        "semantics/adversary-who-only-asks",
        _states(adversary="api-user"),
        "NO_GUARANTEE_FOR_ADVERSARY",
        *NO_SUCH_GUARANTEE,
    ),
    case(
        "semantics/adversary-not-promised",
        lambda s: s.demand(adversary="co-client"),
        "NO_GUARANTEE_FOR_ADVERSARY",
        *NO_SUCH_GUARANTEE,
    ),
    case(
        "semantics/second-guarantee-none",
        _with_no_promise_for("document"),
        "KIND_NOT_ALLOWED",
        "ACCOUNTANT_NOT_ACCEPTED",
        "EPSILON_TOO_LARGE",
        "DELTA_TOO_LARGE",
        "SAMPLING_MISMATCH",
        "UNACCOUNTED_ACCESS",
    ),
)


test_is_refused = refusals(CASES)


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        "promise-for-pages-as-well": _guarantees({}, {"unit": "page"}),
        "none-for-users": _with_no_promise_for("user"),
        "audit-below": _audit(epsilon_lower=7.0),
        "audit-without-a-bound": _audit(epsilon_lower=None, delta=None, confidence=None, auc=1.0),
        "audit-of-rates-below": _audit(tpr_at_fpr=((0.9, 0.1),), canaries=None, **NO_BOUND),
        "clusters-drawn-anew-in-each-round": _clusters("each-round"),
        "as-strong-against-who-sees-less": _guarantees({}, {"adversary": "api-user"}),
        "audit-of-pages": _audit(epsilon_lower=7.9, unit="page"),
        "audit-who-sees-more": _audit(epsilon_lower=7.9, adversary="server"),
        "audit-of-another-below": _audit_of_another(epsilon_lower=7.0),
        "more-than-needed": claims_of(TRAINING),
        "exact": _demanding(claims_of(TRAINING), recompute="exact"),
        "offline": _demanding(claims_of(TRAINING), recompute="offline"),
    }
)
