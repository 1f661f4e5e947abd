"""The server answers as the library does, refuses with codes, and tells nobody what it read."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import hashlib
import io
import json
import shutil
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [server] is not installed")

import hushdoc_builders
import hushdoc_pdf_files as pdfs
import hushdoc_tiny
from hushdoc_servers import BOUNDARY, Reply, Running, form, serving
from PIL import Image

import hushdoc
from hushdoc.commands import sample
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import Source
from hushdoc.errors import HushdocError, PolicyViolationError
from hushdoc.policy.policy import Policy
from hushdoc.reading.drawing import open_pages
from hushdoc.runtime.session import Runtime
from hushdoc.server import answers, app
from hushdoc.server.limits import Limits
from hushdoc.server.served import Served, ServedModels, rereading
from hushdoc.server.tokens import Tokens
from hushdoc.signing import revocation
from hushdoc.signing.trust_store import Obeyed, TrustStore

PDF = Path(sample.__file__).parents[1] / "sample" / "invoice.pdf"
WORDS = {
    "id": "secret-order",
    "pages": [
        {
            "width": 100,
            "height": 100,
            "words": [
                {"text": "total", "box": [1, 1, 30, 9]},
                {"text": "42.17EUR", "box": [40, 1, 70, 9]},
            ],
        }
    ],
}
TEXT = b"The board may distribute the assets. Nothing else is said about dividends."
FORM = f"multipart/form-data; boundary={BOUNDARY}"
NOT_UTF8 = [
    form((name, TEXT), **{option: text}).replace(b"?", b"\xe4")
    for name, option, text in (("?", "model", "m"), ("t", "?", "m"), ("t", "model", "?"))
]
SMALL = Limits(
    max_body_bytes=60_000,
    max_files=3,
    upload_seconds=1.0,
    reading=ReadingLimits(max_words=50, max_seconds=30),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of a model of each task."""
    artifacts = {
        "fields": hushdoc_tiny.sealed(),
        "clauses": hushdoc_tiny.sealed_table("kie"),
        "classes": hushdoc_tiny.sealed_table("classification"),
        "vectors": hushdoc_tiny.sealed_embedding(),
        "answers": hushdoc_tiny.sealed_pointer(),
    }
    with serving(artifacts, hushdoc_tiny.policy()) as found:
        yield found


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    """A server with small limits, and tokens."""
    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}
    tokens = Tokens({hashlib.sha256(b"token-1").hexdigest(): "office"})
    with serving(artifacts, hushdoc_tiny.policy(), limits=SMALL, tokens=tokens) as found:
        found.headers["Authorization"] = "Bearer token-1"
        yield found


def same(data: dict[str, Any], answer: Any) -> bool:
    """Whether an answer over HTTP is the library's, times apart."""
    expected = json.loads(answer.to_json())
    return {**data, "timings": None} == {**expected, "timings": None}


def test_every_request_is_answered_as_the_library_does(server: Running) -> None:
    policy = hushdoc_tiny.policy()
    document = hushdoc.open_document(json.dumps(WORDS).encode(), id=str(WORDS["id"]))
    body = json.dumps(WORDS)

    def asked(path: str) -> Any:
        reply = server.ask(path, body, "application/json")
        assert reply.status == 200, reply.body
        return reply.json

    fields = hushdoc.KIEModel.load(hushdoc_tiny.sealed(), policy=policy)
    assert same(asked("/v1/extract?model=fields"), fields.extract(document))
    classes = hushdoc.ClassificationModel.load(
        hushdoc_tiny.sealed_table("classification"), policy=policy
    )
    assert same(asked("/v1/classify?top_k=2"), classes.classify(document, top_k=2))
    vectors = hushdoc.EmbeddingModel.load(hushdoc_tiny.sealed_embedding(), policy=policy)
    assert same(asked("/v1/embed?level=document"), vectors.embed(document, level="document"))
    pointer = hushdoc.DocVQAModel.load(hushdoc_tiny.sealed_pointer(), policy=policy)
    questions = ["total", "date"]
    reply = asked("/v1/ask?question=total&question=date&top_k=2")
    for data, answer in zip(
        reply["answers"], pointer.ask_all(document, questions, top_k=2), strict=True
    ):
        assert same(data, answer)
    # One that points has thousands of candidates for each page, and one that writes follows all.
    for wrong in ("21", "99999999", "0", "1e3"):
        refused = server.ask(f"/v1/ask?question=total&top_k={wrong}", body, "application/json")
        assert (refused.status, refused.code) == (422, "BAD_INPUT")
        assert "from 1 to 20" in refused.body.decode()


