"""Folder: an artifact's folder, open by handle and read without being led out of it.

Every file is opened through the handle of its folder, one segment at a time and never through a
link, so that nothing that is swapped on the way leads outside (see `directory_handle` for systems
without descriptors of folders). Where a file is a link, its target is opened in the same way, if it
is inside the artifact or the store of files of the Hugging Face cache around the artifact:

    models--org--name/blobs/<digest>
    models--org--name/snapshots/<revision>/onnx/model.onnx -> ../../../blobs/<digest>
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from hushdoc.arguments import short_repr
from hushdoc.artifact.directory_handle import DirectoryHandle, open_directory
from hushdoc.artifact.signed_file import SignedFile, not_regular
from hushdoc.certificate.subjects import ENVELOPE_FILE, Subject
from hushdoc.errors import ArtifactError

UNSIGNED_FILES = frozenset({"README.md", "LICENSE", "NOTICE", ".gitattributes"})
"""Allowed beside the signed files; they are never opened."""

UNSIGNED_FOLDER = ".git"

MAX_LINKS = 4
"""Links that lead to one another before the file is given up."""

_CACHE_FILES = ["..", "..", "blobs"]
"""Where the Hugging Face cache keeps its files, relative to the artifact's folder."""

_CHUNK_BYTES = 1 << 18


@contextmanager
def opened(path: Path) -> Iterator[DirectoryHandle]:
    """Yields a handle of a folder, which may itself be reached through a link.

    A handle with a descriptor stays on the same folder whatever happens to its name.
    """
    try:
        folder = open_directory(path)
    except OSError as problem:
        raise ArtifactError(
            f"The artifact '{path}' can't be opened: {problem.strerror}. Expected the folder that "
            "`hushdoc export` writes; check the path."
        ) from problem
    with closing(folder):
        yield folder


def open_signed(folder: DirectoryHandle, subject: Subject) -> SignedFile:
    """Returns a signed file, open and of the signed size; its bytes are checked on reading."""
    return SignedFile(_open(folder, subject.name), subject)


def read_envelope_file(folder: DirectoryHandle, max_bytes: int) -> bytes | None:
    """Returns the first `max_bytes` + 1 bytes of the envelope file, or None if it is missing."""
    try:
        descriptor = _open(folder, ENVELOPE_FILE)
    except ArtifactError as problem:
        if problem.code == "MISSING_FILE":
            return None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise not_regular(ENVELOPE_FILE)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(max_bytes + 1)
    except OSError as problem:
        raise ArtifactError(
            f"The file '{ENVELOPE_FILE}' can't be read: {problem.strerror}. Check the disk.",
            code="READ_FAILED",
        ) from problem
    finally:
        os.close(descriptor)


def contains_any(folder: DirectoryHandle, names: Collection[str]) -> bool:
    """Returns whether one of these entries is in the folder; nothing is opened."""
    for name in names:
        with suppress(OSError):
            folder.mode(name)
            return True
    return False


def require_listed(folder: DirectoryHandle, names: Collection[str]) -> None:
    """Raises unless the folder holds the signed files, a few known others, and nothing else.

    A link passes only under the name of a file, and only where it leads to an accepted place.
    """
    folders = {
        "/".join(segments[:length])
        for segments in (name.split("/") for name in names)
        for length in range(1, len(segments))
    }
    expected = {*names, *UNSIGNED_FILES, ENVELOPE_FILE}
    # Among more entries than may be there is one that may not, so a million needn't be listed.
    limit = len(expected) + len(folders) + 2
    for name, mode, target in _entries(folder, folders, limit):
        if stat.S_ISLNK(mode):
            if name not in expected:
                raise _symlink(name)
            _leads_to(name, target)
            continue
        if stat.S_ISDIR(mode):
            if name in folders or name == UNSIGNED_FOLDER:
                continue
        elif not stat.S_ISREG(mode):
            raise not_regular(name)
        elif name in expected:
            continue
        raise ArtifactError(
            f"The artifact holds {short_repr(name, 120)}, which was not signed. Remove it, or "
            "fetch the artifact again.",
            code="UNLISTED_FILE",
        )


def subjects_of(path: Path) -> tuple[Subject, ...]:
    """Returns every file of a folder that is being sealed as it will be signed."""
    subjects = []
    with opened(path) as folder:
        for name, mode, _ in _entries(folder, None, None):
            if stat.S_ISLNK(mode):
                raise _symlink(name)
            if stat.S_ISDIR(mode) or name in UNSIGNED_FILES or name == ENVELOPE_FILE:
                continue
            if not stat.S_ISREG(mode):
                raise not_regular(name)
            subjects.append(_subject(folder, name))
    return tuple(sorted(subjects, key=lambda subject: subject.name))


