"""Kills private training of a small model at random points and resumes it, again and again.

    python run_kill_driver.py FOLDER KILLS SEED

The parent imports torch once and forks a child for every start or resume. It waits until a few
more steps are charged, and goes on until KILLS kills came between the first charge and the last,
however fast the machine; some more come while a child starts. A fingerprint writes, by os.write to
a file in append mode, which a kill can't take back, one line before every step's noise is drawn and
a digest of what was drawn after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401  # optimizers load it; once, before the forks
from private_simulator import example_records, flat, known_streams, small_model, squares
from safetensors.torch import load_file

from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.step_log import read_log

STEPS = 60
PLAN = PrivacyPlan.calibrated(
    epsilon=2, sampling_rate=0.3, steps=STEPS, expected_records=4, accountant="rdp"
)
PARAMETERS = 4


class WitnessedNoise(SecretStream):
    """Noise that is witnessed before and after it is drawn."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def normal_tensor(self, shape: tuple[int, ...], *, std: float) -> torch.Tensor:
        os.write(self._descriptor, b"draw\n")
        noise = super().normal_tensor(shape, std=std)
        # A shard may be one number, and among hundreds of float32 two are alike one day. With four
        # more numbers of the stream, only a stream that is drawn again repeats itself.
        drawn = torch.cat([noise.flatten(), super().normal_tensor((4,), std=1.0)])
        digest = hashlib.sha256(drawn.numpy().tobytes()).hexdigest()
        os.write(self._descriptor, f"{digest}\n".encode())
        return noise


def child(out: Path, fingerprint: Path) -> None:
    model = small_model()
    run = PrivateRun.open(out, PLAN, resume=(out / "run.json").exists())
    with (
        known_streams(noise=WitnessedNoise(fingerprint)),
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
        if run.train(training, save_every=0.005):
            torch.save(flat(model), out / "weights.pt")


def fork(out: Path, fingerprint: Path) -> int:
    process = os.fork()
    if process:
        return process
    try:
        child(out, fingerprint)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def await_charges(out: Path, number: int, *processes: int) -> None:
    """Waits until so many steps are charged, or the training fails or takes too long."""
    until = time.monotonic() + 60
    while time.monotonic() < until and all(map(alive, processes)):
        if charges(out)[-1] >= number:
            return
        time.sleep(0.0005)


def alive(process: int) -> bool:
    """Asks without taking the process's status from who waits for it later."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def attempt(out: Path, fingerprint: Path, dice: random.Random, *, shoot: bool) -> int:
    """Starts a child, may kill it, and returns how it ended."""
    charged = charges(out)[-1]
    process = fork(out, fingerprint)
    if shoot:
        if dice.random() < 0.15:
            time.sleep(dice.uniform(0.0, 0.3))  # while it starts
        else:
            await_charges(out, charged + dice.randint(1, 12), process)
            time.sleep(dice.uniform(0.0, 0.004))  # somewhere in a step
        os.kill(process, signal.SIGKILL)  # without effect on one that has ended
    return os.waitpid(process, 0)[1]


def main(folder: Path, kills: int, seed: int) -> dict[str, object]:
    torch.set_num_threads(1)
    dice = random.Random(seed)
    killed = runs = resumed = 0
    inside: list[int] = []
    while len(inside) < kills:
        runs += 1
        out, fingerprint = folder / f"run{runs}", folder / f"fingerprint.{runs}"
        while True:
            before = charges(out)[-1]
            status = attempt(out, fingerprint, dice, shoot=len(inside) < kills)
            check(out, fingerprint)
            if not os.WIFSIGNALED(status):
                assert status == 0, "training failed"
                break
            killed += 1
            assert killed <= 20 * kills, "kills come while a child starts or when it has ended"
            if before < charges(out)[-1] < STEPS:
                inside.append(charges(out)[-1])
                resumed += any(out.glob("state-*"))
        check_end(out)
    return {"killed": killed, "inside": inside, "with_state": resumed, "runs": runs}


def charges(out: Path) -> list[int]:
    """Returns 0 and every step that is charged; nobody waited for a charge that a kill cut."""
    log = read_log(out / "steps.jsonl")
    return [0, *(entry["charge"] for entry in log if "charge" in entry)]


def check(out: Path, fingerprint: Path) -> None:
    """Whatever was drawn is charged, was never drawn before, and whatever has a name is whole."""
    lines = fingerprint.read_text().splitlines() if fingerprint.exists() else []
    drawn = lines.count("draw")
    assert -(-drawn // PARAMETERS) <= len(charges(out)) - 1, "a draw of noise is not charged"
    values = [line for line in lines if line != "draw"]
    assert len(set(values)) == len(values), "noise was drawn twice"
    assert len(charges(out)) - 1 <= STEPS, "more was charged than planned"
    assert charges(out) == list(range(len(charges(out)))), "a charge is missing or repeated"
    for state in out.glob("state-*/*"):
        assert load_file(state)
    if (out / "run.json").exists():
        assert json.loads((out / "run.json").read_text())["steps"] == STEPS


def check_end(out: Path) -> None:
    """A finished run spent what was planned, no more and no less, and left nothing half-written."""
    assert charges(out)[-1] == STEPS
    (state,) = out.glob("state-*")
    assert state.name == f"state-{STEPS:08d}"
    assert torch.isfinite(torch.load(out / "weights.pt")).all()
    assert not [path for path in out.rglob("*") if path.name.endswith("partial")]


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
