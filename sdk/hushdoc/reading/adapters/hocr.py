"""hOCR: OCR results inside HTML, as Tesseract, OCRopus and others write them.

Tags are found by one regular expression that never looks past the next "<", so that the time
grows with the length of the file whatever it contains.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import UnsupportedFormatError
from hushdoc.reading.drafting import Corners, Draft

READER = "hocr"
LINES = frozenset(
    ("ocr_line", "ocrx_line", "ocr_header", "ocr_footer", "ocr_caption", "ocr_textfloat")
)
BLOCKS = frozenset(("ocr_carea", "ocr_par", "ocrx_block"))
WORD = "ocrx_word"
PAGE = "ocr_page"
STRUCTURE = LINES | BLOCKS | {PAGE}

_TAG = re.compile(r"""<(/?)([A-Za-z][\w:-]*+)((?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+)>""")
# The last form of value is without quotes, as HTML allows.
_ATTRIBUTE = re.compile(
    r"""(?<![\w:-])([A-Za-z][\w:-]*+)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]++))"""
)
_BBOX = re.compile(r"(?:^|;)\s*bbox\s+([^;]*)")
_VOID = frozenset(("br", "hr", "img", "link", "meta", "wbr", "input"))


def from_hocr(text: str, *, id: str = "document", limits: ReadingLimits | None = None) -> Document:
    """Returns the document of an hOCR file's content; words of one line share a segment."""
    arguments.text(text, what="What should be hOCR")
    draft = Draft(id=id, reader=READER, limits=limits)
    with arguments.reading_as("hOCR", id):
        _fill(draft, text)
    return draft.document()


def _fill(draft: Draft, text: str) -> None:
    # OCRopus and others write lines alone.
    by_word = WORD in text
    classes = frozenset((WORD,)) if by_word else LINES
    origin = (0.0, 0.0)
    pages = line = 0
    segment: int | None = None
    for name, title, content in _elements(text, classes):
        if name == PAGE:
            x0, y0, x1, y1 = _page_box(title, draft.id, pages)
            draft.page(x1 - x0, y1 - y0)
            origin, pages, line, segment = (x0, y0), pages + 1, 0, None
            continue
        if name in BLOCKS:
            segment = None
            continue
        if name in LINES:
            segment, line = line, line + 1
        if content is not None and pages:
            add = draft.word if by_word else draft.line
            add(content, _corners(title, origin) if content.strip() else None, segment=segment)
    if not pages:
        raise UnsupportedFormatError(
            f"'{draft.id}' has no element of the class {PAGE}, so it is not hOCR. Pass the "
            "output as it was written, or name its true format."
        )


def _elements(text: str, classes: frozenset[str]) -> Iterator[tuple[str, str, str | None]]:
    """Yields class and title of the elements that matter, in order of their starts.

    Those of the given classes come with the text inside them, and once they are closed.
    """
    text = _without_comments(text)
    pending: tuple[str, str, str] | None = None
    parts: list[str] = []
    depth = last = 0
    for found in _TAG.finditer(text):
        closing, tag, rest = found[1], found[2].lower(), found[3]
        if pending is not None:
            parts.append(text[last : found.start()])
        last = found.end()
        if pending is not None and tag == pending[2] and not rest.endswith("/"):
            depth += -1 if closing else 1
            if depth == 0:
                yield pending[0], pending[1], html.unescape("".join(parts))
                pending = None
        if closing or tag in _VOID:
            continue
        names, title = _names(rest)
        name = next((name for name in names if name in classes or name in STRUCTURE), None)
        if name is None:
            continue
        if pending is not None:  # it was never closed
            yield pending[0], pending[1], html.unescape("".join(parts))
            pending = None
        if name in classes:
            pending, parts, depth = (name, title, tag), [], 1
        else:
            yield name, title, None
    if pending is not None:
        yield pending[0], pending[1], html.unescape("".join([*parts, text[last:]]))


def _names(attributes: str) -> tuple[list[str], str]:
    """Returns an element's classes and its title."""
    if "class" not in attributes.lower():
        return [], ""
    found = {name.lower(): "".join(values) for name, *values in _ATTRIBUTE.findall(attributes)}
    return found.get("class", "").split(), html.unescape(found.get("title", ""))


def _without_comments(text: str) -> str:
    if "<!--" not in text:
        return text
    kept = []
    start = 0
    while (begin := text.find("<!--", start)) >= 0:
        kept.append(text[start:begin])
        end = text.find("-->", begin + 4)
        if end < 0:
            return "".join(kept)
        start = end + 3
    return "".join([*kept, text[start:]])


def _corners(title: str, origin: tuple[float, float]) -> Corners | None:
    box = _BBOX.search(title)
    if box is None:
        return None
    values = box[1].split()
    try:
        x0, y0, x1, y1 = (float(value) for value in values)
    except ValueError:
        return (box[1][:40], None, None, None)  # the draft says which word's it is
    return (x0 - origin[0], y0 - origin[1], x1 - origin[0], y1 - origin[1])


def _page_box(title: str, id: str, page: int) -> tuple[float, float, float, float]:
    box = _BBOX.search(title)
    try:
        x0, y0, x1, y1 = (float(value) for value in (box[1].split() if box else ()))
    except ValueError as error:
        raise UnsupportedFormatError(
            f"Page {page} of '{id}' (hocr) has no bounding box; expected a title with 'bbox x0 "
            "y0 x1 y1'. Write the file again with its pages' sizes."
        ) from error
    return x0, y0, x1, y1
