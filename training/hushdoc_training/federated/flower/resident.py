"""Resident processes of a federated run: a client answers, a coordinator drives rounds."""

from __future__ import annotations

import time
from collections.abc import Callable

from hushdoc_training.federated.client import Client
from hushdoc_training.federated.coordinator import SUMMING, Coordinator
from hushdoc_training.federated.flower.transport import Door, FlowerLink, Way, serve
from hushdoc_training.federated.transport import drive


class Answers:
    """A client of a run, in its conversation with the server."""

    def __init__(self, client: Client, report: Callable[[str], None]) -> None:
        """Takes a client that nobody else drives, and whom to tell what it refused and why."""
        self._client, self._report, self._greeted = client, report, False

    @property
    def finished(self) -> bool:
        """Whether the coordinator has ended the run."""
        return self._client.closed

    @property
    def idle(self) -> bool:
        """Whether no round is under way."""
        return self._client.idle

    def tick(self) -> None:
        """Lets the client forget a round that nobody goes on with."""
        self._client.tick(time.monotonic())

    def answer(self, frames: list[bytes]) -> list[bytes]:
        """Returns the client's frames; the first question for news is answered by a greeting."""
        greets, self._greeted = not (frames or self._greeted), True
        if greets:
            return self._client.hello()
        said = [said for data in frames for said in self._client.receive(data, time.monotonic())]
        for told in self._client.news():
            self._report(told)
        return said


def take_part(
    client: Client,
    way: Way,
    report: Callable[[str], None],
    *,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Takes part in a run until its coordinator ends it; see `transport.serve`.

    However it ends, the client's secrets of sums are erased.

    Args:
        client: Goes on where its account stands.
        way: To the server.
        report: Is told what the client refused and why, for the documents' owner alone, and why a
            courier had to be started again.
        stop: Whether to leave, after the round if one is under way.
    """
    try:
        serve(Answers(client, report), way, report, stop=stop)
    finally:
        client.leave()


def coordinate(
    coordinator: Coordinator,
    door: Door,
    *,
    seen: Callable[[Coordinator], None] = lambda coordinator: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Drives a run over the network to its end or a pause; see `drive` and `FlowerLink`."""
    with FlowerLink(door, stop=lambda: stop() and coordinator.phase != SUMMING) as link:
        drive(coordinator, link, seen=seen, stop=stop)
