"""Export refuses what a claim's own audits refute, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import pytest

from hushdoc.artifact.artifact import read_unverified
from hushdoc.certificate.claim import Claim
from hushdoc.errors import HushdocError
from hushdoc_export.kie import export
from hushdoc_training import audited_claims
from hushdoc_training.audited_claims import AuditedRun


def exported(folder: Path, change: Any) -> Path:
    """Exports a checkpoint whose claim was changed after training."""
    tiny_models.save_checkpoint(folder / "checkpoint")
    path = folder / "checkpoint" / "claim.json"
    tiny.replace_claim(path.parent, change(Claim.from_json(path.read_bytes())))
    return export(folder / "checkpoint", folder / "out", tiny.release())


def twin(lower: float) -> Any:
    run = AuditedRun(audit=build.audit(epsilon_lower=lower), claimed=1.0, ceiling=4.0)
    return lambda claim: audited_claims.with_audits(claim, [run])


def test_what_a_twin_refutes_is_not_exported(tmp_path: Path) -> None:
    """The twin claims 1 and shows 1.2, which no reader could hold against the model's epsilon."""
    with pytest.raises(HushdocError, match="Release nothing") as refused:
        exported(tmp_path, twin(1.2))
    assert refused.value.code == "AUDIT_CONTRADICTION"
    assert not (tmp_path / "out").exists()


def test_what_it_does_not_refute_is_certified_with_its_numbers(tmp_path: Path) -> None:
    claim = read_unverified(exported(tmp_path, twin(0.2))).certificate.claim
    assert claim.audits[0].epsilon_lower == 0.2
    assert claim.guarantees[0].audit_lower_bound == 0.2
    assert claim.training["audits"][0]["claimed_epsilon"] == 1.0