def _subject(folder: DirectoryHandle, name: str) -> Subject:
    digest, size = hashlib.sha256(), 0
    descriptor = _open(folder, name)
    try:
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    finally:
        os.close(descriptor)
    return Subject(name=name, sha256=digest.hexdigest(), size=size)


def _entries(
    folder: DirectoryHandle, folders: Collection[str] | None, limit: int | None, prefix: str = ""
) -> Iterator[tuple[str, int, str]]:
    """Yields (name, mode, link's target) in a folder and in those of its folders that are named."""
    for short, mode in sorted(folder.entries(limit)):
        name = prefix + short
        yield name, mode, folder.link(short) or "" if stat.S_ISLNK(mode) else ""
        inside = name != UNSIGNED_FOLDER if folders is None else name in folders
        if stat.S_ISDIR(mode) and inside:
            with _opened_at(folder, short, name) as inner:
                yield from _entries(inner, folders, limit, name + "/")


def _open(folder: DirectoryHandle, name: str) -> int:
    """Returns a descriptor of a file, through accepted links; the caller closes it."""
    place = name
    for _ in range(MAX_LINKS + 1):
        target = ""
        with _parent(folder, place, name) as parent:
            leaf = place.rpartition("/")[2]
            try:
                return parent.open_file(leaf)
            except OSError as problem:
                target = parent.link(leaf) or ""
                if not target:
                    raise _not_opened(parent, leaf, name, problem) from problem
        segments = _leads_to(place, target)
        if segments[0] == "..":
            return _open_cached(folder, segments[-1], name)
        place = "/".join(segments)
    raise _symlink(name)


def _leads_to(name: str, target: str) -> list[str]:
    """Returns where a link leads, as segments relative to the artifact, without asking the disk.

    The result has no ".." but for the two that lead to the cache's files, so opening it one
    segment at a time can't lead anywhere else.
    """
    segments = name.split("/")[:-1]
    for segment in target.split("/"):
        if segment == ".." and segments and segments[-1] != "..":
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    cached = segments[:-1] == _CACHE_FILES
    if target.startswith("/") or (".." in segments and not cached):
        raise ArtifactError(
            f"{short_repr(name, 120)} is a link to {short_repr(target, 120)}, outside of the "
            "artifact and of its Hugging Face cache folder. Copy the file in its place.",
            code="PATH_ESCAPE",
        )
    if not segments:
        raise _symlink(name)
    return segments


def _open_cached(folder: DirectoryHandle, blob: str, name: str) -> int:
    """Returns a descriptor of a file in the cache whose folder `snapshots` holds the artifact."""
    with _opened_at(folder, "..", name) as snapshots, _opened_at(snapshots, "..", name) as cache:
        try:
            is_cache = cache.contains("snapshots", snapshots)
        except OSError as problem:
            raise _symlink(name) from problem
        if not is_cache:
            raise _symlink(name)
        with _opened_at(cache, "blobs", name) as blobs:
            try:
                return blobs.open_file(blob)
            except OSError as problem:
                raise _not_opened(blobs, blob, name, problem) from problem


@contextmanager
def _parent(folder: DirectoryHandle, place: str, name: str) -> Iterator[DirectoryHandle]:
    """Yields the folder that a place is in."""
    first, _, rest = place.partition("/")
    if not rest:
        yield folder
        return
    with _opened_at(folder, first, name) as inner, _parent(inner, rest, name) as parent:
        yield parent


@contextmanager
def _opened_at(folder: DirectoryHandle, segment: str, name: str) -> Iterator[DirectoryHandle]:
    """Yields a folder in a folder; `name` is the file that is wanted in the end."""
    try:
        inner = folder.open_folder(segment)
    except OSError as problem:
        raise _not_opened(folder, segment, name, problem) from problem
    with closing(inner):
        yield inner


def _not_opened(
    folder: DirectoryHandle, segment: str, name: str, problem: OSError
) -> ArtifactError:
    """Returns the error for an entry that could not be opened, judged by what is there now."""
    missing = ArtifactError(
        f"The signed file '{name}' is not there. Fetch the artifact again.", code="MISSING_FILE"
    )
    try:
        mode = folder.mode(segment)
    except OSError:
        return missing
    if stat.S_ISLNK(mode):
        return _symlink(name)
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return not_regular(name)
    if isinstance(problem, NotADirectoryError):
        return missing
    return ArtifactError(f"'{name}' can't be opened: {problem.strerror}. Check its permissions.")


def _symlink(name: str) -> ArtifactError:
    return ArtifactError(
        f"{short_repr(name, 120)} is a symbolic link that leads to no file of the artifact or of "
        "its Hugging Face cache folder. Copy the file in its place.",
        code="SYMLINK",
    )
