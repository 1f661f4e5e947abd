"""A processor's matrix units are refused to a benchmark, and nothing else is."""

from __future__ import annotations

import errno
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

ASKS = """
import ctypes, sys
sys.path.insert(0, BENCHMARKS)
import without_amx as amx
libc, held = ctypes.CDLL(None, use_errno=True), ctypes.c_uint64()
asked = libc.syscall(amx.ARCH_PRCTL, amx.ASK, amx.TILES), ctypes.get_errno()
print(amx.permitted(), *asked, libc.syscall(amx.ARCH_PRCTL, 0x1022, ctypes.byref(held)))
print("[]")
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AMX is of x86-64 alone")
def test_amx_alone_is_refused_to_what_a_command_starts(
    run: Callable[..., tuple[object, str]],
) -> None:
    asks = ASKS.replace("BENCHMARKS", repr(str(Path(__file__).parents[2] / "benchmarks")))
    _, said = run("without_amx", "-c", asks)
    assert said.splitlines()[0] == f"False -1 {errno.EPERM} 0"
