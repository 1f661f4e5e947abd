"""Redaction: a document without some of its fields, in its text and on its pages' images.

What is covered is gone: images are made anew from pixels, under opaque boxes and without any
metadata; the words are removed and not marked; a plain text shows the same mark for any length.
What stays is that something stood there, and on a page how wide it was. A page with an image that
nobody read is covered whole, as nothing can be found there.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc import arguments
from hushdoc.arguments import short_repr
from hushdoc.document.document import Document, required
from hushdoc.document.page import Box, Page, Word, union
from hushdoc.errors import InputError
from hushdoc.system import atomic_files
from hushdoc.viewing import rendition
from hushdoc.viewing.fields import ViewedField
from hushdoc.viewing.matching import Covered, Runs
from hushdoc.viewing.normalised_text import (
    bare,
    normalised,
    normalised_with_places,
    places,
    places_of_words,
)
from hushdoc.viewing.rectangles import filled, hidden

if TYPE_CHECKING:
    from PIL import Image

    from hushdoc.reading.drawing import DrawPage

MARK = "\u2588" * 5
"""What stands in a plain text where something was removed."""

COVER = (0, 0, 0)
_MOST_COVERED = 0.3
"""Words of which a larger share is under a box are removed with it."""

_LEAST_MARGIN, _MARGIN = 2, 0.12
"""How far boxes reach beyond words: pixels, and of the height of the line, for characters that
reach out of their boxes."""

_RIM, _BELOW = 0.1, 0.12
"""Of the height of a box: its margin, and how far letters may hang out of it."""

_TALL = 1.5
"""A box that is so many times as tall as wide may be of a line from top to bottom."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Redaction:
    """What is left of a document.

    Attributes:
        document: The document without the fields; its pages name the images in `folder`, or
            none.
        counts: How many places each label was removed from; 0 for labels that were asked for and
            not found.
        folder: Where document.json and the pages' images stand; None where nothing was written.
    """

    document: Document
    counts: Mapping[str, int] = field(hash=False)
    folder: Path | None


def redact(
    document: Document,
    fields: Iterable[ViewedField],
    *,
    labels: Collection[str] | None = None,
    repeats: bool = True,
    out: Path | str | None = None,
) -> Redaction:
    """Returns a document without fields; with `out` also writes its pages as images.

    A model misses fields: look at the result before you pass it on, and pass fields below the
    threshold (`Extraction.below_threshold`) as well. The document's id is kept. Images of pages
    that were not read (`Source.unread_pages`) are black: open the document with OCR.

    Args:
        document: What the fields were found in.
        fields: The fields, such as those of an Extraction.
        labels: Which of them to remove; all by default.
        repeats: Whether text that equals a whole field is removed elsewhere too, regardless of
            case, composed or decomposed accents, full width, ligatures, invisible characters
            and the punctuation around words.
        out: A folder that gets document.json and one PNG file for each page that has an image;
            nothing may be there yet.

    Raises:
        InputError: A field names a page or word that the document does not have, or a page's
            image can't be read.
        OutputExistsError: Something already stands at `out`.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        MissingExtraError: A package that a page's image needs is not installed.
    """
    folder = None if out is None else arguments.path(out, what="The folder of the result")
    left = _left(document, fields, labels=labels, repeats=repeats)
    if folder is None:
        return Redaction(document=left.document, counts=left.counts, folder=None)
    with atomic_files.new_folder(folder) as partial:
        for name, content in left.files(document):
            (partial / name).write_bytes(content)
    written = left.naming(document, folder)
    return Redaction(document=written, counts=left.counts, folder=folder)


