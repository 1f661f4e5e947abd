"""What per-record clipping costs: book-keeping against a normal training step, and against Opacus.

    python benchmarks/dp_step.py
    python benchmarks/dp_step.py --quick
    python benchmarks/dp_step.py --device cuda

Models with random weights: an encoder of MiniLM's shape (BERT, 6 layers, hidden 384, 12 heads) on
16 rows of 128 tokens and on 4 rows of 512, a T5 with tied embeddings and trainable relative biases,
and diffusers' UNet2DModel. First the gradients must agree: book-keeping against one backward pass
per record. Then every arm takes AdamW steps in an interpreter of its own, and all interpreters take
turns step by step, in an order that flips, so that whatever else slows the machine meets all alike:

    plain          forward, backward, step: no privacy at all
    book-keeping   the same optimizer, fed with book-keeping's clipped sums
    one-by-one     the same, where each record has passes of its own
    opacus-hooks   Opacus' GradSampleModule and DPOptimizer, noise multiplier 0
    opacus-ghost   Opacus' fast gradient clipping, noise multiplier 0

Noise is left out of these: it is drawn once per logical batch, however many of these steps that
takes. What a whole step of private training takes is measured apart, on the encoder with 16 x 128:
PrivateTraining's `step` with everything (coins, masks, clipping, noise, checks, AdamW) over logical
batches of 1, 2 and 4 physical ones takes turns with a normal step that accumulates as many.

Times are CPU seconds of one thread (wall-clock seconds on a GPU), the median over all steps
of all turns; memory is the peak over what the interpreter held before the model was built, the
median over turns, each of which starts fresh interpreters. Figures are ratios to `plain`:

    time_ratio, memory_ratio        book-keeping on 16 x 128; `_512` on 4 x 512
    max_gradient_error              largest relative difference of a parameter's clipped sum; those
                                    below 1e-4 of the whole are compared on that scale (the true
                                    gradient of an attention's key bias is 0)
    one_by_one_*                    the same with passes for each record
    opacus_hooks_*, opacus_ghost_*  the same for Opacus
    t5_*, unet_*                    the same on the other models, for the arms that run on them
    step_time_ratio                 a whole private step, by physical batches in its logical batch
    noise_seconds                   what the noise of one logical batch takes, in such a step

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import machine
from dp_whole_step import LOGICAL, accumulating_step, private_step
from dp_workloads import Workload, adamw, workload

if TYPE_CHECKING:
    import torch

    from hushdoc_training.privacy.clipping import BookKeeping, OneByOne

GOALS = {"time_ratio": 1.15, "memory_ratio": 1.3, "time_ratio_512": 1.1}
CLIPPING_NORM = 1.0
WARM = "ready for the next step"
NOISED_AT_ONCE = 1 << 15
"""Numbers that a step on a CPU draws noise for at once."""
ARMS = ("plain", "book-keeping", "one-by-one", "opacus-hooks", "opacus-ghost")
WORKLOADS = {
    "": ("encoder", 16, 128, ARMS),
    "_512": ("encoder", 4, 512, ARMS),
    # Opacus can't follow trainable relative biases.
    "t5": ("t5", 8, 64, ARMS[:3]),
    "unet": ("unet", 8, 32, ARMS[:4]),
}


def main() -> int:
    """Runs the comparison, or one turn of one arm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the encoder, with two layers and half the rows; a minute",
    )
    parser.add_argument("--turns", type=int, default=3, help="turns of every arm (default 3)")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--only", nargs="*", choices=[*WORKLOADS])
    parser.add_argument("--turn", nargs=2, metavar=("WORKLOAD", "ARM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        print(json.dumps(turn(*options.turn, quick=options.quick, device=options.device)))
        return 0
    turns = 1 if options.quick else options.turns
    names = options.only or ([""] if options.quick else [*WORKLOADS])
    found = compare(names, turns=turns, quick=options.quick, device=options.device)
    print(json.dumps(found))
    return 0


def compare(names: list[str], *, turns: int, quick: bool, device: str) -> dict[str, Any]:
    """Returns every figure; raises where the gradients do not agree."""
    found: dict[str, Any] = {}
    for name in names:
        arms = WORKLOADS[name][3]
        error = in_fresh_python(name, "parity", quick=quick, device=device)["error"]
        found[key("max_gradient_error", name)] = error
        if error > 1e-4:
            raise SystemExit(f"{name or 'encoder'}: gradients differ by {error:.1e}")
        taken: dict[str, list[dict[str, Any]]] = {arm: [] for arm in arms}
        for _ in range(turns):
            for arm, one in step_by_step(name, arms, quick=quick, device=device).items():
                taken[arm].append(one)
        found |= figures(name, taken)
        if name == "":
            found |= whole_steps(turns, quick=quick, device=device)
    goals = {goal: bound for goal, bound in GOALS.items() if goal in found}
    for goal, bound in goals.items():
        print(f"{goal}: {found[goal]} (goal: at most {bound})")
    return {
        **found,
        "goals_met": all(found[goal] <= bound for goal, bound in goals.items()) if goals else None,
        "quick": quick,
        "turns": turns,
        **surroundings(device),
    }


def figures(name: str, turns: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Returns one workload's ratios and its absolute figures."""
    seconds = {
        arm: statistics.median(second for one in of_arm for second in one["seconds"])
        for arm, of_arm in turns.items()
    }
    memory = {arm: statistics.median(one["mb"] for one in of_arm) for arm, of_arm in turns.items()}
    found: dict[str, Any] = {}
    for arm in list(turns)[1:]:
        prefix = "" if arm == "book-keeping" else arm.replace("-", "_") + "_"
        found[key(prefix + "time_ratio", name)] = round(seconds[arm] / seconds["plain"], 3)
        found[key(prefix + "memory_ratio", name)] = round(memory[arm] / memory["plain"], 3)
        title = name.strip("_") or "128"
        print(
            f"{title} {arm}: {seconds[arm]:.3f} s and {memory[arm]:.0f} MB against "
            f"{seconds['plain']:.3f} s and {memory['plain']:.0f} MB",
            flush=True,
        )
    found[key("seconds", name)] = {arm: round(value, 4) for arm, value in seconds.items()}
    found[key("mb", name)] = {arm: round(value) for arm, value in memory.items()}
    return found


def whole_steps(turns: int, *, quick: bool, device: str) -> dict[str, Any]:
    """Returns what a whole private step takes, over a normal one of the same logical batch."""
    taken = [in_fresh_python("", "whole", quick=quick, device=device) for _ in range(turns)]
    found: dict[str, Any] = {"step_time_ratio": {}, "step_seconds": {}}
    for batches in taken[0]["plain"]:
        seconds = {
            arm: statistics.median(second for one in taken for second in one[arm][batches])
            for arm in ("plain", "private")
        }
        ratio = round(seconds["private"] / seconds["plain"], 3)
        found["step_time_ratio"][batches] = ratio
        found["step_seconds"][batches] = {arm: round(value, 4) for arm, value in seconds.items()}
        print(f"a whole step of {batches} physical batches: {ratio}", flush=True)
    noise = statistics.median(second for one in taken for second in one["noise"])
    return {**found, "noise_seconds": round(noise, 4)}


def key(figure: str, name: str) -> str:
    """Returns a figure's name in the JSON line."""
    return figure + name if name in ("", "_512") else f"{name}_{figure}"


def turn(name: str, arm: str, *, quick: bool, device: str) -> dict[str, Any]:
    """Takes one arm's turn in this interpreter."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(7)
    kind, rows, size, _ = WORKLOADS[name]
    rows = rows // 2 if quick else rows
    import transformers  # noqa: F401 - counted before the model, like torch itself

    if arm == "parity":
        return {"error": gradient_error(workload(kind, 3, size, quick=True, device=device))}
    if arm == "whole":
        return take_whole_steps(kind, rows, size, quick=quick, device=device)
    step_of = {
        "plain": plain_step,
        "book-keeping": book_keeping_step,
        "one-by-one": one_by_one_step,
        "opacus-hooks": opacus_hooks_step,
        "opacus-ghost": opacus_ghost_step,
    }[arm]
    if "opacus" in arm:
        import opacus  # noqa: F401
    if kind == "unet":
        import diffusers.models.unets.unet_2d  # noqa: F401
    before = peak_mb(device)
    step = step_of(workload(kind, rows, size, quick=quick, device=device))
    step()
    print(WARM, flush=True)
    seconds = []
    while sys.stdin.readline():  # its turn
        seconds.append(timed(step, device))
        print(WARM, flush=True)
    return {"seconds": seconds, "mb": peak_mb(device) - before}


def take_whole_steps(
    kind: str, rows: int, size: int, *, quick: bool, device: str
) -> dict[str, Any]:
    """Takes private and normal steps in turn, each on a model of its own."""
    from hushdoc_training.randomness import lattice
    from hushdoc_training.randomness.secret_stream import SecretStream

    plain = accumulating_step(workload(kind, rows, size, quick=quick, device=device))
    private, model = private_step(workload(kind, rows, size, quick=quick, device=device))
    seconds: dict[str, dict[str, list[float]]] = {"plain": {}, "private": {}}
    for number in range(2 if quick else 3):
        for batches in LOGICAL[:2] if quick else LOGICAL:
            for arm, step in (("plain", plain), ("private", private)):
                took = timed(partial(step, batches), device)
                if number:  # the first is for warming up
                    seconds[arm].setdefault(str(batches), []).append(took)
    stream = SecretStream()
    sizes = [parameter.numel() for parameter in model.parameters()]
    grid = lattice.of_sums(clipping_norm=1.0, noise_multiplier=1.0, numbers=sum(sizes))

    def draw() -> None:
        for size in sizes:
            for first in range(0, size, NOISED_AT_ONCE):
                grid.noise(stream, (min(NOISED_AT_ONCE, size - first),))

    return {**seconds, "noise": [timed(draw, device) for _ in range(2 if quick else 5)]}


def timed(step: Callable[[], None], device: str) -> float:
    """Returns what one step takes."""
    import torch

    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    step()
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - start


def peak_mb(device: str) -> float:
    """Returns the most memory that was held so far."""
    if device != "cpu":
        import torch

        return torch.cuda.max_memory_allocated() / 2**20
    return machine.peak_bytes() / 2**20


def plain_step(work: Workload) -> Callable[[], None]:
    """Returns a normal training step."""
    return step_of(work, adamw(work.model))


def step_of(work: Workload, optimizer: Any) -> Callable[[], None]:
    """Returns a step by an optimizer that takes the gradients of a mean loss."""

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        work.losses().mean().backward()
        optimizer.step()

    return step


def book_keeping_step(work: Workload) -> Callable[[], None]:
    """Returns a step with clipped sums of ours."""
    import torch

    from hushdoc_training.privacy.clipping import BookKeeping

    return clipped_step(work, BookKeeping, [torch.arange(work.rows)])


def one_by_one_step(work: Workload) -> Callable[[], None]:
    """Returns a step with clipped sums of ours, forward and backward for each record alone."""
    import torch

    from hushdoc_training.privacy.clipping import OneByOne

    return clipped_step(work, OneByOne, torch.arange(work.rows).split(1))


def clipped_step(
    work: Workload, make: type[BookKeeping | OneByOne], batches: Iterable[torch.Tensor]
) -> Callable[[], None]:
    """Returns a step with a clipper's sums over physical batches of records."""
    optimizer = adamw(work.model)
    clipper = make(work.model, clipping_norm=CLIPPING_NORM)
    parameters = dict(work.model.named_parameters())

    def step() -> None:
        clipper.clear()
        for records in batches:
            clipper.add(partial(work.losses_of, records.tolist()), records)
        for name, total in clipper.sums.items():
            parameters[name].grad = total.div_(work.rows)
        optimizer.step()

    return step


def opacus_hooks_step(work: Workload) -> Callable[[], None]:
    """Returns a step with Opacus' per-sample gradients."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from torch import nn

    for module in work.model.modules():
        if isinstance(module, nn.Conv2d):  # wrong on any other input, see docs/performance.md
            module.register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(),))
    GradSampleModule(work.model, loss_reduction="mean")
    optimizer = DPOptimizer(
        adamw(work.model),
        noise_multiplier=0.0,
        max_grad_norm=CLIPPING_NORM,
        expected_batch_size=work.rows,
    )
    return step_of(work, optimizer)


def opacus_ghost_step(work: Workload) -> Callable[[], None]:
    """Returns a step with Opacus' fast gradient clipping, which goes backward twice."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    module = GradSampleModuleFastGradientClipping(
        work.model, max_grad_norm=CLIPPING_NORM, use_ghost_clipping=True, loss_reduction="mean"
    )
    optimizer = DPOptimizerFastGradientClipping(
        adamw(work.model),
        noise_multiplier=0.0,
        max_grad_norm=CLIPPING_NORM,
        expected_batch_size=work.rows,
    )

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        DPTensorFastGradientClipping(module, optimizer, work.losses()).backward()
        optimizer.step()

    return step


def gradient_error(work: Workload) -> float:
    """Returns the largest relative difference of a clipped sum from one record at a time."""
    import torch

    from hushdoc_training.privacy.clipping import BookKeeping, OneByOne

    work.model.eval()
    ours, truth = (
        make(work.model, clipping_norm=CLIPPING_NORM) for make in (BookKeeping, OneByOne)
    )
    for clipper in (ours, truth):
        clipper.add(work.losses, torch.arange(work.rows))
    whole = torch.stack([total.norm() for total in truth.sums.values()]).norm()
    return max(
        float((ours.sums[name] - total).norm() / max(total.norm(), 1e-4 * whole))
        for name, total in truth.sums.items()
    )


def step_by_step(
    name: str, arms: Sequence[str], *, quick: bool, device: str
) -> dict[str, dict[str, Any]]:
    """Returns what every arm prints after the arms took steps one after the other."""
    with ExitStack() as stack:
        running = {}
        for arm in arms:
            running[arm] = stack.enter_context(fresh_python(name, arm, quick=quick, device=device))
            stack.callback(running[arm].kill)
        for arm, process in running.items():
            await_warm(process, arm)
        for number in range(2 if quick else 5):
            for arm in arms if number % 2 == 0 else arms[::-1]:
                print("step", file=running[arm].stdin, flush=True)
                await_warm(running[arm], arm)
        return {arm: last_line(process, arm) for arm, process in running.items()}


def in_fresh_python(name: str, arm: str, *, quick: bool, device: str) -> dict[str, Any]:
    """Returns what a turn in an interpreter of its own prints."""
    with fresh_python(name, arm, quick=quick, device=device) as process:
        return last_line(process, arm)


def fresh_python(name: str, arm: str, *, quick: bool, device: str) -> subprocess.Popen[str]:
    """Returns an interpreter that takes an arm's turn."""
    command = [sys.executable, __file__, "--turn", name, arm, "--device", device]
    return subprocess.Popen(
        command + ["--quick"] * quick,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )


def await_warm(process: subprocess.Popen[str], arm: str) -> None:
    """Waits until an interpreter stands ready for its next step."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == WARM:
            return
    raise SystemExit(f"{arm} ended before its time")


def last_line(process: subprocess.Popen[str], arm: str) -> dict[str, Any]:
    """Returns what an interpreter prints once nothing more is asked of it."""
    printed = process.communicate()[0].splitlines()
    if process.returncode:
        raise SystemExit(f"{arm} failed")
    return dict(json.loads(printed[-1]))


def surroundings(device: str) -> dict[str, Any]:
    """Returns what the figures were taken on."""
    import torch

    name = machine.description()
    name += f", {torch.cuda.get_device_name()}" if device != "cpu" else ""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{name}, one thread",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    raise SystemExit(main())