def test_files_are_read_in_processes_and_answered_in_their_order(server: Running) -> None:
    reply = server.form(
        "/v1/extract", ("contract.txt", TEXT), ("torn.pdf", b"%PDF-1.4"), model="clauses"
    )
    first, second = reply.json["results"]
    table = hushdoc.HashedCRFModel.load(
        hushdoc_tiny.sealed_table("kie"), policy=hushdoc_tiny.policy()
    )
    assert same(first, table.extract(hushdoc.open_document(TEXT, id="contract.txt")))
    assert (second["document_id"], second["error"]["code"]) == ("torn.pdf", "UNSUPPORTED_FORMAT")


def test_images_are_classified_without_reading_their_words() -> None:
    blank = io.BytesIO()
    Image.new("RGB", (60, 40), "white").save(blank, "PNG")
    artifact = hushdoc_tiny.sealed_classifier("image")
    model = hushdoc.ClassificationModel.load(artifact, policy=hushdoc_tiny.policy())
    with serving({"pages": artifact}, hushdoc_tiny.policy()) as server:  # which has no OCR
        reply = server.form("/v1/classify", ("a blank page", blank.getvalue()))
    expected = dataclasses.replace(open_pages(blank.getvalue()), id="a blank page")
    assert same(reply.json, model.classify(expected))


def test_redaction_leaves_what_the_library_leaves(server: Running) -> None:
    # A tiny model of random weights finds something to remove in any words.
    reply = server.form("/v1/redact", ("words.json", json.dumps(WORDS).encode()), model="fields")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/zip")
    document = hushdoc.open_document(json.dumps(WORDS).encode())
    model = hushdoc.KIEModel.load(hushdoc_tiny.sealed(), policy=hushdoc_tiny.policy())
    found = model.extract(document)
    expected = hushdoc.redact(document, (*found.fields, *found.below_threshold))
    assert sum(expected.counts.values()) > 0
    with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
        assert archive.namelist() == ["document.json"]
        left = json.loads(archive.read("document.json"))
    assert left["pages"] == expected.document.to_dict()["pages"]
    wrong = server.form("/v1/redact", ("t", TEXT), model="fields", label="no-such")
    assert (wrong.status, wrong.code) == (422, "BAD_INPUT")


def test_a_redaction_tells_what_was_not_read(server: Running, tmp_path: Path) -> None:
    long = {"text": "x" * 90, "box": [1, 20, 30, 29]}
    lost: Any = copy.deepcopy(WORDS)
    lost["pages"][0]["words"].append(long)
    reply = server.form("/v1/redact", ("words.json", json.dumps(lost).encode()), model="fields")
    with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
        told = archive.read("notes.txt").decode()
    assert told.startswith("Page 0: 1 word (2) exceed one whole window")
    Image.new("RGB", (100, 100), "white").save(tmp_path / "scan.png")
    scan = hushdoc.Document.from_words(
        ["total"], [(1, 1, 30, 9)], width=100, height=100, id="scan", image=tmp_path / "scan.png"
    )
    unread = dataclasses.replace(scan, source=Source(reader="pdf", unread_pages=(0,)))
    model = hushdoc.KIEModel.load(hushdoc_tiny.sealed(), policy=hushdoc_tiny.policy())
    files = dict(answers.OPERATIONS["redact"].answer(model, unread, {}))
    assert files["notes.txt"] == b"Images of page 0 are black, as they were not read.\n"


def test_a_hostile_file_holds_up_its_own_reader_alone() -> None:
    seconds = 1.5
    while not answered_beside_an_endless_file(seconds):  # a busy machine: with more time
        seconds *= 4
        assert seconds < 30


