"""Answers: what each request does with a document, and how its options are read."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from hushdoc.document.document import Document
from hushdoc.document.provenance import pages_of
from hushdoc.errors import EmptyDocumentError, InputError, LimitExceededError
from hushdoc.reading.drawing import open_pages
from hushdoc.reading.ocr import OCRCache
from hushdoc.reading.opening import noted_document
from hushdoc.server.limits import Limits
from hushdoc.server.problems import RequestRefusedError
from hushdoc.server.uploads import Upload
from hushdoc.server.work import timed_out
from hushdoc.viewing.redaction import redacted_files, unread_pages

Options = Mapping[str, Sequence[str]]
Files = Iterable[tuple[str, bytes]]
ZIP = "application/zip"
NOTES = "notes.txt"
"""In an archive of `redact`: which words the model did not read, and which images are black."""

MAX_CANDIDATES = 20
"""Candidates that a client may ask for: a model that writes follows as many at once, and one that
points has thousands for each page, so that their number decides how much memory a request takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One kind of request: its options with what they mean, and what it answers: JSON or files."""

    summary: str
    options: Mapping[str, str]
    answer: Callable[[Any, Document, Options], dict[str, Any] | Files]


def opened(
    model: Any, upload: Upload, limits: Limits, ocr: str
) -> tuple[Document, tuple[str, ...]]:
    """Returns the document of an upload, read in a process of its own, and what to warn of."""
    if getattr(model, "modality", None) == "image":  # which no word is read for
        pages = open_pages(upload.content, limits=limits.reading, reader="process")
        return replace(pages, id=upload.name), ()
    # Of a cache that clients share, each could tell by the time whether a page was read before.
    return noted_document(
        upload.content,
        id=upload.name,
        ocr=ocr,
        limits=limits.reading,
        reader="process",
        cache=OCRCache(),
    )


def answered(
    operation: Operation, model: Any, upload: Upload, options: Options, *, limits: Limits, ocr: str
) -> dict[str, Any] | bytes:
    """Returns what a model answers about one upload, files as an archive."""
    until = time.monotonic() + limits.answer_seconds
    if not upload.content:
        raise EmptyDocumentError("The file is empty: it has 0 bytes. Check its origin.")
    document, notes = opened(model, upload, limits, ocr)
    found = operation.answer(model, document, options)
    if not isinstance(found, dict):
        return _packed(found, limits, until)
    if notes:
        found["warnings"] = [*found.get("warnings", ()), *notes]
    return found


def _packed(files: Files, limits: Limits, until: float) -> bytes:
    """Returns an archive of files, which are made one after another within size and time."""
    size = 0
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files:
            size += len(content)
            if size > limits.max_answer_bytes:
                raise LimitExceededError(
                    f"The files of the answer have more than {limits.max_answer_bytes} bytes. Send "
                    "fewer pages at once, or smaller ones."
                )
            if time.monotonic() > until:
                raise timed_out(limits)
            is_compressed = name.endswith(".png")
            kind = zipfile.ZIP_STORED if is_compressed else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, kind)
    return stream.getvalue()


def _extract(model: Any, document: Document, options: Options) -> dict[str, Any]:
    found: dict[str, Any] = model.extract(document).to_dict()
    return found


def _ask(model: Any, document: Document, options: Options) -> dict[str, Any]:
    questions = list(options.get("question", ()))
    if not questions:
        raise InputError("No question was asked. Give one or several as 'question'.")
    top_k = _integer(options, "top_k", 1, most=MAX_CANDIDATES)
    found = model.ask_all(document, questions, top_k=top_k)
    return {"document_id": document.id, "answers": [item.to_dict() for item in found]}


def _classify(model: Any, document: Document, options: Options) -> dict[str, Any]:
    found: dict[str, Any] = model.classify(document, top_k=_integer(options, "top_k", 1)).to_dict()
    return found


def _embed(model: Any, document: Document, options: Options) -> dict[str, Any]:
    level = _one(options, "level", "page")
    if level not in ("page", "document"):
        raise InputError("The level is neither 'page' nor 'document'. Give one of them.")
    found: dict[str, Any] = model.embed(document, level=level).to_dict()
    return found


def _redact(model: Any, document: Document, options: Options) -> Files:
    labels = list(options.get("label", ())) or None
    unknown = sorted(set(labels or ()) - set(model.labels.fields))
    if unknown:
        raise InputError(
            f"The model knows no field {unknown[0]!r}; it knows {', '.join(model.labels.fields)}."
        )
    found = model.extract(document)
    # What the model is unsure of is removed too: too much is better than too little.
    fields = (*found.fields, *found.below_threshold)
    # What is packed holds nothing that is not in the answer, such as the name of the upload.
    files = redacted_files(replace(document, id="document"), fields, labels=labels)
    notes = [*found.warnings, *_black(document)]
    return chain([(NOTES, ("\n".join(notes) + "\n").encode())] if notes else [], files)


def _black(document: Document) -> Iterator[str]:
    """Yields what is to be known of pages that `redact` blackens as a whole."""
    pages = unread_pages(document)
    if pages:
        yield f"Images of {pages_of(pages)} are black, as they were not read."


def _one(options: Options, name: str, default: str) -> str:
    given = options.get(name, (default,))
    if len(given) != 1:
        raise RequestRefusedError(f"{name} is given {len(given)} times; expected one.")
    return given[0]


def _integer(options: Options, name: str, default: int, *, most: int = 10**8 - 1) -> int:
    text = _one(options, name, str(default))
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not 1 <= number <= most:
        raise InputError(f"{name} is no integer from 1 to {most}. Give such as {name}=3.")
    return number


_MODEL = {"model": "name of the model, where several answer such requests"}

OPERATIONS = {
    "extract": Operation(summary="Fields of a document", options=_MODEL, answer=_extract),
    "ask": Operation(
        summary="Answers to questions about a document",
        options=_MODEL
        | {
            "question": "a question; may be given again",
            "top_k": f"candidates of each answer, best first, up to {MAX_CANDIDATES} (default: 1)",
        },
        answer=_ask,
    ),
    "classify": Operation(
        summary="Classes of a document",
        options=_MODEL | {"top_k": "classes, best first (default: 1)"},
        answer=_classify,
    ),
    "embed": Operation(
        summary="Vectors of a document",
        options=_MODEL | {"level": "page or document (default: page)"},
        answer=_embed,
    ),
    "redact": Operation(
        summary="A document without the fields that a model finds, as a zip archive. A model "
        f"misses fields: inspect the result before you pass it on. {NOTES} in it says which words "
        "the model did not read, and which images are black, where there are such",
        options=_MODEL | {"label": "field to remove; may be given again (default: all)"},
        answer=_redact,
    ),
}
"""The requests by their names, which are those of `served.CLASSES_OF`."""
