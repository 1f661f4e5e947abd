"""The self-test before the first step, on trial examples of the data or of public records.

Two things are looked at: whether the clipper's gradients are those of single records, and which
trainable parameters the losses reach. Those that no loss reaches stay untrained.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import compress, islice
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.clipping.gradients import differentiate
from hushdoc_training.privacy.clipping.tape import leaves, nodes
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.ownership import some
from hushdoc_training.privacy.physical import Length
from hushdoc_training.randomness.dropout_seeds import in_evaluation_mode

Example = TypeVar("Example")

RECORDS = 3
EXAMPLES_OF_EACH = 2
TRIAL_RECORDS = 2 * RECORDS
"""Records that examples are taken from: half are differentiated, all share their forward passes."""
GIVEN_RECORDS = 64
"""The same of records that were made for the self-test, of which all may be needed."""
LOOKED_AT = 500
"""Records whose examples' lengths are looked at, where lengths are known."""

ASSUMED = (
    "the losses trained with differ from `trial_losses`, in which the self-test looked for losses "
    "that depend on other examples, by nothing but what they draw at random, for each example by "
    "itself"
)
UNSEEN = (
    "the losses trained with draw from a generator of their own, so that they were not compared "
    "with one backward pass per record; `trial_losses` were"
)


def assumed_of_losses(trained_with: bool | None) -> tuple[str, ...]:
    """Returns what a guarantee rests on, by what `require_exact` returned."""
    if trained_with is None:
        return ()
    return (ASSUMED,) if trained_with else (ASSUMED, UNSEEN)


def require_exact(
    clipper: clipping.Clipper,
    records: Sequence[Sequence[Example]],
    losses: ExampleLosses[Example],
    *,
    tolerance: float,
    length: Callable[[Example], Length] | None = None,
    drawing: ExampleLosses[Example] | None = None,
    most: int = TRIAL_RECORDS,
) -> bool | None:
    """Refuses gradients that are not of single records; returns whether `drawing` was tested."""
    examples = trial_examples(records, length=length, most=most)
    if not examples:
        raise PrivacyError(
            "No record has an example, so there is nothing to train on. Check the data."
        )
    if len(examples) < 2:
        raise PrivacyError(
            "The records of the self-test have only one example that differs from all others; "
            "expected at least two, for equal examples can't be distinguished. Give "
            "`trial_records` with two different examples or more, of different lengths if lengths "
            "differ."
        )
    found = losses(examples)
    if found.shape != (len(examples),):
        raise PrivacyError(
            f"`losses` returned shape {list(found.shape)} for {len(examples)} examples; expected "
            'one loss for each. Leave out the mean over the batch (reduction="none"); where an '
            "example has several tokens, take the mean over its own."
        )
    finite = torch.isfinite(found.detach()).tolist()
    # A record that is not finite counts as zero, and may be there.
    if 2 <= sum(finite) < len(examples):
        examples = list(compress(examples, finite))
        found = losses(examples)
    _require_used(found, lambda: losses(examples), clipper)
    clipping.check(
        clipper,
        lambda chosen: losses([examples[index] for index in chosen]),
        num_examples=len(examples),
        tolerance=tolerance,
    )
    if drawing is None:
        return None
    return clipping.check_drawing(
        clipper,
        lambda chosen: drawing([examples[index] for index in chosen]),
        num_examples=len(examples),
        tolerance=tolerance,
    )


def trial_examples(
    records: Sequence[Sequence[Example]],
    *,
    length: Callable[[Example], Length] | None = None,
    most: int = TRIAL_RECORDS,
) -> list[Example]:
    """Returns trial examples, no two alike: of the first record, the last, and some between."""
    examples: list[Example] = []
    if length is not None:
        some = (records[index] for index in _spread(len(records), LOOKED_AT))
        by_length = sorted((example for record in some for example in record), key=length)
        examples += by_length[-1:] + by_length[:1]
    chosen = (records[index] for index in _spread(len(records), len(records)))
    for record in islice((record for record in chosen if len(record)), most):
        examples += record[:EXAMPLES_OF_EACH]
    different: list[Example] = []
    for example in examples:
        if not any(_alike(example, other) for other in different):
            different.append(example)
    return different


