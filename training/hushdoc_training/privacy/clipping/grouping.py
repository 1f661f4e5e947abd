"""Which examples of a physical batch make up which record."""

from __future__ import annotations

from collections.abc import Mapping

import torch


class Grouping:
    """Examples of a batch, records, and the weights of examples.

    Records are numbered from 0, -1 for padding, on the CPU; `members` of a record are a slice where
    its examples stand side by side, else indices.
    """

    def __init__(
        self, records: torch.Tensor, weights: torch.Tensor | None, *, or_nothing: bool = False
    ) -> None:
        """Sorts the examples of `records` (int64, shape [examples]); no weights are ones.

        With `or_nothing` squared norms of which one is not finite count as infinite, all of them.
        """
        if records.dim() != 1 or records.dtype != torch.int64:
            raise ValueError(
                f"records has shape {list(records.shape)} and type {records.dtype}; it must be one "
                "int64 for every example."
            )
        if weights is not None and weights.shape != records.shape:
            raise ValueError(
                f"weights has shape {list(weights.shape)}, records {list(records.shape)}; there "
                "must be one weight for every example."
            )
        numbers = records.tolist()
        if min(numbers, default=0) < -1:
            raise ValueError(
                f"An example belongs to record {min(numbers)}; records count from 0, -1 is padding."
            )
        self.examples = len(numbers)
        self.num_records = max(numbers, default=-1) + 1
        self.records = records.detach().cpu()
        self.weights, self.or_nothing = weights, or_nothing
        self.one_to_one = numbers == list(range(self.examples))
        by_record: list[list[int]] = [[] for _ in range(self.num_records)]
        for example, record in enumerate(numbers):
            if record >= 0:
                by_record[record].append(example)
        self._lists = by_record
        self.members = [_compact(examples) for examples in by_record]

    @property
    def empty(self) -> bool:
        """Whether no example belongs to a record."""
        return not any(self._lists)

    def counted(
        self, squares: Mapping[str, torch.Tensor], total: torch.Tensor
    ) -> Mapping[str, torch.Tensor]:
        """Returns the records' squared norms by parameter, as they are or all infinite.

        `total` is their sum, which may be infinite where they are not.
        """
        if not self.or_nothing or bool(total.isfinite().all()):
            return squares
        return {name: torch.full_like(each, torch.inf) for name, each in squares.items()}

    def total(self, losses: torch.Tensor) -> torch.Tensor:
        """Returns the weighted sum of the losses of examples that belong to a record."""
        weighted = losses if self.weights is None else losses * self.weights.to(losses)
        if self.one_to_one:
            return weighted.sum()
        # Selected, not multiplied by zero: padding may hold anything, infinity included.
        return weighted[(self.records >= 0).to(losses.device)].sum()

    def size(self, record: int) -> int:
        """Returns how many examples a record has."""
        return len(self._lists[record])

    def take(self, per_example: torch.Tensor, record: int) -> torch.Tensor:
        """Returns the entries of a record's examples: a view where they stand side by side."""
        members = self.members[record]
        return per_example[
            members if isinstance(members, slice) else members.to(per_example.device)
        ]

    def reduce(self, per_example: torch.Tensor) -> torch.Tensor:
        """Returns sums over the examples of every record in fp32, shape [records, ...]."""
        per_example = per_example.float()
        if self.one_to_one:
            return per_example
        result = per_example.new_zeros((self.num_records, *per_example.shape[1:]))
        for record in range(self.num_records):
            if self.size(record):
                torch.sum(self.take(per_example, record), dim=0, out=result[record])
        return result

    def factors_of_examples(self, factors: torch.Tensor) -> torch.Tensor:
        """Returns every example's factor: its record's, or 0 for padding."""
        records = self.records.to(factors.device)
        if not self.num_records:
            return factors.new_zeros(self.examples)
        return torch.where(records >= 0, factors[records.clamp(min=0)], factors.new_zeros(()))


def _compact(examples: list[int]) -> slice | torch.Tensor:
    if examples and examples == list(range(examples[0], examples[-1] + 1)):
        return slice(examples[0], examples[-1] + 1)
    return torch.tensor(examples, dtype=torch.int64)
