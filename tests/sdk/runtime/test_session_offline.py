"""Zero egress: real artifacts of every task and pages are read while sockets are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import pytest
from hushdoc_command_runs import LIMITS
from hushdoc_processes import in_python
from hushdoc_tiny import ARTIFACTS, artifact_of

from hushdoc.commands.sockets import Attempt

CODE = """
import sys
{before}
from hushdoc.__main__ import main
sys.exit(main(["doctor", *sys.argv[1:]]))
"""

COUNTED = """
from hushdoc.reading import ocr, tesseract
from hushdoc.runtime.hashed import sealed_table
from hushdoc.runtime.session import Session
ocr.rapid_is_installed = lambda: False
tesseract.program = lambda: None
def counting(owner, name):
    real = getattr(owner, name)
    def counted(*given, **options):
        print("ran", owner.__name__, file=sys.stderr)
        return real(*given, **options)
    setattr(owner, name, counted)
counting(Session, "run")
counting(sealed_table, "lookup_scores")
"""
"""Tells on standard error whenever a graph or a table answers; leaves OCR to a test of its own."""


def proof(
    folder: Path, artifact: Path, seconds: int, before: str = ""
) -> tuple[dict[str, Any], str]:
    """Returns what `hushdoc doctor --prove-offline` tells as JSON, and what it prints besides."""
    trust = folder / "trust.json"
    trust.write_bytes(tiny.TRUST.to_json())
    options = ("--json", "--prove-offline", "--seconds", seconds, "--trust", trust, *LIMITS)
    code = CODE.format(before=before)
    done = in_python(code, artifact, *options, drop=("ORT_DISABLE_TELEMETRY",))
    told = json.loads(done.stdout)["offline"]
    assert told["exit_code"] == 0
    return told, done.stderr


@pytest.mark.parametrize("name", ARTIFACTS)
def test_models_of_every_task_run_and_ask_for_no_socket(tmp_path: Path, name: str) -> None:
    told, printed = proof(tmp_path, artifact_of(name), 0, COUNTED)
    assert told["attempts"] == []
    assert told["ran"] == [f"a document through {ARTIFACTS[name][0]}"]
    table = name in ("clauses", "table of classes")
    assert printed == f"ran {'hushdoc.runtime.hashed.sealed_table' if table else 'Session'}\n"


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_a_model_and_ocr_ask_for_nothing_that_could_send(tmp_path: Path, seconds: int) -> None:
    told, _ = proof(tmp_path, tiny.sealed(), seconds)
    assert [one for one in told["attempts"] if not Attempt(**one).is_local_test] == []
    assert told["ran"][0] == "a document through KIEModel"
    assert told["seconds"] >= seconds
