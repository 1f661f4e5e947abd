"""Whether processes that train together read the same records, in the same order.

Each computes its part of one draw, so a document that stands at two places of two lists would be
clipped twice. What rows hold is compared in full. What rows only point to (an index says nothing of
the table behind it) shows in their losses, which are compared on a few, chosen by chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import masks
from hushdoc_training.privacy.distributed import Group

Row = TypeVar("Row")
Losses = Callable[[Sequence[Row]], torch.Tensor]

COMPARED = 32
"""Rows whose losses are compared. Lists in different orders differ almost everywhere."""

ASSUMED = (
    "rows that are numbers pointed to the same data in every process; the losses of "
    f"{COMPARED} of them were compared"
)


def assumed(
    records: Sequence[Sequence[Row]], fingerprint: Callable[[Row], object] | None, group: Group
) -> tuple[str, ...]:
    """Returns what a guarantee rests on besides what every claim says.

    Args:
        records: What this process has.
        fingerprint: Returns what stands for a row.
        group: The processes.
    """
    first = next((record[0] for record in records if len(record)), None)
    bare = fingerprint is None and isinstance(first, int | np.integer)
    return (masks.ASSUMED, ASSUMED) if bare and group.size > 1 else (masks.ASSUMED,)


def require_same_content(fingerprint: Callable[[], str], group: Group) -> None:
    """Raises PrivacyError, in every process, where the records are not the same in all.

    Args:
        fingerprint: Returns the digest of this process's records.
        group: All of its processes call this.
    """
    if group.size == 1:
        return
    failure: Exception | None = None
    try:
        told = fingerprint()
    except Exception as error:  # told to the others first, which would wait
        failure, told = error, f"{type(error).__name__} in process {group.rank}"
    try:
        group.require_agreement({"the records": told})
    except PrivacyError:
        if failure is not None:
            raise failure from None
        raise


def require_same_losses(
    model: nn.Module,
    losses: Losses[Row],
    records: Sequence[Sequence[Row]],
    group: Group,
    *,
    max_rows: int,
    tolerance: float,
) -> None:
    """Raises PrivacyError, in every process, where the same places have other losses.

    Args:
        model: The same weights in all processes; dropout is off while it is compared.
        losses: One for each row.
        records: Of equal content in all processes.
        group: All of its processes call this.
        max_rows: Most rows in one forward pass.
        tolerance: Largest relative difference.
    """
    if group.size == 1:
        return
    dice = random.Random(group.secret())
    places = [place for place in _shuffled(len(records), dice) if len(records[place])][:COMPARED]
    rows = [dice.choice(records[place]) for place in places]
    with torch.no_grad(), _calm(model):
        found = [
            float(one)
            for at in range(0, len(rows), max_rows)
            for one in losses(rows[at : at + max_rows])
        ]
    told: list[list[float]] = [[] for _ in range(group.size)]
    dist.all_gather_object(told, found, group=group.handle)
    _refuse_others(torch.tensor(told, dtype=torch.float64), places, tolerance)


def _refuse_others(told: torch.Tensor, places: Sequence[int], tolerance: float) -> None:
    first = told[0]
    allowed = tolerance * torch.maximum(first.abs(), first.abs().nanmean())
    same = ((told - first).abs() <= allowed) | (told.isnan() & first.isnan()) | (told == first)
    if bool(same.all()):
        return
    process, at = (int(one) for one in (~same).nonzero()[0])
    raise PrivacyError(
        f"Record {places[at]} has the loss {float(told[0, at]):.6g} in the first process and "
        f"{float(told[process, at]):.6g} in process {process}, with the same weights: they read "
        "other data, or compute otherwise. Give all of them the same data in the same order, and "
        "the same loss; each takes its own part by itself."
    )


def _shuffled(count: int, dice: random.Random) -> Iterator[int]:
    """Yields places by chance, and all of them in the end where the first have no row."""
    some = min(count, 4 * COMPARED)
    yield from dice.sample(range(count), some)
    yield from range(count if some < count else 0)


@contextmanager
def _calm(model: nn.Module) -> Iterator[None]:
    """Turns off whatever draws at random; what goes on drawing draws alike in all processes."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with masks.repeated(model.parameters()):
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
