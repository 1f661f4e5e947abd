"""Zero egress: real artifacts of every task and pages are read while sockets are refused."""

from __future__ import annotations

import json
from pathlib import Path

import hushdoc_tiny as tiny
import pytest
from hushdoc_command_runs import LIMITS, write_policy
from hushdoc_processes import in_python
from hushdoc_tiny import ARTIFACTS, artifact_of

from hushdoc.commands.sockets import Attempt

DOCTOR = """
import sys
from hushdoc.__main__ import main
sys.exit(main(["doctor", *sys.argv[1:]]))
"""

PROOFS = """
import dataclasses, json, sys
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
from pathlib import Path
from hushdoc.commands.doctor_proof import prove
from hushdoc.policy.policy import Policy
policy = Policy.from_toml(sys.argv[1])
for artifact in sys.argv[2:]:
    proof = prove(Path(artifact), policy, 0)
    told = {**dataclasses.asdict(proof.watched), "ran": proof.ran, "clean": proof.is_clean}
    print(json.dumps(told), flush=True)
"""
"""Proves for each artifact, in a process of its own, what `hushdoc doctor` proves for one.

Tells on standard error whenever a graph or a table answers; leaves OCR to a test of its own.
"""


def test_models_of_every_task_run_and_ask_for_no_socket(tmp_path: Path) -> None:
    policy = write_policy(tmp_path, tiny.TRUST)
    artifacts = map(artifact_of, ARTIFACTS)
    done = in_python(PROOFS, policy, *artifacts, drop=("ORT_DISABLE_TELEMETRY",))
    told = map(json.loads, done.stdout.splitlines())
    found = {
        name: (one["attempts"], one["ran"], one["clean"])
        for name, one in zip(ARTIFACTS, told, strict=True)
    }
    expected = [f"a document through {loader}" for loader, _ in ARTIFACTS.values()]
    assert found == {name: ([], [ran], True) for name, ran in zip(ARTIFACTS, expected, strict=True)}
    table, graph = "hushdoc.runtime.hashed.sealed_table", "Session"
    answered = [table if name in ("clauses", "table of classes") else graph for name in ARTIFACTS]
    assert done.stderr.splitlines() == [f"ran {name}" for name in answered]


@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_a_model_and_ocr_ask_for_nothing_that_could_send(tmp_path: Path, seconds: int) -> None:
    trust = tmp_path / "trust.json"
    trust.write_bytes(tiny.TRUST.to_json())
    options = ("--json", "--prove-offline", "--seconds", seconds, "--trust", trust, *LIMITS)
    done = in_python(DOCTOR, tiny.sealed(), *options, drop=("ORT_DISABLE_TELEMETRY",))
    told = json.loads(done.stdout)["offline"]
    assert told["exit_code"] == 0
    assert [one for one in told["attempts"] if not Attempt(**one).is_local_test] == []
    assert told["ran"][0] == "a document through KIEModel"
    assert told["seconds"] >= seconds
