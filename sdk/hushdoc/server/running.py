"""Running: one process that answers until it is told to stop, and then finishes what it took."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from fastapi import FastAPI

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


def server(app: FastAPI, address: Address, limits: Limits) -> uvicorn.Server:
    """Returns the server of an application; `run` with a socket begins it."""
    config = uvicorn.Config(
        app,
        http="h11",  # which bounds the head of a request; httptools does not
        loop="asyncio",
        log_config=None,
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


def run(app: FastAPI, address: Address, limits: Limits, bound: socket.socket) -> None:
    """Answers until the process is told to stop (SIGTERM, Ctrl-C)."""
    with closing(bound):
        server(app, address, limits).run(sockets=[bound])
