"""The program of a reader process: reads files that come through a pipe, one after the other.

Contract: it opens no file but images beside a document's JSON, and what it answers is JSON, and the
pixels of a page that was asked for.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box, Word
from hushdoc.errors import HushdocError, LimitExceededError, MissingExtraError
from hushdoc.reading import drawing, isolated, messages, opening
from hushdoc.reading.files import File
from hushdoc.reading.ocr import Reader

if TYPE_CHECKING:
    from PIL import Image

GRACE_SECONDS = 1.0
"""So much later than the host would, the process ends itself: the host may be gone."""


def main() -> None:
    """Answers questions until the host closes the pipe."""
    pipe = Pipe(io.FileIO(os.dup(0), "rb"), io.FileIO(os.dup(1), "wb"))
    # Whatever a decoder prints is no part of an answer, and may tell of the document.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    with suppress(EOFError, BrokenPipeError):
        pipe.answer({})
        while True:
            pipe.answer(*_answered(*pipe.question(), pipe))


class Pipe:
    """The way to the host; the process has time from a question to its answer."""

    def __init__(self, questions: io.FileIO, answers: io.FileIO) -> None:
        """Takes both ends."""
        self._questions, self._answers = questions, answers

    def question(self) -> messages.Message:
        """Returns the next question, and sets what it may take."""
        head, content = messages.receive(self._questions, max_bytes=sys.maxsize)
        _limit_memory(head["memory"])
        _limit_seconds(head["seconds"] + GRACE_SECONDS)
        return head, content

    def answer(self, head: Mapping[str, Any], body: bytes = b"") -> None:
        """Sends an answer."""
        messages.send(self._answers, head, body)
        _limit_seconds(0)


def _limit_seconds(seconds: float) -> None:
    """Has the system end this process after so many seconds, wherever it is; 0 is never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit_memory(num_bytes: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    import resource

    # What the process writes to, and not what it maps: files and reserved addresses are none.
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    least = num_bytes if most == resource.RLIM_INFINITY else min(num_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (least, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would hold the document


def _answered(question: Mapping[str, Any], content: bytes, pipe: Pipe) -> messages.Message:
    """Returns the answer to a question, or the error that it raised."""
    given = File(name=question["name"], content=content)
    limits = ReadingLimits(**question["limits"])
    try:
        if question["do"] == "draw":
            return _drawn(question, given, limits)
        if question["do"] == "pages":
            return _pages(question, given, limits)
        return _read(question, given, limits, pipe)
    except MemoryError:
        error: HushdocError = LimitExceededError(
            f"Reading '{given.name}' takes more than the {question['memory']} bytes of memory that "
            "a reader process may take. Leave it out, or raise ReadingLimits.max_memory."
        )
    except HushdocError as raised:
        error = raised
    return {"error": isolated.error_to_dict(error)}, b""


def _read(
    question: Mapping[str, Any], given: File, limits: ReadingLimits, pipe: Pipe
) -> messages.Message:
    path = None if question["path"] is None else Path(question["path"])
    password = question["password"]
    document, notes = opening.read(
        File(name=given.name, content=given.content, path=path),
        format=question["format"],
        id=question["id"],
        password=password,
        limits=limits,
        reader=HostReader(question, pipe),
    )
    data = document.to_dict(folder=None if path is None else path.parent)
    image, copy = _image_of(document, given.content, path)
    return {"document": data, "image": image, "notes": notes}, copy


def _pages(question: Mapping[str, Any], given: File, limits: ReadingLimits) -> messages.Message:
    document = drawing.pages(given, password=question["password"], limits=limits)
    sizes = [[page.frame, page.width, page.height] for page in document.pages]
    image, copy = _image_of(document, given.content, None)
    return {"sizes": sizes, "image": "path" if image == "content" else image}, copy


def _drawn(question: Mapping[str, Any], given: File, limits: ReadingLimits) -> messages.Message:
    width, height = question["size"]
    image = drawing.drawn(
        given,
        question["frame"],
        size=(width, height),
        password=question["password"],
        limits=limits,
    )
    return {}, image.tobytes()


def _image_of(document: Document, content: bytes, path: Path | None) -> tuple[str | None, bytes]:
    """Returns what the pages' image is: the file's path or content, an unlocked copy, or none."""
    image = next((page.image for page in document.pages), None)
    if not isinstance(image, bytes):
        return ("path" if image is not None and image is path else None), b""
    return ("content", b"") if image is content else ("copy", image)


class HostReader(Reader):
    """Has the host read images: engines and what they read are there."""

    def __init__(self, question: Mapping[str, Any], pipe: Pipe) -> None:
        """Takes the host's choice of an engine from its question."""
        super().__init__("none" if question["forbidden"] else "auto", None)
        self.every_page = question["every_page"]
        self._pipe = pipe
        self._label: str | None = None

    @property
    def label(self) -> str | None:
        """Name and version of the host's engine, if it read an image."""
        return self._label

    def read(self, image: Image.Image) -> tuple[Word, ...]:
        """Returns the words of an RGB image; MissingExtraError where the host lacks an engine."""
        self._pipe.answer({"drawn": image.size}, image.tobytes())
        found, _ = self._pipe.question()
        if "missing" in found:
            raise MissingExtraError(*found["missing"])
        self._label = found["label"]
        return tuple(
            Word(text=text, box=Box(x0=x0, y0=y0, x1=x1, y1=y1), segment=segment)
            for text, (x0, y0, x1, y1), segment in found["words"]
        )
