"""Folder: an artifact's folder, pinned by a descriptor and read without following any link.

Every file is opened through the descriptor of its folder, one segment at a time, so that nothing
that is swapped on the way leads outside. What is read is hashed, and what was hashed is what the
caller gets: nothing is opened twice.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from hushdoc.errors import ArtifactError
from hushdoc.subjects import ENVELOPE_FILE, Subject

UNSIGNED_FILES = frozenset({"README.md", "LICENSE", "NOTICE", ".gitattributes"})
"""May stand beside the signed files; they are never opened."""

UNSIGNED_FOLDER = ".git"

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK the mere opening of a FIFO waits for a writer.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CHUNK = 1 << 20


@contextmanager
def pinned(path: Path) -> Iterator[int]:
    """Yields the descriptor of a folder; it stays the same folder whatever happens to its name.

    Args:
        path: The folder, which may itself be reached through a link.

    Raises:
        ArtifactError: There is no such folder.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise ArtifactError(
            f"The artifact '{path}' can't be opened: {problem.strerror}. Expected the folder that "
            "`hushdoc export` writes; check the path."
        ) from problem
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_signed(folder: int, subject: Subject) -> bytes:
    """Returns the content of a signed file, whose size and digest are those that were signed.

    Args:
        folder: Descriptor of the artifact.
        subject: The file as it was signed.

    Raises:
        ArtifactError: MISSING_FILE, SYMLINK, NOT_REGULAR_FILE, SIZE_MISMATCH, DIGEST_MISMATCH or
            CHANGED_DURING_LOAD.
    """
    with _opened(folder, subject.name) as descriptor:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _not_regular(subject.name)
        if found.st_size != subject.size:
            raise ArtifactError(
                f"The file '{subject.name}' has {found.st_size} bytes, {subject.size} were signed. "
                "Fetch the artifact again.",
                code="SIZE_MISMATCH",
            )
        content = _read(descriptor, subject.name, subject.size + 1)
    if len(content) != subject.size:
        raise ArtifactError(
            f"The file '{subject.name}' changed its size while it was read. Let nobody write to an "
            "artifact in use, and load it again.",
            code="CHANGED_DURING_LOAD",
        )
    digest = hashlib.sha256(content).hexdigest()
    if digest != subject.sha256:
        raise ArtifactError(
            f"The file '{subject.name}' has the SHA-256 {digest}, {subject.sha256} was signed. "
            "Fetch the artifact again.",
            code="DIGEST_MISMATCH",
        )
    return content


def read_envelope_file(folder: int, max_bytes: int) -> bytes | None:
    """Returns the start of the envelope file, at most `max_bytes` + 1, or None without one.

    Raises:
        ArtifactError: SYMLINK or NOT_REGULAR_FILE.
    """
    try:
        with _opened(folder, ENVELOPE_FILE) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _not_regular(ENVELOPE_FILE)
            return _read(descriptor, ENVELOPE_FILE, max_bytes + 1)
    except ArtifactError as problem:
        if problem.code == "MISSING_FILE":
            return None
        raise


def require_listed(folder: int, names: Collection[str], *, max_files: int) -> None:
    """Raises unless the folder holds signed files, a few known others, and nothing else.

    Args:
        folder: Descriptor of the artifact.
        names: The signed files.
        max_files: How many entries are looked at before giving up.

    Raises:
        ArtifactError: UNLISTED_FILE, SYMLINK, NOT_REGULAR_FILE or TOO_LARGE.
    """
    folders = {
        "/".join(segments[:length])
        for segments in (name.split("/") for name in names)
        for length in range(1, len(segments))
    }
    limit = max_files + len(folders) + len(UNSIGNED_FILES) + 2
    for number, (name, mode) in enumerate(_entries(folder, folders)):
        if number >= limit:
            raise ArtifactError(
                f"The artifact holds more than {limit} entries. Expected the signed files only.",
                code="TOO_LARGE",
            )
        if stat.S_ISLNK(mode):
            raise _symlink(name)
        if stat.S_ISDIR(mode):
            if name in folders or name == UNSIGNED_FOLDER:
                continue
        elif not stat.S_ISREG(mode):
            raise _not_regular(name)
        elif name in names or name in UNSIGNED_FILES or name == ENVELOPE_FILE:
            continue
        raise ArtifactError(
            f"The artifact holds {ascii(name)[:120]}, which was not signed. Remove it, or fetch "
            "the artifact again.",
            code="UNLISTED_FILE",
        )


