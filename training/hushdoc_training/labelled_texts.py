"""Texts with labelled clauses and entities: CUAD (Hendrycks et al. 2021), CoNLL files, newsgroups.

Contracts come as lines of JSON: {"id", "group", "text", "spans": [[label, start, stop], ...]} with
offsets in characters, plain or gzipped. WNUT-17 and the SEC filings come as columns of tokens and
tags, newsgroups as lines of JSON: {"id", "label", "text"}.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hushdoc.arguments import MalformedError, failure_of, reading_as, short_repr
from hushdoc.errors import AnnotationError, LimitExceededError
from hushdoc.labels import LabelledDocument

FILES = (".jsonl", ".jsonl.gz", ".conll", ".txt")
"""How files of texts are called."""

_NOT_DATA = re.compile(r"readme|licen[cs]e|terms|notice", re.IGNORECASE)
_NEW_DOCUMENT = "-DOCSTART-"

TextSpan = tuple[str, int, int]
"""A label, its first character and one past its last."""

_GZIP = b"\x1f\x8b"

MAX_BYTES = 2 * 2**30
"""A file is never larger (bytes, unpacked)."""


class LabelledText(Protocol):
    """A text with labelled parts."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def spans(self) -> Sequence[TextSpan]:
        """Its labelled parts."""


class ClassifiedText(Protocol):
    """A text of one class."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def label(self) -> str:
        """Its class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contract:
    """A text with labelled parts."""

    name: str
    group: str  # such as a company; a split keeps groups whole
    text: str
    spans: tuple[TextSpan, ...]  # label, first character, one past the last


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A sentence of tokens with BIO tags."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    document: int  # the number of the document it stands in, from 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A text of one class."""

    name: str
    label: str
    text: str


def find(location: Path) -> Path:
    """Returns the one file of texts in a folder, licences and readmes apart, or the file itself."""
    if not location.is_dir():
        if location.is_file():
            return location
        raise AnnotationError(
            f"'{location}' does not exist. Give a file of texts, or a folder that holds one."
        )
    found = sorted(
        path.name
        for path in location.iterdir()
        if path.name.endswith(FILES) and not _NOT_DATA.search(path.name) and path.is_file()
    )
    if len(found) != 1:
        raise AnnotationError(
            f"The folder '{location}' holds {len(found)} files of texts"
            f"{': ' + ', '.join(found[:8]) if found else ''}; expected one ({', '.join(FILES)}). "
            "Name the file."
        )
    return location / found[0]


def read_contracts(path: Path) -> list[Contract]:
    """Returns the contracts of a file of JSON lines, in order.

    Raises:
        AnnotationError: The file can't be read or a line is malformed; names the line.
        LimitExceededError: It has more than MAX_BYTES.
    """
    found = []
    numbers: dict[str, int] = {}
    for number, line in _objects(path):
        try:
            text = line["text"]
            if not isinstance(text, str):
                raise MalformedError("text must be a string")
            spans = tuple(_span(span, text) for span in line["spans"])
            name = str(line["id"])
            group = str(line.get("group", name))
            if numbers.setdefault(name, number) != number:
                raise MalformedError(
                    f"line {numbers[name]} has the id {short_repr(name)} too; a document that "
                    "is protected as one has to stand in one line"
                )
            found.append(Contract(name=name, group=group, text=text, spans=spans))
        except (KeyError, TypeError, ValueError) as error:
            raise _bad_line(path, number, failure_of(error), "id, text and spans") from error
    return found


def _span(entry: Any, text: str) -> TextSpan:
    if type(entry) is not list or len(entry) != 3:
        raise MalformedError("a span is no list [label, start, stop]")
    label, start, stop = entry
    if not isinstance(label, str) or not label.strip():
        raise MalformedError(f"the label of a span is {short_repr(label)}; expected a name")
    if type(start) is not int or type(stop) is not int:
        raise MalformedError(f"the span {short_repr(label)} covers no integers")
    if not 0 <= start < stop <= len(text):
        raise MalformedError(
            f"the span {short_repr(label)} covers {start} to {stop} of {len(text)} characters"
        )
    return label, start, stop


