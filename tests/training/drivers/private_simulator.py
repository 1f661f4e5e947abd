"""A tiny private training whose draws and noise the tests know; no part of it is a mock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import distributed as dist
from torch import nn

from hushdoc.errors import HushdocError
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.private_view import PrivateView
from hushdoc_training.randomness.sampling import Uniforms
from hushdoc_training.randomness.secret_stream import Floats, SecretStream

CLIP = 0.1
DIVISOR = 4


def make_plan(**changed: Any) -> PrivacyPlan:
    settings: dict[str, Any] = {
        "privacy_unit": "document",
        "epsilon": 1e9,
        "delta": 1e-5,
        "sampling_rate": 0.5,
        "steps": 50,
        "clipping_norm": CLIP,
        "noise_multiplier": 1e6,
        "expected_records": DIVISOR,
    }
    return PrivacyPlan(**{**settings, **changed})


class Silent(SecretStream):
    """Noise of zero, so that the clipped sum itself can be seen."""

    def lattice_noise(self, shape: tuple[int, ...], **law: Any) -> Floats:
        return np.zeros(shape)


class Scripted:
    """Coins that draw these records, step after step."""

    def __init__(self, draws: Sequence[Sequence[int]]) -> None:
        self._left = iter(draws)

    def uniforms(self, count: int) -> npt.NDArray[np.float64]:
        values = np.ones(count)
        values[list(next(self._left))] = 0.0
        return values


def known(
    coins: Uniforms | None = None, noise: SecretStream | None = None
) -> Callable[[PrivateTraining[Any]], tuple[Uniforms, SecretStream]]:
    """Returns a `PrivateTraining._streams` that draws from what is given, and else in secret."""
    begin = PrivateTraining._streams

    def streams(made: PrivateTraining[Any]) -> tuple[Uniforms, SecretStream]:
        own_coins, own_noise = begin(made)
        return coins or own_coins, noise or own_noise

    return streams


@contextmanager
def known_streams(**streams: Any) -> Iterator[None]:
    """Begins trainings inside the block with streams that a test knows: the only door to them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateTraining, "_streams", known(**streams))
        yield


def moments(
    opened: AbstractContextManager[PrivateTraining[Any]], encoder: nn.Module
) -> tuple[torch.Tensor, int]:
    """Returns Adam's moments after a training, and how often it read a window by the encoder."""
    calls = []
    handle = encoder.register_forward_hook(lambda *_: calls.append(1))
    with opened as training:
        for _ in training:
            pass
    handle.remove()
    state = training.optimizer.state.values()
    return torch.cat([value["exp_avg"].flatten() for value in state]), len(calls)


def small_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def example_records() -> list[list[torch.Tensor]]:
    """Returns nine records of one to three examples, with gradients of very different sizes."""
    generator = torch.Generator().manual_seed(1)
    sizes = [1, 2, 3, 1, 1, 2, 1, 3, 1]
    scales = torch.logspace(-3, 2, len(sizes))
    return [
        [torch.randn(6, generator=generator) * scale for _ in range(size)]
        for size, scale in zip(sizes, scales, strict=True)
    ]


def squares(model: nn.Module) -> Callable[[Sequence[torch.Tensor]], torch.Tensor]:
    """Returns a loss for each example that depends on that example alone."""
    return lambda examples: model(torch.stack(list(examples))).square().sum(1)


@contextmanager
def training(
    model: nn.Module, *, draws: Sequence[Sequence[int]], rate: float = 1.0, **changed: Any
) -> Iterator[PrivateTraining[torch.Tensor]]:
    """Yields private training by plain SGD, so that a step shows what it stepped by."""
    settings: dict[str, Any] = {
        "plan": make_plan(),
        "records": Records(example_records(), unit="document"),
        "losses": squares(model),
        "noise": Silent(),
        "coins": Scripted(draws),
    }
    if dist.is_initialized():  # there the first process alone reads what nobody declares unused
        settings["view"] = PrivateView(declared_unused="a test")
    settings |= changed
    if "optimizer" not in settings:
        parameters = [value for value in model.parameters() if value.requires_grad]
        settings["optimizer"] = torch.optim.SGD(parameters, lr=rate)
    plan, optimizer = settings.pop("plan"), settings.pop("optimizer")
    with known_streams(coins=settings.pop("coins"), noise=settings.pop("noise")):
        made = PrivateTraining(plan, model, optimizer, **settings)
    with made:
        yield made


def begin(model: nn.Module, **settings: Any) -> None:
    """Starts private training, whose self-test may refuse it, and takes no step."""
    with training(model, draws=[], **settings):
        pass


def refused(attempt: Callable[[], Any]) -> str:
    """Returns the error that an attempt ends in, for another process to compare."""
    try:
        attempt()
    except (HushdocError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "not refused"


def flat(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def same_sum(found: torch.Tensor, expected: torch.Tensor, *, in_weights: bool = True) -> bool:
    """Whether two clipped sums differ by float32 rounding alone, on any processor.

    Sums of some dozen terms in another order differ by some dozen ulps of their norm. Where a sum
    is read off weights that moved by it over DIVISOR, each weight is rounded once in either model.

    Args:
        found: One sum.
        expected: The other.
        in_weights: Whether they are differences of the small model's weights, times DIVISOR.
    """
    largest = float(flat(small_model()).abs().max()) if in_weights else 0.0
    ulps = 64 * float(expected.norm()) + DIVISOR * largest
    return float((found - expected).norm()) <= torch.finfo(torch.float32).eps * ulps


def clipped_sum(drawn: Sequence[int], **changed: Any) -> torch.Tensor:
    """Returns what one step over these records sums, before noise and divisor."""
    model = small_model()
    before = flat(model)
    with training(model, draws=[drawn], **changed) as made:
        made.step()
    return (before - flat(model)) * DIVISOR


def by_hand(drawn: Sequence[int], records: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
    """Returns the same from one plain backward pass per record."""
    model = small_model()
    total = torch.zeros_like(flat(model))
    for index in drawn:
        loss = squares(model)(records[index]).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        one = torch.cat([gradient.flatten() for gradient in gradients])
        total += one * min(1.0, CLIP / float(one.norm()))
    return total
