"""Runs a benchmark as on a processor without matrix units (AMX).

    python benchmarks/without_amx.py benchmarks/kie_inference.py

Linux lets a process use AMX once it has asked for it. Here a filter refuses that, to the command
and all that it starts, so that ONNX Runtime and oneDNN take the instructions that processors of the
same kind without AMX have; the line "machine" of a benchmark then says that it was refused.
bfloat16's own products by AVX-512 stay.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

ARCH_PRCTL, ASK, TILES = 158, 0x1023, 18
"""On x86-64: the number of the call, what asks for a part of the processor, and AMX's registers."""

_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _FIRST_ARGUMENT = 0, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_so", ctypes.c_uint8),
        ("if_not", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("start", ctypes.POINTER(_Instruction)))


def permitted() -> bool:
    """Asks for AMX; false where the processor has none, or a filter refuses it."""
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, ASK, TILES) == 0


def refuse() -> None:
    """Refuses AMX to this process and to what it starts."""
    steps = (
        (_LOAD, 0, 0, _NUMBER),
        (_IF_EQUAL, 0, 3, ARCH_PRCTL),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_IF_EQUAL, 0, 1, ASK),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    )
    lines = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    program = _Program(len(steps), lines)
    libc = ctypes.CDLL(None, use_errno=True)
    asked = ((_NO_NEW_PRIVILEGES, 1, 0), (_SET_FILTER, _FILTER, ctypes.byref(program)))
    for number, first, second in asked:
        if libc.prctl(number, first, second, 0, 0):
            raise OSError(ctypes.get_errno(), "Linux did not take the filter")


def main() -> None:
    """Refuses AMX and becomes the command."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    refuse()
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
