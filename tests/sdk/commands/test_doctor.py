"""The subcommand `doctor`, in a process of its own where it looks at what its process imports."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from hushdoc_processes import in_python

from hushdoc.__main__ import main
from hushdoc.commands import sockets
from hushdoc.commands.extras import EXTRAS
from hushdoc.reading import ocr, tesseract
from hushdoc.reading.ocr import rapid_is_installed

CODE = """
import sys
{before}
from hushdoc.__main__ import main
sys.exit(main(["doctor", *sys.argv[1:]]))
"""


WITHOUT_OCR = """
from hushdoc.reading import ocr, tesseract
ocr.rapid_is_installed = lambda: False
tesseract.program = lambda: None
"""
"""Leaves the engines of OCR out, which take their time, where something else is tested."""

DOING = (
    WITHOUT_OCR
    + """
import hushdoc.runtime.session as session
real = session.Session.run
def run(self, inputs):
    {body}
    return real(self, inputs)
session.Session.run = run
"""
)
"""Lets something else happen whenever a graph runs."""


def doctor(
    *arguments: str, before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return in_python(
        CODE.format(before=before),
        *arguments,
        check=False,
        drop=("ORT_DISABLE_TELEMETRY",),
        environment=environment,
    )


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return by_name(done.stdout)


def by_name(printed: str) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(printed)["checks"]}


def test_a_sound_machine_is_healthy() -> None:
    done = doctor("--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["healthy"] is True
    found = checks(done)
    assert found["extra cpu"]["state"] == "fine"
    assert "cpu" in found["devices"]["found"]
    assert found["telemetry"]["found"] == "off, by ORT_DISABLE_TELEMETRY=1"
    assert found["cores"]["found"].startswith(f"{len(os.sched_getaffinity(0))} of ")


def test_people_get_one_line_for_each_check(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    printed = capfd.readouterr().out
    # What is not installed is a note, and its advice stands below it, indented.
    assert all(line.startswith(("fine ", "note ", "  ")) for line in printed.splitlines())
    assert "fine   onnxruntime: onnxruntime " in printed


def test_two_builds_over_one_another_are_found_and_explained(tmp_path: Path) -> None:
    info = tmp_path / "onnxruntime_gpu-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.0\n")
    done = doctor("--json", PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert done.returncode == 6
    told = checks(done)["onnxruntime"]
    assert told["state"] == "wrong"
    assert "onnxruntime-gpu 1.0" in told["found"]
    assert "Uninstall both, then install one" in told["advice"]


def test_a_host_that_imported_it_first_is_found_and_explained() -> None:
    before = (
        "import os\nos.environ['ORT_DISABLE_TELEMETRY'] = '1'\nimport onnxruntime\n"
        "onnxruntime.__version__ = '1.31.1'\ndel os.environ['ORT_DISABLE_TELEMETRY']"
    )
    done = doctor("--json", before=before)
    assert done.returncode == 6
    told = checks(done)["onnxruntime"]
    assert told["state"] == "wrong"
    assert "imported onnxruntime before hushdoc" in told["advice"]


def test_a_graph_that_runs_asks_for_no_socket() -> None:
    done = doctor("--prove-offline", "--seconds", "2", "--json", before=WITHOUT_OCR)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["offline"]
    assert (told["attempts"], told["ran"]) == ([], ["a graph of one operator"])
    assert told["seconds"] > 1  # the watch may begin after the program that is watched
    expected = f"0 sockets and 0 DNS queries asked for in {told['seconds']:.0f} s; ran a graph"
    assert checks(done)["offline"]["found"].startswith(expected)


def test_a_page_is_read_by_each_engine_that_is_installed() -> None:
    engines = {
        "rapidocr": rapid_is_installed(),
        "tesseract": tesseract.program() is not None,
    }
    done = doctor("--prove-offline", "--seconds", "0", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)["offline"]
    expected = [f"a page through {name} (4 words)" for name, there in engines.items() if there]
    assert told["ran"] == ["a graph of one operator", *expected]
    # What is left is urllib3's own test, which RapidOCR has run by importing it.
    attempts = [sockets.Attempt(**one) for one in told["attempts"]]
    assert all(one.is_local_test for one in attempts)
    assert len(attempts) == engines["rapidocr"]


def test_urllib3s_test_for_ipv6_is_told_and_no_fault() -> None:
    pytest.importorskip("urllib3")
    before = DOING.format(body="import urllib3")
    done = doctor("--prove-offline", "--seconds", "0", "--json", before=before)
    assert done.returncode == 0, done.stderr
    told = checks(done)["offline"]
    assert told["found"].startswith("1 sockets and 0 DNS queries")
    assert "by urllib3, which tests when it is imported" in told["found"]


def test_a_sender_is_caught_and_named() -> None:
    """A package that calls home when it is imported, as a real one could."""
    before = DOING.format(
        body="import contextlib, socket\n"
        "    with contextlib.suppress(OSError): socket.getaddrinfo('example.org', 443)"
    )
    done = doctor("--prove-offline", "--seconds", "0", "--json", before=before)
    assert done.returncode == 6
    told = checks(done)["offline"]
    assert told["state"] == "wrong"
    assert "0 DNS queries" not in told["found"]
    assert "All were refused" in told["advice"]
    assert "asked for by __main__.run" in told["advice"]


def test_an_engine_that_calls_home_is_caught(tmp_path: Path) -> None:
    """A program in Tesseract's place that opens a connection while it reads a page."""
    if tesseract.program() is None:
        pytest.skip("there is no program to stand in for")
    path = tmp_path / "tesseract"
    path.write_text(
        f"#!/bin/sh\n{sys.executable} -c 'import socket; socket.socket()' 2>/dev/null\n"
        f'exec {tesseract.program()} "$@"\n'
    )
    path.chmod(0o755)
    place = f"{tmp_path}:{os.environ['PATH']}"
    before = "from hushdoc.reading import ocr\nocr.rapid_is_installed = lambda: False"
    done = doctor("--prove-offline", "--seconds", "0", "--json", before=before, PATH=place)
    assert done.returncode == 6
    assert "asked for by the program python" in checks(done)["offline"]["advice"]


