"""What tests of calibration share: the command's options, and what a certificate must report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hushdoc.artifact.artifact import Artifact


def on(path: Path, overlap: str = "none") -> tuple[object, ...]:
    """Returns the options with which `hushdoc export` calibrates on a file of public texts."""
    return (
        *("--calibrate-on", path, "--calibrate-status", "public texts"),
        *("--calibrate-overlap", overlap),
    )


def calibration_step(after: Artifact, before: Artifact) -> dict[str, Any]:
    """Returns the step that a certificate gained; all but it and the data must be as before."""
    new, old = after.certificate, before.certificate
    *steps, step = new.derivation
    assert tuple(steps) == old.derivation
    assert (step["step"], step["dataDependent"]) == ("calibrate-scores", False)
    assert step["from"] == f"certificate:{old.certificate_id}"
    assert step["calibrationErrorAfter"] < 0.5 * step["calibrationErrorBefore"]
    assert step["shareRightOfKept"] > step["shareRight"]
    assert new.claim.guarantees == old.claim.guarantees
    assert new.certificate_id != old.certificate_id
    return step
