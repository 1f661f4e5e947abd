"""Files and folders that appear whole or not at all: write beside, fsync, rename.

On Windows folders can't be synced, permission bits mean little, and an open file can't
be replaced; everything else holds there too.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hushdoc.errors import OutputExistsError, OutputWriteError


def flags(*names: str) -> int:
    """Returns flags for `os.open` by their names, lower-case without "O_"; unknown ones are 0."""
    found = 0
    for name in names:
        found |= getattr(os, f"O_{name.upper()}", 0)
    return found


_READ = flags("cloexec", "nonblock", "binary")
_NEW = flags("wronly", "creat", "excl", "cloexec", "binary")

SYNCS_FOLDERS = flags("directory") != 0
"""Whether this system opens folders, and syncs what was opened to be read (POSIX)."""


KEEPS_MODES = os.name == "posix"
"""Whether permission bits say who may read a file."""


def read_file(path: Path, *, max_bytes: int, private: bool = False) -> bytes:
    """Returns the start of a regular file, one byte more than `max_bytes` at most.

    An answer longer than `max_bytes` shows that there is more. A pipe is never waited for: whatever
    is no regular file is an OSError; and a PermissionError whatever is `private` and may be read
    by others than its owner.
    """
    try:
        descriptor = os.open(path, _READ)
    except ValueError as problem:  # a NUL in the path
        raise OSError(errno.EINVAL, str(problem)) from problem
    try:
        found = os.fstat(descriptor)
        mode = found.st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if private and KEEPS_MODES and mode & (stat.S_IRWXG | stat.S_IRWXO):
            exposed = f"others may read or change it (mode {stat.S_IMODE(mode):04o})"
            raise PermissionError(errno.EPERM, exposed)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return read_start(stream, max_bytes + 1, expected=found.st_size)
    finally:
        os.close(descriptor)


def open_file(path: Path) -> BinaryIO:
    """Returns a regular file, open to be read; an OSError for others, as in `read_file`."""
    try:
        descriptor = os.open(path, _READ)
    except ValueError as problem:  # a NUL in the path
        raise OSError(errno.EINVAL, str(problem)) from problem
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_start(stream: BinaryIO, size: int, *, expected: int = 0) -> bytes:
    """Returns what a stream holds, `size` bytes at most, without the memory for as many.

    More than `expected` are read too: a file may grow, and a pipe or a file of /proc has no size.
    """
    asked = min(size, expected + 1)
    content = stream.read(asked)
    while len(content) == asked < size:
        asked = min(size, 2 * asked + 4096)
        content += stream.read(asked - len(content))
    return content


def write_file(path: Path, content: bytes, *, mode: int = 0o644, overwrite: bool = True) -> None:
    """Writes a file as `new_file` does."""
    with new_file(path, mode=mode, overwrite=overwrite) as stream:
        stream.write(content)


@contextmanager
def new_file(path: Path, *, mode: int = 0o644, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Yields a stream whose content becomes the file: readers see the old or the new, never a part.

    A file that may not be replaced is an OutputExistsError; a full disk, a device or a pipe in its
    place an OutputWriteError. Nothing half-written stays.
    """
    if overwrite and path.exists() and not path.is_file():
        raise OutputWriteError(
            f"'{path}' is no regular file, and a file is written by taking its place. Name a file."
        )
    beside = _beside(path)
    try:
        descriptor = os.open(beside, _NEW, mode)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if overwrite:
            os.replace(beside, path)
        else:
            os.link(beside, path)  # fails if the name is taken, unlike rename
            beside.unlink()
        _sync_folder(path.parent)
    except FileExistsError as error:
        _remove(beside)
        raise OutputExistsError(
            f"'{path}' already exists and is never overwritten. Choose another name, or remove it "
            "yourself if it is no longer needed."
        ) from error
    except OSError as error:
        _remove(beside)
        raise not_written(path, error) from error
    except BaseException:  # Ctrl-C
        _remove(beside)
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields a folder beside `path` that becomes `path` once the block succeeds.

    `path` must not exist or be an empty folder (OutputExistsError), and not the one that the
    process runs in (OutputWriteError); nothing half-written stays.
    """
    require_free(path)
    if path.is_dir() and path.samefile(os.curdir):
        raise OutputWriteError(
            f"'{path}' is the current folder, and a folder is written by taking its place. Name a "
            "new one."
        )
    beside = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir()
        yield beside
        for found in sorted(beside.rglob("*")):
            if found.is_file():
                with found.open("rb" if SYNCS_FOLDERS else "r+b") as stream:
                    os.fsync(stream.fileno())
        if path.is_dir():
            path.rmdir()
        os.rename(beside, path)
        _sync_folder(path.parent)
    except Exception as error:
        cause = _system_error(error)
        if cause is None:
            raise
        if cause.errno == errno.ENOTEMPTY:
            require_free(path)
        raise not_written(path, cause) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def require_free(path: Path) -> None:
    """Raises OutputExistsError if `path` is a file or a folder with content."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists() or path.is_symlink():
        raise OutputExistsError(
            f"'{path}' already holds something, and results are never mixed or overwritten. "
            "Choose another folder, or remove this one yourself."
        )


def name_of(path: Path) -> str:
    """Returns the name of what is to be written; OutputWriteError for "." and "/"."""
    if not path.name:
        raise OutputWriteError(f"'{path}' has no name of its own. Name a new file or folder.")
    return path.name


def not_written(path: Path, error: OSError) -> OutputWriteError:
    """Returns the error that explains why `path` could not be written."""
    advice = (
        "Free some space and run the same command again."
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "Check that the folder exists and may be written."
    )
    return OutputWriteError(
        f"Could not write '{path}': {error.strerror or error}. Nothing half-written was left. "
        f"{advice}"
    )


def _system_error(error: Exception) -> OSError | None:
    """Returns what the system refused, also where a writer in Rust (safetensors) words it."""
    if isinstance(error, OSError):
        return error
    worded = re.search(r"\(os error (\d+)\)$", str(error))
    return None if worded is None else OSError(int(worded[1]), os.strerror(int(worded[1])))


def _beside(path: Path) -> Path:
    """Returns a hidden name beside a path, which fits where the path's own does."""
    start = os.fsencode(name_of(path))[:200].decode(sys.getfilesystemencoding(), "ignore")
    return path.with_name(f".{start}.{secrets.token_hex(4)}.partial")


def _remove(path: Path) -> None:
    with suppress(OSError):  # its folder may not even be one
        path.unlink()


def _sync_folder(folder: Path) -> None:
    if not SYNCS_FOLDERS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
