"""The log of a run's steps, and what a person sees of them: a progress line and a plot."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from hushdoc.errors import CheckpointError
from hushdoc.system.atomic_files import not_written, write_file
from hushdoc.system.progress import TaskProgress
from hushdoc_training.privacy.step import Step

AVERAGED = 20
"""Steps whose losses with noise are averaged for the eye."""


class StepLog:
    """The log of a run: what its lines hold, and the last step that was charged.

    A private step is charged in it, on the disk, before its records are drawn.
    """

    def __init__(self, path: Path, run_id: str, *, private: bool = True) -> None:
        """Opens the log of a run, which its first line must name.

        A charge of a private run spends a budget: it waits for the disk, and a log that is not
        whole is refused.
        """
        self._path, self._run_id, self._private = path, run_id, private
        self.entries: list[dict[str, Any]] = []
        self.charged = 0
        self.read()

    @staticmethod
    def begin(path: Path, run_id: str) -> None:
        """Writes the first line of a new log, without which a log counts as lost."""
        write_file(path, _line({"run": run_id}))

    def read(self) -> int:
        """Returns the last step that was charged, by whichever process.

        A last line that a crash cut counts as a charge, under a name of its own: it may have been
        another entry, which no ledger holds as a step. A log that is gone or cut is refused.
        """
        content = self._path.read_bytes() if self._path.is_file() else b""
        *lines, cut = content.split(b"\n")
        entries = [_entry(line) for line in lines]
        known = [entry for entry in entries if entry is not None]
        if self._private:
            if not entries or entries[0] != {"run": self._run_id}:
                raise self._lost("is gone or cut, and with it what the run has spent")
            if len(known) < len(entries):
                raise self._lost("holds a line that is no entry")
        added: list[dict[str, Any]] = []
        if self._private and cut:
            added = [{"cut": _last(known) + 1}]
        elif not known:
            added = [{"run": self._run_id}]
        if cut or added:
            whole = content[: len(content) - len(cut)]
            write_file(self._path, whole + b"".join(map(_line, added)))
        self.entries = [*known, *added]
        self.charged = _last(self.entries)
        return self.charged

    def charge(self, step: int, **beside: str) -> None:
        """Charges a step for good; on the disk when this returns, where it spends a budget."""
        self._append({"charge": step, **beside}, sync=self._private)
        self.charged = step

    def finish(self, step: int, **values: Any) -> None:
        """Notes what a finished step showed."""
        self._append({"step": step, **values}, sync=False)

    def note(self, **values: Any) -> None:
        """Notes something of the whole run."""
        self._append(values, sync=True)

    def find(self, name: str) -> Any:
        """Returns what was noted first under a name; None where nothing was."""
        return next((entry[name] for entry in self.entries if name in entry), None)

    def _append(self, entry: dict[str, Any], *, sync: bool) -> None:
        try:
            with self._path.open("ab") as stream:
                stream.write(_line(entry))
                stream.flush()
                if sync:
                    os.fsync(stream.fileno())
        except OSError as error:
            raise not_written(self._path, error) from error
        self.entries.append(entry)

    def _lost(self, problem: str) -> CheckpointError:
        return CheckpointError(
            f"'{self._path}' {problem}. Restore the file, or start a new run in another folder; "
            "what this one spent stays spent."
        )


def read_log(path: Path) -> list[dict[str, Any]]:
    """Returns the entries of a log that can be read."""
    content = path.read_bytes() if path.is_file() else b""
    return [entry for line in content.splitlines() if (entry := _entry(line)) is not None]


def last_charge(entries: Iterable[dict[str, Any]]) -> int:
    """Returns the largest step that an entry charges; 0 where there is none."""
    return max((entry["charge"] for entry in entries if "charge" in entry), default=0)


def last_head(entries: Iterable[dict[str, Any]]) -> str | None:
    """Returns the head of the ledger after the last charge; None where none was noted."""
    heads = [entry["head"] for entry in entries if isinstance(entry.get("head"), str)]
    return heads[-1] if heads else None


def _last(entries: Iterable[dict[str, Any]]) -> int:
    """Returns the largest step that is charged or counts as charged."""
    return max((entry.get("charge", entry.get("cut", 0)) for entry in entries), default=0)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode("ascii") + b"\n"


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (RecursionError, ValueError):
        return None
    if not isinstance(entry, dict):
        return None
    return entry if all(type(entry.get(name, 0)) is int for name in ("charge", "cut")) else None


class StepReport:
    """Shows, logs and in the end plots the epsilon spent so far, and losses where given."""

    def __init__(
        self,
        log: StepLog,
        plot_path: Path,
        *,
        steps: int,
        epsilon_after: Callable[[int], float] | None,
        title: str,
        quiet: bool,
    ) -> None:
        """Starts the clock; `epsilon_after` is None where no privacy is spent."""
        self._log, self._plot_path, self._title = log, plot_path, title
        self._steps, self._epsilon_after = steps, epsilon_after
        self._progress = TaskProgress("step", begun=log.charged, quiet=quiet)
        self._noisy: deque[float] = deque(maxlen=AVERAGED)

    def show(self, step: int, **losses: float | None) -> None:
        """Shows and logs a finished step, with its `loss` if given; None where it has none.

        Exact accounting takes a moment, so it is asked only for lines that are due.
        """
        began, spent = monotonic(), None
        if self._epsilon_after is not None and self._progress.is_due(step, self._steps):
            spent = self._epsilon_after(step)
        seconds = monotonic() - began
        self._progress.show(step, self._steps, _details(losses, spent), seconds=seconds)
        self._log.finish(step, **losses, epsilon=spent)

    def show_step(self, step: Step) -> None:
        """Shows and logs a private step, with its loss only where its view says so.

        Losses with noise are averaged over the last steps, as whoever receives them might.
        """
        losses = {"loss": step.loss} if step.view.shown else {}
        if step.noisy_loss is not None:
            self._noisy.append(step.noisy_loss)
            losses["noisy loss"] = sum(self._noisy) / len(self._noisy)
        self.show(step.number, **losses)

    def close(self) -> None:
        """Ends the progress line and draws the plot."""
        self._progress.close()
        plot(self._plot_path, self._log.entries, title=self._title)


def plot(path: Path, entries: list[dict[str, Any]], *, title: str) -> None:
    """Draws epsilon over the steps into a PNG, and losses where the log holds any."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Of a step that was taken again after a kill, where nothing is spent, the last time counts.
    steps = [*{entry["step"]: entry for entry in entries if "step" in entry}.values()]
    figure = Figure(figsize=(7, 4))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.12, 0.13, 0.76, 0.78))  # computing a layout costs as much again
    axes.set_xlabel("step")
    axes.set_title(title, y=1.0)
    for drawn, (name, label, color) in enumerate(_curves(steps)):
        shown = axes.twinx() if drawn else axes
        points = [(entry["step"], entry[name]) for entry in steps if entry.get(name) is not None]
        shown.plot([at for at, _ in points], [value for _, value in points], color=color, lw=1.2)
        shown.set_ylabel(label, color=color)
        shown.set_ylim(bottom=0)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    write_file(path, buffer.getvalue())


def _curves(steps: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Returns name, label and colour of what the steps of a log hold."""
    known = [
        ("loss", "training loss", "#0072b2"),
        ("noisy loss", "training loss with noise", "#009e73"),
        ("epsilon", "epsilon spent", "#d55e00"),
    ]
    there = [curve for curve in known if any(step.get(curve[0]) is not None for step in steps)]
    return there if len(there) < len(known) else [there[0], there[-1]]  # two axes are enough


def _details(losses: Mapping[str, float | None], spent: float | None) -> str:
    texts = {name: "none" if loss is None else f"{loss:.3f}" for name, loss in losses.items()}
    if spent is not None:
        texts["epsilon"] = f"{spent:.2f}"
    return "".join(f"  {name} {text}" for name, text in texts.items())
