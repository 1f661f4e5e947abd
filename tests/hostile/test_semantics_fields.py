"""Certificates whose fields say what no reader knows, or contradict one another.

Each is signed by a trusted key, and refused before any policy looks at it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hushdoc_corruption import Case, Scene, attacks, case, forged, require_accepted, require_refused

from hushdoc.accounting import mechanism

Act = Callable[[Scene], None]


def _event(data: Any) -> Act:
    """A transcript of any JSON."""
    return forged("predicate.transcripts.training", data)


def _levels(number: int) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "gaussian", "noiseMultiplier": 2.0}
    for _ in range(number - 1):
        data = {"type": "composed", "event": data, "count": 1}
    return data


def _against_server(**change: Any) -> Act:
    """The application asks about the server that coordinated training."""

    def act(scene: Scene) -> None:
        scene.demand(adversary="server")
        guarantee = scene.build.guarantee(adversary="server", **change)
        scene.forge(certified=scene.build.certify(guarantee))

    return act


# (what is done, how, code): what the reader of certificates refuses before any policy
READING: tuple[tuple[str, Act, str], ...] = (
    (
        "unit-in-lookalike-characters",
        forged("predicate.guarantees.0.unit", "d\u043ecument"),
        "UNKNOWN_VALUE",
    ),
    ("unit-in-capitals", forged("predicate.guarantees.0.unit", "Document"), "UNKNOWN_VALUE"),
    ("unit-with-a-space", forged("predicate.guarantees.0.unit", "document "), "UNKNOWN_VALUE"),
    ("unit-with-nul", forged("predicate.guarantees.0.unit", "document\0"), "UNKNOWN_VALUE"),
    ("unit-in-a-list", forged("predicate.guarantees.0.unit", ["document"]), "BAD_FIELD"),
    ("kind-unknown", forged("predicate.guarantees.0.kind", "pure-dp"), "UNKNOWN_VALUE"),
    ("adversary-unknown", forged("predicate.guarantees.0.adversary", "nobody"), "UNKNOWN_VALUE"),
    ("assurance-unknown", forged("predicate.assurance", "certified"), "UNKNOWN_VALUE"),
    (
        "accountant-unknown",
        forged("predicate.guarantees.0.accountant.name", "rdp2"),
        "UNKNOWN_VALUE",
    ),
    ("treatment-unknown", forged("predicate.dataAccesses.0.treatment", "fine"), "UNKNOWN_VALUE"),
    ("task-unknown", forged("predicate.model.task", "anything"), "UNKNOWN_VALUE"),
    ("format-unknown", forged("predicate.model.format", "pickle"), "UNKNOWN_VALUE"),
    ("schema-of-tomorrow", forged("predicate.schemaVersion", 2), "UNKNOWN_VALUE"),
    ("schema-zero", forged("predicate.schemaVersion", 0), "UNKNOWN_VALUE"),
    ("critical-extension", forged("predicate.critical", ["tomorrow"]), "UNKNOWN_CRITICAL"),
    ("critical-word-that-is-known", forged("predicate.critical", ["audits"]), "UNKNOWN_CRITICAL"),
    ("critical-is-a-text", forged("predicate.critical", "tomorrow"), "BAD_FIELD"),
    (
        "coverage-absent",
        lambda s: s.forge(
            lambda d: d["predicate"]["guarantees"][0].pop("coversAllPrivateAccesses")
        ),
        "BAD_FIELD",
    ),
    ("coverage-null", forged("predicate.guarantees.0.coversAllPrivateAccesses", None), "BAD_FIELD"),
    ("epsilon-negative", forged("predicate.guarantees.0.epsilon", -1.0), "BAD_FIELD"),
    ("epsilon-null-though-dp", forged("predicate.guarantees.0.epsilon", None), "BAD_FIELD"),
    ("epsilon-though-none", forged("predicate.guarantees.0.kind", "none"), "BAD_FIELD"),
    ("delta-above-one", forged("predicate.guarantees.0.delta", 1.5), "BAD_FIELD"),
    ("no-guarantees", forged("predicate.guarantees", []), "BAD_FIELD"),
    (
        "sixty-five-guarantees",
        lambda s: s.forge(
            lambda d: d["predicate"].update(guarantees=d["predicate"]["guarantees"] * 65)
        ),
        "BAD_FIELD",
    ),
    (
        "profile-of-33-points",
        forged("predicate.guarantees.0.profile", [[9.0, 1e-6]] * 33),
        "BAD_FIELD",
    ),
    (
        "seventeen-transcripts",
        lambda s: s.forge(
            lambda d: d["predicate"]["transcripts"].update(
                {str(n): d["predicate"]["transcripts"]["training"] for n in range(16)}
            )
        ),
        "BAD_FIELD",
    ),
    (
        "transcript-that-is-not-there",
        forged("predicate.guarantees.0.transcript", "other"),
        "BAD_FIELD",
    ),
    ("access-to-unknown-data", forged("predicate.dataAccesses.0.data", "other"), "BAD_FIELD"),
    ("access-accounted-nowhere", forged("predicate.dataAccesses.0.accountedIn", []), "BAD_FIELD"),
    ("provider-claim-without-secure-aggregation", _against_server(), "BAD_FIELD"),
    (
        "count-that-is-not-public",
        forged("predicate.protectedData.0.units.0.count", 149),
        "BAD_FIELD",
    ),
    (
        "commitment-without-salt",
        forged("predicate.protectedData.0.commitment", "sha256:" + "0" * 64),
        "BAD_FIELD",
    ),
    ("condition-though-dp", forged("predicate.guarantees.0.condition", "x"), "BAD_FIELD"),
    ("reason-though-dp", forged("predicate.guarantees.0.reason", "x"), "BAD_FIELD"),
    (
        "expires-before-it-begins",
        forged("predicate.expiresAt", "2026-11-20T00:00:00Z"),
        "BAD_FIELD",
    ),
    *(
        (f"time-{name}", forged("predicate.issuedAt", spelled), "BAD_FIELD")
        for name, spelled in (
            ("with-an-offset", "2026-11-21T08:00:00+00:00"),
            ("in-small-characters", "2026-11-21t08:00:00z"),
            ("without-zone", "2026-11-21T08:00:00"),
            ("of-a-13th-month", "2026-13-01T00:00:00Z"),
            ("of-a-leap-second", "2026-11-21T08:00:61Z"),
            ("in-other-digits", "2026-11-2\u0661T08:00:00Z"),
            ("as-a-number", 1795248000),
            ("with-a-line-end", "2026-11-21T08:00:00Z\n"),
            ("of-no-such-day", "2026-02-30T08:00:00Z"),
        )
    ),
    ("expires-never", forged("predicate.expiresAt", "never"), "BAD_FIELD"),
    ("step-without-its-data", forged("predicate.derivation", [{"step": "x"}]), "BAD_FIELD"),
    ("step-that-says-no", forged("predicate.derivation.0.dataDependent", "no"), "BAD_FIELD"),
    ("model-of-a-name", forged("predicate.model", {"name": "x"}), "BAD_FIELD"),
    ("id-in-other-digits", forged("predicate.certificateId", "\u0660" * 32), "BAD_FIELD"),
    ("id-too-short", forged("predicate.certificateId", "0" * 31), "BAD_FIELD"),
    ("id-in-capitals", forged("predicate.certificateId", "A" * 32), "BAD_FIELD"),
    ("version-negative", forged("predicate.model.version", -1), "BAD_FIELD"),
    ("version-is-true", forged("predicate.model.version", True), "BAD_FIELD"),
    # A parser that builds what the text names would import it: dp_accounting's own does.
    (
        "transcript-that-names-a-module",
        _event({"type": "subprocess.run", "args": ["false"]}),
        "UNKNOWN_VALUE",
    ),
    (
        "transcript-in-the-words-of-dp-accounting",
        _event({"module_name": "subprocess", "class_name": "run"}),
        "BAD_FIELD",
    ),
    ("transcript-of-an-unknown-event", _event({"type": "laplace", "scale": 1.0}), "UNKNOWN_VALUE"),
    ("transcript-is-a-list", _event([]), "BAD_FIELD"),
    (
        "transcript-with-another-key",
        _event({"type": "gaussian", "noiseMultiplier": 2.0, "x": 1}),
        "BAD_FIELD",
    ),
    (
        "transcript-with-negative-noise",
        _event({"type": "gaussian", "noiseMultiplier": -2.0}),
        "BAD_FIELD",
    ),
    (
        "transcript-with-a-rate-above-one",
        _event(
            {
                "type": "poisson-sampled",
                "samplingRate": 1.5,
                "event": {"type": "gaussian", "noiseMultiplier": 2.0},
            }
        ),
        "BAD_FIELD",
    ),
    (
        "transcript-of-minus-one-steps",
        _event(
            {"type": "composed", "count": -1, "event": {"type": "gaussian", "noiseMultiplier": 2.0}}
        ),
        "BAD_FIELD",
    ),
    ("transcript-17-deep", _event(_levels(17)), "BAD_FIELD"),
    (
        "transcript-of-10001-events",
        _event({"type": "sequence", "events": [{"type": "x"}] * 10_001}),
        "BAD_FIELD",
    ),
    (
        "transcript-of-a-batch-larger-than-the-data",
        _event(
            {
                "type": "without-replacement",
                "population": 5,
                "sampleSize": 6,
                "event": {"type": "gaussian", "noiseMultiplier": 2.0},
            }
        ),
        "BAD_FIELD",
    ),
    (
        "transcript-of-half-a-run",
        _event(
            {
                "type": "repeat-and-select",
                "distribution": "poisson",
                "expectedRuns": 0.5,
                "event": {"type": "gaussian", "noiseMultiplier": 2.0},
            }
        ),
        "BAD_FIELD",
    ),
)

CASES: tuple[Case, ...] = tuple(case(f"semantics/{name}", act, code) for name, act, code in READING)


@pytest.mark.parametrize("attack", attacks(CASES))
def test_is_refused(attack: Case, make_scene: Callable[[], Scene]) -> None:
    require_refused(attack, make_scene)


def test_transcripts_as_deep_as_allowed_are_read(make_scene: Callable[[], Scene]) -> None:
    require_accepted(_event(_levels(16)), make_scene)


def test_a_mechanism_is_never_looked_up_by_name() -> None:
    assert all(cls.__module__ == mechanism.__name__ for cls in mechanism.Mechanism.__args__)
