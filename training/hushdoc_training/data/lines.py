"""Lines of annotated text: transcripts in boxes, cut into the words of a page.

Corpora of receipts give a box for each line of text and not for each word. A line's box is shared
out by characters, and the line is the segment of its words. What can't be used is left out and
counted, so that one bad box does not cost a receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hushdoc.arguments import MalformedError, failure_of, short_repr
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import AnnotationError
from hushdoc.reading import reading_order
from hushdoc.reading.drafting import around_polygon, shares
from hushdoc_training.data import annotated_pages
from hushdoc_training.data.corpus import Problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A transcript in a box, in page pixels, with the label of all of it if it has one."""

    text: str
    box: Box
    label: str | None = None


def line(
    text: object,
    corners: object,
    *,
    size: tuple[int, int],
    where: str,
    problems: Problems,
    label: str | None = None,
) -> Line | None:
    """Returns a line whose box is cut to its page, or None where nothing of it is left.

    Args:
        text: As it was transcribed.
        corners: Two as [x0, y0, x1, y1], or four as [x, y, ...] in any order: a box that leans
            becomes the upright box around it.
        size: Width and height of the page in pixels.
        where: For messages.
        problems: Counts what was put right or left out.
        label: Of all of the line.

    Raises:
        AnnotationError: The text is no string, or the corners are not 4 or 8 numbers.
        BoxError: A coordinate is not finite.
    """
    try:
        if not isinstance(corners, list) or len(corners) not in (4, 8):
            raise MalformedError("it is no list of 4 or 8 numbers")
        upright = corners if len(corners) == 4 else around_polygon(corners)
    except (TypeError, ValueError, OverflowError) as error:
        raise AnnotationError(
            f"The box {short_repr(corners)} of '{where}' is malformed: {failure_of(error)}. "
            "Expected corners as x, y in pixels; correct the annotation."
        ) from error
    spaced = " ".join(text.split()) if isinstance(text, str) else text  # tabs are spaces
    word = annotated_pages.word(
        spaced, upright, size=size, segment=None, where=where, problems=problems
    )
    return None if word is None else Line(text=word.text, box=word.box, label=label)


def in_reading_order(lines: Iterable[Line | None], size: tuple[int, int]) -> list[Line]:
    """Returns the lines that are left, from the top, and those side by side from the left.

    Annotators' order is none: some totals stand at a file's end, and some pages go upwards.
    """
    found = [line for line in lines if line is not None]
    words = tuple(Word(text=line.text, box=line.box) for line in found)
    page = Page(width=size[0], height=size[1], words=words)
    return [found[index] for index in reading_order(page)]


def words_of(lines: Sequence[Line]) -> tuple[Word, ...]:
    """Returns the words of lines in their order; a word's segment is the number of its line."""
    return tuple(
        Word(text=text, box=box, segment=segment)
        for segment, line in enumerate(lines)
        for text, box in shares(line.text, line.box)
    )
