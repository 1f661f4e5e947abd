"""PDF files: the words of their text layer, and their pages as pictures.

Contract: PDFium is not made for several threads; every use of it stands inside `_pdfium`. It runs
no script and follows no link: the build that pypdfium2 brings has no JavaScript engine.
"""

from __future__ import annotations

import ctypes
import io
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from hushdoc.document import Box
from hushdoc.errors import (
    EncryptedDocumentError,
    HushdocError,
    LimitExceededError,
    MissingExtraError,
    UnsupportedFormatError,
)
from hushdoc.reading.drafting import PIXELS_PER_INCH, too_many_pages
from hushdoc.reading_terms import ReadingLimits

if TYPE_CHECKING:
    from PIL import Image

READER = "pdf"
POINTS_PER_INCH = 72
MIN_READABLE = 0.7
"""A text layer of which a smaller share are letters somebody could read is a font without a map
from glyphs to characters: the page is read as a picture instead."""

SCAN_SHARE, MIN_SCAN_WORDS = 0.5, 20
"""A page mostly covered by one picture, with fewer words than this, is a scan on which somebody
stamped a number: the words are in the picture."""

MAX_PICTURES = 1000
"""Pictures of a page that are looked at to tell whether it is a scan."""

MAX_PAGE_CHARACTERS = 1_000_000
"""A page in small print has ten thousand."""

_MARK = re.compile(rb"%PDF-\d")
_SOFT_HYPHEN = "\x02"
"""What PDFium puts for a hyphen at the end of a line."""

# Reentrant: a document that is let go half-read is closed wherever Python happens to stand.
_pdfium = threading.RLock()


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPage:
    """The text layer of a page.

    Attributes:
        width: In pixels, PIXELS_PER_INCH an inch, or fewer where the limits would be passed.
        height: In pixels.
        words: Text and box of each word, in the file's order, on the page as it is looked at.
        readable: The share of its characters that are letters somebody could read.
        scan: Whether it is a picture with a few words on it.
    """

    width: int
    height: int
    words: Sequence[tuple[str, Box]]
    readable: float
    scan: bool

    @property
    def needs_ocr(self) -> bool:
        """Whether the page says more than its text layer does."""
        return not self.words or self.scan or self.readable < MIN_READABLE


def is_pdf(content: bytes) -> bool:
    """Returns whether a file says that it is PDF, near its beginning as the format allows."""
    return _MARK.search(content, 0, 1024) is not None


def text_pages(
    content: bytes, *, id: str, limits: ReadingLimits, password: str | None = None
) -> Iterator[TextPage]:
    """Yields the text layer of each page; PDFium is free for others between two pages.

    Args:
        content: The whole file.
        id: The document's id, for messages.
        limits: How much is read.
        password: Opens an encrypted file.

    Raises:
        EncryptedDocumentError: It needs a password, or another one.
        UnsupportedFormatError: It is damaged, or no PDF.
        LimitExceededError: It has too many pages.
        MissingExtraError: pypdfium2 is not installed.
    """
    with _opened(content, id, password) as file:
        with _pdfium:
            count = len(file)
        if count > limits.max_pages:
            raise too_many_pages(id, count, limits)
        for number in range(count):
            with _page(file, number, id) as page:
                found = _text_page(page, limits)
            yield found


