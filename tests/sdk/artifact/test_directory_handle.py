"""Folders that are held: by descriptor, and by path as where there are no descriptors of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hushdoc.artifact import directory_handle
from hushdoc.artifact.directory_handle import DirectoryHandle, open_directory


@pytest.fixture
def held(how: str, tmp_path: Path) -> DirectoryHandle:
    place = tmp_path / "place"
    (place / "inner").mkdir(parents=True)
    (place / "file").write_bytes(b"content")
    (place / "link").symlink_to("file")
    (place / "away").symlink_to("inner")
    os.mkfifo(place / "pipe")
    (tmp_path / "name").symlink_to("place")
    return open_directory(tmp_path / "name")


def test_files_are_opened_and_links_are_not(held: DirectoryHandle) -> None:
    descriptor = held.open_file("file")
    assert os.read(descriptor, 99) == b"content"
    os.close(descriptor)
    for name in ("link", "none", "away"):
        with pytest.raises(OSError, match="Errno"):
            held.open_file(name)
    assert held.link("link") == "file"
    assert held.link("file") is None
    assert held.link("none") is None


def test_folders_are_opened_and_linked_ones_are_not(held: DirectoryHandle) -> None:
    inner = held.open_folder("inner")
    assert inner.entries(None) == []
    assert held.contains("inner", inner)
    back = inner.open_folder("..")
    assert {name for name, _ in back.entries(None)} == {"inner", "file", "link", "away", "pipe"}
    for name in ("away", "file", "none"):
        with pytest.raises(OSError, match="Errno"):
            held.open_folder(name)
    for folder in (inner, back, held):
        folder.close()


def test_modes_are_those_of_what_stands_there_itself(held: DirectoryHandle) -> None:
    modes = dict(held.entries(None))
    assert modes == {name: held.mode(name) for name in modes}
    kinds = {name: stat.S_IFMT(mode) for name, mode in modes.items()}
    assert kinds == {
        "inner": stat.S_IFDIR,
        "file": stat.S_IFREG,
        "link": stat.S_IFLNK,
        "away": stat.S_IFLNK,
        "pipe": stat.S_IFIFO,
    }
    assert len(held.entries(2)) == 2


def test_what_is_no_folder_is_not_held(how: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "none", "loop"):
        with pytest.raises(OSError, match="Errno"):
            open_directory(tmp_path / name)


def test_a_swap_between_looking_and_opening_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where folders are held by path: somebody swaps the file in that very moment."""
    monkeypatch.setattr(directory_handle, "HAS_DESCRIPTORS", False)
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "other").write_bytes(b"evil")
    held = open_directory(tmp_path)
    honest = os.open

    def swapping(path: Any, *given: Any, **options: Any) -> int:
        os.replace(tmp_path / "other", tmp_path / "file")
        return honest(path, *given, **options)

    monkeypatch.setattr(os, "open", swapping)
    with pytest.raises(OSError, match="swapped"):
        held.open_file("file")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "C:x", "file:stream", "a\0b"])
def test_segments_are_names_of_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where folders are held by path nothing but an entry's own name is joined to it."""
    monkeypatch.setattr(directory_handle, "HAS_DESCRIPTORS", False)
    with pytest.raises(FileNotFoundError):
        open_directory(tmp_path).open_file(name)


def test_a_junction_of_windows_is_a_link() -> None:
    class Junction:
        st_mode = stat.S_IFDIR | 0o755
        st_reparse_tag = 0xA0000003

    class Placeholder:
        st_mode = stat.S_IFREG | 0o644
        st_reparse_tag = 0x9000001A

    assert stat.S_ISLNK(directory_handle._mode(Junction()))  # type: ignore[arg-type]
    assert stat.S_ISREG(directory_handle._mode(Placeholder()))  # type: ignore[arg-type]
