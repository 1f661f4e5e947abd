"""Which trainable parameters the losses reach, and what is left out because they do not.

Models come with parts that a task does not use: a pooler, a branch for pictures, a mask token.
Noise would move them without end, so they are left as they are: no noise, no sum, no step.

Whether a loss reaches a parameter is asked of autograd's graph, never of gradients: a gradient of
zero counts as one. The graph follows from the model's code, and may follow from the rows where that
code looks at them. So every tried row alone has to reach the same parameters, and a step whose
losses reach what was left out is refused before its noise is drawn. What is left open then is
stated: the claim declares as public that all records are computed on the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.masks import without_chance
from hushdoc_training.privacy.trial import tried_rows

Row = TypeVar("Row")
Losses = Callable[[Sequence[Row]], torch.Tensor]
"""Returns one loss for each row."""


def left_out(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    losses: Losses[Row],
    records: Sequence[Sequence[Row]],
) -> dict[str, nn.Parameter]:
    """Returns the trainable parameters that no loss reaches, and warns of them.

    Args:
        model: For names.
        parameters: The trainable ones.
        losses: One for each row.
        records: Some of them are tried.

    Raises:
        PrivacyError: Some rows reach them and others don't, or an activation checkpoint hides what
            is reached.
    """
    rows = tried_rows(records)
    if not rows:
        return {}
    known = {id(value): name for name, value in parameters.items()}
    names = set(known.values()) - _reached(model, known, losses, rows)
    if names:  # layers that are left out by chance, in training alone, are no such case
        with without_chance(model):
            alone = [_reached(model, known, losses, [row]) for row in rows]
            names -= _reached(model, known, losses, rows)
    if names:
        _require_even(names, alone)
        warnings.warn(_said(names), stacklevel=4)
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


def closed(losses: Losses[Row], omitted: Mapping[str, nn.Parameter]) -> Losses[Row]:
    """Returns the same losses, which raise PrivacyError where they reach what was left out.

    Args:
        losses: One for each row.
        omitted: What no loss reached when training began.
    """
    if not omitted:
        return losses

    def of(rows: Sequence[Row]) -> torch.Tensor:
        found = losses(rows)
        leaves = _leaves(found)
        reached = [name for name, value in omitted.items() if id(value) in leaves]
        if reached:
            raise PrivacyError(
                f"The losses reach {len(reached)} parameters ({_some(reached)}) that no loss "
                "reached when training began, so they were left out of it. Freeze them, or give "
                "`trial` records that use them."
            )
        return found

    return of


def settings(omitted: Collection[str]) -> dict[str, Any]:
    """Returns what a claim's list of settings says of parameters that were left out."""
    return {"left_as_they_were": sorted(omitted)} if omitted else {}


def _require_even(names: Collection[str], alone: Sequence[frozenset[str]]) -> None:
    if any(found != alone[0] or found & set(names) for found in alone):
        raise PrivacyError(
            f"{len(names)} trainable parameters got no gradient ({_some(names)}), and which do "
            "differs from row to row, so that leaving them out would tell of the rows. Freeze "
            "those that are not to be trained."
        )


def _reached(
    model: nn.Module, known: Mapping[int, str], losses: Losses[Row], rows: Sequence[Row]
) -> frozenset[str]:
    with torch.enable_grad():
        found = losses(rows)
    for node in _nodes(found):
        if node.name() == "CheckpointFunctionBackward":
            raise PrivacyError(
                f"{_checkpointed(model, node)} an activation checkpoint with use_reentrant=True, "
                "whose backward pass can't be taken apart by record. Choose use_reentrant=False "
                '(transformers: gradient_checkpointing_enable({"use_reentrant": False})).'
            )
    return frozenset(known[leaf] for leaf in _leaves(found) if leaf in known)


def _leaves(losses: torch.Tensor) -> frozenset[int]:
    variables = (getattr(node, "variable", None) for node in _nodes(losses))
    return frozenset(id(variable) for variable in variables if variable is not None)


def _nodes(tensor: torch.Tensor) -> Iterator[Any]:
    nodes, seen = [tensor.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            nodes += [following for following, _ in node.next_functions]


def _checkpointed(model: nn.Module, node: Any) -> str:
    """Returns which layer a checkpoint is around, as the beginning of a sentence."""
    function = getattr(node, "run_function", None)
    function = getattr(function, "func", function)  # of a partial
    module = getattr(function, "__self__", function)
    for name, one in model.named_modules():
        if one is module and name:
            return f"The layer '{name}' runs in"
    return "The model uses"


def _said(names: Collection[str]) -> str:
    return (
        f"{len(names)} trainable parameters get no gradient from the losses ({_some(names)}) and "
        "stay as they are: they get no noise and are not stepped. Freeze them to say so yourself."
    )


def _some(names: Iterable[str]) -> str:
    first = sorted(names)[:4]
    return ", ".join(first[:3]) + (", ..." if len(first) > 3 else "")
