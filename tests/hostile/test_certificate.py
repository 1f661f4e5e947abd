"""Certificates in hostile hands: missing, oversized, of another model, old, misread."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hushdoc_corruption import (
    ENVELOPE,
    NOW,
    Act,
    Refused,
    Scene,
    acceptances,
    cases,
    forged,
    refusals,
    set_in,
)

from hushdoc.signing import dsse, revocation
from hushdoc.signing.trust_store import TrustedKey

OTHER_ID = "f" * 32


def _on_envelope(change: Callable[[Path], object]) -> Act:
    return lambda scene: change(scene / ENVELOPE)


def _write(content: bytes) -> Act:
    return _on_envelope(lambda path: path.write_bytes(content))


def _edit(change: Callable[[bytes], bytes]) -> Act:
    return _on_envelope(lambda path: path.write_bytes(change(path.read_bytes())))


def _other_model(scene: Scene, **change: Any) -> Path:
    """Seals another model of the same issuer, whole and sound, and returns its folder."""
    identity = dataclasses.replace(scene.build.certify().model, **change)
    metadata = {"hushdoc.certificate_id": OTHER_ID}
    return scene.build.seal(  # type: ignore[no-any-return]
        scene.outside / "other",
        scene.key,
        scene.build.certify(certificate_id=OTHER_ID, model=identity),
        scene.files(onnx__model_DOT_onnx=scene.build.onnx(metadata=metadata)),
    )


def _certificate_of_another(scene: Scene) -> None:
    shutil.copy(_other_model(scene) / ENVELOPE, scene / ENVELOPE)


def _whole_replay(scene: Scene) -> None:
    scene.demand(model="invoice-kie")
    scene.folder = _other_model(scene, name="receipt-kie")


def _rollback(scene: Scene) -> None:
    scene.demand(min_version=4)
    scene.folder = _other_model(scene, version=3)


def _model_of_another(scene: Scene) -> None:
    """Certificate and files are signed alike, but the model inside is another's."""
    metadata = {"hushdoc.certificate_id": OTHER_ID}
    model = scene.build.onnx(metadata=metadata)
    scene.seal(contents=scene.files(onnx__model_DOT_onnx=model))


def _certified(**change: Any) -> Act:
    return lambda scene: scene.seal(scene.build.certify(**change))


def _expires(scene: Scene, at: str, now: datetime) -> None:
    scene.seal(scene.build.certify(expires_at=at))
    scene.now = now


def _list_as_certificate(scene: Scene) -> None:
    trusted = TrustedKey.of(scene.other_key, roles=("revocation", "certificate"))
    scene.trust(trusted)
    (scene / ENVELOPE).write_text(
        revocation.sign_list(
            revocation.successor(None, valid_for=timedelta(days=7), now=NOW), scene.other_key
        )
    )


def _audited(scene: Scene, payload: bytes | None = None) -> None:
    """Appends an audit by a trusted auditor; or whatever it signs."""
    auditor = TrustedKey.of(scene.other_key, roles=("audit",))
    scene.trust(*scene.policy.trust.keys, auditor)
    if payload is None:
        scene.build.append_audit(scene.folder, scene.other_key)
        return
    scene.build.append_line(scene.folder, dsse.sign(payload, scene.other_key))


def _audit_of_another(scene: Scene) -> None:
    _audited(scene)
    other = scene.build.seal(scene.outside / "b", scene.key, scene.build.certify(issuer="x"))
    scene.build.append_audit(other, scene.other_key)
    line = (other / ENVELOPE).read_text().splitlines()[1]
    scene.build.append_line(scene.folder, line)


def _audit_with(path: str, value: Any) -> Act:
    """An auditor's own statement with one value changed, signed by that trusted auditor."""

    def act(scene: Scene) -> None:
        digest = scene.build.payload_digest(scene.folder)
        found = json.loads(scene.build.audit_statement(scene.build.audit_report(), digest))
        set_in(found, path, value)
        _audited(scene, json.dumps(found).encode())

    return act


def _audit_first(scene: Scene) -> None:
    """The auditor signs certificates as well, and its audit stands in the first line."""
    digest = scene.build.payload_digest(scene.folder)
    payload = scene.build.audit_statement(scene.build.audit_report(), digest)
    scene.sign(payload)


def _append(*lines: str) -> Act:
    def act(scene: Scene) -> None:
        for line in lines:
            scene.build.append_line(scene.folder, line)

    return act


def _second_certificate(scene: Scene) -> None:
    """A weaker certificate in a further line by a trusted auditor: only audits may follow."""
    _audited(scene, scene.payload())


