"""Two processes that train a model sharded by `fully_shard`; each saves what it saw for the tests.

`launcher` starts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import private_simulator
import torch
from private_simulator import make_plan, refused
from torch import distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from hushdoc_training.privacy.clipping.placement import place
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.randomness.secret_stream import SecretStream

SIZE = 2
WIDTH, WORDS, TOKENS, BLOCKS = 12, 23, 5, 4
MAX_EXAMPLES = 3
# Of 11 records, number 9 has 7 examples and number 10 has 4: more than a batch.
DRAWS = [[1, 2, 9], [], [3], [0, 4, 6, 10]]
CLIP = 0.3

Example = tuple[torch.Tensor, float]


class Block(nn.Module):
    """Layers with all kinds of book-keeping: products, affine, images, derived from a parameter."""

    def __init__(self, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 3 * WIDTH)
        self.narrow = nn.Linear(3 * WIDTH, WIDTH, bias=False)
        self.images = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.direction = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4)
        self.checkpointed = checkpointed

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.narrow(F.gelu(self.wide(self.norm(x))))
        x = x + self.images(x.transpose(1, 2)).transpose(1, 2)
        return x + F.linear(x, self.direction / self.direction.norm())

    def forward(self, x: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
        if more is not None:
            x = x + more
        if self.checkpointed:
            return checkpoint(self.inside, x, use_reentrant=False)
        return self.inside(x)


class Language(nn.Module):
    """Guesses the next word; the table of words is tied to the output."""

    def __init__(self, *, handing: bool = False, **settings: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.handing = handing
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.randn(TOKENS, WIDTH) / 4)
        self.blocks = nn.ModuleList([Block(**settings) for _ in range(BLOCKS)])
        self.output = nn.Linear(WIDTH, WORDS, bias=False)
        self.output.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.positions
        for block in self.blocks:
            x = block(x, self.positions * 2) if self.handing else block(x)
        logits: torch.Tensor = self.output(x)
        return logits


def make_records() -> list[list[Example]]:
    generator = torch.Generator().manual_seed(1)
    sizes = [1, 2, 3, 1, 1, 2, 1, 3, 1, 7, 4]
    scales = torch.logspace(-3, 1, len(sizes))[torch.randperm(len(sizes), generator=generator)]
    return [
        [
            (torch.randint(0, WORDS, (TOKENS + 1,), generator=generator), float(scale))
            for _ in range(size)
        ]
        for size, scale in zip(sizes, scales, strict=True)
    ]


def losses_of(model: nn.Module) -> Callable[[Sequence[Example]], torch.Tensor]:
    def losses(examples: Sequence[Example]) -> torch.Tensor:
        words = torch.stack([example for example, _ in examples])
        logits = model(words[:, :-1]).transpose(1, 2)
        found = F.cross_entropy(logits.float(), words[:, 1:], reduction="none").mean(1)
        return found * torch.tensor([scale for _, scale in examples])

    return losses


def frozen(model: nn.Module) -> nn.Module:
    """Leaves two blocks to train, with a frozen one between them."""
    model.requires_grad_(False)
    for number in (1, 3):
        model.get_submodule(f"blocks.{number}").requires_grad_(True)
    return model


def shard(model: nn.Module, shape: tuple[int, ...] = (SIZE,), **settings: Any) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("copies", "shards")[-len(shape) :])
    for block in model.get_submodule("blocks").children():
        fully_shard(block, mesh=mesh, **settings)
    fully_shard(model, mesh=mesh, **settings)
    return model


def training(
    model: nn.Module, draws: Sequence[Sequence[int]] = DRAWS, **changed: Any
) -> AbstractContextManager[PrivateTraining[Any]]:
    settings: dict[str, Any] = {
        "plan": make_plan(clipping_norm=CLIP, steps=len(draws)),
        "optimizer": torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02),
        "records": make_records(),
        "losses": losses_of(model),
        "max_examples": MAX_EXAMPLES,
        # Of more the self-test would take longer than all steps.
        "trial_records": make_records()[1:3],
    }
    return private_simulator.training(model, draws=draws, **(settings | changed))


def steps(model: nn.Module, **changed: Any) -> dict[str, Any]:
    """Takes all steps and returns the weights, and what each step saw."""
    with training(model, **changed) as made:
        taken = list(made)
        kept = sum(total.numel() for total in made._sum.clipper.sums.values())
    return {
        "weights": whole(model),
        "losses": [step.losses for step in taken],
        "nonfinite": [step.nonfinite for step in taken],
        "sums": kept,
        "local": sum(_local(p).numel() for p in model.parameters() if p.requires_grad),
    }


def whole(model: nn.Module) -> dict[str, torch.Tensor]:
    """Returns all weights; of a sharded model its shards put together."""
    return {
        name: getattr(p, "full_tensor", lambda p=p: p)().detach().clone()
        for name, p in model.named_parameters()
    }


def _local(parameter: Any) -> torch.Tensor:
    found: torch.Tensor = getattr(parameter, "to_local", lambda: parameter)()
    return found


aten = torch.ops.aten
COMPUTING = {aten.addmm, aten.mm, aten.bmm, aten.embedding, aten.div, aten.native_layer_norm}
COMPUTING |= {aten.convolution, aten.convolution_backward, aten.native_layer_norm_backward}
COMPUTING |= {aten.addmv_, aten.index_add_, aten.linalg_vector_norm}


class Meter(TorchDispatchMode):
    """Notes, whenever something is computed, how much of the model stands whole."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.parameters = parameters
        self.most = 0
        self.groups: set[frozenset[str]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket not in COMPUTING:
            return result
        sizes = {name: p.untyped_storage().nbytes() for name, p in self.parameters.items()}
        alive = {name for name, size in sizes.items() if size}
        self.most = max(self.most, sum(sizes.values()))
        self.groups.add(frozenset(_module_of(name) for name in alive))
        return result


def _module_of(name: str) -> str:
    return ".".join(name.split(".")[:2]) if name.startswith("blocks.") else "root"


def metered(*, kept: bool = False, **changed: Any) -> dict[str, Any]:
    """How much stands whole inside steps, the start-up test included."""
    model = shard(Language(), reshard_after_forward=not kept)
    placement = place(model)
    changed["draws"] = [[0, 3], [], [9]]
    meter = Meter(placement.parameters)
    with meter, training(model, **changed) as made:
        list(made)
    sizes: dict[str, int] = {}
    for name, value in placement.parameters.items():
        sizes[_module_of(name)] = sizes.get(_module_of(name), 0) + value.nbytes
    groups = sorted(sorted(group) for group in meter.groups)
    return {"most": meter.most, "groups": groups, "sizes": sizes}


def noise(*, known: bool = False, shape: tuple[int, ...] = (SIZE,)) -> dict[str, torch.Tensor]:
    """Returns what a step of noise alone adds, by a key that is known or by one that is not."""
    model = shard(Language(), shape)
    before = whole(model)
    stream = SecretStream(key=bytes([dist.get_rank()]) * 32) if known else SecretStream()
    with training(
        model,
        [[]],
        plan=make_plan(noise_multiplier=3.0, clipping_norm=CLIP),
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        noise=stream,
    ) as made:
        made.step()
    scale = made.plan.expected_records / CLIP
    return {key: (before[key] - value) * scale for key, value in whole(model).items()}


def after_a_failure() -> dict[str, Any]:
    """A pass ends in the middle of the model, in all processes; the next step is as ever."""
    model = shard(Language())

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with training(model, [[0, 1], [3, 5, 9]]) as made:
        hook = model.get_submodule("blocks.2.narrow").register_forward_pre_hook(interrupt)
        try:
            made.step()
        except KeyboardInterrupt:
            hook.remove()
        if not hasattr(model, "reset_iter_state"):
            # Old releases of torch go on waiting for the pass to end.
            return {"refused": refused(made.step)}
        made.step()
    return {"weights": whole(model)}


def nonfinite(model: nn.Module) -> dict[str, Any]:
    """Two records are not finite, a small and a large one."""
    records = make_records()
    records[1][0] = (records[1][0][0], float("inf"))
    records[9][6] = (records[9][6][0], float("nan"))
    return steps(model, draws=[[0, 1, 9], [9, 1]], records=records, trial_records=records[2:4])


def partly() -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    model = Language()
    fully_shard(model.get_submodule("blocks.0"))
    return model


def refusals() -> dict[str, str]:
    one = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    return {
        "opacus": refused(lambda: steps(shard(Language()), backend="opacus")),
        "partly": refused(lambda: steps(partly())),
        "handed on": refused(lambda: steps(shard(Language(handing=True)))),
        "other group": refused(lambda: steps(shard(Language()), processes=one)),
        "parts": refused(lambda: steps(shard(Language()), max_examples=2 + dist.get_rank())),
    }


def padded() -> dict[str, Any]:
    """Shapes never change, activations are computed again, and blocks stay whole until then."""
    model = shard(Language(checkpointed=True), reshard_after_forward=False)
    return steps(model, padded=True)


def as_bfloat16() -> dict[str, Any]:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return steps(shard(Language(), mp_policy=policy), tolerance=0.1)


WAYS: dict[str, Callable[[], Any]] = {
    "plain": lambda: steps(shard(Language()), trial_records=None),
    "nonfinite": lambda: nonfinite(shard(Language())),
    "metered": metered,
    "noise": lambda: {"known": noise(known=True), "secret": noise()},
    "failure": after_a_failure,
    "refusals": refusals,
}
"""What is tried in every run of the tests."""

SLOW_WAYS: dict[str, Callable[[], Any]] = {
    "padded": padded,
    "one-by-one": lambda: steps(shard(Language()), backend="one-by-one"),
    "frozen": lambda: steps(shard(frozen(Language()))),
    "copies": lambda: steps(shard(Language(), (SIZE, 1))),
    "bfloat16": as_bfloat16,
    "metered kept": lambda: metered(kept=True),
    "metered one-by-one": lambda: metered(backend="one-by-one"),
    "noise of copies": lambda: noise(shape=(SIZE, 1)),
}


def main(folder: Path, rank: int, which: str) -> None:
    ways = SLOW_WAYS if which == "slow" else WAYS
    torch.save({name: way() for name, way in ways.items()}, folder / f"rank{rank}.pt")
