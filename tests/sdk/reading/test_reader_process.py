"""Reading in a process of its own: the same answers, and no file that stops or crashes the host."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hushdoc_pdf_files as pdfs
import pytest
from hushdoc_processes import in_python
from PIL import Image

from hushdoc.arguments import MalformedError
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Word
from hushdoc.errors import (
    EncryptedDocumentError,
    HushdocError,
    InputError,
    LimitExceededError,
    MissingExtraError,
    UnsupportedFormatError,
)
from hushdoc.reading import (
    OCRCache,
    ReadingLimits,
    ReadingWarning,
    isolated,
    messages,
    open_document,
    page_image,
    reader_process,
)
from hushdoc.reading.reader_process import ReaderProcess
from hushdoc.runtime.images import with_image
from hushdoc.runtime.streaming import answers, opener

PATIENCE = 120
"""A test that takes so many seconds has hung."""


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file whose one page draws a form inside a form, 10^12 times at the innermost."""
    path = tmp_path_factory.mktemp("endless") / "endless.pdf"
    path.write_bytes(pdfs.nested_forms(depth=12, times=10))
    return path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[reader_process._Pool]:
    """Gives a test processes of its own, and ends them."""
    pool = reader_process._Pool()
    monkeypatch.setattr(reader_process, "_pool", pool)
    yield pool
    for process in tuple(pool.all):
        process.end()


class Engine:
    """An engine that reads one word on each image."""

    name, version = "engine", "1"

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def read(self, image: object) -> list[Word]:
        self.sizes.append(image.size)  # type: ignore[attr-defined]
        return [Word(text="seen", box=Box(x0=1, y0=2, x1=3, y1=4), segment=0)]


