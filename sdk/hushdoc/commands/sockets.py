"""Counts, and refuses, every socket that a process asks the kernel for.

The process gets a seccomp filter that no code in it can take off, native code and children
included; each call of `socket` waits until its parent has written it down and said no. Without a
socket there is neither a connection nor a DNS query. io_uring, which can open sockets by another
way, is refused outright. Needs Linux 5.0 and no privilege.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hushdoc.errors import HushdocError

_SOCKET, _IO_URING_SETUP, _SECCOMP = "socket", "io_uring_setup", "seccomp"
_SYSTEMS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (0xC000003E, {_SOCKET: 41, _IO_URING_SETUP: 425, _SECCOMP: 317}),
    "aarch64": (0xC00000B7, {_SOCKET: 198, _IO_URING_SETUP: 425, _SECCOMP: 277}),
}
"""Audit number and system calls of the machines that we know (linux/audit.h, asm/unistd.h)."""

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_ALLOW, _ERRNO, _USER_NOTIF = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_GREATER, _RETURN = 0x20, 0x15, 0x25, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_X32_BIT = 0x40000000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One call of `socket` that was refused.

    Attributes:
        family: Its name, such as that of `socket.AF_INET`.
        kind: Its name, such as that of `socket.SOCK_DGRAM`.
        seconds: When, since the watch began.
    """

    family: str
    kind: str
    seconds: float

    @property
    def for_dns(self) -> bool:
        """Whether it is what a resolver asks for first: a datagram to the internet."""
        internet = (socket.AF_INET.name, socket.AF_INET6.name)
        return self.family in internet and self.kind == socket.SOCK_DGRAM.name


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What a process did while it was watched.

    Attributes:
        exit_code: How it ended.
        seconds: How long it ran.
        attempts: Every socket that it asked for.
    """

    exit_code: int
    seconds: float
    attempts: tuple[Attempt, ...]


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


class _Notice(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint64),
        ("pid", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("number", ctypes.c_int32),
        ("architecture", ctypes.c_uint32),
        ("instruction_pointer", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    ]


class _Answer(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint64),
        ("value", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    ]


def watch(run: Callable[[], int]) -> Watched:
    """Runs a function in a child that gets no socket, and returns what it asked for.

    Args:
        run: Returns the child's exit code. This process is forked, so it must have no threads, and
            what shall be watched must not have been imported yet.

    Raises:
        HushdocError: PROOF_UNAVAILABLE: this system can't watch a process.
    """
    machine = _machine()
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os._exit(_run_watched(run, ours, theirs, machine))
    theirs.close()
    with ours:
        message, descriptors, _, _ = socket.recv_fds(ours, 256, 1)
    if not descriptors:
        os.waitpid(child, 0)
        raise _unavailable(message.decode("ascii", errors="replace"))
    began = time.monotonic()
    attempts = _answer_until_exit(descriptors[0], began)
    _, status = os.waitpid(child, 0)
    return Watched(
        exit_code=os.waitstatus_to_exitcode(status),
        seconds=time.monotonic() - began,
        attempts=tuple(attempts),
    )


def _run_watched(
    run: Callable[[], int], ours: socket.socket, theirs: socket.socket, machine: str
) -> int:
    """Puts the filter on, hands its listener to the parent and runs; returns the exit code."""
    try:
        ours.close()
        try:
            listener = _install(machine)
        except OSError as error:
            theirs.send(str(error).encode("ascii", errors="replace")[:256])
            return 1
        socket.send_fds(theirs, [b"ready"], [listener])
        os.close(listener)
        theirs.close()
        return run()
    except BaseException as error:  # the child must end here, whatever happened
        if not isinstance(error, KeyboardInterrupt):
            sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _machine() -> str:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _SYSTEMS or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise _unavailable(f"this is {sys.platform} on {machine}")
    return machine


def _install(machine: str) -> int:
    """Puts the filter on this process and returns the descriptor of its listener."""
    architecture, numbers = _SYSTEMS[machine]
    refuse = _ERRNO | errno.EPERM
    lines = (
        (_LOAD_WORD, 0, 0, _ARCHITECTURE_AT),
        # Another architecture's calls have other numbers: none of them is let through.
        (_JUMP_IF_EQUAL, 0, 6, architecture),
        (_LOAD_WORD, 0, 0, _NUMBER_AT),
        (_JUMP_IF_GREATER, 4, 0, _X32_BIT - 1),
        (_JUMP_IF_EQUAL, 2, 0, numbers[_SOCKET]),
        (_JUMP_IF_EQUAL, 2, 0, numbers[_IO_URING_SETUP]),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _USER_NOTIF),
        (_RETURN, 0, 0, refuse),
    )
    instructions = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    program = _Program(len(lines), instructions)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs can't be set")
    listener: int = library.syscall(
        ctypes.c_long(numbers[_SECCOMP]), _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program)
    )
    if listener < 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter with a listener")
    return listener


def _answer_until_exit(listener: int, began: float) -> list[Attempt]:
    """Refuses every socket until no watched process is left."""
    import fcntl

    attempts: list[Attempt] = []
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while True:
            events = poll.poll()[0][1]
            if not events & select.POLLIN:  # the last watched process is gone
                return attempts
            notice = _Notice()
            try:
                fcntl.ioctl(listener, _RECEIVE, notice)
                attempts.append(_attempt(notice, time.monotonic() - began))
                fcntl.ioctl(
                    listener, _SEND, _Answer(id=notice.id, value=0, error=-errno.EACCES, flags=0)
                )
            except OSError as error:
                # The caller died while it waited.
                if error.errno != errno.ENOENT:
                    raise
    finally:
        os.close(listener)


def _attempt(notice: Any, seconds: float) -> Attempt:
    family, kind = (int(value) & 0xFFFFFFFF for value in notice.arguments[:2])
    # The upper bits say whether it blocks, and whether children inherit it.
    return Attempt(
        family=_named(socket.AddressFamily, family),
        kind=_named(socket.SocketKind, kind & 0xF),
        seconds=seconds,
    )


def _named(names: Any, value: int) -> str:
    try:
        return str(names(value).name)
    except ValueError:
        return str(value)


def _unavailable(found: str) -> HushdocError:
    return HushdocError(
        f"This system can't watch what a process asks the network for ({found}). Expected Linux "
        "5.0 or newer on x86-64 or ARM, in a container that allows seccomp. Run it there, or watch "
        "the process from outside, with strace for instance.",
        code="PROOF_UNAVAILABLE",
    )
