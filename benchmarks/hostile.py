"""Hostile inputs: everything that is read, damaged in thousands of ways, and what became of it.

Certificates are signed again by the trusted key, so that the readers behind the signature are
reached. An accepted input is judged by libraries that share no code with the readers (json,
hashlib, onnx, safetensors, cryptography, tomllib, the exact accountant): a false accept says
anything else than what was signed or written, or promises more than its transcript gives.

Inputs are read in processes of their own. One that takes longer than a limit is killed with its
process, counted, and the others go on. Times are of the processor (a busy machine adds none);
memory is the most that a process held above what it held before its first input, with every
package imported. Documents are read under limits of two megapixels a page.

The last line is one JSON object. The inputs follow from the seed alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import machine

SHARED = Path(__file__).parents[1] / "tests" / "shared"
"""The damage and its judges are those of the tests."""

GOALS = {"false_accepts": 0, "untyped": 0, "slowest_seconds": 2, "peak_mb": 200}
FULL, QUICK = 64_000, 6_000
CHUNK = 250
"""Inputs for which a process is asked at once."""

HANG_SECONDS = 60.0
"""No progress for so long (wall time, as a reader may wait for something) is a hang."""

MOST_JUDGE_SECONDS = 900.0
"""The same for judges: the exact accountant takes its time, and is no reader."""

MOST_BYTES = 4 * 2**30
"""What a process may hold above what it began with; asking for more fails with MemoryError."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Inputs of one class by their numbers, read, or read again and judged."""

    name: str
    numbers: Sequence[int]
    judged: bool = False

    def to_json(self) -> str:
        """Returns one line."""
        return json.dumps({"name": self.name, "numbers": self.numbers, "judged": self.judged})


@dataclass(kw_only=True)
class Found:
    """What became of the inputs so far."""

    inputs: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, list[int]] = field(default_factory=dict)
    untyped: list[str] = field(default_factory=list)
    false_accepts: list[str] = field(default_factory=list)
    slowest: dict[str, float] = field(default_factory=dict)
    hangs: int = 0
    peak_mb: float = 0.0

    def add(self, told: dict[str, Any]) -> None:
        """Adds what a process told of a job."""
        name = told["name"]
        self.untyped += told["untyped"]
        self.false_accepts += told["false_accepts"]
        self.peak_mb = max(self.peak_mb, told["peak_mb"])
        if not told["judged"]:
            self.inputs[name] += told["inputs"]
            self.codes.update(told["codes"])
            self.accepted.setdefault(name, []).extend(told["accepted"])
            self.slowest[name] = max(self.slowest.get(name, 0.0), told["slowest"])

    def lose(self, name: str, number: int, why: str, seconds: float) -> None:
        """Adds an input with which its process ended."""
        self.inputs[name] += 1
        self.untyped.append(f"{name} {number}: {why}")
        self.slowest[name] = max(self.slowest.get(name, 0.0), seconds)
        self.hangs += seconds > 0


