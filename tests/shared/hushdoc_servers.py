"""Servers for tests: the real application behind a real socket on loopback, in a thread."""

from __future__ import annotations

import http.client
import io
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hushdoc.policy.policy import Policy
from hushdoc.runtime.session import Runtime
from hushdoc.server import app, running
from hushdoc.server.limits import Limits
from hushdoc.server.served import Served, ServedModels
from hushdoc.server.tokens import Tokens

BOUNDARY = "a-boundary-of-these-tests"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        code: str = self.json["code"]
        return code


@dataclass(kw_only=True)
class Running:
    """A server that runs; `log` is what it wrote."""

    port: int
    models: ServedModels
    log: io.StringIO
    context: ssl.SSLContext | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def connection(self) -> http.client.HTTPConnection:
        if self.context is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=120, context=self.context
        )

    def ask(self, path: str, body: Any = None, kind: str = "", **headers: str) -> Reply:
        """Sends one request, by POST where it has a body."""
        connection = self.connection()
        sent = {**self.headers, **({"Content-Type": kind} if kind else {}), **headers}
        connection.request("GET" if body is None else "POST", path, body, sent)
        found = connection.getresponse()
        received = {key.lower(): value for key, value in found.getheaders()}
        reply = Reply(status=found.status, headers=received, body=found.read())
        connection.close()
        if "x-request-id" in received:  # its line is written once the answer is sent
            self.wait(lambda: received["x-request-id"] in self.log.getvalue())
        return reply

    def wait(self, done: Callable[[], bool]) -> None:
        """Waits until something is so, ten seconds at most."""
        end = time.monotonic() + 10
        while not done() and time.monotonic() < end:
            time.sleep(0.005)

    def form(self, path: str, *files: tuple[str, bytes], **fields: str) -> Reply:
        """Sends files and fields as a form."""
        return self.ask(path, form(*files, **fields), f"multipart/form-data; boundary={BOUNDARY}")

    def lines(self, least: int = 0) -> list[dict[str, Any]]:
        """Returns what was logged, once there are so many lines."""
        self.wait(lambda: self.log.getvalue().count("\n") >= least)
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def form(*files: tuple[str, bytes], **fields: str) -> bytes:
    parts = [
        *((f'name="file"; filename="{name}"', content) for name, content in files),
        *((f'name="{name}"', text.encode()) for name, text in fields.items()),
    ]
    body = b""
    for head, content in parts:
        opening = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n"
        body += opening.encode() + content + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode()


@contextmanager
def serving(
    artifacts: Mapping[str, Path],
    policy: Policy,
    *,
    limits: Limits | None = None,
    tokens: Tokens | None = None,
    tls: tuple[Path, Path] | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """Serves artifacts by their names until the block ends."""
    limits = limits or Limits()
    runtime = Runtime(threads=1)
    loaded = [Served.load(name, path, policy, runtime) for name, path in artifacts.items()]
    models = ServedModels(loaded, lambda: policy)
    log = io.StringIO()
    built = app.build(models, limits=limits, tokens=tokens, ocr="none", log=log, **settings)
    certificate, key = tls or (None, None)
    address = running.Address(host="127.0.0.1", port=0, certificate=certificate, key=key)
    bound = running.listening(address)
    server = running.server(built, address, limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    context = None if certificate is None else ssl.create_default_context(cafile=str(certificate))
    try:
        yield Running(port=bound.getsockname()[1], models=models, log=log, context=context)
    finally:
        server.should_exit = True
        thread.join(60)
        bound.close()
        assert not thread.is_alive(), "the server did not end"
