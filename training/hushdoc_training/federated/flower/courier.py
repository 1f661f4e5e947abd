"""Courier processes: started with Flower's Python, fed over a socket without a name, stopped.

A courier gets bytes that were signed before, and what it needs to reach the other side. It has an
environment, a home and a log of its own; no key but a node's, no document, no model and no ledger
is ever given to it, and what it returns is believed as little as what comes from the network.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import hushdoc_training
from hushdoc.arguments import printable
from hushdoc.errors import HushdocError, InputError, MissingExtraError, PrivacyError
from hushdoc_training.federated.flower import wire

FLOWER = "1.41"
"""The minor version whose inner modules the couriers use; another one may have moved them."""

START_SECONDS = 120.0
"""For a courier to start and reach what it is to reach; Flower's imports alone take seconds."""

STOP_SECONDS = 40.0
"""For a courier to leave by itself once its line is closed, before it is ended."""

HURRY_SECONDS = 3.0
"""The same, where nothing that it carries is waited for any more."""

_LOOK_SECONDS = 0.5
"""Between two looks at whether its resident is to stop."""

_TAIL = 2000

# Our own packages come last, so that Flower's environment stays as it is; of them a courier imports
# nothing but `wire`.
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module("
    "'hushdoc_training.federated.flower.' + sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def flower_python(python: Path | None = None) -> Path:
    """Returns the Python that has Flower, this one unless another is named.

    Raises:
        MissingExtraError: It has no Flower.
        InputError: WRONG_FLOWER, where it has another version than the couriers are made for.
    """
    python = python or Path(sys.executable)
    ask = "from importlib.metadata import version; print(version('flwr'))"
    try:
        found = subprocess.run(
            [python, "-I", "-c", ask],
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingExtraError("flwr", "federated") from error
    if not found.startswith(f"{FLOWER}."):
        raise InputError(
            f"'{printable(python)}' has Flower {printable(found)}, and {FLOWER} is expected. "
            f"Install 'flwr=={FLOWER}.*' in an environment of its own and name its Python.",
            code="WRONG_FLOWER",
        )
    return python


class Courier:
    """A running courier process and the line to it; a context manager that stops it.

    Args:
        program: "link" for a server's, "node" for a client's.
        opening: The first message, with the settings.
        python: The Python that has Flower.
        log: File that its output is added to.
        stop: Whether nothing is to be waited for any more.

    Raises:
        HushdocError: COURIER_FAILED, where it ends or says nothing instead of starting.
        KeyboardInterrupt: It was to stop before it had started.
    """

    def __init__(
        self,
        program: str,
        opening: Sequence[bytes],
        *,
        python: Path,
        log: Path,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Starts the process and waits until it has reached what it is to reach."""
        self._log, self._stop = log, stop
        self._home = Path(tempfile.mkdtemp(prefix="hushdoc-courier-"))
        ours, theirs = socket.socketpair()
        self._line = wire.Line(ours)
        root = Path(hushdoc_training.__file__).parents[1]
        try:
            with theirs, log.open("ab") as output:
                self._process = subprocess.Popen(
                    [python, "-I", "-c", _START, root, program, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._home,
                    env=_environment(self._home),
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C is for the resident, which stops its courier
                )
        except OSError as error:
            ours.close()
            shutil.rmtree(self._home, ignore_errors=True)
            raise MissingExtraError("flwr", "federated") from error
        try:
            self.send(opening)
            if self.receive(START_SECONDS) is None:
                if stop():
                    raise KeyboardInterrupt
                raise self._failed("has not started after a long time")
        except BaseException:
            self.stop(0.0)
            raise

    def __enter__(self) -> Self:
        """Returns the courier."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stops the courier, in a hurry after an error."""
        self.stop(None if kind is None else HURRY_SECONDS)

    @property
    def process_id(self) -> int:
        """The process's number."""
        return self._process.pid

    def send(self, parts: Sequence[bytes]) -> None:
        """Sends a message; COURIER_FAILED where the courier is gone or takes nothing."""
        try:
            self._line.send(parts)
        except wire.WireError as error:
            raise self._failed("took no message") from error

    def receive(self, seconds: float) -> list[bytes] | None:
        """Returns the next message, None where none comes in time, or it is to stop before.

        COURIER_FAILED where the courier is gone.
        """
        until, left = time.monotonic() + seconds, seconds
        try:
            while (found := self._line.receive(seconds=min(left, _LOOK_SECONDS))) is None:
                left = until - time.monotonic()
                if left <= 0 or self._stop():
                    return None
            return found
        except wire.WireError as error:
            raise self._failed("ended") from error

    def stop(self, seconds: float | None = None) -> None:
        """Closes the line, and ends the process if it does not leave by itself in time."""
        self._line.close()
        patience = STOP_SECONDS if seconds is None else seconds
        for signal in (None, self._process.terminate, self._process.kill):
            if signal is not None:
                signal()
                patience = STOP_SECONDS
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
                break
        shutil.rmtree(self._home, ignore_errors=True)

    def _failed(self, what: str) -> HushdocError:
        status = None
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(STOP_SECONDS)  # why it ends, it may say last
        try:
            lines = self._log.read_bytes()[-_TAIL:].decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        last = next((line for line in reversed(lines) if line.strip()), "nothing")
        if status == wire.WRONG_CERTIFICATE:
            return PrivacyError(
                f"{printable(last, 300)} Whoever answers at this address is not the server of "
                "this federation, or its certificate is for other names. Compare ca.pem and "
                "the address with the coordinator.",
                code="WRONG_CERTIFICATE",
            )
        return HushdocError(
            f"The courier process {what}. The last line of '{printable(self._log)}' is: "
            f"{printable(last, 300)} Check address, certificates and keys, then run the same "
            "command again.",
            code="COURIER_FAILED",
        )


def _environment(home: Path) -> dict[str, str]:
    """Returns an environment without what ours may hold; Flower tells and asks nobody anything."""
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
