"""Progress: what is shown on a terminal and in a file, and how long it takes in words."""

from __future__ import annotations

import io
import re

import pytest

from hushdoc.system import progress
from hushdoc.system.progress import Progress, duration


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
    assert re.fullmatch(r"6\d\d of 10000 documents, 10.0 per second, 16 min left", first)
    assert second.startswith("120")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (40, "40 s"), (59.9, "60 s"), (61, "2 min"), (20_401, "5 h 41 min")],
)
def test_durations_are_rounded_up(seconds: float, words: str) -> None:
    assert duration(seconds) == words
