"""What training prints of its own audits: a bound is told, and one that refutes is no success."""

from __future__ import annotations

from pathlib import Path

import hushdoc_builders as build
import pytest

from hushdoc.errors import PrivacyError
from hushdoc_training import audited_claims
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.commands.training_options import print_end


@pytest.mark.parametrize("claimed", [1.0, 0.2])
def test_a_bound_is_printed_and_refutes_at_once(
    claimed: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = AuditedRun(audit=build.audit(epsilon_lower=0.5), claimed=claimed, ceiling=3.9)
    claim = audited_claims.with_audits(build.claim(), [run])
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "claim.json").write_bytes(claim.to_json())
    if claimed < 0.5:
        with pytest.raises(PrivacyError, match="attacked claims 0.2") as refused:
            print_end(tmp_path, None)
        assert refused.value.code == "AUDIT_CONTRADICTION"
    else:
        print_end(tmp_path, None)
    printed = capsys.readouterr().out
    assert "epsilon is at least 0.5 at delta 1e-05, with 95 % confidence; at best 3.9" in printed
