"""Reader processes: one Python each, started when it is needed, used again, replaced when killed.

Contract: a process that did not answer as it should is killed and waited for, and never used again.
It gets no password, path or content by its command line or environment.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

from hushdoc import arguments
from hushdoc.arguments import MalformedError
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import READERS
from hushdoc.errors import HushdocError, LimitExceededError, UnsupportedFormatError
from hushdoc.reading import messages
from hushdoc.system.cores import usable_cores

SECONDS = 60.0
"""How long a reader process may take for a file, unless the limits say otherwise."""

MEMORY = 4 * 2**30
"""How many bytes of memory it may take, unless the limits say otherwise."""

_START_SECONDS = 120.0
_PIXEL_BYTES = 3

# The host's own search path, and neither the environment's nor the current folder.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from hushdoc.reading.reader_program import main; main()"
)

Answer = Callable[[dict[str, Any], bytes], dict[str, Any]]
"""What answers a question that the reader process has about an image."""


def required(reader: object, limits: ReadingLimits) -> str:
    """Returns the name of a reader; ValueError for another, or where it can't keep the limits."""
    name = arguments.choice(reader, READERS, what="reader")
    if name == "here" and (limits.max_seconds, limits.max_memory) != (None, None):
        raise ValueError(
            'reader is "here", which can keep neither max_seconds nor max_memory. Pass '
            'reader="process", or leave them out.'
        )
    return name


def ask(
    question: Mapping[str, Any],
    content: bytes,
    *,
    name: str,
    limits: ReadingLimits,
    answer: Answer | None = None,
) -> messages.Message:
    """Returns what a reader process answers about a file; `answer` reads the images that it draws.

    Raises:
        LimitExceededError: It took too long (READER_TIMEOUT).
        UnsupportedFormatError: It ended, or answered something malformed (READER_CRASHED).
        HushdocError: It can't be started (READER_NOT_STARTED).
    """
    with _borrowed() as process:
        return process.ask(question, content, name=name, limits=limits, answer=answer)


class ReaderProcess:
    """A process that reads one file after the other, for one thread at a time."""

    def __init__(self) -> None:
        """Starts it; HushdocError (READER_NOT_STARTED) where that fails."""
        executable = os.fsdecode(multiprocessing.spawn.get_executable() or "")
        if getattr(sys, "frozen", False) or not executable:
            raise _not_started("this program is no Python interpreter")
        found = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        try:
            self._process = subprocess.Popen(
                [executable, "-I", "-c", _PROGRAM, found],
                bufsize=0,  # no buffer, and so no lock that a fork could copy
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the host, which ends it
            )
        except OSError as error:
            raise _not_started(str(error)) from error
        self._timed_out = self._used_up = self.host_ends = False
        try:
            with self._ended_after(_START_SECONDS):
                ready, _ = messages.receive(cast("Any", self._process.stdout), max_bytes=0)
        except (OSError, EOFError, MalformedError) as error:
            self.end()
            raise _not_started(f"it ended with {_ending(self._process.returncode)}") from error
        except BaseException:
            self.end()
            raise

    @property
    def usable(self) -> bool:
        """Whether it still waits for files."""
        return not self._used_up and self._process.poll() is None

    def ask(
        self,
        question: Mapping[str, Any],
        content: bytes,
        *,
        name: str,
        limits: ReadingLimits,
        answer: Answer | None,
    ) -> messages.Message:
        """Returns the answer as the function `ask`; whatever fails ends the process."""
        left = seconds = SECONDS if limits.max_seconds is None else limits.max_seconds
        memory = MEMORY if limits.max_memory is None else limits.max_memory
        head = question
        try:
            for _ in range(limits.max_pages + 1):
                began = time.monotonic()
                with self._ended_after(left):
                    messages.send(
                        cast("Any", self._process.stdin),
                        {**head, "seconds": left, "memory": memory},
                        content,
                    )
                    found, body = messages.receive(
                        cast("Any", self._process.stdout),
                        max_bytes=max(limits.max_bytes, _PIXEL_BYTES * limits.max_pixels),
                    )
                if answer is None or "drawn" not in found:
                    return found, body
                # What the host takes to read an image is not the file's time.
                left = max(0.001, left - (time.monotonic() - began))
                head, content = answer(found, body), b""
            raise MalformedError("it asked about more images than the file may have pages")
        except BaseException as error:
            self.end()
            if self.host_ends:
                raise SystemExit from error  # which a thread ends of without a word
            if isinstance(error, OSError | EOFError | MalformedError):
                raise self._failed(name, seconds, error) from error
            raise

    def end(self) -> None:
        """Kills it and waits for it: no zombie is left."""
        self._used_up = True
        self._process.kill()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Closes the pipes in a forked copy of the host, which has another parent's process."""
        self._used_up = True
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast("Any", stream).close()

    @contextmanager
    def _ended_after(self, seconds: float) -> Iterator[None]:
        """Kills the process unless the block ends in time; blocking reads then see its end."""
        done = threading.Lock()

        def kill() -> None:
            if done.acquire(blocking=False):
                self._timed_out = self._used_up = True
                self._process.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        with suppress(RuntimeError):  # at the end of the host; the process has an alarm too
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            done.acquire(blocking=False)

    def _failed(self, name: str, seconds: float, error: Exception) -> HushdocError:
        status = self._process.returncode
        if self._timed_out or status == -getattr(signal, "SIGALRM", 0):
            return LimitExceededError(
                f"Reading '{name}' took more than {seconds:g} seconds and was ended. Leave the "
                "file out, or raise ReadingLimits.max_seconds.",
                code="READER_TIMEOUT",
            )
        what = str(error) if isinstance(error, MalformedError) else _ending(status)
        return UnsupportedFormatError(
            f"The process that read '{name}' failed: {what}. The file is damaged or hostile, or "
            "needs more than ReadingLimits.max_memory; write it anew, or leave it out.",
            code="READER_CRASHED",
        )


def _ending(status: int | None) -> str:
    """Returns how a process ended, for people."""
    if status is None or status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _not_started(why: str) -> HushdocError:
    return HushdocError(
        f"No reader process can be started: {why}. Expected a Python that imports hushdoc, as "
        'multiprocessing.set_executable names it. Correct that, or pass reader="here".',
        code="READER_NOT_STARTED",
    )


class _Pool:
    """The processes of this host; as many as threads ask at once, and some are kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[ReaderProcess] = []
        self.all: set[ReaderProcess] = set()


_pool = _Pool()


def running() -> list[subprocess.Popen[bytes]]:
    """Returns the reader processes of this one."""
    return [process._process for process in _pool.all]


@contextmanager
def _borrowed() -> Iterator[ReaderProcess]:
    """Yields a process that nobody else uses, and keeps it for the next file if it is sound."""
    pool = _pool
    process = None
    with pool.lock:
        while pool.idle and process is None:
            found = pool.idle.pop()
            if found.usable:
                process = found
            else:
                pool.all.discard(found)
                found.end()
    if process is None:
        process = ReaderProcess()
        with pool.lock:
            pool.all.add(process)
    try:
        yield process
    finally:
        with pool.lock:
            keep = process.usable and len(pool.idle) < usable_cores()
            if keep:
                pool.idle.append(process)
            else:
                pool.all.discard(process)
        if not keep:
            process.end()


@atexit.register
def _end_all() -> None:
    """Ends all processes with the host."""
    for process in tuple(_pool.all):
        process.host_ends = True
        process.end()


def _begin_anew() -> None:
    """Leaves the processes to the parent after a fork: both would write into one pipe."""
    global _pool
    for process in tuple(_pool.all):
        process.forget()
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
