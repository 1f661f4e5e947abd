"""What a round of federated training takes between real processes, by the commands of the page.

    python benchmarks/federated_loopback.py --flower-python flower/bin/python    some minutes
    python benchmarks/federated_loopback.py --flower-python flower/bin/python --quick

A folder each stands for the three machines of docs/federated.md, whose commands run as they are
there, but for addresses (loopback), documents (40 invented forms each), rounds and what is trained.
Six processes take part: a resident and a courier of each party. The last line is JSON:

    seconds_per_round_loopback   median over the rounds after the first
    seconds_first_round          the first round, in which clients agree on keys
    seconds_to_meet              from starting the processes to the end of the first round
    rounds, numbers, aborted     what ran
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import machine

from hushdoc.errors import HushdocError
from hushdoc_training.federated.flower import courier

PAGE = Path(__file__).parents[1] / "docs" / "federated.md"
CLIENTS = ("north", "south")
ADDRESS = "127.0.0.2"
PATIENCE = 500.0
QUICK_ROUNDS = 3


def main() -> int:
    """Runs it and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--flower-python", type=Path, metavar="FILE", help="a Python with Flower")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--trained", default="output", help="as for `hushdoc train kie`")
    parser.add_argument("--start", default="minilm", help="as for `hushdoc train kie`")
    parser.add_argument("--quick", action="store_true", help="three rounds")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        python = courier.flower_python(options.flower_python)
    except HushdocError as error:
        print(f"Nothing was measured: {error}", file=sys.stderr)
        return 2
    found = {
        **measured(
            python,
            rounds=QUICK_ROUNDS if options.quick else options.rounds,
            start=options.start,
            trained=options.trained,
        ),
        "quick": options.quick,
        **machine.stamp(began, "torch", "cryptography"),
    }
    print(json.dumps(found))
    return 0


def measured(python: Path, *, rounds: int, start: str, trained: str) -> dict[str, Any]:
    """Returns the figures of a run of so many rounds, at least two; `python` has Flower."""
    with tempfile.TemporaryDirectory(prefix="hushdoc-loopback-") as folder:
        made = Machines(Path(folder), python, start=start, planned=settings(rounds, trained))
        made.agree()
        started = time.monotonic()
        made.begin_all()
        while not made.rounds():
            made.require_running()
            time.sleep(0.05)
        met = time.monotonic() - started
        made.wait()
        log, status = made.rounds(), made.status()
    seconds = [line["seconds"] for line in log if line["outcome"] == "stepped"]
    return {
        "seconds_per_round_loopback": round(median(seconds[1:]), 3),
        "seconds_first_round": round(seconds[0], 3),
        "seconds_to_meet": round(met, 1),
        "rounds": len(log),
        "aborted": len(log) - len(seconds),
        "numbers": status["plan"]["numbers"],
    }


def settings(rounds: int, trained: str) -> tuple[str, ...]:
    """Returns what `init` is given instead of the page's rounds."""
    few = ("--sampling-rate", "0.5", "--accountant", "rdp")
    return ("--rounds", str(rounds), "--trained", trained, *few)


def commands_of_page() -> dict[str, list[str]]:
    """Returns the commands of each numbered step on three machines."""
    text = PAGE.read_text(encoding="utf-8").split("## On three machines")[1].split("\n### ")[0]
    found: dict[str, list[str]] = {}
    for part in re.split(r"\n(?=\*\*\d\.)", text)[1:]:
        blocks = re.findall(r"```bash\n(.*?)```", part, re.DOTALL)
        lines = "".join(blocks).replace("\\\n", " ").splitlines()
        found[part[2]] = [line for line in lines if line.strip()]
    return found


@dataclass(kw_only=True)
class Party:
    """A process, and how it was started."""

    arguments: Sequence[str]
    folder: Path
    process: subprocess.Popen[bytes]


