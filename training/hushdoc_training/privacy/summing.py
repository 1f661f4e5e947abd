"""The sum of a step: clipped over all batches and processes, and rounded to whole steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from hushdoc_training.privacy import clipping, sharding
from hushdoc_training.privacy.example_losses import ExampleLosses, by_record, weighted
from hushdoc_training.privacy.physical import Packed, PhysicalBatch, by_itself
from hushdoc_training.privacy.process_group import Group

Example = TypeVar("Example")


def share_of(
    drawn: Sequence[Sequence[Example]],
    records: Sequence[Sequence[Example]],
    pack: Callable[[Sequence[Sequence[Example]]], Packed[Example]],
    group: Group,
    *,
    sharded: bool,
) -> Packed[Example]:
    """Returns this process's part of a draw."""
    if not sharded:
        return pack(group.share(drawn))
    some = next((record[:1] for record in records if len(record)), ())
    return sharding.divided(drawn, some, pack, group)


class Sums:
    """The clipped sums of a step: in float32 while they are of few records, then in float64."""

    def __init__(self, clipper: clipping.Clipper) -> None:
        """Begins with nothing."""
        self.clipper = clipper
        self._at_once, self._held = 1, 0
        self._of_pass: int | None = None
        self._in_float64: dict[str, torch.Tensor] = {}  # kept for later steps
        self._carried = False

    def begin(self, *, at_once: int, records_of_pass: int | None = None) -> None:
        """Sets all sums to zero.

        Args:
            at_once: Most records that are added up in float32, or one batch's if that has more.
            records_of_pass: How many all processes may add in one pass; None where each sums alone.
        """
        self._at_once, self._of_pass = at_once, records_of_pass
        self.clear()

    def make_room(self, records: int) -> None:
        """Carries sums over to float64 where these records would be too many."""
        records = records if self._of_pass is None else self._of_pass
        if self._held and self._held + records > self._at_once:
            for name, total in self.clipper.sums.items():
                if self._carried:
                    self._in_float64[name] += total.to(where_exact(total))
                else:
                    self._begin(name, total)
            self.clipper.clear()
            self._held, self._carried = 0, True
        self._held += records

    def total(self, name: str) -> torch.Tensor:
        """Returns the sum for a parameter; to be overwritten."""
        total = self.clipper.sums[name]
        if not self._carried:
            return total
        return self._in_float64[name].add_(total.to(where_exact(total)))

    def clear(self) -> None:
        """Sets all sums to zero."""
        self.clipper.clear()
        self._held, self._carried = 0, False

    def _begin(self, name: str, total: torch.Tensor) -> None:
        if name not in self._in_float64:
            device = where_exact(total)
            self._in_float64[name] = torch.empty(total.shape, dtype=torch.float64, device=device)
        self._in_float64[name].copy_(total)


def sum_clipped(
    sums: Sums,
    packed: Packed[Example],
    losses_of: ExampleLosses[Example],
    group: Group,
    *,
    sharded: bool,
) -> tuple[list[float], int]:
    """Adds this process's share to the sums; returns losses and non-finite count.

    In one pass a record that is not finite can reach others, whose loss does not depend on it: a
    kernel may multiply what lies beyond the end of a row by 0, and 0 * inf is no number (oneDNN's
    issue 5717). So nothing of such a pass counts, and each of its records has one to itself.
    """
    clipper = sums.clipper
    losses: list[float] = []
    nonfinite = 0
    again: list[PhysicalBatch[Example]] = []
    for batch in packed.batches:
        several = max(batch.records) > 0
        sums.make_room(max(batch.records) + 1)
        found = clipper.add(
            weighted(losses_of, batch), torch.tensor(batch.records), or_nothing=several
        )
        if several and found.nonfinite:
            again += by_itself(batch)
            continue
        losses += by_record(found.losses, batch)
        nonfinite += found.nonfinite
    for batch in sharding.as_many(again, packed, group) if sharded else again:
        sums.make_room(1)
        found = clipper.add(weighted(losses_of, batch), torch.tensor(batch.records))
        losses += by_record(found.losses, batch)
        nonfinite += found.nonfinite
    for number, parts in enumerate(packed.large):
        sums.make_room(1)
        found = clipper.add_large(weighted(losses_of, part) for part in parts)
        loss = found.losses.sum()
        if sharded:
            group.sum([loss])
            if number % group.size != group.rank:
                continue  # another one reports it
        losses.append(float(loss))
        nonfinite += found.nonfinite
    return losses, nonfinite


def rounded(total: torch.Tensor, step: float) -> torch.Tensor:
    """Returns a sum in whole steps; what a power of two is multiplied by stays exact."""
    return total.to(torch.float64, copy=True).mul_(1 / step).round_()


def where_exact(tensor: torch.Tensor) -> torch.device:
    """Returns where float64 can be computed, which Apple's GPUs can't."""
    return torch.device("cpu") if tensor.device.type == "mps" else tensor.device
