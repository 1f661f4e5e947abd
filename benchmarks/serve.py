"""A server under load: whether it loses or mixes up answers, and what it costs beside the library.

    python benchmarks/serve.py [--seconds 60] [--quick]

`hushdoc serve` runs on loopback with the model of `hushdoc sample`, and 1, 8 and 64 clients ask it
for a minute each, without a pause. They send words with boxes, of one page to eight, a PDF file,
and one time in twenty something hostile (torn and random files, an archive, JSON of other kinds);
one time in fifty they hang up in the middle. Whatever is asked, the answer was computed before by
the library; a client that is told to come again does so. In the middle of the minute of eight
clients the server is killed (SIGKILL) and started again; what clients had asked then, they ask
again.

    requests               answers that clients waited for
    wrong_answers          of them, those that are not the library's, or have another code
    lost                   requests without any answer within a minute
    errors_5xx             answers of 500 and above (but for those whose code says why: none here)
    told_to_come_again     answers of 429
    p50_ratio_to_library   median time of an answer for one client, over that of the library's own
                           open_document(reader="process") and extract, in turns
    p99_ms                 of 64 clients' answers, queue included
    rss_growth             resident memory at the end, over that after the first 100 answers of the
                           same process
    cpu_overhead           CPU time per document of the server and its reader processes for one
                           client, over that of `extract_many` with its reader process, in turns

The last line is JSON. Needs Linux.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import machine

import hushdoc
from hushdoc.commands import sample
from hushdoc.errors import HushdocError
from hushdoc.server.problems import status_of

FOLDER = Path(sample.__file__).parents[1] / "sample"
CLIENTS = (1, 8, 64)
WAIT = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One body, and what has to come back."""

    kind: str
    body: bytes
    status: int
    expected: Any


@dataclass
class Tally:
    """What the clients of one phase saw."""

    requests: int = 0
    wrong: int = 0
    lost: int = 0
    failed: int = 0
    again: int = 0
    hung_up: int = 0
    seconds: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def answer_of(answer: dict[str, Any]) -> Any:
    """Returns what has to be equal: fields, without the times and the name."""
    return [(item["label"], item["text"], item["word_ids"]) for item in answer["fields"]]


