"""The first minutes of a new user: README's first commands and the demo, from a clean clone.

    install_seconds      an environment of its own, and `pip install` as README has it
    sample_seconds       README's first commands and Python lines, after that installation
    setup_seconds        what `make` installs before the first demo
    demo_seconds         make demo
    demo_quick_seconds   make demo QUICK=1
    commands_failed      how many of all these commands ended with an error

Times are those of the clock, on one core, beside whatever else runs here. The clone stands in a new
folder; commands see an empty home, a plain PATH, and of this environment only how pip finds
packages. --quick takes the sample alone, with the packages that are installed here; what was not
run is null. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine

ROOT = Path(__file__).resolve().parents[1]
KEPT = ("PIP_", "UV_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE")
"""Variables, by their beginnings, without which packages could not be reached from everywhere."""


class Place:
    """A folder, an environment, and how many commands have failed in them."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """Makes the folder."""
        self.folder, self.failed = folder, 0
        home = folder / "home"
        home.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if name.upper().startswith(KEPT)}
        self._variables = {**kept, "HOME": str(home), "LANG": "C.UTF-8", **variables}

    def seconds(self, commands: Iterable[str]) -> float:
        """Returns the time of some shell commands; the output of those that fail is printed."""
        began = time.monotonic()
        for command in commands:
            print(f"$ {command}", flush=True)
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self._variables,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                self.failed += 1
                print(f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return round(time.monotonic() - began, 1)


def first_commands() -> list[str]:
    """Returns README's first commands but the installation, and its first Python lines."""
    text = (ROOT / "README.md").read_text("utf-8")
    shell = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert shell
    assert lines
    install, *commands = shell[1].splitlines()
    assert install.startswith("pip install 'hushdoc[cpu,pdf]'"), install
    return [*commands, f"python - <<'END'\n{lines[1]}END"]


def quick(folder: Path) -> dict[str, Any]:
    """Returns what the sample takes with the packages that are installed here."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    modules = os.environ.get("PYTHONPATH", "")
    place = Place(folder / "quick", {"PATH": path, "PYTHONPATH": modules})
    return {"sample_seconds": place.seconds(first_commands()), "commands_failed": place.failed}


def whole(folder: Path) -> dict[str, Any]:
    """Returns what everything takes in a clean clone."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    path = f"{folder / 'sample' / 'venv' / 'bin'}{os.pathsep}{os.defpath}"
    sample = Place(folder / "sample", {"PATH": path})
    install = f"python -m pip install -q '{clone}[cpu,pdf]' -c '{clone}/constraints.txt'"
    found: dict[str, Any] = {
        "install_seconds": sample.seconds([f"{python} -m venv venv", install]),
        "sample_seconds": sample.seconds(first_commands()),
    }
    demo = Place(folder / "demo", {"PATH": os.defpath, "PYTHON": str(python)})
    make = f"make --no-print-directory -C '{clone}'"
    found["setup_seconds"] = demo.seconds([f"{make} .venv/.ready"])
    found["demo_quick_seconds"] = demo.seconds([f"{make} demo QUICK=1"])
    found["demo_seconds"] = demo.seconds([f"{make} demo"])
    return {**found, "commands_failed": sample.failed + demo.failed}


def one_core() -> None:
    """Leaves one core to this process and all that it starts, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> int:
    """Measures and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the sample alone, nothing installed")
    options = parser.parse_args()
    one_core()
    nothing = dict.fromkeys(
        ("install_seconds", "sample_seconds", "setup_seconds", "demo_quick_seconds", "demo_seconds")
    )
    with tempfile.TemporaryDirectory(prefix="hushdoc-first-") as folder:
        found = (quick if options.quick else whole)(Path(folder))
    result = {
        **nothing,
        **found,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{machine.description()}, one of them used",
        "load_average": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "quick": options.quick,
    }
    print(json.dumps(result))
    return int(bool(result["commands_failed"]))


if __name__ == "__main__":
    sys.exit(main())
