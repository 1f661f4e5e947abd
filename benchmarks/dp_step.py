"""What per-record clipping costs: book-keeping against a normal training step, and against Opacus.

    python benchmarks/dp_step.py
    python benchmarks/dp_step.py --quick
    python benchmarks/dp_step.py --device cuda

Models with random weights: an encoder of MiniLM's shape (BERT, 6 layers, hidden 384, 12 heads) on
16 rows of 128 tokens and on 4 rows of 512, a T5 with tied embeddings and trainable relative biases,
and diffusers' UNet2DModel. First the gradients must agree: book-keeping against one backward pass
per record. Then every arm takes AdamW steps in a fresh interpreter, arms taking turns in an order
that flips:

    plain          forward, backward, step: no privacy at all
    book-keeping   the same optimizer, fed with book-keeping's clipped sums
    opacus-hooks   Opacus' GradSampleModule and DPOptimizer, noise multiplier 0
    opacus-ghost   Opacus' fast gradient clipping, noise multiplier 0

Noise is left out everywhere: it is drawn once per logical batch, however many of these steps that
takes. Times are CPU seconds of one thread (wall-clock seconds on a GPU), the median over all steps
of all turns; memory is the peak over what the interpreter held before the model was built, the
median over turns. Figures are ratios to `plain`:

    time_ratio, memory_ratio        book-keeping on 16 x 128; `_512` on 4 x 512
    max_gradient_error              largest relative difference of a parameter's clipped sum; those
                                    below 1e-4 of the whole are compared on that scale (the true
                                    gradient of an attention's key bias is 0)
    opacus_hooks_*, opacus_ghost_*  the same for Opacus
    t5_*, unet_*                    the same on the other models, for the arms that run on them

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn

GOALS = {"time_ratio": 1.15, "memory_ratio": 1.3, "time_ratio_512": 1.1}
CLIPPING_NORM = 1.0
ARMS = ("plain", "book-keeping", "opacus-hooks", "opacus-ghost")
WORKLOADS = {
    "": ("encoder", 16, 128, ARMS),
    "_512": ("encoder", 4, 512, ARMS),
    # Opacus can't follow trainable relative biases.
    "t5": ("t5", 8, 64, ARMS[:2]),
    "unet": ("unet", 8, 32, ARMS[:3]),
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model and the losses of one batch."""

    model: nn.Module
    losses: Callable[[], torch.Tensor]
    rows: int


def main() -> int:
    """Runs the comparison, or one turn of one arm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two layers, one turn, a minute")
    parser.add_argument("--turns", type=int, default=3, help="turns of every arm (default 3)")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--only", nargs="*", choices=[*WORKLOADS], default=[*WORKLOADS])
    parser.add_argument("--turn", nargs=2, metavar=("WORKLOAD", "ARM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        print(json.dumps(turn(*options.turn, quick=options.quick, device=options.device)))
        return 0
    turns = 1 if options.quick else options.turns
    found = compare(options.only, turns=turns, quick=options.quick, device=options.device)
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
        for number in range(turns):
            for arm in arms if number % 2 == 0 else arms[::-1]:
                taken[arm].append(in_fresh_python(name, arm, quick=quick, device=device))
        found |= figures(name, taken)
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


def key(figure: str, name: str) -> str:
    """Returns a figure's name in the JSON line."""
    return figure + name if name in ("", "_512") else f"{name}_{figure}"


def turn(name: str, arm: str, *, quick: bool, device: str) -> dict[str, Any]:
    """Takes one arm's turn in this interpreter."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(7)
    kind, rows, size, _ = WORKLOADS[name]
    import transformers  # noqa: F401 - counted before the model, like torch itself

    if arm == "parity":
        return {"error": gradient_error(workload(kind, 3, size, quick=True, device=device))}
    step_of = {
        "plain": plain_step,
        "book-keeping": book_keeping_step,
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
    seconds = [timed(step, device) for _ in range(2 if quick else 4)]
    return {"seconds": seconds, "mb": peak_mb(device) - before}


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def plain_step(work: Workload) -> Callable[[], None]:
    """Returns a normal training step."""
    optimizer = adamw(work.model)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        work.losses().mean().backward()
        optimizer.step()

    return step


def book_keeping_step(work: Workload) -> Callable[[], None]:
    """Returns a step with clipped sums of ours."""
    import torch

    from hushdoc_training.privacy.clipping import book_keeping

    optimizer, records = adamw(work.model), torch.arange(work.rows)
    clipper = book_keeping(work.model, clipping_norm=CLIPPING_NORM)
    parameters = dict(work.model.named_parameters())

    def step() -> None:
        clipper.clear()
        clipper.add(work.losses, records)
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

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        work.losses().mean().backward()
        optimizer.step()

    return step


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


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Returns the optimizer of every arm."""
    import torch

    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def gradient_error(work: Workload) -> float:
    """Returns the largest relative difference of a clipped sum from one record at a time."""
    import torch

    from hushdoc_training.privacy.clipping import book_keeping, one_by_one

    work.model.eval()
    ours, truth = (
        make(work.model, clipping_norm=CLIPPING_NORM) for make in (book_keeping, one_by_one)
    )
    for clipper in (ours, truth):
        clipper.add(work.losses, torch.arange(work.rows))
    whole = torch.stack([total.norm() for total in truth.sums.values()]).norm()
    return max(
        float((ours.sums[name] - total).norm() / max(total.norm(), 1e-4 * whole))
        for name, total in truth.sums.items()
    )


