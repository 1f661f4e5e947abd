"""What a person sees while training: a progress line, a log of steps, a plot."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from hushdoc.system.atomic_files import not_written, write_file

EPSILON_PAUSE = 20.0
"""The next epsilon waits this many times as long as the last one took to compute."""


class Progress:
    """One line that renews itself on a terminal, or a line now and then in a log."""

    def __init__(
        self,
        total: int,
        *,
        epsilon_after: Callable[[int], float] | None = None,
        stream: TextIO | None = None,
        quiet: bool = False,
    ) -> None:
        """Starts the clock.

        Args:
            total: Steps in all.
            epsilon_after: Epsilon after that many steps. Exact accounting takes a moment, so it is
                asked only for lines that are shown, and for a small share of the time.
            stream: Where to write; the standard error by default.
            quiet: Write nothing.
        """
        self._total = total
        self._epsilon_after = epsilon_after
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._quiet = quiet
        self._started = time.monotonic()
        self._due = 0.0
        self._first: int | None = None

    def show(self, step: int, *, loss: float) -> float | None:
        """Shows step, loss, epsilon spent and time left where a line is due.

        Returns:
            The epsilon that was shown; None where none was asked for.
        """
        if self._first is None:
            self._first = step - 1
        if time.monotonic() < self._due and step != self._total:
            return None
        began = time.monotonic()
        spent = None if self._epsilon_after is None else self._epsilon_after(step)
        now = time.monotonic()
        self._due = now + max(self._pause(), EPSILON_PAUSE * (now - began))
        if not self._quiet:
            self._print(step, loss, spent, now)
        return spent

    def close(self) -> None:
        """Ends the line."""
        if not self._quiet and self._terminal:
            print(file=self._stream)

    def _pause(self) -> float:
        if not self._terminal or self._quiet:
            return 10.0
        return 0.2 if self._epsilon_after is None else 1.0

    def _print(self, step: int, loss: float, spent: float | None, now: float) -> None:
        left = (now - self._started) / (step - (self._first or 0)) * (self._total - step)
        epsilon = "" if spent is None else f"  epsilon {spent:.2f}"
        line = f"step {step}/{self._total}  loss {loss:.3f}{epsilon}  {_in_words(left)} left"
        print(
            f"\r\x1b[K{line}" if self._terminal else line,
            end="" if self._terminal else "\n",
            file=self._stream,
            flush=True,
        )


class StepLog:
    """An append-only log; a step is charged in it, on the disk, before its noise is drawn."""

    def __init__(self, path: Path) -> None:
        """Opens the log, new or old; a line that a crash cut is closed, so that none joins it."""
        self._path = path
        self.entries: list[dict[str, Any]] = []
        self.reread()

    def reread(self) -> None:
        """Takes in what another process wrote; a line that its end cut is closed."""
        path = self._path
        content = path.read_bytes() if path.is_file() else None
        if content is None or (content and not content.endswith(b"\n")):
            write_file(path, (content + b"\n") if content else b"")
        self.entries[:] = read_log(path)

    @property
    def charged(self) -> int:
        """Steps that were charged, finished or not."""
        return sum("charge" in entry for entry in self.entries)

    def charge(self, step: int, *, sync: bool = True) -> None:
        """Charges a step and, unless told otherwise, waits until that is on the disk."""
        self._append({"charge": step}, sync=sync)

    def finish(self, step: int, **values: Any) -> None:
        """Notes what a finished step showed."""
        self._append({"step": step, **values}, sync=False)

    def _append(self, entry: dict[str, Any], *, sync: bool) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")
                stream.flush()
                if sync:
                    os.fsync(stream.fileno())
        except OSError as error:
            raise not_written(self._path, error) from error
        self.entries.append(entry)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Returns the log's entries; a last line cut by a crash counts as a charge."""
    if not path.is_file():
        return []
    entries = []
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        entries.append(entry if isinstance(entry, dict) else {"charge": -1})
    return entries


def last_charge(entries: list[dict[str, Any]]) -> int:
    """Returns the largest step that a readable entry charges; 0 where there is none."""
    return max((int(entry["charge"]) for entry in entries if "charge" in entry), default=0)


def plot(path: Path, entries: list[dict[str, Any]], *, title: str) -> None:
    """Draws loss and epsilon over the steps into a PNG.

    Args:
        path: The image to write.
        entries: The log's entries.
        title: A line above the plot.
    """
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    steps = [entry for entry in entries if "step" in entry]
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    losses = [(entry["step"], entry["loss"]) for entry in steps if entry.get("loss") is not None]
    axes.plot([at for at, _ in losses], [loss for _, loss in losses], color="#0072b2", lw=1.2)
    axes.set(xlabel="step", ylabel="training loss", title=title)
    axes.set_ylim(bottom=0)
    spent = [(entry["step"], entry["epsilon"]) for entry in steps if entry.get("epsilon")]
    if spent:
        right = axes.twinx()
        right.plot([at for at, _ in spent], [value for _, value in spent], color="#d55e00")
        right.set_ylabel("epsilon spent", color="#d55e00")
        right.set_ylim(bottom=0)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    write_file(path, buffer.getvalue())


def _in_words(seconds: float) -> str:
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
