"""PDF files: the words of their text layer, and their pages as images.

Contract: PDFium is not thread-safe; every use of it is inside `_pdfium`. It runs
no script and follows no link: the build that pypdfium2 brings has no JavaScript engine.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Self

from hushdoc import arguments
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import EncryptedDocumentError, HushdocError, UnsupportedFormatError, needs_extra
from hushdoc.reading.drafting import too_many_pages
from hushdoc.reading.pdf_forms import require_bounded
from hushdoc.reading.pdf_notes import notes_alone
from hushdoc.reading.pdf_text import TextPage, text_page
from hushdoc.system import forking

if TYPE_CHECKING:
    from PIL import Image

READER = "pdf"

_MARK = re.compile(rb"%PDF-\d")

# Reentrant: a generator that is dropped half-read closes its file wherever Python happens to be.
_pdfium = forking.Lock("PDFium")


def is_pdf(content: bytes) -> bool:
    """Returns whether a file has the PDF mark near its beginning, as the format allows."""
    return _MARK.search(content, 0, 1024) is not None


def text_pages(
    content: bytes, *, id: str, limits: ReadingLimits, password: str | None = None
) -> Iterator[TextPage]:
    """Yields the text layer of each page; between two pages PDFium is free for other threads."""
    with _opened(content, id, password) as file:
        with _pdfium:
            count = len(file)
        if count > limits.max_pages:
            raise too_many_pages(id, count, limits)
        for number in range(count):
            with _page(file, number, id) as page, notes_alone(file, number, page) as notes:
                found = text_page(page, notes, limits)
            yield found


Draw = Callable[[int, tuple[int, int]], "Image.Image"]
"""Returns a page, counted from 0, as an RGB image of the size that `text_pages` returned."""


@contextmanager
def drawing(content: bytes, *, id: str, password: str | None = None) -> Iterator[Draw]:
    """Yields what draws pages of a file, which is opened once: its form may take a second."""
    with needs_extra("PIL", "pdf"):
        import PIL.Image  # noqa: F401
    with _opened(content, id, password) as file:

        def draw(number: int, size: tuple[int, int]) -> Image.Image:
            with _page(file, number, id) as page:
                return _drawn(page, size)

        yield draw


class Drawer:
    """Draws pages of files one after another; a file stays open until another one's turn."""

    def __init__(self) -> None:
        """Opens no file yet."""
        self._file: tuple[bytes, str | None] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Returns itself, to be closed with the block."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Closes the last file."""
        self._file = None
        self._open.close()

    def page_image(
        self, content: bytes, number: int, *, size: tuple[int, int], id: str, password: str | None
    ) -> Image.Image:
        """Returns one page as `drawing` draws it."""
        if self._file != (content, password):
            self.__exit__()
            self._draw = self._open.enter_context(drawing(content, id=id, password=password))
            self._file = content, password
        return self._draw(number, size)


def _drawn(page: Any, size: tuple[int, int]) -> Image.Image:
    from PIL import Image

    width, height = page.get_size()
    # No larger than asked for in any way, also where the page has another shape than that.
    scale = min((size[0] * size[1] / (width * height)) ** 0.5, max(size) / max(width, height))
    image: Image.Image = page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")
    if image.size != size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    # A copy of its own: the buffer belongs to PDFium.
    return image.copy()


def unlocked(content: bytes, *, id: str, password: str) -> bytes:
    """Returns a file without its encryption, with the refusals of `text_pages`."""
    with _opened(content, id, password) as file, _pdfium:
        import pypdfium2

        if pypdfium2.raw.FPDF_GetSecurityHandlerRevision(file) < 0:
            return content
        copy = io.BytesIO()
        file.save(copy, flags=pypdfium2.raw.FPDF_REMOVE_SECURITY)
        return copy.getvalue()


@contextmanager
def _opened(content: bytes, id: str, password: str | None) -> Iterator[Any]:
    with _pdfium, needs_extra("pypdfium2", "pdf"):  # a fork waits until it is imported
        import pypdfium2
    with _pdfium, arguments.reading_as("a PDF file that can be opened", id):
        try:
            file = pypdfium2.PdfDocument(content, password=password)
            # The content of form fields is drawn, and read, only with this.
            if file.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
                require_bounded(file, id)
                logging.getLogger(type(file).__module__).addFilter(_is_no_advice)  # once
                file.init_forms()
        except (pypdfium2.PdfiumError, OSError, ValueError) as error:
            raise _not_opened(content, id, error, password) from error
    try:
        with arguments.reading_as("a PDF file that can be read", id):
            yield file
    finally:
        with _pdfium:
            file.close()


def _is_no_advice(record: logging.LogRecord) -> bool:
    """Returns whether pypdfium2 logs anything but how to build it with an engine for XFA."""
    return "XFA support" not in str(record.msg)


def _not_opened(content: bytes, id: str, error: Exception, password: str | None) -> HushdocError:
    import pypdfium2.raw as raw

    code = getattr(error, "err_code", None)
    raw.FPDF_LoadMemDocument(b"", 0, None)  # so that no later file is told of this one's password
    if code == raw.FPDF_ERR_SECURITY:
        return EncryptedDocumentError(
            f"The PDF file '{id}' is encrypted by a method that no password opens here, such as "
            "for the owners of certificates. Save it without encryption."
        )
    # PDFium says so of some damaged files too; this key is never inside anything compressed.
    if code == raw.FPDF_ERR_PASSWORD and b"/Encrypt" in content:
        found = "needs a password" if password is None else "does not open with this password"
        return EncryptedDocumentError(
            f"The PDF file '{id}' is encrypted and {found}. Pass password=..., or save it without "
            "encryption."
        )
    matter = str(error)[:200].rstrip(".")
    # PDFium keeps the code of its last failure, and sets none where objects lead to no page.
    if code in (raw.FPDF_ERR_SUCCESS, raw.FPDF_ERR_FORMAT):
        matter = "its objects are damaged, or lead to no page"
    return UnsupportedFormatError(
        f"The PDF file '{id}' can't be read: {matter}. Expected a whole PDF file; write or "
        "download it again."
    )


@contextmanager
def _page(file: Any, number: int, id: str) -> Iterator[Any]:
    import pypdfium2

    with _pdfium:
        try:
            with closing(_loaded(file, number)) as page:
                yield page
        except pypdfium2.PdfiumError as error:
            matter = str(error)[:200].rstrip(".")
            raise UnsupportedFormatError(
                f"Page {number} of the PDF file '{id}' can't be read: {matter}. Write or download "
                "it again."
            ) from error


def _loaded(file: Any, number: int) -> Any:
    import pypdfium2

    try:
        page = file.get_page(number)
    except pypdfium2.PdfiumError as error:
        raise pypdfium2.PdfiumError("its place in the page tree holds no page") from error
    if not min(page.get_size()) > 0:
        raise pypdfium2.PdfiumError("it has no area")
    return page
