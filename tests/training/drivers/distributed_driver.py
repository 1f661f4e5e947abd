"""Two processes that train together; each saves what it saw for the tests to compare.

`launcher` starts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from private_simulator import (
    DIVISOR,
    begin,
    example_records,
    flat,
    make_plan,
    refused,
    small_model,
    squares,
    training,
)
from torch import distributed as dist
from torch import nn

from hushdoc_training.privacy import engine
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.runs import receipts

DRAWS = [[0, 1, 2, 5, 7, 8], [], [3], list(range(9))]
SIZE = 2


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.05)


def steps(model: nn.Module, **changed: Any) -> dict[str, Any]:
    """Takes four steps by known coins and noise, and returns weights and counts."""
    charged: list[int] = []
    with training(
        model,
        draws=DRAWS,
        plan=make_plan(noise_multiplier=2.0, steps=4),
        optimizer=optimizer_of(model),
        noise=SecretStream(key=bytes(32)),
        charge=charged.append,
        max_examples=3,
        loss_bound=2.0,
        **changed,
    ) as made:
        taken = list(made)
    return {
        "weights": whole(model),
        "charged": charged,
        "drawn": [step.drawn for step in taken],
        "computed": [len(step.losses) for step in taken],
        "noisy": [step.noisy_loss for step in taken],
    }


def whole(model: nn.Module) -> torch.Tensor:
    """Returns all weights; of a sharded model its shards put together."""
    values: list[Any] = list(model.parameters())
    full = [getattr(value, "full_tensor", lambda value=value: value)() for value in values]
    return torch.cat([value.detach().flatten() for value in full])


def sharded_model() -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (SIZE,))
    model = small_model()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def sharded() -> dict[str, Any]:
    model = sharded_model()
    result = steps(model)
    result["local"] = sum(value.to_local().numel() for value in model.parameters())
    return result


def own_coins() -> dict[str, Any]:
    """No coins are given: the processes have to agree on a secret of their own."""
    model = small_model()
    with training(model, draws=[], coins=None, plan=make_plan(steps=12)) as made:
        taken = list(made)
    return {"weights": flat(model), "drawn": [step.drawn for step in taken]}


def from_different_weights(rank: int) -> dict[str, Any]:
    return steps(small_model(seed=rank))


class Opaque:
    """An example whose content can't be seen."""

    def __init__(self, number: int) -> None:
        self.number = number


def pointed_at(rank: int, data: torch.Tensor, *, opaque: bool = False, **known: Any) -> None:
    """Takes steps on examples that only point to their data."""
    model = small_model()

    def losses(examples: Sequence[Any]) -> torch.Tensor:
        numbers = [
            example.number if isinstance(example, Opaque) else example for example in examples
        ]
        return squares(model)(list(data[numbers]))

    records = [[Opaque(number) if opaque else number] for number in range(9)]
    steps(model, records=records, losses=losses, **known)


def other_data(rank: int) -> dict[str, str]:
    """What each process has, where they have not the same."""
    swapped = example_records()
    swapped[rank], swapped[1] = swapped[1], swapped[rank]  # the first process has them so
    touched = example_records()
    touched[4][0][5] += rank * 1e-6
    data = torch.randn(9, 6, generator=torch.Generator().manual_seed(2))
    turned = data.flip(0) if rank else data
    dropping = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3))

    def gone(example: Opaque) -> int:
        if rank:
            raise FileNotFoundError(2, "No such file")
        return example.number

    return {
        "swapped": refused(lambda: steps(small_model(), records=swapped)),
        "touched": refused(lambda: steps(small_model(), records=touched)),
        "turned": refused(lambda: pointed_at(rank, turned)),
        "turned, and told": refused(
            lambda: pointed_at(rank, turned, fingerprint=lambda example: turned[example])
        ),
        "unseen": refused(lambda: pointed_at(rank, data, opaque=True)),
        "gone": refused(lambda: pointed_at(rank, data, opaque=True, fingerprint=gone)),
        "same": refused(lambda: pointed_at(rank, data)),
        "same, and told": refused(
            lambda: pointed_at(
                rank, data, opaque=True, fingerprint=lambda example: data[example.number]
            )
        ),
        "dropout": refused(lambda: steps(dropping, losses=squares(dropping))),
    }


