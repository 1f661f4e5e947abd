"""Labelled documents in files: one JSON object a line, which training and scoring read alike.

A line is what `Document.to_dict` writes, with a "format" before it and labels behind it. Reading is
strict: what a line holds beyond the format, or against it, is one error with its file and line.
docs/data-formats.md describes the format.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from hushdoc.arguments import MalformedError, failure_of, is_unicode, printable, short_repr
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError, BoxError, InputError, LimitExceededError
from hushdoc.labels import (
    LabelledDocument,
    LabelSet,
    Question,
    Span,
    require_known,
    require_page,
    tags_of_pages,
)
from hushdoc.system import atomic_files

FORMAT = "hushdoc-labelled-1"
"""What "format" is in every line; its number changes where an older reader could go wrong."""

MAX_LINE_BYTES = ReadingLimits().max_bytes
"""A document is never larger in its file (bytes, unpacked)."""

MAX_BYTES = 8 * 2**30
"""A file is never larger (bytes, unpacked)."""

_GZIP = b"\x1f\x8b"
_MARK = codecs.BOM_UTF8  # which Windows puts before a text
_HEAD = 2**16
_KEY = re.compile(rb'"(pages|spans|words|labels)"\s*:')  # other formats have "labels" by "pages"
_OWN_KEYS = [{b"pages", b"words"}, {b"pages", b"spans"}, {b"pages", b"words", b"spans"}]

_Keys = tuple[frozenset[str], frozenset[str]]
"""The keys that an object must have, and those that it may have."""


def _keys(required: str, optional: str = "") -> _Keys:
    return frozenset(required.split()), frozenset(optional.split())


_DOCUMENT = _keys("format id pages spans", "provider document_type questions source")
_PAGE = _keys("width height words", "image frame")
_WORD = _keys("text box", "segment")
_SPAN = _keys("label page start stop")
_QUESTION = _keys("text answers", "page word_ids key question_id")
_SOURCE = _keys("reader ocr ocr_pages", "unread_pages")


def read(path: Path, *, schema: LabelSet | None = None) -> Iterator[LabelledDocument]:
    """Yields the documents of a file, plain or gzipped, in their order.

    Args:
        path: The file; images that it names are in its folder, or in folders below.
        schema: The labels that spans may have; None for any.

    Raises:
        AnnotationError: The file is missing, empty or of another format, a line is malformed or
            repeats an id, or spans overlap, leave their page or have a label outside the schema.
        InputError: A document or image can't be used: BoxError, WordError, EmptyDocumentError and
            LimitExceededError say what. Every message names the file and the line.
    """
    lines: dict[str, int] = {}
    for number, line in _lines(path):
        with _named(f"'{printable(path)}', line {number}"):
            labelled = from_dict(_parsed(line), folder=path.parent)
            name = labelled.document.id
            if lines.setdefault(name, number) != number:
                raise AnnotationError(
                    f"Line {lines[name]} has the id {short_repr(name)} too, and a document that "
                    "stands twice counts twice. Remove one of them, or give it another id."
                )
            if schema is not None:
                require_known(labelled, schema)
        yield labelled
    if not lines:
        raise AnnotationError(
            f"'{printable(path)}' holds no document; expected one JSON object a line with the "
            f'"format" {FORMAT}. Write it with `hushdoc data convert`.'
        )


def read_one(path: Path) -> LabelledDocument:
    """Returns the one document of a file; AnnotationError where it holds several."""
    found = read(path)
    first = next(found)
    if next(found, None) is not None:
        raise AnnotationError(f"'{printable(path)}' holds several documents; expected one.")
    return first


def recognises(path: Path) -> bool:
    """Returns whether a file begins as one of labelled documents; reads little, never raises."""
    with suppress(OSError, EOFError, zlib.error), ExitStack() as stack:
        head = _opened(path, stack).read(_HEAD) if path.is_file() else b""
        keys = {*_KEY.findall(head)}
        return head.removeprefix(_MARK).lstrip().startswith(b"{") and (
            keys in _OWN_KEYS or b'"hushdoc-labelled-' in head
        )
    return False


def write(path: Path, documents: Iterable[LabelledDocument], *, overwrite: bool = False) -> int:
    """Writes documents, gzipped where the name ends in .gz; returns how many.

    Images are named relative to the file's folder; those elsewhere, or in memory, are left out.

    Raises:
        AnnotationError: Labels don't fit their document, an id stands twice, or there is no
            document.
        InputError: `Document.check` finds something.
        OutputExistsError: The file exists and may not be replaced.
        OutputWriteError: The disk is full or not writable. Nothing half-written stays.
    """
    names: set[str] = set()
    with atomic_files.new_file(path, overwrite=overwrite) as stream, ExitStack() as stack:
        target = stack.enter_context(_packing(stream)) if path.suffix == ".gz" else stream
        for labelled in documents:
            name = labelled.document.id
            with _named(f"Document {short_repr(name)}"):
                if name in names:
                    raise AnnotationError("Another one has its id too. Give it another id.")
                names.add(name)
                line = dumps(labelled, folder=path.parent).encode("utf-8")
            target.write(line)
        if not names:
            raise AnnotationError("There is no document to write. Give at least one.")
    return len(names)


def dumps(labelled: LabelledDocument, *, folder: Path | None = None) -> str:
    """Returns the line of a document, checked; images are named relative to the folder."""
    labelled.document.check()
    _check(labelled)
    return json.dumps(to_dict(labelled, folder=folder), ensure_ascii=False) + "\n"


def to_dict(labelled: LabelledDocument, *, folder: Path | None = None) -> dict[str, Any]:
    """Returns plain data for JSON; `from_dict` reads it back, but for images in memory."""
    record = {"format": FORMAT, **labelled.document.to_dict(folder=folder)}
    for key, value in (
        ("provider", labelled.provider),
        ("document_type", labelled.document_type),
    ):
        if value is not None:
            record[key] = value
    record["spans"] = [
        {"label": span.label, "page": span.page, "start": span.start, "stop": span.stop}
        for span in labelled.spans
    ]
    if labelled.questions:
        record["questions"] = list(map(_question_to_dict, labelled.questions))
    return record


def _question_to_dict(question: Question) -> dict[str, Any]:
    record: dict[str, Any] = {
        "text": question.text,
        "answers": list(question.answers),
        "page": question.page,
        "word_ids": list(question.word_ids),
    }
    for name, value in (("key", question.key), ("question_id", question.question_id)):
        if value is not None:
            record[name] = value
    return record


def from_dict(data: Any, *, folder: Path | None = None) -> LabelledDocument:
    """Returns the document that `to_dict` wrote.

    Args:
        data: As parsed from JSON.
        folder: Where images must be; without it pages have none.

    Raises:
        InputError: As `read` raises; MalformedError, a ValueError, for another structure.
    """
    _require_format(data)
    _require(data, _DOCUMENT, "It")
    for key in ("provider", "document_type"):
        if data.get(key) is not None:
            _require_name(data[key], f"its {key}")
    _require_name(data["id"], "its id")
    if data.get("source") is not None:
        _require(data["source"], _SOURCE, "its source")
    for number, page in enumerate(_listed(data["pages"], "pages")):
        _require_page(page, number)
    labelled = LabelledDocument(
        document=Document.from_dict(data, folder=folder),
        spans=tuple(map(_span, _listed(data["spans"], "spans"))),
        questions=tuple(map(_question, _listed(data.get("questions", []), "questions"))),
        provider=data.get("provider"),
        document_type=data.get("document_type"),
    )
    _check(labelled)
    return labelled


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file that hold something, with their numbers from 1."""
    where, number, total = f"'{printable(path)}'", 0, 0
    with ExitStack() as stack:
        with _named(where):
            if not path.is_file():
                found = "It is a folder" if path.is_dir() else "It is no file, or there is none"
                raise AnnotationError(
                    f"{found}. Name a file of labelled documents; `hushdoc data convert` writes "
                    "one of any known corpus."
                )
            stream = _opened(path, stack)
        while True:
            number += 1
            with _named(f"{where}, line {number}"):
                line = stream.readline(MAX_LINE_BYTES + 1)
                total += len(line)
                if len(line) > MAX_LINE_BYTES or total > MAX_BYTES:
                    raise LimitExceededError(
                        f"It has more than {MAX_LINE_BYTES} bytes, or the file more than "
                        f"{MAX_BYTES}, unpacked. Write fewer pages a document, or several files."
                    )
            if not line:
                return
            line = line.removeprefix(_MARK) if number == 1 else line
            if line.strip():
                yield number, line


