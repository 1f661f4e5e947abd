"""What a benchmark ran on: system, cores, the processor's name and the instructions that matter."""

from __future__ import annotations

import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import without_amx

AMX = "amx_int8"
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", AMX)
"""By the names of Linux; how fast products and sorting are depends on them."""


def description() -> str:
    """Returns one line, for the key "machine" of a benchmark's JSON."""
    found = _first_processor()
    known = [name for name in INSTRUCTIONS if name in found.get("flags", "").split()]
    if AMX in known and not without_amx.permitted():
        known[known.index(AMX)] = f"{AMX} refused"
    name = found.get("model name") or platform.processor() or "unknown processor"
    if "cpu family" in found:  # a name alone may leave out which generation it is
        name += f", family {found['cpu family']}, model {found['model']}"
    parts = (f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores", name, *known)
    return ", ".join(parts)


def stamp(began: float, *packages: str) -> dict[str, str | int]:
    """Returns how a benchmark's last line ends: seconds since then, date, machine and versions."""
    return {
        "seconds": round(time.monotonic() - began),
        **dated(),
        **{package: version(package) for package in packages},
    }


def dated(*, python: bool = False) -> dict[str, str]:
    """Returns the date and the machine, and Python's version where it matters."""
    found = {"date": datetime.now(UTC).date().isoformat(), "machine": description()}
    return found | ({"python": platform.python_version()} if python else {})


def peak_bytes() -> int:
    """Returns the most memory that this process has held.

    A program that was started by another begins with the other's `ru_maxrss`, so Linux is asked
    for the peak of this program's own memory.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _first_processor() -> dict[str, str]:
    """Returns what Linux says of its first processor, by name."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
