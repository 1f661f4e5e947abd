"""Counts, and refuses, every socket that a process asks the kernel for.

The process gets a seccomp filter that no code in it can take off, native code and children
included; each call of `socket` waits until its parent has written it down and said no. Without a
socket there is neither a connection nor a DNS query. io_uring, which can open sockets by another
way, is refused outright. Needs Linux 5.0 and no privilege.

The count is the kernel's. Which function asked is reported by the interpreter of the watched
process (an audit hook), so a hostile program can report something else.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
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

UNKNOWN = "code that is not Python's"
"""Who asked, where neither a function of the watched interpreter did nor another program."""

LOCAL_TESTS = frozenset(
    {
        (
            "urllib3.util.connection._has_ipv6",
            socket.AF_INET6.name,
            socket.SOCK_STREAM.name,
        )
    }
)
"""Sockets that send nothing where they are granted, by who asks for which: urllib3, when it is
imported, binds one to ::1 to see whether the machine knows IPv6, and closes it."""

_PIPE_BYTES = 4096
"""Writes to a pipe up to this size are atomic."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One call of `socket` that was refused: family and type by their names in `socket`.

    `seconds` count from the begin of the watch. `asked_by` is the function that asked, with its
    module; a program that was started; or UNKNOWN.
    """

    family: str
    kind: str
    seconds: float
    asked_by: str = UNKNOWN

    @property
    def for_dns(self) -> bool:
        """Whether it is what a resolver asks for first: a datagram to the internet."""
        internet = (socket.AF_INET.name, socket.AF_INET6.name)
        return self.family in internet and self.kind == socket.SOCK_DGRAM.name

    @property
    def is_local_test(self) -> bool:
        """Whether it is known to send nothing even where it is granted."""
        return (self.asked_by, self.family, self.kind) in LOCAL_TESTS


@dataclass(frozen=True, kw_only=True)
class Watched:
    """How a watched process ended, how long it ran, and every socket that it asked for."""

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

    `run` returns the child's exit code. This process is forked, so it must have no threads, and
    what shall be watched must not have been imported yet. PROOF_UNAVAILABLE: this system can't
    watch a process.
    """
    machine = _machine()
    ours, theirs = socket.socketpair()
    names, naming = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(names)
        ours.close()
        os._exit(_run_watched(run, theirs, naming, machine))
    os.close(naming)
    theirs.close()
    with ours:
        message, descriptors, _, _ = socket.recv_fds(ours, 256, 1)
    began = time.monotonic()
    try:
        if not descriptors:
            os.waitpid(child, 0)
            raise _unavailable(message.decode("ascii", errors="replace"))
        attempts = _answer_until_exit(descriptors[0], names, child, began)
    finally:
        os.close(names)
    _, status = os.waitpid(child, 0)
    return Watched(
        exit_code=os.waitstatus_to_exitcode(status),
        seconds=time.monotonic() - began,
        attempts=tuple(attempts),
    )


def _run_watched(run: Callable[[], int], theirs: socket.socket, naming: int, machine: str) -> int:
    """Puts the filter on, hands its listener to the parent and runs; returns the exit code."""
    try:
        try:
            listener = _install(machine)
        except OSError as error:
            theirs.send(str(error).encode("ascii", errors="replace")[:256])
            return 1
        socket.send_fds(theirs, [b"ready"], [listener])
        os.close(listener)
        theirs.close()
        _tell_who_asks(naming)
        return run()
    except BaseException as error:  # the child must end here, whatever happened
        if not isinstance(error, KeyboardInterrupt):
            sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _tell_who_asks(naming: int) -> None:
    """Writes thread and function to a pipe whenever Python code is about to ask for a socket."""
    os.set_blocking(naming, False)

    def hook(event: str, _: tuple[Any, ...]) -> None:
        if event in ("socket.__new__", "socket.getaddrinfo", "socket.gethostbyname"):
            line = f"{threading.get_native_id()} {_asking()}\n".encode("ascii", "replace")
            with suppress(OSError):  # full: then it stays unknown who asked
                os.write(naming, line[:_PIPE_BYTES])

    sys.addaudithook(hook)


def _asking() -> str:
    """Returns the innermost function on the stack that is neither ours nor the socket module's."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") in ("socket", "_socket", __name__):
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__", "?"))
    return " ".join(f"{module}.{frame.f_code.co_qualname}".split())[: _PIPE_BYTES // 8]


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


def _answer_until_exit(listener: int, names: int, child: int, began: float) -> list[Attempt]:
    """Refuses every socket until no watched process is left."""
    import fcntl

    attempts: list[Attempt] = []
    callers = _Names(names)
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
                who = callers.taken(int(notice.pid)) or _unnamed(int(notice.pid), child)
                attempts.append(_attempt(notice, time.monotonic() - began, who))
                fcntl.ioctl(
                    listener, _SEND, _Answer(id=notice.id, value=0, error=-errno.EACCES, flags=0)
                )
            except OSError as error:
                # The caller died while it waited.
                if error.errno != errno.ENOENT:
                    raise
    finally:
        os.close(listener)


class _Names:
    """Which function each thread said would ask next."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._rest = b""
        self._by_thread: dict[int, str] = {}

    def taken(self, thread: int) -> str | None:
        """Returns what a thread said last, once: what it does not name again, others ask for."""
        with suppress(BlockingIOError):
            while content := os.read(self._pipe, 1 << 16):
                *lines, self._rest = (self._rest + content).split(b"\n")
                for line in lines:
                    number, _, name = line.decode("ascii", "replace").partition(" ")
                    if number.isdecimal():  # the watched process might write anything
                        self._by_thread[int(number)] = name
        return self._by_thread.pop(thread, None)


def _unnamed(thread: int, child: int) -> str:
    """Returns who asks where no function did: a program that was started, or native code."""
    try:
        status = Path(f"/proc/{thread}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return UNKNOWN
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    if fields.get("Tgid") == str(child):
        return UNKNOWN
    return f"the program {fields.get('Name', '?')}"


def _attempt(notice: Any, seconds: float, asked_by: str) -> Attempt:
    family, kind = (int(value) & 0xFFFFFFFF for value in notice.arguments[:2])
    # The upper bits say whether it blocks, and whether children inherit it.
    return Attempt(
        family=_named(socket.AddressFamily, family),
        kind=_named(socket.SocketKind, kind & 0xF),
        seconds=seconds,
        asked_by=asked_by,
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