def masks() -> dict[str, Any]:
    """Notes what dropout drew in this process, under a seed that all processes share."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3))
    drawn: list[torch.Tensor] = []
    model[1].register_forward_hook(lambda module, args, out: drawn.append(out.detach() != 0))
    records, trial = [[torch.ones(6)]] * 9, example_records()
    with training(model, draws=[list(range(8))], records=records, trial_records=trial) as made:
        drawn.clear()
        torch.manual_seed(7)
        made.step()
    return {"drawn": torch.cat(drawn), "assumed": assumed()}


def assumed() -> list[tuple[str, ...]]:
    """Returns what claims rest on, for examples that are tensors and for numbers."""
    data, found = torch.arange(54.0).reshape(9, 6), []
    for records in ([[example] for example in data], [[number] for number in range(9)]):
        model = small_model()

        def losses(examples: Sequence[Any], model: nn.Module = model) -> torch.Tensor:
            return squares(model)(
                [data[example] if isinstance(example, int) else example for example in examples]
            )

        with training(
            model,
            draws=[],
            coins=None,
            noise=None,
            records=Records(records, unit="document"),
            losses=losses,
        ) as made:
            made.step()
            (guarantee,) = receipts.claim_of(made, "pages").guarantees
            found.append(guarantee.assumes)
    return found


def refusals(rank: int) -> dict[str, str]:
    def full(step: int) -> None:
        raise OSError(28, "No space left on device")

    def charge() -> None:
        with training(small_model(), draws=DRAWS, charge=full) as made:
            made.step()

    def of_another_version() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "__version__", f"0.{rank}")
            begin(small_model())

    wrapped, kept = small_model(), small_model()
    kept.register_buffer("own", torch.zeros(2 + rank))
    of_first = dist.new_group([0])
    return {
        "outside": refused(lambda: steps(small_model(), processes=of_first)),
        "version": refused(of_another_version),
        "optimizer": refused(lambda: begin(small_model(), rate=1.0 + rank)),
        "buffer": refused(lambda: begin(kept)),
        "charges": refused(lambda: begin(small_model(), charge=None if rank else full)),
        "ddp": refused(lambda: steps(nn.parallel.DistributedDataParallel(wrapped))),
        "records": refused(lambda: steps(small_model(), records=example_records()[rank:])),
        "charge": refused(charge),
    }


def trained_before(rank: int) -> str:
    """Goes on together with what the first process has trained alone, and claims it."""
    model, plan = (
        small_model(),
        PrivacyPlan.calibrated(epsilon=1e3, sampling_rate=0.5, steps=1, expected_records=DIVISOR),
    )
    of_first = dist.new_group([0])
    for group in (of_first, None) if rank == 0 else (None,):
        with training(model, draws=[], plan=plan, coins=None, noise=None, processes=group) as made:
            made.step()
    return refused(lambda: receipts.claim_of(made, "pages"))


def large_and_noisy() -> dict[str, Any]:
    """Noise alone, on many cells: its scale shows how often it was added."""
    model = nn.Linear(200, 100, bias=False)
    before = flat(model)
    with training(
        model,
        draws=[[]],
        plan=make_plan(noise_multiplier=3.0),
        records=[[torch.zeros(200)]] * 9,
        trial_records=[[torch.ones(200)], [torch.zeros(200)]],
        losses=squares(model),
        noise=SecretStream(),
    ) as made:
        made.step()
    return {"noise": flat(model) - before}


def main(folder: Path, rank: int) -> None:
    result = {
        "plain": steps(small_model()),
        "sharded": sharded(),
        "own coins": own_coins(),
        "different": from_different_weights(rank),
        "refusals": refusals(rank),
        "noise": large_and_noisy(),
        "other data": other_data(rank),
        "masks": masks(),
        "trained before": trained_before(rank),
    }
    torch.save(result, folder / f"rank{rank}.pt")
