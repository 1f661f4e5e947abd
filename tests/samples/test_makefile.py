"""The installation that comes before every target: what it says, Ctrl-C, and beginning anew.

Stubs stand for Python and pip; nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from hushdoc_terminal import Ended, on_terminal

ROOT = Path(__file__).parents[2]
SAID = "Installing into .venv first: a minute or two on a fast network. Ctrl-C stops it."
INTERRUPTED = "Interrupted. The same command begins the installation anew."

STUB = """#!{python}
import pathlib, shutil, sys, time

if sys.argv[1:3] == ["-m", "venv"]:
    folder = pathlib.Path(".venv", "bin")
    folder.mkdir(parents=True)
    for name in ("python", "pip", "uv"):
        shutil.copy(sys.argv[0], folder / name)
elif "install" in sys.argv:
    pathlib.Path(".venv", "half-a-package").touch()
    if (told := pathlib.Path("told")).exists():
        sys.exit(told.read_text())
    if pathlib.Path("slow").exists():
        print("begun", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the Makefile beside a stub of Python, for a make that no other make has started."""
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    (tmp_path / "stub").write_text(STUB.format(python=sys.executable))
    (tmp_path / "stub").chmod(0o755)
    return tmp_path


def make(place: Path, *, target: str = ".venv/.ready", until: str | None = None) -> Ended:
    return on_terminal("make", target, "PYTHON=./stub", cwd=place, until=until, limit=50)


def test_ctrl_c_is_one_line_and_the_next_installation_begins_anew(place: Path) -> None:
    (place / "slow").touch()
    stopped = make(place, target="demo", until="begun\r\n")
    assert stopped.code != 0
    assert stopped.lines == [SAID, "begun", INTERRUPTED, ""]
    assert not (place / ".venv/.ready").exists()
    assert (place / ".venv/half-a-package").exists()
    (place / "slow").unlink()
    (place / ".venv/of-before").touch()
    done = make(place)
    assert (done.code, done.lines) == (0, [SAID, ""])
    assert (place / ".venv/.ready").exists()
    assert not (place / ".venv/of-before").exists()
    assert "Installing" not in make(place).printed


def test_an_interrupted_renewal_is_no_finished_installation(place: Path) -> None:
    assert make(place).code == 0
    (place / ".venv/of-before").touch()
    later = (place / ".venv/.ready").stat().st_mtime + 1
    for name in ("slow", "pyproject.toml"):
        (place / name).touch()
    os.utime(place / "pyproject.toml", (later, later))
    assert make(place, until="begun\r\n").lines[-2:] == [INTERRUPTED, ""]
    assert not (place / ".venv/.ready").exists()
    (place / "slow").unlink()
    assert make(place).code == 0
    assert not (place / ".venv/of-before").exists()


def test_a_failed_installation_says_why_and_keeps_what_is_there(place: Path) -> None:
    (place / "told").write_text("No package of that name.")
    failed = make(place)
    assert failed.code == 2
    assert "No package of that name." in failed.lines
    assert not (place / ".venv/.ready").exists()
    (place / "told").unlink()
    (place / ".venv/of-before").touch()
    assert make(place).code == 0
    assert (place / ".venv/of-before").exists()
