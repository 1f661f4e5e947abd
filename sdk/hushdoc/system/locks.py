"""Locks: files that a command reads, changes and writes back, one process at a time."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

from hushdoc.system import atomic_files

PAUSE_SECONDS = 0.05
"""Pause between two attempts, where the system does not wait for a lock (Windows)."""

_TAKEN = (errno.EACCES, errno.EDEADLK)
"""Errors of Windows for a file that another process has locked."""


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Excludes other commands that rewrite files of the same folder, until the block ends.

    Without `wait`, a folder that somebody else has locked is a BlockingIOError.

    Two signers at once would otherwise each write the file back without the other's signature.
    The lock is on the folder itself: a lock file in an artifact would be an unsigned file. Windows
    can't lock folders; there it is on a temporary file of the user's, so that it excludes only
    commands of the same user.
    """
    with ExitStack() as locks:
        try:
            locks.enter_context(_lock(folder, wait))
        except BlockingIOError:
            raise
        except (OSError, ImportError):
            # The command reports a missing folder itself; some network file systems can't lock, and
            # a Python with neither module runs one program at a time.
            pass
        yield


def _lock(folder: Path, wait: bool) -> AbstractContextManager[None]:
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return _by_file(folder, wait)
    return _by_folder(folder, wait)


@contextmanager
def _by_folder(folder: Path, wait: bool) -> Iterator[None]:
    """Locks a folder (POSIX)."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | atomic_files.flags("directory", "cloexec"))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        with released(descriptor):
            yield
    finally:
        os.close(descriptor)


@contextmanager
def released(descriptor: int) -> Iterator[None]:
    """Releases a lock (POSIX) at the end of the block, whoever has its descriptor besides.

    A process that was forked in the block has it, and may outlive the block; where it leaves the
    block itself, the lock stays.
    """
    process = os.getpid()
    try:
        yield
    finally:
        with suppress(ImportError, OSError):  # not POSIX, or a file system without locks
            import fcntl

            if os.getpid() == process:
                fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def _by_file(folder: Path, wait: bool) -> Iterator[None]:
    """Locks a file that stands for a folder (Windows)."""
    # By name: type checkers know its members on Windows alone.
    msvcrt = import_module("msvcrt")
    descriptor = os.open(
        _lock_file(folder), atomic_files.flags("rdwr", "creat", "noinherit"), 0o600
    )
    try:
        while not _is_mine(msvcrt, descriptor):
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "another process has locked it")
            time.sleep(PAUSE_SECONDS)
        try:
            yield
        finally:
            with suppress(OSError):
                msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    finally:
        os.close(descriptor)


def _lock_file(folder: Path) -> Path:
    """Returns the one file that stands for a folder, however its path is written."""
    place = os.path.normcase(folder.resolve())
    digest = hashlib.sha256(place.encode("utf-8", errors="surrogatepass")).hexdigest()
    return Path(tempfile.gettempdir()) / f"hushdoc-{digest[:32]}.lock"


def _is_mine(msvcrt: ModuleType, descriptor: int) -> bool:
    """Locks the first byte, which need not be there, and returns whether that was possible."""
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def rewrite(path: Path, content: bytes) -> None:
    """Replaces a file whole, keeping its permissions, or writes a new one."""
    mode = 0o644
    with suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
    atomic_files.write_file(path, content, mode=mode)
