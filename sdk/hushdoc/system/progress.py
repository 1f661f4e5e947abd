"""Progress of work: one line that renews itself on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Self, TextIO

from hushdoc.system import terminals

LINE_SECONDS, TERMINAL_SECONDS = 60.0, 0.2
"""How often progress is reported: in a file line by line, on a terminal in one line."""

STEP_SECONDS = 10.0
"""How often steps of one task are reported in a file."""

PATIENCE = 20.0
"""The next line waits this many times as long as its details took to find out."""


class _Line:
    """A line that renews itself on a terminal, and is a new one elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = terminals.steered(stream)
        self.on_terminal = self._stream.isatty()
        self._shown: str | None = None

    def show(self, text: str) -> None:
        """Shows a text, on a terminal in place of the last one and no wider than it."""
        if self.on_terminal:
            self._shown = text[: shutil.get_terminal_size().columns - 1]
            self._renew(self._shown)
        else:
            print(text, file=self._stream, flush=True)

    def end(self) -> None:
        """Ends the line of a terminal."""
        if self._shown is not None:
            self._renew(self._shown, end="\n")  # something brief may have taken its place
        self._shown = None

    def _renew(self, text: str, *, end: str = "") -> None:
        print(f"\r{text}{terminals.ERASE}", end=end, file=self._stream, flush=True)


class Progress:
    """Counts documents and reports how many are done, how fast, and when the others will be."""

    def __init__(self, total: int | None, stream: TextIO) -> None:
        """Takes how many documents there are, where that is known, and where to report."""
        self._total = total
        self._line = _Line(stream)
        self._began = self._last = monotonic()
        self._done = self._failed = self._earlier = 0

    def count(self, *, failed: bool = False, earlier: bool = False) -> None:
        """Counts a document; one that was done earlier does not tell how fast this run is."""
        self._done += 1
        self._failed += failed
        self._earlier += earlier
        now = monotonic()
        if now - self._last >= (TERMINAL_SECONDS if self._line.on_terminal else LINE_SECONDS):
            self._last = now
            self._line.show(self._words())

    def close(self, *, whole: bool = True) -> None:
        """Ends the report; `whole` prints the final counts, also where no terminal is."""
        if self._line.on_terminal or whole:
            self._line.show(self._words())
        self._line.end()

    def _words(self) -> str:
        counted = f"{self._done}" if self._total is None else f"{self._done} of {self._total}"
        parts = [f"{counted} documents"]
        new, seconds = self._done - self._earlier, monotonic() - self._began
        if seconds > 0:
            parts.append(f"{new / seconds:.1f} per second")
        if self._failed:
            parts.append(f"{self._failed} failed")
        if new and self._total is not None and self._total > self._done:
            parts.append(f"{duration(seconds / new * (self._total - self._done))} left")
        return ", ".join(parts)


@contextmanager
def reported(total: int | None, stream: TextIO) -> Iterator[Progress]:
    """Yields what counts documents, and ends its line with the block."""
    progress = Progress(total, stream)
    try:
        yield progress
    finally:
        progress.close(whole=False)


class TaskProgress:
    """Reports how much of one task is done, and about how long the rest takes.

    Example:
        >>> with TaskProgress("page", stream=sys.stdout) as progress:
        ...     progress.show(3, 3)
        page 3/3  0 s left
    """

    def __init__(
        self, what: str, *, begun: int = 0, stream: TextIO | None = None, quiet: bool = False
    ) -> None:
        """Starts the clock, with `begun` of the task done; a quiet one prints nothing."""
        self._what, self._quiet = what, quiet
        self._line = _Line(stream or sys.stderr)
        shown = self._line.on_terminal and not quiet
        self._pause = TERMINAL_SECONDS if shown else STEP_SECONDS
        self._since = monotonic(), begun
        self._is_first = True
        self._due = 0.0

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the line."""
        self.close()

    def is_due(self, done: int, total: int) -> bool:
        """Returns whether `show` would print: its details need not be found out otherwise."""
        return monotonic() >= self._due or done == total

    def show(self, done: int, total: int, details: str = "", *, seconds: float = 0.0) -> None:
        """Prints where a line is due; `seconds` is what finding out the details took."""
        if self.is_due(done, total):
            now = monotonic()
            self._due = now + max(self._pause, PATIENCE * seconds)
            if not self._quiet:
                since, before = self._since
                left = (now - since) / max(1, done - before) * (total - done)
                self._line.show(f"{self._what} {done}/{total}{details}  {duration(left)} left")
        if self._is_first:  # what comes first also warms up, and would say too much of the rest
            self._is_first, self._since = False, (monotonic(), done)

    def close(self) -> None:
        """Ends the line."""
        self._line.end()


def duration(seconds: float) -> str:
    """Returns a length of time in words, rounded up.

    Example:
        >>> [duration(seconds) for seconds in (9.2, 190, 7500)]
        ['10 s', '3 min 10 s', '2 h 05 min']
    """
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(math.ceil(whole / 60), 60)
    return f"{hours} h {minutes:02d} min"