def without_rapidocr(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "rapidocr" else real(name)
    )


# No package brings Tesseract, so only the program itself is looked for.
NOTES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = {
    "extra ocr": (without_rapidocr, "rapidocr not installed", "pip install 'hushdoc[ocr]'"),
    "engine rapidocr": (
        lambda patch: patch.setattr(ocr, "rapid_is_installed", bool),
        "",
        "hushdoc[cpu,ocr]",
    ),
    "engine tesseract": (
        lambda patch: patch.setenv("PATH", ""),
        "the program is not installed",
        "apt-get install tesseract-ocr",
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_is_missing_is_a_note_with_the_line_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    missing, found, advice = NOTES[name]
    missing(monkeypatch)
    assert main(["doctor", "--json"]) == 0
    printed = capfd.readouterr().out
    told = by_name(printed)[name]
    assert told["state"] == "note"
    assert found in told["found"]
    assert advice in told["advice"]
    assert "pytesseract" not in printed


def test_a_program_that_does_not_run_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tesseract").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "tesseract").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "--json"]) == 6
    assert by_name(capfd.readouterr().out)["engine tesseract"]["state"] == "wrong"


def test_advice_names_extras_that_bring_what_is_missing() -> None:
    """Every package that is looked for is one that its extra demands."""
    pytest.importorskip("pycrfsuite")  # only what is installed tells which modules it brings
    path = Path(__file__).parents[3] / "pyproject.toml"
    extras = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
    distributions = metadata.packages_distributions()
    for extra, names in EXTRAS.items():
        demanded = {re.split(r"[\s\[<>=!~;]", line)[0].lower() for line in extras[extra]}
        for name in names:
            found = {name.lower().replace("_", "-")}
            found |= {known.lower() for known in distributions.get(name, ())}
            assert found & demanded, f"{extra} does not bring {name}"
    assert set(extras) - set(EXTRAS) <= {"gpu"}


def test_a_model_that_its_policy_refuses_is_one_line(tmp_path: Path) -> None:
    assert main(["sample", str(tmp_path / "sample")]) == 0
    policy, model = tmp_path / "sample/policy.toml", tmp_path / "sample/model"
    policy.write_text(re.sub("max_epsilon = .*", "max_epsilon = 0", policy.read_text("utf-8")))
    given = ("--policy", str(policy), "--prove-offline", "--seconds", "0")
    done = doctor(str(model), *given, before=WITHOUT_OCR)
    assert done.returncode == 6
    assert done.stderr.startswith("hushdoc doctor: EPSILON_TOO_LARGE: ")
    assert "Traceback" not in done.stderr
    assert "The run itself failed." in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [("model",), ("--prove-offline", "--seconds", "-1")],
)
def test_wrong_usage(arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", *arguments])
    assert "error:" in capfd.readouterr().err
