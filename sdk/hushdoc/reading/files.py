"""Files as callers name them: their content within the limits, and its fingerprint."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from hushdoc import arguments
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import FileFingerprint
from hushdoc.errors import InputError, LimitExceededError
from hushdoc.system import atomic_files


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file that was read whole: its name for messages, and its path if it has one."""

    name: str
    content: bytes = field(repr=False)
    path: Path | None = None

    @property
    def id(self) -> str:
        """What its document is called unless its caller names it: the name without its ending."""
        return self.name if self.path is None else arguments.as_text(Path(self.name).stem)


def given(source: str | os.PathLike[str] | bytes, limits: ReadingLimits) -> File:
    """Returns the file that a caller named by its path, or gave as bytes."""
    if isinstance(source, bytes):
        _require_fit(source, "document", limits)
        return File(name="document", content=source)
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"The file is {arguments.described(source)}; expected its path (str or pathlib.Path), "
            "or its content as bytes. Open several files one by one."
        )
    path = arguments.path(source, what="The file")
    return File(name=path.name, content=content_of(path, limits), path=path)


def content_of(path: Path, limits: ReadingLimits) -> bytes:
    """Returns the content of a file; InputError, or LimitExceededError past the limits."""
    try:
        content = atomic_files.read_file(path, max_bytes=limits.max_bytes)
    except OSError as error:
        raise InputError(
            f"It can't be read: {error.strerror or error}. Check the path '{path}'."
        ) from error
    _require_fit(content, path.name, limits)
    return content


def _require_fit(content: bytes, name: str, limits: ReadingLimits) -> None:
    if len(content) > limits.max_bytes:
        raise LimitExceededError(
            f"'{name}' is larger than {limits.max_bytes} bytes. Split it into smaller documents, "
            "or raise ReadingLimits.max_bytes."
        )


def fingerprint(content: bytes, path: Path | None) -> FileFingerprint | None:
    """Returns the fingerprint of a file's content; None for bytes without a file.

    A digest and not the modification time: boxes belong to the very pixels that were read, and
    copies and a new date change nothing. It takes little time beside decoding the image.
    """
    return None if path is None else FileFingerprint(path=path, digest=_digest(content))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def require_same(seen: FileFingerprint, content: bytes) -> None:
    """Raises InputError (FILE_CHANGED) where a file is not the one with this fingerprint."""
    if seen.digest != _digest(content):
        raise InputError(
            f"The file '{seen.path}' is no longer the one that was opened, and words are known "
            "only of that one. Open the document again.",
            code="FILE_CHANGED",
        )
