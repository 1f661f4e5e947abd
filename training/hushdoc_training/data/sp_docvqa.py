"""SP-DocVQA (Mathew et al. 2021): questions about single pages of documents in an archive.

Two shapes of its files are read:

- As it is published: a JSON file of questions, each with the image of its page, and beside it
  ocr_results/<image>.json, what Microsoft's OCR read. A page without one is read by the OCR that is
  installed here, and counted.
- As SQuAD is: a JSON list of texts with their questions, without boxes. Such documents are plain
  texts, which a model of pages can't be trained on.

An answer's words are those of the first place where it stands on the page. No provider is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushdoc.arguments import printable, reading_as
from hushdoc.document.document import Document
from hushdoc.document.limits import named_image
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet, Question
from hushdoc.reading.opening import open_document
from hushdoc_training.data import annotated_pages, json_lines
from hushdoc_training.data.annotated_pages import required
from hushdoc_training.data.corpus import Corpus, Problems, recognising

READ_HERE = "page without a file in ocr_results, read by the OCR that is installed"

_KEYS = ((b'"questionId"', b'"image"', b'"docId"'), (b'"qas"', b'"context"'))


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path is such a file, or a folder with one such file."""
    return len(_files(path)) == 1


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the pages, or texts, of a file in the order of their first questions.

    Raises:
        AnnotationError: The file is not of these shapes.
        InputError: An image can't be read.
        EmptyDocumentError: No document has a word.
    """
    files = _files(path)
    if len(files) != 1:
        raise AnnotationError(
            f"'{printable(path)}' holds {len(files)} files of questions; expected one. Name it."
        )
    (file,) = files
    data = annotated_pages.parsed(json_lines.content(file), str(file))
    with reading_as("SP-DocVQA", str(file), error=AnnotationError):
        entries = required(data["data"] if isinstance(data, dict) else data, list, what="the file")
        if entries and "qas" in entries[0]:
            yield from annotated_pages.some(_texts(entries, problems), path)
        else:
            yield from annotated_pages.some(_pages(entries, file.parent, problems), path)


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    heads = ((file, json_lines.head(file)) for file in files)
    return [file for file, head in heads if any(all(k in head for k in keys) for keys in _KEYS)]


def _texts(entries: Sequence[Any], problems: Problems) -> Iterator[LabelledDocument]:
    for number, entry in enumerate(entries):
        asked = [
            _question(one, [answer["text"] for answer in one["answers"]], "id", None, problems)
            for one in required(entry["qas"], list, what="'qas'")
        ]
        text = required(entry["context"], str, what="'context'")
        yield LabelledDocument(
            document=Document.from_text(text, id=f"text-{number:05d}"),
            spans=(),
            questions=tuple(one for one in asked if one is not None),
        )


def _pages(entries: Sequence[Any], folder: Path, problems: Problems) -> Iterator[LabelledDocument]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        name = annotated_pages.name(entry["image"], where="name of an image")
        groups.setdefault(name, []).append(entry)
    for name, asked in groups.items():
        image = named_image(name, folder)
        assert image is not None
        page = _page(image, folder, problems)
        document = annotated_pages.document(image.stem, [page], where=name, problems=problems)
        found = [
            _question(one, one.get("answers", []), "questionId", page, problems) for one in asked
        ]
        if document is not None:
            kept = tuple(one for one in found if one is not None)
            yield LabelledDocument(document=document, spans=(), questions=kept)


def _page(image: Path, folder: Path, problems: Problems) -> Page:
    """Returns a page's words from ocr_results, else from its image."""
    read = folder / "ocr_results" / f"{image.stem}.json"
    if not read.is_file():
        problems.add(READ_HERE, printable(image.name))
        (page,) = open_document(image).pages
        return page
    (page,) = open_document(read, format="azure-read").pages
    there = annotated_pages.fitting_image(
        image if image.is_file() else None,
        (page.width, page.height),
        where=printable(image.name),
        problems=problems,
    )
    return replace(page, image=there)


def _question(
    entry: Mapping[str, Any], answers: Sequence[str], id: str, page: Page | None, problems: Problems
) -> Question | None:
    name = str(entry[id])
    return annotated_pages.question(entry, answers, page, id=name, where=name, problems=problems)


CORPUS = Corpus(
    name="spdocvqa",
    title="SP-DocVQA (Mathew et al. 2021): questions about pages",
    labels=LabelSet(fields=()),
    documents={},
    expected='a JSON file with "questionId", "docId" and "image", or of texts with "qas"',
    recognises=recognises,
    read=read,
)
