"""Document, Page, Word, Box: what goes into every model, in training and at run time."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from hushdoc import reading_terms
from hushdoc.errors import BoxError, EmptyDocumentError, InputError
from hushdoc.reading_terms import ReadingLimits, Source, Witness, is_plain, shown

BOX_SCALE = 1000
"""Layout models read boxes on a page of 1000 x 1000 units, whatever its pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """An axis-parallel rectangle in page pixels, origin at the top left.

    Example:
        >>> Box(x0=10, y0=20, x1=110, y1=40).normalized(width=200, height=400)
        (50, 50, 550, 100)
    """

    x0: float
    y0: float
    x1: float
    y1: float

    def problem(self, *, width: float, height: float) -> str | None:
        """Returns what is wrong with this box on such a page, or None."""
        values = (self.x0, self.y0, self.x1, self.y1)
        if not all(math.isfinite(value) for value in values):
            return "has a coordinate that is not a finite number"
        if self.x1 < self.x0 or self.y1 < self.y0:
            return "has its corners swapped"
        if self.x0 < 0 or self.y0 < 0 or self.x1 > width or self.y1 > height:
            return f"lies outside its page of {width:g} x {height:g} pixels"
        return None

    def normalized(self, *, width: float, height: float) -> tuple[int, int, int, int]:
        """Returns (x0, y0, x1, y1) as integers from 0 to 1000, on a page of so many pixels."""
        return (
            _scaled(self.x0, width),
            _scaled(self.y0, height),
            _scaled(self.x1, width),
            _scaled(self.y1, height),
        )

    def to_list(self) -> list[float]:
        """Returns [x0, y0, x1, y1]."""
        return [self.x0, self.y0, self.x1, self.y1]


def _scaled(value: float, extent: float) -> int:
    return min(BOX_SCALE, max(0, int(BOX_SCALE * value / extent)))


