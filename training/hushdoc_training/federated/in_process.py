"""Clients in the coordinator's own process: for simulations, and for tests of everything else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from hushdoc_training.federated.client import Client
from hushdoc_training.federated.coordinator import Outgoing


class InProcess:
    """Calls the clients one after the other; a wait that nobody ends takes no time."""

    def __init__(self, clients: Mapping[str, Client]) -> None:
        """Takes the clients by name; one that is left out is never there."""
        self._clients, self._skipped = clients, 0.0

    def now(self) -> float:
        """Returns the time, waits that were skipped included."""
        return time.monotonic() + self._skipped

    def deliver(self, frames: Sequence[Outgoing], deadline: float) -> Iterator[tuple[str, bytes]]:
        """Yields what clients answer, each before the next one is called."""
        answered = False
        for name, data in frames:
            client = self._clients.get(name)
            for answer in () if client is None else client.receive(data, self.now()):
                answered = True
                yield name, answer
        if not answered:  # nobody has anything left to say
            self._skipped += max(0.0, deadline - self.now()) + 1e-3
            for waiting in self._clients.values():
                waiting.tick(self.now())
