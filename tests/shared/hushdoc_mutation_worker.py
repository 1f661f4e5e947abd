"""A program, FOLDER SEED NUMBER: tries that much damage and writes its tally as JSON.

In a process of its own, so that the memory that reading takes can be measured.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import hushdoc_builders
from hushdoc_mutation import run, targets


def _most_bytes() -> int:
    # Not ru_maxrss: a program begins with that of the process which started it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main(folder: str, seed: str, number: str) -> None:
    """Writes the tally of a run, and the most memory it took in bytes."""
    found = targets(hushdoc_builders, Path(folder))
    before = _most_bytes()
    tally = run(found, seed=int(seed), number=int(number))
    told = {
        "tried": tally.tried,
        "refused": tally.refused,
        "codes": tally.codes,
        "accepted": [
            (name, base64.b64encode(content).decode()) for name, content in tally.accepted
        ],
        "wrong": [
            (name, why, base64.b64encode(content).decode()) for name, why, content in tally.wrong
        ],
        "memory": {"before": before, "after": _most_bytes()},
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
