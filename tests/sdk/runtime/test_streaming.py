"""Many documents: in order, a few ahead, errors in their place, nothing left running."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hushdoc_processes import in_python

from hushdoc.document.document import Document
from hushdoc.errors import EmptyDocumentError, HushdocError, InputError
from hushdoc.reading.opening import open_document
from hushdoc.runtime.extraction import Failure
from hushdoc.runtime.streaming import answers
from hushdoc.system import progress


def document(number: int) -> Document:
    return Document.from_text(f"text {number}", id=str(number))


def slower_first(asked: Document) -> str:
    """Answers such that later documents are ready before earlier ones."""
    time.sleep(0.02 if int(asked.id) % 4 == 0 else 0)
    return asked.id


def fussy(asked: Document) -> str:
    """Answers all but the document of number 1."""
    if asked.id == "1":
        raise EmptyDocumentError("nothing there")
    return asked.id


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_answers_come_in_order(workers: int) -> None:
    found = answers((document(n) for n in range(23)), slower_first, workers=workers)
    assert list(found) == [str(n) for n in range(23)]
    assert list(answers([], slower_first, workers=workers)) == []


def test_workers_really_work_side_by_side() -> None:
    both = threading.Barrier(2, timeout=200)

    def meet(asked: Document) -> str:
        both.wait()
        return asked.id

    assert list(answers([document(0), document(1)], meet, workers=2)) == ["0", "1"]


@pytest.mark.parametrize(("workers", "ahead"), [(1, 1), (2, 4), (3, 6)])
def test_only_a_few_are_taken_ahead(workers: int, ahead: int) -> None:
    taken: list[int] = []

    def endless() -> Iterator[Document]:
        while True:
            taken.append(len(taken))
            yield document(len(taken) - 1)

    found = answers(endless(), lambda asked: asked.id, workers=workers)
    for number in range(10):
        assert next(found) == str(number)
        assert len(taken) <= number + ahead
    found.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [1, 3])
def test_failures_are_collected_in_their_place(workers: int) -> None:
    found = list(
        answers((document(n) for n in range(4)), fussy, workers=workers, on_error="collect")
    )
    assert [item if isinstance(item, str) else item.document_id for item in found] == list("0123")
    assert isinstance(found[1], Failure)
    assert found[1].error.code == "EMPTY_DOCUMENT"
    stream = answers((document(n) for n in range(4)), fussy, workers=workers)
    assert next(stream) == "0"
    with pytest.raises(EmptyDocumentError):
        next(stream)


@pytest.mark.parametrize("workers", [1, 2])
def test_paths_are_opened_and_those_that_are_not_there_are_collected(
    workers: int, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("some words")
    paths = [tmp_path / "a.txt", tmp_path / "gone.txt", str(tmp_path / "a.txt")]
    found = list(answers(paths, lambda asked: str(asked.text), workers=workers, on_error="collect"))
    assert [found[0], found[2]] == ["some words"] * 2
    assert found[1].document_id == str(paths[1])
    assert isinstance(found[1].error, InputError)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode there")
@pytest.mark.parametrize("reader", ["here", "process"])
def test_files_whose_names_are_no_unicode_are_answered_in_unicode(
    tmp_path: Path, reader: str
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.txt"))
    path.write_text("some words")
    assert open_document(path, reader=reader).id == "a\\xff"
    (found,) = answers([path.with_suffix(".no")], fussy, on_error="collect")
    assert isinstance(found, Failure)
    assert found.document_id == f"{tmp_path}/a\\xff.no"
    assert json.loads(found.to_json().encode()) == found.to_dict()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("item", [None, 7, b"%PDF-1.7", ["a.txt"]])
def test_what_is_no_document_is_told_in_its_place(workers: int, item: Any) -> None:
    asked: list[Any] = [document(0), item, document(2)]
    found = list(answers(asked, lambda asked: asked.id, workers=workers, on_error="collect"))
    assert [found[0], found[2]] == ["0", "2"]
    assert found[1].document_id == "item 1"
    assert found[1].error.code == "BAD_INPUT"
    assert type(item).__name__ in str(found[1].error)
    json.loads(found[1].to_json())
    stream = answers(asked, lambda asked: asked.id, workers=workers)
    assert next(stream) == "0"
    with pytest.raises(InputError, match="Item 1 of the documents is"):
        next(stream)


@pytest.mark.parametrize("workers", [1, 2])
def test_functions_open_documents_in_their_own_way(workers: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("some words")
    by: list[int] = []

    def own(path: Path, **options: Any) -> Document:
        by.append(threading.get_ident())
        return open_document(path, **options)

    asked = [
        partial(own, tmp_path / "a", id="mine"),
        partial(own, tmp_path / "a", format="hocr"),
        lambda: None,
        partial(own, tmp_path / "gone"),
    ]
    found = list(answers(asked, lambda asked: asked.id, workers=workers, on_error="collect"))  # type: ignore[arg-type]
    assert found[0] == "mine"
    codes = [item.error.code for item in found if isinstance(item, Failure)]
    assert codes == ["UNSUPPORTED_FORMAT", "BAD_INPUT", "BAD_INPUT"]
    told = [item.document_id for item in found if isinstance(item, Failure)]
    assert told == ["item 1", "item 2", "item 3"]
    assert (threading.get_ident() in by) == (workers == 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_one_malformed_line_does_not_lose_the_others(workers: int, tmp_path: Path) -> None:
    """A page of 10**400 pixels is one document that can't be read, never the end of all."""
    good = Document.from_words(["a"], [(0, 0, 1, 1)], width=9, height=9)
    data = good.to_dict()
    data["pages"][0]["width"] = 10**400
    (tmp_path / "bad.json").write_text(json.dumps(data))
    huge = replace(good, pages=(replace(good.pages[0], width=1e308),))
    asked = [good, tmp_path / "bad.json", huge, good]

    def normal(found: Document) -> tuple[int, ...]:
        found.check()
        (page,) = found.pages
        return page.words[0].box.normalized(width=page.width, height=page.height)

    found = list(answers(asked, normal, workers=workers, on_error="collect"))
    assert [type(item) for item in found] == [tuple, Failure, Failure, tuple]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bug_is_never_collected(workers: int) -> None:
    def broken(asked: Document) -> str:
        raise ZeroDivisionError

    found = answers([document(0)], broken, workers=workers, on_error="collect")
    with pytest.raises(ZeroDivisionError):
        next(found)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_that_breaks_is_told_after_what_came_before(workers: int) -> None:
    def source() -> Iterator[Document]:
        yield document(0)
        yield document(1)
        raise HushdocError("the source broke")

    found = answers(source(), lambda asked: asked.id, workers=workers, on_error="collect")
    assert [next(found), next(found)] == ["0", "1"]
    with pytest.raises(HushdocError, match="the source broke"):
        next(found)


