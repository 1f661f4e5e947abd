"""Keeps the telemetry of ONNX Runtime off, for everything here that imports it.

Contract: `keep_off` runs before the first import of onnxruntime, ours or that of a package that we
use. From 1.29 on onnxruntime sends telemetry unless ORT_DISABLE_TELEMETRY=1 is in the
environment before its first import; nothing stops it afterwards. Its value now says
nothing about then, so where the application was quicker its environment at the start counts.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from hushdoc.errors import TelemetryActiveError

VARIABLE = "ORT_DISABLE_TELEMETRY"
FIRST_VERSION = (1, 29)
"""The first onnxruntime that sends telemetry."""

_ENVIRONMENT = Path("/proc/self/environ")
_was_first = False


def keep_off() -> None:
    """Switches telemetry off, or raises TelemetryActiveError where the host was quicker."""
    global _was_first
    if "onnxruntime" not in sys.modules:
        _was_first = True
    elif not (_is_silent() or _was_off()):
        raise TelemetryActiveError(
            f"The application imported onnxruntime before hushdoc, and {VARIABLE}=1 was not "
            "in the environment when it started. It may send file and model names over the "
            f"network, and nothing can stop it any more. Start it with {VARIABLE}=1, or let it "
            "call hushdoc.system.telemetry.keep_off() before it imports onnxruntime."
        )
    os.environ[VARIABLE] = "1"


def _is_silent() -> bool:
    """Returns whether the onnxruntime that was imported is too old to send anything."""
    version = re.match(r"(\d+)\.(\d+)", str(getattr(sys.modules["onnxruntime"], "__version__", "")))
    return version is not None and (int(version[1]), int(version[2])) < FIRST_VERSION


def _was_off() -> bool:
    """Returns whether telemetry was off when onnxruntime was imported."""
    if os.environ.get(VARIABLE) != "1":
        return False
    if _was_first:
        return True
    try:
        return f"{VARIABLE}=1".encode() in _ENVIRONMENT.read_bytes().split(b"\0")
    except OSError:
        # Only Linux shows the environment a process was started with.
        return True
