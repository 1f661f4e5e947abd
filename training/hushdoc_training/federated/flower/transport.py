"""Frames between server and clients over Flower, as `deliver` of a coordinator's transport."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from hushdoc.errors import HushdocError
from hushdoc_training.federated.flower.courier import HURRY_SECONDS, Courier

IDLE_SECONDS = 5.0
"""A client that was asked nothing for so long is asked for news."""

LINGER_SECONDS = 30.0
"""For the last messages to be taken, and answered, before a courier leaves."""

_TRY_SECONDS = 60.0
"""For one courier to reach the server."""

_AGAIN_SECONDS = 3.0
"""Between two couriers."""

_PAUSE = 0.2
"""Seconds between two looks of a courier at the network."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where a server listens, and who is let in.

    Attributes:
        host: Address or name that it binds.
        port: TCP port.
        certificate: File of the certificate that clients verify, PEM.
        key: File of its private key, PEM.
        nodes: Public keys of the clients' nodes by client, PEM.
        python: The Python that has Flower.
        log: File for what the courier prints.
    """

    host: str
    port: int
    certificate: Path
    key: Path
    nodes: Mapping[str, bytes]
    python: Path
    log: Path


class FlowerLink:
    """The server's end: a transport that hands frames to clients and returns theirs.

    Raises:
        HushdocError: COURIER_FAILED, here and in `deliver`; the run can be taken up again.
    """

    def __init__(self, door: Door, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Starts the courier, and returns once it listens.

        Args:
            door: Where it listens, and who is let in.
            stop: Whether nobody is to be waited for any more: `deliver` returns then.
        """
        settings = {
            "host": door.host,
            "port": door.port,
            "certificate": str(door.certificate.absolute()),
            "key": str(door.key.absolute()),
            "clients": list(door.nodes),
            "pause": _PAUSE,
            "idle": IDLE_SECONDS,
            "linger": LINGER_SECONDS,
        }
        opening = [json.dumps(settings).encode(), *door.nodes.values()]
        self._stop = stop
        self._courier = Courier("link", opening, python=door.python, log=door.log, stop=stop)

    def __enter__(self) -> Self:
        """Returns the transport."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stops, at once after an error or a stop, else when the last frames are taken."""
        try:
            if kind is None and not self._stop():
                self._finish()
        finally:
            self._courier.stop()

    @property
    def process_id(self) -> int:
        """The courier's number."""
        return self._courier.process_id

    def now(self) -> float:
        """Returns the time (seconds) by which deadlines are given."""
        return time.monotonic()

    def deliver(
        self, frames: Sequence[tuple[str, bytes]], deadline: float
    ) -> list[tuple[str, bytes]]:
        """Hands frames over; returns what came as soon as something did, or nothing in time.

        Args:
            frames: Recipient and encoded frame; those for one recipient stay in this order. One
                that a client has not taken by the deadline is dropped.
            deadline: When to return at the latest, by `time.monotonic`.

        Returns:
            Sender, as Flower knows it, and what it sent, which proves nothing before its
            signature is verified.
        """
        seconds = max(0.0, deadline - time.monotonic())
        for name in dict.fromkeys(recipient for recipient, _ in frames):
            header = json.dumps({"to": name, "seconds": seconds}).encode()
            self._courier.send([header, *(data for to, data in frames if to == name)])
        return self._received(seconds)

    def _received(self, seconds: float) -> list[tuple[str, bytes]]:
        parts = self._courier.receive(seconds)
        if parts is None:
            return []
        sender = json.loads(parts[0])["from"]
        return [(sender, data) for data in parts[1:]]

    def _finish(self) -> None:
        """Waits until the clients have taken what they were sent last."""
        self._courier.send([b"{}"])
        until = time.monotonic() + LINGER_SECONDS
        while (left := until - time.monotonic()) > 0:
            if self._courier.receive(left) in (None, [b"finished"]):
                return


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a client's courier reaches the server.

    Attributes:
        server: Address and port, as in the server's certificate.
        authority: Certificate that the server's must be signed by, PEM.
        key: Private key of the client's node, PEM; it opens the door and signs no frame.
        python: The Python that has Flower.
        log: File for what the courier prints.
        wait: Seconds without a word from the server after which the client gives up.
    """

    server: str
    authority: bytes
    key: bytes
    python: Path
    log: Path
    wait: float = 600.0


class Answering(Protocol):
    """A client's side of the conversation."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to say."""

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""

    def answer(self, frames: list[bytes]) -> list[bytes]:
        """Returns what to say to these frames; no frames are a question for news."""

    def tick(self) -> None:
        """Is called every few seconds, whether something came or not."""


def serve(
    client: Answering,
    way: Way,
    report: Callable[[str], None],
    *,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Answers the server's messages until the client is finished, or idle and to stop.

    A courier that ended is started again as long as the server was heard of within the wait.

    Raises:
        HushdocError: COURIER_FAILED, SERVER_SILENT: nothing was heard for so long.
        PrivacyError: WRONG_CERTIFICATE: another server answers.
        KeyboardInterrupt: It was to stop before the server was reached.
    """

    def is_to_stop() -> bool:
        return stop() and client.idle

    settings = {
        "server": way.server,
        "seconds": min(way.wait, _TRY_SECONDS),
        "pause": _PAUSE,
        "linger": LINGER_SECONDS,
    }
    opening = [json.dumps(settings).encode(), way.authority, way.key]
    heard, said = time.monotonic(), False
    while not client.finished and not is_to_stop():
        try:
            with Courier(
                "node", opening, python=way.python, log=way.log, stop=is_to_stop
            ) as courier:
                while not client.finished and not is_to_stop():
                    client.tick()
                    left = heard + way.wait - time.monotonic()
                    asked = courier.receive(min(left, IDLE_SECONDS))
                    if asked is not None:
                        heard, answer = time.monotonic(), client.answer(asked)
                        courier.send(answer)
                        said = bool(answer)
                    elif left <= IDLE_SECONDS and not is_to_stop():
                        raise _silent(way)
                if is_to_stop() and not said:  # else the courier leaves once that was taken
                    courier.stop(HURRY_SECONDS)
        except HushdocError as error:
            if error.code != "COURIER_FAILED" or time.monotonic() - heard > way.wait:
                raise
            report(str(error))
            client.tick()
            time.sleep(_AGAIN_SECONDS)


def _silent(way: Way) -> HushdocError:
    return HushdocError(
        f"The server at {way.server} said nothing for {way.wait:g} seconds. Ask whether it still "
        "runs, then run the same command again: the run goes on where it stopped.",
        code="SERVER_SILENT",
    )
