"""Certificates that say too much: well formed, signed by a trusted key, and not to be trusted.

Each is one lie in an otherwise honest certificate, so exactly the rules that are about it fail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hushdoc_corruption import Case, Scene, attacks, case, require_accepted, require_refused

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import (
    Composed,
    Gaussian,
    HashFill,
    Mechanism,
    PoissonSampled,
    Sequence,
)
from hushdoc.signing.trust_store import TrustedKey

NOISE = Gaussian(noise_multiplier=2.0)
STEP = PoissonSampled(sampling_rate=1 / 7, event=NOISE)
TRAINING = Composed(event=STEP, count=350)

Act = Callable[[Scene], None]


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


def _transcript(event: Mechanism, **change: Any) -> Act:
    """Epsilon 8 at 1e-5, stated of this mechanism."""

    def act(scene: Scene) -> None:
        stated = {"epsilon": 8.0, "profile": (), **change}
        certified = scene.build.certify(
            scene.build.guarantee(**stated), transcripts={"training": event}
        )
        scene.forge(certified=certified)

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


def _against_server(**change: Any) -> Act:
    """The application asks about the server that coordinated training."""

    def act(scene: Scene) -> None:
        scene.demand(adversary="server")
        _states(adversary="server", **change)(scene)

    return act


def _demanding(act: Act, **demand: Any) -> Act:
    return lambda scene: (scene.demand(**demand), act(scene))[0]


def _epsilon_times(factor: float) -> Act:
    def act(scene: Scene) -> None:
        # Below what the exact engine finds, so that no way of recomputing proves it.
        least = pld.epsilon(TRAINING, scene.build.DELTA, adjacency="add-remove")
        _states(epsilon=least * factor, profile=())(scene)

    return act


NOT_REPRODUCED = "EPSILON_NOT_REPRODUCED"
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
)

# (what is done, how, code of the first rule that fails, codes of the others)
POLICY: tuple[tuple[str, Act, str, tuple[str, ...]], ...] = (
    ("unit-downgraded", _states(unit="token-term"), "UNIT_NOT_ACCEPTED", ()),
    ("unit-of-another-kind", _states(unit="user"), "UNIT_NOT_ACCEPTED", ()),
    (
        "adjacency-swapped",
        _states(adjacency="replace-one"),
        "ADJACENCY_NOT_ACCEPTED",
        (NOT_REPRODUCED,),
    ),
    (
        "adjacency-of-terms",
        _states(adjacency="all-occurrences-of-one-term"),
        "ADJACENCY_NOT_ACCEPTED",
        (NOT_REPRODUCED,),
    ),
    ("gdp-clt", _accountant("gdp-clt"), "ACCOUNTANT_NOT_ACCEPTED", (NOT_REPRODUCED,)),
    ("no-accountant", _accountant("none"), "ACCOUNTANT_NOT_ACCEPTED", (NOT_REPRODUCED,)),
    (
        "accountant-not-demanded",
        _demanding(_accountant("rdp"), accountants={"pld"}),
        "ACCOUNTANT_NOT_ACCEPTED",
        (),
    ),
    ("empirical", _states(kind="empirical"), "KIND_NOT_ALLOWED", ()),
    (
        "empirical-offered-as-dp",
        _states(transcript=None),
        "SAMPLING_MISMATCH",
        ("UNACCOUNTED_ACCESS", "NO_TRANSCRIPT"),
    ),
    ("hash-fill-offered-as-dp", _transcript(HashFill(rows=8, columns=4)), NOT_REPRODUCED, ()),
    (
        "hash-fill-beside-training",
        _transcript(Sequence(events=(TRAINING, HashFill(rows=8, columns=4)))),
        NOT_REPRODUCED,
        (),
    ),
    (
        "conditional",
        _states(kind="dp-conditional", condition="if nobody looks"),
        "KIND_NOT_ALLOWED",
        (),
    ),
    (
        "adversary-who-only-asks",
        _states(adversary="api-user"),
        "NO_GUARANTEE_FOR_ADVERSARY",
        NO_SUCH_GUARANTEE,
    ),
    (
        "adversary-not-promised",
        lambda s: s.demand(adversary="co-client"),
        "NO_GUARANTEE_FOR_ADVERSARY",
        NO_SUCH_GUARANTEE,
    ),
    ("coverage-false", _states(covers_all_private_accesses=False), "UNACCOUNTED_ACCESS", ()),
    ("shuffled", _states(sampling_as_implemented="shuffled"), "SAMPLING_MISMATCH", ()),
    ("sampling-unknown", _states(sampling_as_implemented="unknown"), "SAMPLING_MISMATCH", ()),
    (
        "full-batch-counted-as-poisson",
        _states(sampling_as_implemented="full-batch"),
        "SAMPLING_MISMATCH",
        (),
    ),
    (
        "fixed-size-counted-as-poisson",
        _states(sampling_as_implemented="fixed-size"),
        "SAMPLING_MISMATCH",
        (),
    ),
    ("epsilon-below-transcript", _epsilon_times(0.5), NOT_REPRODUCED, ()),
    ("epsilon-below-transcript-by-one-percent", _epsilon_times(0.99), NOT_REPRODUCED, ()),
    (
        "epsilon-below-transcript-exactly",
        _demanding(_epsilon_times(0.99), recompute="exact"),
        NOT_REPRODUCED,
        (),
    ),
    (
        "epsilon-below-transcript-offline",
        _demanding(_epsilon_times(0.99), recompute="offline"),
        NOT_REPRODUCED,
        (),
    ),
    ("epsilon-zero", _states(epsilon=0.0, profile=()), NOT_REPRODUCED, ()),
    ("epsilon-too-large", lambda s: s.demand(max_epsilon=7), "EPSILON_TOO_LARGE", ()),
    ("epsilon-enormous", _states(epsilon=1e300, profile=()), "EPSILON_TOO_LARGE", ()),
    ("delta-below-transcript", _states(delta=1e-12, profile=()), NOT_REPRODUCED, ()),
    ("delta-zero", _states(delta=0.0, profile=()), NOT_REPRODUCED, ()),
    ("delta-too-large", _states(delta=1e-4, profile=()), "DELTA_TOO_LARGE", ()),
    ("delta-one", _states(delta=1.0, profile=()), "DELTA_TOO_LARGE", ()),
    ("profile-contradicts-epsilon", _states(profile=((1.0, 1e-5),)), NOT_REPRODUCED, ()),
    ("profile-rises-with-delta", _states(profile=((7.9, 1e-4),)), NOT_REPRODUCED, ()),
    ("profile-below-transcript", _states(profile=((1.0, 1e-4),)), NOT_REPRODUCED, ()),
    ("profile-of-delta-zero", _states(profile=((9.0, 0.0),)), NOT_REPRODUCED, ()),
    ("tuning-unaccounted", _states(hyperparameter_tuning="unaccounted"), "TUNING_NOT_ACCEPTED", ()),
    ("noise-from-a-seed", _states(rng="seeded"), "RNG_NOT_ACCEPTED", ()),
    (
        "second-guarantee-worse",
        _guarantees({}, {"epsilon": 20.0, "profile": ()}),
        "EPSILON_TOO_LARGE",
        (),
    ),
    (
        "second-guarantee-false",
        _guarantees({}, {"adversary": "api-user", "epsilon": 0.1, "profile": ()}),
        NOT_REPRODUCED,
        (),
    ),
    (
        "second-guarantee-none",
        _with_no_promise_for("document"),
        "KIND_NOT_ALLOWED",
        (
            "ACCOUNTANT_NOT_ACCEPTED",
            "EPSILON_TOO_LARGE",
            "DELTA_TOO_LARGE",
            "SAMPLING_MISMATCH",
            "UNACCOUNTED_ACCESS",
        ),
    ),
    (
        "access-unaccounted",
        _access(treatment="unaccounted", accounted_in=()),
        "UNACCOUNTED_ACCESS",
        (),
    ),
    ("access-in-another-transcript", _second_run, "UNACCOUNTED_ACCESS", ()),
    ("no-access-stated", _claims(data_accesses=()), "UNACCOUNTED_ACCESS", ()),
    (
        "no-protected-data-stated",
        _claims(data_accesses=(), protected_data=()),
        "UNACCOUNTED_ACCESS",
        (),
    ),
    ("no-access-to-one-data-set-stated", _second_data, "UNACCOUNTED_ACCESS", ()),
    ("derived-from-protected-data", _claims(derivation=(DERIVED,)), "UNACCOUNTED_ACCESS", ()),
    *(
        (f"public-data-overlap-{word}", _overlap(word), "PUBLIC_DATA_OVERLAP", ())
        for word in ("unknown", "partial", "contained")
    ),
    ("assurance-too-low", lambda s: s.demand(min_assurance="third-party"), "ASSURANCE_TOO_LOW", ()),
    (
        "assurance-reproduced-where-sealed-is-demanded",
        _demanding(_claims(assurance="third-party"), min_assurance="enclave-attested"),
        "ASSURANCE_TOO_LOW",
        (),
    ),
    ("audit-above-claim", _audit(epsilon_lower=7.9), "AUDIT_CONTRADICTION", ()),
    (
        "audit-above-claim-by-asking-only",
        _audit(epsilon_lower=7.9, adversary="api-user"),
        "AUDIT_CONTRADICTION",
        (),
    ),
    (
        "audit-above-claim-at-smaller-delta",
        _audit(epsilon_lower=99.0, delta=0.0),
        "AUDIT_CONTRADICTION",
        (),
    ),
    ("audit-above-profile", _audit(epsilon_lower=7.0, delta=1e-4), "AUDIT_CONTRADICTION", ()),
    (
        "audit-above-claim-by-an-auditor",
        _audit_of_another(epsilon_lower=7.9),
        "AUDIT_CONTRADICTION",
        (),
    ),
    (
        "audit-bound-of-the-issuer-above-claim",
        _states(audit_lower_bound=7.6),
        "AUDIT_CONTRADICTION",
        (),
    ),
    (
        "provider-with-noise-of-one-client-only",
        # Without secure aggregation the server sees each update, with one client's noise alone.
        _against_server(aggregation="individual-updates", unit="document", epsilon=1.0, profile=()),
        NOT_REPRODUCED,
        (),
    ),
)

CASES: tuple[Case, ...] = (
    *(case(f"semantics/{name}", act, code, *others) for name, act, code, others in POLICY),
)


@pytest.mark.parametrize("attack", attacks(CASES))
def test_is_refused(attack: Case, make_scene: Callable[[], Scene]) -> None:
    require_refused(attack, make_scene)


@pytest.mark.parametrize(
    "act",
    [
        _guarantees({}, {"unit": "page"}),
        _with_no_promise_for("user"),
        _audit(epsilon_lower=7.0),
        _audit(epsilon_lower=None, delta=None, confidence=None, auc=1.0),
        _audit(epsilon_lower=7.9, unit="page"),
        _audit(epsilon_lower=7.9, adversary="server"),
        _audit_of_another(epsilon_lower=7.0),
        _transcript(TRAINING),
        _demanding(_transcript(TRAINING), recompute="exact"),
        _demanding(_transcript(TRAINING), recompute="offline"),
    ],
    ids=[
        "promise-for-pages-as-well",
        "none-for-users",
        "audit-below",
        "audit-without-a-bound",
        "audit-of-pages",
        "audit-who-sees-more",
        "audit-of-another-below",
        "more-than-needed",
        "exact",
        "offline",
    ],
)
def test_what_is_harmless_comes_as_far_as_the_door(
    act: Act, make_scene: Callable[[], Scene]
) -> None:
    require_accepted(act, make_scene)
