"""The first Ctrl-C ends a party that waits for others, and lets a round that is under way end.

Couriers are scripts that speak with their resident as those with Flower do, and with nobody else.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hushdoc_witnessed
import pytest
from hushdoc_command_runs import run
from hushdoc_parties import Federation, plan

from hushdoc_training.federated.flower import resident
from hushdoc_training.federated.flower.courier import Courier
from hushdoc_training.federated.flower.transport import Door, FlowerLink, Way, serve
from hushdoc_training.federated.transport import drive
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.runs import state

COURIER = f"""#!{sys.executable}
import socket, sys, time
if len(sys.argv) == 4: sys.exit(print("1.41.0"))  # which Flower is here?
sys.path.append(sys.argv[-3])
from hushdoc_training.federated.flower import wire
line = wire.Line(socket.socket(fileno=int(sys.argv[-1])))
line.receive(seconds=60)
"""
DEAF = f"{COURIER}time.sleep(60)\n"  # it reaches nobody
ALONE = f"{COURIER}line.send([b'ready'])\nwhile True: line.receive(seconds=60)\n"
BUSY = f"{COURIER}line.send([b'ready'])\ntime.sleep(60)\n"  # it does not see that its line closes
ASKING = (
    f"{COURIER}line.send([b'ready'])\nwhile True: line.send([]); line.receive(seconds=9); "
    "time.sleep(.1)\n"
)


def courier(folder: Path, text: str) -> Path:
    made = folder / "python"
    made.write_text(text)
    made.chmod(0o755)
    return made


def door(folder: Path, text: str) -> Door:
    return Door(
        host="127.0.0.1",
        port=1,
        certificate=folder / "server.pem",
        key=folder / "server-key.pem",
        nodes={},
        python=courier(folder, text),
        log=folder / "link.log",
    )


def way(folder: Path, text: str) -> Way:
    python, log = courier(folder, text), folder / "node.log"
    return Way(server="127.0.0.1:1", authority=b"", key=b"", python=python, log=log)


@contextmanager
def pressed_at(kind: type[Any], name: str) -> Iterator[Callable[[], bool]]:
    """Presses Ctrl-C once, a moment after a method was called; then all has to end soon."""
    press = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    method, called = getattr(kind, name), []

    def noted(*given: Any) -> Any:
        if not called:
            press.start()
        called.append(time.monotonic())
        return method(*given)

    with pytest.MonkeyPatch.context() as patch, state.interrupts() as interrupted:
        patch.setattr(kind, name, noted)
        try:
            yield interrupted
        finally:
            press.join()
    assert time.monotonic() - called[0] < 15


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Federation:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return Federation(tmp_path, plan())


def test_a_server_that_waits_for_clients_ends_and_goes_on_later(
    federation: Federation, tmp_path: Path
) -> None:
    with pressed_at(FlowerLink, "deliver") as interrupted:
        resident.coordinate(federation.coordinator, door(tmp_path, ALONE), stop=interrupted)
    assert (federation.coordinator.phase, federation.coordinator.begun) == ("paused", 0)
    again = federation.coordinate()
    drive(again, federation.transport())
    assert (again.phase, again.aborted) == ("finished", ())


def test_a_server_ends_while_its_courier_starts(federation: Federation, tmp_path: Path) -> None:
    with pressed_at(Courier, "send") as interrupted, pytest.raises(KeyboardInterrupt):
        resident.coordinate(federation.coordinator, door(tmp_path, DEAF), stop=interrupted)
    assert federation.coordinator.begun == 0


def test_a_server_that_waits_for_receipts_ends(federation: Federation) -> None:
    coordinator = federation.coordinator
    federation.clients["second"]._close = lambda frame: []  # type: ignore[method-assign]
    stop: list[bool] = []

    def seen(_: Any) -> None:
        if coordinator.phase == "closing":
            stop.append(True)

    drive(coordinator, federation.transport(), seen=seen, stop=lambda: bool(stop))
    assert (coordinator.phase, coordinator.begun) == ("paused", 3)
    assert coordinator.owing == ("second",)
    federation.begin("second")
    again = federation.coordinate()
    drive(again, federation.transport())
    assert (again.phase, again.owing) == ("finished", ())


@pytest.mark.parametrize("kind", [ALONE, BUSY, ASKING])
def test_a_client_that_waits_for_the_server_ends(
    kind: str, federation: Federation, tmp_path: Path
) -> None:
    client = federation.clients["first"]
    with pressed_at(resident.Answers, "tick") as interrupted:
        resident.take_part(client, way(tmp_path, kind), pytest.fail, stop=interrupted)
    assert not client.closed


def test_a_client_ends_that_reaches_no_server(federation: Federation, tmp_path: Path) -> None:
    client = federation.clients["first"]
    with pressed_at(Courier, "send") as interrupted, pytest.raises(KeyboardInterrupt):
        resident.take_part(client, way(tmp_path, DEAF), pytest.fail, stop=interrupted)


class InARound:
    """A client that is in a round till it has answered often enough."""

    finished = False

    def __init__(self) -> None:
        self.answered = 0

    @property
    def idle(self) -> bool:
        return self.answered >= 25

    def tick(self) -> None:
        pass

    def answer(self, frames: list[bytes]) -> list[bytes]:
        self.answered += 1
        return [b"answer"]


def test_a_client_answers_in_the_round_that_is_under_way(tmp_path: Path) -> None:
    client = InARound()
    with pressed_at(InARound, "tick") as interrupted:
        serve(client, way(tmp_path, ASKING), pytest.fail, stop=interrupted)
    assert client.answered == 25


def test_commands_say_in_a_line_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ("--start", hushdoc_witnessed.public_start(tmp_path / "start"))
    planned = ("--rounds", "2", "--epsilon", "8", "--trained", "output", "--accountant", "rdp")
    parties = ("--client", "first", "--client", "second", "--address", "127.0.0.1:8443")
    folder = tmp_path / "run"
    run("federated", "init", folder, *parties, *planned, *start)
    digest = re.findall("[0-9a-f]{64}", capsys.readouterr().out)[0]
    common = ("--approve", digest, *start, "--flower-python", courier(tmp_path, ALONE), "--quiet")
    ends = pytest.raises(KeyboardInterrupt, match="after 0 rounds, saved; go on with the same comm")
    with ends, pressed_at(FlowerLink, "deliver"):
        run("federated", "server", folder / "coordinator", *common)
    ledger, own = tmp_path / "first.ledger", ("--data", "invented:form", "--documents", "4")
    Ledger.create(ledger, data="forms", epsilon=8.1, delta=1e-5)
    ends = pytest.raises(KeyboardInterrupt, match="after 0 rounds, charged; go on with the same")
    with ends, pressed_at(resident.Answers, "tick"):
        run("federated", "client", folder / "first", *common, *own, "--ledger", ledger)
