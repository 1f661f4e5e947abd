"""Collects the parts of per-record gradients during a backward pass, then clips and adds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from hushdoc_training.privacy.clipping.contract import Clipping
from hushdoc_training.privacy.clipping.convolutions import Convolution, Convolved
from hushdoc_training.privacy.clipping.gradient_terms import (
    Formed,
    Lookups,
    Part,
    PerExample,
    Products,
    cross_square,
    kept_examples,
)
from hushdoc_training.privacy.clipping.grouping import Grouping
from hushdoc_training.privacy.clipping.placement import Placement

# How many times larger than its pair a layer's per-record gradients may be and still be formed at
# once. They are paid for as the backward pass frees activations; a pair costs a second product and,
# on long sequences, more memory. Measured by benchmarks/dp_step.py.
FORMED_UP_TO = 2.5
# Gradients of all records that are formed in one go: fewer calls matter more than memory.
_SMALL = 1 << 18


def nodes(tensor: torch.Tensor) -> Iterator[Any]:
    """Yields every node of the graph that autograd would go back through from a tensor."""
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [following for following, _ in node.next_functions]


def leaves(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the tensors that a tensor was computed from and that autograd would give gradients."""
    variables = (getattr(node, "variable", None) for node in nodes(tensor))
    return (variable for variable in variables if variable is not None)


class Target:
    """A tensor that is the same for all examples: a parameter, or something computed from some."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Starts without gradients."""
        self.tensor = tensor
        self.dense: torch.Tensor | None = None
        self.parts: list[Part] = []
        self._formed: dict[int, torch.Tensor] = {}  # of records whose parts may all but cancel

    def add_dense(self, gradients: torch.Tensor) -> None:
        """Adds gradients by record, fp32, shape [records, *shape]; they become the target's own."""
        self.dense = gradients if self.dense is None else self.dense + gradients

    def of(self, record: int) -> torch.Tensor:
        """Returns one record's gradient."""
        total = torch.zeros_like(self.tensor, dtype=torch.float32)
        if self.dense is not None:
            total += self.dense[record]
        for part in self.parts:
            total += part.of(record)
        return total

    def squares(self, num_records: int) -> torch.Tensor:
        """Returns squared norms of the sums of all parts, shape [records]."""
        if not self.parts:
            return self._squares_of_dense(num_records)
        if self.dense is None and len(self.parts) == 1:
            return self._squares_of_part(self.parts[0])
        pairs = [part for part in self.parts if isinstance(part, Products | Lookups)]
        if self.dense is None and len(pairs) == len(self.parts):
            return torch.stack([self._crossed(pairs, record) for record in range(num_records)])
        self._formed = {record: self.of(record) for record in range(num_records)}
        self.dense, self.parts = None, []
        return torch.stack([gradient.square().sum() for gradient in self._formed.values()])

    def add_to(self, total: torch.Tensor, factors: torch.Tensor) -> None:
        """Adds the clipped sum to a running one, and lets go of everything."""
        if self._formed:
            factors = factors.clone()
        for record, gradient in self._formed.items():
            if factors[record] > 0:
                total.add_(gradient, alpha=float(factors[record]))
            factors[record] = 0
        self._formed.clear()
        if self.dense is not None:
            kept = kept_examples(factors)
            dense = self.dense if kept is None else self.dense[kept]
            scale = factors if kept is None else factors[kept]
            if len(scale):
                total.view(-1).addmv_(dense.reshape(len(scale), -1).t(), scale)
        self.dense = None
        while self.parts:
            self.parts.pop().add_to(total, factors)

    def _squares_of_part(self, part: Part) -> torch.Tensor:
        squares = part.squares()
        for record in part.cancelled if isinstance(part, Products | Convolved) else ():
            self._formed[record] = gradient = self.of(record)
            squares[record] = gradient.square().sum()
        return squares

    def _crossed(self, pairs: list[Products | Lookups], record: int) -> torch.Tensor:
        square = cross_square(pairs, record)
        if square is not None:
            return square
        # Kept, so that what is added has the very norm that it was clipped by.
        self._formed[record] = gradient = self.of(record)
        return gradient.square().sum()

    def _squares_of_dense(self, num_records: int) -> torch.Tensor:
        if self.dense is None:
            return torch.zeros(num_records, device=self.tensor.device)
        return torch.linalg.vector_norm(self.dense.reshape(num_records, -1), dim=1).square()


