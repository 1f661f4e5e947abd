"""How much disk an installation takes: the base, and the base with the CPU runtime.

    base_mb   pip install hushdoc            checks certificates, runs tables of hashed features
    cpu_mb    pip install 'hushdoc[cpu]'     runs every model on a processor

Each is installed into an empty folder with the versions of constraints.txt, and all its files are
counted, compiled ones included. --quick installs nothing: it adds up what pip recorded for the same
packages where this script runs. --peer NAME installs and counts another package the same way. The
last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import machine

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("sdk/hushdoc", "training/hushdoc_training", "export/hushdoc_export")
LIMITS = {"base_mb": 90.0, "cpu_mb": 200.0}
EXTRAS = {"base_mb": "", "cpu_mb": "cpu"}


def main() -> int:
    """Counts and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="install nothing, read pip's records")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    measure = recorded if options.quick else installed
    parts = {name: measure(extra) for name, extra in EXTRAS.items()}
    found: dict[str, Any] = {name: round(sum(sizes.values()), 1) for name, sizes in parts.items()}
    for name, limit in LIMITS.items():
        print(f"{name}: {found[name]} (goal: at most {limit:g})")
    found["goals_met"] = all(found[name] <= limit for name, limit in LIMITS.items())
    found["parts_mb"] = {
        name: {part: round(size, 1) for part, size in sizes.items() if size >= 0.05}
        for name, sizes in parts.items()
    }
    found["peers_mb"] = {
        name: round(sum(in_empty_folder([name]).values()), 1) for name in options.peer
    }
    result = {
        **found,
        **machine.dated(python=True),
        "quick": options.quick,
    }
    print(json.dumps(result))
    return 0


def installed(extra: str) -> dict[str, float]:
    """Returns the megabytes of each top-level entry that an installation makes."""
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    return in_empty_folder([wanted, "-c", str(ROOT / "constraints.txt")])


def in_empty_folder(what: Iterable[str]) -> dict[str, float]:
    """Installs into an empty folder, and returns the megabytes of each of its entries."""
    with tempfile.TemporaryDirectory(prefix="hushdoc-size-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", folder, *what], check=True)
        return {
            entry.name: megabytes([entry] if entry.is_file() else entry.rglob("*"))
            for entry in sorted(Path(folder).iterdir())
        }


def recorded(extra: str) -> dict[str, float]:
    """Returns the megabytes of each package that an installation would bring, as recorded."""
    sizes = {"hushdoc": megabytes(path for floor in FLOORS for path in (ROOT / floor).rglob("*"))}
    waiting = list(requirements("hushdoc", extra))
    while waiting:
        name, wanted = waiting.pop()
        if name not in sizes:
            files = metadata.distribution(name).files or []
            sizes[name] = megabytes(Path(str(file.locate())) for file in files)
            waiting += requirements(name, wanted)
    return sizes


def requirements(name: str, extra: str) -> Iterable[tuple[str, str]]:
    """Yields the packages that one needs here, each with the extra that is asked of it."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for line in metadata.requires(name) or []:
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield canonicalize_name(needed.name), next(iter(needed.extras), "")


def megabytes(paths: Iterable[Path]) -> float:
    """Returns how much some files hold."""
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
