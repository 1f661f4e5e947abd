"""Kills private training by two processes at random points and resumes it, again and again.

    python shared_run_kill_driver.py FOLDER WAY KILLS SEED

WAY is `replicated` or `sharded`. The parent imports torch once and forks both children for every
start or resume; it shoots the first, the second or both, and then what is left, as torchrun does.
It goes on until KILLS of them came between the first charge and the last, however fast the machine.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import torch
from distributed_driver import SIZE, sharded_model, whole
from private_simulator import example_records, known_streams, small_model, squares
from run_kill_driver import PLAN, STEPS, WitnessedNoise, await_charges, charges, check
from torch import distributed as dist
from torch.distributed import fsdp  # noqa: F401  # once, before the forks

from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.runs.private_run import PrivateRun

MODELS = {"replicated": small_model, "sharded": sharded_model}


def child(out: Path, way: str, rank: int, meeting: Path) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=SIZE,
        timeout=timedelta(seconds=120),
    )
    model = MODELS[way]()
    run = PrivateRun.open(out, PLAN, resume=(out / "run.json").exists())
    with (
        known_streams(noise=WitnessedNoise(out.with_suffix(f".fingerprint{rank}"))),
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
        if run.train(training, save_every=0.05):
            kept = {"weights": whole(model), "charged": run.charges.charged}
            torch.save(kept, out.with_suffix(f".rank{rank}"))
    dist.destroy_process_group()


def fork(out: Path, way: str, rank: int, meeting: Path) -> int:
    process = os.fork()
    if process:
        return process
    try:
        child(out, way, rank, meeting)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def attempt(out: Path, way: str, meeting: Path, dice: random.Random, *, shoot: bool) -> list[int]:
    """Starts both processes, kills some of them, and returns how each ended."""
    charged = charges(out)[-1]
    processes = [fork(out, way, rank, meeting) for rank in range(SIZE)]
    if shoot:
        if dice.random() < 0.2:
            time.sleep(dice.uniform(0.0, 0.5))  # while they start
        else:
            await_charges(out, charged + dice.randint(1, 20), *processes)
            time.sleep(dice.uniform(0.0, 0.02))
        for rank in dice.choice([[0], [1], [0, 1]]):
            os.kill(processes[rank], signal.SIGKILL)  # without effect on one that has ended
        time.sleep(dice.uniform(0.0, 0.1))  # what the other one does meanwhile must be whole
        for process in processes:
            os.kill(process, signal.SIGKILL)
    return [os.waitpid(process, 0)[1] for process in processes]


def main(folder: Path, way: str, kills: int, seed: int) -> dict[str, int]:
    torch.set_num_threads(1)
    dice = random.Random(seed)
    killed = runs = attempts = inside = 0
    while inside < kills:
        runs += 1
        out = folder / f"run{runs}"
        while True:
            attempts += 1
            meeting = folder / f"meeting{attempts}"
            before = charges(out)[-1]
            status = attempt(out, way, meeting, dice, shoot=inside < kills)
            for rank in range(SIZE):
                check(out, out.with_suffix(f".fingerprint{rank}"))
            if not any(os.WIFSIGNALED(one) for one in status):
                assert status == [0] * SIZE, "training failed"
                break
            killed += 1
            assert killed <= 20 * kills, "kills come while the processes start or when they ended"
            inside += before < charges(out)[-1] < STEPS
        check_end(out)
    return {"kills": killed, "inside": inside, "runs": runs, "attempts": attempts}


def check_end(out: Path) -> None:
    """Both processes end with the same weights, paid for as planned, and no half-written file."""
    ranks = [torch.load(out.with_suffix(f".rank{rank}")) for rank in range(SIZE)]
    assert torch.equal(ranks[0]["weights"], ranks[1]["weights"])
    assert torch.isfinite(ranks[0]["weights"]).all()
    assert [one["charged"] for one in ranks] == [STEPS] * SIZE
    assert charges(out)[-1] == STEPS
    assert sorted(path.name for path in out.iterdir()) == [
        "run.json",
        f"state-{STEPS:08d}",
        "steps.jsonl",
    ]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