def answered_beside_an_endless_file(seconds: float) -> bool:
    """Whether an answer came before a reader had used up its time; both must be right."""
    limits = Limits(concurrency=2, queue=0, reading=ReadingLimits(max_seconds=seconds))
    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}
    replies: list[Reply] = []
    with serving(artifacts, hushdoc_tiny.policy(), limits=limits) as server:

        def ask() -> None:
            endless = pdfs.nested_forms(depth=12, times=10)
            replies.append(server.ask("/v1/extract", endless, "application/pdf"))

        slow = threading.Thread(target=ask)
        slow.start()
        while b"hushdoc_running 1.0" not in server.ask("/metrics").body and slow.is_alive():
            time.sleep(0.01)
        assert server.ask("/v1/extract", TEXT, "text/plain").status == 200
        was_beside = not replies
        slow.join()
        assert (replies[0].status, replies[0].code) == (422, "READER_TIMEOUT")
        assert server.ask("/v1/extract", TEXT, "text/plain").status == 200
    return was_beside


def test_a_server_with_no_place_left_says_when_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go = threading.Event(), threading.Event()

    def waits(*_: object) -> dict[str, Any]:
        begun.set()
        assert go.wait(60)
        return {}

    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}
    limits = Limits(concurrency=1, queue=0)
    with serving(artifacts, hushdoc_tiny.policy(), limits=limits) as server:
        held = dataclasses.replace(answers.OPERATIONS["extract"], answer=waits)
        monkeypatch.setitem(answers.OPERATIONS, "extract", held)
        first = threading.Thread(
            target=server.ask, args=("/v1/extract", TEXT, "text/plain"), daemon=True
        )
        first.start()
        assert begun.wait(60)
        refused = server.ask("/v1/extract", TEXT, "text/plain")
        assert (refused.status, refused.code) == (429, "BUSY")
        assert int(refused.headers["retry-after"]) >= 1
        go.set()
        first.join()
        assert server.ask("/v1/extract", TEXT, "text/plain").status == 200


def test_certificates_and_health_are_told(server: Running) -> None:
    found = server.ask("/v1/certificate").json["models"]
    assert {item["name"] for item in found} == set(server.models.by_name)
    only = server.ask("/v1/certificate?model=clauses").json["models"][0]
    expected = server.models.by_name["clauses"].report
    assert only["certificate"] == json.loads(json.dumps(expected.certificate.to_dict()))
    assert only["accepted"]
    assert "epsilon" in only["explanation"]
    page = server.ask("/v1/certificate?model=clauses", Accept="text/html")
    assert page.headers["content-type"].startswith("text/html")
    assert b"tiny-table" in page.body
    assert server.ask("/healthz").json == {"status": "ok"}
    assert server.ask("/readyz").status == 200
    assert server.ask("/nowhere").code == "NOT_FOUND"
    assert server.ask("/v1/extract").status == 405


def test_openapi_describes_every_request_with_an_example(server: Running) -> None:
    described = server.ask("/openapi.json").json["paths"]
    for name, operation in answers.OPERATIONS.items():
        post = described[f"/v1/{name}"]["post"]
        assert {item["name"] for item in post["parameters"]} == set(operation.options)
        kinds = post["responses"]["200"]["content"]
        example = kinds.get("application/json", {}).get("example")
        assert (example is None) == (name == "redact")
        # The example that goes in is one that is answered.
        words = post["requestBody"]["content"]["application/json"]["example"]
        model = {"extract": "fields", "redact": "fields"}.get(name)
        query = "&".join([f"model={model}"] * bool(model) + ["question=total"] * (name == "ask"))
        reply = server.ask(f"/v1/{name}?{query}", json.dumps(words), "application/json")
        assert reply.status == 200
        if example is not None:
            assert reply.json.keys() >= example.keys()


def test_neither_log_nor_metrics_tell_of_documents(server: Running) -> None:
    server.ask("/v1/ask?question=hidden-question", json.dumps(WORDS), "application/json")
    server.form("/v1/extract", ("hidden-name.pdf", b"hidden-content\x00"), model="fields")
    server.ask("/v1/hidden-path")
    shown = server.log.getvalue() + server.ask("/metrics").body.decode()
    for text in ("hidden", "secret", "42.17EUR", "total,", "clauses,"):
        assert text not in shown
    assert 'hushdoc_requests_total{code="UNSUPPORTED_FORMAT",path="/v1/extract"' in shown
    measured = ("request_seconds_bucket", "running", "waiting", "held_bytes", "model_accepted")
    for name in (*(f"hushdoc_{name}" for name in measured), "process_resident_memory_bytes"):
        assert f"\n{name}" in shown
    assert {"id", "code", "client", "path", "status", "seconds", "time"} <= set(server.lines()[-1])


