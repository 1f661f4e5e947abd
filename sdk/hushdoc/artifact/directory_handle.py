"""DirectoryHandle: opens what is in a folder, one segment at a time and never through a link.

Where the system has descriptors of folders (POSIX), a handle keeps one: whatever happens to the
folder's name, it stays the same folder, and nothing that is swapped meanwhile leads elsewhere.
Elsewhere (Windows) it keeps the path. Links are looked for before something is opened, and what was
opened is compared with what was looked at; an attacker who swaps folders in between is not stopped.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol

from hushdoc.system import atomic_files

HAS_DESCRIPTORS = atomic_files.SYNCS_FOLDERS and os.open in os.supports_dir_fd
"""Whether this system opens files by the descriptor of their folder."""

_FOLDER = atomic_files.flags("cloexec", "directory")
# Without "nonblock" the mere opening of a FIFO waits for a writer.
_FILE = atomic_files.flags("cloexec", "binary", "nofollow", "nonblock", "noctty")

_NAME_SURROGATE = 0x20000000
"""Bit of a Windows reparse tag: the entry refers to another one, as links and junctions do."""


class DirectoryHandle(Protocol):
    """An open folder; a segment is the name of an entry in it."""

    def open_file(self, segment: str) -> int:
        """Returns a descriptor of an entry that is no link; raises OSError."""

    def open_folder(self, segment: str) -> DirectoryHandle:
        """Returns a handle of a folder in it, or for ".." of its parent; raises OSError."""

    def mode(self, segment: str) -> int:
        """Returns type and permissions of an entry, a link's own; raises OSError."""

    def link(self, segment: str) -> str | None:
        """Returns the text of a link with slashes, or None where there is none."""

    def entries(self, limit: int | None) -> list[tuple[str, int]]:
        """Returns names and modes of at most so many entries; raises OSError."""

    def contains(self, segment: str, other: DirectoryHandle) -> bool:
        """Returns whether an entry is the folder of another handle; raises OSError."""

    def status(self) -> os.stat_result:
        """Returns the status of the folder itself; raises OSError."""

    def close(self) -> None:
        """Closes the folder."""


def open_directory(path: Path) -> DirectoryHandle:
    """Returns a handle of a folder, which may be reached through links; raises OSError."""
    if HAS_DESCRIPTORS:
        return _ByDescriptor(os.open(path, _FOLDER))
    return _ByPath(Path(os.path.realpath(path, strict=True)))


class _ByDescriptor:
    """A handle with a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def open_file(self, segment: str) -> int:
        return os.open(segment, _FILE, dir_fd=self._descriptor)

    def open_folder(self, segment: str) -> DirectoryHandle:
        flags = _FOLDER | atomic_files.flags("nofollow")
        return _ByDescriptor(os.open(segment, flags, dir_fd=self._descriptor))

    def mode(self, segment: str) -> int:
        return self._look(segment).st_mode

    def link(self, segment: str) -> str | None:
        try:
            return os.readlink(segment, dir_fd=self._descriptor)
        except OSError:
            return None

    def entries(self, limit: int | None) -> list[tuple[str, int]]:
        with os.scandir(self._descriptor) as found:
            return [
                (item.name, item.stat(follow_symlinks=False).st_mode)
                for item in itertools.islice(found, limit)
            ]

    def contains(self, segment: str, other: DirectoryHandle) -> bool:
        return os.path.samestat(self._look(segment), other.status())

    def status(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _look(self, segment: str) -> os.stat_result:
        return os.stat(segment, dir_fd=self._descriptor, follow_symlinks=False)


class _ByPath:
    """A handle with a path, which has no links."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not stat.S_ISDIR(self.status().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    def open_file(self, segment: str) -> int:
        seen = self._look(segment)
        if stat.S_ISLNK(_mode(seen)) or stat.S_ISFIFO(seen.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        descriptor = os.open(self._path / segment, _FILE)
        if not os.path.samestat(seen, os.fstat(descriptor)):
            os.close(descriptor)
            raise OSError(errno.EAGAIN, "it was swapped while it was opened")
        return descriptor

    def open_folder(self, segment: str) -> DirectoryHandle:
        if segment == "..":
            return _ByPath(self._path.parent)
        if stat.S_ISLNK(self.mode(segment)):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return _ByPath(self._path / segment)

    def mode(self, segment: str) -> int:
        return _mode(self._look(segment))

    def link(self, segment: str) -> str | None:
        try:
            target = os.readlink(self._path / segment)
        except OSError:
            return None
        return _with_slashes(target)

    def entries(self, limit: int | None) -> list[tuple[str, int]]:
        with os.scandir(self._path) as found:
            # The entry's own status lacks the reparse tag: each is looked up once more.
            return [
                (item.name, _mode(os.lstat(self._path / item.name)))
                for item in itertools.islice(found, limit)
            ]

    def contains(self, segment: str, other: DirectoryHandle) -> bool:
        return os.path.samestat(self._look(segment), other.status())

    def status(self) -> os.stat_result:
        return os.lstat(self._path)

    def close(self) -> None:
        pass

    def _look(self, segment: str) -> os.stat_result:
        if not segment or segment in (".", "..") or set(segment) & set('/\\:*?"<>|\0'):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return os.lstat(self._path / segment)


def _mode(found: os.stat_result) -> int:
    """Returns type and permissions; a junction of Windows counts as the link that it is."""
    if getattr(found, "st_reparse_tag", 0) & _NAME_SURROGATE:
        return stat.S_IFLNK | stat.S_IMODE(found.st_mode)
    return found.st_mode


def _with_slashes(target: str) -> str:
    """Returns a link's target in POSIX form; one on a drive or a share is absolute."""
    if PurePosixPath(target).is_absolute():
        return target
    windows = PureWindowsPath(target)
    if windows.drive or windows.root:
        return "/" + target.lstrip("\\/")
    return target.replace("\\", "/")
