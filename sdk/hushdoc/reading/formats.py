"""The format of a file, recognised by its content and never by its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hushdoc import arguments
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.errors import UnsupportedFormatError
from hushdoc.reading import markup
from hushdoc.reading.adapters.azure_read import from_azure_read
from hushdoc.reading.adapters.docling import from_docling
from hushdoc.reading.adapters.doctr import from_doctr
from hushdoc.reading.adapters.document_ai import from_document_ai
from hushdoc.reading.adapters.hocr import PAGE, from_hocr
from hushdoc.reading.adapters.tesseract_tsv import from_tesseract_tsv
from hushdoc.reading.adapters.textract import from_textract
from hushdoc.reading.pdf import is_pdf
from hushdoc.reading.rapidocr import from_rapidocr
from hushdoc.reading.text import decoded

ADAPTERS: Mapping[str, Callable[..., Document]] = {
    "azure-read": from_azure_read,
    "docling": from_docling,
    "doctr": from_doctr,
    "document-ai": from_document_ai,
    "rapidocr": from_rapidocr,
    "textract": from_textract,
}
"""Readers of JSON."""

MARKUP: Mapping[str, Callable[..., Document]] = {
    "hocr": from_hocr,
    "tesseract-tsv": from_tesseract_tsv,
}
"""Readers of text with a form of its own."""

_IMAGE_MARKS = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"II*\x00",
    b"MM\x00*",
    b"II+\x00",
    b"MM\x00+",
    b"GIF87a",
    b"GIF89a",
)
_MORE = "Extra data"  # what Python says where a value of JSON is followed by another
_EPS_MARK = b"\xc5\xd0\xd3\xc6"
"""What EPS files begin with that carry a preview."""

_TSV_HEAD = "level\tpage_num\t"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recognised:
    """The recognised format of a file, never "auto", with what was decoded on the way."""

    format: str
    text: str = field(default="", repr=False)
    data: Any = field(default=None, repr=False)


def recognised(content: bytes, *, format: str, id: str) -> Recognised:
    """Returns the format of a file; `id` is the document's, and one in ".json" announces JSON."""
    if format == "auto":
        binary = _binary_format(content)
        if binary is not None:
            return Recognised(format=binary)
        if content.startswith(_EPS_MARK):
            raise UnsupportedFormatError(
                f"'{id}' is PostScript with a preview, which is not read. Convert it to PDF."
            )
    elif format in ("pdf", "image"):
        return Recognised(format=format)
    text = decoded(content, id=id)
    if format == "text" or format in MARKUP:
        return Recognised(format=format, text=text)
    if format != "auto":
        return Recognised(format=format, data=_json(text, id))
    return _by_text(text, id)


def _binary_format(content: bytes) -> str | None:
    if is_pdf(content):
        return "pdf"
    if content.startswith(_IMAGE_MARKS):
        return "image"
    # Two characters alone would not suffice: a text may begin with them.
    if content.startswith(b"BM") and content[6:10] == bytes(4):
        return "image"
    return "image" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def _by_text(text: str, id: str) -> Recognised:
    start = text.lstrip()[:4096]
    if start.startswith(_TSV_HEAD):
        return Recognised(format="tesseract-tsv", text=text)
    if start.startswith("<") and PAGE in text:
        return Recognised(format="hocr", text=text)
    kind = markup.kind(text)
    if kind is not None:
        raise UnsupportedFormatError(
            f"'{id}' is {kind}, whose marks would be read as words. Convert it to PDF, an image "
            'or plain text; pass format="text" to read it as it stands.'
        )
    if start.startswith(("{", "[")) or id.endswith(".json"):
        try:
            data = _json(text, id)
        except UnsupportedFormatError:
            if not start.startswith("["):
                raise
            # A text may well begin with a bracket: "[Letterhead]".
            if id.endswith(".json"):
                raise
            return Recognised(format="text", text=text)
        return Recognised(format=_json_format(data, id), data=data)
    return Recognised(format="text", text=text)


