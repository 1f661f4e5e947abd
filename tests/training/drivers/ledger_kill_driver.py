"""Kills private training at random points and checks after each kill that no charge is missing.

    python ledger_kill_driver.py FOLDER KILLS SEED

The parent imports torch once and forks a child for every start or resume; the child trains with a
ledger through the real code.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import torch
from kills import WitnessedNoise, alive, draws, fork
from safetensors.torch import load_file

from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelSet
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import layout
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.ownership import trainable
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.kie import settings, training
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.runs import ledger_audit, loop, run_folder
from hushdoc_training.runs.step_log import last_charge, read_log

STEPS, CAP = 40, 8.0
NOTHING_LEFT = 3
SETTINGS = settings.PrivateSettings(trained="output")

DOCUMENTS = list(
    invented.documents(
        seed=5,
        count=6,
        config=invented.InventedConfig(document_types=("receipt",), labels="fields"),
    )
)
PLAN = PrivacyPlan.calibrated(
    epsilon=0.5, sampling_rate=0.3, steps=STEPS, expected_records=4, accountant="rdp"
)


def start() -> Start:
    made = start_from(
        "small",
        LabelSet.from_documents(DOCUMENTS),
        max_tokens=64,
        vocabulary=lambda: [w.text for item in DOCUMENTS for w in item.document.pages[0].words],
    )
    layout.freeze(made.model, trained=SETTINGS.trained)
    return made


def main(folder: Path, kills: int, seed: int) -> dict[str, int | float]:
    torch.set_num_threads(1)
    dice = random.Random(seed)
    ledger = Ledger.create(folder / "ledger", data="receipts", epsilon=CAP, delta=PLAN.delta)
    base = start()
    draws_per_step = len(trainable(base.model))
    killed = runs = 0
    while killed < kills:
        runs += 1
        out = folder / f"run{runs}"
        finished = False
        while not finished:
            witness = folder / f"{out.name}.witness.{killed}"
            child = fork(partial(train, base, ledger, out, witness))
            if killed < kills:
                shoot(child, out, witness, dice, draws_per_step)
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                assert os.WTERMSIG(status) == signal.SIGKILL
                killed += 1
            elif os.WEXITSTATUS(status) == NOTHING_LEFT:
                ledger.close(
                    run_folder.Run.read(out).run_id, reason="killed before it saved anything"
                )
                finished = True
            else:
                assert status == 0, "training failed"
                finished = True
            check(ledger, out, draws_per_step)
    check_end(ledger, folder)
    return {
        "kills": killed,
        "runs": runs,
        "charged": sum(run.charged for run in ledger.runs()),
        "witnessed": sum(witnessed(folder / f"run{n + 1}", draws_per_step) for n in range(runs)),
        "epsilon": ledger.spent().reserved,
    }


def shoot(child: int, out: Path, witness: Path, dice: random.Random, draws_per_step: int) -> None:
    """Kills a child at a random moment: in its set-up, in or after a step, or when it finishes."""
    kind = dice.random()
    wanted = dice.randrange(1, STEPS // 3 * draws_per_step)
    pause = dice.uniform(0.0, 0.4 if kind < 0.25 else 0.03)
    while kind >= 0.25 and alive(child):
        if kind < 0.85 and draws(witness) >= wanted:
            break
        if kind >= 0.85 and (out / "checkpoint").exists():
            break
        time.sleep(0.0005)
    time.sleep(pause)
    os.kill(child, signal.SIGKILL)  # without effect on one that has ended and was not waited for


def train(base: Start, ledger: Ledger, out: Path, witness: Path) -> None:
    coins, noise = SecretStream(), WitnessedNoise(witness)
    PrivateTraining._streams = lambda _: (coins, noise)  # type: ignore[method-assign]
    loop.SAVE_EVERY_SECONDS = 0.05
    try:
        training.train_private(
            base,
            DOCUMENTS,
            PLAN,
            SETTINGS,
            out=out,
            name="receipts",
            ledger=ledger,
            resume=(out / "run.json").is_file(),
            quiet=True,
        )
    except CheckpointError as error:
        if "no state was saved" in str(error):
            os._exit(NOTHING_LEFT)
        raise


def witnessed(out: Path, draws_per_step: int) -> int:
    """Steps whose noise was drawn, a part of it or all; each child has a file of its own."""
    drawn = map(draws, out.parent.glob(f"{out.name}.witness.*"))
    return sum(-(-number // draws_per_step) for number in drawn)


def check(ledger: Ledger, out: Path, draws_per_step: int) -> None:
    """Whatever was drawn is charged, and whatever has a name is whole."""
    drawn = witnessed(out, draws_per_step)
    if not (out / "run.json").is_file():
        assert drawn == 0
        return
    run = ledger.find(run_folder.Run.read(out).run_id)
    if run is None:
        assert drawn == 0
        return
    logged = read_log(out / "steps.jsonl")
    assert drawn <= sum("charge" in entry for entry in logged), "the folder's log misses a draw"
    assert drawn <= run.charged <= run.reserved == STEPS, "the ledger misses a draw"
    assert last_charge(logged) <= run.charged
    for state in out.glob("state-*/*"):
        assert load_file(state)
    if (out / "checkpoint").exists():
        Checkpoint.load(out)


def check_end(ledger: Ledger, folder: Path) -> None:
    folders = [path for path in folder.glob("run*") if path.is_dir()]
    findings = ledger_audit.audit(ledger, folders)
    assert all(found.problem is None for found in findings), findings
    assert all(run.closed and run.charged <= run.reserved for run in ledger.runs())
    assert ledger.spent().reserved <= CAP
    left = [str(path) for path in folder.rglob("*") if path.name.endswith(("partial", "-journal"))]
    assert not left, left
    for path in folders:
        if (path / "checkpoint").exists():
            (guarantee,) = Checkpoint.load(path).claim.guarantees
            assert guarantee.epsilon is not None
            assert guarantee.epsilon <= CAP


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
