"""Kills private training of a small model at random points and resumes it, again and again.

    python run_kill_driver.py FOLDER WAY KILLS SEED

WAY is `alone`, or `replicated` or `sharded` for two processes. The parent imports torch once and
forks the processes for every start or resume; of two it shoots the first, the second or both, and
then what is left, as torchrun does. It waits until a few more steps are charged, and goes on until
KILLS kills came between the first charge and the last, however fast the machine; some more come
while processes start.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401  # optimizers load it; once, before the forks
from distributed_driver import sharded_model, whole
from kills import WitnessedNoise, alive, draws, fork
from private_simulator import example_records, known_streams, small_model, squares
from safetensors.torch import load_file
from torch import distributed as dist
from torch.distributed import fsdp  # noqa: F401  # once, before the forks

from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.step_log import read_log

STEPS = 60
PLAN = PrivacyPlan.calibrated(
    epsilon=2, sampling_rate=0.3, steps=STEPS, expected_records=4, accountant="rdp"
)
PARAMETERS = 4
MODELS = {"alone": small_model, "replicated": small_model, "sharded": sharded_model}
VICTIMS = {"alone": [[0]], "replicated": [[0], [1], [0, 1]], "sharded": [[0], [1], [0, 1]]}


def witness(out: Path, rank: int) -> Path:
    return out.with_suffix(f".witness{rank}")


def child(out: Path, way: str, rank: int, meeting: Path) -> None:
    if way != "alone":
        dist.init_process_group(
            "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=2,
            timeout=timedelta(seconds=120),
        )
    model = MODELS[way]()
    run = PrivateRun.open(out, PLAN, resume=(out / "run.json").exists())
    with (
        known_streams(noise=WitnessedNoise(witness(out, rank))),
        PrivateTraining(
            PLAN,
            model,
            torch.optim.Adam(model.parameters(), lr=0.01),
            records=example_records(),
            losses=squares(model),
            trial_records=example_records()[4:6],
            charge=run.charge,
        ) as training,
    ):
        if run.train(training, save_every=0.005 if way == "alone" else 0.05):
            kept = {"weights": whole(model), "charged": run.charges.charged}
            torch.save(kept, out.with_suffix(f".rank{rank}"))
    if way != "alone":
        dist.destroy_process_group()


def await_charges(out: Path, number: int, processes: list[int]) -> None:
    """Waits until so many steps are charged, or the training fails or takes too long."""
    until = time.monotonic() + 60
    while time.monotonic() < until and all(map(alive, processes)):
        if charges(out)[-1] >= number:
            return
        time.sleep(0.0005)


def attempt(out: Path, way: str, meeting: Path, dice: random.Random, *, shoot: bool) -> list[int]:
    """Starts the processes, may kill some of them, and returns how each ended."""
    charged = charges(out)[-1]
    ranks = range(1 if way == "alone" else 2)
    processes = [fork(partial(child, out, way, rank, meeting)) for rank in ranks]
    if shoot:
        if dice.random() < 0.15:
            time.sleep(dice.uniform(0.0, 0.4))  # while they start
        else:
            await_charges(out, charged + dice.randint(1, 12), processes)
            time.sleep(dice.uniform(0.0, 0.004 if way == "alone" else 0.02))  # in a step
        victims = dice.choice(VICTIMS[way])
        for rank in victims:
            os.kill(processes[rank], signal.SIGKILL)  # without effect on one that has ended
        if len(victims) < len(processes):
            time.sleep(dice.uniform(0.0, 0.1))  # what the other one does meanwhile must be whole
            for process in processes:
                os.kill(process, signal.SIGKILL)
    return [os.waitpid(process, 0)[1] for process in processes]


def main(folder: Path, way: str, kills: int, seed: int) -> dict[str, object]:
    torch.set_num_threads(1)
    dice = random.Random(seed)
    killed = runs = resumed = attempts = 0
    inside: list[int] = []
    while len(inside) < kills:
        runs += 1
        out = folder / f"run{runs}"
        while True:
            attempts += 1
            before = charges(out)[-1]
            meeting = folder / f"meeting{attempts}"
            status = attempt(out, way, meeting, dice, shoot=len(inside) < kills)
            for rank in range(len(status)):
                check(out, witness(out, rank))
            if not any(map(os.WIFSIGNALED, status)):
                assert not any(status), "training failed"
                break
            killed += 1
            assert killed <= 20 * kills, "kills come while processes start or when they have ended"
            if before < charges(out)[-1] < STEPS:
                inside.append(charges(out)[-1])
                resumed += any(out.glob("state-*"))
        check_end(out)
    return {"killed": killed, "inside": inside, "with_state": resumed, "runs": runs}


def charges(out: Path) -> list[int]:
    """Returns 0 and every step that is charged; nobody waited for a charge that a kill cut."""
    log = read_log(out / "steps.jsonl")
    return [0, *(entry["charge"] for entry in log if "charge" in entry)]


def check(out: Path, witness: Path) -> None:
    """Whatever was drawn is charged, was never drawn before, and whatever has a name is whole."""
    drawn, charged = draws(witness), charges(out)
    assert -(-drawn // PARAMETERS) <= len(charged) - 1, "a draw of noise is not charged"
    assert len(charged) - 1 <= STEPS, "more was charged than planned"
    assert charged == list(range(len(charged))), "a charge is missing or repeated"
    for state in out.glob("state-*/*"):
        assert load_file(state)
    if (out / "run.json").exists():
        assert json.loads((out / "run.json").read_text())["steps"] == STEPS


def check_end(out: Path) -> None:
    """All processes end with the same weights, paid for as planned, and no half-written file."""
    ranks = [torch.load(path) for path in out.parent.glob(f"{out.name}.rank*")]
    assert torch.isfinite(ranks[0]["weights"]).all()
    for found in ranks:
        assert torch.equal(ranks[0]["weights"], found["weights"])
        assert found["charged"] == charges(out)[-1] == STEPS
    left = sorted(path.name for path in out.iterdir())
    assert left == ["run.json", f"state-{STEPS:08d}", "steps.jsonl"]
    assert not [path for path in out.rglob("*") if path.name.endswith("partial")]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
