"""Zero egress: a real artifact is loaded and run while the kernel counts and refuses sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

CODE = """
import argparse, sys
from hushdoc.commands import doctor
parser = argparse.ArgumentParser(prog="hushdoc")
doctor.register(parser.add_subparsers())
options = parser.parse_args(["doctor", *sys.argv[1:]])
sys.exit(options.run(options))
"""


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_a_model_that_is_loaded_and_run_asks_for_no_socket(
    tiny: ModuleType, tmp_path: Path, seconds: int
) -> None:
    trust = tmp_path / "trust.json"
    trust.write_bytes(tiny.TRUST.to_json())
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [
            *(sys.executable, "-c", CODE, str(tiny.sealed()), "--json", "--prove-offline"),
            *("--seconds", str(seconds), "--trust", str(trust)),
            *("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document"),
        ],
        capture_output=True,
        text=True,
        env=kept,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["offline"]
    assert (told["exit_code"], told["attempts"]) == (0, [])
    assert told["seconds"] >= seconds