def outcome(path: Path | bytes, reader: str, **options: object) -> object:
    """Returns all that a caller sees of a file: the document, its image and warnings, or errors."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            document = open_document(path, reader=reader, **options)  # type: ignore[arg-type]
        except HushdocError as error:
            return type(error), str(error), error.code
        images = [page_image(page) for page in document.pages]
    assert {page.reader for page in document.pages if page.image is not None} <= {reader}
    pixels = [None if image is None else image.tobytes() for image in images]
    seen = [(page.fingerprint, page.limits is None) for page in document.pages]
    return document, pixels, seen, [(str(one.message), one.filename) for one in told]


def test_answers_are_those_of_reading_here(tmp_path: Path, fixtures: Path) -> None:
    given = {
        "two.pdf": pdfs.file([pdfs.shown("Total 12.50"), pdfs.shown("Page two")]),
        "locked.pdf": pdfs.file([pdfs.shown("Secret")], password="open"),
        "scan.png": (fixtures / "page.png").read_bytes(),
        "note.txt": "Ein Brief über nichts.".encode(),
        "page.hocr": (fixtures / "tesseract.hocr").read_bytes(),
        "torn.pdf": pdfs.file([pdfs.shown("Total 12.50")])[:200],
        "program": b"\x7fELF\0\1\2\3",
        "empty.txt": b"",
    }
    for name, content in given.items():
        path = tmp_path / name
        path.write_bytes(content)
        for source in (path, content):
            here, there = (outcome(source, reader, ocr="none") for reader in ("here", "process"))
            assert here == there, name
    assert outcome(tmp_path / "none.pdf", "here") == outcome(tmp_path / "none.pdf", "process")
    locked = tmp_path / "locked.pdf"
    wrong = [outcome(locked, reader, password="wrong") for reader in ("here", "process")]  # type: ignore[misc]
    assert wrong[0] == wrong[1]
    assert wrong[0][0] is EncryptedDocumentError  # type: ignore[index]
    # No two unlocked copies have the same bytes.
    here, there = (outcome(locked, reader, password="open") for reader in ("here", "process"))
    assert here[0].to_dict() == there[0].to_dict()  # type: ignore[index]
    assert here[1:] == there[1:]  # type: ignore[index]
    opened = open_document(tmp_path / "locked.pdf", password="open", reader="process")
    assert isinstance(opened.pages[0].image, bytes)
    assert b"/Encrypt" not in opened.pages[0].image


def test_images_of_a_document_s_json_are_those_beside_it(tmp_path: Path, fixtures: Path) -> None:
    (tmp_path / "page.png").write_bytes((fixtures / "page.png").read_bytes())
    for name in ("page.png", "../page.png", "/etc/hostname"):
        data = '{"id": "d", "pages": [{"width": 800, "height": 480, "image": "%s", "words": [%s]}]}'
        word = '{"text": "a", "box": [0, 0, 9, 9]}'
        (tmp_path / "d.json").write_text(data % (name, word))
        here, there = (outcome(tmp_path / "d.json", reader) for reader in ("here", "process"))
        assert here == there
    opened = open_document(tmp_path / "page.png", ocr=Engine(), reader="process")
    moved = Document.from_dict(opened.to_dict(folder=tmp_path), folder=tmp_path)
    assert moved.pages[0].reader == "here"


def test_engines_and_their_cache_stay_with_the_host(fixtures: Path) -> None:
    path, engine, cache = fixtures / "page.png", Engine(), OCRCache()
    document = open_document(path, ocr=engine, cache=cache, reader="process")
    assert document == open_document(path, ocr=engine, cache=cache)
    assert [word.text for word in document.pages[0].words] == ["seen"]
    assert engine.sizes == [(800, 480)]  # the second time it was kept
    assert str(document.source) == "image, page 0 by engine 1"

    class Broken(Engine):
        def read(self, image: object) -> list[Word]:
            raise KeyError("lost")

    said = [outcome(path, reader, ocr=Broken()) for reader in ("here", "process")]
    assert said[0] == said[1]


def test_what_an_engine_takes_is_not_the_file_s_time(fixtures: Path) -> None:
    class Slow(Engine):
        def read(self, image: object) -> list[Word]:
            time.sleep(2.2)
            return super().read(image)

    limits = ReadingLimits(max_seconds=2)
    document = open_document(
        fixtures / "page.png", ocr=Slow(), cache=OCRCache(), limits=limits, reader="process"
    )
    assert document.num_words == 1


def test_warnings_name_the_caller_s_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hushdoc.reading.ocr.rapid_is_installed", lambda: False)
    monkeypatch.setattr("hushdoc.reading.tesseract.program", lambda: None)
    content = pdfs.file([pdfs.shown("Total 12.50"), b"0 0 300 300 re f\n"])
    here, there = (outcome(content, reader) for reader in ("here", "process"))
    assert here == there
    with pytest.warns(ReadingWarning, match="Page 1 of 'document' can be read by OCR") as told:
        open_document(content, reader="process")
    assert told[0].filename == __file__
    with pytest.raises(MissingExtraError, match="rapidocr"):
        open_document(pdfs.file([b"0 0 300 300 re f\n"]), reader="process")


def test_a_file_that_never_returns_is_ended(endless: Path, alone: reader_process._Pool) -> None:
    limits = ReadingLimits(max_seconds=0.4)
    with pytest.raises(LimitExceededError, match=r"'endless.pdf' took more than 0.4 sec") as told:
        open_document(endless, limits=limits, reader="process")
    assert (told.value.code, told.value.exit_code) == ("READER_TIMEOUT", 3)
    (page,) = open_document(pdfs.file([pdfs.shown("Total")]), reader="process").pages
    hung = pickle.loads(pickle.dumps(page))
    object.__setattr__(hung, "image", endless.read_bytes())
    object.__setattr__(hung, "limits", limits)
    with pytest.raises(LimitExceededError) as told:
        page_image(hung)
    assert told.value.code == "READER_TIMEOUT"
    with pytest.raises(LimitExceededError):
        with_image(endless, limits=limits, reader="process")
    assert len(alone.all) <= 1
    assert children() == [process._process.pid for process in alone.all]


def children() -> list[int]:
    """Returns this process's children that are reader processes, zombies included."""
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],  # noqa: S607
        capture_output=True,
        check=False,
        text=True,
    ).stdout
    return [
        int(line.split()[0])
        for line in found.splitlines()
        if "reader_program" in line or "defunct" in line
    ]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_process_that_crashes_is_an_error_of_its_file(
    endless: Path, alone: reader_process._Pool, number: int
) -> None:
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(open_document, endless, reader="process")
        while not alone.all:
            time.sleep(0.01)
        time.sleep(0.3)
        (process,) = alone.all
        os.kill(process._process.pid, number)
        with pytest.raises(UnsupportedFormatError) as told:
            reading.result(PATIENCE)
    assert told.value.code == "READER_CRASHED"
    assert signal.Signals(number).name in str(told.value)
    assert not alone.all
    assert open_document(b"and on it goes", reader="process").text == "and on it goes"