REFUSED: Refused = {
    "MISSING_CERTIFICATE": {
        "missing": _on_envelope(Path.unlink),
        "under-another-name": _on_envelope(
            lambda path: path.rename(path.with_name("Privacy.intoto.jsonl"))
        ),
    },
    "BAD_ENVELOPE": {
        "empty": _write(b""),
        "one-line-end": _write(b"\n"),
        "blanks": _write(b"  \n"),
        "null": _write(b"null\n"),
        "list": _write(b"[]\n"),
        "object-without-keys": _write(b"{}\n"),
        "cut-in-the-middle": _edit(lambda c: c[: len(c) // 2]),
        "cut-by-one-character": _edit(lambda c: c[:-2]),
        "line-end-before": _edit(lambda c: b"\n" + c),
        "character-after": _edit(lambda c: c[:-1] + b"x\n"),
        "two-in-one-line": _edit(lambda c: c[:-1] * 2),
        "compressed": _write(b"\x1f\x8b\x08" + b"\0" * 60),
        "revocation-list-in-its-place": _list_as_certificate,
        "further-line-is-no-envelope": _append("{}"),
        "further-line-is-empty": _append(""),
        "seventeen-further-lines": _append(*["{}"] * 17),
    },
    "CERT_TOO_LARGE": {
        "ten-megabytes": _write(b"x" * 10_000_000),
        "sparse-one-tebibyte": _on_envelope(lambda path: os.truncate(path, 1 << 40)),
        "ten-megabytes-of-line-ends": _edit(lambda c: c + b"\n" * 10_000_000),
        "further-line-too-long": _append("x" * (64 * 1024 + 1)),
    },
    "NOT_REGULAR_FILE": {
        "is-a-folder": _on_envelope(lambda path: (path.unlink(), path.mkdir())),
        "is-a-fifo": _on_envelope(lambda path: (path.unlink(), os.mkfifo(path))),
    },
    "PATH_ESCAPE": {
        "links-to-dev-zero": _on_envelope(
            lambda path: (path.unlink(), path.symlink_to("/dev/zero"))
        ),
        "links-to-the-neighbours": lambda s: (
            _other_model(s),
            (s / ENVELOPE).unlink(),
            (s / ENVELOPE).symlink_to(f"../other/{ENVELOPE}"),
        ),
    },
    "SYMLINK": {
        "links-to-itself": _on_envelope(lambda path: (path.unlink(), path.symlink_to(path.name))),
    },
    "DIGEST_MISMATCH": {
        "of-another-model": _certificate_of_another,
    },
    "EMBEDDED_METADATA_MISMATCH": {
        "model-of-another": _model_of_another,
    },
    "WRONG_MODEL": {
        "whole-replay-of-another-model": _whole_replay,
        "name-of-other-case": lambda s: s.demand(model="Invoice-KIE"),
    },
    "ROLLBACK": {
        "rollback": _rollback,
    },
    "STALE": {
        "stale": lambda s: s.demand(max_age_days=0.1),
    },
    "NOT_YET_VALID": {
        "future": _certified(issued_at="2026-12-22T00:00:00Z"),
        "future-by-six-minutes": _certified(issued_at="2026-11-22T00:06:00Z"),
    },
    "EXPIRED": {
        "expired": lambda s: _expires(s, "2026-11-21T09:00:00Z", NOW),
        "expired-this-second": lambda s: _expires(s, "2026-11-22T00:00:00Z", NOW),
    },
    "BAD_STATEMENT": {
        "no-statement-type": forged("_type", "https://in-toto.io/Statement/v0.1"),
    },
    "WRONG_PREDICATE": {
        "other-predicate": forged("predicateType", "https://slsa.dev/provenance/v1"),
        "predicate-of-the-next-version": forged(
            "predicateType", "https://hushdoc.dev/privacy-certificate/v2"
        ),
        "predicate-is-a-list": forged("predicateType", []),
        "audit-in-its-place": _audit_first,
        "second-certificate-as-audit": _second_certificate,
    },
    "BAD_SUBJECT": {
        "audit-of-another": _audit_of_another,
        "audit-with-another-id": _audit_with("predicate.certificateId", OTHER_ID),
        "audit-of-two-subjects": _audit_with(
            "subject", [{"name": "certificate"}, {"name": "certificate"}]
        ),
    },
    "UNKNOWN_VALUE": {
        "audit-of-the-next-version": _audit_with("predicate.schemaVersion", 2),
        "audit-of-an-unknown-unit": _audit_with("predicate.audits.0.unit", "galaxy"),
    },
    "BAD_FIELD": {
        "audit-with-half-a-bound": _audit_with("predicate.audits.0.confidence", None),
    },
}

CASES = cases("certificate/", REFUSED)


test_is_refused = refusals(CASES)


test_what_is_harmless_comes_as_far_as_the_door = acceptances(
    {
        "not-yet-expired": lambda scene: _expires(scene, "2026-11-22T00:00:01Z", NOW),
        "issuer-clock-five-minutes-ahead": _certified(issued_at="2026-11-22T00:05:00Z"),
        "as-demanded": lambda scene: scene.demand(
            max_age_days=1, min_version=3, model="invoice-kie"
        ),
        "audited": _audited,
        "audited-twice": lambda scene: (
            _audited(scene),
            scene.build.append_audit(scene.folder, scene.other_key),
        ),
        # The one who may not audit says nothing, good or bad: its line is counted, never read.
        "line-of-a-stranger": lambda scene: scene.build.append_line(
            scene.folder, dsse.sign(scene.payload(), scene.other_key)
        ),
    }
)