def test_an_unforeseen_failure_is_one_problem_without_its_message(
    server: Running, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> dict[str, Any]:
        raise RuntimeError("quotes hidden-content")

    monkeypatch.setitem(
        answers.OPERATIONS,
        "extract",
        dataclasses.replace(answers.OPERATIONS["extract"], answer=fails),
    )
    reply = server.ask("/v1/extract?model=clauses", TEXT, "text/plain")
    assert (reply.status, reply.code) == (500, "SERVER_FAILED")
    assert reply.headers["x-request-id"] in reply.json["detail"]
    assert "RuntimeError at test_server.py:" in server.lines()[-1]["error"]
    assert "hidden" not in reply.body.decode() + server.log.getvalue() + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("path", "body", "kind", "status", "code"),
    [
        ("/v1/extract", b"", "text/plain", 422, "EMPTY_DOCUMENT"),
        ("/v1/extract", b"x" * 60_001, "text/plain", 413, "REQUEST_TOO_LARGE"),
        ("/v1/extract", TEXT, "application/x-www-form-urlencoded", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("/v1/extract", b"PK\x03\x04" + b"\0" * 60, "application/pdf", 415, "UNSUPPORTED_FORMAT"),
        ("/v1/extract", b"{", "application/json", 415, "UNSUPPORTED_FORMAT"),
        ("/v1/extract", b'{"id": "a", "text": "\\ud800"}', "application/json", 422, "BAD_INPUT"),
        ("/v1/extract?modell=clauses", TEXT, "text/plain", 400, "UNKNOWN_OPTION"),
        ("/v1/extract?model=other", TEXT, "text/plain", 404, "NO_SUCH_MODEL"),
        ("/v1/ask?question=total", TEXT, "text/plain", 404, "NO_SUCH_MODEL"),
        ("/v1/extract", b"no form", "multipart/form-data", 400, "BAD_FORM"),
        ("/v1/extract", b"no form", 'multipart/form-data; boundary=a"b', 400, "BAD_FORM"),
        ("/v1/extract", NOT_UTF8[0], FORM, 400, "BAD_FORM"),
        ("/v1/extract", NOT_UTF8[1], FORM, 400, "BAD_FORM"),
        ("/v1/extract", NOT_UTF8[2], FORM, 400, "BAD_FORM"),
    ],
)
def test_what_can_t_be_used_is_refused_with_a_code(
    strict: Running, path: str, body: bytes, kind: str, status: int, code: str
) -> None:
    reply = strict.ask(path, body, kind)
    assert (reply.status, reply.code) == (status, code)


def test_a_form_that_is_cut_off_is_refused_whatever_part_is_missing(server: Running) -> None:
    """Without a label that was not there any more, `redact` left its fields in the document."""
    whole = form(("a.txt", TEXT), ("b.txt", TEXT), model="clauses")
    assert len(server.ask("/v1/extract", whole, FORM).json["results"]) == 2
    assert server.ask("/v1/extract", whole.removesuffix(b"\r\n"), FORM).status == 200
    for last in (b"--\r\n", BOUNDARY.encode(), b"clauses", b'"model"', TEXT):
        reply = server.ask("/v1/extract", whole[: whole.rindex(last)], FORM)
        assert (reply.status, reply.code) == (400, "BAD_FORM")


@pytest.mark.parametrize("charset", ["punycode", "utf-16", "no-such", "latin-1", "UTF-8"])
def test_a_form_is_utf_8_whatever_its_client_calls_it(server: Running, charset: str) -> None:
    """Python's decoder of Punycode takes a hundred times as long for ten times the text."""
    sent = form(("\xe4.txt", TEXT), model="clauses")
    reply = server.ask("/v1/extract", sent, f"{FORM}; charset={charset}")
    assert (reply.status, reply.json["document_id"]) == (200, "\xe4.txt")


def test_more_words_files_or_bytes_than_allowed_are_refused(strict: Running) -> None:
    word = {"text": "a", "box": [1, 1, 2, 2]}
    page = {"width": 9, "height": 9, "words": [word] * 51}
    many = json.dumps({"id": "d", "pages": [page]})
    reply = strict.ask("/v1/extract", many, "application/json")
    assert (reply.status, reply.code) == (413, "LIMIT_EXCEEDED")
    files = [(f"{number}.txt", TEXT) for number in range(4)]
    assert strict.form("/v1/extract", *files).code == "BAD_FORM"

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 8192

    def ten_million_words() -> Iterator[bytes]:
        yield b'{"id": "d", "pages": [{"width": 9, "height": 9, "words": ['
        for _ in range(10_000):
            yield b'{"text": "a", "box": [1, 1, 2, 2]}, ' * 1000
        yield b'{"text": "a", "box": [1, 1, 2, 2]}]}]}'

    for sent, kind in ((endless(), "text/plain"), (ten_million_words(), "application/json")):
        before = len(strict.lines())
        with pytest.raises((ConnectionError, AssertionError)):  # whichever comes first
            assert strict.ask("/v1/extract", sent, kind).status != 413
        assert [line["code"] for line in strict.lines(before + 1)[before:]] == ["REQUEST_TOO_LARGE"]


def test_a_refusal_reaches_clients_that_send_all_before_they_listen(
    strict: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of Python's standard library: a connection that was closed at once was reset."""
    body = b"x" * (8 * 2**20)
    assert strict.ask("/v1/extract", body, "text/plain").code == "REQUEST_TOO_LARGE"
    refused = strict.ask("/v1/extract", body, "text/plain", Authorization="Bearer other")
    assert refused.code == "UNAUTHORIZED"
    head = "POST /v1/other HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as client:
        client.sendall(f"{head}Authorization: Bearer token-1\r\n\r\n1\r\na\r\n".encode())
        answer = b""
        while not answer.endswith(b'answered here."}'):
            answer += client.recv(4096)
        client.sendall(b"no chunk\r\n")
        with suppress(ConnectionError):
            assert not client.recv(4096)
    assert not caplog.records  # which asyncio would write of an answer in another one's midst


def test_a_token_is_demanded_and_never_in_the_query(strict: Running) -> None:
    assert strict.ask("/v1/extract", TEXT, "text/plain").status == 200
    assert strict.lines()[-1]["client"] == "office"
    for wrong in ("Bearer token-2", "Bearer", "", "Basic token-1"):
        reply = strict.ask("/v1/certificate", Authorization=wrong)
        assert (reply.status, reply.code) == (401, "UNAUTHORIZED")
        assert reply.headers["www-authenticate"].startswith("Bearer")
    for path in ("/v1/certificate", "/readyz"):
        assert strict.ask(f"{path}?access_token=token-1").code == "TOKEN_IN_QUERY"
    assert strict.ask("/metrics", Authorization="").status == 401
    assert strict.ask("/readyz", Authorization="").status == 200
    for served in strict.models.by_name.values():
        served.problem = HushdocError("It was revoked.", code="REVOKED")
    try:
        ready = strict.ask("/readyz", Authorization="")
        assert (ready.status, ready.json) == (503, {"status": "not ready"})  # no model's name
        assert strict.ask("/v1/certificate").json["models"][0]["problem"] == "REVOKED"
    finally:
        for served in strict.models.by_name.values():
            served.problem = None
    assert "token-" not in strict.log.getvalue()


def test_slow_clients_and_those_that_hang_up_cost_nothing(strict: Running) -> None:
    head = (
        "POST /v1/extract HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer token-1\r\n"
        "Content-Type: text/plain\r\nContent-Length: 500\r\n\r\nThe board"
    )
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as slow:
        slow.sendall(head.encode())
        assert b" 408 " in slow.recv(4096)
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as gone:
        gone.sendall(head.encode())
    until = time.monotonic() + 10
    while strict.lines(2)[-1]["code"] != "CLIENT_GONE" and time.monotonic() < until:
        time.sleep(0.01)
    assert strict.lines()[-1]["status"] == 499
    assert b"hushdoc_held_bytes 0.0" in strict.ask("/metrics").body


def test_clients_that_send_no_head_leave_their_place_to_others() -> None:
    limits = Limits(max_connections=4, upload_seconds=1)
    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}
    head = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
    with serving(artifacts, hushdoc_tiny.policy(), limits=limits) as server, ExitStack() as held:

        def connected() -> socket.socket:
            return held.enter_context(socket.create_connection(("127.0.0.1", server.port)))

        for sent in (b"", head[:9]):
            for _ in range(4):
                connected().sendall(sent)
            assert server.ask("/healthz").status == 503
            server.wait(lambda: server.ask("/healthz").status == 200)
            assert server.ask("/healthz").status == 200
        # A byte now and then is no request either, neither at first nor after an answer.
        for sent in (b"", head):
            client = connected()
            client.sendall(sent)
            assert not sent or b" 200 " in received(client)
            with pytest.raises(ConnectionError):
                send_slowly(client, head)


@pytest.mark.parametrize("asked", [1, 2])
def test_clients_that_take_no_answer_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    size = 32 * 2**20  # more than a system keeps for a client
    files = [("page.png", bytes(size))]
    large = dataclasses.replace(answers.OPERATIONS["extract"], answer=lambda *_: files)
    monkeypatch.setitem(answers.OPERATIONS, "extract", large)
    head = f"POST /v1/extract HTTP/1.1\r\nHost: h\r\nContent-Length: {len(TEXT)}\r\n"
    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}
    limits = Limits(answer_seconds=1)
    with serving(artifacts, hushdoc_tiny.policy(), limits=limits) as server:
        assert len(server.ask("/v1/extract", TEXT, "text/plain").body) > size
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall((head.encode() + b"Content-Type: text/plain\r\n\r\n" + TEXT) * asked)
            server.lines(1 + 1)
            time.sleep(2)
            taken = 0
            with suppress(ConnectionError):
                while part := client.recv(2**20):
                    taken += len(part)
        assert taken < size


