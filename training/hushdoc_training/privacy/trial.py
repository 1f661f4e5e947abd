"""The trial before the first step: the clipper, on a few rows, against one-by-one gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.clipping.gradients import differentiate
from hushdoc_training.privacy.clipping.placement import Placement
from hushdoc_training.randomness.dropout_seeds import without_chance

Row = TypeVar("Row")

RECORDS = 3
ROWS_OF_EACH = 2
TRIED = 2 * RECORDS
"""Records that rows are taken from: half of these rows are differentiated, all stand together."""
LOOKED_AT = 500
"""Records whose rows' lengths are looked at, where lengths are known."""

ASSUMED = (
    "the losses trained with differ from `trial_losses`, in which the self-test looked for losses "
    "that depend on other rows, by nothing but what they draw at random, for each row by itself"
)
UNSEEN = (
    "the losses trained with draw from a generator of their own, so that they were not compared "
    "with one backward pass per record; `trial_losses` were"
)


def assumed_of_losses(trained_with: bool | None) -> tuple[str, ...]:
    """Returns what a guarantee rests on where the self-test ran on other losses.

    Args:
        trained_with: Whether the clipper was tried on the losses trained with as well; None where
            the self-test ran on them and no others.
    """
    if trained_with is None:
        return ()
    return (ASSUMED,) if trained_with else (ASSUMED, UNSEEN)


def require_exact(
    clipper: clipping.Clipper,
    placement: Placement,
    records: Sequence[Sequence[Row]],
    losses: Callable[[Sequence[Row]], torch.Tensor],
    *,
    tolerance: float,
    length: Callable[[Row], int] | None = None,
    drawing: Callable[[Sequence[Row]], torch.Tensor] | None = None,
) -> bool | None:
    """Returns if clipped gradients are those of single records; releases nothing.

    Args:
        clipper: The one that training will use.
        placement: The trained parameters.
        records: Some of them are tried, from the first to the last.
        losses: One for each row, the same whenever it is asked.
        tolerance: Largest relative difference of a norm or a sum.
        length: Of a row, where rows differ in it: then the longest and the shortest are tried.
        drawing: The losses trained with, where `losses` stand in for them here.

    Returns:
        Whether the clipper was tried on `drawing` too; None where there are none.

    Raises:
        PrivacyError: They are not, a loss depends on other rows, a parameter is never used, or
            there are no two different rows to tell apart; the message names which.
    """
    rows = tried_rows(records, length=length)
    if not rows:
        raise PrivacyError("No record has a row, so there is nothing to train on. Check the data.")
    if len(rows) < 2:
        raise PrivacyError(
            "The records of the self-test have only one row that differs from all others; "
            "expected at least two, for rows that are alike can't be told apart. Give `trial` "
            "records with two different rows or more, of different lengths if lengths differ."
        )
    found = losses(rows)
    if found.shape != (len(rows),):
        raise PrivacyError(
            f"`losses` returned shape {list(found.shape)} for {len(rows)} rows; expected one loss "
            'for each row. Leave out the mean over the batch (reduction="none"); where a row has '
            "several tokens, take the mean over its own."
        )
    finite = torch.isfinite(found.detach()).tolist()
    if 2 <= sum(finite) < len(rows):  # a record that is not finite counts as zero, and may be there
        rows = [row for row, is_finite in zip(rows, finite, strict=True) if is_finite]
        found = losses(rows)
    _require_used(found, lambda: losses(rows), clipper.model, placement)
    clipping.check(
        clipper,
        lambda chosen: losses([rows[index] for index in chosen]),
        rows=len(rows),
        tolerance=tolerance,
    )
    if drawing is None:
        return None
    return clipping.check_drawing(
        clipper,
        lambda chosen: drawing([rows[index] for index in chosen]),
        rows=len(rows),
        tolerance=tolerance,
    )


def tried_rows(
    records: Sequence[Sequence[Row]], *, length: Callable[[Row], int] | None = None
) -> list[Row]:
    """Returns rows to try, no two alike: of the first record and the last, and of some between.

    Args:
        records: What to choose from.
        length: Of a row; then the longest and the shortest of many come before all others.

    Example:
        >>> tried_rows([[number] for number in range(1000)])
        [0, 999, 199, 799, 399, 599]
        >>> tried_rows(["bbb", "a", "", "bccc"], length=lambda letter: -ord(letter))
        ['a', 'c', 'b']
    """
    rows: list[Row] = []
    if length is not None:
        some = (records[index] for index in _spread(len(records), LOOKED_AT))
        by_length = sorted((row for record in some for row in record), key=length)
        rows += by_length[-1:] + by_length[:1]
    chosen = (records[index] for index in _spread(len(records), len(records)))
    for record in islice((record for record in chosen if len(record)), TRIED):
        rows += record[:ROWS_OF_EACH]
    different: list[Row] = []
    for row in rows:
        if not any(_alike(row, other) for other in different):
            different.append(row)
    return different


def _spread(total: int, most: int) -> Iterator[int]:
    # Numbers below a total: a few from the ends inwards, then as many as are wanted in order.
    few = _even(total, TRIED)
    inwards = [few[place // 2 if place % 2 == 0 else -1 - place // 2] for place in range(len(few))]
    yield from inwards
    yield from (index for index in _even(total, most) if index not in inwards)


def _even(total: int, most: int) -> list[int]:
    if most >= total:
        return list(range(total))
    return [place * (total - 1) // (most - 1) for place in range(most)]


def _alike(one: Any, other: Any) -> bool:
    # Rows may be anything; what can't be compared counts as different.
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
    model: nn.Module,
    placement: Placement,
) -> None:
    used: set[str] = set()
    differentiate(found.sum(), placement.parameters, lambda name, _: used.add(name))
    if placement.parameters.keys() - used:  # layers that training skips by chance are used
        with without_chance(model):
            found = losses()
            differentiate(found.sum(), placement.parameters, lambda name, _: used.add(name))
    unused = [name for name in placement.parameters if name not in used]
    if unused:
        raise PrivacyError(
            f"{len(unused)} trainable parameters got no gradient from any tried row "
            f"({', '.join(unused[:3])}), so they would collect noise without learning. Freeze "
            "them, or give `trial` records that use them."
        )


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
    return {"untrained_parameters": sorted(omitted)} if omitted else {}


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