def workload(kind: str, rows: int, size: int, *, quick: bool, device: str) -> Workload:
    """Returns a model and a batch of random data."""
    make = {"encoder": encoder, "t5": t5, "unet": unet}[kind]
    return make(rows, size, quick=quick, device=device)


def encoder(rows: int, tokens: int, *, quick: bool, device: str) -> Workload:
    """Returns BERT in MiniLM's shape, tagging tokens."""
    import torch
    from torch.nn import functional as F  # noqa: N812
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=2 if quick else 6,
        num_attention_heads=12,
        intermediate_size=1536,
        num_labels=9,
    )
    model = BertForTokenClassification(config).to(device).train()
    words = torch.randint(5, config.vocab_size, (rows, tokens), device=device)
    labels = torch.randint(0, 9, (rows, tokens), device=device)
    # Given for Opacus' sake: it can't follow the model's own.
    positions = torch.arange(tokens, device=device).repeat(rows, 1)
    types = torch.zeros_like(words)

    def losses() -> torch.Tensor:
        found = model(input_ids=words, position_ids=positions, token_type_ids=types).logits
        by_token = F.cross_entropy(found.flatten(0, 1), labels.flatten(), reduction="none")
        return by_token.view(rows, tokens).mean(1)

    return Workload(model=model, losses=losses, rows=rows)


def t5(rows: int, tokens: int, *, quick: bool, device: str) -> Workload:
    """Returns a T5 with tied embeddings, answering."""
    import torch
    from torch.nn import functional as F  # noqa: N812
    from transformers import T5Config, T5ForConditionalGeneration

    layers = 1 if quick else 3
    config = T5Config(
        vocab_size=8000,
        d_model=256,
        d_kv=32,
        d_ff=1024,
        num_layers=layers,
        num_heads=8,
        decoder_start_token_id=0,
        use_cache=False,
    )
    model = T5ForConditionalGeneration(config).to(device).train()
    words = torch.randint(5, config.vocab_size, (rows, 2 * tokens), device=device)
    answers = torch.randint(5, config.vocab_size, (rows, tokens // 2), device=device)

    def losses() -> torch.Tensor:
        found = model(input_ids=words, labels=answers).logits
        by_token = F.cross_entropy(found.flatten(0, 1), answers.flatten(), reduction="none")
        return by_token.view(answers.shape).mean(1)

    return Workload(model=model, losses=losses, rows=rows)


def unet(rows: int, size: int, *, quick: bool, device: str) -> Workload:
    """Returns a diffusion model with attention, removing noise."""
    import torch
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=size,
        in_channels=4,
        out_channels=4,
        layers_per_block=1 if quick else 2,
        block_out_channels=(64, 128),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=32,
    )
    model = model.to(device).train()
    noisy, noise = torch.randn(2, rows, 4, size, size, device=device)
    steps = torch.randint(0, 1000, (rows,), device=device)

    def losses() -> torch.Tensor:
        return (model(noisy, steps).sample - noise).pow(2).mean((1, 2, 3))

    return Workload(model=model, losses=losses, rows=rows)


def in_fresh_python(name: str, arm: str, *, quick: bool, device: str) -> dict[str, Any]:
    """Returns what a turn in an interpreter of its own prints."""
    command = [sys.executable, __file__, "--turn", name, arm, "--device", device]
    done = subprocess.run(
        command + ["--quick"] * quick,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SystemExit(f"{name or 'encoder'} {arm}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def surroundings(device: str) -> dict[str, Any]:
    """Returns what the figures were taken on."""
    import torch

    name = torch.cuda.get_device_name() if device != "cpu" else platform.machine()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {name}, {os.cpu_count()} cores, one thread",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    raise SystemExit(main())