def page_picture(
    content: bytes,
    number: int,
    *,
    size: tuple[int, int],
    id: str,
    password: str | None = None,
) -> Image.Image:
    """Returns a page as an RGB picture of a given size.

    Args:
        content: The whole file.
        number: The page, from 0.
        size: Width and height in pixels, as `text_pages` told them.
        id: The document's id, for messages.
        password: Opens an encrypted file.

    Raises:
        EncryptedDocumentError: It needs a password, or another one.
        UnsupportedFormatError: It is damaged, or has no such page.
        MissingExtraError: pypdfium2 or Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("PIL", "pdf") from error
    with _opened(content, id, password) as file, _page(file, number, id) as page:
        width, height = page.get_size()
        # No larger than asked for in any way, also where the page has another shape than that.
        scale = min((size[0] * size[1] / (width * height)) ** 0.5, max(size) / max(width, height))
        picture: Image.Image = page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")
        if picture.size != size:
            picture = picture.resize(size, Image.Resampling.LANCZOS)
        # A copy of its own: the buffer belongs to PDFium.
        return picture.copy()


def unlocked(content: bytes, *, id: str, password: str) -> bytes:
    """Returns a file without its encryption; one that has none comes back as it is.

    Args:
        content: The whole file.
        id: The document's id, for messages.
        password: Opens it.

    Raises:
        EncryptedDocumentError: It needs another password.
        UnsupportedFormatError: It is damaged, or no PDF.
        MissingExtraError: pypdfium2 is not installed.
    """
    with _opened(content, id, password) as file, _pdfium:
        import pypdfium2

        if pypdfium2.raw.FPDF_GetSecurityHandlerRevision(file) < 0:
            return content
        copy = io.BytesIO()
        file.save(copy, flags=pypdfium2.raw.FPDF_REMOVE_SECURITY)
        return copy.getvalue()


@contextmanager
def _opened(content: bytes, id: str, password: str | None) -> Iterator[Any]:
    try:
        import pypdfium2
    except ImportError as error:
        raise MissingExtraError("pypdfium2", "pdf") from error
    with _pdfium:
        try:
            file = pypdfium2.PdfDocument(content, password=password)
            # What stands in the fields of a form is drawn, and read, only with this.
            if file.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
                file.init_forms()
        except (pypdfium2.PdfiumError, OSError, ValueError) as error:
            raise _not_opened(content, id, error, password) from error
    try:
        yield file
    finally:
        with _pdfium:
            file.close()


def _not_opened(content: bytes, id: str, error: Exception, password: str | None) -> HushdocError:
    import pypdfium2

    locked = getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD
    # PDFium says so of some damaged files too; this key is never inside anything compressed.
    if locked and b"/Encrypt" in content:
        found = "needs a password" if password is None else "does not open with this password"
        return EncryptedDocumentError(
            f"The PDF file '{id}' is encrypted and {found}. Pass password=..., or save it without "
            "encryption."
        )
    return UnsupportedFormatError(
        f"The PDF file '{id}' can't be read: {str(error)[:200]}. Expected a whole PDF file; write "
        "or download it again."
    )


@contextmanager
def _page(file: Any, number: int, id: str) -> Iterator[Any]:
    """Yields a page whose form fields and notes are part of its content."""
    import pypdfium2

    raw = pypdfium2.raw
    with _pdfium:
        try:
            page = file.get_page(number)
            if (
                raw.FPDFPage_GetAnnotCount(page) > 0
                and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS
            ):
                page.close()
                page = file.get_page(number)
            if not min(page.get_size()) > 0:
                raise pypdfium2.PdfiumError("it has no area")
            try:
                yield page
            finally:
                page.close()
        except pypdfium2.PdfiumError as error:
            raise UnsupportedFormatError(
                f"Page {number} of the PDF file '{id}' can't be read: {str(error)[:200]}. Write or "
                "download it again."
            ) from error


def _text_page(page: Any, limits: ReadingLimits) -> TextPage:
    width, height = page.get_size()
    scale = PIXELS_PER_INCH / POINTS_PER_INCH
    if width * height * scale**2 > limits.max_pixels:
        scale = (limits.max_pixels / (width * height)) ** 0.5
    size = max(1, int(width * scale)), max(1, int(height * scale))
    place = _Place(page, *size)
    characters = list(_characters(page))
    shown = [letter for letter, _ in characters if not letter.isspace()]
    readable = sum(map(_is_readable, shown)) / len(shown) if shown else 0.0
    words = []
    for text, box in _words(characters):
        inside = place.box(box)
        if inside is not None:
            words.append((text, inside))
    return TextPage(
        width=size[0],
        height=size[1],
        words=words,
        readable=readable,
        scan=_is_scan(page, len(words)),
    )


_Rectangle = tuple[float, float, float, float]
"""Left, bottom, right, top in the page's own points."""


def _characters(page: Any) -> Iterator[tuple[str, _Rectangle | None]]:
    """Yields each character of the text layer, blanks that PDFium adds included, and its place."""
    import pypdfium2

    raw = pypdfium2.raw
    layer = page.get_textpage()
    try:
        loose = raw.FS_RECTF()
        tight = [ctypes.c_double() for _ in range(4)]
        high = 0
        count = layer.count_chars()
        if count > MAX_PAGE_CHARACTERS:
            raise LimitExceededError(
                f"A page has {count} characters; at most {MAX_PAGE_CHARACTERS} are read. Split it, "
                'or read it as a picture with ocr="rapidocr".'
            )
        for index in range(count):
            code = raw.FPDFText_GetUnicode(layer, index)
            if 0xD800 <= code < 0xDC00:  # the first half of a pair
                high = code
                continue
            if 0xDC00 <= code < 0xE000:
                code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00) if high else 0xFFFD
            high = 0
            letter = chr(code) if 0 < code < 0x110000 else "\ufffd"
            if letter.isspace():
                yield letter, None
                continue
            box = None
            if raw.FPDFText_GetCharBox(layer, index, *tight):
                left, right, bottom, top = (value.value for value in tight)
                box = (left, bottom, right, top)
            # The font's whole height: words of a line stand level, whatever their letters.
            if raw.FPDFText_GetLooseCharBox(layer, index, loose):
                box = _grown(box, (loose.left, loose.bottom, loose.right, loose.top))
            yield letter, box
    finally:
        layer.close()


