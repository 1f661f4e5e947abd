"""What a program costs as a process of its own: CPU seconds and most memory, by the kernel's count.

Arms take turns, each time in the opposite order, so that a slow minute of the machine hits all of
them; one thread each; onnxruntime's telemetry off on every side.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
}
QUIET = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTHONWARNINGS": "ignore",
}

CORES: list[int] = []
"""Of Linux, that rounds run side by side on: a round's programs take turns on one of them."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one process took.

    Attributes:
        cpu_seconds: In user and system mode, from its start to its end.
        peak_mb: The most memory it held.
        printed: The JSON on its last line, if it printed any.
    """

    cpu_seconds: float
    peak_mb: float
    printed: Any


def cost(command: Sequence[str]) -> Cost:
    """Runs a program to its end; raises if it fails."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as complained:
        process = subprocess.Popen(
            list(command),
            stdout=printed,
            stderr=complained,
            env={**os.environ, **ONE_THREAD, **QUIET},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            complained.seek(0)
            raise SystemExit(f"{' '.join(command)[:200]} failed:\n{complained.read()[-3000:]}")
        printed.seek(0)
        lines = printed.read().splitlines()
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss * unit / 1e6,
        printed=json.loads(lines[-1]) if lines else None,
    )


def take_turns(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Cost]]:
    """Returns what each program took in each round; rounds share out CORES, if there are some."""

    def taken(turn: int) -> dict[str, Cost]:
        names = list(commands) if turn % 2 == 0 else list(commands)[::-1]
        on = ["taskset", "-c", str(CORES[turn % len(CORES)])] if CORES else []
        return {name: cost([*on, *commands[name]]) for name in names}

    with ThreadPoolExecutor(max(1, len(CORES))) as pool:
        found = list(pool.map(taken, range(rounds)))
    return {name: [each[name] for each in found] for name in commands}


def timed(call: Callable[[], Any], calls: int) -> list[float]:
    """Returns the CPU seconds of each call after a first one."""
    call()
    found = []
    for _ in range(calls):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return found


def median_cpu(costs: Sequence[Cost]) -> float:
    """Returns the median of the CPU seconds."""
    return statistics.median(found.cpu_seconds for found in costs)


def main(
    doc: str | None,
    arms: Mapping[str, Callable[..., Any]],
    compare: Callable[[Path, argparse.Namespace], dict[str, Any]],
    *,
    quick: str,
    flags: Mapping[str, str] | None = None,
) -> int:
    """Runs a comparison in a scratch folder, or one arm of it as a process of its own.

    Args:
        doc: The benchmark's docstring.
        arms: What `--arm NAME ...` calls; its answer is printed as JSON.
        compare: Takes the scratch folder and the options; its answer is the last line.
        quick: What --quick does, for the help text.
        flags: Switches of its own, each with its help text.
    """
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help=quick)
    for flag, told in (flags or {}).items():
        parser.add_argument(flag, action="store_true", help=told)
    parser.add_argument("--fastembed", metavar="PYTHON", help="an interpreter that has fastembed")
    parser.add_argument("--optimum", metavar="PYTHON", help="an interpreter that has optimum-onnx")
    parser.add_argument(
        "--cores", nargs="+", type=int, default=[], help="rounds run side by side on them"
    )
    parser.add_argument("--arm", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    CORES.extend(options.cores)
    if options.arm:
        print(json.dumps(arms[options.arm[0]](*options.arm[1:])))
        return 0
    with tempfile.TemporaryDirectory(prefix="hushdoc-benchmark-") as scratch:
        result = compare(Path(scratch), options)
    print(json.dumps({**result, "quick": options.quick}))
    return 0
