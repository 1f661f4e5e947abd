"""Two processes with one run's folder; each saves what it saw for the tests to compare.

`launcher` starts them. Their folder holds `one-replicated` and `one-sharded`, which one
process left after three steps of six.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from distributed_driver import sharded_model, whole
from private_simulator import example_records, make_plan, refused, small_model, training
from torch import distributed as dist
from torch import nn

from hushdoc_training.privacy.process_group import Group
from hushdoc_training.runs.private_run import PrivateRun

PLAN = make_plan(noise_multiplier=2.0, steps=6)
DRAWS = [[0, 1, 2, 5, 7, 8], [], [3], [0, 4, 6], [2], list(range(9))]
STOP = 3
MODELS: dict[str, Callable[[], nn.Module]] = {"replicated": small_model, "sharded": sharded_model}

Seen = Callable[[Any], None]

quick_training = functools.partial(training, plan=PLAN, trial_records=example_records()[4:6])
"""Of all records the self-test would take longer than the steps."""


def press_at(number: int) -> Seen:
    """Returns a watcher that presses Ctrl-C in this process alone, in a step."""

    def press(step: Any) -> None:
        if step.number == number:
            os.kill(os.getpid(), signal.SIGINT)

    return press


def begin(
    folder: Path, model: nn.Module, seen: Seen | None, *, optimizer: Any = torch.optim.Adam
) -> dict[str, Any]:
    """Starts a run that somebody interrupts."""
    model.register_buffer("mark", torch.full((3,), 7.0))
    run = PrivateRun.open(folder, PLAN)
    made_by = optimizer(model.parameters(), lr=0.02)
    with quick_training(model, draws=DRAWS, charge=run.charge, optimizer=made_by) as made:
        finished = run.train(made, save_every=0.0, seen=seen)
        return {"finished": finished, "charged": made.charged, "told": run.charges.charged}


def go_on(folder: Path, model: nn.Module, *, optimizer: Any = torch.optim.Adam) -> dict[str, Any]:
    """Finishes it, with a learning rate, weights and a buffer that the state has to correct."""
    model.register_buffer("mark", torch.zeros(3))
    run = PrivateRun.open(folder, PLAN, resume=True)
    told = run.charges.charged
    made_by = optimizer(model.parameters(), lr=0.5)
    left = DRAWS[STOP:]
    with quick_training(model, draws=left, charge=run.charge, optimizer=made_by) as made:
        finished = run.train(made)
    return {
        "finished": finished,
        "told": told,
        "weights": whole(model),
        "mark": model.get_buffer("mark").clone(),
        "rate": made_by.param_groups[0]["lr"],
    }


def copied(folder: Path, name: str, rank: int) -> None:
    if rank == 0:
        shutil.copytree(folder, folder.with_name(name))
    dist.barrier()


def replaced_by_a_file(folder: Path, rank: int) -> Seen:
    """Returns a watcher that makes the folder unwritable, also for root, after the last step."""

    def replace(step: Any) -> None:
        if step.number == PLAN.steps and rank == 0:
            shutil.rmtree(folder)
            folder.write_text("in the way")

    return replace


def damaged(folder: Path, rank: int) -> Path:
    if rank == 0:
        (state,) = folder.glob("state-*/*")
        state.write_bytes(state.read_bytes()[:-20])
    return folder


def refusals(folder: Path, rank: int) -> dict[str, str]:
    """What fails in the first process, which the other has to hear of and not to wait for."""
    left = folder / "left-replicated"
    wider = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    narrow = whole(wider)

    def uncharged() -> None:
        run = PrivateRun.open(folder / "uncharged", PLAN)
        with training(small_model(), draws=DRAWS, plan=PLAN) as made:
            run.train(made)

    def charge_elsewhere() -> None:
        PrivateRun.open(folder / "elsewhere", PLAN).charge(1)

    found = {
        "taken": refused(lambda: PrivateRun.open(left, PLAN)),
        "plans": refused(lambda: PrivateRun.open(left, make_plan(steps=7 + rank), resume=True)),
        "planned otherwise": refused(lambda: PrivateRun.open(left, make_plan(), resume=True)),
        "nothing there": refused(lambda: PrivateRun.open(folder / "none", PLAN, resume=True)),
        "another model": refused(lambda: go_on(left, wider)),
        "full": refused(
            lambda: begin(folder / "full", small_model(), replaced_by_a_file(folder / "full", rank))
        ),
        "uncharged": refused(uncharged),
        "charged elsewhere": refused(charge_elsewhere),
        "damaged": refused(lambda: go_on(damaged(left, rank), small_model())),
    }
    assert rank or torch.equal(whole(wider), narrow), "a state was loaded in part"
    return found


def main(folder: Path, rank: int) -> None:
    result: dict[str, Any] = {"rank": Group.current().rank}
    # The other process may see no such folder: the first one's alone counts.
    seen_as = folder if rank == 0 else folder / "another machine"
    for way, model in MODELS.items():
        other = MODELS["sharded" if way == "replicated" else "replicated"]
        press = press_at(STOP) if rank == 1 else None
        result[f"begin {way}"] = begin(seen_as / way, model(), press)
        for name in ("same", "other", "alone", "left"):
            copied(folder / way, f"{name}-{way}", rank)
        result[f"{way} by the same"] = go_on(seen_as / f"same-{way}", model())
        result[f"{way} by the other"] = go_on(seen_as / f"other-{way}", other())
        result[f"one, then {way}"] = go_on(seen_as / f"one-{way}", model())
        sgd = torch.optim.SGD
        begin(seen_as / f"stateless-{way}", model(), press_at(STOP), optimizer=sgd)
        result[f"stateless {way}"] = go_on(seen_as / f"stateless-{way}", model(), optimizer=sgd)
    result["refusals"] = refusals(folder, rank)
    torch.save(result, folder / f"rank{rank}.pt")