class Work:
    """The jobs that wait, and what was found, for threads that each watch a process."""

    def __init__(self, *, number: int) -> None:
        """Begins without jobs: the first process to be ready knows the classes."""
        self.found = Found()
        self._number = number
        self._lock = threading.Lock()
        self._waiting: deque[Job] | None = None

    def is_open(self) -> bool:
        """Returns whether there is anything to do."""
        with self._lock:
            return self._waiting is None or len(self._waiting) > 0

    def plan(self, shares: dict[str, int]) -> None:
        """Makes the jobs, once, from how often each class is drawn."""
        with self._lock:
            if self._waiting is None:
                self._waiting = jobs(shares, self._number)

    def next(self) -> Job | None:
        """Returns a job that nobody has begun."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def finish(self, told: dict[str, Any]) -> None:
        """Adds what a process told of a job; what it accepted is judged when all has been read."""
        with self._lock:
            self.found.add(told)
            if told["accepted"] and not told["judged"]:
                self._more(Job(name=told["name"], numbers=told["accepted"], judged=True), last=True)

    def lose(self, job: Job, place: int, code: int) -> None:
        """Notes the input with which a process ended, and asks for the rest of its job."""
        hung = code == -signal.SIGKILL
        why = "no answer in time" if hung else f"the process ended with {code}"
        with self._lock:
            if job.judged:
                self.found.false_accepts.append(f"{job.name} {job.numbers[place]}: judge: {why}")
            else:
                self.found.lose(job.name, job.numbers[place], why, HANG_SECONDS if hung else 0.0)
            for numbers in (job.numbers[:place], job.numbers[place + 1 :]):
                if numbers:
                    self._more(Job(name=job.name, numbers=numbers, judged=job.judged))

    def _more(self, job: Job, *, last: bool = False) -> None:
        assert self._waiting is not None
        (self._waiting.append if last else self._waiting.appendleft)(job)


def main() -> int:
    """Runs the benchmark and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer inputs, less than a minute")
    parser.add_argument("--seed", type=int, default=1, help="what the inputs follow from")
    parser.add_argument("--inputs", type=int, help=f"how many; {FULL} by default")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--worker", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(Path(options.worker), options.seed)
    began = time.perf_counter()
    work_list = Work(number=options.inputs or (QUICK if options.quick else FULL))
    threads = [
        threading.Thread(target=_watch, args=(work_list, options.seed))
        for _ in range(options.processes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = work_list.found
    report(found, options, time.perf_counter() - began)
    return 0


def jobs(drawn: dict[str, int], number: int) -> deque[Job]:
    """Returns the jobs that make so many inputs, at least, of all classes."""
    total = sum(drawn.values())
    counts = {name: -(-number * share // total) for name, share in drawn.items()}
    return deque(
        Job(name=name, numbers=tuple(range(start, min(count, start + CHUNK))))
        for name, count in counts.items()
        for start in range(0, count, CHUNK)
    )


def _watch(work_list: Work, seed: int) -> None:
    """Gives jobs to one process after the other; a new one follows where one ended."""
    while work_list.is_open():
        with tempfile.TemporaryDirectory(prefix="hushdoc-hostile-") as scratch:
            _serve(Path(scratch), work_list, seed)


def _serve(scratch: Path, work_list: Work, seed: int) -> None:
    """Gives jobs to a process until there are none, or until it ends with one."""
    command = [sys.executable, __file__, "--worker", str(scratch), "--seed", str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shares = process.stdout.readline()
        if not shares:
            raise SystemExit("A process could not read the honest inputs; see above.")
        work_list.plan(json.loads(shares))
        while (job := work_list.next()) is not None:
            process.stdin.write(job.to_json() + "\n")
            process.stdin.flush()
            done = _guard(process, scratch, MOST_JUDGE_SECONDS if job.judged else HANG_SECONDS)
            line = process.stdout.readline()
            done.set()
            if not line:
                work_list.lose(job, _progress(scratch)[1], process.wait())
                return
            work_list.finish(json.loads(line))
        process.stdin.close()


def _guard(process: subprocess.Popen[str], scratch: Path, most: float) -> threading.Event:
    """Kills the process where nothing moves until the event is set."""
    done = threading.Event()

    def guard() -> None:
        last, since = _progress(scratch), time.monotonic()
        while not done.wait(0.25):
            now = _progress(scratch)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > most:
                process.kill()
                return

    threading.Thread(target=guard, daemon=True).start()
    return done


def _progress(scratch: Path) -> tuple[int, int]:
    """Returns how many inputs were begun, and the place of the last in its job."""
    try:
        count, place = struct.unpack("<qq", (scratch / "progress").read_bytes())
    except (OSError, struct.error):
        return 0, 0
    return count, place


def report(found: Found, options: argparse.Namespace, seconds: float) -> None:
    """Prints a line for each class, what went wrong, and the JSON line."""
    for name, count in found.inputs.items():
        accepted = len(found.accepted.get(name, ()))
        print(
            f"{name:<22} {count:>6} inputs, {accepted:>5} accepted and judged, slowest "
            f"{found.slowest.get(name, 0.0):.2f} s"
        )
    for line in (*found.untyped[:20], *found.false_accepts[:20]):
        print(f"!!! {line}")
    figures = {
        "inputs": found.inputs.total(),
        "classes": len(found.inputs),
        "false_accepts": len(found.false_accepts),
        "untyped": len(found.untyped),
        "slowest_seconds": round(max(found.slowest.values()), 3),
        "peak_mb": round(found.peak_mb, 1),
    }
    result = {
        **figures,
        "goals_met": all(figures[name] <= goal for name, goal in GOALS.items()),
        "accepted": sum(map(len, found.accepted.values())),
        "hangs": found.hangs,
        "codes": len(found.codes),
        "seed": options.seed,
        "minutes": round(seconds / 60, 1),
        **machine.dated(python=True),
        "quick": options.quick,
    }
    print(json.dumps(result))


def work(scratch: Path, seed: int) -> int:
    """Does the jobs that come in, one a line, and tells what it found, one a line."""
    from hushdoc.errors import HushdocError

    known = {item.name: item for item in _classes(scratch / "toys")}
    for item in known.values():
        item.read(item.sound)
    progress = os.open(scratch / "progress", os.O_RDWR | os.O_CREAT)
    print(json.dumps({item.name: item.share for item in known.values()}), flush=True)
    before = _begin_measuring()
    count = 0
    judged = False
    for line in sys.stdin:
        job = Job(**json.loads(line))
        one = known[job.name]
        told: dict[str, Any] = {"name": job.name, "judged": job.judged, "slowest": 0.0}
        accepted: list[int] = []
        untyped: list[str] = []
        wrong: list[str] = []
        codes: Counter[str] = Counter()
        for place, number in enumerate(job.numbers):
            count += 1
            os.pwrite(progress, struct.pack("<qq", count, place), 0)
            content = one.input(seed, number)
            began = time.process_time()
            try:
                read = one.read(content)
            except HushdocError as error:
                codes[error.code] += 1
                if error.code == "INTERNAL_ERROR":
                    untyped.append(f"{job.name} {number}: {error.code}")
            except Exception as error:
                untyped.append(f"{job.name} {number}: {type(error).__name__}: {error!s:.200}")
            else:
                accepted.append(number)
                if job.judged:
                    wrong += _wrong(one, number, content, read)
            told["slowest"] = max(told["slowest"], time.process_time() - began)
        told |= {"inputs": len(job.numbers), "codes": codes, "accepted": accepted}
        told |= {"untyped": [] if job.judged else untyped, "false_accepts": wrong}
        # Judges hold other libraries' memory, not the readers'.
        judged = judged or job.judged
        told["peak_mb"] = 0.0 if judged else machine.peak_bytes() / 1e6 - before
        print(json.dumps(told), flush=True)
    return 0


def _wrong(one: Any, number: int, content: bytes, read: object) -> Iterator[str]:
    """Yields why an accepted input should not have been."""
    try:
        one.judge(content, read)
    except Exception as error:
        yield f"{one.name} {number}: accepted: {type(error).__name__}: {error!s:.200}"


def _classes(folder: Path) -> Any:
    sys.path.insert(0, str(SHARED))
    from hushdoc_hostile_inputs import classes

    return classes(folder)


def _begin_measuring() -> float:
    """Returns the megabytes held now, and begins anew to note the most; limits what may be held."""
    status = Path("/proc/self/status")
    if not status.exists():
        return machine.peak_bytes() / 1e6
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    text = status.read_text(encoding="ascii")
    held = int(text.partition("VmSize:")[2].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (held + MOST_BYTES, held + MOST_BYTES))
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())
