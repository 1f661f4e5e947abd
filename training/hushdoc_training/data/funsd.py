"""FUNSD (Jaume et al. 2019), read from the original files.

`annotations/<id>.json` beside `images/<id>.png`, in `training_data` and `testing_data`. Boxes are
in the pixels of the image, so it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hushdoc.arguments import reading_as
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import annotated_pages
from hushdoc_training.data.corpus import Corpus, Problems, recognising
from hushdoc_training.data.form_entities import LABELS, labelled_form


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the forms of a folder, sorted by name.

    It has `annotations/` itself, or in `training_data/`, or else in `testing_data/`.
    """
    folder = _folder(path)
    if folder is None:
        raise AnnotationError(
            f"'{path}' has no folder 'annotations', so it is not a FUNSD data set. Give the folder "
            "that holds annotations/ and images/."
        )
    names = sorted((folder / "annotations").glob("*.json"))
    if not names:
        raise AnnotationError(
            f"'{folder / 'annotations'}' holds no .json file; expected one for each form. Unpack "
            "the data set again."
        )
    yield from annotated_pages.some((_read_form(name, problems) for name in names), path)


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path holds a folder of annotations, and the first of them a form."""
    folder = _folder(path)
    names = [] if folder is None else sorted((folder / "annotations").glob("*.json"))[:1]
    return any(b'"form"' in annotated_pages.head(name) for name in names)


def _folder(path: Path) -> Path | None:
    for folder in (path, path / "training_data", path / "testing_data"):
        if (folder / "annotations").is_dir():
            return folder
    return None


def _read_form(annotation: Path, problems: Problems) -> LabelledDocument | None:
    with reading_as("an annotation of FUNSD", str(annotation), error=AnnotationError):
        form = annotated_pages.load(annotation)
        if not isinstance(form, dict) or not isinstance(form.get("form"), list):
            raise AnnotationError(
                f"'{annotation}' has no list 'form'; expected FUNSD's "
                '{"form": [{"box", "text", "label", "words", "linking", "id"}]}. '
                "Restore the file from the data set."
            )
        image = annotation.parent.parent / "images" / f"{annotation.stem}.png"
        return labelled_form(
            annotation.stem,
            form["form"],
            annotated_pages.image_size(image, of=annotation.name),
            image,
            where=annotation.name,
            problems=problems,
        )


CORPUS = Corpus(
    name="funsd",
    title="FUNSD (Jaume et al. 2019): forms in English",
    labels=LABELS,
    documents={"training_data": 149, "testing_data": 50},
    expected="a folder with annotations/<id>.json and images/<id>.png",
    recognises=recognises,
    read=read,
)
