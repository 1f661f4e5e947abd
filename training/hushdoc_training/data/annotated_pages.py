"""Annotations of published corpora: their files, words and images, and what is odd in them.

What published files are known to hold is put right and counted: words without text, boxes past the
page's edge or with their corners swapped. What no corpus holds is refused by a typed error.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hushdoc.arguments import MalformedError, failure_of, printable, short_repr
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import AnnotationError, BoxError, EmptyDocumentError
from hushdoc.labels import LabelledDocument, Question
from hushdoc.reading import files, images
from hushdoc.reading.drafting import number
from hushdoc.system import atomic_files
from hushdoc_training.data.corpus import Problems
from hushdoc_training.data.values import first_place

T = TypeVar("T")

NO_TEXT = "word without text, left out"
CONTROL = "word with control characters, read without them"
BROKEN = "word with a tab or line end inside, read with a blank"
SWAPPED = "box with its corners swapped, put in order"
CUT = "box that reaches past its page, cut at the edge"
OFF = "word that lies off its page, left out"
NO_WORDS = "document without a word, left out"
OTHER_IMAGE = "image of another size than its boxes are of, not used"
NO_IMAGE = "page whose image is missing"
OTHER_LABEL = "label that is none of the corpus's own, kept"
NOWHERE = "question whose answer stands nowhere on its page as it is written"
NO_ANSWERS = "question without answers, left out: that none is known is not that there is none"

HEAD = 64 * 1024
"""Bytes of a file that are read to tell what it holds."""

_UNSEEN = ("Cc", "Cs")


def head(path: Path) -> bytes:
    """Returns the start of a file."""
    with atomic_files.open_file(path) as file:
        return file.read(HEAD)


def load(path: Path) -> Any:
    """Returns what a JSON file holds; AnnotationError where it is missing or damaged."""
    try:
        with atomic_files.open_file(path) as file:
            content = file.read()
    except FileNotFoundError as error:
        raise AnnotationError(f"The annotation '{path}' is missing. Restore the file.") from error
    except (OSError, ValueError) as error:
        raise AnnotationError(
            f"The annotation '{path}' can't be opened: {error}. Check who may read it."
        ) from error
    return parsed(content, str(path))


def parsed(content: bytes | str, where: str) -> Any:
    """Returns what a JSON text holds; AnnotationError where it is damaged."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError(
            f"The annotation '{printable(where, 200)}' can't be read: {printable(error, 200)}. "
            "Expected UTF-8 JSON; restore it from the data set."
        ) from error


def word(
    text: object,
    corners: Sequence[object],
    *,
    size: tuple[int, int],
    segment: int | None,
    where: str,
    problems: Problems,
) -> Word | None:
    """Returns a word whose box is cut to its page, or None where nothing of it is left."""
    if not isinstance(text, str):
        raise AnnotationError(f"'{where}' has a text that is {type(text).__name__}, not a string.")
    shown = text.strip()
    if not shown.isprintable():
        spaced = re.sub(r"[ \t-\r]+", lambda gap: gap[0] if gap[0].isprintable() else " ", shown)
        if spaced != shown:
            problems.add(BROKEN, where)
            shown = spaced
        kept = "".join(mark for mark in shown if unicodedata.category(mark) not in _UNSEEN).strip()
        if kept != shown:
            problems.add(CONTROL, where)
            shown = kept
    if not shown:
        problems.add(NO_TEXT, where)
        return None
    box = _box(corners, size, where, problems)
    return None if box is None else Word(text=shown, box=box, segment=segment)


def _box(
    corners: Sequence[object], size: tuple[int, int], where: str, problems: Problems
) -> Box | None:
    try:
        x0, y0, x1, y1 = (number(value) for value in corners)
    except (TypeError, ValueError, OverflowError) as error:
        raise AnnotationError(
            f"The box {short_repr(corners)} of '{where}' is malformed ({failure_of(error)}); "
            "expected four numbers. Correct the annotation."
        ) from error
    if not all(map(math.isfinite, (x0, y0, x1, y1))):
        raise BoxError(
            f"The box {short_repr(corners)} of '{where}' has a coordinate that is not a finite "
            "number. Correct the annotation."
        )
    if x1 < x0 or y1 < y0:
        problems.add(SWAPPED, where)
        x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
    width, height = size
    if x1 < 0 or y1 < 0 or x0 > width or y0 > height:
        problems.add(OFF, where)
        return None
    found = Box(x0=x0, y0=y0, x1=x1, y1=y1)
    if found.problem(width=width, height=height) is None:
        return found
    problems.add(CUT, where)
    return Box(x0=max(0.0, x0), y0=max(0.0, y0), x1=min(width, x1), y1=min(height, y1))


