"""Kills private training of a small model at random points and resumes it, again and again.

A way is `alone`, `ledger` for a run that a ledger counts too and that ends with a checkpoint, or
`replicated` or `sharded` for two processes. `launcher` starts the parent, which forks the processes
for every start or resume; of two it shoots the first, the second or both, and then what is left, as
torchrun does. It waits until a few more steps are charged, and goes on until so many kills as asked
for came between the first charge and the last, however fast the machine; some more come while
processes start.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from distributed_driver import sharded_model, whole
from kills import WitnessedNoise, alive, draws, fork
from private_simulator import example_records, known_streams, small_model, squares
from safetensors.torch import load_file
from torch import distributed as dist

from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.ledger.runs import LedgerRun
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.runs import ledger_audit
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import read_log

STEPS = 60
PLAN = PrivacyPlan.calibrated(
    epsilon=2, sampling_rate=0.3, steps=STEPS, expected_records=4, accountant="rdp"
)
CAP = 99.0
PARAMETERS = 4
LEFT = ("partial", "-journal")
TOGETHER = ("replicated", "sharded")


def terms_of(ledger: Ledger) -> Terms:
    declared = Declared(name=ledger.data)
    return Terms(declared=declared, documents="d", title="killed", ledger=ledger)


def witness(out: Path, rank: int) -> Path:
    return out.with_suffix(f".witness{rank}")


def child(out: Path, way: str, rank: int, meeting: Path, terms: Terms | None) -> None:
    if way in TOGETHER:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=2,
            timeout=timedelta(seconds=120),
        )
    model = sharded_model() if way == "sharded" else small_model()
    run = PrivateRun.open(out, PLAN, terms=terms, resume=(out / "run.json").exists())
    if run.is_finished:
        run.close()
        return
    with (
        known_streams(noise=WitnessedNoise(witness(out, rank))),
        PrivateTraining(
            PLAN,
            model,
            torch.optim.Adam(model.parameters(), lr=0.01),
            records=Records(example_records(), unit="document"),
            losses=squares(model),
            trial_records=example_records()[4:6],
            charge=run.charge,
        ) as training,
    ):
        if run.train(training, save_every=0.05 if way in TOGETHER else 0.005):
            kept = {"weights": whole(model), "charged": run.charges.charged}
            torch.save(kept, out.with_suffix(f".rank{rank}"))
            if terms is not None:
                receipt = training.receipt
                assert receipt.steps <= run.charges.charged == receipt.planned_steps == STEPS
                run.finish(Path.mkdir)
    if way in TOGETHER:
        dist.destroy_process_group()


def await_charges(out: Path, number: int, processes: list[int]) -> None:
    """Waits until so many steps are charged, or the training fails or takes too long."""
    until = time.monotonic() + 60
    while time.monotonic() < until and all(map(alive, processes)):
        if charges(out)[-1] >= number:
            return
        time.sleep(0.0005)


def attempt(out: Path, way: str, dice: random.Random, *, shoot: bool, **settings: Any) -> list[int]:
    """Starts the processes, may kill some of them, and returns how each ended."""
    charged = charges(out)[-1]
    ranks = [0, 1] if way in TOGETHER else [0]
    processes = [fork(partial(child, out, way, rank, **settings)) for rank in ranks]
    if shoot:
        if dice.random() < 0.15:
            time.sleep(dice.uniform(0.0, 0.4))  # while they start
        else:
            await_charges(out, charged + dice.randint(1, 12), processes)
            time.sleep(dice.uniform(0.0, 0.02 if way in TOGETHER else 0.004))  # in a step
        victims = dice.choice([[0], [1], [0, 1]] if way in TOGETHER else [[0]])
        for rank in victims:
            os.kill(processes[rank], signal.SIGKILL)  # without effect on one that has ended
        if len(victims) < len(processes):
            time.sleep(dice.uniform(0.0, 0.1))  # what the other one does meanwhile must be whole
            for process in processes:
                os.kill(process, signal.SIGKILL)
    return [os.waitpid(process, 0)[1] for process in processes]


def main(folder: Path, rank: int, way: str, asked: str) -> None:
    """Saves what it counted."""
    kills, dice = int(asked), random.Random(3)
    terms = None
    if way == "ledger":
        path = folder / "ledger"
        terms = terms_of(Ledger.create(path, data="records", epsilon=CAP, delta=PLAN.delta))
    killed = runs = resumed = attempts = 0
    inside: list[int] = []
    while len(inside) < kills:
        runs += 1
        out = folder / f"run{runs}"
        while True:
            attempts += 1
            before = charges(out)[-1]
            meeting, shoot = folder / f"meeting{attempts}", len(inside) < kills
            status = attempt(out, way, dice, shoot=shoot, meeting=meeting, terms=terms)
            for process in range(len(status)):
                check(out, witness(out, process), terms)
            if not any(map(os.WIFSIGNALED, status)):
                assert not any(status), "training failed"
                break
            killed += 1
            assert killed <= 20 * kills, "kills come while processes start or when they have ended"
            if before < charges(out)[-1] < STEPS:
                inside.append(charges(out)[-1])
                resumed += any(out.glob("state-*"))
        check_end(out, terms)
    found = {"killed": killed, "inside": inside, "with_state": resumed, "runs": runs}
    torch.save(found, folder / f"rank{rank}.pt")


def charges(out: Path) -> list[int]:
    """Returns 0 and every step that is charged; nobody waited for a charge that a kill cut."""
    log = read_log(out / "steps.jsonl")
    return [0, *(entry["charge"] for entry in log if "charge" in entry)]


def check(out: Path, witness: Path, terms: Terms | None) -> None:
    """Whatever was drawn is charged, was never drawn before, and whatever has a name is whole."""
    drawn, charged = -(-draws(witness) // PARAMETERS), charges(out)
    assert drawn <= len(charged) - 1, "a draw of noise is not charged"
    assert charged[-1] <= STEPS, "more was charged than planned"
    if terms is None:
        assert charged == list(range(len(charged))), "a charge is missing or repeated"
    else:  # a step that the ledger alone had charged is not charged again
        assert charged == sorted(set(charged)), "a charge is repeated"
        found = of_ledger(out, terms)
        assert drawn <= (found.charged if found else 0), "the ledger misses a draw"
        assert charged[-1] <= (found.charged if found else 0) <= STEPS, "the ledger is behind"
    for state in out.glob("state-*/*"):
        assert load_file(state)
    if (out / "run.json").exists():
        assert json.loads((out / "run.json").read_text())["steps"] == STEPS


def of_ledger(out: Path, terms: Terms) -> LedgerRun | None:
    assert terms.ledger is not None
    return terms.ledger.find(Run.read(out).run_id) if (out / "run.json").exists() else None


def check_end(out: Path, terms: Terms | None) -> None:
    """All processes end with the same weights, paid for as planned, and no half-written file."""
    ranks = [torch.load(path) for path in out.parent.glob(f"{out.name}.rank*")]
    assert torch.isfinite(ranks[0]["weights"]).all()
    for found in ranks:
        assert torch.equal(ranks[0]["weights"], found["weights"])
        assert found["charged"] == STEPS
    left = sorted(path.name for path in out.iterdir())
    if terms is None:
        assert charges(out)[-1] == STEPS
        assert left == ["run.json", f"state-{STEPS:08d}", "steps.jsonl"]
    else:
        assert left == ["checkpoint", "run.json", "steps.jsonl"]
        paid = of_ledger(out, terms)
        assert paid is not None
        assert (paid.closed, paid.charged, paid.reserved) == (True, STEPS, STEPS)
        assert terms.ledger is not None
        findings = ledger_audit.audit(terms.ledger, [out])
        assert all(finding.problem is None for finding in findings), findings
        assert terms.ledger.spent().reserved <= CAP
    assert not [path for path in out.parent.rglob("*") if path.name.endswith(LEFT)]