def _grown(one: _Rectangle | None, other: _Rectangle) -> _Rectangle:
    if one is None:
        return other
    return (
        min(one[0], other[0]),
        min(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


def _words(
    characters: Sequence[tuple[str, _Rectangle | None]],
) -> Iterator[tuple[str, _Rectangle]]:
    """Yields the runs of characters between blanks, without those that no page shows."""
    letters: list[str] = []
    box: _Rectangle | None = None
    for letter, place in [*characters, (" ", None)]:
        if letter == _SOFT_HYPHEN:
            letters.append("-")
            box = box if place is None else _grown(box, place)
        # After a hyphen the next line begins, and a box never spans two.
        if letter.isspace() or letter == _SOFT_HYPHEN:
            if letters and box is not None:
                yield "".join(letters), box
            letters, box = [], None
        elif unicodedata.category(letter) not in ("Cc", "Cs") and not _is_noncharacter(letter):
            letters.append(letter)
            box = box if place is None else _grown(box, place)


def _is_noncharacter(letter: str) -> bool:
    """Returns whether Unicode promises that a code will never be a character."""
    code = ord(letter)
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def _is_readable(letter: str) -> bool:
    return letter == _SOFT_HYPHEN or (
        letter != "\ufffd"
        and unicodedata.category(letter) not in ("Cc", "Co", "Cs")
        and not _is_noncharacter(letter)
    )


def _is_scan(page: Any, num_words: int) -> bool:
    """Returns whether a picture covers most of a page that has hardly any word."""
    import pypdfium2

    if num_words >= MIN_SCAN_WORDS:
        return False
    width, height = page.get_size()
    kinds = [pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]
    for found in islice(page.get_objects(filter=kinds), MAX_PICTURES):
        left, bottom, right, top = found.get_bounds()
        if abs((right - left) * (top - bottom)) >= SCAN_SHARE * width * height:
            return True
    return False


class _Place:
    """From a page's own points, whatever its rotation and crop, to pixels as it is looked at."""

    def __init__(self, page: Any, width: int, height: int) -> None:
        self._size = (width, height)
        far = max(page.get_size())
        origin, right, up = (
            _on_device(page, width, height, *point)
            for point in ((0.0, 0.0), (far, 0.0), (0.0, far))
        )
        self._origin = origin
        self._across = ((right[0] - origin[0]) / far, (right[1] - origin[1]) / far)
        self._up = ((up[0] - origin[0]) / far, (up[1] - origin[1]) / far)

    def box(self, box: _Rectangle) -> Box | None:
        """Returns the part of a rectangle that is on the page, or None."""
        corners = [self._pixel(box[x], box[y]) for x in (0, 2) for y in (1, 3)]
        width, height = self._size
        x0, x1 = min(x for x, _ in corners), max(x for x, _ in corners)
        y0, y1 = min(y for _, y in corners), max(y for _, y in corners)
        if not (x1 > 0 and y1 > 0 and x0 < width and y0 < height):  # nor where they are NaN
            return None
        return Box(x0=max(0.0, x0), y0=max(0.0, y0), x1=min(width, x1), y1=min(height, y1))

    def _pixel(self, x: float, y: float) -> tuple[float, float]:
        return (
            self._origin[0] + x * self._across[0] + y * self._up[0],
            self._origin[1] + x * self._across[1] + y * self._up[1],
        )


def _on_device(page: Any, width: int, height: int, x: float, y: float) -> tuple[float, float]:
    """Returns where a point stands, finer than the whole pixels in which PDFium answers."""
    import pypdfium2

    fine = max(1, min(1 << 8, (1 << 24) // max(width, height)))
    across, down = ctypes.c_int(), ctypes.c_int()
    pypdfium2.raw.FPDF_PageToDevice(page, 0, 0, width * fine, height * fine, 0, x, y, across, down)
    return across.value / fine, down.value / fine
