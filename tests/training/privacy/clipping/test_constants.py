"""Constants as long as a batch are not taken for examples, wherever they come from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from exact_sums import assert_exact, self_test
from torch import nn
from torch.nn import functional as F  # noqa: N812

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.clipping import BookKeeping

LENGTH, WIDTH, CLASSES, MOST = 6, 4, 8, 24
PLACES = torch.arange(LENGTH)
SCALE = torch.linspace(0.5, 3, LENGTH)


class Tagger(nn.Module):
    """Adds embeddings of places to words that it is handed, and sums over them."""

    def __init__(self, places: Callable[[Tagger, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.find = places
        self.places = torch.arange(LENGTH)
        self.several = [torch.arange(LENGTH)]
        self.register_buffer("kept", torch.arange(LENGTH))
        self.table = nn.Embedding(2 * LENGTH, WIDTH)
        self.own = nn.Parameter(torch.randn(LENGTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(torch.tanh(x + self.find(self, x))).mean(1)
        return found


def by_default(model: Tagger, x: torch.Tensor, places: torch.Tensor = PLACES) -> torch.Tensor:
    return model.table(places)


def captured() -> Callable[[Tagger, torch.Tensor], torch.Tensor]:
    places = torch.arange(LENGTH)
    return lambda model, x: model.table(places)


CONSTANTS: dict[str, Callable[[Tagger, torch.Tensor], torch.Tensor]] = {
    "attribute": lambda model, x: model.table(model.places),
    "a part of an attribute": lambda model, x: model.table(model.places[: x.shape[1]]),
    "in a list": lambda model, x: model.table(model.several[0]),
    "buffer": lambda model, x: model.table(model.kept),
    "global": lambda model, x: model.table(PLACES),
    "closure": captured(),
    "default argument": by_default,
    "range": lambda model, x: model.table(torch.arange(x.shape[1])),
    "like the examples": lambda model, x: model.table(x.new_tensor(range(LENGTH)).long()),
    "twice as long": lambda model, x: model.table(torch.cat([model.places] * 2))[LENGTH:],
    "times a parameter": lambda model, x: (model.own * SCALE)[:, None] * model.table(PLACES),
    "in place": lambda model, x: model.table(model.places.clone().add_(1)),
    "of as many as examples": lambda model, x: model.table(torch.arange(len(x)) * 0 + 3)[:, None],
    "scaling examples": lambda model, x: x * (model.own * SCALE)[:, None],
}


def losses_of(model: nn.Module) -> Callable[[Sequence[int]], torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(MOST, LENGTH, WIDTH, generator=generator)
    x *= torch.rand(MOST, 1, 1, generator=generator) * 5
    answers = torch.randint(0, CLASSES, (MOST,), generator=generator)
    return lambda examples: F.cross_entropy(
        model(x[list(examples)]), answers[list(examples)], reduction="none"
    )


@pytest.mark.parametrize("examples", [1, 3, LENGTH - 1, LENGTH, 2 * LENGTH])
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_stays_one_in_a_batch_of_its_length(constant: str, examples: int) -> None:
    torch.manual_seed(0)
    model = Tagger(CONSTANTS[constant])
    losses = losses_of(model)
    self_test(model, losses, 4)
    assert_exact(model, lambda: losses(range(examples)), examples)


def test_a_table_of_classes_stays_one_in_a_batch_of_their_number() -> None:
    class Scoring(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classes = torch.arange(CLASSES)
            self.table, self.inner = nn.Embedding(CLASSES, 5), nn.Linear(LENGTH * WIDTH, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x.flatten(1)) @ self.table(self.classes).t()

    torch.manual_seed(0)
    model = Scoring()
    losses = losses_of(model)
    for examples in (CLASSES - 1, CLASSES, CLASSES + 1, 2 * CLASSES):
        assert_exact(model, lambda examples=examples: losses(range(examples)), examples)  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class Page:
    words: torch.Tensor
    boxes: Sequence[torch.Tensor]


@pytest.mark.parametrize(
    "pack",
    [
        lambda x: {"x": x},
        lambda x: OrderedDict(inner={"x": [x]}),
        lambda x: (1, [x]),
        lambda x: Page(words=x, boxes=[]),
        lambda x: Page(words=x[:, 0], boxes=[x]),
    ],
)
def test_examples_are_known_in_whatever_they_are_handed_in(pack: Callable[[Any], Any]) -> None:
    def find(value: Any) -> torch.Tensor:
        if isinstance(value, Page):
            return value.boxes[0] if value.boxes else value.words
        while not isinstance(value, torch.Tensor):
            value = list(value.values())[0] if isinstance(value, dict) else value[-1]
        return value

    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, 3)

        def forward(self, page: Any) -> torch.Tensor:
            return self.inner(find(page))

    model, x = Reading(), torch.randn(4, LENGTH, WIDTH)
    assert_exact(model, lambda: model(pack(x * 1)).square().sum((1, 2)), 4)


def test_modules_may_be_called_one_by_one() -> None:
    parts = nn.ModuleDict({"encoder": nn.Linear(WIDTH, 5), "head": nn.Linear(5, 3)})
    x = torch.randn(6, WIDTH)
    assert_exact(
        parts, lambda: parts["head"](torch.tanh(parts["encoder"](x))).square().sum(1), len(x)
    )


def test_examples_that_the_model_holds_already_are_told_apart_all_the_same() -> None:
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.weight = nn.Linear(WIDTH, 3), nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + self.shift * self.weight

    model, x = Holding(), torch.randn(6, WIDTH)
    model.shift = torch.randn(6, 1)
    assert_exact(model, lambda: model(x).square().sum(1), len(x))


def test_examples_that_no_module_was_handed_are_refused() -> None:
    model, x = nn.Linear(WIDTH, 3), torch.randn(6, WIDTH)
    clipper = BookKeeping(model, clipping_norm=1.0)
    with pytest.raises(PrivacyError, match="no module was handed"):
        clipper.add(lambda: F.linear(x, model.weight).square().sum(1), torch.arange(6))


def test_what_an_abandoned_call_left_is_not_taken_for_examples() -> None:
    # A module that fails inside, is caught, and is called again with a constant.
    class Failing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError("no such layer")

    class Trying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.failing, self.table = Failing(), nn.Embedding(LENGTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.failing(x)
            except KeyError:
                return x + self.table(PLACES)

    model, x = Trying(), torch.randn(LENGTH, LENGTH, WIDTH)
    for _ in range(2):
        assert_exact(model, lambda: model(x).square().sum((1, 2)), LENGTH)