def test_one_killed_while_it_waits_is_replaced(alone: reader_process._Pool) -> None:
    open_document(b"one", reader="process")
    (first,) = alone.all
    open_document(b"two", reader="process")
    assert alone.all == {first}
    os.kill(first._process.pid, signal.SIGKILL)
    while first._process.poll() is None:
        time.sleep(0.01)
    assert open_document(b"three", reader="process").text == "three"
    assert first not in alone.all


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_a_file_that_needs_too_much_memory_is_refused(alone: reader_process._Pool) -> None:
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.new("L", (6000, 6000)).save(stream, "PNG")
    few, many = (ReadingLimits(max_memory=number * 2**20) for number in (100, 2048))
    with pytest.raises(LimitExceededError, match="bytes of memory"):
        open_document(stream.getvalue(), ocr=Engine(), limits=few, reader="process")
    document = open_document(stream.getvalue(), ocr=Engine(), limits=many, reader="process")
    assert document.num_words == 1  # by the same process


def test_limits_that_reading_here_can_t_keep_are_refused() -> None:
    for limits in (ReadingLimits(max_seconds=5), ReadingLimits(max_memory=2**30)):
        with pytest.raises(ValueError, match='Pass reader="process"'):
            open_document(b"text", limits=limits)
    with pytest.raises(ValueError, match="reader is 'there'"):
        open_document(b"text", reader="there")
    for wrong in (0, -1, float("nan"), float("inf"), "5", True):
        with pytest.raises(ValueError, match="max_seconds"):
            ReadingLimits(max_seconds=wrong)  # type: ignore[arg-type]


def test_each_worker_has_a_process(tmp_path: Path, alone: reader_process._Pool) -> None:
    paths = []
    for number in range(12):
        paths.append(tmp_path / f"{number}.pdf")
        paths[-1].write_bytes(pdfs.file([pdfs.shown(f"Number {number}")]))
    (tmp_path / "4.pdf").write_bytes(b"%PDF-1.4 torn")

    def last(document: Document) -> str:
        return document.pages[0].words[-1].text

    found = list(answers(paths, last, workers=2, on_error="collect", opened=opener("process")))
    assert [isinstance(one, str) for one in found] == [number != 4 for number in range(12)]
    assert found[11] == "11"
    assert len(alone.all) <= 2


