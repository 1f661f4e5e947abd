"""PFL-DocVQA (Tito et al. 2024): questions about invoices, with the provider of each.

Its files are NumPy arrays of Python objects, imdb_*.npy, which `imdb_arrays.convert` brings into
lines of JSON. They have the same records in the same order, the header first, so that row numbers
of data_points.json name lines: it stands beside them and tells the rows of each provider, of each
client where there are some. A record may name its provider itself.

Rows of one image are one document of one provider, which one of them at least names. Words keep the
order of their OCR; boxes are fractions of the page, in pixels of its image where that is in
images/, else of a square of a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushdoc.arguments import printable, reading_as, short_repr
from hushdoc.document.limits import named_image
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet, Question
from hushdoc_training.data import annotated_pages, json_lines
from hushdoc_training.data.annotated_pages import required
from hushdoc_training.data.corpus import Corpus, Problems, recognising
from hushdoc_training.data.providers import folded

HEADER = "pfl_docvqa_header"
"""The key of a file's first line, whose value is the header of the array."""

DATA_POINTS = "data_points.json"
SIDE = 1000
"""Pixels of a page without an image."""

NO_PROVIDER = "document without a provider"

_Row = tuple[str, Mapping[str, Any], str | None]
"""A row's place for messages, its record, and the provider that data_points.json says."""


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path is a converted file, or a folder with one alone."""
    return len(_files(path)) == 1


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the documents of a file in the order of their first rows.

    Raises:
        AnnotationError: A row is not of this format, or data_points.json names rows that are not
            there, or a row or the rows of one image are of two providers.
        EmptyDocumentError: No document has a word.
    """
    files = _files(path)
    if len(files) != 1:
        raise AnnotationError(
            f"'{printable(path)}' holds {len(files)} converted files of PFL-DocVQA; expected one. "
            "Name it."
        )
    (file,) = files
    _, *rows = json_lines.read(file)
    known = _providers(file.parent / DATA_POINTS, len(rows))
    groups: dict[str, list[_Row]] = {}
    for number, (where, record) in enumerate(rows, start=1):
        name = annotated_pages.name(record.get("image_name"), where=f"image_name in '{where}'")
        groups.setdefault(name, []).append((where, record, known.get(number)))
    yield from annotated_pages.some(
        (_document(name, group, file.parent, problems) for name, group in groups.items()), path
    )


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.jsonl*")) if path.is_dir() else [path]
    marked = f'"{HEADER}"'.encode()
    return [file for file in files if marked in json_lines.head(file)[:HEAD]]


HEAD = 4096
"""Bytes in which a converted file says what it is."""


def _providers(path: Path, rows: int) -> dict[int, str]:
    """Returns the provider of each row that data_points.json names."""
    if not path.is_file():
        return {}
    with reading_as("data_points.json", str(path), error=AnnotationError):
        data = required(annotated_pages.load(path), dict, what="the file")
        nested = all(isinstance(value, dict) for value in data.values())
        found: dict[int, str] = {}
        for part in data.values() if nested else [data]:
            for provider, numbers in part.items():
                name = annotated_pages.name(provider, where=f"provider in '{path}'")
                for number in required(numbers, list, what=f"the rows of {name}"):
                    if not 0 < required(number, int, what="a row") <= rows:
                        raise AnnotationError(
                            f"'{printable(path)}' gives {short_repr(name)} the row {number} of "
                            f"{rows}. It is of another file; take the one of this part."
                        )
                    if found.setdefault(number, name) != name:
                        raise AnnotationError(
                            f"'{printable(path)}' gives the row {number} to "
                            f"{short_repr(found[number])} and to {short_repr(name)}; a row has one "
                            "provider. Restore the file from the data set."
                        )
        return found


def _document(
    name: str, rows: Sequence[_Row], folder: Path, problems: Problems
) -> LabelledDocument | None:
    where, first, _ = rows[0]
    with reading_as("a row of PFL-DocVQA", where, error=AnnotationError):
        page = _page(name, first, folder, where, problems)
        document = annotated_pages.document(name, [page], where=where, problems=problems)
        if document is None:
            return None
        provider = _provider(rows)
        if provider is None:
            problems.add(NO_PROVIDER, name)
        asked = [_question(record, place, page, problems) for place, record, _ in rows]
        return LabelledDocument(
            document=document,
            spans=(),
            questions=tuple(one for one in asked if one is not None),
            provider=provider,
            document_type="invoice",
        )


def _page(
    name: str, record: Mapping[str, Any], folder: Path, where: str, problems: Problems
) -> Page:
    image = named_image(f"images/{name}.jpg", folder)
    image = image if image is not None and image.is_file() else None
    size = (SIDE, SIDE) if image is None else annotated_pages.image_size(image, of=where)
    tokens = required(record["ocr_tokens"], list, what="'ocr_tokens'")
    boxes = required(record["ocr_normalized_boxes"], list, what="'ocr_normalized_boxes'")
    words = [
        annotated_pages.word(
            text,
            [share * side for share, side in zip(box, size * 2, strict=True)],
            size=size,
            segment=None,
            where=where,
            problems=problems,
        )
        for text, box in zip(tokens, boxes, strict=True)
    ]
    kept = tuple(word for word in words if word is not None)
    return Page(width=size[0], height=size[1], words=kept, image=image)


def _provider(rows: Sequence[_Row]) -> str | None:
    """Returns the one provider that rows of an image name; a second one would share its record."""
    found: dict[str, str] = {}
    for where, record, known in rows:
        own = record.get("provider")
        name = known if own is None else annotated_pages.name(own, where=f"provider in '{where}'")
        if name is not None:
            found.setdefault(folded(name), name)
        if len(found) > 1:
            first, other = map(short_repr, found.values())
            raise AnnotationError(
                f"{printable(where)} is of {other}, and another row of its image is of {first}. "
                "Expected one provider of a document, as all of one provider are protected "
                "together. Restore data_points.json or the rows from the data set."
            )
    return next(iter(found.values()), None)


def _question(
    record: Mapping[str, Any], where: str, page: Page, problems: Problems
) -> Question | None:
    given = record.get("answers", record.get("answer", []))
    listed = [given] if isinstance(given, str) else required(given, list, what="'answers'")
    name = record.get("question_id")
    id = None if name is None else str(name)
    return annotated_pages.question(record, listed, page, id=id, where=where, problems=problems)


CORPUS = Corpus(
    name="pfldocvqa",
    title="PFL-DocVQA (Tito et al. 2024): questions about invoices and their providers",
    labels=LabelSet(fields=()),
    documents={},
    expected="lines of JSON that `hushdoc data convert-imdb` wrote",
    recognises=recognises,
    read=read,
)