def test_a_client_in_no_hurry_is_answered(strict: Running) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as client:
        for _ in range(3):  # each with a time of its own
            for part in (b"GET /healthz HTTP/1.1\r\n", b"Host: h\r\n", b"\r\n"):
                time.sleep(0.2)
                client.sendall(part)
            assert b" 200 " in received(client)


def send_slowly(client: socket.socket, content: bytes) -> None:
    for byte in content:
        client.sendall(bytes([byte]))
        time.sleep(0.1)


def received(client: socket.socket) -> bytes:
    """Returns an answer of JSON."""
    found = b""
    while not found.endswith(b"}"):
        assert (part := client.recv(2**20)), found
        found += part
    return found


def test_what_is_refused_never_starts_and_what_is_revoked_stops(tmp_path: Path) -> None:
    artifact = shutil.copytree(hushdoc_tiny.sealed_table("kie"), tmp_path / "artifact")
    with pytest.raises(PolicyViolationError):
        Served.load(None, artifact, hushdoc_tiny.policy(max_epsilon=0.1), Runtime())
    listed = tmp_path / "revocations.jsonl"
    store = hushdoc_builders.trust(hushdoc_tiny.KEY, roles=("certificate", "revocation"))
    policy = Policy(
        trust=store,
        max_epsilon=8,
        max_delta=1e-5,
        privacy_units={"document"},
        revocations=listed,
    )
    with serving({"clauses": artifact}, policy, recheck_seconds=0.05) as server:

        def code() -> tuple[int, str]:
            reply = server.ask("/v1/extract", TEXT, "text/plain")
            return reply.status, "" if reply.status == 200 else reply.code

        # What was loaded is what was checked, whatever becomes of the folder.
        before = server.ask("/v1/extract", TEXT, "text/plain").json["fields"]
        shutil.rmtree(artifact)
        shutil.copytree(hushdoc_tiny.sealed(), artifact)
        time.sleep(0.2)
        assert server.ask("/v1/extract", TEXT, "text/plain").json["fields"] == before
        certificate = server.models.by_name["clauses"].report.certificate.certificate_id
        week, now = timedelta(days=7), datetime.now(UTC)
        found = revocation.successor(None, valid_for=week, now=now, certificates=[certificate])
        listed.write_text(revocation.sign_list(found, hushdoc_tiny.KEY) + "\n")
        until = time.monotonic() + 10
        while code() == (200, "") and time.monotonic() < until:
            time.sleep(0.02)
        assert code() == (503, "REVOKED")
        ready = server.ask("/readyz")
        assert (ready.status, ready.json["refused"]) == (503, {"clauses": "REVOKED"})
        assert not server.ask("/v1/certificate").json["models"][0]["accepted"]
        assert b'hushdoc_model_accepted{model="clauses"} 0.0' in server.ask("/metrics").body


