"""What secure sums cost: masks, whole rounds, and ten thousand clients by rounds of 64.

    python benchmarks/secure_sum.py             some ten minutes on a core
    python benchmarks/secure_sum.py --quick     within a minute: fewer clients
    python benchmarks/secure_sum.py --plot docs/secure-sum.png

Real clients and a real coordinator in one process, each frame signed and checked on its way; every
sum is compared with the plain one. Of 64 clients 3 fall silent before they send. Seconds are CPU
seconds but for `round_seconds_10000`. Memory is that of a process that holds coordinator and
all clients of a round. The last line is JSON:

    mask_seconds_per_million   a client's whole masked vector of a million numbers for 15 peers
    client_seconds, coordinator_seconds, uplink_bytes   of a round by mode and clients
    peak_mb_10000              largest memory of a round of 10,000 clients, 64 at a time
    round_seconds_10000        what it takes in two processes
    memory_by_clients, memory_by_registered   what the plot shows
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import machine
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hushdoc_training.federated import frames, masks, traffic
from hushdoc_training.federated.frames import Frame
from hushdoc_training.federated.secure_sum import ALL_OR_NOTHING, MAX_CLIENTS, THRESHOLD, SumTerms
from hushdoc_training.federated.sum_client import CONTRIBUTION, SumClient
from hushdoc_training.federated.sum_coordinator import SumCoordinator

NUMBERS = 33_415
MILLION = 1_000_000
CLIENTS = (2, 4, 8, 16, 32, 64)
REGISTERED = (64, 640, 2_500, 10_000)
ALL = 10_000
GOAL = 0.06

Figures = dict[str, float]


def main() -> int:
    """Measures everything and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="within a minute, fewer clients")
    parser.add_argument("--plot", metavar="PATH", type=Path, help="draw memory into an image")
    parser.add_argument("--part", nargs=4, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part is not None:
        print(json.dumps(simulated(*options.part)))
        return 0
    counts = CLIENTS[:3] if options.quick else CLIENTS
    result: dict[str, Any] = {
        "mask_seconds_per_million": round(mask_seconds(bits=32), 4),
        "mask_seconds_per_million_64_bits": round(mask_seconds(bits=64), 4),
        "mask_goal": GOAL,
        **of_rounds(counts),
        "payload_gib_formula": round(
            traffic.model_bytes(numbers=299_682_048, clients_per_round=2, rounds=10) / traffic.GIB,
            2,
        ),
    }
    print(f"masks of a million numbers for 15 peers: {result['mask_seconds_per_million']} s")
    by_clients = {m: alone(m, m, MILLION)["peak_mb"] for m in counts}
    registered = REGISTERED[:2] if options.quick else REGISTERED
    clients = 8 if options.quick else MAX_CLIENTS
    by_registered = {k: alone(k, clients, NUMBERS)["peak_mb"] for k in registered}
    result |= {"memory_by_clients": by_clients, "memory_by_registered": by_registered}
    if not options.quick:
        whole = alone(ALL, ALL, NUMBERS, processes=2)
        result |= {
            "peak_mb_10000": whole["peak_mb"],
            "round_seconds_10000": whole["seconds"],
            "round_cpu_seconds_10000": whole["cpu_seconds"],
        }
    if options.plot:
        draw(result, options.plot)
    result |= {
        "numbers": NUMBERS,
        "quick": options.quick,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine.description(),
    }
    print(json.dumps(result))
    return 0 if result["mask_seconds_per_million"] <= GOAL else 1


def private_key(name: str) -> Ed25519PrivateKey:
    """Returns a party's key, which follows from its name: a simulation has no secrets."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def names(count: int) -> list[str]:
    """Returns names of clients, in order."""
    return [f"client-{number:05}" for number in range(count)]


def terms(
    registered: Sequence[str], clients: int, *, mode: str, silent: int = 0, **changed: Any
) -> SumTerms:
    """Returns the terms of a run with these clients."""
    given: dict[str, Any] = {
        "run": "0" * 32,
        "roster": "0" * 64,
        "keys": {name: private_key(name).public_key() for name in ("coordinator", *registered)},
        "mode": mode,
        "clients_per_round": clients,
        "silent": silent,
        "colluding": silent,
        "rounds": 1_000,
        "numbers": NUMBERS,
        "ring_bits": 32,
        "seconds": 60.0,
        **changed,
    }
    return SumTerms(**given)


@dataclass(kw_only=True)
class Simulation:
    """A coordinator and some clients, their CPU seconds, and what each round has to give.

    Attributes:
        agreed: The terms.
        silent: Clients that send no vector.
        client_seconds: CPU seconds of all clients, the signatures they make and check included.
        coordinator_seconds: The same of the coordinator.
    """

    agreed: SumTerms
    silent: frozenset[str] = frozenset()
    client_seconds: float = 0.0
    coordinator_seconds: float = 0.0
    clients: dict[str, SumClient] = field(default_factory=dict)
    coordinator: SumCoordinator = field(init=False)

    def __post_init__(self) -> None:
        """Starts the coordinator."""
        self.coordinator = SumCoordinator(self.agreed)
        self._keys = {"coordinator": private_key("coordinator")}

    def round(self, number: int, members: Sequence[str]) -> None:
        """Runs a round; a ValueError unless its sum is right."""
        for name in members:
            self.clients.setdefault(name, SumClient(self.agreed, name))
            self._keys.setdefault(name, private_key(name))
        began = time.process_time()
        waiting = deque(self._signed(self.coordinator.open(number, 0, members, 0.0)))
        self.coordinator_seconds += time.process_time() - began
        while waiting:
            for data in self._at_client(waiting.popleft()):
                began = time.process_time()
                frame = self._read(data, "coordinator")
                waiting += self._signed(self.coordinator.receive(frame, 0.0))
                self.coordinator_seconds += time.process_time() - began
            if not waiting and self.coordinator.awaited == frames.VECTOR:
                began = time.process_time()
                waiting += self._signed(self.coordinator.tick(self.agreed.seconds + 1))
                self.coordinator_seconds += time.process_time() - began
        expected = np.zeros(self.agreed.numbers, dtype=np.int64)
        for name in set(members) - self.silent:
            expected += values_of(name, number, self.agreed)
        found = self.coordinator.total
        if found is None or (found != expected).any():
            raise ValueError(f"Round {number} of {len(members)} clients gave another sum.")

    def _at_client(self, sent: tuple[str, bytes]) -> Iterable[bytes]:
        name, data = sent
        client = self.clients[name]
        began = time.process_time()
        answers = client.receive(self._read(data, name), 0.0)
        self.client_seconds += time.process_time() - began
        if client.awaited == CONTRIBUTION and name not in self.silent:
            values = values_of(name, client.place.round if client.place else 0, self.agreed)
            began = time.process_time()
            answers += client.contribute(values)
            self.client_seconds += time.process_time() - began
        began = time.process_time()
        answered = [data for _, data in self._signed(answers)]
        self.client_seconds += time.process_time() - began
        return answered

    def _signed(self, sent: Iterable[Frame]) -> list[tuple[str, bytes]]:
        return [(f.recipient, frames.encode(f, self._keys[f.sender])) for f in sent]

    def _read(self, data: bytes, name: str) -> Frame:
        agreed = self.agreed
        return frames.decode(
            data, agreed.keys, run=agreed.run, roster=agreed.roster, recipient=name
        )


def values_of(name: str, number: int, agreed: SumTerms) -> masks.Integers:
    """Returns a client's integers in a round, the same each time."""
    generator = np.random.default_rng([int(name[-5:]), number])
    return generator.integers(-(2**20), 2**20, agreed.numbers)


def mask_seconds(*, bits: int, peers: int = 15, times: int = 5) -> float:
    """Returns CPU seconds of one client for its masked vector of a million numbers."""
    agreed = terms(
        names(peers + 1),
        peers + 1,
        mode=ALL_OR_NOTHING,
        numbers=MILLION,
        ring_bits=bits,
    )
    here = Simulation(agreed=agreed)
    here.round(0, names(peers + 1))
    name, *_ = members = names(peers + 1)
    client, values, seconds = here.clients[name], values_of(name, 0, agreed), []
    for number in range(1, times + 1):
        opening = here.coordinator.open(number, 0, members, 0.0)[0]
        client.receive(opening, 0.0)
        began = time.process_time()
        client.contribute(values)
        seconds.append(time.process_time() - began)
    return median(seconds)


def of_rounds(counts: Iterable[int]) -> dict[str, Any]:
    """Returns CPU seconds of a client and of the coordinator, and bytes, by mode and clients."""
    found: dict[str, Any] = {"client_seconds": {}, "coordinator_seconds": {}, "uplink_bytes": {}}
    for mode in (ALL_OR_NOTHING, THRESHOLD):
        for kept in found.values():
            kept[mode] = {}
        for clients in counts:
            members = names(clients)
            here = Simulation(agreed=terms(members, clients, mode=mode))
            here.round(0, members)
            here.client_seconds = here.coordinator_seconds = 0.0
            here.round(1, members)  # of all or nothing, with keys that were agreed on before
            found["client_seconds"][mode][clients] = round(here.client_seconds / clients, 4)
            found["coordinator_seconds"][mode][clients] = round(here.coordinator_seconds, 4)
            found["uplink_bytes"][mode][clients] = traffic.uplink_bytes(here.agreed)
            print(
                f"{mode:15} {clients:3} clients: {here.client_seconds / clients:.4f} s a client, "
                f"{here.coordinator_seconds:.4f} s the coordinator",
                flush=True,
            )
    return found


def alone(registered: int, taking_part: int, numbers: int, *, processes: int = 1) -> Figures:
    """Returns what processes of their own say of a simulation, each of its part of the clients."""
    began = time.monotonic()
    rounds = -(-taking_part // MAX_CLIENTS)
    ends = [MAX_CLIENTS * (rounds * n // processes) for n in range(processes)] + [taking_part]
    parts = [
        subprocess.Popen(
            [sys.executable, __file__, "--part", *map(str, (registered, first, last, numbers))],
            stdout=subprocess.PIPE,
        )
        for first, last in pairwise(ends)
    ]
    said = [json.loads(part.communicate()[0]) for part in parts]
    found = {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(sum(each["cpu_seconds"] for each in said), 1),
        "peak_mb": max(each["peak_mb"] for each in said),
    }
    print(f"{taking_part} of {registered} clients, {numbers} numbers: {found}", flush=True)
    return found


def simulated(registered: int, first: int, last: int, numbers: int) -> Figures:
    """Sums some clients of all, at most 64 at a time."""
    cpu = time.process_time()
    everybody = names(registered)
    keys = terms(everybody, 2, mode=THRESHOLD).keys
    for number, start in enumerate(range(first, last, MAX_CLIENTS)):
        members = everybody[start : min(start + MAX_CLIENTS, last)]
        silent = len(members) // 20
        changed = {"keys": keys, "numbers": numbers}
        agreed = terms([], len(members), mode=THRESHOLD, silent=silent, **changed)
        Simulation(agreed=agreed, silent=frozenset(members[:silent])).round(number, members)
    return {"cpu_seconds": time.process_time() - cpu, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """Returns the largest memory of this process (MiB), as Linux counts it since its start.

    `getrusage` would say the parent's where that was larger.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws memory by clients of a round, and by registered clients."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    left.plot(*zip(*result["memory_by_clients"].items(), strict=True), marker="o")
    left.set(xlabel="clients of a round, a million numbers", ylabel="largest memory (MB)")
    right.plot(*zip(*result["memory_by_registered"].items(), strict=True), marker="o")
    if "peak_mb_10000" in result:
        right.plot([ALL], [result["peak_mb_10000"]], marker="s", linestyle="")
    right.set(xlabel="clients of the roster, 64 in a round", xscale="log")
    for axes in (left, right):
        axes.axhline(1024, linestyle="--", linewidth=0.8)
        axes.set_ylim(0, 1100)
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
