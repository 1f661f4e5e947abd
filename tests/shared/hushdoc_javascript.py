"""The verifier in JavaScript, asked by tests for a second opinion."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hushdoc.signing.keys import PrivateKey
from hushdoc.signing.trust_store import TrustedKey, TrustStore

VERIFY_JS = Path(__file__).parents[2] / "samples" / "verify-js"


def require_accepted(
    model: Path, folder: Path, key: PrivateKey, *, now: datetime | None = None, **limits: Any
) -> None:
    """Fails unless it accepts an artifact that a key signed; skips the test without node."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    trust = TrustStore.of([TrustedKey.of(key, name="trusted")])
    (folder / "trust.json").write_bytes(trust.to_json())
    (folder / "policy.json").write_text(json.dumps(limits))
    now = now or datetime.now(UTC)
    command = ["node", VERIFY_JS / "verify.mjs", model, "--now", now.isoformat()]
    command += ["--trust", folder / "trust.json", "--policy", folder / "policy.json"]
    command += ["--exact", VERIFY_JS / "exact.mjs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stdout.startswith("ACCEPTED: "), done.stdout + done.stderr
