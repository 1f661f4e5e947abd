"""Whether a ledger's own rows, its cap and the run folders agree with one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.errors import PrivacyError
from hushdoc_training.ledger import storage
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.ledger.runs import LedgerRun
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import last_charge, last_head, read_log

DAMAGED, BROKEN = "damaged", "broken"
"""What can be wrong: the file itself, or a rule that it has to keep."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was checked, in words."""

    problem: str | None  # DAMAGED or BROKEN, None where all is well
    text: str


def audit(
    ledger: Ledger, folders: Sequence[Path] = (), heads: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Returns what was checked and found, of folders and of heads that were noted as well."""
    damages = storage.damages(ledger.path)
    if damages:
        return tuple(Finding(problem=DAMAGED, text=f"the file: {found}") for found in damages)
    # Before the ledger's: a run that goes on meanwhile charges there first.
    noted = [(folder, run := Run.read(folder), read_log(run.log)) for folder in folders]
    runs = ledger.runs()
    return (
        Finding(problem=None, text="the file: sound by SQLite's own check"),
        *_charges(runs),
        _cap(ledger),
        *(_head(ledger, head, f"head {head}") for head in heads),
        *(found for one in noted for found in _folder(ledger, runs, *one)),
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


def _head(ledger: Ledger, head: str, what: str) -> Finding:
    try:
        ledger.require_head(head)
    except PrivacyError:
        text = (
            f"{what}: the ledger lacks entries up to it: it is an older copy, or one that went on"
        )
        return Finding(problem=BROKEN, text=text)
    return Finding(problem=None, text=f"{what}: the ledger holds all entries up to it")


def _folder(
    ledger: Ledger,
    runs: Sequence[LedgerRun],
    folder: Path,
    run: Run,
    entries: Sequence[dict[str, Any]],
) -> list[Finding]:
    """A folder may hold fewer charges than the ledger (a kill lost the last), never more."""
    if run.settings.get("ledger") != ledger.ledger_id:
        text = f"folder '{folder}': its run was not trained with this ledger"
        return [Finding(problem=BROKEN, text=text)]
    known = next((item for item in runs if item.run_id == run.run_id), None)
    recorded = 0 if known is None else known.charged
    last, head = last_charge(entries), last_head(entries)
    charges = Finding(
        problem=None if last <= recorded else BROKEN,
        text=(
            f"folder '{folder}': step {last} is the last it charged, the ledger holds {recorded} "
            f"for run {run.run_id}" + ("" if last <= recorded else "; the ledger is an older copy")
        ),
    )
    if head is None:
        return [charges]
    return [charges, _head(ledger, head, f"folder '{folder}': the head {head} that it noted")]
