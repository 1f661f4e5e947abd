"""Fresh interpreters, for what a test can't show inside its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def interpreter(
    *arguments: object,
    check: bool = True,
    drop: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments; a failure shows what it printed.

    Its environment is that of the tests without `drop` and with `environment`.
    """
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**kept, **(environment or {})},
        check=False,
        **{"timeout": 280, **settings},
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def in_python(code: str, *arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh interpreter, as `interpreter` does."""
    return interpreter("-c", code, *arguments, **settings)
