"""Whether a ledger's own rows, its cap and the run folders agree with one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hushdoc_training.ledger import storage
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.ledger.runs import LedgerRun
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import last_charge, read_log

DAMAGED, BROKEN = "damaged", "broken"
"""What can be wrong: the file itself, or a rule that it has to keep."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was checked, in words."""

    problem: str | None  # DAMAGED or BROKEN, None where all is well
    text: str


def audit(ledger: Ledger, folders: Sequence[Path] = ()) -> tuple[Finding, ...]:
    """Returns what was checked and found."""
    damages = storage.damages(ledger.path)
    if damages:
        return tuple(Finding(problem=DAMAGED, text=f"the file: {found}") for found in damages)
    runs = ledger.runs()
    return (
        Finding(problem=None, text="the file: sound by SQLite's own check"),
        *_charges(runs),
        _cap(ledger),
        *(_folder(ledger, runs, folder) for folder in folders),
    )


def _charges(runs: Iterable[LedgerRun]) -> list[Finding]:
    return [
        Finding(
            problem=None if run.charged <= run.reserved else BROKEN,
            text=f"run {run.run_id}: charged {run.charged} of {run.reserved} reserved steps",
        )
        for run in runs
    ]


def _cap(ledger: Ledger) -> Finding:
    spent = ledger.spent()
    return Finding(
        problem=None if spent.reserved <= spent.cap else BROKEN,
        text=(
            f"the cap: epsilon {spent.charged:.4g} is charged and {spent.reserved:.4g} with all "
            f"reserved steps, recomputed; {spent.cap:g} is allowed"
        ),
    )


def _folder(ledger: Ledger, runs: Sequence[LedgerRun], folder: Path) -> Finding:
    """A folder may hold fewer charges than the ledger (a kill lost the last), never more."""
    run = Run.read(folder)
    if run.settings.get("ledger") != ledger.ledger_id:
        return Finding(
            problem=BROKEN, text=f"folder '{folder}': its run was not trained with this ledger"
        )
    known = next((item for item in runs if item.run_id == run.run_id), None)
    recorded = 0 if known is None else known.charged
    last = last_charge(read_log(run.log))
    return Finding(
        problem=None if last <= recorded else BROKEN,
        text=(
            f"folder '{folder}': step {last} is the last it charged, the ledger holds {recorded} "
            f"for run {run.run_id}" + ("" if last <= recorded else "; the ledger is an older copy")
        ),
    )
