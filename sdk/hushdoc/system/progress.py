"""Progress of work on many documents: one line on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import math
from time import monotonic
from typing import TextIO

from hushdoc.system import terminals

LINE_SECONDS, TERMINAL_SECONDS = 60.0, 0.2
"""How often progress is reported: in a file line by line, on a terminal in one line."""


class Progress:
    """Counts documents and reports how many are done, how fast, and when the others will be."""

    def __init__(self, total: int | None, stream: TextIO) -> None:
        """Takes how many documents there are, where that is known, and where to report."""
        self._total = total
        self._stream = terminals.steered(stream)
        self._terminal = self._stream.isatty()
        self._began = self._last = monotonic()
        self._done = self._failed = self._earlier = 0

    def count(self, *, failed: bool = False, earlier: bool = False) -> None:
        """Counts a document; one that was done earlier does not tell how fast this run is."""
        self._done += 1
        self._failed += failed
        self._earlier += earlier
        now = monotonic()
        if now - self._last >= (TERMINAL_SECONDS if self._terminal else LINE_SECONDS):
            self._last = now
            self._print()

    def close(self, *, whole: bool = True) -> None:
        """Ends the report; `whole` prints the final counts, also where no terminal is."""
        if self._terminal or whole:
            self._print()
        if self._terminal:
            print(file=self._stream, flush=True)

    def _print(self) -> None:
        # On a terminal the line is written over, and the rest of a longer one erased.
        line = f"\r{self._words()}\x1b[K" if self._terminal else f"{self._words()}\n"
        print(line, end="", file=self._stream, flush=True)

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


def duration(seconds: float) -> str:
    """Returns a length of time in words, rounded up: "40 s", "3 min", "5 h 40 min"."""
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