def _spread(total: int, most: int) -> Iterator[int]:
    # Numbers below a total: a few from the ends inwards, then as many as are wanted in order.
    few = _even(total, TRIAL_RECORDS)
    inwards = [few[place // 2 if place % 2 == 0 else -1 - place // 2] for place in range(len(few))]
    yield from inwards
    yield from (index for index in _even(total, most) if index not in inwards)


def _even(total: int, most: int) -> list[int]:
    if most >= total:
        return list(range(total))
    return [place * (total - 1) // (most - 1) for place in range(most)]


def _alike(one: Any, other: Any) -> bool:
    # Examples may be anything; what can't be compared counts as different.
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if is_dataclass(one):
        return all(
            _alike(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    try:
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def _require_used(
    found: torch.Tensor,
    losses: Callable[[], torch.Tensor],
    clipper: clipping.Clipper,
) -> None:
    used: set[str] = set()
    parameters = clipper.placement.parameters
    differentiate(found.sum(), parameters, lambda name, _: used.add(name))
    if parameters.keys() - used:  # layers that training skips at random are used
        with in_evaluation_mode(clipper.model):
            found = losses()
            differentiate(found.sum(), parameters, lambda name, _: used.add(name))
    unused = [name for name in parameters if name not in used]
    if unused:
        raise PrivacyError(
            f"{len(unused)} trainable parameters got no gradient from any trial example "
            f"({', '.join(unused[:3])}), so they would collect noise without learning. Freeze "
            "them, or give `trial_records` that use them."
        )


def unreached(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    losses: ExampleLosses[Example],
    records: Sequence[Sequence[Example]],
    *,
    most: int,  # of the records
) -> dict[str, nn.Parameter]:
    """Returns the trainable parameters that no loss reaches, and warns of them."""
    examples = trial_examples(records, most=most)
    if not examples:
        return {}
    known = {id(value): name for name, value in parameters.items()}
    names = set(known.values()) - _reached(model, known, losses, examples)
    if names:  # layers skipped at random, in training alone, are no such case
        with in_evaluation_mode(model):
            alone = [_reached(model, known, losses, [example]) for example in examples]
            names -= _reached(model, known, losses, examples)
    if names:
        _require_even(names, alone)
        warnings.warn(
            f"{len(names)} trainable parameters get no gradient from the losses "
            f"({some(sorted(names))}) and stay as they are: they get no noise and are not stepped. "
            "Freeze them to say so yourself.",
            stacklevel=4,
        )
    return {name: value for name, value in parameters.items() if name in names}


@contextmanager
def frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Freezes parameters inside the block."""
    held = list(parameters)
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(True)


def closed(
    losses: ExampleLosses[Example], omitted: Mapping[str, nn.Parameter]
) -> ExampleLosses[Example]:
    """Returns the same losses, which raise PrivacyError where they reach what was left out."""
    if not omitted:
        return losses

    def of(examples: Sequence[Example]) -> torch.Tensor:
        found = losses(examples)
        used = {id(leaf) for leaf in leaves(found)}
        reached = [name for name, value in omitted.items() if id(value) in used]
        if reached:
            raise PrivacyError(
                f"The losses reach {len(reached)} parameters ({some(sorted(reached))}) that no "
                "loss reached when training began, so they were left out of it. Freeze them, or "
                "give `trial_records` that use them."
            )
        return found

    return of


def settings(omitted: Collection[str]) -> dict[str, Any]:
    """Returns what a claim's list of settings says of parameters that were left out."""
    return {"untrained_parameters": sorted(omitted)} if omitted else {}


def _require_even(names: Collection[str], alone: Sequence[frozenset[str]]) -> None:
    if any(found != alone[0] or found & set(names) for found in alone):
        raise PrivacyError(
            f"{len(names)} trainable parameters got no gradient ({some(sorted(names))}), and which "
            "do differs from example to example, so that leaving them out would reveal something "
            "of the examples. Freeze those that are not to be trained."
        )


def _reached(
    model: nn.Module,
    known: Mapping[int, str],
    losses: ExampleLosses[Example],
    examples: Sequence[Example],
) -> frozenset[str]:
    with torch.enable_grad():
        found = losses(examples)
    for node in nodes(found):
        if node.name() == "CheckpointFunctionBackward":
            raise PrivacyError(
                f"{_checkpointed(model, node)} an activation checkpoint with use_reentrant=True, "
                "whose backward pass can't be taken apart by record. Choose use_reentrant=False "
                '(transformers: gradient_checkpointing_enable({"use_reentrant": False})).'
            )
    return frozenset(known[id(leaf)] for leaf in leaves(found) if id(leaf) in known)


def _checkpointed(model: nn.Module, node: Any) -> str:
    """Returns which layer a checkpoint is around, as the beginning of a sentence."""
    function = getattr(node, "run_function", None)
    function = getattr(function, "func", function)  # of a partial
    module = getattr(function, "__self__", function)
    for name, one in model.named_modules():
        if one is module and name:
            return f"The layer '{name}' runs in"
    return "The model uses"