def test_a_store_that_is_read_again_remembers_what_it_obeyed(tmp_path: Path) -> None:
    """Its file may stand on a disk that can't be written, as in a container."""
    path = tmp_path / "trust.json"
    path.write_bytes(hushdoc_tiny.TRUST.to_json())

    def read() -> Policy:
        return Policy.integrity_only(TrustStore.from_file(path))

    loaded = read()
    again = rereading(loaded, read)
    loaded.trust.obeyed.add(5, {"a key"})
    for _ in range(2):
        found = again()
        assert not found.privacy_required
        assert found.trust.obeyed == Obeyed(sequence=5, revoked_revokers={"a key"})
    path.write_bytes(dataclasses.replace(hushdoc_tiny.TRUST, min_revocation_sequence=5).to_json())
    found = again()
    assert (found.trust.min_revocation_sequence, found.trust.obeyed) == (5, Obeyed())


def test_a_model_that_expires_or_whose_policy_is_lost_stops() -> None:
    policy = hushdoc_tiny.policy(max_age_days=30)
    served = Served.load("t", hushdoc_tiny.sealed_table("kie"), policy, Runtime())
    lost = HushdocError("The policy is gone. Bring it back.", code="BAD_POLICY")
    now = datetime.now(UTC)
    for found, when, code in (
        (policy, now + timedelta(days=31), "STALE"),
        (policy, now, None),
        (lost, now, "BAD_POLICY"),
        (hushdoc_tiny.policy(max_epsilon=0.1), now, "EPSILON_TOO_LARGE"),
        (dataclasses.replace(policy, trust=TrustStore(keys=())), now, "NO_TRUSTED_KEYS"),
    ):
        served.recheck(found, when)
        assert (None if served.problem is None else served.problem.code) == code
    with pytest.raises(HushdocError, match="two have one name"):
        ServedModels([served, served], lambda: policy)