@dataclass
class Machines:
    """Three folders in place of three machines, in which the page's commands run.

    Attributes:
        home: Holds the folders.
        python: Has Flower.
        start: What training starts from.
        planned: What `init` is given instead of the page's rounds.
    """

    home: Path
    python: Path
    start: str
    planned: Sequence[str]
    running: dict[str, Party] = field(default_factory=dict)
    digest: str = "DIGEST"

    def __post_init__(self) -> None:
        """Makes the folders, and finds a port."""
        self.commands = commands_of_page()
        with socket.socket() as free:
            free.bind((ADDRESS, 0))
            self.address = f"{ADDRESS}:{free.getsockname()[1]}"
        for name in ("coordinator", *CLIENTS):
            (self.home / name).mkdir()

    def agree(self) -> None:
        """Steps 2 to 5: keys, roster, digest and ledgers."""
        for name in CLIENTS:
            for command in self.commands["2"]:
                self.done(name, command.replace("north", name))
            public = (self.home / name / f"{name}.pub").read_bytes()
            (self.home / "coordinator" / f"{name}.pub").write_bytes(public)
        (init,) = self.commands["3"]
        planned = init.replace("--rounds 100", shlex.join(self.planned))
        if Path(self.start).is_dir():  # a checkpoint, which has labels of its own
            planned = re.sub(r"--label \S+", "", planned)
        digest = re.search("[0-9a-f]{64}", self.done("coordinator", planned, start=True))
        assert digest is not None
        self.digest = digest[0]
        for name in CLIENTS:
            self.home.joinpath("coordinator/run", name).rename(self.home / name / name)
            self.done(name, f"cp {name}.key {name}/key.pem")
            for command in self.commands["5"]:
                self.done(name, command)

    def begin_all(self) -> None:
        """Step 6: starts all three."""
        for name in ("coordinator", *CLIENTS):
            self.begin(name)

    def begin(self, name: str) -> None:
        """Starts a party by its command of step 6."""
        server, client = self.commands["6"]
        command = server if name == "coordinator" else client.replace("north", name)
        command = command.replace("--data forms", "--data invented:form --documents 40")
        arguments = self._arguments(f"{command} --quiet --wait 120", start=True)
        with (self.home / name / "said.log").open("ab") as log:
            process = subprocess.Popen(
                arguments, cwd=self.home / name, stdout=log, stderr=subprocess.STDOUT
            )
        self.running[name] = Party(arguments=arguments, folder=self.home / name, process=process)

    def kill(self, name: str) -> None:
        """Kills a party at once, as a power cut would; its courier finds out and leaves."""
        party = self.running.pop(name)
        party.process.kill()
        party.process.wait()

    def end(self) -> None:
        """Kills whoever still runs."""
        for name in list(self.running):
            self.kill(name)

    def require_running(self) -> None:
        """Raises RuntimeError, with what it said, where a party has ended."""
        for name, party in self.running.items():
            if party.process.poll() is not None:
                raise RuntimeError(f"{name} has ended: {self.said(name)}")

    def wait(self) -> None:
        """Waits for all to end; a RuntimeError where one fails or takes too long."""
        try:
            for name, party in self.running.items():
                if party.process.wait(PATIENCE):
                    raise RuntimeError(f"{name} failed: {self.said(name)}")
        finally:
            self.end()

    def said(self, name: str) -> str:
        """Returns what a party has printed."""
        return (self.home / name / "said.log").read_text(encoding="utf-8", errors="replace")

    def rounds(self) -> list[Mapping[str, Any]]:
        """Returns the coordinator's log of rounds."""
        log = self.home / "coordinator/run/coordinator/rounds.jsonl"
        return [json.loads(line) for line in log.open()] if log.exists() else []

    def status(self) -> Mapping[str, Any]:
        """Returns where the run stands."""
        told: Mapping[str, Any] = json.loads(
            self.done("coordinator", "hushdoc federated status run/coordinator --json")
        )
        return told

    def done(self, name: str, command: str, *, start: bool = False) -> str:
        """Runs a command on a machine to its end and returns what it printed."""
        done = subprocess.run(
            self._arguments(command, start=start),
            cwd=self.home / name,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"'{command}' failed: {done.stdout}{done.stderr}")
        return done.stdout

    def _arguments(self, command: str, *, start: bool) -> list[str]:
        changed = command.replace("DIGEST", self.digest).replace("flower/bin/python", "FLOWER")
        for page in ("coordinator.example:8443", "0.0.0.0:8443"):
            changed = changed.replace(page, self.address)
        words = [str(self.python) if word == "FLOWER" else word for word in shlex.split(changed)]
        if words[0] == "hushdoc":
            words = [sys.executable, "-m", "hushdoc", *words[1:]]
        return [*words, "--start", self.start] if start else words


if __name__ == "__main__":
    sys.exit(main())