def test_closing_drops_what_nobody_began() -> None:
    begun: list[str] = []

    def slow(asked: Document) -> str:
        begun.append(asked.id)
        time.sleep(0.05)
        return asked.id

    found = answers((document(n) for n in range(100)), slow, workers=2)
    assert next(found) == "0"
    found.close()  # type: ignore[attr-defined]
    assert len(begun) <= 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hushdoc_")]


def test_wrong_settings_are_refused_before_anything_is_read() -> None:
    def never() -> Iterator[Document]:
        raise AssertionError("read")
        yield

    for workers in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="workers is"):
            answers(never(), slower_first, workers=workers)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_error is 'skip'"):
        answers(never(), slower_first, on_error="skip")  # type: ignore[arg-type]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("total", "known"), [(3, "3 of 3"), (None, "3")])
def test_progress_is_told_and_ends_with_the_whole(
    total: int | None, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "TERMINAL_SECONDS", 0)
    documents = [document(n) for n in range(3)]
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        source = documents if total else iter(documents)
        list(answers(source, fussy, on_error="collect", progress=True))
        told = stream.getvalue()
        line = re.split("[\r\n]", told.rstrip("\n"))[-1]
        assert re.fullmatch(rf"{known} documents, [0-9.]+ per second, 1 failed(\x1b\[K)?", line)
        assert ("\x1b" in told) == stream.isatty()
        assert told.endswith("\n")


def test_nothing_is_told_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    list(answers([document(0)], lambda asked: asked.id, workers=2))
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_at_any_moment_leaves_nobody_waiting() -> None:
    code = """
import faulthandler, sys
from hushdoc.document.document import Document
from hushdoc.runtime.streaming import answers

faulthandler.dump_traceback_later(100, exit=True)
texts = [Document.from_text("x", id=str(number)) for number in range(9)]

def is_interrupted(moment):
    seen = 0
    def profile(frame, event, argument):
        nonlocal seen
        seen += event in ("return", "c_return")
        if seen == moment:
            sys.setprofile(None)
            raise KeyboardInterrupt
    found = answers(texts, lambda asked: asked.id, workers=2)
    try:
        sys.setprofile(profile)
        for _ in found:
            pass
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False

moment = 1
while is_interrupted(moment):
    moment += 1
print(moment)
"""
    done = in_python(code)
    assert int(done.stdout) > 50


def test_an_interrupt_ends_it_cleanly() -> None:
    code = (
        "import signal, sys, time\n"
        # A shell that starts tests in the background has them ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from hushdoc.document.document import Document\n"
        "from hushdoc.runtime.streaming import answers\n"
        "def slow(asked):\n"
        "    time.sleep(0.1)\n"
        "    return asked.id\n"
        "texts = (Document.from_text('x', id=str(n)) for n in range(10_000))\n"
        "try:\n"
        "    for found in answers(texts, slow, workers=2):\n"
        "        print(found, flush=True)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "0\n"
        running.send_signal(signal.SIGINT)
        printed, warned = running.communicate(timeout=200)
    assert printed.endswith("interrupted\n")
    assert (warned, running.returncode) == ("", 0)
