"""Progress: what is shown on a terminal and in a file, and how long it takes in words."""

from __future__ import annotations

import io
import re

import pytest

from hushdoc.system import progress
from hushdoc.system.progress import Progress, TaskProgress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_with_counts_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter(range(100))
    monkeypatch.setattr(progress, "monotonic", lambda: next(seconds))
    shown = Terminal()
    counted = Progress(4, shown)
    counted.count(earlier=True)
    counted.count(failed=True)
    counted.count()
    counted.close()
    last, end = re.split("\r", shown.getvalue())[-1].split("\x1b[K")
    assert last == "3 of 4 documents, 0.3 per second, 1 failed, 4 s left"
    assert end == "\n"
    assert shown.getvalue().count("\n") == 1


def test_a_pipe_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    piped = io.StringIO()
    counted = Progress(10_000, piped)
    for _ in range(1300):
        now[0] += 0.1
        counted.count()
    counted.close(whole=False)
    first, second = piped.getvalue().splitlines()
    assert re.fullmatch(r"6\d\d of 10000 documents, 10.0 per second, 15 min \d+ s left", first)
    assert second.startswith("120")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (59, "59 s"),
        (59.5, "1 min 0 s"),
        (190, "3 min 10 s"),
        (3599.5, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (7501, "2 h 06 min"),
    ],
)
def test_durations_are_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_what_comes_first_warms_up_and_does_not_count(now: list[float]) -> None:
    stream = Terminal()
    task = TaskProgress("step", begun=40, stream=stream)
    now[0] += 90  # the first step
    task.show(41, 101)
    now[0] += 2
    task.show(42, 101)
    assert stream.getvalue().endswith("step 42/101  1 min 58 s left\x1b[K")


def test_a_terminal_has_one_line_and_a_log_one_every_ten_seconds(now: list[float]) -> None:
    streams = [Terminal(), io.StringIO()]
    for stream in streams:
        with TaskProgress("page", stream=stream) as task:
            for done in range(1, 301):
                now[0] += 0.1
                task.show(done, 300, "  read")
    shown, logged = (stream.getvalue() for stream in streams)
    assert shown.count("\n") == 1
    assert shown.endswith("page 300/300  read  0 s left\x1b[K\n")
    assert 100 < shown.count("\r") <= 151
    assert len(logged.splitlines()) == 4
    assert "\x1b" not in logged


def test_a_quiet_one_and_an_unused_one_print_nothing() -> None:
    for quiet in (True, False):
        stream = Terminal()
        with TaskProgress("page", stream=stream, quiet=quiet) as task:
            if quiet:
                task.show(1, 1)
        assert stream.getvalue() == ""