def subjects_of(path: Path) -> tuple[Subject, ...]:
    """Returns every file of a folder as it shall be signed.

    Args:
        path: The artifact that is being sealed.

    Raises:
        ArtifactError: SYMLINK or NOT_REGULAR_FILE: something in it can't be signed.
    """
    subjects = []
    with pinned(path) as folder:
        for name, mode in _entries(folder, None):
            if stat.S_ISLNK(mode):
                raise _symlink(name)
            if stat.S_ISDIR(mode) or name in UNSIGNED_FILES or name == ENVELOPE_FILE:
                continue
            if not stat.S_ISREG(mode):
                raise _not_regular(name)
            subjects.append(_subject(folder, name))
    return tuple(sorted(subjects, key=lambda subject: subject.name))


def _subject(folder: int, name: str) -> Subject:
    digest, size = hashlib.sha256(), 0
    with _opened(folder, name) as descriptor:
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return Subject(name=name, sha256=digest.hexdigest(), size=size)


def _entries(
    folder: int, folders: Collection[str] | None, prefix: str = ""
) -> Iterator[tuple[str, int]]:
    """Yields (name, mode) of what stands in a folder and in those of its folders that are named."""
    with os.scandir(folder) as found:
        entries = sorted((item.name, item.stat(follow_symlinks=False).st_mode) for item in found)
    for short, mode in entries:
        name = prefix + short
        yield name, mode
        inside = name != UNSIGNED_FOLDER if folders is None else name in folders
        if stat.S_ISDIR(mode) and inside:
            with _opened_at(folder, short, name, _OPEN_FOLDER) as descriptor:
                yield from _entries(descriptor, folders, name + "/")


@contextmanager
def _opened(folder: int, name: str) -> Iterator[int]:
    first, _, rest = name.partition("/")
    if not rest:
        with _opened_at(folder, first, name, _OPEN_FILE) as descriptor:
            yield descriptor
        return
    with _opened_at(folder, first, name, _OPEN_FOLDER) as inner, _opened(inner, rest) as descriptor:
        yield descriptor


@contextmanager
def _opened_at(folder: int, segment: str, name: str, flags: int) -> Iterator[int]:
    try:
        descriptor = os.open(segment, flags, dir_fd=folder)
    except OSError as problem:
        raise _not_opened(folder, segment, name, problem) from problem
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _not_opened(folder: int, segment: str, name: str, problem: OSError) -> ArtifactError:
    """The error for what could not be opened, told from what stands there now."""
    try:
        mode = os.stat(segment, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return ArtifactError(
            f"The signed file '{name}' is not there. Fetch the artifact again.",
            code="MISSING_FILE",
        )
    if stat.S_ISLNK(mode):
        return _symlink(name)
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return _not_regular(name)
    return ArtifactError(f"'{name}' can't be opened: {problem.strerror}. Check its permissions.")


def _read(descriptor: int, name: str, num_bytes: int) -> bytes:
    """Reads up to so many bytes into one block of memory."""
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(num_bytes)
    except OSError as problem:
        raise ArtifactError(
            f"The file '{name}' can't be read: {problem.strerror}. Check the disk."
        ) from problem


def _symlink(name: str) -> ArtifactError:
    return ArtifactError(
        f"{ascii(name)[:120]} is a symbolic link; an artifact holds plain files only. Copy the "
        "file in its place.",
        code="SYMLINK",
    )


def _not_regular(name: str) -> ArtifactError:
    return ArtifactError(
        f"{ascii(name)[:120]} is neither a file nor a folder that was signed. Remove it, or fetch "
        "the artifact again.",
        code="NOT_REGULAR_FILE",
    )
