"""SignedFile: one open file of an artifact, whose digest is compared before anything else reads it.

A scan gets a file's bytes only once all of them were hashed, so that no parser sees a byte that
nobody signed. The file is kept open by its descriptor, and its name is never opened again; whoever
read it must ask afterwards whether it is still as it was.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Protocol, Self

from hushdoc.arguments import short_repr
from hushdoc.certificate.subjects import Subject
from hushdoc.errors import ArtifactError

_CHUNK_BYTES = 1 << 18
"""Small enough to stay in the processor's cache between reading and hashing."""

_DESCRIPTORS = "/proc/self/fd"
"""Where Linux shows a process's open files; opening one of these opens that very file again."""


class Source(Protocol):
    """Bytes that are read once, from the first to the last."""

    @property
    def size(self) -> int:
        """Number of bytes in all."""

    def readinto(self, buffer: memoryview) -> int:
        """Fills the buffer's beginning with the next bytes; returns how many, 0 at the end."""

    def skip(self, num_bytes: int) -> int:
        """Passes over the next bytes; returns how many, fewer than asked for at the end."""


class Memory:
    """A source over bytes in memory."""

    def __init__(self, content: bytes) -> None:
        """Begins at the first byte."""
        self._rest = memoryview(content)
        self.size = len(content)

    def readinto(self, buffer: memoryview) -> int:
        """Fills the buffer's beginning with the next bytes; returns how many, 0 at the end."""
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        return self.skip(len(taken))

    def skip(self, num_bytes: int) -> int:
        """Passes over the next bytes; returns how many, fewer than asked for at the end."""
        passed = min(num_bytes, len(self._rest))
        self._rest = self._rest[passed:]
        return passed


class SignedFile:
    """An open file of an artifact."""

    def __init__(self, descriptor: int, subject: Subject) -> None:
        """Takes over an open descriptor at its first byte; refuses what can't be the signed file.

        The descriptor is closed here, also on a refusal (NOT_REGULAR_FILE, SIZE_MISMATCH).
        """
        try:
            found = os.fstat(descriptor)
            _require_candidate(found, subject)
        except BaseException:
            os.close(descriptor)
            raise
        self.subject = subject
        # Raw and unbuffered; collecting the object closes the descriptor at the latest.
        self._stream = os.fdopen(descriptor, "rb", buffering=0)
        self._identity = _identity(found)
        self._is_signed = False

    def require_signed(self) -> None:
        """Reads the whole file, and raises unless it is what was signed."""
        digest, num_read = hashlib.sha256(), 0
        buffer = memoryview(bytearray(min(_CHUNK_BYTES, self.subject.size + 1)))
        try:
            self._stream.seek(0)
            # One byte more than there may be: a file that has grown shows.
            while got := self._stream.readinto(buffer[: self.subject.size + 1 - num_read]):
                digest.update(buffer[:got])
                num_read += got
        except OSError as problem:
            raise _unreadable(self.subject, problem) from problem
        self.require_unchanged()
        if num_read != self.subject.size:
            raise _changed(self.subject)
        self._require_digest(digest.hexdigest())
        self._is_signed = True

    @contextmanager
    def source(self) -> Iterator[Source]:
        """Yields the content, its digest compared; at the end it must still be as it was."""
        if not self._is_signed:
            self.require_signed()
        try:
            yield _OpenFile(self._stream, self.subject)
        finally:
            # Also where a scan refused: a file that changed is the better explanation.
            self.require_unchanged()

    def read(self) -> bytes:
        """Returns the whole content: the very bytes that were hashed."""
        try:
            self._stream.seek(0)
            with os.fdopen(self._stream.fileno(), "rb", closefd=False) as whole:
                content = whole.read(self.subject.size + 1)
        except OSError as problem:
            raise _unreadable(self.subject, problem) from problem
        self.require_unchanged()
        if len(content) != self.subject.size:
            raise _changed(self.subject)
        self._require_digest(hashlib.sha256(content).hexdigest())
        return content

    def mapped(self) -> memoryview:
        """Returns the content as memory that the system reads from disk when it is touched."""
        if self.subject.size == 0:
            return memoryview(b"")
        try:
            content = mmap.mmap(self._stream.fileno(), self.subject.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as problem:  # ValueError: it became shorter
            raise _unreadable(self.subject, problem) from problem
        self.require_unchanged()
        return memoryview(content)

    def path(self) -> str:
        """Returns a path that opens this very file, or raises LOW_MEMORY_UNAVAILABLE."""
        path = f"{_DESCRIPTORS}/{self._stream.fileno()}"
        try:
            same = _identity(os.stat(path)) == _identity(os.fstat(self._stream.fileno()))
        except OSError:
            same = False
        if not same:
            raise ArtifactError(
                f"This system doesn't show open files under {_DESCRIPTORS}, which loading in low "
                "memory needs. Load without low_memory.",
                code="LOW_MEMORY_UNAVAILABLE",
            )
        return path

    def require_unchanged(self) -> None:
        """Raises CHANGED_DURING_LOAD unless the file is as it was when it was opened.

        A write that resets the modification time is detected by the time of the last status
        change, which no call can set. Its resolution is the file system's clock: before Linux 6.13
        a write within a few milliseconds of the last one before the file was opened is not
        detected.
        """
        if _identity(os.fstat(self._stream.fileno())) != self._identity:
            raise _changed(self.subject)

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()

    def __enter__(self) -> Self:
        """Returns the file, which is closed at the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the file."""
        self.close()

    def _require_digest(self, found: str) -> None:
        if found != self.subject.sha256:
            raise ArtifactError(
                f"The file '{self.subject.name}' has the SHA-256 {found}, {self.subject.sha256} "
                "was signed. Fetch the artifact again.",
                code="DIGEST_MISMATCH",
            )


class _OpenFile:
    """A source over an open file that was hashed."""

    def __init__(self, stream: FileIO, subject: Subject) -> None:
        self.size = subject.size
        self._stream, self._subject = stream, subject
        self._offset = 0

    def readinto(self, buffer: memoryview) -> int:
        try:
            self._stream.seek(self._offset)
            found = self._stream.readinto(buffer[: self.size - self._offset]) or 0
        except OSError as problem:
            raise _unreadable(self._subject, problem) from problem
        self._offset += found
        return found

    def skip(self, num_bytes: int) -> int:
        passed = min(num_bytes, self.size - self._offset)
        self._offset += passed
        return passed


def not_regular(name: str) -> ArtifactError:
    """Returns the error for what is neither a file nor a folder that was signed."""
    return ArtifactError(
        f"{short_repr(name, 120)} is neither a file nor a folder that was signed. Remove it, or "
        "fetch the artifact again.",
        code="NOT_REGULAR_FILE",
    )


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _require_candidate(found: os.stat_result, subject: Subject) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise not_regular(subject.name)
    if found.st_size != subject.size:
        raise ArtifactError(
            f"The file '{subject.name}' has {found.st_size} bytes, {subject.size} were signed. "
            "Fetch the artifact again.",
            code="SIZE_MISMATCH",
        )


def _changed(subject: Subject) -> ArtifactError:
    return ArtifactError(
        f"The file '{subject.name}' changed while it was read. Do not write to an artifact in "
        "use, and load it again.",
        code="CHANGED_DURING_LOAD",
    )


def _unreadable(subject: Subject, problem: Exception) -> ArtifactError:
    found = getattr(problem, "strerror", None) or problem
    return ArtifactError(
        f"The file '{subject.name}' can't be read: {found}. Check the disk, then fetch the "
        "artifact again.",
        code="READ_FAILED",
    )
