"""Line OCR: what readers of whole lines make of a page: shared boxes, lost blanks.

Many services find lines first, so that a label and its value are one segment, boxes of words are
shares of their line's, and blanks between words are lost here and there, or everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hushdoc.document.page import Box, Word
from hushdoc.labels import LabelledDocument, Question, Span
from hushdoc_training.invented.random_draws import Draws

_NEAR = 0.9
"""Words of two texts are in one line up to this distance, in heights of the first one's box."""

_ENDS = (",", ".", ":", ")", "/", "&", "-")


@dataclass(frozen=True, kw_only=True, slots=True)
class LineReading:
    """How one receipt is read."""

    by_line: bool  # whether texts beside one another are one segment
    shared: bool  # whether boxes of words are shares of their segment's box
    glued: bool  # whether a segment becomes one word without blanks
    joined: float  # share of blanks behind punctuation that are lost
    leaning: float  # how far a segment is off its line, in heights of it


def line_reading(rng: Draws) -> LineReading:
    """Returns how a receipt is read."""
    manner = rng.unit()
    by_line = manner < 0.45
    glued = manner > 0.82
    joined = rng.weighted(((0.0, 5.0), (0.3, 2.0), (0.9, 1.0)))
    leaning = rng.weighted(((0.0, 3.0), (0.1, 4.0), (0.25, 2.0)))
    return LineReading(
        by_line=by_line, shared=rng.flip(0.75), glued=glued, joined=joined, leaning=leaning
    )


def as_read(labelled: LabelledDocument, reading: LineReading, rng: Draws) -> LabelledDocument:
    """Returns a page of one image as such a reader gives it, with labels and questions moved."""
    (page,) = labelled.document.pages
    words: list[Word] = []
    places: list[int] = []  # the new place of each old word
    for number, run in enumerate(_runs(page.words, reading)):
        boxes = _shares(page.words, run) if reading.shared else [page.words[i].box for i in run]
        first, lean = len(words), reading.leaning * (2 * rng.unit() - 1)
        for place, box in zip(run, boxes, strict=True):
            word = replace(page.words[place], box=_leant(box, lean, page.height), segment=number)
            if len(words) > first and _joins(
                words[-1], page.words[place - 1 : place + 1], reading, rng
            ):
                words[-1] = _together(words[-1], word)
            else:
                words.append(word)
            places.append(len(words) - 1)
    return replace(
        labelled,
        document=replace(labelled.document, pages=(replace(page, words=tuple(words)),)),
        spans=_apart(
            replace(span, start=places[span.start], stop=places[span.stop - 1] + 1)
            for span in labelled.spans
        ),
        questions=tuple(_moved(question, places, words) for question in labelled.questions),
    )


def _runs(words: Sequence[Word], reading: LineReading) -> list[range]:
    """Returns the ranges of words that become one segment each."""
    starts = [0] if words else []
    for place in range(1, len(words)):
        before, word = words[place - 1], words[place]
        high = max(1.0, before.box.y1 - before.box.y0)
        level = abs(before.box.y0 + before.box.y1 - word.box.y0 - word.box.y1) < high
        gap = word.box.x0 - before.box.x1
        same = word.segment == before.segment or (reading.by_line and gap < _NEAR * high)
        if not (level and same and gap > -high):
            starts.append(place)
    return [range(*ends) for ends in zip(starts, [*starts[1:], len(words)], strict=True)]


def _shares(words: Sequence[Word], run: range) -> list[Box]:
    """Returns shares of the run's box, by the numbers of signs and blanks."""
    y0 = min(words[place].box.y0 for place in run)
    y1 = max(words[place].box.y1 for place in run)
    x0, x1 = words[run[0]].box.x0, max(words[place].box.x1 for place in run)
    signs = sum(len(words[place].text) + 1 for place in run) - 1
    boxes, at = [], 0
    for place in run:
        left = x0 + (x1 - x0) * at / signs
        at += len(words[place].text)
        boxes.append(Box(x0=left, y0=y0, x1=x0 + (x1 - x0) * at / signs, y1=y1))
        at += 1
    return boxes


def _leant(box: Box, lean: float, height: int) -> Box:
    off = lean * (box.y1 - box.y0)
    off = min(max(off, -box.y0), height - box.y1)
    return replace(box, y0=box.y0 + off, y1=box.y1 + off)


def _joins(before: Word, pair: Sequence[Word], reading: LineReading, rng: Draws) -> bool:
    """Returns whether the blank between two words, as they were before, is lost."""
    if pair[0].segment != pair[1].segment:
        return before.text.endswith(":") and rng.flip(reading.joined)
    return reading.glued or (before.text.endswith(_ENDS) and rng.flip(reading.joined))


def _apart(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Returns spans that share no word: what shares one with the next ends before it."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.stop)):
        if found and found[-1].stop > span.start:
            before = found.pop()
            if before.start < span.start:
                found.append(replace(before, stop=span.start))
        found.append(span)
    return tuple(found)


def _together(before: Word, word: Word) -> Word:
    box = Box(
        x0=min(before.box.x0, word.box.x0),
        y0=min(before.box.y0, word.box.y0),
        x1=max(before.box.x1, word.box.x1),
        y1=max(before.box.y1, word.box.y1),
    )
    return replace(before, text=before.text + word.text, box=box)


def _moved(question: Question, places: Sequence[int], words: Sequence[Word]) -> Question:
    if not question.answers:
        return question
    word_ids = tuple(dict.fromkeys(places[number] for number in question.word_ids))
    read = " ".join(words[number].text for number in word_ids)
    return replace(
        question, word_ids=word_ids, answers=tuple(dict.fromkeys((read, *question.answers)))
    )