def documents(model: Any) -> tuple[list[Case], list[Case]]:
    """Returns sound and hostile cases, each with the library's own answer."""
    draw = random.Random(7)
    invoice = hushdoc.open_document(FOLDER / "invoice.pdf")
    pages = invoice.to_dict()["pages"]
    bodies = [("application/pdf", (FOLDER / "invoice.pdf").read_bytes())] * 3
    for number in range(24):
        count = (1, 1, 1, 2, 2, 3, 4, 8)[number % 8]
        chosen = [
            {**pages[0], "image": None, "words": draw.sample(pages[0]["words"], k)}
            for k in draw.choices((len(pages[0]["words"]), len(pages[0]["words"]) // 2), k=count)
        ]
        data = {**invoice.to_dict(), "pages": chosen, "source": None}
        bodies.append(("application/json", json.dumps(data).encode()))
    hostile = [
        ("application/pdf", bodies[0][1][: len(bodies[0][1]) // 2]),
        ("application/pdf", b"PK\x03\x04" + draw.randbytes(2000)),
        ("image/png", b"\x89PNG\r\n\x1a\n" + draw.randbytes(500)),
        ("application/octet-stream", draw.randbytes(5000)),
        ("application/json", b'{"pages": [' + b"[" * 5000),
        ("application/json", b'{"id": "d", "pages": []}'),
        ("text/plain", b""),
    ]
    return [case(model, *item) for item in bodies], [case(model, *item) for item in hostile]


def case(model: Any, kind: str, body: bytes) -> Case:
    """Returns a body with the library's answer, or with the code of its error."""
    try:
        found = model.extract(opened(body))
    except HushdocError as error:
        return Case(kind=kind, body=body, status=int(status_of(error)), expected=error.code)
    return Case(kind=kind, body=body, status=200, expected=answer_of(found.to_dict()))


def opened(body: bytes) -> hushdoc.Document:
    """Returns the document of a body as the server reads it."""
    return hushdoc.open_document(body, reader="process", ocr="none")


class Server:
    """The process of `hushdoc serve`, at one port."""

    def __init__(self) -> None:
        """Starts it at a free port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        command = [sys.executable, "-m", "hushdoc", "serve", str(FOLDER / "model")]
        command += ["--policy", str(FOLDER / "policy.toml"), "--port", str(self.port)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*command, "--ocr", "none"], **quiet)  # type: ignore[call-overload]
        until = time.monotonic() + 2 * WAIT
        while True:
            try:
                self.get("/readyz")
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise SystemExit("The server did not start.") from None
                time.sleep(0.05)

    def get(self, path: str) -> bytes:
        """Returns what a GET answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return body

    def stop(self, how: int) -> None:
        """Ends it by a signal, and waits."""
        self.process.send_signal(how)
        self.process.wait(2 * WAIT)

    def resident(self) -> int:
        """Returns its resident memory in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """Returns the CPU time of it and its reader processes."""
        return sum(map(cpu_of, [self.process.pid, *children(self.process.pid)]))


def children(pid: int) -> list[int]:
    """Returns the processes that this one started and that live."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def cpu_of(pid: int) -> float:
    """Returns the CPU time of a process."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / TICKS


class Client:
    """One client, which keeps its connection as long as the server does."""

    def __init__(self, server: Server, tally: Tally) -> None:
        """Connects with the first request."""
        self.server, self.tally = server, tally
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)

    def ask(self, item: Case) -> None:
        """Sends one request until it is answered, and looks at the answer."""
        began = time.monotonic()
        while time.monotonic() - began < WAIT:
            sent = time.monotonic()
            try:
                self.connection.request(
                    "POST", "/v1/extract", item.body, {"Content-Type": item.kind}
                )
                reply = self.connection.getresponse()
                body = json.loads(reply.read())
            except (OSError, http.client.HTTPException, ValueError):
                self.connection.close()
                time.sleep(0.05)  # killed, and not there again
                continue
            tally = self.tally
            if reply.status == 429:
                with tally.lock:
                    tally.again += 1
                time.sleep(min(float(reply.headers["Retry-After"]), 2.0) * random.uniform(0.2, 1))
                continue
            found = answer_of(body) if reply.status == 200 else body["code"]
            with tally.lock:
                tally.requests += 1
                tally.failed += reply.status >= 500
                tally.wrong += (reply.status, found) != (item.status, item.expected)
                tally.seconds.append(time.monotonic() - sent)
            return
        with self.tally.lock:
            self.tally.lost += 1


def hang_up(server: Server, item: Case, tally: Tally) -> None:
    """Sends a part of a request and closes the connection."""
    head = f"POST /v1/extract HTTP/1.1\r\nHost: h\r\nContent-Type: {item.kind}\r\n"
    head += f"Content-Length: {len(item.body)}\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as gone:
            gone.sendall(head.encode() + item.body[: len(item.body) // 2])
    except OSError:
        return
    with tally.lock:
        tally.hung_up += 1


def client(
    server: Server,
    cases: tuple[list[Case], list[Case]],
    tally: Tally,
    until: float,
    seed: int,
) -> None:
    """Asks without a pause until the time is over."""
    draw, own = random.Random(seed), Client(server, tally)
    while time.monotonic() < until:
        item = draw.choice(cases[draw.random() < 0.05])
        if draw.random() < 0.02 and item.body:
            hang_up(server, item, tally)
        else:
            own.ask(item)


def phase(
    server: Server,
    cases: tuple[list[Case], list[Case]],
    number: int,
    seconds: float,
    *,
    kill: bool,
) -> Tally:
    """Returns what so many clients saw in that time."""
    tally, until = Tally(), time.monotonic() + seconds
    run = partial(client, server, cases, tally, until)
    threads = [threading.Thread(target=run, args=(100 * number + k,)) for k in range(number)]
    for thread in threads:
        thread.start()
    if kill:
        time.sleep(seconds / 2)
        server.stop(signal.SIGKILL)
        server.start()
    for thread in threads:
        thread.join()
    return tally


def beside(server: Server, model: Any, sound: list[Case], rounds: int) -> tuple[float, float]:
    """Returns the median time, and the CPU time, of the server's answers over the library's."""
    own: list[float] = []
    one = Client(server, Tally())
    cpu = [0.0, 0.0]
    for _ in range(rounds):
        before = server.cpu_seconds()
        for item in sound:
            one.ask(item)
        cpu[0] += server.cpu_seconds() - before
        before = library_cpu()
        began = time.monotonic()
        for _ in model.extract_many([partial(opened, item.body) for item in sound]):
            own.append(time.monotonic() - began)
            began = time.monotonic()
        cpu[1] += library_cpu() - before
    return statistics.median(one.tally.seconds) / statistics.median(own), cpu[0] / cpu[1]


def library_cpu() -> float:
    """Returns the CPU time of this process and of its reader processes."""
    mine = os.getpid()
    return sum(map(cpu_of, [mine, *(pid for pid in children(mine) if is_reader(pid))]))


def is_reader(pid: int) -> bool:
    """Whether a process is one that reads files for us."""
    return "reader_program" in Path(f"/proc/{pid}/cmdline").read_text()


def main() -> None:
    """Loads the server, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase (default: 60)")
    parser.add_argument("--quick", action="store_true", help="a few seconds of each phase")
    options = parser.parse_args()
    seconds = 4.0 if options.quick else options.seconds
    began = time.monotonic()
    policy = hushdoc.Policy.from_toml(FOLDER / "policy.toml")
    runtime = hushdoc.Runtime(threads=1)
    model = hushdoc.KIEModel.load(FOLDER / "model", policy=policy, runtime=runtime)
    cases = documents(model)
    server = Server()
    try:
        for item in cases[0]:
            Client(server, Tally()).ask(item)  # its reader processes are started
        latency, cpu = beside(server, model, cases[0], 2 if options.quick else 20)
        tallies = []
        for number in CLIENTS:
            tallies.append(phase(server, cases, number, seconds, kill=number == CLIENTS[1]))
            shown = tallies[-1]
            print(f"{number} clients: {shown.requests} answers, {shown.wrong} wrong", flush=True)
            if number == CLIENTS[1]:
                # The process that was started in that phase has answered more than a hundred.
                early = server.resident()
        late = server.resident()
    finally:
        server.stop(signal.SIGTERM)
    last = tallies[-1]
    result: dict[str, Any] = {
        "requests": sum(item.requests for item in tallies),
        "wrong_answers": sum(item.wrong for item in tallies),
        "lost": sum(item.lost for item in tallies),
        "errors_5xx": sum(item.failed for item in tallies),
        "told_to_come_again": sum(item.again for item in tallies),
        "hung_up": sum(item.hung_up for item in tallies),
        "p50_ratio_to_library": round(latency, 3),
        "p99_ms": round(1000 * statistics.quantiles(last.seconds, n=100)[98]),
        "rss_growth": round(late / early, 3),
        "cpu_overhead": round(cpu, 3),
        "seconds_of_each_phase": seconds,
        "quick": options.quick,
        **machine.stamp(began, "fastapi", "uvicorn"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
