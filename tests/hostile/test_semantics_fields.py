"""Certificates whose fields say what no reader knows, or contradict one another.

Each is signed by a trusted key, and refused before any policy looks at it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hushdoc_corruption import (
    Act,
    Refused,
    Scene,
    against_server,
    cases,
    forged,
    refusals,
    require_accepted,
)

from hushdoc.accounting import mechanism


def _event(data: Any) -> Act:
    """A transcript of any JSON."""
    return forged("predicate.transcripts.training", data)


def _levels(number: int) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "gaussian", "noiseMultiplier": 2.0}
    for _ in range(number - 1):
        data = {"type": "composed", "event": data, "count": 1}
    return data


# (what is done, how, code): what the reader of certificates refuses before any policy

ISSUED_AT = {
    "with-an-offset": "2026-11-21T08:00:00+00:00",
    "in-small-characters": "2026-11-21t08:00:00z",
    "without-zone": "2026-11-21T08:00:00",
    "of-a-13th-month": "2026-13-01T00:00:00Z",
    "of-a-leap-second": "2026-11-21T08:00:61Z",
    "in-other-digits": "2026-11-2\u0661T08:00:00Z",
    "as-a-number": 1795248000,
    "with-a-line-end": "2026-11-21T08:00:00Z\n",
    "of-no-such-day": "2026-02-30T08:00:00Z",
}
REFUSED: Refused = {
    "UNKNOWN_VALUE": {
        "unit-in-lookalike-characters": forged("predicate.guarantees.0.unit", "d\u043ecument"),
        "unit-in-capitals": forged("predicate.guarantees.0.unit", "Document"),
        "unit-with-a-space": forged("predicate.guarantees.0.unit", "document "),
        "unit-with-nul": forged("predicate.guarantees.0.unit", "document\0"),
        "kind-unknown": forged("predicate.guarantees.0.kind", "pure-dp"),
        "adversary-unknown": forged("predicate.guarantees.0.adversary", "nobody"),
        "assurance-unknown": forged("predicate.assurance", "certified"),
        "accountant-unknown": forged("predicate.guarantees.0.accountant.name", "rdp2"),
        "treatment-unknown": forged("predicate.dataAccesses.0.treatment", "fine"),
        "task-unknown": forged("predicate.model.task", "anything"),
        "format-unknown": forged("predicate.model.format", "pickle"),
        "schema-of-tomorrow": forged("predicate.schemaVersion", 2),
        "schema-zero": forged("predicate.schemaVersion", 0),
        # A parser that builds what the text names would import it: dp_accounting's own does.
        "transcript-that-names-a-module": _event({"type": "subprocess.run", "args": ["false"]}),
        "transcript-of-an-unknown-event": _event({"type": "laplace", "scale": 1.0}),
    },
    "BAD_FIELD": {
        **{f"time-{name}": forged("predicate.issuedAt", at) for name, at in ISSUED_AT.items()},
        "unit-in-a-list": forged("predicate.guarantees.0.unit", ["document"]),
        "critical-is-a-text": forged("predicate.critical", "tomorrow"),
        "coverage-absent": lambda s: s.forge(
            lambda d: d["predicate"]["guarantees"][0].pop("coversAllPrivateAccesses")
        ),
        "coverage-null": forged("predicate.guarantees.0.coversAllPrivateAccesses", None),
        "epsilon-negative": forged("predicate.guarantees.0.epsilon", -1.0),
        "epsilon-null-though-dp": forged("predicate.guarantees.0.epsilon", None),
        "epsilon-though-none": forged("predicate.guarantees.0.kind", "none"),
        "delta-above-one": forged("predicate.guarantees.0.delta", 1.5),
        "no-guarantees": forged("predicate.guarantees", []),
        "sixty-five-guarantees": lambda s: s.forge(
            lambda d: d["predicate"].update(guarantees=d["predicate"]["guarantees"] * 65)
        ),
        "profile-of-33-points": forged("predicate.guarantees.0.profile", [[9.0, 1e-6]] * 33),
        "seventeen-transcripts": lambda s: s.forge(
            lambda d: d["predicate"]["transcripts"].update(
                {str(n): d["predicate"]["transcripts"]["training"] for n in range(16)}
            )
        ),
        "transcript-that-is-not-there": forged("predicate.guarantees.0.transcript", "other"),
        "access-to-unknown-data": forged("predicate.dataAccesses.0.data", "other"),
        "access-accounted-nowhere": forged("predicate.dataAccesses.0.accountedIn", []),
        "provider-claim-without-secure-aggregation": against_server(),
        "count-that-is-not-public": forged("predicate.protectedData.0.units.0.count", 149),
        "commitment-without-salt": forged(
            "predicate.protectedData.0.commitment", "sha256:" + "0" * 64
        ),
        "condition-though-dp": forged("predicate.guarantees.0.condition", "x"),
        "reason-though-dp": forged("predicate.guarantees.0.reason", "x"),
        "expires-before-it-begins": forged("predicate.expiresAt", "2026-11-20T00:00:00Z"),
        "expires-never": forged("predicate.expiresAt", "never"),
        "step-without-its-data": forged("predicate.derivation", [{"step": "x"}]),
        "step-that-says-no": forged("predicate.derivation.0.dataDependent", "no"),
        "model-of-a-name": forged("predicate.model", {"name": "x"}),
        "id-in-other-digits": forged("predicate.certificateId", "\u0660" * 32),
        "id-too-short": forged("predicate.certificateId", "0" * 31),
        "id-in-capitals": forged("predicate.certificateId", "A" * 32),
        "version-negative": forged("predicate.model.version", -1),
        "version-is-true": forged("predicate.model.version", True),
        "transcript-in-the-words-of-dp-accounting": _event(
            {"module_name": "subprocess", "class_name": "run"}
        ),
        "transcript-is-a-list": _event([]),
        "transcript-with-another-key": _event({"type": "gaussian", "noiseMultiplier": 2.0, "x": 1}),
        "transcript-with-negative-noise": _event({"type": "gaussian", "noiseMultiplier": -2.0}),
        "transcript-with-a-rate-above-one": _event(
            {
                "type": "poisson-sampled",
                "samplingRate": 1.5,
                "event": {"type": "gaussian", "noiseMultiplier": 2.0},
            }
        ),
        "transcript-of-minus-one-steps": _event(
            {"type": "composed", "count": -1, "event": {"type": "gaussian", "noiseMultiplier": 2.0}}
        ),
        "transcript-17-deep": _event(_levels(17)),
        "transcript-of-10001-events": _event(
            {"type": "sequence", "events": [{"type": "x"}] * 10_001}
        ),
        "transcript-of-a-batch-larger-than-the-data": _event(
            {
                "type": "without-replacement",
                "population": 5,
                "sampleSize": 6,
                "event": {"type": "gaussian", "noiseMultiplier": 2.0},
            }
        ),
        "transcript-of-half-a-run": _event(
            {
                "type": "repeat-and-select",
                "distribution": "poisson",
                "expectedRuns": 0.5,
                "event": {"type": "gaussian", "noiseMultiplier": 2.0},
            }
        ),
    },
    "UNKNOWN_CRITICAL": {
        "critical-extension": forged("predicate.critical", ["tomorrow"]),
        "critical-word-that-is-known": forged("predicate.critical", ["audits"]),
    },
}

CASES = cases("semantics/", REFUSED)


test_is_refused = refusals(CASES)


def test_transcripts_as_deep_as_allowed_are_read(make_scene: Callable[[], Scene]) -> None:
    require_accepted(_event(_levels(16)), make_scene)


def test_a_mechanism_is_never_looked_up_by_name() -> None:
    assert all(cls.__module__ == mechanism.__name__ for cls in mechanism.Mechanism.__args__)
