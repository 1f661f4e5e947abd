"""Pages as images: drawn from the file that they were read from, or opened without their words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Page
from hushdoc.errors import InputError, LimitExceededError
from hushdoc.reading import files, images, isolated, opening, pdf, reader_process
from hushdoc.reading.drafting import limits_from
from hushdoc.reading.files import File

if TYPE_CHECKING:
    from PIL import Image


def open_pages(
    source: str | os.PathLike[str] | bytes,
    *,
    password: str | None = None,
    limits: ReadingLimits | None = None,
    reader: str = "here",
) -> Document:
    """Returns the pages of an image or PDF file without reading any word of them.

    A document's JSON, whose pages name their images, is opened as it is. The arguments and errors
    are those of `open_document`.
    """
    limits = limits_from(limits)
    place = reader_process.required(reader, limits)
    file = files.given(source, limits)
    if file.content.lstrip().startswith(b"{"):
        return opening.open_document(source, format="document", limits=limits, reader=reader)
    document = (isolated.pages if place == "process" else pages)(
        file, password=password, limits=limits
    )
    return replace(document, id=file.id)


def pages(file: File, *, password: str | None, limits: ReadingLimits) -> Document:
    """Returns the document of `open_pages`."""
    name, content, path = file.name, file.content, file.path
    unlocked: bytes | None = None
    if pdf.is_pdf(content):
        if password is not None:
            unlocked = pdf.unlocked(content, id=name, password=password)
        drafts = pdf.text_pages(content, id=name, limits=limits, password=password)
        sizes = [(number, (page.width, page.height)) for number, page in enumerate(drafts)]
    else:
        sizes = list(images.frame_sizes(content, id=name, limits=limits))
    seen = files.fingerprint(content, path) if unlocked is None else None
    image = unlocked or path or content
    return Document(
        id=name,
        pages=tuple(
            Page(
                width=width,
                height=height,
                words=(),
                image=image,
                frame=frame,
                limits=limits,
                fingerprint=seen,
            )
            for frame, (width, height) in sizes
        ),
    )


DrawPage = Callable[[Page], "Image.Image | None"]
"""Returns a page's image as `page_image` does."""


@contextmanager
def kept_open() -> Iterator[DrawPage]:
    """Yields what draws pages one after another, for which a PDF file of several is opened once.

    All else is done, and checked, for each page: its file is read and compared with what was read.
    """
    with pdf.Drawer() as drawer:
        yield partial(_page_image, drawer=drawer)


def page_image(
    page: Page,
    *,
    password: str | None = None,
    limits: ReadingLimits | None = None,
    reader: str | None = None,
) -> Image.Image | None:
    """Returns a page's image as it is looked at, page.width x page.height pixels, in RGB.

    It is drawn anew from the page's file at each call, and nothing is kept.

    Args:
        page: The page; None comes back where it names no file.
        password: Opens an encrypted PDF file.
        limits: How much is read; by default what the document was opened with.
        reader: "here" or "process"; by default where the document was read.

    Raises:
        InputError: The file is not there, damaged, too large, or no longer the one whose words
            were read (FILE_CHANGED); or a reader process took too long or ended. Or an image has
            the page's sides in the other order: the boxes are of one that was not turned upright.
        MissingExtraError: A package that its format needs is not installed.
    """
    with pdf.Drawer() as drawer:
        return _page_image(page, password=password, limits=limits, reader=reader, drawer=drawer)


def _page_image(
    page: Page,
    *,
    password: str | None = None,
    limits: ReadingLimits | None = None,
    reader: str | None = None,
    drawer: pdf.Drawer,
) -> Image.Image | None:
    advice = "Pass one of a document's `pages`."
    arguments.instance(page, Page, what="The page", advice=advice)
    if page.image is None:
        return None
    arguments.optional(password, str, what="The password", advice="Pass a string, or leave it out.")
    limits = limits_from(page.limits if limits is None else limits)
    place = reader_process.required(page.reader if reader is None else reader, limits)
    file = files.given(page.image, limits)
    if page.fingerprint is not None:
        files.require_same(page.fingerprint, file.content)
    if page.width * page.height > limits.max_pixels:
        raise LimitExceededError(
            f"A page of '{file.name}' is {page.width} x {page.height} pixels; at most "
            f"{limits.max_pixels} in all are drawn. Correct its size, or raise the limit."
        )
    size = (page.width, page.height)
    if place == "process":
        return isolated.drawn(file, page.frame, size=size, password=password, limits=limits)
    return _drawn(file, page.frame, size=size, password=password, limits=limits, drawer=drawer)


def drawn(
    file: File, frame: int, *, size: tuple[int, int], password: str | None, limits: ReadingLimits
) -> Image.Image:
    """Returns a page of a file in RGB and the given size."""
    with pdf.Drawer() as drawer:
        return _drawn(file, frame, size=size, password=password, limits=limits, drawer=drawer)


def _drawn(
    file: File,
    frame: int,
    *,
    size: tuple[int, int],
    password: str | None,
    limits: ReadingLimits,
    drawer: pdf.Drawer,
) -> Image.Image:
    name, content = file.name, file.content
    with arguments.reading_as("a file of pages that can be drawn", name):
        if pdf.is_pdf(content):
            return drawer.page_image(content, frame, size=size, id=name, password=password)
        image = images.frame_image(content, frame, id=name, limits=limits)
        if image.size == size[::-1] != size:
            raise InputError(
                f"The image '{name}' is {image.width} x {image.height} pixels as it is looked at, "
                f"and its page says {size[0]} x {size[1]}: boxes are of an image that was not "
                "turned upright yet. Turn it by its EXIF orientation before its words are read."
            )
        return image if image.size == size else image.resize(size)
