"""Transports: whatever carries frames between the coordinator and clients, and the loop over one.

A transport is told where a frame goes, and knows nothing of what it says: it may lose, double,
delay or change frames, and the parties notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from hushdoc_training.federated.coordinator import Coordinator, Outgoing


class Transport(Protocol):
    """The coordinator's side of what carries frames."""

    def now(self) -> float:
        """Returns the time (seconds) by a clock that does not go back."""

    def deliver(self, frames: Sequence[Outgoing], deadline: float) -> Iterable[tuple[str, bytes]]:
        """Hands frames over, and returns what came, with who brought it.

        Args:
            frames: Each with the name of the client that it is for.
            deadline: Till when is waited for the first answer, by the clock of `now`.
        """


def drive(
    coordinator: Coordinator,
    transport: Transport,
    *,
    seen: Callable[[Coordinator], None] = lambda coordinator: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Runs a federated run from the coordinator's side, to its end or a pause between two rounds.

    Args:
        coordinator: Not started yet.
        transport: What carries its frames.
        seen: Is called whenever something may have changed, to show progress.
        stop: Whether to pause, after the round if one is under way.

    Raises:
        FederatedRunError: As of `Coordinator.receive` and `tick`.
        OutputWriteError: The disk is full.
    """
    out = coordinator.start(transport.now())
    while (deadline := coordinator.deadline) is not None:
        made: list[Outgoing] = []
        for _, data in transport.deliver(out, deadline):
            if stop():
                coordinator.pause()
            made += coordinator.receive(data, transport.now())
        if stop():
            coordinator.pause()
        made += coordinator.tick(transport.now())
        out = made
        seen(coordinator)
