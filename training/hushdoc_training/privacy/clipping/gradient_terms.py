"""What a backward pass leaves of a parameter's per-record gradients before they are clipped.

A parameter's gradient is a sum of parts, one for every time that the model uses it:

    Products    sum over positions of u_t (outer product) v_t: linear layers. Kept as the pair.
    Formed      the same where the gradients by record are not much larger than the pair
    Lookups     sum over positions of e_index(t) (outer product) g_t: embeddings. Kept as the pair.
    Convolved   the pair of a convolution whose weight is larger than its images
    PerExample     gradients of a tensor whose first axis is the batch's

Biases, normalisations and other small things are added up by record at once (`Target.dense`).
Everything here computes in fp32. What a sum of parts is wrong by grows with the parts: where those
of a record all but cancel, a norm says nothing of another sum of them. So these records are
`cancelled`, and the very tensor that was measured is added; `Lookups` adds up its rows first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from hushdoc_training.privacy.clipping.grouping import Grouping

_TILE = 64
# Below this share of the trace a sum of a Gram product is mostly cancellation: computed otherwise.
CANCELLED = 1e-2
# Squared norms above this may stand beside squares that vanish in fp32, though products do not.
_LARGEST = 1e16


class Part(Protocol):
    """A share of a parameter's per-record gradients."""

    def of(self, record: int) -> torch.Tensor:
        """Returns one record's gradient, fp32, in the parameter's shape."""
        ...

    def squares(self) -> torch.Tensor:
        """Returns the squared norms of the records' gradients, shape [records]."""
        ...

    def add_to(self, total: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds the sum of factor * gradient over the records; a factor of 0 leaves one out."""
        ...


class Products:
    """Pairs of a linear layer: v is its input, u the gradient of its output."""

    def __init__(self, grouping: Grouping, u: torch.Tensor, v: torch.Tensor) -> None:
        """Keeps u, shape [examples, positions, p], and v, shape [examples, positions, d]."""
        self.grouping = grouping
        self.u = u
        self.v = v
        self.cancelled: list[int] = []  # of those that `squares` measured

    def pair(self, record: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns u [t, p] and v [t, d] of one record."""
        u = self.grouping.take(self.u, record).flatten(0, 1)
        v = self.grouping.take(self.v, record).flatten(0, 1)
        return u.float(), v.float()

    def of(self, record: int) -> torch.Tensor:
        """Returns one record's gradient [p, d]."""
        u, v = self.pair(record)
        return u.t() @ v

    def formed(self, record: int) -> torch.Tensor:
        """Returns one record's gradient, multiplied in the pair's own precision, then fp32.

        In bfloat16 this is what an ordinary backward pass computes, several times faster. Only for
        those who take norm and sum from the very tensor returned.
        """
        u = self.grouping.take(self.u, record).flatten(0, 1)
        v = self.grouping.take(self.v, record).flatten(0, 1)
        return (u.t() @ v).float() if u.dtype == v.dtype else u.float().t() @ v.float()

    def squares(self) -> torch.Tensor:
        """Returns squared norms by Gram matrices, or by the gradient where that is cheaper."""
        if self.grouping.one_to_one and self.u.shape[1] == 1:
            # In fp32 the squares of one may vanish beside a large other.
            u, v = self.u.double().squeeze(1), self.v.double().squeeze(1)
            return (u.square().sum(1) * v.square().sum(1)).float()
        result = self.u.new_zeros(self.grouping.num_records, dtype=torch.float32)
        for record in range(self.grouping.num_records):
            result[record] = self._square(record)
        return result

    def add_to(self, total: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds the clipped sum in one matrix product."""
        by_example = self.grouping.factors_of_examples(factors)
        kept = kept_examples(by_example)
        u, v = (self.u, self.v) if kept is None else (self.u[kept], self.v[kept])
        scale = (by_example if kept is None else by_example[kept]).reshape(-1, 1, 1)
        # The narrower of the two is copied.
        u, v = (u * scale, v) if u.shape[2] <= v.shape[2] else (u, v * scale)
        total.addmm_(u.flatten(0, 1).float().t(), v.flatten(0, 1).float())

    def _square(self, record: int) -> torch.Tensor:
        u, v = self.pair(record)
        positions, p = u.shape
        if positions * (p + v.shape[1]) < 2 * p * v.shape[1]:
            square, trace = gram(u, v)
            if square > CANCELLED * trace:
                return square
            square = (u.t() @ v).square().sum()
        else:
            square, trace = (u.t() @ v).square().sum(), (u.square().sum(1) @ v.square().sum(1))
        if is_cancelled(square, trace):
            self.cancelled.append(record)
        return square


class Formed:
    """Gradients by record of one weight, each a tensor of its own.

    One tensor for all would be so large that the system hands out fresh pages for it in every step,
    which takes longer than the arithmetic.
    """

    def __init__(self, part: Part, num_records: int) -> None:
        """Forms them from a pair."""
        self._gradients: list[torch.Tensor] = []
        squares = []
        for record in range(num_records):
            gradient = _formed(part, record)
            # While it is in the cache.
            squares.append(torch.dot(gradient.view(-1), gradient.view(-1)))
            self._gradients.append(gradient)
        self._squares: torch.Tensor | None = torch.stack(squares)

    def include(self, part: Part) -> None:
        """Adds another use of the same weight."""
        for record, gradient in enumerate(self._gradients):
            gradient.add_(_formed(part, record))
        self._squares = None

    def of(self, record: int) -> torch.Tensor:
        """Returns one record's gradient."""
        return self._gradients[record]

    def squares(self) -> torch.Tensor:
        """Returns squared norms."""
        if self._squares is None:
            self._squares = torch.stack([gradient.square().sum() for gradient in self._gradients])
        return self._squares

    def add_to(self, total: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds the clipped sum, letting go of one gradient after the other."""
        for factor in reversed(factors.tolist()):
            gradient = self._gradients.pop()
            if factor > 0:
                total.add_(gradient, alpha=factor)


def _formed(part: Part, record: int) -> torch.Tensor:
    return part.formed(record) if isinstance(part, Products) else part.of(record)


class Lookups:
    """Pairs of an embedding: the index of a row of the table, and the gradient of what came out."""

    def __init__(
        self,
        grouping: Grouping,
        index: torch.Tensor,
        gradient: torch.Tensor,
        *,
        shape: torch.Size,
        padding: int | None,
    ) -> None:
        """Keeps the pairs of examples that belong to a record, padding of the table left out."""
        self.shape = shape
        self.num_records = grouping.num_records
        records = grouping.records.to(index.device).unsqueeze(1).expand_as(index)
        kept = records >= 0
        if padding is not None:
            kept = kept & (index != padding)
        if bool(kept.all()):
            self.records, self.index = records.reshape(-1), index.reshape(-1)
            self.gradient = gradient.flatten(0, 1)
        else:
            self.records, self.index = records[kept], index[kept]
            self.gradient = gradient[kept]

    def of(self, record: int) -> torch.Tensor:
        """Returns one record's gradient: as large as the table."""
        mine = self.records == record
        table = self.gradient.new_zeros(self.shape, dtype=torch.float32)
        return table.index_add_(0, self.index[mine], self.gradient[mine].float())

    def dense(self) -> torch.Tensor:
        """Returns all records' gradients, shape [records, *shape]."""
        table = self.gradient.new_zeros(
            (self.num_records * self.shape[0], *self.shape[1:]), dtype=torch.float32
        )
        table.index_add_(0, self.records * self.shape[0] + self.index, self.gradient.float())
        return table.reshape(self.num_records, *self.shape)

    def include(self, other: Lookups) -> None:
        """Takes over another use of the same table."""
        self.records = torch.cat([self.records, other.records])
        self.index = torch.cat([self.index, other.index])
        self.gradient = torch.cat([self.gradient.float(), other.gradient.float()])

    def squares(self) -> torch.Tensor:
        """Returns squared norms: gradients of equal (record, index) are added up for good."""
        cells, inverse = torch.unique(
            self.records * self.shape[0] + self.index, return_inverse=True
        )
        gradient = self.gradient.float()
        summed = gradient.new_zeros((len(cells), *gradient.shape[1:]))
        self.gradient = summed.index_add_(0, inverse, gradient)
        self.records, self.index = cells // self.shape[0], cells % self.shape[0]
        result = summed.new_zeros(self.num_records)
        return result.index_add_(0, self.records, summed.flatten(1).square().sum(1))

    def add_to(self, total: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds the clipped sum row by row of the table."""
        scale = factors[self.records]
        kept = kept_examples(scale)
        if kept is None:
            total.index_add_(0, self.index, self.gradient * scale.unsqueeze(1))
        else:
            total.index_add_(
                0, self.index[kept], self.gradient[kept].float() * scale[kept].unsqueeze(1)
            )


class PerExample:
    """Gradients of a tensor whose first axis already is the batch's."""

    def __init__(self, grouping: Grouping, gradient: torch.Tensor) -> None:
        """Keeps gradients, shape [examples, ...]."""
        self.grouping = grouping
        self.gradient = gradient

    def of(self, record: int) -> torch.Tensor:
        """Returns one record's gradient: zero in all other rows."""
        mine = (self.grouping.records == record).nonzero().squeeze(1).to(self.gradient.device)
        result = torch.zeros_like(self.gradient, dtype=torch.float32)
        result[mine] = self.gradient[mine].float()
        return result

    def squares(self) -> torch.Tensor:
        """Returns squared norms."""
        return self.grouping.reduce(self.gradient.float().flatten(1).square().sum(1))

    def add_to(self, total: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds every example, scaled."""
        by_example = self.grouping.factors_of_examples(factors)
        scale = by_example.reshape(-1, *[1] * (self.gradient.dim() - 1))
        total.add_(torch.where(scale > 0, self.gradient.float() * scale, scale.new_zeros(())))


def gram(u: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the squared norm of u^T v (shapes [t, p], [t, d]), not formed, and the trace.

    The trace is infinite where squares may have vanished, as where all of them cancel.
    """
    square, trace = u.new_zeros(()), u.new_zeros(())
    for start in range(0, u.shape[0], _TILE):
        stop = start + _TILE
        # The matrix is symmetric: a tile right of the diagonal counts twice.
        product, other = u[start:stop] @ u[start:].t(), v[start:stop] @ v[start:].t()
        trace = trace + _unless_large(product) + _unless_large(other)
        product.mul_(other)
        trace = trace + product.diagonal().sum()
        square = square + 2 * product.sum() - product[:, :_TILE].sum()
    return square, trace


def cross_square(parts: Sequence[Products | Lookups], record: int) -> torch.Tensor | None:
    """Returns the squared norm of a sum of parts for one record; None where they all but cancel."""
    pairs = [_indexed_pair(part, record) for part in parts]
    total, trace = pairs[0][1].new_zeros(()), pairs[0][1].new_zeros(())
    for i, (u, v) in enumerate(pairs):
        for j, (other_u, other_v) in enumerate(pairs[i:]):
            first, second = _u_gram(u, other_u), v @ other_v.t()
            if j == 0:
                trace = trace + _unless_large(first) + _unless_large(second)
            product = first * second
            total = total + (product.sum() if j == 0 else 2 * product.sum())
            if j == 0:
                trace = trace + product.diagonal().sum()
    return total if total > CANCELLED * trace else None


def _unless_large(products: torch.Tensor) -> torch.Tensor:
    """Returns 0, or infinity where a square on the diagonal is large."""
    largest = products.diagonal().amax() if len(products) else products.new_zeros(())
    return torch.where(largest > _LARGEST, torch.inf, 0.0)


def is_cancelled(square: torch.Tensor, trace: torch.Tensor) -> bool:
    """Returns whether positions whose squared norms add up to a trace all but cancel."""
    return bool((trace > 0) & ~(square > CANCELLED * trace))


def kept_examples(factors: torch.Tensor) -> torch.Tensor | None:
    """Returns the factors above 0, None for all: what is left out may be infinite."""
    kept = factors > 0
    return None if bool(kept.all()) else kept.nonzero().squeeze(1)


def _indexed_pair(part: Products | Lookups, record: int) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(part, Products):
        return part.pair(record)
    mine = part.records == record
    return part.index[mine], part.gradient[mine].float()


def _u_gram(u: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    # A vector of indices stands for one-hot rows.
    if u.dim() == 1 and other.dim() == 1:
        return (u.unsqueeze(1) == other.unsqueeze(0)).float()
    if u.dim() == 1:
        return other[:, u].t()
    if other.dim() == 1:
        return u[:, other]
    return u @ other.t()
