"""Flower's Python for tests, and a watched one that notes whom it connects to and what it loads."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDED = "HUSHDOC_FLOWER_PYTHON"
"""Environment variable with the Python that has Flower, where this one has none."""

_WATCHED = """#!{python} -I
import atexit, os, sys
notes = open("{notes}/" + str(os.getpid()), "a", buffering=1)
def watch(event, given):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        print("to", given[1], file=notes)
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        print("asks", given[0], file=notes)
    elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"):
        print("starts", given, file=notes)
sys.addaudithook(watch)
atexit.register(lambda: print("loaded", *sys.modules, file=notes))
code = sys.argv[3]
sys.argv = ["-c", *sys.argv[4:]]
exec(compile(code, "<courier>", "exec"), {{"__name__": "__main__"}})
"""


def flower() -> Path:
    """Returns the Python that has Flower; skips the test where there is none."""
    if given := os.environ.get(NEEDED):
        return Path(given)
    if find_spec("flwr") is None:
        pytest.skip(f"Flower is not installed here; .ci/network installs it and sets {NEEDED}")
    return Path(sys.executable)


def watched(folder: Path) -> Path:
    """Returns a Python with Flower that notes in a folder of that name beside it what it does."""
    notes = folder / "notes"
    notes.mkdir()
    python = folder / "watched"
    python.write_text(_WATCHED.format(python=flower(), notes=notes))
    python.chmod(0o755)
    return python


def noted(python: Path, kind: str) -> list[str]:
    """Returns what watched couriers have noted of a kind."""
    lines = [line for file in (python.parent / "notes").iterdir() for line in file.open()]
    return [line.split(" ", 1)[1].strip() for line in lines if line.startswith(f"{kind} ")]
