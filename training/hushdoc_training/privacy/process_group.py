"""Several processes that train one model: who they are, and what they agree on.

Every process draws the same records from a secret that the first one shares, computes its part of
them, and receives the sum over all. The first process alone charges the budget, and adds noise
where every process has the whole sum; what differs for sharded models stands in `sharding`. Only
torch.distributed's own broadcast, all_gather and all_reduce are used; without it, or in a group of
one, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import distributed as dist

from hushdoc.errors import PrivacyError
from hushdoc_training.randomness.secret_stream import SystemKey

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Group:
    """The processes that train together; without a `handle`, all of torch.distributed's."""

    rank: int
    size: int
    handle: Any = None

    @classmethod
    def current(cls, handle: Any = None) -> Group:
        """Returns the group that torch.distributed was started with; else a group of one.

        A PrivacyError refuses a process outside of the group, whose sums nobody would add noise to.
        """
        if not (dist.is_available() and dist.is_initialized()):
            return cls(rank=0, size=1)
        rank = dist.get_rank(handle)
        if rank < 0:
            raise PrivacyError(
                f"Process {dist.get_rank()} is not in the group that `processes` names, and would "
                "neither charge steps nor add noise. Train in the processes of the group alone."
            )
        return cls(rank=rank, size=dist.get_world_size(handle), handle=handle)

    @property
    def is_first(self) -> bool:
        """Whether this process charges and adds noise."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Returns this process's part of what all of them know."""
        return list(items[self.rank :: self.size])

    def secret(self) -> SystemKey:
        """Returns a key that all processes share and nobody else knows."""
        shared: SystemKey = self._from_first(SystemKey())
        return shared

    def require_agreement(self, facts: Mapping[str, Any]) -> None:
        """Raises PrivacyError, in every process, where a fact is not the same in all."""
        if self.size == 1:
            return
        gathered: list[Any] = [None] * self.size
        dist.all_gather_object(gathered, dict(facts), group=self.handle)
        differing = [
            name for name in facts if any(one.get(name) != facts[name] for one in gathered)
        ]
        if differing:
            raise PrivacyError(
                f"The {self.size} processes differ in {', '.join(differing)}, so what they sum is "
                "not one private step. Give all of them the same versions, plan, settings, model "
                "and records in the same order; each takes its own part by itself."
            )

    def first_does(self, action: Callable[[], None]) -> None:
        """Runs an action in the first process; where it fails there, all processes raise."""
        if self.size == 1:
            action()
            return
        failure: BaseException | None = None
        if self.is_first:
            try:
                action()
            except Exception as error:
                failure = error
        problem = self._from_first(None if failure is None else str(failure))
        if failure is not None:
            raise failure
        if problem is not None:
            raise PrivacyError(f"The first process could not go on: {problem}")

    def copy_from_first(self, tensors: Iterable[torch.Tensor]) -> None:
        """Gives every process the first one's values."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, self._source, group=self.handle)

    def sum(self, tensors: Iterable[torch.Tensor]) -> None:
        """Puts the sum over all processes in each tensor's place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor, group=self.handle)

    def most(self, number: int) -> int:
        """Returns the largest number that a process has."""
        if self.size == 1:
            return number
        gathered: list[int] = [0] * self.size
        dist.all_gather_object(gathered, number, group=self.handle)
        return max(gathered)

    def any_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns what any process names, each once, in one order."""
        if self.size == 1:
            return tuple(names)
        gathered: list[Iterable[str]] = [()] * self.size
        dist.all_gather_object(gathered, tuple(names), group=self.handle)
        return tuple(dict.fromkeys(name for some in gathered for name in some))

    @property
    def _source(self) -> int:
        """The first process as torch.distributed numbers it, in the group of all."""
        return 0 if self.handle is None else dist.get_global_rank(self.handle, 0)

    def _from_first(self, value: Any) -> Any:
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, self._source, group=self.handle)
        return box[0]
