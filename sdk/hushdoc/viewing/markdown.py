"""An answer as Markdown, for people and language models: the fields found, then the text by page.

Whatever a document says is text there: no link, image, table, heading or HTML comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from hushdoc import arguments
from hushdoc.document.document import Document, required
from hushdoc.document.page import Box, Page, union
from hushdoc.reading.layout import in_reading_order
from hushdoc.viewing.fields import ShownAnswer, ViewedField, score_note

LINE_END = "  \n"
"""Ends a line, and not the paragraph."""

COLUMN_GAP = "   "
"""Stands between the parts of a row that are far apart, such as a name and its value."""

_INLINE = re.compile(
    r"[\\`*_\[\]<|~{]"  # code, emphasis, links, images, HTML, cells, strikethrough, templates
    r"|&(?=#?\w+;)"  # entities
    r"|:(?=//)"  # addresses, which some viewers link
    r"|(?<=www)\.",
    re.IGNORECASE,
)
_LINE_START = re.compile(r"#{1,6}(?=\s|$)|[+:-](?=\s|$)|>|(?=[-=:\s]+$)")
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


def to_markdown(document: Document, answer: ShownAnswer | None = None) -> str:
    r"""Returns a document as Markdown: a table of the fields found in it, then its text by page.

    Text is in reading order, line by line; what stands in one row stays in one line. Characters
    that Markdown gives a meaning are escaped, and those that control a display are spelled out.
    A bare mail address stays one, which some viewers link. Pages are counted from 0.

    Args:
        document: What was read.
        answer: What was found in it, such as an Extraction; None for the text alone.

    Raises:
        InputError: An argument is not a document or an answer.

    Example:
        >>> print(to_markdown(Document.from_text("Total: *12.50*", id="bill")), end="")
        # bill
        <BLANKLINE>
        ## Text
        <BLANKLINE>
        Total: \*12.50\*
    """
    parts = [f"# {_inline(required(document).id)}"]
    if answer is not None:
        with arguments.expecting("The answer", "what model.extract(document) returns"):
            parts += _fields(answer, plain=document.text is not None)
    if document.text is not None:
        parts += ["## Text", *_paragraphs(document.text)]
    else:
        with arguments.expecting("The document", "pages of Page, with words of Word"):
            ordered = in_reading_order(document)
            for number, page in enumerate(ordered.pages):
                parts += [f"## Page {number}", *(_blocks(page) or ["This page has no words."])]
    return "\n\n".join(parts) + "\n"


def _fields(answer: ShownAnswer, *, plain: bool) -> Iterator[str]:
    """Yields the section of the fields."""
    yield "## Fields"
    yield _table(answer.fields, plain=plain) or "No field was found."
    if answer.below_threshold:
        yield "Below the model's threshold, for a person to check:"
        yield _table(answer.below_threshold, plain=plain)
    if answer.fields or answer.below_threshold:
        yield _inline(score_note(answer.calibrated_on))
    notes = [f"{answer.coverage:.0%} of the words were read.", *answer.warnings]
    if answer.source is not None:
        notes.append(f"Words from: {answer.source}")
    yield "\n".join(f"- {_line(note)}" for note in notes)


def _table(fields: Sequence[ViewedField], *, plain: bool) -> str:
    place = "characters" if plain else "page"
    rows = [
        f"| {_inline(item.label)} | {_inline(item.text)} | {item.score:.2f} | "
        f"{f'{item.start}-{item.stop}' if plain else item.page} |"
        for item in fields
    ]
    head = [f"| label | text | score | {place} |", "|---|---|---:|---:|"]
    return "\n".join([*head, *rows]) if rows else ""


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a plain text, which empty lines part."""
    lines = (_line(line) for line in text.splitlines())
    for filled, group in groupby(lines, key=bool):
        if filled:
            yield LINE_END.join(group)


def _blocks(page: Page) -> list[str]:
    """Returns the paragraphs of a page in reading order: rows that stand close together."""
    blocks: list[list[list[str]]] = []
    last: Box | None = None
    for _, group in groupby(page.words, key=lambda word: word.segment):
        words = list(group)
        box = union(word.box for word in words)
        text = " ".join(word.text for word in words)
        if last is not None and _beside(last, box):
            blocks[-1][-1].append(_inline(text))
        elif last is not None and _below(last, box):
            blocks[-1].append([_line(text)])
        else:
            blocks.append([[_line(text)]])
        last = box
    return [LINE_END.join(map(COLUMN_GAP.join, rows)) for rows in blocks]


def _beside(left: Box, right: Box) -> bool:
    """Returns whether two parts stand in one row: the lower half of one reaches the other."""
    shared = min(left.y1, right.y1) - max(left.y0, right.y0)
    return shared > 0.5 * min(left.y1 - left.y0, right.y1 - right.y0)


def _below(above: Box, line: Box) -> bool:
    """Returns whether a line goes on a paragraph: nearer than a line's height below it."""
    return -1 < (line.y0 - above.y1) / max(line.y1 - line.y0, above.y1 - above.y0, 1e-9) < 0.8


def _line(text: str) -> str:
    """Returns text that may stand at the beginning of a line."""
    shown = _inline(text)
    if _LINE_START.match(shown):
        return f"\\{shown}"
    return _NUMBERED.sub(r"\1\\\2", shown, count=1) if _NUMBERED.match(shown) else shown


def _inline(text: str) -> str:
    """Returns text for one line that stays text, its whitespace single spaces."""
    spaced = " ".join(text.split())
    shown = arguments.printable(spaced, limit=len(spaced))
    return _INLINE.sub(r"\\\g<0>", shown)
