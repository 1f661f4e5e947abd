"""Frames over Flower between real processes on loopback: rounds, doors that stay shut, silence."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hushdoc_flower import flower, noted, watched

from hushdoc.errors import HushdocError, PrivacyError
from hushdoc_training.federated.flower import certificates, transport
from hushdoc_training.federated.flower.certificates import Authority, Identity
from hushdoc_training.federated.flower.transport import Door, FlowerLink, Way, serve

AUTHORITY = Authority.new("test")
NODES = {name: certificates.node() for name in ("first", "second")}
BIG = bytes(range(256)) * (1 << 14)


class Echo:
    """Greets when asked for news, answers every frame, and is finished after one that says so."""

    def __init__(self, name: str) -> None:
        self.name = name.encode()
        self.finished, self.ticks, self.idle = False, 0, True
        self.news = [b"hello"]

    def tick(self) -> None:
        self.ticks += 1

    def answer(self, frames: list[bytes]) -> list[bytes]:
        self.finished = b"close" in frames
        news, self.news = self.news, []
        return [*news, *(frame + b" of " + self.name for frame in frames)]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def door(folder: Path, python: Path, nodes: dict[str, Identity] = NODES) -> Door:
    server = AUTHORITY.server(["127.0.0.1"])
    (folder / "server.pem").write_bytes(server.public)
    (folder / "server-key.pem").write_bytes(server.private)
    return Door(
        host="127.0.0.1",
        port=free_port(),
        certificate=folder / "server.pem",
        key=folder / "server-key.pem",
        nodes={name: node.public for name, node in nodes.items()},
        python=python,
        log=folder / "link.log",
    )


def way(there: Door, name: str, wait: float = 60.0) -> Way:
    return Way(
        server=f"{there.host}:{there.port}",
        authority=AUTHORITY.pem,
        key=NODES[name].private,
        python=there.python,
        log=there.log.parent / f"{name}.log",
        wait=wait,
    )


@dataclass
class Network:
    door: Door
    link: FlowerLink
    clients: list[Future[None]]
    waiting: list[tuple[str, bytes]]

    def exchanged(self, frames: list[tuple[str, bytes]], number: int) -> set[tuple[str, bytes]]:
        """Returns what clients answer, once so many frames have come."""
        came: list[tuple[str, bytes]] = []
        until = time.monotonic() + 240
        while len(came) < number:
            got = self.link.deliver(frames, until)
            assert got, "nothing came in time"
            came, frames = came + got, []
        return set(came)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    there = door(folder, watched(folder))
    reports: list[str] = []
    echoes = [Echo(name) for name in NODES]
    with ThreadPoolExecutor(2) as pool:
        clients = [
            pool.submit(serve, echo, way(there, echo.name.decode()), reports.append)
            for echo in echoes
        ]
        with FlowerLink(there) as link:
            yield Network(door=there, link=link, clients=clients, waiting=[])
    assert reports == []
    assert all(echo.ticks for echo in echoes)


def test_three_rounds_with_two_clients(network: Network) -> None:
    assert network.exchanged([], 2) == {(name, b"hello") for name in NODES}
    for number in range(3):
        frames = [(name, b"round %d" % number) for name in NODES] + [("first", BIG)]
        assert network.exchanged(frames, 3) == {
            *((name, b"round %d of %s" % (number, name.encode())) for name in NODES),
            ("first", BIG + b" of first"),
        }


def test_nothing_is_returned_before_the_deadline_where_nothing_comes(network: Network) -> None:
    begun = time.monotonic()
    assert network.link.deliver([], begun + 0.3) == []
    assert 0.3 <= time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "path", ["control/start-run", "runtime/acquire-task", "control/register-node", "../docs"]
)
def test_nobody_starts_a_program_through_the_door(path: str, network: Network) -> None:
    assert answer_to(network.door, f"/v1/{path}") == "404 Not Found"


def test_a_stranger_registers_no_node_and_takes_no_message(network: Network) -> None:
    for path in ("register-node", "pull-messages"):
        assert answer_to(network.door, f"/v1/fleet/{path}").startswith("401 ")


def answer_to(there: Door, path: str) -> str:
    """Returns the status of a POST by somebody without a node's key."""
    trusted = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/protobuf\r\n"
    with (
        socket.create_connection((there.host, there.port), timeout=30) as plain,
        trusted.wrap_socket(plain, server_hostname=there.host) as line,
    ):
        line.sendall(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        return line.makefile("r").readline().strip().split(" ", 1)[1]


def test_a_server_of_another_authority_gets_no_word(network: Network) -> None:
    other = replace(way(network.door, "first"), authority=Authority.new("other").pem)
    with pytest.raises(PrivacyError, match="not to be trusted") as refused:
        serve(Echo("first"), other, pytest.fail)
    assert refused.value.code == "WRONG_CERTIFICATE"


def test_a_node_that_nobody_registered_stays_outside(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_AGAIN_SECONDS", 0.1)
    stranger = replace(way(network.door, "first", wait=1.0), key=certificates.node().private)
    with pytest.raises(HushdocError) as refused:
        serve(Echo("first"), stranger, lambda report: None)
    assert refused.value.code in {"COURIER_FAILED", "SERVER_SILENT"}


def test_couriers_reach_the_server_alone_and_load_nothing_of_ours(network: Network) -> None:
    network.exchanged([(name, b"close") for name in NODES], 2)
    for client in network.clients:
        client.result(timeout=60)
    python, address = network.door.python, (network.door.host, network.door.port)
    assert set(noted(python, "to")) == {str(address)}
    assert {asked.split()[0] for asked in noted(python, "asks")} <= {"127.0.0.1", "b'127.0.0.1'"}
    assert noted(python, "starts") == []
    loaded = [name for line in noted(python, "loaded") for name in line.split()]
    ours = {name for name in loaded if name.startswith("hushdoc")}
    assert "hushdoc_training.federated.flower.wire" in ours
    assert all(name.startswith("hushdoc_training") and name.count(".") <= 3 for name in ours)
    assert {name for name in loaded if name.split(".")[0] in {"torch", "transformers"}} == set()


def test_a_client_without_a_server_gives_up_in_time(tmp_path: Path) -> None:
    nowhere = way(door(tmp_path, flower()), "first", wait=1.0)
    begun = time.monotonic()
    with pytest.raises(HushdocError) as gave_up:
        serve(Echo("first"), nowhere, lambda report: None)
    assert gave_up.value.code == "COURIER_FAILED"
    assert time.monotonic() - begun < 60
