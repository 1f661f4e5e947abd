"""What a person sees while training: a progress line, a log of steps, a plot."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from hushdoc.files import not_written, write_file


class Progress:
    """One line that renews itself on a terminal, or a line now and then in a log."""

    def __init__(self, total: int, *, stream: TextIO | None = None, quiet: bool = False) -> None:
        """Starts the clock.

        Args:
            total: Steps in all.
            stream: Where to write; the standard error by default.
            quiet: Write nothing.
        """
        self._total = total
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._started = time.monotonic()
        self._shown = 0.0
        self._first: int | None = None

    def show(self, step: int, *, loss: float, epsilon: float | None) -> None:
        """Shows step, loss, epsilon spent and time left."""
        if self._first is None:
            self._first = step - 1
        now = time.monotonic()
        terminal = self._stream.isatty()
        due = now - self._shown >= (0.2 if terminal else 10.0)
        if self._quiet or not (due or step == self._total):
            return
        self._shown = now
        done = step - self._first
        left = (now - self._started) / done * (self._total - step)
        spent = "" if epsilon is None else f"  epsilon {epsilon:.2f}"
        line = f"step {step}/{self._total}  loss {loss:.3f}{spent}  {_clock(left)} left"
        print(
            f"\r\x1b[K{line}" if terminal else line,
            end="" if terminal else "\n",
            file=self._stream,
            flush=True,
        )

    def close(self) -> None:
        """Ends the line."""
        if not self._quiet and self._stream.isatty():
            print(file=self._stream)


class StepLog:
    """An append-only log; a step is charged in it, on the disk, before its noise is drawn."""

    def __init__(self, path: Path) -> None:
        """Opens the log, new or old; a line that a crash cut is closed, so that none joins it."""
        content = path.read_bytes() if path.is_file() else None
        if content is None or (content and not content.endswith(b"\n")):
            write_file(path, (content + b"\n") if content else b"")
        self._path = path
        self.entries = read_log(path)

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
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            entries.append({"charge": -1})
    return entries


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


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
