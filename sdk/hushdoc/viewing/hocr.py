"""Documents and answers as hOCR, which OCR tools and archives read: words, lines and their boxes.

hOCR has no word for fields; each word that belongs to one says so in attributes of its own
(`data-field`, `data-score`), which other readers pass over.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from itertools import groupby

from hushdoc import arguments
from hushdoc.document.document import Document, required
from hushdoc.document.page import Box, Page, Word, union
from hushdoc.errors import InputError
from hushdoc.viewing.fields import ViewedField

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml">\n<head>\n<title>{title}</title>\n'
    '<meta charset="utf-8" />\n'
    '<meta name="ocr-system" content="hushdoc" />\n'
    '<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_line ocrx_word" />\n'
    "</head>\n<body>\n"
)

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def to_hocr(document: Document, fields: Iterable[ViewedField] = ()) -> str:
    """Returns a document on pages as hOCR.

    Args:
        document: The pages; words of one segment make a line.
        fields: Such as `Extraction.fields`.

    Raises:
        InputError: The document is not a Document, or a plain text, which has no boxes.

    Example:
        >>> document = Document.from_words(["Total"], [(1, 2, 30, 9)], width=90, height=40)
        >>> "title='bbox 1 2 30 9'>Total</span>" in to_hocr(document)
        True
    """
    document = required(document)
    if document.text is not None:
        raise InputError(
            f"Document '{document.id}' is a plain text; hOCR records where words stand on pages. "
            "Write it as JSON instead."
        )
    with arguments.expecting("What should be fields", "fields such as Extraction.fields"):
        tagged = {
            (item.page, index): (number, item)
            for number, item in enumerate(fields)
            for index in item.word_ids
        }
    body = "\n".join(_page(number, page, tagged) for number, page in enumerate(document.pages))
    return f"{HEAD.format(title=_safe(document.id))}{body}\n</body>\n</html>\n"


def _page(
    number: int, page: Page, tagged: Mapping[tuple[int, int], tuple[int, ViewedField]]
) -> str:
    lines = []
    for segment, group in groupby(enumerate(page.words), key=lambda item: item[1].segment):
        words = list(group)
        marked_up = " ".join(
            _word(number, index, word, tagged.get((number, index))) for index, word in words
        )
        box = _bbox(union(word.box for _, word in words))
        place = f"{number}_{words[0][0]}"
        # Words that nobody put into lines stand in an area, not in a line of our making.
        element = "ocr_carea" if segment is None else "ocr_line"
        tag = "div" if segment is None else "span"
        lines.append(
            f"<{tag} class='{element}' id='{element[4:]}_{place}' title='{box}'>{marked_up}</{tag}>"
        )
    inner = "\n".join(lines)
    size = f"bbox 0 0 {page.width} {page.height}; ppageno {number}"
    return f"<div class='ocr_page' id='page_{number}' title='{size}'>\n{inner}\n</div>"


def _word(page: int, index: int, word: Word, tagged: tuple[int, ViewedField] | None) -> str:
    attributes = ""
    if tagged is not None:
        number, item = tagged
        attributes = (
            f" data-field='{_safe(item.label)}' data-field-number='{number}' "
            f"data-score='{item.score:.4f}'"
        )
    return (
        f"<span class='ocrx_word' id='word_{page}_{index}'{attributes} title='{_bbox(word.box)}'>"
        f"{_safe(word.text)}</span>"
    )


def _bbox(box: Box) -> str:
    return "bbox " + " ".join(str(round(value)) for value in box.to_list())


def _safe(text: str) -> str:
    """Returns text that XML can hold, escaped; what it can't hold becomes a replacement mark."""
    return html.escape(_NOT_XML.sub("\ufffd", text), quote=True)
