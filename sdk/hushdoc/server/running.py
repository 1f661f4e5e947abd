"""Running: one process that answers until it is told to stop, and then finishes what it took."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from hushdoc.errors import InputError
from hushdoc.server.limits import Limits


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a server listens: a host, a port (0 for a free one), and its key for TLS."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def listening(address: Address) -> socket.socket:
    """Returns a socket that takes connections already; InputError (ADDRESS_IN_USE) otherwise."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Named, since asyncio sends small answers at once on sockets of this protocol alone.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address.host, address.port))
        found.listen(2048)
    except OSError as error:
        found.close()
        raise InputError(
            f"The server can't listen on {address.host}, port {address.port}: {error.strerror}. "
            "Name another one by --host and --port.",
            code="ADDRESS_IN_USE",
        ) from error
    return found


class _Protocol(H11Protocol):
    """HTTP by h11, which bounds a request's head; clients have no more time than limits allow.

    Their time runs while they send a head, until it is whole, and while they take an answer.
    """

    limits: Limits
    _timer: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # as uvicorn's own
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering() and not self.flow.write_paused:
            self._stop_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering():  # a next request that was there already
            self._start_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_answering():
            self._stop_timer()
        else:
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and self.cycle.response_started and self._is_answering():
            self.transport.abort()  # what comes after a refusal is no request any more
        else:
            super().send_400_response(msg)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_timer(self) -> None:
        self._stop_timer()
        paused = self.flow.write_paused
        seconds = self.limits.answer_seconds if paused else self.limits.upload_seconds
        # Closing would wait for a client that takes nothing.
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def server(app: FastAPI, address: Address, limits: Limits) -> uvicorn.Server:
    """Returns the server of an application; `run` with a socket begins it."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it tells of bytes of a form
    config = uvicorn.Config(
        app,
        http=type("Protocol", (_Protocol,), {"limits": limits}),
        loop="asyncio",
        log_config=None,
        log_level="error",  # what it warns of is no line of JSON, and the client is told of it
        access_log=False,  # its lines hold queries
        server_header=False,
        date_header=True,
        limit_concurrency=limits.max_connections,
        timeout_keep_alive=15,
        # What was taken is finished: waiting for a turn, then answering.
        timeout_graceful_shutdown=int(2 * limits.answer_seconds) + 1,
        h11_max_incomplete_event_size=16 * 1024,
        ssl_certfile=None if address.certificate is None else str(address.certificate),
        ssl_keyfile=None if address.key is None else str(address.key),
    )
    try:
        config.load()
    except (OSError, ValueError) as error:  # an ssl.SSLError is an OSError
        raise InputError(
            f"The certificate and key for TLS can't be used: {error}. Expected two files in PEM "
            "that belong together."
        ) from error
    return uvicorn.Server(config)


def run(made: uvicorn.Server, bound: socket.socket) -> None:
    """Answers until the process is told to stop: by Ctrl-C, or SIGTERM, which is no failure."""
    # uvicorn sends itself the signal that ended it again, to whoever listened before.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with closing(bound):
            made.run(sockets=[bound])
    finally:
        signal.signal(signal.SIGTERM, before)
