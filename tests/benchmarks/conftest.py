"""Runs a benchmark as a user does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
Run = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Returns what runs a benchmark, for the object of its last line and all that it printed."""

    def run(name: str, *arguments: str) -> tuple[dict[str, Any], str]:
        command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=290)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1]), done.stdout

    return run
