"""Tesseract's TSV: one row for each page, block, paragraph, line and word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import BoxError, InputError, UnsupportedFormatError
from hushdoc.reading.drafting import Draft

READER = "tesseract-tsv"
COLUMNS = (
    "level",
    "page_num",
    "block_num",
    "par_num",
    "line_num",
    "word_num",
    "left",
    "top",
    "width",
    "height",
    "conf",
    "text",
)
PAGE_LEVEL, WORD_LEVEL = "1", "5"


def from_tesseract_tsv(
    text: str, *, id: str = "document", limits: ReadingLimits | None = None
) -> Document:
    """Returns the document of a TSV file's content; words of one line share a segment."""
    draft = Draft(id=id, reader=READER, limits=limits)
    arguments.text(text, what="What should be Tesseract's TSV")
    with arguments.reading_as("Tesseract's TSV", id):
        add_rows(draft, text)
    return draft.document()


def add_rows(draft: Draft, text: str) -> None:
    """Adds the pages and words of a TSV file to a draft."""
    head, *rows = text.split("\n")
    names = head.rstrip("\r").split("\t")
    if not set(COLUMNS) <= set(names):
        shown = arguments.short_repr(names, 20)
        raise UnsupportedFormatError(
            f"'{draft.id}' is not Tesseract's TSV: its first row names "
            f"{shown}, expected {list(COLUMNS)}. Write it with `tesseract IMAGE OUT tsv`."
        )
    segments: dict[Sequence[str], int] = {}
    for number, row in enumerate(rows, start=2):
        if not row.strip("\r"):
            continue
        # A word may hold anything but a tab; the text is the last column and may hold even that.
        cells = row.rstrip("\r").split("\t", len(names) - 1)
        if len(cells) < len(names) - 1:
            raise InputError(
                f"Row {number} of '{draft.id}' (tesseract-tsv) has {len(cells)} cells, expected "
                f"{len(names)}. The file was cut short; write it again."
            )
        found = dict(zip(names, [*cells, ""], strict=False))
        if found["level"] == PAGE_LEVEL:
            left, top, width, height = _place(found, draft.id, number)
            draft.page(left + width, top + height)
            segments = {}
        elif found["level"] == WORD_LEVEL and found["text"].strip():
            left, top, width, height = _place(found, draft.id, number)
            line = tuple(found[name] for name in ("block_num", "par_num", "line_num"))
            segment = segments.setdefault(line, len(segments))
            draft.word(found["text"], (left, top, left + width, top + height), segment=segment)


def _place(row: Mapping[str, str], id: str, number: int) -> tuple[float, float, float, float]:
    try:
        left, top, width, height = (float(row[name]) for name in ("left", "top", "width", "height"))
    except ValueError as error:
        raise BoxError(
            f"Row {number} of '{id}' (tesseract-tsv) has a place that is no number: {error}. "
            "Write the file again."
        ) from error
    return left, top, width, height
