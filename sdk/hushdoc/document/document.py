"""Document, Page, Word, Box: what goes into every model, in training and at run time."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

from hushdoc import arguments
from hushdoc.document import limits
from hushdoc.document.page import Box, Page, Word
from hushdoc.document.provenance import Source
from hushdoc.errors import BoxError, EmptyDocumentError, InputError

_PARTS = (
    "pages of Page, with words of Word, with boxes of Box; make it with hushdoc.open_document, "
    "Document.from_words or Document.from_dict"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """An ordered tuple of pages, or a plain text that has none.

    Attributes:
        id: Its name in messages and results.
        pages: In their order; none where there is only a text.
        text: The whole text of a document without pages.
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
        """Number of words on all pages."""
        return sum(len(page.words) for page in self.pages)

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
            image: The page's image file, or its content. Boxes are of it as it is viewed: a photo
                turned by its EXIF orientation. Of one that is upside down nothing tells that its
                words were read before it was turned, and redaction covers another place.

        Raises:
            InputError: The lists differ in length, or `check` finds something: BoxError, WordError
                and LimitExceededError name the word, EmptyDocumentError says that there is none.
        """
        arguments.text(id, what="The document's id")
        words = arguments.listed(words, what="The argument 'words'", of="strings")
        boxes = arguments.listed(boxes, what="The argument 'boxes'", of="boxes")
        if segments is not None:
            segments = arguments.listed(segments, what="The argument 'segments'", of="integers")
        if len(words) != len(boxes) or (segments is not None and len(segments) != len(words)):
            raise InputError(
                f"Document '{id}' has {len(words)} words and {len(boxes)} boxes"
                + (f" and {len(segments)} segments" if segments is not None else "")
                + "; every word needs exactly one. Pass lists of one length."
            )
        checked = tuple(
            Word(
                text=text,
                box=_box_from(
                    values, where=f"word {index} ({arguments.short_repr(text)}) of document '{id}'"
                ),
                segment=None if segments is None else _segment_from(segments[index], index),
            )
            for index, (text, values) in enumerate(zip(words, boxes, strict=True))
        )
        page = Page(width=width, height=height, words=checked, image=image)
        document = cls(id=id, pages=(page,))
        document.check()
        return document

    @classmethod
    def from_text(cls, text: str, *, id: str = "document") -> Document:
        """Returns a document of plain text, for models that read text and not pages.

        Args:
            text: All of it; results refer to it by character offsets.
            id: A name for messages and results.

        Raises:
            EmptyDocumentError: There is nothing but whitespace.
            InputError: The text or the id is not a string, or not valid Unicode.

        Example:
            >>> Document.from_text("This Agreement is governed by the laws of Utah.").num_words
            0
        """
        document = cls(id=arguments.text(id, what="The document's id"), pages=(), text=text)
        document.check_text()
        return document

    def check_text(self) -> None:
        """Raises EmptyDocumentError or InputError unless there is a text that is not empty."""
        text = arguments.optional(
            self.text, str, what="The document's text", advice="Pass a string."
        )
        if not text or text.isspace():
            raise EmptyDocumentError(
                f"Document '{self.id}' has no text, or nothing but whitespace. Read its text "
                "first, or leave this document out."
            )
        _require_unicode(self.id, what="The id of a document")
        _require_unicode(text, what=f"The text of document '{self.id}'")

    def check(self) -> None:
        """Raises unless every page and box can be used; a plain text has no pages.

        Raises:
            EmptyDocumentError: There is no page or no word at all.
            BoxError: A box is NaN, swapped or off its page.
            WordError: A word is empty, no text, or holds control characters.
            LimitExceededError: A word is longer than MAX_WORD_CHARACTERS.
            InputError: A page has no area or is too long, a value is of a wrong type, or the id is
                not valid Unicode.
        """
        with arguments.expecting(f"Document '{self.id}'", _PARTS):
            if not self.pages or self.num_words == 0:
                raise EmptyDocumentError(
                    f"Document '{self.id}' has {arguments.counted(len(self.pages), 'page')} and no "
                    "word; at least one is needed. Read the page with OCR first, or leave this "
                    "document out."
                )
            _require_unicode(self.id, what="The id of a document")
            for number, page in enumerate(self.pages):
                _check_page(page, where=f"page {number} of '{self.id}'")

    def to_dict(self, *, folder: Path | None = None) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it back, but for images in memory.

        Args:
            folder: Where the JSON will be: images in it are named relative to it, others left out.
        """
        source = {} if self.source is None else {"source": self.source.to_dict()}
        folder = _folder_from(folder)
        if self.text is not None:
            return {"id": self.id, "text": self.text, **source}
        return {
            "id": self.id,
            "pages": [
                {
                    "width": page.width,
                    "height": page.height,
                    "image": limits.image_name(page.image, folder),
                    **({"frame": page.frame} if page.frame else {}),
                    "words": [
                        {"text": word.text, "box": word.box.to_list(), "segment": word.segment}
                        for word in page.words
                    ],
                }
                for page in self.pages
            ],
            **source,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: Path | None = None) -> Document:
        """Returns the checked document that `to_dict` wrote; its images only where it may name any.

        Args:
            data: As parsed from JSON. Showing, redacting or classifying a page opens its image.
            folder: Where images must be. By default pages have no image, so that the sender of a
                document can't have a file of this machine opened.

        Raises:
            InputError: A key is missing or of the wrong type, an image lies elsewhere, or `check`
                finds something; its subclasses say what.
        """
        folder = None if folder is None else arguments.path(folder, what="The folder")
        try:
            name = str(data["id"])
            source = None if data.get("source") is None else Source.from_dict(data["source"])
            if "text" in data and "pages" not in data:
                plain = cls(id=name, pages=(), text=_text_from(data["text"]), source=source)
                plain.check_text()
                return plain
            pages = tuple(
                Page(
                    width=int(page["width"]),
                    height=int(page["height"]),
                    image=limits.named_image(page.get("image"), folder),
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
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"This is not a document: {arguments.failure_of(error)}. Expected "
                '{"id", "pages": [{"width", "height", "words": [{"text", "box": [x0, y0, x1, '
                'y1]}]}]} or {"id", "text"}; write it with Document.to_dict().'
            ) from error
        document = cls(id=name, pages=pages, source=source)
        document.check()
        return document


def required(found: object, *, what: str = "The document") -> Document:
    """Returns a value that is a Document, or raises an InputError that says how to make one."""
    if isinstance(found, str | os.PathLike):
        advice = "Pass open_document(path) for a file, or Document.from_text(text) for a text."
    elif isinstance(found, bytes):
        advice = "Pass open_document(content)."
    elif isinstance(found, list | tuple):
        advice = "Pass documents one by one, or all to the method for many, such as extract_many."
    else:
        advice = "Make one with hushdoc.open_document, Document.from_words or Document.from_text."
    return arguments.instance(found, Document, what=what, advice=advice)


def _require_unicode(text: str, *, what: str) -> None:
    """Raises InputError for half a character, which no answer in UTF-8 could repeat."""
    if not arguments.is_unicode(text):
        raise InputError(
            f"{what} holds half a character (a lone surrogate), which is not valid Unicode: "
            f"{arguments.short_repr(text)}. Decode it correctly, or leave the half out."
        )


def _check_page(page: Page, *, where: str) -> None:
    limits.check_size(page.width, page.height, where=where)
    for index, word in enumerate(page.words):
        problem, segment = word.box.problem(width=page.width, height=page.height), word.segment
        if segment is not None and not hasattr(segment, "__index__"):
            raise InputError(
                f"The segment of word {index} on {where} is {arguments.described(segment)}; "
                "expected an integer or None. Number the text's blocks or lines."
            )
        if problem is None and limits.is_plain(word.text):
            continue
        which = f"word {index} ({arguments.short_repr(word.text)}) on {where}"
        limits.check_word(word.text, where=which)
        if problem is not None:
            raise BoxError(
                f"The box {arguments.short_repr(word.box.to_list())} of {which} {problem}. "
                "Expected 0 <= x0 <= x1 <= width, and so for y; correct the box or pass the page's "
                "true size."
            )


def _folder_from(value: object) -> Path | None:
    """Returns a folder that images are named from, or None."""
    if value is None:
        return None
    folder = arguments.path(value, what="The folder")
    with arguments.expecting(f"The folder {arguments.short_repr(value)}", "the path of a folder"):
        folder.resolve()  # raises where no folder can have this name
    return folder


def _segment_from(value: SupportsIndex | None, index: int) -> int | None:
    try:
        return None if value is None else operator.index(value)
    except TypeError as error:
        raise InputError(
            f"The segment of word {index} is {arguments.described(value)}; expected an integer or "
            "None. Number the text's blocks or lines."
        ) from error


def _text_from(value: Any) -> str:
    if not isinstance(value, str):
        raise arguments.MalformedError(f"a text is {type(value).__name__}, not a string")
    return value


def _box_from(values: Any, *, where: str) -> Box:
    try:
        x0, y0, x1, y1 = (float(value) for value in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise BoxError(
            f"The box of {where} is {arguments.short_repr(values)}; expected four numbers (x0, y0, "
            "x1, y1)."
        ) from error
    return Box(x0=x0, y0=y0, x1=x1, y1=y1)