def contract_of(labelled: LabelledDocument) -> Contract:
    """Returns the words of a document as a text, a line for each page, with its spans."""
    text = ""
    places: list[list[tuple[int, int]]] = []
    for page in labelled.document.pages:
        places.append([])
        for word in page.words:
            places[-1].append((len(text), len(text) + len(word.text)))
            text += f"{word.text} "
        text = f"{text[:-1]}\n" if page.words else text
    return Contract(
        name=labelled.document.id,
        group=labelled.provider or labelled.document.id,
        text=text,
        spans=tuple(
            (span.label, places[span.page][span.start][0], places[span.page][span.stop - 1][1])
            for span in labelled.spans
        ),
    )


def read_messages(path: Path) -> list[Message]:
    """Returns the messages of a file of JSON lines, in order."""
    found = []
    for number, line in _objects(path):
        try:
            name, label, text = str(line["id"]), str(line["label"]), line["text"]
            if not isinstance(text, str):
                raise MalformedError("text must be a string")
            found.append(Message(name=name, label=label, text=text))
        except (KeyError, TypeError, ValueError) as error:
            raise _bad_line(path, number, failure_of(error), "id, label and text") from error
    return found


def require_distinct(messages: Sequence[Message], path: Path) -> None:
    """Refuses a document in two lines, whatever their ids within one class."""
    seen: set[tuple[str, str, str]] = set()
    for message in messages:
        marks = {(message.name, "label", message.label), (message.name, "text", message.text)}
        if marks & seen:
            raise AnnotationError(
                f"Two lines of '{path}' have the id '{message.name[:80]}' and the same label or "
                "text; expected one line for each document, which counts as one. Join them, or "
                "give different documents different ids."
            )
        seen |= marks


def read_conll(path: Path, *, sentences_are_documents: bool = False) -> list[Sentence]:
    """Returns the sentences of a file of columns: the token first, its tag last.

    Blank lines separate sentences, lines with -DOCSTART- documents. In collections of tweets every
    sentence is a document of its own. Nothing but its owner can say so of a file without
    -DOCSTART-, and what is taken for a document is what training protects.
    """
    found: list[Sentence] = []
    rows: list[list[str]] = []
    lines = _text(path).splitlines()
    starts = [line.split()[:1] == [_NEW_DOCUMENT] for line in lines]
    document = 0
    if sentences_are_documents:
        starts = [False] * len(lines)
        lines = ["" if line.split()[:1] == [_NEW_DOCUMENT] else line for line in lines]
    elif not any(starts) and any(line.strip() for line in lines):
        raise AnnotationError(
            f"'{path}' has no line with {_NEW_DOCUMENT}, so nothing says where documents begin, "
            "and documents are what is protected. Put such a line before each, or say that every "
            "sentence is a document of its own (--sentences-are-documents)."
        )

    def close() -> None:
        if rows:
            tokens, tags = (tuple(row[place] for row in rows) for place in (0, -1))
            number = len(found) if sentences_are_documents else document
            found.append(Sentence(tokens=tokens, tags=tags, document=number))
            rows.clear()

    for number, (line, begins) in enumerate(zip(lines, starts, strict=True), start=1):
        columns = line.split()
        if columns and not begins:
            if len(columns) < 2:
                raise _bad_line(path, number, "it has one column", "a token and a tag")
            rows.append(columns)
            continue
        close()
        document += begins and bool(found)
    close()
    return found


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            if not isinstance(data, dict):
                raise MalformedError(f"it holds {type(data).__name__}")
        except (ValueError, RecursionError) as error:
            raise _bad_line(path, number, failure_of(error), "a JSON object") from error
        yield number, data


def _text(path: Path) -> str:
    with reading_as("a UTF-8 file, plain or gzipped", str(path), error=AnnotationError):
        try:
            with path.open("rb") as file:
                packed = file.read(len(_GZIP)) == _GZIP
            with gzip.open(path) if packed else path.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise MalformedError("its gzipped content is damaged or cut off") from error
        except OSError as error:
            raise AnnotationError(
                f"'{path}' can't be read: {error.strerror or error}. Give a UTF-8 file, plain or "
                "gzipped."
            ) from error
        if len(content) > MAX_BYTES:
            raise LimitExceededError(
                f"'{path}' has more than {MAX_BYTES} bytes, unpacked. Split it."
            )
        return content.decode("utf-8-sig")  # Windows puts a mark before a text


def _bad_line(path: Path, number: int, found: str, expected: str) -> AnnotationError:
    return AnnotationError(
        f"Line {number} of '{path}' can't be read: {found}. Expected {expected}; correct the line."
    )
