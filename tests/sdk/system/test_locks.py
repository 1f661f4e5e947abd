"""One process at a time rewrites a file: by a lock on its folder, and by files on Windows."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import hushdoc_command_runs
import pytest

from hushdoc.signing import dsse, keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc.system import locks


class SimulatedLocks(ModuleType):
    """What Python on Windows calls msvcrt, as far as it locks files: a lock for each opening."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.refusals = 0
        self.broken = False

    def locking(self, descriptor: int, mode: int, num_bytes: int) -> None:
        """Locks or unlocks, or says at once that another has the lock."""
        assert num_bytes == 1
        if self.broken:
            raise OSError(errno.EINVAL, "Invalid argument")
        how = fcntl.LOCK_UN if mode == self.LK_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError as error:
            self.refusals += 1
            raise PermissionError(errno.EACCES, "Permission denied") from error


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedLocks:
    """Takes POSIX's locks away and puts in what Windows has."""
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    monkeypatch.setattr(locks, "PAUSE_SECONDS", 0.001)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    made = SimulatedLocks()
    monkeypatch.setitem(sys.modules, "msvcrt", made)
    return made


@pytest.fixture(params=["POSIX", "Windows"])
def system(request: pytest.FixtureRequest) -> str:
    if request.param == "Windows":
        request.getfixturevalue("windows")
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "home" / "model").mkdir(parents=True)
    return tmp_path / "home" / "model"


def add_one(path: Path) -> None:
    """Reads, waits and writes back, as subcommands do."""
    with locks.locked(path.parent):
        before = int(path.read_text())
        time.sleep(0.002)
        locks.rewrite(path, str(before + 1).encode())


@pytest.mark.usefixtures("system")
def test_writers_at_once_wait_for_one_another(folder: Path) -> None:
    path = folder / "count"
    path.write_text("0")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_one, [path] * 40))
    assert path.read_text() == "40"
    assert [found.name for found in folder.iterdir()] == ["count"]
    assert [found.name for found in folder.parent.iterdir()] == ["model"]


def test_the_simulated_locks_were_asked_and_refused(folder: Path, windows: SimulatedLocks) -> None:
    path = folder / "count"
    path.write_text("0")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_one, [path] * 8))
    assert path.read_text() == "8"
    assert windows.refusals > 0


@pytest.mark.usefixtures("system")
def test_what_goes_wrong_inside_unlocks(folder: Path) -> None:
    for _ in range(3):
        with pytest.raises(OSError, match="mine"), locks.locked(folder):
            raise OSError("mine")


@pytest.mark.usefixtures("windows")
def test_two_signers_at_once_both_count_on_windows(
    build: ModuleType, key: Any, tmp_path: Path
) -> None:
    sealed = build.seal(tmp_path / "a", key)
    others = [keys.generate_key() for _ in range(4)]
    files = [tmp_path / f"{number}.key" for number in range(len(others))]
    for private, path in zip(others, files, strict=True):
        keys.write_private_key(private, path)

    def run(path: Path) -> int:
        return hushdoc_command_runs.run("sign", sealed, "--key", path)

    with ThreadPoolExecutor(len(files)) as pool:
        assert list(pool.map(run, files)) == [0] * len(files)
    store = TrustStore.of(TrustedKey.of(item) for item in [key, *others])
    line = (sealed / build.ENVELOPE).read_bytes().split(b"\n")[0]
    assert len(dsse.verify(line, store).keys) == 1 + len(others)


@pytest.mark.usefixtures("windows")
def test_a_folder_has_one_lock_however_it_is_spelled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    spelled = [folder, Path("model"), folder / ".." / "model"]
    assert len({locks._lock_file(path) for path in spelled}) == 1
    assert locks._lock_file(folder) != locks._lock_file(folder.parent)


def test_what_can_not_be_locked_is_rewritten_all_the_same(
    folder: Path, windows: SimulatedLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = len(os.listdir("/proc/self/fd"))
    windows.broken = True
    path = folder / "count"
    path.write_text("0")
    add_one(path)
    monkeypatch.setitem(sys.modules, "msvcrt", None)  # a Python that locks nothing
    add_one(path)
    assert path.read_text() == "2"
    assert len(os.listdir("/proc/self/fd")) == opened


@pytest.mark.usefixtures("system")
def test_who_does_not_wait_is_told_at_once(folder: Path) -> None:
    with locks.locked(folder), pytest.raises(BlockingIOError), locks.locked(folder, wait=False):
        pass
    with locks.locked(folder, wait=False):
        pass


def test_a_process_forked_meanwhile_neither_keeps_nor_releases_the_lock(folder: Path) -> None:
    staying = 0
    try:
        with locks.locked(folder):
            staying = os.fork()
            if not staying:
                signal.pause()
            leaving = os.fork()
            if not leaving:
                raise SystemExit  # which ends the block in the forked process alone
            os.waitpid(leaving, 0)
            with pytest.raises(BlockingIOError), locks.locked(folder, wait=False):
                pass
        with locks.locked(folder, wait=False):
            pass
    finally:
        if not (staying and leaving):
            os._exit(0)
        os.kill(staying, signal.SIGKILL)
        os.waitpid(staying, 0)
