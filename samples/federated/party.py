"""Two clients train one model with a coordinator, over a network, and keep their records.

python party.py init 127.0.0.1:8443 PYTHON, and then in a terminal each, with coordinator, first and
second in place of init. PYTHON is one that has Flower (docs/federated.md).
"""

import secrets
import sys
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from hushdoc.signing import keys
from hushdoc.system import atomic_files
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.account import Account, Budget
from hushdoc_training.federated.client import Client
from hushdoc_training.federated.coordinator import Coordinator
from hushdoc_training.federated.flower import certificates, resident
from hushdoc_training.federated.flower.transport import Door, Way
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.federated.roster import COORDINATOR, Party
from hushdoc_training.federated.secure_sum import SumTerms
from hushdoc_training.federated.server_steps import ServerAdam
from hushdoc_training.federated.sum_client import SumClient
from hushdoc_training.federated.sum_coordinator import SumCoordinator
from hushdoc_training.federated.updates import ClientPlan, FeAm
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.records import Records
from hushdoc_training.privacy.trained_tensors import count, trained_tensors, weights_of

CLIENTS, HOME = ("first", "second"), Path("federation")
command, address, python = sys.argv[1:]
host, port = address.split(":")
torch.manual_seed(0)  # all start from the same weights; no noise and no coin comes from here
tensors = trained_tensors(model := torch.nn.Linear(20, 2))


def init():
    """What parties agree on; on three machines each makes its own keys and sends the public ones."""
    plan = FederatedPlan.calibrated(
        epsilon=8, algorithm="feam-dp", clients=2, clients_per_round=2, rounds=3, sampling_rate=0.1,
        clipping_norm=1.0, expected_records=100, privacy_unit="user", numbers=count(tensors),
    )  # fmt: skip
    authority, made = certificates.Authority.new("sample"), {}
    files = {"ca.pem": authority.pem}
    for name in (COORDINATOR, *CLIENTS):
        (HOME / name).mkdir(parents=True)
        keys.write_private_key(made.setdefault(name, keys.generate_key()), HOME / name / "key.pem")
        door = certificates.node() if name in CLIENTS else authority.server([host])
        files |= {f"{name}.pem": door.public, f"{name}/door.pem": door.private}
    for name, content in files.items():
        atomic_files.write_file(HOME / name, content, mode=0o600)
    coordinator, *clients = (Party.of(name, key) for name, key in made.items())
    agreed = rosters.Roster(
        run=secrets.token_hex(16), plan=plan.to_dict(), task={"model": "linear"},
        start="sha256:" + "0" * 64, coordinator=coordinator, clients=tuple(clients),
    )  # fmt: skip
    rosters.save(HOME / "roster.json", agreed, made[COORDINATOR])
    print(f"all parties approve the roster {agreed.digest}")


def coordinate(name, agreed, key, plan, terms):
    step = ServerAdam(plan.numbers, lattice_step=plan.lattice_step, divisor=plan.expected_records, learning_rate=lambda number: 0.05)  # fmt: skip
    door = Door(
        host=host, port=int(port), certificate=HOME / "coordinator.pem", key=HOME / "coordinator/door.pem",
        nodes={name: (HOME / f"{name}.pem").read_bytes() for name in CLIENTS}, python=Path(python), log=HOME / "coordinator/log",
    )  # fmt: skip
    with Coordinator(agreed, key, folder=HOME / COORDINATOR, weights=weights_of(tensors), step=step, summing=SumCoordinator(terms)) as run:  # fmt: skip
        resident.coordinate(run, door)
    print(f"{run.begun} rounds, {len(run.aborted)} aborted, epsilon {plan.epsilon} against each adversary")  # fmt: skip


def take_part(name, agreed, key, plan, terms):
    inputs, answers = torch.randn(500, 20), torch.randint(0, 2, (500,))  # these stay here
    update = FeAm(
        ClientPlan.of(plan), model, records=Records([[user] for user in range(500)], unit="user"),
        losses=lambda users: cross_entropy(model(inputs[users]), answers[users], reduction="none"),
    )  # fmt: skip
    ledger = Ledger.create(HOME / name / "ledger", data=name, unit="user", epsilon=8, delta=1e-5)
    way = Way(server=address, authority=(HOME / "ca.pem").read_bytes(), key=(HOME / name / "door.pem").read_bytes(), python=Path(python), log=HOME / name / "log")  # fmt: skip
    with Account(HOME / name / "run", agreed, rounds=plan.cap, budget=Budget(ledger=ledger, documents=name, step=plan.own_round)) as account:  # fmt: skip
        client = Client(agreed, key, account=account, update=update, summing=SumClient(terms, name), meter=update.meter, checks=update.claim_details(name))  # fmt: skip
        resident.take_part(client, way, print)
    print(f"{name}: {account.taken} rounds charged")


def start(name):
    agreed, key = rosters.load(HOME / "roster.json"), keys.load_private_key(HOME / name / "key.pem")
    plan = FederatedPlan.from_dict(agreed.plan)
    terms = SumTerms(
        run=agreed.run, roster=agreed.digest, keys=agreed.public_keys, mode=plan.mode, clients_per_round=2,
        silent=0, colluding=0, rounds=plan.rounds, numbers=plan.numbers, ring_bits=plan.ring_bits, seconds=60,
    )  # fmt: skip
    (coordinate if name == COORDINATOR else take_part)(name, agreed, key, plan, terms)


init() if command == "init" else start(command)