def redacted_files(
    document: Document, fields: Iterable[ViewedField], *, labels: Collection[str] | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yields what `redact` writes, name and content, and makes each image when it is asked for.

    Raises:
        InputError: As `redact` does.
        MissingExtraError: As `redact` does.
    """
    return _left(document, fields, labels=labels, repeats=True).files(document)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Left:
    """What is left of a document, and the boxes over the rest on each of its pages."""

    document: Document
    counts: dict[str, int]
    covers: Sequence[Sequence[Box]]

    def files(self, original: Document) -> Iterator[tuple[str, bytes]]:
        """Yields the pages' images and document.json."""
        names = _image_names(original)
        if any(names):
            rendition.require_pillow()
        from hushdoc.reading.drawing import kept_open

        rows = zip(original.pages, names, self.covers, self.document.pages, strict=False)
        with kept_open() as draw:
            for page, name, boxes, left in rows:
                if name is None:
                    continue
                image = covered(page, boxes, [word.box for word in left.words], draw)
                if image is not None:
                    yield name, rendition.as_png(image)
        content = json.dumps(self.naming(original).to_dict(), ensure_ascii=True, indent=2)
        yield "document.json", (content + "\n").encode("ascii")

    def naming(self, original: Document, folder: Path | None = None) -> Document:
        """Returns what is left with the names of its images."""
        pages = tuple(
            page if name is None else replace(page, image=(folder or Path()) / name)
            for page, name in zip(self.document.pages, _image_names(original), strict=True)
        )
        return replace(self.document, pages=pages)


def _image_names(document: Document) -> list[str | None]:
    return [
        None if page.image is None else f"page-{number}.png"
        for number, page in enumerate(document.pages)
    ]


def _left(
    document: Document,
    fields: Iterable[ViewedField],
    *,
    labels: Collection[str] | None,
    repeats: bool,
) -> _Left:
    if isinstance(labels, str):
        raise ValueError(f"labels is {labels!r}; expected a collection of names, not one string.")
    with arguments.expecting("What should be fields or labels", "such as Extraction.fields"):
        named = [(item.label, item) for item in fields]
        chosen = [item for label, item in named if labels is None or label in labels]
        counts = Counter(dict.fromkeys(() if labels is None else labels, 0))
    document = required(document)
    if document.text is not None:
        redacted = _of_text(document, document.text, chosen, counts, repeats=repeats)
        covers: list[Sequence[Box]] = []
    else:
        gone = [set(ids) for ids in _words_of(document, chosen, counts, repeats=repeats)]
        covers = [_covers(page, ids) for page, ids in zip(document.pages, gone, strict=True)]
        pages = tuple(
            _without(page, ids, boxes)
            for page, ids, boxes in zip(document.pages, gone, covers, strict=True)
        )
        redacted = replace(document, pages=pages)
        for number in unread_pages(document):
            page = document.pages[number]
            covers[number] = [Box(x0=0, y0=0, x1=page.width, y1=page.height)]
    return _Left(document=redacted, counts=dict(counts), covers=covers)


def unread_pages(document: Document) -> list[int]:
    """Returns the pages whose images show more than the words that were read of them."""
    unread = frozenset(() if document.source is None else document.source.unread_pages)
    return [n for n, page in enumerate(document.pages) if n in unread and page.image is not None]


def covered(
    page: Page, boxes: Sequence[Box], left: Sequence[Box], draw: DrawPage | None = None
) -> Image.Image | None:
    """Returns a page's image under opaque boxes, without metadata; None where it has none.

    Letters stand beside the boxes of words that OCR wrote: in Tesseract's PDF files the last one
    of each, and what hangs below the line. What is around a box is covered too, along its line
    as far as that is high, unless it is in a box that is left.
    """
    from PIL import Image

    from hushdoc.reading import page_image

    found = (draw or page_image)(page)
    if found is None:
        return None
    image = Image.new("RGB", found.size)
    # Pixels only: metadata of the file is left behind.
    image.paste(found)
    around = filled(*image.size, _corners(part for box in boxes for part in _around(box)))
    mask = filled(*image.size, _corners(boxes)) | (around & ~filled(*image.size, _corners(left)))
    image.paste(COVER, mask=Image.fromarray(mask))
    return image


def _corners(boxes: Iterable[Box]) -> list[tuple[int, int, int, int]]:
    """Returns the pixels that boxes touch."""
    return [
        (math.floor(box.x0), math.floor(box.y0), math.ceil(box.x1) + 1, math.ceil(box.y1) + 1)
        for box in boxes
    ]


def _around(box: Box) -> tuple[Box, Box]:
    """Returns a box with what is beside it on its line, and with what is above and below it."""
    width, height = box.x1 - box.x0, box.y1 - box.y0
    beside = min(width, height)
    below = beside if height > _TALL * width else _BELOW * height
    rim = _RIM * height
    return (
        Box(x0=box.x0 - beside, y0=box.y0 + rim, x1=box.x1 + beside, y1=box.y1 - rim),
        Box(x0=box.x0, y0=box.y0 - below, x1=box.x1, y1=box.y1 + below),
    )


def _words_of(
    document: Document, fields: Sequence[ViewedField], counts: Counter[str], *, repeats: bool
) -> list[set[int]]:
    """Returns for each page the words of the fields, and of equal text elsewhere."""
    gone: list[set[int]] = [set() for _ in document.pages]
    for item in fields:
        if not 0 <= item.page < len(document.pages):
            raise _no_such(item, f"{len(document.pages)} pages")
        words = document.pages[item.page].words
        if not item.word_ids or not all(0 <= index < len(words) for index in item.word_ids):
            raise _no_such(item, f"{len(words)} words on page {item.page}")
        gone[item.page].update(item.word_ids)
        counts[item.label] += 1
    if repeats:
        labels: dict[tuple[str, ...], str] = {}
        for item in sorted(fields, key=lambda found: found.label):
            labels.setdefault(_run(document, item), item.label)
        runs = Runs(list(labels))
        for page, ids in zip(document.pages, gone, strict=True):
            _remove_repeats(page.words, ids, runs, list(labels.values()), counts)
    return gone


def _remove_repeats(
    words: Sequence[Word], gone: set[int], runs: Runs, labels: Sequence[str], counts: Counter[str]
) -> None:
    """Adds the words wherever a run of pieces stands, and invisible ones between them."""
    covered = Covered(len(words))
    for index in gone:
        covered.cover(index, index + 1)
    located = _pieces(words, range(len(words)))
    for number, first, stop in runs.find(piece for _, piece in located):
        place = located[first][0], located[stop - 1][0] + 1
        if covered.cover(*place):
            counts[labels[number]] += 1
    gone.update(covered.places())


def _no_such(item: ViewedField, found: str) -> InputError:
    return InputError(
        f"The field {short_repr(item.label)} names words {list(item.word_ids)[:5]} on page "
        f"{item.page}, and the document has {found}. Pass the fields that were found in this very "
        "document."
    )


def _run(document: Document, item: ViewedField) -> tuple[str, ...]:
    words = document.pages[item.page].words
    return tuple(piece for _, piece in _pieces(words, item.word_ids))


def _pieces(words: Sequence[Word], ids: Iterable[int]) -> list[tuple[int, str]]:
    """Returns the normalised pieces of words, each with its word; invisible text has none."""
    return [
        (index, bare(piece)) for index in ids for piece in normalised(words[index].text).split()
    ]


def _covers(page: Page, ids: Collection[int]) -> list[Box]:
    """Returns boxes over words, neighbours under one, so that their number stays hidden."""
    lines: list[list[Word]] = []
    for index in sorted(ids):
        word = page.words[index]
        if lines and index - 1 in ids and _same_line(lines[-1][-1].box, word.box):
            lines[-1].append(word)
        else:
            lines.append([word])
    return [_grown(union(word.box for word in line), page) for line in lines]


def _same_line(one: Box, other: Box) -> bool:
    shared = min(one.y1, other.y1) - max(one.y0, other.y0)
    return shared > 0.5 * min(one.y1 - one.y0, other.y1 - other.y0) and shared > 0


def _grown(box: Box, page: Page) -> Box:
    margin = max(_LEAST_MARGIN, _MARGIN * (box.y1 - box.y0))
    return Box(
        x0=max(0, box.x0 - margin),
        y0=max(0, box.y0 - margin),
        x1=min(page.width, box.x1 + margin),
        y1=min(page.height, box.y1 + margin),
    )


def _without(page: Page, ids: Collection[int], covers: Sequence[Box]) -> Page:
    """Returns the page without words, without what lies under their boxes, without its image."""
    left = [word for index, word in enumerate(page.words) if index not in ids]
    under = hidden([word.box for word in left], covers, _MOST_COVERED)
    kept = tuple(word for word, is_under in zip(left, under, strict=True) if not is_under)
    return replace(page, words=kept, image=None, frame=0)


def _of_text(
    document: Document,
    text: str,
    fields: Sequence[ViewedField],
    counts: Counter[str],
    *,
    repeats: bool,
) -> Document:
    spans: set[tuple[int, int]] = set()
    for item in fields:
        if item.start is None or item.stop is None or not 0 <= item.start < item.stop <= len(text):
            raise InputError(
                f"The field {short_repr(item.label)} stands at characters {item.start} to "
                f"{item.stop} of a text of {len(text)}. Pass the fields that were found in this "
                "very document."
            )
        spans.add((item.start, item.stop))
        counts[item.label] += 1
    if repeats:
        covered = Covered(len(text))
        for span in spans:
            covered.cover(*span)
        labels: dict[str, str] = {}
        for item in fields:
            wanted = bare(normalised(text[item.start : item.stop]).strip())
            labels.setdefault(wanted, item.label)
        names, within = list(labels.values()), normalised_with_places(text)
        words = [[bare(word) for word in wanted.split()] for wanted in labels]
        for number, start, stop in (
            *places(within, list(labels)),
            *places_of_words(within, words),
        ):
            if covered.cover(start, stop):
                spans.add((start, stop))
                counts[names[number]] += 1
    parts, last = [], 0
    for start, stop in sorted(spans):
        if start >= last:
            parts += [text[last:start], MARK]
        last = max(last, stop)
    return replace(document, text="".join([*parts, text[last:]]))
