"""Files and folders appear whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import tracemalloc
from pathlib import Path

import pytest
from hushdoc_processes import in_python

from hushdoc.errors import OutputExistsError, OutputWriteError
from hushdoc.system import atomic_files


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every fsync fail as it does on a full disk, whoever runs the tests."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_files.write_file(path, b"one", mode=0o600)
    atomic_files.write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 5000, 100_000])
@pytest.mark.parametrize("expected", [0, 9, 10, 100_000])
def test_the_start_of_a_stream_is_read_whatever_size_it_tells(size: int, expected: int) -> None:
    content = os.urandom(10_000)
    assert atomic_files.read_start(io.BytesIO(content), size, expected=expected) == content[:size]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc, and limits of memory")
def test_a_small_file_is_read_in_little_memory_and_one_without_a_size_whole(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"few")
    tracemalloc.start()
    assert atomic_files.read_file(tmp_path / "small", max_bytes=1 << 30) == b"few"
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    limits = Path("/proc/self/limits")
    assert atomic_files.read_file(limits, max_bytes=1 << 20) == limits.read_bytes() != b""


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_names_are_written_where_the_system_knows_ascii_alone(tmp_path: Path) -> None:
    written = "import sys; from pathlib import Path; from hushdoc.system import atomic_files as f; "
    written += "f.write_file(Path(sys.argv[1]), b'one'); f.write_file(Path(sys.argv[2]), b'two')"
    environment = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    paths = [tmp_path / "é.json", tmp_path / ("é" * 120)]
    in_python(written, *paths, environment=environment)
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert len(names(tmp_path)) == 2


def test_a_secret_file_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "key"
    atomic_files.write_file(path, b"secret", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_existing_file_is_kept_where_that_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "a"
    atomic_files.write_file(path, b"one", overwrite=False)
    with pytest.raises(OutputExistsError, match="never overwritten"):
        atomic_files.write_file(path, b"two", overwrite=False)
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["a"]


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_full_disk_leaves_no_half_file(tmp_path: Path, overwrite: bool) -> None:
    with pytest.raises(OutputWriteError, match="No space left on device.*Free some space"):
        atomic_files.write_file(tmp_path / "a", b"one", overwrite=overwrite)
    assert names(tmp_path) == []


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    atomic_files.write_file(tmp_path / "a", b"one")
    request.getfixturevalue("full_disk")
    with pytest.raises(OutputWriteError):
        atomic_files.write_file(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert names(tmp_path) == ["a"]


def test_a_folder_appears_only_when_its_block_ends(tmp_path: Path) -> None:
    goal = tmp_path / "deep" / "run"
    with atomic_files.new_folder(goal) as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "a").write_bytes(b"one")
        assert not goal.exists()
    assert (goal / "sub" / "a").read_bytes() == b"one"
    assert names(tmp_path / "deep") == ["run"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    goal = tmp_path / "run"
    goal.mkdir()
    with atomic_files.new_folder(goal) as partial:
        (partial / "a").write_bytes(b"one")
    assert names(goal) == ["a"]


def test_results_of_two_runs_never_mix(tmp_path: Path) -> None:
    goal = tmp_path / "run"
    with atomic_files.new_folder(goal) as partial:
        (partial / "a").write_bytes(b"one")
    with (
        pytest.raises(OutputExistsError, match="already holds something"),
        atomic_files.new_folder(goal),
    ):
        pytest.fail("the block must not run")
    assert (goal / "a").read_bytes() == b"one"


@pytest.mark.parametrize("name", [".", "", "here"])
def test_the_current_folder_is_not_taken_from_under_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = Path(name) if name != "here" else here
    with (
        pytest.raises(OutputWriteError, match="is the current folder"),
        atomic_files.new_folder(path),
    ):
        pass
    with pytest.raises(OutputWriteError, match="no regular file"):
        atomic_files.write_file(path, b"")
    assert names(tmp_path) == ["here"]
    assert names(Path()) == []


def test_what_has_no_name_is_not_written() -> None:
    with pytest.raises(OutputWriteError, match="'/' has no name of its own"):
        atomic_files.write_file(Path("/"), b"", overwrite=False)


def test_a_folder_that_was_filled_meanwhile_is_kept(tmp_path: Path) -> None:
    goal = tmp_path / "run"

    def run() -> None:
        with atomic_files.new_folder(goal) as partial:
            (partial / "a").write_bytes(b"one")
            goal.mkdir()
            (goal / "b").write_bytes(b"two")

    with pytest.raises(OutputExistsError):
        run()
    assert names(goal) == ["b"]
    assert names(tmp_path) == ["run"]


def test_an_error_in_the_block_leaves_nothing(tmp_path: Path) -> None:

    def run() -> None:
        with atomic_files.new_folder(tmp_path / "run") as partial:
            (partial / "a").write_bytes(b"one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert names(tmp_path) == []


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_no_folder(tmp_path: Path) -> None:

    def run() -> None:
        with atomic_files.new_folder(tmp_path / "run") as partial:
            (partial / "a").write_bytes(b"one")

    with pytest.raises(OutputWriteError, match="Nothing half-written"):
        run()
    assert names(tmp_path) == []


def test_a_limit_on_file_size_leaves_no_half_file(tmp_path: Path) -> None:
    """The real thing: the kernel refuses to write on."""
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from hushdoc.system import atomic_files\n"
        "from hushdoc.errors import OutputWriteError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    atomic_files.write_file(Path(sys.argv[1]), bytes(5000))\n"
        "except OutputWriteError as error:\n    print(error)\n"
    )
    assert "File too large" in in_python(code, tmp_path / "a").stdout
    assert names(tmp_path) == []


def test_a_full_disk_is_said_so_by_a_writer_in_rust_too(tmp_path: Path) -> None:
    told = "Error while serializing: I/O error: No space left on device (os error 28)"
    with (
        pytest.raises(OutputWriteError, match=r"No space left on device\. .*Free some space"),
        atomic_files.new_folder(tmp_path / "folder"),
    ):
        raise RuntimeError(told)  # as safetensors does, whose error is no OSError
    assert not names(tmp_path)
    with pytest.raises(RuntimeError, match="another"), atomic_files.new_folder(tmp_path / "folder"):
        raise RuntimeError("another")


def test_a_folder_that_is_a_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputWriteError), atomic_files.new_folder(tmp_path / "file" / "run"):
        pytest.fail("the block must not run")
    with pytest.raises(OutputWriteError, match="Not a directory"):
        atomic_files.write_file(tmp_path / "file" / "a", b"one")
    with pytest.raises(OutputWriteError, match="No such file"):
        atomic_files.write_file(tmp_path / "missing" / "a", b"one")


def test_only_regular_files_are_read_or_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, tmp_path / "none", Path("a\0b")):
        with pytest.raises(OSError):  # noqa: PT011 - every reason is another errno
            atomic_files.read_file(path, max_bytes=10)
    with pytest.raises(OutputWriteError, match="no regular file"):
        atomic_files.write_file(pipe, b"x")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_is_read_up_to_one_byte_more_than_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert atomic_files.read_file(path, max_bytes=5) == b"12345"
    assert atomic_files.read_file(path, max_bytes=3) == b"1234"


def test_an_interrupt_leaves_the_old_file_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answer.json"
    atomic_files.write_file(path, b"old")

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic_files.write_file(path, b"new")
    assert [path] == list(tmp_path.iterdir())
    assert path.read_bytes() == b"old"
