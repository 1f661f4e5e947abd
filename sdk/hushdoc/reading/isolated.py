"""Reading and drawing in a reader process: what it is asked, and how its answers are checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from hushdoc import arguments, errors
from hushdoc.arguments import MalformedError
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import Page
from hushdoc.document.provenance import FileFingerprint
from hushdoc.errors import HushdocError, MissingExtraError, UnsupportedFormatError
from hushdoc.reading import files, reader_process
from hushdoc.reading.files import File
from hushdoc.reading.ocr import Reader

if TYPE_CHECKING:
    from PIL import Image

MAX_NOTES = 10
"""A file has two warnings at most."""

_CODE = re.compile(r"[A-Z_]{1,40}")


def read(
    file: File, *, format: str, id: str, password: str | None, limits: ReadingLimits, reader: Reader
) -> tuple[Document, tuple[str, ...]]:
    """Returns the document in a file, and what to warn of; images are read here, by `reader`."""

    def answer(found: Mapping[str, Any], pixels: bytes) -> dict[str, Any]:
        try:
            words = reader.read(_image(found["drawn"], pixels, limits))
        except MissingExtraError as error:  # no more than a warning where other pages have words
            return {"missing": [error.package, error.extra]}
        rows = [[word.text, word.box.to_list(), word.segment] for word in words]
        return {"words": rows, "label": reader.label}

    question = {
        "do": "read",
        "format": format,
        "id": id,
        "path": None if file.path is None else str(file.path.absolute()),
        "every_page": reader.every_page,
        "forbidden": reader.forbidden,
    }
    with _checked(file.name):
        found, copy = _ask(question, file, password, limits, answer)
        folder = None if file.path is None else file.path.parent
        document = Document.from_dict(found["document"], folder=folder)
        own = _own_file(found["image"], file, copy)
        pages = tuple(
            replace(page, limits=limits, reader="process", **own)
            if own or page.image is not None
            else page
            for page in document.pages
        )
        notes = tuple(arguments.printable(note) for note in found["notes"][:MAX_NOTES])
        return replace(document, pages=pages), notes


def pages(file: File, *, password: str | None, limits: ReadingLimits) -> Document:
    """Returns the pages of a file without their words."""
    with _checked(file.name):
        found, copy = _ask({"do": "pages"}, file, password, limits)
        own = _own_file(found["image"], file, copy)
        return Document(
            id=file.name,
            pages=tuple(
                Page(
                    width=_number(width, 1),
                    height=_number(height, 1),
                    words=(),
                    frame=_number(frame, 0),
                    limits=limits,
                    reader="process",
                    **own,
                )
                for frame, width, height in found["sizes"][: limits.max_pages]
            ),
        )


def drawn(
    file: File, frame: int, *, size: tuple[int, int], password: str | None, limits: ReadingLimits
) -> Image.Image:
    """Returns a page of a file in RGB and the given size."""
    with _checked(file.name):
        question = {"do": "draw", "frame": frame, "size": size}
        _, pixels = _ask(question, file, password, limits)
        return _image(size, pixels, limits)


def _ask(
    question: Mapping[str, Any],
    file: File,
    password: str | None,
    limits: ReadingLimits,
    answer: reader_process.Answer | None = None,
) -> tuple[dict[str, Any], bytes]:
    common = {"name": file.name, "password": password, "limits": asdict(limits)}
    found, body = reader_process.ask(
        {**question, **common}, file.content, name=file.name, limits=limits, answer=answer
    )
    if "error" in found:
        raise error_from_dict(found["error"])
    return found, body


def _checked(name: str) -> Any:
    """Turns whatever is wrong with an answer into one error."""
    return arguments.reading_as("the answer of a reader process", name)


def _own_file(image: object, file: File, copy: bytes) -> dict[str, Any]:
    """Returns image and fingerprint of the pages of the file itself; none for other documents."""
    if image is None:
        return {}
    if image == "path" and file.path is not None:
        seen: FileFingerprint | None = files.fingerprint(file.content, file.path)
        return {"image": file.path, "fingerprint": seen}
    return {"image": copy if image == "copy" else file.content, "fingerprint": None}


def _image(size: object, pixels: bytes, limits: ReadingLimits) -> Image.Image:
    """Returns an RGB image of pixels that a reader process sent."""
    from PIL import Image

    if not isinstance(size, list | tuple) or len(size) != 2:
        raise MalformedError("the size of an image is no pair")
    width, height = (_number(side, 1) for side in size)
    if width * height > limits.max_pixels or len(pixels) != 3 * width * height:
        raise MalformedError(f"an image of {width} x {height} has {len(pixels)} bytes")
    return Image.frombytes("RGB", (width, height), pixels)


def _number(value: object, least: int) -> int:
    if type(value) is not int or value < least:
        raise MalformedError(f"{arguments.short_repr(value)} is no integer from {least} on")
    return value


def error_to_dict(error: HushdocError) -> dict[str, Any]:
    """Returns the message of an error; its cause stays behind."""
    if isinstance(error, MissingExtraError):
        return {"missing": [error.package, error.extra]}
    return {"class": type(error).__name__, "message": str(error), "code": error.code}


def error_from_dict(data: Mapping[str, Any]) -> HushdocError:
    """Returns the error that `error_to_dict` wrote."""
    if "missing" in data:
        package, extra = (arguments.printable(name, 100) for name in data["missing"])
        return MissingExtraError(package, extra)
    found = getattr(errors, str(data["class"]), None)
    known = isinstance(found, type) and issubclass(found, errors.InputError)
    error: type[HushdocError] = found if known else UnsupportedFormatError  # type: ignore[assignment]
    code = str(data["code"])
    return error(
        arguments.printable(data["message"]),
        code=code if _CODE.fullmatch(code) else None,
    )