def union(boxes: Iterable[Box]) -> Box:
    """Returns the smallest box around all of them.

    Raises:
        ValueError: There is no box.
    """
    found = list(boxes)
    if not found:
        raise ValueError("The union of no boxes is not a box.")
    return Box(
        x0=min(box.x0 for box in found),
        y0=min(box.y0 for box in found),
        x1=max(box.x1 for box in found),
        y1=max(box.y1 for box in found),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """One word as a reader or OCR found it.

    Attributes:
        text: The word, without surrounding blanks.
        box: Where it stands, in page pixels.
        segment: Number of the text block or line it belongs to on its page, if known; words of
            one segment share a layout box in models that were trained with segment boxes.
    """

    text: str
    box: Box
    segment: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One page: its size in pixels, its words in reading order, and its image if there is one.

    Attributes:
        width: In pixels, as the page is looked at: a turned photo or PDF page is upright.
        height: In pixels.
        words: In reading order.
        image: The file with the page's picture, an image or a PDF file: its path, or its content
            where the document was opened from memory or with a password. It is not shown by repr.
        frame: Which of that file's pictures or pages it is; `hushdoc.reading.page_image` draws it.
        limits: How much of that file may be read to draw it; None for those that are usual.
        witness: Tells whether it still is the file that was read; another one is not drawn.
    """

    width: int
    height: int
    words: tuple[Word, ...]
    image: Path | bytes | None = field(default=None, repr=False)
    frame: int = 0
    limits: ReadingLimits | None = field(default=None, repr=False, compare=False)
    witness: Witness | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Forgets what was seen of another file."""
        if self.witness is not None and self.witness.path != self.image:
            object.__setattr__(self, "witness", None)

    def segment_boxes(self) -> list[Box]:
        """Returns, for every word, the box of its segment (its own where it has none)."""
        members: dict[int, list[Box]] = {}
        for word in self.words:
            if word.segment is not None:
                members.setdefault(word.segment, []).append(word.box)
        boxes = {segment: union(parts) for segment, parts in members.items()}
        return [word.box if word.segment is None else boxes[word.segment] for word in self.words]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """An ordered tuple of pages, or a plain text that has none.

    Attributes:
        id: Names it in messages and results.
        pages: In their order; none where there is only a text.
        text: The whole text of a document that was never laid out on pages.
        source: How it was read, where a reader of hushdoc did it.

    Example:
        >>> document = Document.from_words(
        ...     ["Total", "12.50"], [(10, 10, 60, 30), (70, 10, 120, 30)], width=200, height=100
        ... )
        >>> document.num_words
        2
    """

    id: str
    pages: tuple[Page, ...]
    text: str | None = None
    source: Source | None = None

    @property
    def num_words(self) -> int:
        """How many words all pages hold."""
        return sum(len(page.words) for page in self.pages)

    @classmethod
    def open(
        cls,
        source: str | os.PathLike[str] | bytes,
        *,
        format: str = "auto",
        ocr: Any = "auto",
        id: str | None = None,
        password: str | None = None,
        limits: ReadingLimits | None = None,
    ) -> Document:
        """Returns the document in a file: PDF, image, text, or another program's output.

        `hushdoc.reading.open_document` does it; there everything is told.

        Args:
            source: Path of the file, or its content as bytes.
            format: "auto" looks at the content, never at the name; else one of
                `hushdoc.reading.FORMATS`.
            ocr: "auto" reads pages without text with RapidOCR or else Tesseract; "rapidocr" and
                "tesseract" read every page with that engine; "none" reads no picture.
            id: A name for messages and results; the file's name without its ending by default.
            password: Opens an encrypted PDF file.
            limits: How much is read, now and when its pages are drawn.

        Raises:
            InputError: The file can't be read; its subclasses say why.
            MissingExtraError: A package that this format needs is not installed.
        """
        # By name: readers stand on documents, and only who opens a file needs them.
        opened: Document = import_module("hushdoc.reading").open_document(
            source, format=format, ocr=ocr, id=id, password=password, limits=limits
        )
        return opened

    @classmethod
    def from_words(
        cls,
        words: Sequence[str],
        boxes: Sequence[Sequence[float]],
        *,
        width: int,
        height: int,
        segments: Sequence[int | None] | None = None,
        id: str = "document",
        image: Path | bytes | None = None,
    ) -> Document:
        """Returns a checked one-page document.

        Args:
            words: The words in reading order.
            boxes: One (x0, y0, x1, y1) in page pixels for each word.
            width: Page width in pixels.
            height: Page height in pixels.
            segments: One segment number (or None) for each word.
            id: A name for messages and results.
            image: The page's image file, or its content.

        Raises:
            InputError: The lists differ in length, or `check` finds something: BoxError, WordError
                and LimitExceededError name the word, EmptyDocumentError says that there is none.
        """
        if len(words) != len(boxes) or (segments is not None and len(segments) != len(words)):
            raise InputError(
                f"Document '{id}' has {len(words)} words and {len(boxes)} boxes"
                + (f" and {len(segments)} segments" if segments is not None else "")
                + "; every word needs exactly one. Pass lists of one length."
            )
        made = tuple(
            Word(
                text=text,
                box=_box_from(values, where=f"word {index} ({shown(text)}) of document '{id}'"),
                segment=None if segments is None else segments[index],
            )
            for index, (text, values) in enumerate(zip(words, boxes, strict=True))
        )
        page = Page(width=width, height=height, words=made, image=image)
        document = cls(id=id, pages=(page,))
        document.check()
        return document

    @classmethod
    def from_text(cls, text: str, *, id: str = "document") -> Document:
        """Returns a document of plain text, for models that read text and not pages.

        Args:
            text: All of it; results point into it by the number of its characters.
            id: A name for messages and results.

        Raises:
            EmptyDocumentError: There is nothing but blanks.

        Example:
            >>> Document.from_text("This Agreement is governed by the laws of Utah.").num_words
            0
        """
        document = cls(id=id, pages=(), text=text)
        document.check_text()
        return document

    def check_text(self) -> None:
        """Raises unless there is a plain text with anything in it.

        Raises:
            EmptyDocumentError: There is no text, or nothing but blanks.
        """
        if not self.text or self.text.isspace():
            raise EmptyDocumentError(
                f"Document '{self.id}' has no text, or nothing but blanks. Read its text first, or "
                "leave this document out."
            )

    def check(self) -> None:
        """Raises unless every page and box can be used; a plain text has no pages.

        Raises:
            EmptyDocumentError: There is no page or no word at all.
            BoxError: A box is NaN, swapped or off its page.
            WordError: A word is empty, no text, or holds control characters.
            LimitExceededError: A word is longer than MAX_WORD_CHARACTERS.
            InputError: A page has no area, or a side that no page has.
        """
        if not self.pages or self.num_words == 0:
            raise EmptyDocumentError(
                f"Document '{self.id}' has {len(self.pages)} pages and no word; at least one word "
                "is needed. Read the page with OCR first, or leave this document out."
            )
        for number, page in enumerate(self.pages):
            reading_terms.check_size(page.width, page.height, where=f"page {number} of '{self.id}'")
            for index, word in enumerate(page.words):
                problem = word.box.problem(width=page.width, height=page.height)
                if problem is None and is_plain(word.text):
                    continue
                where = f"word {index} ({shown(word.text)}) on page {number} of '{self.id}'"
                reading_terms.check_word(word.text, where=where)
                if problem is not None:
                    raise BoxError(
                        f"The box {word.box.to_list()} of {where} {problem}. Expected 0 <= x0 <= "
                        "x1 <= width, and so for y; mend the box or pass the page's true size."
                    )

    def to_dict(self, *, folder: Path | None = None) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it back, but for pictures in memory.

        Args:
            folder: Where the JSON will stand: images in it are named from there, others left out.
        """
        told = {} if self.source is None else {"source": self.source.to_dict()}
        if self.text is not None:
            return {"id": self.id, "text": self.text, **told}
        return {
            "id": self.id,
            "pages": [
                {
                    "width": page.width,
                    "height": page.height,
                    "image": reading_terms.image_name(page.image, folder),
                    **({"frame": page.frame} if page.frame else {}),
                    "words": [
                        {"text": word.text, "box": word.box.to_list(), "segment": word.segment}
                        for word in page.words
                    ],
                }
                for page in self.pages
            ],
            **told,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: Path | None = None) -> Document:
        """Returns the checked document that `to_dict` wrote; its images only where it may name any.

        Args:
            data: What it names as images is opened by whoever shows, redacts or classifies pages.
            folder: Where those must stand. By default pages have no image, so that nobody who sends
                a document can have a file of this machine opened.

        Raises:
            InputError: A key is missing or of the wrong type, an image lies elsewhere, or `check`
                finds something; its subclasses say what.
        """
        try:
            name = str(data["id"])
            told = data.get("source")
            source = None if told is None else Source.from_dict(told)
            if "text" in data and "pages" not in data:
                plain = cls(id=name, pages=(), text=_text_from(data["text"]), source=source)
                plain.check_text()
                return plain
            pages = tuple(
                Page(
                    width=int(page["width"]),
                    height=int(page["height"]),
                    image=reading_terms.named_image(page.get("image"), folder),
                    frame=int(page.get("frame", 0)),
                    words=tuple(
                        Word(
                            text=_text_from(word["text"]),
                            box=_box_from(
                                word["box"],
                                where=f"word {index} on page {number} of document '{name}'",
                            ),
                            segment=None if word.get("segment") is None else int(word["segment"]),
                        )
                        for index, word in enumerate(page["words"])
                    ),
                )
                for number, page in enumerate(data["pages"])
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(
                f"This is not a document: {type(error).__name__}: {error}. Expected "
                '{"id", "pages": [{"width", "height", "words": [{"text", "box": [x0, y0, x1, '
                'y1]}]}]} or {"id", "text"}; write it with Document.to_dict().'
            ) from error
        document = cls(id=name, pages=pages, source=source)
        document.check()
        return document


def _text_from(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is {type(value).__name__}, not a string")
    return value


def _box_from(values: Any, *, where: str) -> Box:
    try:
        x0, y0, x1, y1 = (float(value) for value in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise BoxError(
            f"The box of {where} is {repr(values)[:200]}; expected four numbers (x0, y0, x1, y1)."
        ) from error
    return Box(x0=x0, y0=y0, x1=x1, y1=y1)
