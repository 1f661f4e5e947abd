"""Courier processes that can't be: a typed error, soon, and nothing left behind."""

from __future__ import annotations

import ast
import os
import sys
import tempfile
from pathlib import Path

import pytest

from hushdoc.errors import HushdocError, InputError, MissingExtraError, PrivacyError
from hushdoc_training.federated.flower import courier, wire
from hushdoc_training.federated.flower.courier import Courier, flower_python

NOT_OURS = ("secagg", "privacy", "strategy", "workflow", "simulation", "clientapp", "serverapp")
"""Parts of Flower whose sums, noise, coins, waits or programs no guarantee here is made of."""


def test_nothing_of_flowers_privacy_or_training_is_used() -> None:
    sources = sorted(Path(courier.__file__).parent.rglob("*.py"))
    modules = {
        f"{node.module}.{name.name}".lower()
        for source in sources
        for node in ast.walk(ast.parse(source.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if node.module is not None and node.module.startswith("flwr")
    }
    assert len(modules) > 10
    assert [name for name in modules if any(part in name for part in NOT_OURS)] == []


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def without_flower(tmp_path: Path) -> Path:
    """Returns a Python that has no packages at all."""
    return program(tmp_path / "bare", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')


def test_a_python_without_flower_names_the_extra(tmp_path: Path) -> None:
    for python in (without_flower(tmp_path), tmp_path / "nowhere"):
        with pytest.raises(MissingExtraError, match=r"hushdoc\[federated\]"):
            flower_python(python)


@pytest.mark.parametrize("version", ["1.4.1", "1.40.9", "1.410.0", "2.41.0"])
def test_another_flower_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        flower_python(program(tmp_path / "python", f"#!/bin/sh\necho {version}\n"))
    assert refused.value.code == "WRONG_FLOWER"


def test_a_later_patch_of_flower_is_taken(tmp_path: Path) -> None:
    python = program(tmp_path / "python", "#!/bin/sh\necho 1.41.7\n")
    assert flower_python(python) == python


def test_what_a_courier_says_last_is_waited_for(tmp_path: Path) -> None:
    leaves = "import os, sys, time; os.close(int(sys.argv[-1])); time.sleep(.3); print('Why.')"
    text = f"#!{sys.executable} -IS\n{leaves}; sys.exit({wire.WRONG_CERTIFICATE})\n"
    python = program(tmp_path / "python", text)
    with pytest.raises(PrivacyError, match=r"^Why\. Whoever") as failed:
        Courier("node", [b"{}"], python=python, log=tmp_path / "log")
    assert failed.value.code == "WRONG_CERTIFICATE"


@pytest.mark.parametrize("name", ["link", "node"])
def test_a_courier_that_ends_is_an_error_with_its_last_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(HushdocError, match="No module named") as failed:
        Courier(name, [b"{}"], python=without_flower(tmp_path), log=tmp_path / "log")
    assert failed.value.code == "COURIER_FAILED"


def test_a_courier_that_says_nothing_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("START_SECONDS", "STOP_SECONDS"):
        monkeypatch.setattr(courier, name, 0.3)
    note = tmp_path / "number"
    asleep = program(tmp_path / "python", f"#!/bin/sh\necho $$ > {note}\nexec sleep 60\n")
    with pytest.raises(HushdocError, match="has not started"):
        Courier("node", [b"{}"], python=asleep, log=tmp_path / "log")
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_a_courier_gets_no_environment_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSPHRASE", "secret")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shows = program(tmp_path / "python", f"#!/bin/sh\nenv > {tmp_path / 'shown'}\nls -ld $PWD\n")
    with pytest.raises(HushdocError, match="drwx------"):
        Courier("node", [b"{}"], python=shows, log=tmp_path / "log")
    shown = dict(line.split("=", 1) for line in (tmp_path / "shown").read_text().splitlines())
    assert shown["FLWR_TELEMETRY_ENABLED"] == "0"
    assert "PASSPHRASE" not in shown
    assert shown["FLWR_HOME"] == shown["HOME"]
    assert not Path(shown["HOME"]).exists(), "its home is gone with it"
