"""Parties of federated runs, with keys that tests know, and updates that are known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import numpy as np

from hushdoc.certificate.claim import DataAccess
from hushdoc_training.federated.account import Account, Budget
from hushdoc_training.federated.clear_sum import ClearClient, ClearCoordinator
from hushdoc_training.federated.client import Client, Limits
from hushdoc_training.federated.coordinator import Coordinator, Waits
from hushdoc_training.federated.in_process import InProcess
from hushdoc_training.federated.plan import IN_THE_CLEAR, FederatedPlan
from hushdoc_training.federated.roster import COORDINATOR, Party, Roster
from hushdoc_training.federated.secure_sum import SumTerms, Terms
from hushdoc_training.federated.server_steps import MeanUpdate
from hushdoc_training.federated.sum_client import SumClient
from hushdoc_training.federated.sum_coordinator import SumCoordinator
from hushdoc_training.federated.testimony import OWN
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.claims import ClaimDetails
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of
from hushdoc_training.recipes.federated_parties import FederatedSettings

SETTINGS = FederatedSettings()
TASK = {
    "task": "kie",
    "labels": ["total"],
    "preprocessing": {"max_tokens": 64, "overlap": 8, "cls_id": 2, "sep_id": 3, "pad_id": 0},
    "public_data": [],
    **asdict(SETTINGS),
}
SERVER, FIRST, SECOND = (build.known_key(number) for number in (1, 2, 3))


def roster(**change: Any) -> Roster:
    parts = {
        "run": "ab" * 16,
        "plan": plan(clients=2, clients_per_round=2).to_dict(),
        "task": TASK,
        "start": "sha256:" + "0" * 64,
        "coordinator": Party.of(COORDINATOR, SERVER),
        "clients": (Party.of("first", FIRST), Party.of("second", SECOND)),
        **change,
    }
    return Roster(**parts)


NUMBERS = 6
LIMITS = Limits(max_epsilon=100.0, min_clients=1)
CHECKS = ClaimDetails(
    settings={"untrained_parameters": ["pooler"]},
    accesses=(DataAccess(data=OWN, purpose="test", accounted_in=(), treatment="not-released"),),
    assumes=("ones are ones",),
)
NAMES = ("first", "second", "third", "fourth")


def plan(**change: Any) -> FederatedPlan:
    """Returns a plan for few rounds of few clients, whose epsilon is quickly computed."""
    settings = {
        "algorithm": "feam-dp",
        "clients": 3,
        "clients_per_round": 3,
        "rounds": 3,
        "sampling_rate": 0.5,
        "mode": "all-or-nothing",
        "clipping_norm": 1.0,
        "noise_multiplier": 4.0,
        "expected_records": 4,
        "privacy_unit": "document",
        "epsilon": 100.0,
        "delta": 1e-5,
        "accountant": "rdp",
        "numbers": NUMBERS,
        **change,
    }
    return FederatedPlan(**settings)


class Ones:
    """An update of ones, in whole steps: what is sent is known but for the noise."""

    numbers = NUMBERS

    def __init__(self, plan: FederatedPlan) -> None:
        self.meter = Meter(planned_steps=plan.cap, privacy_unit=plan.privacy_unit)
        self._plan = plan
        self.computed: list[int] = []
        self.given: list[np.ndarray] = []

    def compute(self, weights: np.ndarray, number: int) -> np.ndarray:
        self.meter.drawn(self._plan.client_sampling_rate, origin_of(SecretStream()))
        self.meter.clipped(self._plan.clipping_norm)
        self.computed.append(number)
        self.given.append(weights)
        return np.ones(NUMBERS, dtype=np.int64)


class Federation:
    """All parties of a run in a folder, each of which can be killed and started again."""

    def __init__(self, home: Path, plan: FederatedPlan, *, ledgers: bool = False) -> None:
        self.home, self.plan = home, plan
        self.keys = {name: build.known_key(2 + number) for number, name in enumerate(NAMES)}
        self.keys = dict(list(self.keys.items())[: plan.clients])
        self.roster = roster(
            plan=plan.to_dict(),
            clients=tuple(Party.of(name, key) for name, key in self.keys.items()),
        )
        self.ledgers = {
            name: Ledger.create(home / f"{name}.ledger", data=name, epsilon=100.0, delta=1e-5)
            for name in self.keys
            if ledgers
        }
        self.accounts: dict[str, Account] = {}
        self.updates: dict[str, Ones] = {}
        self.clients: dict[str, Client] = {}
        self._held: dict[str, ExitStack] = {}
        for name in self.keys:
            self.begin(name)
        self.coordinate()

    def begin(self, name: str, *, roster: Roster | None = None) -> Client:
        """Starts a client, as if its process had been killed before."""
        roster = roster or self.roster
        self.end(name)
        update = self.updates[name] = Ones(self.plan)
        held = self._held[name] = ExitStack()
        budget = None
        if name in self.ledgers:
            step = self.plan.own_round
            budget = Budget(ledger=self.ledgers[name], documents=name, step=step)
        account = self.accounts[name] = held.enter_context(
            Account(self.home / name, roster, rounds=self.plan.cap, budget=budget)
        )
        made = self.clients[name] = Client(
            roster,
            self.keys[name],
            account=account,
            update=update,
            summing=self.summing(name),
            meter=update.meter,
            checks=CHECKS,
            limits=None if self.plan.epsilon is None else LIMITS,
        )
        return made

    def end(self, name: str) -> None:
        """Kills a client."""
        self.clients.pop(name, None)
        if name in self._held:
            self._held.pop(name).close()

    def coordinate(self) -> Coordinator:
        """Starts the coordinator, as if its process had been killed before."""
        self.end(COORDINATOR)
        held = self._held[COORDINATOR] = ExitStack()
        self.step = MeanUpdate(lattice_step=1.0, divisor=1.0)
        self.coordinator = held.enter_context(
            Coordinator(
                self.roster,
                SERVER,
                folder=self.home / COORDINATOR,
                weights=np.zeros(NUMBERS, dtype=np.float32),
                step=self.step,
                summing=self.summing(COORDINATOR),
                waits=Waits(clients=50, run=5000),
            )
        )
        return self.coordinator

    def summing(self, name: str) -> Any:
        """Returns a party's side of the plan's sums."""
        terms: dict[str, Any] = {
            "run": self.roster.run,
            "roster": self.roster.digest,
            "silent": self.plan.silent,
            "numbers": self.plan.numbers,
            "seconds": 20.0,
        }
        is_coordinator = name == COORDINATOR
        if self.plan.mode == IN_THE_CLEAR:
            clear = Terms(**terms)
            return ClearCoordinator(clear) if is_coordinator else ClearClient(clear, name)
        secure = SumTerms(
            **terms,
            keys=self.roster.public_keys,
            mode=self.plan.mode,
            clients_per_round=self.plan.clients_per_round,
            colluding=self.plan.colluding,
            rounds=self.plan.rounds,
            ring_bits=self.plan.ring_bits,
        )
        return SumCoordinator(secure) if is_coordinator else SumClient(secure, name)

    def transport(self) -> InProcess:
        return InProcess(self.clients)

    def charged(self) -> dict[str, int]:
        """Returns how many rounds each account has charged, and its ledger if it has one."""
        for name, ledger in self.ledgers.items():
            run = ledger.find(self.roster.run)
            assert run is not None
            assert run.charged == self.accounts[name].taken
        return {name: account.taken for name, account in self.accounts.items()}

    def computed(self) -> dict[str, Sequence[int]]:
        """Returns the rounds that each client has computed since it was started."""
        return {name: update.computed for name, update in self.updates.items()}