def _opened(path: Path, stack: ExitStack) -> BinaryIO:
    """Returns the file's content as a stream, unpacked where it is gzipped, whatever its name."""
    file = stack.enter_context(path.open("rb"))
    if file.peek(2)[:2] != _GZIP:
        return file
    packed = gzip.GzipFile(fileobj=file)
    return cast("BinaryIO", stack.enter_context(io.BufferedReader(cast("Any", packed))))


def _packing(stream: BinaryIO) -> gzip.GzipFile:
    """Returns a stream that packs what is written; the same documents give the same bytes."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Puts a place before every error's message; unforeseen ones become an AnnotationError."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{where}: {error}", code=error.code) from error
    except MemoryError:
        raise
    except Exception as error:
        raise AnnotationError(
            f"{where} is no labelled document: {_found(error)}. Expected one JSON object a line "
            f'with the "format" {FORMAT}, as docs/data-formats.md describes; write it with '
            "`hushdoc data convert`."
        ) from error


def _found(error: Exception) -> str:
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return "its gzipped content is damaged or cut off"
    return error.strerror or "it can't be read" if isinstance(error, OSError) else failure_of(error)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(
            line.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except RecursionError:
        raise MalformedError("it is too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedError("an object has a key twice")
    return found


def _no_constant(word: str) -> float:
    raise MalformedError(f"{word} is no number of JSON")


def _require_format(data: Any) -> None:
    if not isinstance(data, dict):
        raise MalformedError(f"it is {type(data).__name__}, not an object")
    found = data.get("format")
    if found != FORMAT:
        keys = short_repr(sorted(map(str, data)), 200)
        raise MalformedError(
            f"its format is {short_repr(found)}"
            if "format" in data
            else f"it has no format; its keys are {keys}"
        )


def _require(data: Any, keys: _Keys, what: str) -> None:
    """Raises unless a value is an object with the keys that it must have and no unknown ones."""
    required, optional = keys
    if type(data) is not dict:
        raise MalformedError(f"{what} is {type(data).__name__}, not an object")
    missing, unknown = required - data.keys(), data.keys() - required - optional
    if missing:
        raise MalformedError(f"{what} lacks {sorted(missing)}")
    if unknown:
        raise MalformedError(f"{what} has the unknown keys {short_repr(sorted(unknown))}")


def _require_page(page: Any, number: int) -> None:
    what = f"page {number}"
    _require(page, _PAGE, what)
    for key in ("width", "height", "frame"):
        if type(page.get(key, 0)) is not int:
            raise MalformedError(f"the {key} of {what} is no integer")
    if page.get("frame", 0) < 0:
        raise MalformedError(f"the frame of {what} is negative")
    required, optional = _WORD
    for index, word in enumerate(_listed(page["words"], f"words of {what}")):
        if type(word) is not dict or not required <= word.keys() <= required | optional:
            _require(word, _WORD, f"word {index} on {what}")
        box = word["box"]
        if type(box) is not list or not all(type(value) in (int, float) for value in box):
            raise BoxError(
                f"The box of word {index} on {what} is {short_repr(box)}; expected four numbers "
                "[x0, y0, x1, y1] in pixels."
            )
        if type(word.get("segment", 0)) not in (int, type(None)):
            raise MalformedError(f"the segment of word {index} on {what} is no integer")


def _listed(value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise MalformedError(f"its {what} are {type(value).__name__}, not a list")
    return value


def _integers(data: Mapping[str, Any], names: Iterable[str], what: str) -> None:
    for name in names:
        if type(data.get(name, 0)) is not int:
            raise MalformedError(f"the {name} of {what} is no integer")


def _span(data: Any) -> Span:
    _require(data, _SPAN, "a span")
    _integers(data, ("page", "start", "stop"), "a span")
    return Span(page=data["page"], start=data["start"], stop=data["stop"], label=data["label"])


def _question(data: Any) -> Question:
    _require(data, _QUESTION, "a question")
    _integers(data, ("page",), "a question")
    word_ids = _listed(data.get("word_ids", []), "word_ids")
    if any(type(number) is not int for number in word_ids):
        raise MalformedError("the word_ids of a question are no integers")
    return Question(
        text=data["text"],
        answers=tuple(_listed(data["answers"], "answers")),
        page=data.get("page", 0),
        word_ids=tuple(word_ids),
        key=data.get("key"),
        question_id=data.get("question_id"),
    )


def _check(labelled: LabelledDocument) -> None:
    """Raises unless names, spans and questions fit their document: the same for both ways."""
    pages = labelled.document.pages
    for what, value in (
        ("its id", labelled.document.id),
        ("its provider", labelled.provider or "-"),
        ("its document_type", labelled.document_type or "-"),
    ):
        _require_name(value, what)
    for span in labelled.spans:
        _require_name(span.label, "the label of a span")
    for number, page in enumerate(pages):
        _require_pixels(page, number)
    tags_of_pages(labelled)
    names: set[str] = set()
    for question in labelled.questions:
        for text in (question.text, *question.answers):
            if not isinstance(text, str) or not is_unicode(text):
                raise MalformedError("a question or an answer is not text")
        if question.key is not None:
            _require_name(question.key, "the key of a question")
        if question.question_id is not None:
            _require_name(question.question_id, "a question_id")
            if question.question_id in names:
                raise AnnotationError(
                    f"Two of its questions have the id {short_repr(question.question_id)}. Give "
                    "each an id of its own."
                )
            names.add(question.question_id)
        require_page(question.page, "A question", len(pages))
        num_words = len(pages[question.page].words)
        if any(not 0 <= word < num_words for word in question.word_ids):
            raise AnnotationError(
                f"A question is answered by the words {short_repr(list(question.word_ids))} of a "
                f"page with {num_words} words. Correct its word_ids."
            )
        if question.word_ids and not question.answers:
            raise AnnotationError(
                f"A question without answers is answered by {len(question.word_ids)} words. Give "
                "it answers, or no word_ids."
            )


def _require_pixels(page: Page, number: int) -> None:
    """Raises where all boxes are fractions of their page: as pixels they are one dot."""
    edges = [edge for word in page.words for edge in (word.box.x1, word.box.y1)]
    if min(page.width, page.height) > 1 and max(edges, default=2) <= 1 and 0 < min(edges) < 1:
        raise BoxError(
            f"All boxes on page {number} lie between 0 and 1, of {page.width} x {page.height} "
            "pixels; expected pixels. Multiply them by the page's width and height."
        )


def _require_name(value: Any, what: str) -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise MalformedError(f"{what} is {short_repr(value)}, not a name of printable characters")