def page_size(width: object, height: object, *, where: str) -> tuple[int, int]:
    """Returns a page's sides in pixels; AnnotationError unless they are integers from 1."""
    if type(width) is int and type(height) is int and min(width, height) > 0:
        return width, height
    raise AnnotationError(
        f"'{where}' is {short_repr(width)} x {short_repr(height)} pixels; expected two integers "
        "from 1. Restore the annotation from the data set."
    )


def image_size(image: Path | bytes | None, *, of: str) -> tuple[int, int]:
    """Returns the size in pixels of an image as it is looked at; AnnotationError without one."""
    named = f"'{image}' of '{of}'" if isinstance(image, Path) else f"of '{of}'"
    if image is None or (isinstance(image, Path) and not image.is_file()):
        raise AnnotationError(
            f"The image {named} is missing; boxes are in its pixels, so its size is needed. "
            "Restore the file."
        )
    limits = ReadingLimits()
    content = files.given(image, limits).content
    _, size = next(images.frame_sizes(content, id=named, limits=limits))
    return size


def fitting_image(
    image: Path | bytes | None, size: tuple[int, int], *, where: str, problems: Problems
) -> Path | bytes | None:
    """Returns an image if it is there and of the size that the boxes are of; else counts it."""
    if image is None:
        problems.add(NO_IMAGE, where)
        return None
    if image_size(image, of=where) != size:
        problems.add(OTHER_IMAGE, where)
        return None
    return image


def name(value: object, *, where: str) -> str:
    """Returns the name of a document or of a label; AnnotationError for what can be none."""
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value
    raise AnnotationError(
        f"The {where} is {short_repr(value)}; expected a name: a text of characters that can be "
        "printed. Correct the annotation."
    )


def document(
    identity: str, pages: Iterable[Page], *, where: str, problems: Problems
) -> Document | None:
    """Returns a checked document, or None where it has no word, which is counted."""
    made = Document(id=identity, pages=tuple(pages))
    if made.num_words == 0:
        problems.add(NO_WORDS, where)
        return None
    made.check()
    return made


def question(
    record: Mapping[str, Any],
    answers: Sequence[object],
    page: Page | None,
    *,
    id: str | None,
    where: str,
    problems: Problems,
) -> Question | None:
    """Returns a record's question, its answers placed on a page; None where none is known."""
    given = tuple(dict.fromkeys(required(answer, str, what="an answer") for answer in answers))
    if not given:
        problems.add(NO_ANSWERS, where)
        return None
    words = () if page is None else first_place(given, [word.text for word in page.words])
    if page is not None and not words:
        problems.add(NOWHERE, where)
    text = required(record["question"], str, what="'question'")
    return Question(text=text, answers=given, word_ids=words, question_id=id)


def some(documents: Iterable[LabelledDocument | None], path: Path) -> Iterator[LabelledDocument]:
    """Yields the documents that have words; EmptyDocumentError where there is none.

    AnnotationError where two have one id, since results and budgets are kept by it.
    """
    seen = set()
    for labelled in documents:
        if labelled is None:
            continue
        identity = labelled.document.id
        if identity in seen:
            raise AnnotationError(
                f"'{path}' has two documents with the id {short_repr(identity)}; every document "
                "needs one of its own. Remove one of them, or give it another id."
            )
        seen.add(identity)
        yield labelled
    if not seen:
        raise EmptyDocumentError(
            f"No document in '{path}' has a word; at least one is needed. Give the folder or file "
            "that holds the annotations, or unpack the data set again."
        )


def required(value: object, kind: type[T], *, what: str) -> T:
    """Returns a value of one of JSON's types; MalformedError for others."""
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise MalformedError(f"{what} is {type(value).__name__}, expected {kind.__name__}")
