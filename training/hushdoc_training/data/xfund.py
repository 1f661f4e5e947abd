"""XFUND (Xu et al. 2022): forms in seven languages, read from the original files.

`<language>.<split>.json` holds a list of documents; their images lie beside it or in a folder of
its name without the ending, and are not needed. Words of Chinese and Japanese are characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hushdoc.arguments import reading_as
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import annotated_pages
from hushdoc_training.data.corpus import Corpus, Problems, recognising
from hushdoc_training.data.form_entities import LABELS, labelled_form

LANGUAGES = ("de", "es", "fr", "it", "ja", "pt", "zh")
WITHOUT_SPACES = ("ja", "zh")
"""Languages whose words no space parts, and whose words here are characters."""

_NAME = re.compile(rf"({'|'.join(LANGUAGES)})\.(train|val|test)\.json")


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the forms of a file, or of all training files of a folder, sorted by name."""
    files = [path] if path.is_file() else _training_files(path)
    if not files:
        raise AnnotationError(
            f"'{path}' holds no file such as de.train.json, so it is not XFUND. Give one of its "
            "files, or the folder that holds them."
        )
    yield from annotated_pages.some(
        (form for file in files for form in _read_file(file, problems)), path
    )


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path is an XFUND file, by name or first bytes, or a folder of some."""
    if not path.is_file():
        return bool(_training_files(path))
    if path.suffix != ".json":
        return False
    head = annotated_pages.head(path)
    return _NAME.fullmatch(path.name) is not None or (
        b'"documents"' in head and b'"document"' in head
    )


def _training_files(path: Path) -> list[Path]:
    found = [path / f"{language}.train.json" for language in LANGUAGES]
    return [file for file in found if file.is_file()]


def _read_file(path: Path, problems: Problems) -> list[LabelledDocument | None]:
    with reading_as("an XFUND file", str(path), error=AnnotationError):
        data = annotated_pages.load(path)
        if not isinstance(data, dict) or not isinstance(data.get("documents"), list):
            raise AnnotationError(
                f"'{path}' has no list 'documents'; expected an XFUND file such as de.train.json. "
                "For FUNSD give the folder that holds annotations/."
            )
        between = "" if data.get("lang") in WITHOUT_SPACES else " "
        found = [
            _form(path, entry, f"{path.name}, document {number}", between, problems)
            for number, entry in enumerate(data["documents"])
        ]
    return sorted(found, key=lambda form: "" if form is None else form.document.id)


def _form(
    path: Path, entry: Any, where: str, between: str, problems: Problems
) -> LabelledDocument | None:
    with reading_as("a form of XFUND", where, error=AnnotationError):
        identity = annotated_pages.name(entry["id"], where=f"id of '{where}'")
        shown, items = (
            entry["img"],
            annotated_pages.required(entry["document"], list, what="'document'"),
        )
        size = annotated_pages.page_size(shown["width"], shown["height"], where=where)
        image = _image(path, shown.get("fname", f"{identity}.jpg"))
        return labelled_form(
            identity,
            items,
            size,
            annotated_pages.fitting_image(image, size, where=identity, problems=problems),
            where=f"{path.name}, {identity}",
            problems=problems,
            between=between,
        )


def _image(path: Path, name: object) -> Path | None:
    """Returns where the image of a form lies; a name says no folder."""
    file = Path(annotated_pages.required(name, str, what="'fname'")).name
    places = (path.parent / file, path.with_suffix("") / file)
    return next((place for place in places if place.is_file()), None)


CORPUS = Corpus(
    name="xfund",
    title="XFUND (Xu et al. 2022): forms in German, Spanish, French, Italian, Japanese, Portuguese "
    "and Chinese",
    labels=LABELS,
    documents={"train": 149, "val": 50},  # of each language
    expected="a file such as de.train.json, or a folder of them",
    recognises=recognises,
    read=read,
)
