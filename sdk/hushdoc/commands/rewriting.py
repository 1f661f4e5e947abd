"""Rewriting: files that a verb reads, changes and writes back, one process at a time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hushdoc import files


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other verbs out that rewrite files of the same folder, until the block ends.

    Two signers at once would otherwise each write the file back without the other's signature.
    The lock is on the folder itself: a lock file in an artifact would be an unsigned file.
    """
    import fcntl  # POSIX only, and no reason for other verbs not to start elsewhere

    descriptor = None
    # No such folder is for the verb to say; some network file systems can't lock a folder.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def rewrite(path: Path, content: bytes) -> None:
    """Replaces a file whole, with the permissions it has, or writes a new one.

    Raises:
        OutputWriteError: The disk is full or not writable; the old content stays.
    """
    mode = 0o644
    with suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
    files.write_file(path, content, mode=mode)