def run(program: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a program of Python as its own process; a hung one fails the test."""
    return in_python(program, *arguments, check=False, timeout=PATIENCE, **options)


UNGUARDED = """
import sys, threading
from hushdoc import open_document
def read():
    print(open_document(sys.argv[1].encode(), reader="process").text)
thread = threading.Thread(target=read, daemon=True)
thread.start()
thread.join()
"""


def test_programs_need_no_guard_and_no_main_thread(tmp_path: Path) -> None:
    # What lies in the current folder is not imported by the reader process.
    (tmp_path / "pypdfium2.py").write_text("print('imported')\n")
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n")
    done = run("import sys; sys.path.remove('')\n" + UNGUARDED, "words", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("words\n", "", 0)


PRINTS = """
import sys
from hushdoc import OCRRequiredError, open_document
try:
    open_document(sys.argv[1], reader=sys.argv[2], ocr="none")
except OCRRequiredError:
    print("read")
"""


def test_what_decoders_print_of_a_file_goes_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "longer.tif"
    Image.new("L", (40, 40)).save(file, tiffinfo={305: "software, so it says"})
    tag = struct.pack("<HHI", 305, 2, 21)
    assert file.read_bytes().count(tag) == 1
    file.write_bytes(file.read_bytes().replace(tag, struct.pack("<HHI", 305, 2, 10**6)))
    here, apart = run(PRINTS, file, "here"), run(PRINTS, file, "process")
    assert "UserWarning" in here.stderr
    assert (here.stdout, apart.stdout, apart.stderr) == ("read\n", "read\n", "")


AT_EXIT = """
import atexit, sys, threading, time
from hushdoc import open_document
from hushdoc.reading import reader_process
open_document(b"words", reader="process")
if sys.argv[2] == "busy":
    threading.Thread(
        target=open_document, args=(sys.argv[1],), kwargs={"reader": "process"}, daemon=True
    ).start()
    time.sleep(.5)
elif sys.argv[2] == "late":
    atexit.register(lambda: print(open_document(b"late", reader="process").text))
print(*[process._process.pid for process in reader_process._pool.all])
"""


def gone(pid: int) -> bool:
    """Returns whether a process has ended, waiting a while for it."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("how", ["idle", "busy", "late"])
def test_processes_end_with_the_host(endless: Path, how: str) -> None:
    done = run(AT_EXIT, endless, how)
    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    assert lines[1:] == (["late"] if how == "late" else [])
    assert all(gone(int(pid)) for pid in lines[0].split())


INTERRUPTED = """
import sys
from hushdoc import open_document
from hushdoc.reading import reader_process
open_document(b"words", reader="process")
print(*[process._process.pid for process in reader_process._pool.all], flush=True)
try:
    open_document(sys.argv[1], reader="process")
except KeyboardInterrupt:
    print(len(reader_process._pool.all), open_document(b"again", reader="process").text)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_host_that_is_interrupted_or_killed_leaves_nothing(endless: Path, number: int) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(endless)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    time.sleep(0.5)
    if number == signal.SIGINT:
        os.killpg(host.pid, number)  # as a terminal does
    else:
        # A host that is killed can't end its process, which then ends itself: by its pipe here, as
        # its alarm comes only after a minute.
        os.kill(host.pid, number)
        os.kill(pid, signal.SIGALRM)
    out, err = host.communicate(timeout=PATIENCE)
    assert err == ""
    assert out == ("0 again\n" if number == signal.SIGINT else "")
    assert gone(pid)


def test_the_process_has_an_alarm_of_its_own(endless: Path) -> None:
    process = ReaderProcess()
    try:
        pipe = process._process.stdin
        question = {
            "do": "pages",
            "name": "a",
            "password": None,
            "limits": {},
            "memory": 2**32,
            "seconds": 0.2,
        }
        messages.send(pipe, question, endless.read_bytes())  # type: ignore[arg-type]
        assert process._process.wait(PATIENCE) == -signal.SIGALRM
    finally:
        process.end()


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(3)",
        "import os; os.write(1, b'x' * 100)",
        "import os; os.write(1, (2**62).to_bytes(8, 'big') * 2)",
    ],
)
def test_a_program_that_does_not_start_is_told(
    monkeypatch: pytest.MonkeyPatch, alone: reader_process._Pool, program: str
) -> None:
    monkeypatch.setattr(reader_process, "_PROGRAM", program)
    with pytest.raises(HushdocError, match="No reader process can be started") as told:
        open_document(b"words", reader="process")
    assert (told.value.code, told.value.exit_code) == ("READER_NOT_STARTED", 6)
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/nowhere/python")
    with pytest.raises(HushdocError, match="No reader process can be started"):
        open_document(b"words", reader="process")


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"[]", b""),
        (b"{", b""),
        (b"[" * 50_000, b""),
        (b'{"document": 1, "image": null, "notes": []}', b""),
        (b'{"document": {"id": "a", "text": 5}, "image": null, "notes": []}', b""),
        (b'{"drawn": [4, 4]}', b"123"),
        (b'{"drawn": [1e9, 4]}', b"123"),
        (b'{"error": {"class": "SystemExit", "message": "\\u001b[2J", "code": "../"}}', b""),
        (b'{"error": {"class": "Any", "message": 5, "code": null}}', b""),
        (b'{"error": 5}', b""),
        (b"{}", b""),
    ],
)
def test_no_answer_is_trusted(
    monkeypatch: pytest.MonkeyPatch, alone: reader_process._Pool, head: bytes, body: bytes
) -> None:
    program = (
        "import os, struct\n"
        "def send(head, body):\n"
        "    content = struct.pack('>QQ', len(head), len(body)) + head + body\n"
        "    while content: content = content[os.write(1, content):]\n"
        f"send(b'{{}}', b'')\nos.read(0, 1 << 16)\nsend({head!r}, {body!r})\nos.read(0, 1 << 16)\n"
    )
    monkeypatch.setattr(reader_process, "_PROGRAM", program)
    with pytest.raises(InputError) as told:
        open_document(b"words", ocr=Engine(), reader="process")
    assert str(told.value).isprintable()
    assert told.value.code in ("READER_CRASHED", "UNSUPPORTED_FORMAT", "BAD_INPUT")


def test_a_document_from_a_process_is_checked_as_a_file_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = {"width": 9, "height": 9, "image": "/etc/hostname", "frame": 0}
    page["words"] = [{"text": "a", "box": [0, 0, 99, 9], "segment": None}]
    answer = {"document": {"id": "a", "pages": [page]}, "image": None, "notes": []}
    monkeypatch.setattr(reader_process, "ask", lambda *given, **named: (answer, b""))
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    with pytest.raises(InputError) as told:
        open_document(path, reader="process")
    assert told.value.code == "IMAGE_OUTSIDE"
    page["image"] = None
    with pytest.raises(InputError) as told:
        open_document(path, reader="process")
    assert told.value.code == "BAD_BOX"


def test_errors_of_any_class_travel_as_text() -> None:
    error = EncryptedDocumentError("It needs a password.")
    back = isolated.error_from_dict(isolated.error_to_dict(error))
    assert (type(back), str(back), back.code) == (type(error), str(error), error.code)
    missing = isolated.error_from_dict(isolated.error_to_dict(MissingExtraError("PIL", "pdf")))
    assert (type(missing), str(missing)) == (
        MissingExtraError,
        str(MissingExtraError("PIL", "pdf")),
    )


FORKED = """
import os, sys, threading, time
from hushdoc import open_document
from hushdoc.reading import reader_process
open_document(b"before", reader="process")
started = threading.Event()
def read():
    started.set()
    open_document(sys.argv[1], reader="process")
threading.Thread(target=read, daemon=True).start()
started.wait()
time.sleep(.2)
before = set(reader_process._pool.all)
child = os.fork()
text = open_document(b"in both", reader="process").text
if child == 0:
    alive = [process._process for process in reader_process._pool.all]
    os.write(1, f"{text} {len(alive)}\\n".encode())
    os._exit(0)
os.waitpid(child, 0)
print(text, before <= reader_process._pool.all)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="systems with fork")
def test_a_forked_host_starts_processes_of_its_own(endless: Path) -> None:
    quiet = "import warnings\nwarnings.simplefilter('ignore')\n"  # Python warns of such forks
    done = run(quiet + FORKED, endless)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "in both 1\nin both True\n"


def test_the_password_is_in_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    start = subprocess.Popen

    def noted(command: list[str], **options: object) -> object:
        seen.append((command, options.get("env")))
        return start(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(reader_process, "_pool", reader_process._Pool())
    monkeypatch.setattr(subprocess, "Popen", noted)
    content = pdfs.file([pdfs.shown("Secret")], password="opensesame")
    assert open_document(content, password="opensesame", reader="process").num_words == 1
    assert len(seen) == 1
    assert "opensesame" not in repr(seen)
    reader_process._end_all()


def test_messages_are_whole_or_refused() -> None:
    near, far = os.pipe()
    import io

    with io.FileIO(near, "rb") as reads, io.FileIO(far, "wb") as writes:
        sender = threading.Thread(target=messages.send, args=(writes, {"a": 1}, b"x" * 3_000_000))
        sender.start()
        assert messages.receive(reads, max_bytes=3_000_000) == ({"a": 1}, b"x" * 3_000_000)
        sender.join()
        messages.send(writes, {}, b"12345")
        with pytest.raises(MalformedError, match="announces 2 and 5 bytes"):
            messages.receive(reads, max_bytes=4)