def test_a_check_that_fails_itself_accepts_nothing_and_is_tried_again() -> None:
    policy = hushdoc_tiny.policy()
    served = Served.load("t", hushdoc_tiny.sealed_table("kie"), policy, Runtime())
    failures = [SystemExit(2), BrokenPipeError("standard error was closed")]

    def read() -> Policy:
        if failures:
            raise failures.pop()
        return policy

    models = ServedModels([served], read)
    for found in ("BrokenPipeError", "SystemExit"):
        models.recheck()
        with pytest.raises(HushdocError, match=f"failed with {found}"):
            served.require_accepted()
    models.recheck()
    assert served.require_accepted() is served


def test_nothing_is_accepted_while_a_check_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LEAST_PATIENCE", 0.05)
    policy, go = hushdoc_tiny.policy(), threading.Event()
    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}

    def hangs() -> Policy:
        go.wait(60)
        return policy

    with serving(artifacts, policy, recheck_seconds=0.05) as server:
        monkeypatch.setattr(server.models, "_policy", hangs)
        for expected in (503, 200):
            until = time.monotonic() + 20
            while server.ask("/readyz").status != expected and time.monotonic() < until:
                time.sleep(0.01)
            assert server.ask("/v1/extract", TEXT, "text/plain").status == expected
            go.set()


def test_a_check_that_can_not_begin_accepts_nothing_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}
    in_thread, has_threads = asyncio.to_thread, threading.Event()

    async def begun(call: Callable[[], None]) -> None:
        if not has_threads.is_set():
            raise RuntimeError("can't start new thread")
        await in_thread(call)

    monkeypatch.setattr(asyncio, "to_thread", begun)
    with serving(artifacts, hushdoc_tiny.policy(), recheck_seconds=0.05) as server:
        for expected in (503, 200):
            server.wait(lambda expected=expected: server.ask("/readyz").status == expected)
            assert server.ask("/v1/extract", TEXT, "text/plain").status == expected
            has_threads.set()


def test_tls_is_spoken_where_a_key_is_given(tmp_path: Path) -> None:
    cryptography = pytest.importorskip("cryptography.x509", reason="makes a certificate")
    tls = self_signed(cryptography, tmp_path)
    artifacts = {"clauses": hushdoc_tiny.sealed_table("kie")}
    with serving(artifacts, hushdoc_tiny.policy(), tls=tls) as server:
        assert server.ask("/v1/extract", TEXT, "text/plain").status == 200
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
            assert b"200" not in plain.recv(100)


def self_signed(x509: Any, folder: Path) -> tuple[Path, Path]:
    """Writes a certificate of 127.0.0.1 and its key."""
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(place, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = folder / "server.pem", folder / "server.key"
    paths[0].write_bytes(certificate.public_bytes(pem))
    private = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(pem, private, serialization.NoEncryption()))
    return paths
