"""Run folders: one format on disk for every training that can be interrupted.

    run.json        the settings that a resumed run must share, and the run's random id
    steps.jsonl     the log: its first line names the run; a private step is charged in it, on the
                    disk, before that step's records are drawn
    state-<step>/   weights and optimizer, to resume from
    config.toml     what `--config` takes to train so again, where a command trained
    environment.json    versions and processor, where a command trained
    training.png    epsilon over the steps, and the loss where it was to be shown
    checkpoint/     what a finished run of a recipe leaves

Log and plot hold losses on private records only where their owner asked for them, and stay with
the trainer in any case. Whoever reads such a number by the run's objects is noted in the log, as
`private_view` says. The log is begun before `run.json` is written, so that a run without its log
has lost it, wherever a kill came.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.errors import CheckpointError, OutputExistsError
from hushdoc.system import atomic_files, locks
from hushdoc_training.runs import state
from hushdoc_training.runs.step_log import StepLog, read_log

SETTINGS = "run.json"
STEPS = "steps.jsonl"
CHECKPOINT = "checkpoint"
CONFIGURATION = "config.toml"
ENVIRONMENT = "environment.json"
_LATER = {
    "weights",
    "read_layers",
    "name",
    "public_data",
    "hyperparameter_tuning",
    "caveats",
    "cut",
}
"""Settings that runs of earlier versions did not note."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder and what was asked for."""

    folder: Path
    run_id: str  # a random name; log and ledger know the run by it
    settings: dict[str, Any]  # what a resumed run must share

    @classmethod
    def open(cls, folder: Path, settings: dict[str, Any], *, resume: bool) -> Run:
        """Claims an empty folder, or returns to one with the same settings."""
        if resume:
            return _resumed(folder, settings)
        require_usable(folder, resume=False)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise atomic_files.not_written(folder, error) from error
        run = cls(folder=folder, run_id=secrets.token_hex(8), settings=settings)
        text = json.dumps({"run": run.run_id, **settings}, indent=2, sort_keys=True) + "\n"
        with _alone(folder):
            _require_free(folder)  # another run may have begun there meanwhile
            StepLog.begin(run.log, run.run_id)
            atomic_files.write_file(folder / SETTINGS, text.encode("utf-8"))
        return run

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Returns the run that a folder holds."""
        try:
            stored = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"'{folder}' holds no run to resume. Start it without --resume first."
            ) from error
        except (OSError, RecursionError, ValueError) as error:
            raise CheckpointError(
                f"'{folder / SETTINGS}' can't be read: {error}. Start a new run in another folder; "
                "what this one spent stays spent."
            ) from error
        if not isinstance(stored, dict):
            raise CheckpointError(
                f"'{folder / SETTINGS}' holds no settings. Start a new run in another folder; what "
                "this one spent stays spent."
            )
        return cls(folder=folder, run_id=str(stored.pop("run", "")), settings=stored)

    @property
    def log(self) -> Path:
        """The file that steps are charged in."""
        return self.folder / STEPS

    @property
    def is_finished(self) -> bool:
        """Whether the run has left its checkpoint."""
        return (self.folder / CHECKPOINT).is_dir()


def require_usable(folder: Path, *, resume: bool) -> None:
    """Raises early what `Run.open` would once all documents are read."""
    if resume:
        Run.read(folder)
    elif folder.exists():  # what does not exist can't be locked
        with _alone(folder):
            _require_free(folder)


def keep_notes(folder: Path, notes: Mapping[str, str]) -> None:
    """Writes texts beside a run, by the names of their files; those of a resumed run replace."""
    for name, text in notes.items():
        atomic_files.write_file(folder / name, text.encode("utf-8", "backslashreplace"))


def _resumed(folder: Path, settings: dict[str, Any]) -> Run:
    run = Run.read(folder)
    asked = json.loads(json.dumps(settings))
    compared = {*run.settings, *asked} - (_LATER - {*run.settings})
    changed = sorted(key for key in compared if run.settings.get(key) != asked.get(key))
    if changed:
        raise CheckpointError(
            f"The run in '{folder}' was started with other settings: {', '.join(changed)}."
            f"{_values(changed, run.settings, asked)} A budget holds for one run as it was "
            "planned; resume with the same plan, options and data. Where they are the same, "
            "another version of hushdoc began it, and that version alone goes on with it; or start "
            "a new run in another folder: what this one spent stays spent, and `hushdoc ledger "
            "close` frees what it reserved besides."
        )
    with state.locked(folder / SETTINGS):  # what another process is writing is not left behind
        state.clear_partial(folder)
    return run


def _values(changed: list[str], there: dict[str, Any], asked: dict[str, Any]) -> str:
    """Returns in words which numbers differ; texts may be digests, which nobody compares."""
    pairs = [(key, there.get(key), asked.get(key)) for key in changed]
    found = [
        f"{key} {short_repr(one)} there and {short_repr(other)} here"
        for key, one, other in pairs
        if isinstance(one, int | float) and isinstance(other, int | float)
    ]
    return f" They differ in {'; '.join(found)}." if found else ""


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps out another process that begins a run in the folder at the same moment."""
    with ExitStack() as held:
        try:
            held.enter_context(locks.locked(folder, wait=False))
        except BlockingIOError as error:
            raise OutputExistsError(
                f"Another process is writing into '{folder}', and two runs are never mixed. Choose "
                "another folder."
            ) from error
        yield


def _require_free(folder: Path) -> None:
    _clear_unbegun(folder)
    if not folder.is_dir() or any(folder.iterdir()):
        raise OutputExistsError(
            f"'{folder}' already holds something, and two runs are never mixed. Choose "
            "another folder, or continue an interrupted run with --resume."
        )


def _clear_unbegun(folder: Path) -> None:
    """Removes what a run left that was killed before it had its settings: it spent nothing."""
    for name in (SETTINGS, STEPS):
        state.clear_partial(folder, only=f".{name}.")
    log = folder / STEPS
    if not (folder / SETTINGS).exists() and [[*entry] for entry in read_log(log)] == [["run"]]:
        log.unlink()