def _json(text: str, id: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.lineno > 1 and error.msg == _MORE:
            raise UnsupportedFormatError(
                f"'{id}' holds several values of JSON, one after another, and a document is one. "
                "Give one document a file; labelled ones are scored by 'hushdoc evaluate'."
            ) from error
        raise UnsupportedFormatError(
            f"'{id}' is not JSON: {_where(error)}. Expected what Document.to_dict() or one of "
            'the services wrote; pass format="text" for a plain text.'
        ) from error


def _where(error: ValueError | RecursionError) -> str:
    """Returns where a text stops being JSON, without a word of it."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    deep = isinstance(error, RecursionError)
    return "it is too deep" if deep else "a number in it has too many digits"


def _json_format(data: Any, id: str) -> str:
    """Returns whose output a JSON value is, by the keys that only one of them writes."""
    while isinstance(data, Mapping) and isinstance(data.get("document"), Mapping):
        data = data["document"]
    if isinstance(data, list):
        return _list_format(data[0] if data and isinstance(data[0], Mapping) else {})
    if isinstance(data, Mapping):
        for name, mark in _KEYS:
            if mark in data:
                return name
        if "pages" in data:
            return _by_pages(data["pages"], data)
        if "dimensions" in data:
            return "doctr"
        if "id" in data:
            return "document"
    keys = arguments.short_repr([str(key) for key in data]) if isinstance(data, Mapping) else "none"
    raise UnsupportedFormatError(
        f"'{id}' is JSON of no known form; its keys: {keys}. Expected what Document.to_dict() or "
        f"one of the services wrote; name its format if it is one of {', '.join(ADAPTERS)}."
    )


_KEYS = (
    ("textract", "Blocks"),
    ("textract", "ExpenseDocuments"),
    ("textract", "IdentityDocuments"),
    ("textract", "JobStatus"),
    ("docling", "schema_name"),
    ("docling", "json_content"),
    ("azure-read", "analyzeResult"),
    ("azure-read", "analyze_result"),
    ("azure-read", "readResults"),
    ("azure-read", "read_results"),
    ("azure-read", "readResult"),
    ("azure-read", "recognitionResults"),
    ("azure-read", "createdDateTime"),
    ("document-ai", "documentLayout"),
    ("document-ai", "document_layout"),
)
_DOCUMENT_AI_KEYS = frozenset(
    ("text", "mimeType", "mime_type", "shardInfo", "shard_info", "entities")
)


def _list_format(first: Mapping[str, Any]) -> str:
    """Returns whose output a list is that begins with this object."""
    if any(mark in first for name, mark in _KEYS if name == "textract"):
        return "textract"
    if "box" in first and "txt" in first:
        return "rapidocr"
    if "dimensions" in first:
        return "doctr"
    if "text_angle" in first:
        return "azure-read"
    return "document-ai" if "pages" in first and "id" not in first else "document"


def _by_pages(pages: Any, data: Mapping[str, Any]) -> str:
    """Returns whose pages these are."""
    first = pages[0] if isinstance(pages, list) and pages else None
    if not isinstance(first, Mapping) or "id" in data:
        return "document"
    if "dimensions" in first and ("blocks" in first or "predictions" in first):
        return "doctr"
    if "apiVersion" in data or "api_version" in data or "text_angle" in first:
        return "azure-read"
    if "unit" in first and ("pageNumber" in first or "page_number" in first):
        return "azure-read"
    return "document-ai" if _DOCUMENT_AI_KEYS & data.keys() else "document"


def read_adapted(found: Recognised, *, id: str, limits: ReadingLimits) -> Document:
    """Returns the document in the output of another program."""
    if found.format in MARKUP:
        return MARKUP[found.format](found.text, id=id, limits=limits)
    return ADAPTERS[found.format](found.data, id=id, limits=limits)