class Tape:
    """Everything that one physical batch leaves behind.

    `anchor` requires a gradient, so that the backward pass reaches every layer; `token` marks
    tensors as seen in this pass, without keeping the tape alive.
    """

    def __init__(self, grouping: Grouping, placement: Placement) -> None:
        """Starts empty."""
        self.grouping = grouping
        self._placement = placement
        self._parameters = parameters = placement.parameters
        self._targets = {id(p): Target(p) for p in parameters.values()}
        self._derived: list[Target] = []
        self.token = object()
        self.listening = True
        self.anchor = torch.zeros((), requires_grad=True)

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Takes nothing from backward passes inside the block."""
        self.listening = False
        try:
            yield
        finally:
            self.listening = True

    def target(self, tensor: torch.Tensor) -> Target:
        """Returns where the gradients of a parameter, or of something computed from some, go."""
        if id(tensor) not in self._targets:
            target = Target(tensor)  # keeps the tensor, so its id stays its own
            self._targets[id(tensor)] = target
            self._derived.append(target)
        return self._targets[id(tensor)]

    def add_products(self, target: Target, u: torch.Tensor, v: torch.Tensor) -> None:
        """Adds sum over positions of u (outer product) v; both are [examples, positions, width]."""
        if not self.listening:
            return
        pair = Products(self.grouping, u, v)
        if self.grouping.one_to_one and len(u) * target.tensor.numel() <= _SMALL:
            target.add_dense(torch.bmm(u.float().transpose(1, 2), v.float()))
        else:
            self._add_pair(target, pair, u.numel() + v.numel())

    def add_lookups(
        self, target: Target, index: torch.Tensor, gradient: torch.Tensor, padding: int | None
    ) -> None:
        """Adds gradients of looked-up rows: index [examples, positions], gradient [..., d]."""
        if not self.listening:
            return
        shape = target.tensor.shape
        part = Lookups(self.grouping, index, gradient, shape=shape, padding=padding)
        known = next((other for other in target.parts if isinstance(other, Lookups)), None)
        if self.grouping.num_records * shape[0] <= index.numel():
            target.add_dense(part.dense())
        elif known is not None:
            known.include(part)
        else:
            target.parts.append(part)

    def add_convolved(
        self, target: Target, image: torch.Tensor, gradient: torch.Tensor, settings: Convolution
    ) -> None:
        """Adds a convolution's weight gradients."""
        if not self.listening:
            return
        weight = target.tensor.detach()
        pair = Convolved(self.grouping, image, gradient, weight, settings)
        self._add_pair(target, pair, image.numel() + gradient.numel())

    def add_per_example(self, target: Target, gradient: torch.Tensor) -> None:
        """Adds gradients of a target whose first axis is the batch's: [examples, ...]."""
        if not self.listening:
            return
        target.parts.append(PerExample(self.grouping, gradient))

    def add_by_example(self, target: Target, gradient: torch.Tensor) -> None:
        """Adds gradients that every example has of its own, shape [examples, *shape]."""
        if not self.listening:
            return
        target.add_dense(self.grouping.reduce(gradient).reshape(-1, *target.tensor.shape))

    def squares(self) -> dict[str, torch.Tensor]:
        """Returns every parameter's squared norms by record; derived tensors are resolved first."""
        for target in self._derived:
            # What it was computed by may have kept values of parameters.
            with self._placement.gathered(self._origin(target.tensor)):
                self._resolve(target)
        self._derived.clear()
        return {
            name: self._targets[id(p)].squares(self.grouping.num_records)
            for name, p in self._parameters.items()
        }

    def clip_into(
        self,
        sums: Mapping[str, torch.Tensor],
        squares: Mapping[str, torch.Tensor],
        clipping: Clipping,
    ) -> None:
        """Adds all clipped sums, freeing layer by layer."""
        factors = clipping.factors(squares)
        for name, parameter in self._parameters.items():
            target = self._targets[id(parameter)]
            self._placement.add(sums, name, partial(target.add_to, factors=factors[name]))

    def _add_pair(self, target: Target, pair: Part, size: int) -> None:
        records = self.grouping.num_records
        formed = next((part for part in target.parts if isinstance(part, Formed)), None)
        if formed is not None:
            formed.include(pair)
        elif records * target.tensor.numel() <= FORMED_UP_TO * size:
            target.parts.append(Formed(pair, records))
        else:
            target.parts.append(pair)

    def _origin(self, tensor: torch.Tensor) -> set[str]:
        names = {id(p): name for name, p in self._parameters.items()}
        return {names[key] for key in map(id, leaves(tensor)) if key in names}

    def _resolve(self, target: Target) -> None:
        # Record by record from the derived tensor to the parameters that it was computed from.
        if target.dense is None and not target.parts:
            return
        parameters = list(self._parameters.values())
        collected: dict[int, torch.Tensor] = {}
        records = self.grouping.num_records
        for record in range(records):
            found = torch.autograd.grad(
                target.tensor,
                parameters,
                target.of(record).to(target.tensor.dtype),
                retain_graph=True,
                allow_unused=True,
            )
            for parameter, gradient in zip(parameters, found, strict=True):
                if gradient is not None:
                    if id(parameter) not in collected:
                        shape = (records, *gradient.shape)
                        collected[id(parameter)] = torch.zeros(shape, device=gradient.device)
                    collected[id(parameter)][record] = gradient
        for key, gradients in collected.items():
            self._targets[key].add_dense(gradients)
