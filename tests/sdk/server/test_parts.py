"""The server's parts by themselves: the queue, tokens, limits, and the command that starts it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [server] is not installed")

import hushdoc_tiny
from hushdoc_command_runs import refusal, run
from hushdoc_servers import serving

from hushdoc.commands import sample
from hushdoc.commands.command_line import main
from hushdoc.document.page import Box, Word
from hushdoc.errors import HushdocError, InputError, LimitExceededError
from hushdoc.reading import ocr
from hushdoc.server import answers, running, tokens
from hushdoc.server.answers import Operation, answered
from hushdoc.server.limits import Limits
from hushdoc.server.problems import RequestRefusedError, problem_of
from hushdoc.server.tokens import Tokens
from hushdoc.server.uploads import Upload
from hushdoc.server.work import ClientGoneError, Work

MODEL = Path(sample.__file__).parents[1] / "sample" / "model"


async def stays() -> bool:
    return False


async def left() -> bool:
    return True


def working(limits: Limits, use: Callable[[Work], Awaitable[None]]) -> None:
    async def main() -> None:
        work = Work(limits)
        try:
            await use(work)
        finally:
            work.close()

    asyncio.run(main())


def test_what_the_queue_can_t_hold_is_told_when_to_come_again() -> None:
    async def use(work: Work) -> None:
        begun, go = threading.Event(), threading.Event()

        def call() -> str:
            begun.set()
            go.wait(30)
            return "done"

        first = asyncio.create_task(work.run(call, is_gone=stays))
        await asyncio.to_thread(begun.wait, 30)
        second = asyncio.create_task(work.run(call, is_gone=stays))
        await asyncio.sleep(0)
        assert (work.running, work.waiting) == (1, 1)
        with pytest.raises(RequestRefusedError, match="Come again in") as refused:
            await work.run(call, is_gone=stays)
        assert (refused.value.status, refused.value.code) == (429, "BUSY")
        assert int(refused.value.headers["Retry-After"]) >= 1
        third = asyncio.create_task(work.run(call, is_gone=stays, patient=True))
        go.set()
        assert [await first, await second, await third] == ["done"] * 3
        assert (work.running, work.waiting) == (0, 0)

    working(Limits(concurrency=1, queue=1), use)


def test_an_answer_that_takes_too_long_keeps_its_thread_until_it_ends() -> None:
    async def use(work: Work) -> None:
        go = threading.Event()
        with pytest.raises(RequestRefusedError) as refused:
            await work.run(lambda: go.wait(30), is_gone=stays)
        assert (refused.value.status, refused.value.code) == (504, "ANSWER_TIMEOUT")
        assert work.running == 1
        with pytest.raises(RequestRefusedError, match="no time"):
            await work.run(lambda: True, is_gone=stays)
        go.set()
        while work.running:
            await asyncio.sleep(0.001)
        assert await work.run(lambda: True, is_gone=stays)

    working(Limits(concurrency=1, queue=1, answer_seconds=1), use)


def test_nothing_is_read_for_a_client_that_left_and_failures_free_their_place() -> None:
    async def use(work: Work) -> None:
        with pytest.raises(ClientGoneError):
            await work.run(lambda: pytest.fail("it was begun"), is_gone=left)
        with pytest.raises(ZeroDivisionError):
            await work.run(lambda: 1 // 0, is_gone=stays)
        assert await work.run(lambda: 7, is_gone=stays) == 7

    working(Limits(concurrency=1, queue=0), use)


def test_a_place_is_free_before_its_answer_is_heard() -> None:
    async def use(work: Work) -> None:
        for number in range(1000):
            assert await work.run(partial(abs, number), is_gone=stays) == number
            assert work.running == 0

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # a thread that ends its call is interrupted anywhere in it
    try:
        working(Limits(concurrency=1, queue=0), use)
    finally:
        sys.setswitchinterval(interval)


def test_a_call_that_raises_a_timeout_of_its_own_took_no_time_of_the_server() -> None:
    def raises() -> None:
        raise TimeoutError("its own")

    async def use(work: Work) -> None:
        with pytest.raises(TimeoutError, match="its own"):
            await work.run(raises, is_gone=stays)

    working(Limits(), use)


def test_all_bodies_together_have_a_limit() -> None:
    async def use(work: Work) -> None:
        with work.holding() as one, work.holding() as other:
            one(60)
            with pytest.raises(RequestRefusedError, match="memory") as refused:
                other(41)
            assert refused.value.status == 429
            other(40)
            assert work.held_bytes == 100
        assert work.held_bytes == 0

    working(Limits(max_body_bytes=100, max_held_bytes=100), use)


@pytest.mark.parametrize(
    "change", [{"queue": -1}, {"max_files": 0}, {"upload_seconds": 0.5}, {"max_held_bytes": 1}]
)
def test_limits_that_let_nothing_through_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected|no request"):
        Limits(**change)


def test_an_archive_is_made_within_size_and_time() -> None:
    made: list[int] = []

    def files(seconds: float) -> Iterator[tuple[str, bytes]]:
        for number in range(9):
            made.append(number)
            time.sleep(seconds)
            yield f"page-{number}.png", bytes(400)

    def archive(seconds: float = 0, **changes: Any) -> bytes:
        made.clear()
        operation = Operation(summary="s", options={}, answer=lambda *_: files(seconds))
        upload, limits = Upload(name="t", content=b"A text."), Limits(**changes)
        found = answered(operation, None, upload, {}, limits=limits, ocr="none")
        assert isinstance(found, bytes)
        return found

    with zipfile.ZipFile(io.BytesIO(archive(max_answer_bytes=3600))) as opened:
        assert [opened.read(f"page-{number}.png") for number in made] == [bytes(400)] * 9
    with pytest.raises(LimitExceededError, match="more than 1000 bytes"):
        archive(max_answer_bytes=1000)
    assert made == [0, 1, 2]
    with pytest.raises(RequestRefusedError) as refused:
        archive(seconds=0.3, answer_seconds=1)
    assert refused.value.code == "ANSWER_TIMEOUT"
    assert len(made) < 6


def test_nothing_that_ocr_read_is_kept_for_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    class Engine:
        name, version = "counting", "1"

        def read(self, image: Any) -> list[Word]:
            nonlocal read
            read += 1
            return [Word(text="Jane", box=Box(x0=1, y0=1, x1=9, y1=9))]

    pillow = pytest.importorskip("PIL.Image", reason="the extra [images] is not installed")
    stream = io.BytesIO()
    pillow.new("RGB", (40, 30), "white").save(stream, "PNG")
    upload = Upload(name="scan.png", content=stream.getvalue())
    monkeypatch.setattr(ocr, "chosen", lambda _: Engine())
    kept = len(ocr.SHARED_CACHE)
    for _ in range(2):
        document, _ = answers.opened(None, upload, Limits(), "auto")
        assert [word.text for word in document.pages[0].words] == ["Jane"]
    assert read == 2
    assert len(ocr.SHARED_CACHE) == kept


def test_every_error_is_a_problem_with_its_code() -> None:
    problem = problem_of(InputError("A box\nis swapped.", code="BAD_BOX"))
    assert (problem["status"], problem["code"]) == (422, "BAD_BOX")
    assert "\n" not in problem["detail"]
    assert problem_of(HushdocError("Odd.", code="SERVER_FAILED"))["status"] == 500


def test_tokens_are_kept_as_digests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    assert run("serve", "--tokens", path, "--add-token", "office") == 0
    first = capsys.readouterr().out.strip()
    second = tokens.add(path, "scanner")
    assert os.stat(path).st_mode & 0o077 == 0
    kept = path.read_text()
    assert first not in kept
    assert second not in kept
    path.write_text(f"# who may ask\n\n{kept}")
    found = Tokens.from_file(path)
    assert [found.name_of(item) for item in (first, second, "", "x\udcff")] == [
        "office",
        "scanner",
        None,
        None,
    ]


def test_tokens_are_added_and_withdrawn_while_the_server_runs(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    first = tokens.add(path, "office")
    known = Tokens.from_file(path)
    with serving({}, hushdoc_tiny.policy(), tokens=known, recheck_seconds=0.02) as server:

        def status(token: str) -> int:
            return server.ask("/v1/certificate", Authorization=f"Bearer {token}").status

        assert status(first) == 200
        second = tokens.add(path, "scanner")
        server.wait(lambda: status(second) == 200)
        path.write_text(path.read_text().splitlines(keepends=True)[1])
        server.wait(lambda: status(first) == 401)
        assert (status(first), status(second), server.ask("/readyz").status) == (401, 200, 200)
        path.unlink()
        server.wait(lambda: status(second) == 401)
        assert (status(second), server.ask("/readyz").status) == (401, 503)


def test_tokens_that_are_added_at_once_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens"
    read = tokens._lines

    def slowly(path: Path) -> list[str]:
        found = read(path)
        time.sleep(0.02)
        return found

    tokens.add(path, "first")
    monkeypatch.setattr(tokens, "_lines", slowly)
    names = [f"client{number}" for number in range(6)]
    with ThreadPoolExecutor(len(names)) as pool:
        made = list(pool.map(partial(tokens.add, path), names))
    found = Tokens.from_file(path)
    assert [found.name_of(token) for token in made] == names
    assert len(found.names) == 7


@pytest.mark.parametrize("content", ["", "# none\n", "sha256:12 office\n", "a-token-itself\n"])
def test_a_file_of_tokens_is_sound_or_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    with pytest.raises(InputError) as refused:
        Tokens.from_file(path)
    assert refused.value.code == "BAD_TOKENS"
    assert "a-token" not in str(refused.value)
    with pytest.raises(InputError, match="no name of a client"):
        tokens.add(path, "two words")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name at least one ARTIFACT"),
        ([MODEL, "--host", "0.0.0.0"], "other machines need --tokens"),
        ([MODEL, "--host", "0.0.0.0", "--no-tokens"], "other machines need --tls-cert"),
        ([MODEL, "--tls-cert", "c.pem"], "go together"),
        ([MODEL, "--add-token", "a"], "goes with --tokens"),
        ([MODEL, "--recheck", "0"], "--recheck takes"),
        ([MODEL, "--queue", "-1"], "queue is -1"),
    ],
)
def test_wrong_usage_ends_before_anything_is_loaded(
    arguments: list[Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *map(str, arguments)])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_refused_artifact_and_a_taken_port_never_start(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="runs the sample's graph")
    limits = ("--max-epsilon", 0.1, "--max-delta", 1e-5, "--unit", "document")
    trust = MODEL.parent / "trust.json"
    assert refusal("serve", MODEL, "--trust", trust, *limits) == "EPSILON_TOO_LARGE"
    alone = shutil.copytree(MODEL, tmp_path / "alone")
    with (alone / "privacy.intoto.jsonl").open("ab") as envelope:
        envelope.write(b"\n")  # no longer the sample, which brings its own policy
    assert refusal("serve", alone) == "NO_POLICY"
    both = ("serve", MODEL, MODEL, "--policy", MODEL.parent / "policy.toml")
    assert refusal(*both) == "BAD_INPUT"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(InputError) as refused:
            running.listening(running.Address(host="127.0.0.1", port=taken.getsockname()[1]))
        assert refused.value.code == "ADDRESS_IN_USE"


def test_a_server_that_is_told_to_stop_finishes_what_it_took() -> None:
    pytest.importorskip("onnxruntime", reason="runs the sample's graph")
    command = [sys.executable, "-m", "hushdoc", "serve", f"invoices={MODEL}", "--port", "0"]
    with subprocess.Popen(
        [*command, "--ocr", "none", "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().split()[-1]
        replies: list[int] = []

        def ask() -> None:
            request = urllib.request.Request(
                f"{address}/v1/extract",
                (MODEL.parent / "invoice.pdf").read_bytes(),
                {"Content-Type": "application/pdf"},
            )
            with urllib.request.urlopen(request, timeout=120) as reply:
                replies.append(reply.status)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        # They were taken once one of them runs and the others wait.
        seen = ""
        while "hushdoc_running 1.0" not in seen or "hushdoc_waiting 2.0" not in seen:
            seen = urllib.request.urlopen(f"{address}/metrics", timeout=60).read().decode()
            if len(replies) == 3:
                break
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(120)
        assert replies == [200, 200, 200]
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


def test_what_is_said_on_standard_error_is_a_line_of_json_for_each_request() -> None:
    command = [sys.executable, "-m", "hushdoc", "serve", f"invoices={MODEL}", "--port", "0"]
    with subprocess.Popen(
        [*command, "--ocr", "none"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        form = b"POST /v1/extract HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n"
        form += b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--oo"
        for sent in (b"no request\r\n\r\n", form):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
                one.sendall(sent)
                assert one.recv(100).startswith(b"HTTP/1.1 400")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        said = [line for line in process.stderr if not line.startswith("hushdoc")]
    assert [json.loads(line)["status"] for line in said] == [400]


@pytest.mark.parametrize(
    "wrong",
    [("--port", "99999"), ("--port", "-1"), ("--answer-limit", "nan"), ("--answer-limit", "inf")],
)
def test_values_that_no_server_can_have_are_wrong_usage(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", str(MODEL), *wrong])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert "expected a number from" in told.err
    assert not told.out


def test_an_address_of_ipv6_is_told_as_a_url(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "run", lambda made, bound: bound.close())
    monkeypatch.setattr(
        running, "listening", lambda address: socket.create_server(("127.0.0.1", 0))
    )
    assert main(["serve", f"invoices={MODEL}", "--host", "::1", "--port", "0"]) == 0
    assert capsys.readouterr().out.startswith("Listening on http://[::1]:")


def test_nothing_is_announced_that_can_not_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no.pem").write_text("no key")
    files = [
        word for name in ("cert", "key") for word in (f"--tls-{name}", str(tmp_path / "no.pem"))
    ]
    assert main(["serve", f"invoices={MODEL}", "--port", "0", *files]) == 3
    assert not capsys.readouterr().out
