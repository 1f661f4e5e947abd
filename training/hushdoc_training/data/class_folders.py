"""A folder of images for each class, as Tobacco3482 (Kumar et al. 2014) is published, or one's own.

Tobacco3482-jpg/ADVE/0000136188.jpg     or the folder around Tobacco3482-jpg

An image file with several pages, a PDF file too, is one document.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hushdoc.arguments import printable
from hushdoc_training.data.corpus import Problems
from hushdoc_training.data.image_documents import ImageCorpus, ImageDocument, of_file

ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".bmp", ".webp", ".pdf")

_TOBACCO_FOLDER = "Tobacco3482-jpg"

OTHER = "file of another format, not read"
EMPTY = "class folder without an image"


def recognises(path: Path) -> bool:
    """Returns whether a folder holds folders with images and no image itself; reads names alone."""
    if not path.is_dir():
        return False
    inside = list(_root(path).iterdir())
    folders = [item for item in inside if item.is_dir()]
    return not any(map(_is_image, inside)) and any(
        _is_image(file) for folder in folders for file in folder.iterdir()
    )


def read(path: Path, problems: Problems) -> Iterator[ImageDocument]:
    """Yields the documents of all folders, sorted by class and name.

    Raises:
        AnnotationError: A folder or file has a name that can't be printed.
    """
    for folder in sorted(_root(path).iterdir()):
        if folder.name.startswith("."):
            continue
        if not folder.is_dir():
            problems.add(OTHER, printable(folder.name))
            continue
        files = sorted(folder.iterdir())
        for file in files:
            name = f"{folder.name}/{file.name}"
            if not _is_image(file):
                problems.add(OTHER, printable(name))
                continue
            made = of_file(file, id=name, label=folder.name, problems=problems)
            if made is not None:
                yield made
        if not any(map(_is_image, files)):
            problems.add(EMPTY, printable(folder.name))


def _root(path: Path) -> Path:
    inner = path / _TOBACCO_FOLDER
    return inner if inner.is_dir() else path


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS and path.is_file()


CORPUS = ImageCorpus(
    name="class-folders",
    title="a folder of images for each class",
    expected="a folder of images for each class",
    recognises=recognises,
    read=read,
)
