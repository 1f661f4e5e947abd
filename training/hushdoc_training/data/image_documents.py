"""Documents as images of their pages, each with a class, and layouts of files that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hushdoc.document.page import Box, Page
from hushdoc.errors import InputError
from hushdoc.reading import drawing, images
from hushdoc_training.data import annotated_pages
from hushdoc_training.data.corpus import Problems

UNREADABLE = "file that can't be read as an image, left out"
TINY = f"image with a side below {images.MIN_SIDE} pixels, left out"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageDocument:
    """A document as images of its pages, with its class.

    Attributes:
        id: Its name, which no other document of the set has.
        label: Its class.
        pages: Each with an image; their words are those that are known, often none.
        lines: Boxes of the lines of text of each page, in its pixels; () where nobody knows them.
        source: Which set a mixed data set took it from, if it says so.
        part: The published part it is of, such as "train", if there is one.
    """

    id: str
    label: str
    pages: tuple[Page, ...]
    lines: tuple[tuple[Box, ...], ...] = ()
    source: str | None = None
    part: str | None = None


@dataclass(frozen=True, kw_only=True)
class ImageCorpus:
    """A layout of files that holds classified images: how it is told apart and read."""

    name: str
    title: str
    expected: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, Problems], Iterator[ImageDocument]]


def of_file(
    image: Path | bytes,
    *,
    id: str,
    label: str,
    problems: Problems,
    lines: Sequence[Sequence[Box]] = (),
    source: str | None = None,
    part: str | None = None,
) -> ImageDocument | None:
    """Returns the document of an image file; None, and counted, where it can't be one."""
    try:
        pages = drawing.open_pages(image).pages
        for page in pages:
            drawing.page_image(page)
    except InputError:
        problems.add(UNREADABLE, id)
        return None
    if any(min(page.width, page.height) < images.MIN_SIDE for page in pages):
        problems.add(TINY, id)
        return None
    return ImageDocument(
        id=annotated_pages.name(id, where="name of an image"),
        label=annotated_pages.name(label, where="name of a class"),
        pages=pages,
        lines=tuple(map(tuple, lines)),
        source=source,
        part=part,
    )
