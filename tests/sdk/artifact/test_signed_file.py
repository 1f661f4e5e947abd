"""Signed files: nothing is looked at before it was hashed, and any change on the way is noticed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hushdoc.artifact import signed_file
from hushdoc.artifact.signed_file import Memory, SignedFile, Source
from hushdoc.certificate.subjects import Subject
from hushdoc.errors import ArtifactError

CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(CONTENT)
    return path


def opened(path: Path, **signed: object) -> SignedFile:
    stated = {"name": path.name, "sha256": hashlib.sha256(CONTENT).hexdigest()}
    subject = Subject(**{**stated, "size": len(CONTENT), **signed})  # type: ignore[arg-type]
    return SignedFile(os.open(path, os.O_RDONLY), subject)


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(ArtifactError) as caught:
        action()
    return caught.value.code


def drained(source: Source, parts: list[int]) -> bytes:
    """Returns what reading some bytes and skipping some, in turn, gives; skipped are zeros."""
    found = bytearray()
    for number, size in enumerate(parts):
        if number % 2:
            found += bytes(source.skip(size))
        else:
            buffer = bytearray(size)
            found += buffer[: source.readinto(memoryview(buffer))]
    return bytes(found)


@pytest.mark.parametrize("parts", [[10, 600_000, 500, 10], [1, 0, 5_000_000], [0, 5_000_000, 7]])
def test_file_and_memory_are_one_class_of_source(path: Path, parts: list[int]) -> None:
    with opened(path) as file:
        for _ in range(2):  # each source begins at the first byte
            with file.source() as source:
                found = drained(source, parts)
            assert found == drained(Memory(CONTENT), parts)
    assert found.startswith(CONTENT[: parts[0]])


def test_no_byte_is_given_out_before_all_were_hashed(path: Path) -> None:
    with opened(path) as file:
        file.require_signed()
    with opened(path, sha256="0" * 64) as file:
        assert code_of(file.require_signed) == "DIGEST_MISMATCH"
        assert code_of(file.read) == "DIGEST_MISMATCH"
        assert code_of(lambda: file.source().__enter__()) == "DIGEST_MISMATCH"


def test_what_changes_while_it_is_looked_at_is_not_judged(path: Path) -> None:
    def look(change: Callable[[Path], None]) -> None:
        with opened(path) as file, file.source() as source:
            time.sleep(0.02)
            change(path)
            if source.skip(len(CONTENT)) == len(CONTENT):
                raise ArtifactError("The format is refused.", code="BAD_ONNX")

    assert code_of(lambda: look(overwrite_and_reset_the_time)) == "CHANGED_DURING_LOAD"


def test_reading_whole_gives_the_hashed_bytes_again_and_again(path: Path) -> None:
    with opened(path) as file:
        file.require_signed()
        assert file.read() == file.read() == bytes(file.mapped()) == CONTENT


def test_another_size_is_refused_unread_and_leaves_nothing_open(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert code_of(lambda: opened(path, size=len(CONTENT) + 1)) == "SIZE_MISMATCH"
    assert code_of(lambda: opened(path.parent)) == "NOT_REGULAR_FILE"
    os.mkfifo(path.parent / "pipe")
    keeps_it_open = os.open(path.parent / "pipe", os.O_RDWR)
    assert code_of(lambda: opened(path.parent / "pipe")) == "NOT_REGULAR_FILE"
    os.close(keeps_it_open)
    assert code_of(lambda: opened(Path("/dev/zero"))) == "NOT_REGULAR_FILE"
    assert len(os.listdir("/proc/self/fd")) <= before


def grow(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"x")


def overwrite_and_reset_the_time(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as stream:
        stream.write(CONTENT[:10])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize(
    "change", [grow, lambda path: os.truncate(path, 5), overwrite_and_reset_the_time]
)
@pytest.mark.parametrize("ask", [SignedFile.require_signed, SignedFile.read, SignedFile.mapped])
def test_a_change_while_it_is_open_is_noticed(
    path: Path, change: Callable[[Path], None], ask: Callable[[SignedFile], object]
) -> None:
    with opened(path) as file:
        time.sleep(0.02)  # older kernels stamp a file with a clock of some milliseconds
        change(path)
        expected = {"CHANGED_DURING_LOAD"}
        if ask is SignedFile.mapped and path.stat().st_size < len(CONTENT):
            expected = {"READ_FAILED"}
        assert code_of(lambda: ask(file)) in expected


def test_a_file_that_grows_is_not_read_beyond_what_was_signed(path: Path) -> None:
    with opened(path) as file:
        with file.source() as source:
            assert source.skip(1 << 40) == len(CONTENT)
            assert source.readinto(memoryview(bytearray(1))) == 0
        grow(path)
        assert code_of(file.require_signed) == "CHANGED_DURING_LOAD"


def test_a_disk_error_stays_the_answer() -> None:
    """The memory of a process is a regular file whose first page can't be read: a true EIO."""
    empty = hashlib.sha256(b"").hexdigest()
    with opened(Path("/proc/self/mem"), size=0, sha256=empty) as file:
        assert code_of(file.require_signed) == "READ_FAILED"
        assert code_of(file.read) == "READ_FAILED"


def test_the_path_opens_the_very_file(path: Path) -> None:
    with opened(path) as file:
        path.rename(path.with_name("elsewhere"))
        path.write_bytes(b"planted")
        assert Path(file.path()).read_bytes() == CONTENT


def test_a_system_that_hides_open_files_is_told_apart(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (path.parent, path.parent / "none"):
        monkeypatch.setattr(signed_file, "_DESCRIPTORS", str(folder))
        with opened(path) as file:
            for number in range(100):
                (path.parent / str(number)).touch()  # files of such names, but other files
            assert code_of(file.path) == "LOW_MEMORY_UNAVAILABLE"


def test_an_empty_file_is_mapped_too(path: Path) -> None:
    path.write_bytes(b"")
    with opened(path, size=0) as file:
        assert bytes(file.mapped()) == b""
