"""The verb `doctor`, run as a program would be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import argparse, sys
{before}
from hushdoc.commands import doctor
parser = argparse.ArgumentParser(prog="hushdoc")
doctor.register(parser.add_subparsers())
options = parser.parse_args(["doctor", *sys.argv[1:]])
sys.exit(options.run(options))
"""


def doctor(
    *arguments: str, before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    return subprocess.run(
        [sys.executable, "-c", CODE.format(before=before), *arguments],
        capture_output=True,
        text=True,
        env={**kept, **environment},
        timeout=120,
        check=False,
    )


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_a_sound_machine_is_healthy() -> None:
    done = doctor("--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["healthy"] is True
    found = checks(done)
    assert found["extra export"]["state"] == "fine"
    assert "cpu" in found["devices"]["found"]
    assert found["telemetry"]["found"] == "off, by ORT_DISABLE_TELEMETRY=1"
    assert found["cores"]["found"].startswith(f"{len(os.sched_getaffinity(0))} of ")


def test_people_get_one_line_for_each_check() -> None:
    done = doctor()
    assert done.returncode == 0
    # What is not installed is a note, and its advice stands below it, indented.
    assert all(line.startswith(("fine ", "note ", "  ")) for line in done.stdout.splitlines())
    assert "fine   onnxruntime: onnxruntime " in done.stdout


def test_a_missing_extra_is_a_note_with_the_line_that_installs_it() -> None:
    done = doctor(
        "--json",
        before="import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name: None if name == 'rapidocr' else real(name)",
    )
    assert done.returncode == 0
    told = checks(done)["extra ocr"]
    assert (told["state"], told["found"]) == ("note", "rapidocr not installed")
    assert "pip install 'hushdoc[ocr]'" in told["advice"]


def test_two_builds_over_one_another_are_found_and_explained(tmp_path: Path) -> None:
    info = tmp_path / "onnxruntime_gpu-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.0\n")
    done = doctor("--json", PYTHONPATH=str(tmp_path))
    assert done.returncode == 6
    told = checks(done)["onnxruntime"]
    assert told["state"] == "wrong"
    assert "onnxruntime-gpu 1.0" in told["found"]
    assert "Uninstall both, then install one" in told["advice"]


def test_a_host_that_imported_it_first_is_found_and_explained() -> None:
    before = (
        "import os\nos.environ['ORT_DISABLE_TELEMETRY'] = '1'\nimport onnxruntime\n"
        "del os.environ['ORT_DISABLE_TELEMETRY']"
    )
    done = doctor("--json", before=before)
    assert done.returncode == 6
    told = checks(done)["onnxruntime"]
    assert told["state"] == "wrong"
    assert "imported onnxruntime before hushdoc" in told["advice"]


def test_a_graph_that_runs_asks_for_no_socket() -> None:
    done = doctor("--prove-offline", "--seconds", "3", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["offline"]["attempts"] == []
    assert told["offline"]["seconds"] >= 3
    assert checks(done)["offline"]["found"].startswith("0 sockets and 0 DNS queries asked for in 3")


def test_a_sender_is_caught_and_named() -> None:
    """A package that calls home when it is imported, as a real one could."""
    before = (
        "import hushdoc.runtime.session as session\n"
        "real = session.Session.run\n"
        "def run(self, inputs):\n"
        "    import socket\n"
        "    try: socket.getaddrinfo('example.org', 443)\n"
        "    except OSError: pass\n"
        "    return real(self, inputs)\n"
        "session.Session.run = run"
    )
    done = doctor("--prove-offline", "--seconds", "0", "--json", before=before)
    assert done.returncode == 6
    told = checks(done)["offline"]
    assert told["state"] == "wrong"
    assert "0 DNS queries" not in told["found"]
    assert "All were refused" in told["advice"]


@pytest.mark.parametrize(
    "arguments",
    [("model",), ("--prove-offline", "--seconds", "-1"), ("model", "--prove-offline")],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    done = doctor(*arguments)
    assert done.returncode == 2
    assert "error:" in done.stderr
