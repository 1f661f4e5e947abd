"""Standing: where a federated run is, read from the files of its folder alone, without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hushdoc.errors import CheckpointError
from hushdoc.serialization import strict_json
from hushdoc.signing import keys
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.roster import COORDINATOR

ROSTER, PROGRESS, LOG = "roster.json", "progress.json", "rounds.jsonl"
"""Files of a run and of its coordinator: the roster, what is known of the rounds, and their log."""


def of(folder: Path) -> dict[str, Any]:
    """Returns a run's parties, plan and rounds; `folder` is a simulation's, or the coordinator's.

    Raises:
        InputError: BAD_ROSTER, where no sound roster is there.
        CheckpointError: What the coordinator wrote can't be read.
    """
    roster = rosters.load(folder / ROSTER)
    own = folder / COORDINATOR if (folder / COORDINATOR).is_dir() else folder
    progress: dict[str, Any] = {}
    if (own / PROGRESS).exists():
        progress = strict_json.read_file(
            own / PROGRESS, what="The progress", code="BAD_CHECKPOINT", error=CheckpointError
        )
    return {
        "run": roster.run,
        "roster": roster.digest,
        "plan": dict(roster.plan),
        "task": dict(roster.task),
        "clients": [party.name for party in roster.clients],
        "keys": {party.name: keys.key_id(party.raw_key) for party in roster.parties},
        "begun": progress.get("begun", 0),
        "aborted": progress.get("aborted", []),
        "missed": _missed(own / LOG),
        "finished": (folder / "checkpoint").is_dir(),
    }


def _missed(log: Path) -> dict[str, int]:
    """Returns how many rounds each client missed, of those that missed any."""
    missed: dict[str, int] = {}
    if not log.exists():
        return missed
    for line in log.read_text(encoding="ascii").splitlines():
        try:
            names = json.loads(line)["missing"]
        except (ValueError, KeyError):  # a kill cut the last line off
            continue
        for name in names:
            missed[name] = missed.get(name, 0) + 1
    return dict(sorted(missed.items()))
