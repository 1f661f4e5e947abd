"""Warnings on the command line: a line for each, and the filters of Python decide which."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

import hushdoc
from hushdoc.commands import notices
from hushdoc.errors import InputError
from hushdoc.reading import ReadingWarning
from hushdoc.system import locks

Run = Callable[[argparse.Namespace], int]


def warned(_: argparse.Namespace) -> int:
    print('{"answer": 1}')
    for text in ("Page 3 was not read.", "Page 3 was not read.", "Page 4\nwas \x1b[2J\u202enot."):
        warnings.warn(text, ReadingWarning, stacklevel=1)
    warnings.warn("Page 3 was not read.", ReadingWarning, stacklevel=1)
    warnings.warn("of another package", RuntimeWarning, stacklevel=1)
    return 0


def test_our_warnings_are_lines_and_none_is_told_twice(
    subcommand: Callable[[Run], int], capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        assert subcommand(warned) == 0
        assert subcommand(warned) == 0
    printed, told = capfd.readouterr()
    assert printed == '{"answer": 1}\n' * 2
    once = [
        "hushdoc: warning: Page 3 was not read.",
        "hushdoc: warning: Page 4 was \\x1b[2J\\u202enot.",
    ]
    assert told.splitlines() == once * 2  # each run tells it anew
    assert [str(other.message) for other in others] == ["of another package"] * 2


def test_filters_decide_which_warnings_there_are(
    subcommand: Callable[[Run], int], capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert subcommand(warned) == 0
        warnings.simplefilter("error")
        with pytest.raises(ReadingWarning):
            subcommand(warned)
    assert capfd.readouterr().err == ""


def test_what_shows_warnings_is_put_back(subcommand: Callable[[Run], int]) -> None:
    def fails(_: argparse.Namespace) -> int:
        assert warnings.showwarning is not before
        raise InputError("Found this, expected that. Do so.")

    before = warnings.showwarning
    assert subcommand(fails) == 3
    assert warnings.showwarning is before


def test_warnings_are_ours_by_their_class_or_by_their_line(tmp_path: Path) -> None:
    ours = str(Path(hushdoc.__file__).parent / "reading" / "pdf.py")
    # A checkout may be called as the package is, and hold other packages' files.
    theirs = str(tmp_path / "hushdoc" / ".venv" / "torch" / "nn.py")
    assert notices._is_ours(ReadingWarning, theirs)
    assert notices._is_ours(UserWarning, ours)
    assert not notices._is_ours(UserWarning, theirs)
    assert not notices._is_ours(DeprecationWarning, ours)


def test_who_waits_for_another_command_is_told_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with notices.locked(tmp_path):
        pass
    assert capfd.readouterr().err == ""
    asked, told, held = Event(), Event(), []

    def other() -> None:
        asked.set()
        with notices.locked(tmp_path):
            held.append(told.is_set())

    with locks.locked(tmp_path):
        waiting = Thread(target=other)
        waiting.start()
        asked.wait()
        err, until = "", time.monotonic() + 60
        while "waiting for another command" not in err and time.monotonic() < until:
            time.sleep(0.01)
            err += capfd.readouterr().err
        told.set()
    waiting.join()
    assert f"changes '{tmp_path}'" in err
    assert held == [True]
