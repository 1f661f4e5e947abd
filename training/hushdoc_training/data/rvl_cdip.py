"""RVL-CDIP (Harley et al. 2015): scanned pages of sixteen classes.

images/imagesa/a/a/a/aaa06d00/50486482-6482.tif     a page
labels/train.txt, val.txt, test.txt                 its path below images/ and its class, 0 to 15

Each list is a published part. One image of the published archive is damaged: it is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import AnnotationError
from hushdoc_training.data.corpus import Problems
from hushdoc_training.data.image_documents import ImageCorpus, ImageDocument, of_file

CLASSES = (
    "letter",
    "form",
    "email",
    "handwritten",
    "advertisement",
    "scientific report",
    "scientific publication",
    "specification",
    "file folder",
    "news article",
    "budget",
    "invoice",
    "presentation",
    "questionnaire",
    "resume",
    "memo",
)
"""In the order of their numbers."""

PARTS = ("train", "val", "test")

MISSING = "image that a list names and the folder lacks, left out"


def recognises(path: Path) -> bool:
    """Returns whether a folder holds images/ and at least one list of labels/."""
    return (path / "images").is_dir() and any(map(Path.is_file, _lists(path).values()))


def read(path: Path, problems: Problems) -> Iterator[ImageDocument]:
    """Yields the pages of all lists there are, in their order.

    Raises:
        AnnotationError: A line is malformed, leaves the folder, or a page stands in two lines of
            different classes or parts.
    """
    seen: dict[str, str] = {}
    for part, file in _lists(path).items():
        if not file.is_file():
            continue
        for number, line in enumerate(_text(file).splitlines(), start=1):
            if not line.strip():
                continue
            where = f"{file}, line {number}"
            name, label = _entry(line, where)
            if name in seen:
                raise AnnotationError(
                    f"'{printable(where)}' lists {short_repr(name)}, and so does '{seen[name]}'. "
                    "Restore the lists from the data set."
                )
            seen[name] = where
            image = path / "images" / name
            if not image.is_file():
                problems.add(MISSING, printable(name))
                continue
            made = of_file(image, id=name, label=label, part=part, problems=problems)
            if made is not None:
                yield made


def _lists(path: Path) -> dict[str, Path]:
    return {part: path / "labels" / f"{part}.txt" for part in PARTS}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise AnnotationError(
            f"'{printable(file)}' can't be read: {printable(error, 200)}. Restore the list from "
            "the data set."
        ) from error


def _entry(line: str, where: str) -> tuple[str, str]:
    """Returns the path and the class in a line."""
    name, _, written = line.strip().rpartition(" ")
    path = PurePosixPath(name)
    number = int(written) if written.isascii() and written.isdigit() else len(CLASSES)
    if not name or path.is_absolute() or ".." in path.parts or number >= len(CLASSES):
        raise AnnotationError(
            f"'{printable(where)}' is {short_repr(line)}; expected a path below images/ and a "
            f"class from 0 to {len(CLASSES) - 1}. Restore the list from the data set."
        )
    return name, CLASSES[number]


CORPUS = ImageCorpus(
    name="rvl-cdip",
    title="RVL-CDIP, scanned pages of sixteen classes (Harley et al. 2015)",
    expected="images/ and labels/train.txt",
    recognises=recognises,
    read=read,
)
