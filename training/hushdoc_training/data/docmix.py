"""docmix: gray pages of nine classes out of six public data sets, with boxes of their lines.

train.jsonl.gz       {"file", "class", "source", "size", "boxes_1000"} a line, boxes in thousandths
train_images.zip     the files, <class>/<name>.webp

Any other part lies beside it in two files of its name.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from hushdoc.arguments import printable, reading_as, short_repr
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.page import BOX_SCALE, Box
from hushdoc.errors import AnnotationError, BoxError
from hushdoc_training.data import annotated_pages, json_lines
from hushdoc_training.data.corpus import Problems
from hushdoc_training.data.image_documents import ImageCorpus, ImageDocument, of_file

NOT_LISTED = "image that no line names, left out"

_LINES, _IMAGES = ".jsonl.gz", "_images.zip"


def recognises(path: Path) -> bool:
    """Returns whether a folder holds a part of docmix; it reads names alone."""
    return bool(_parts(path))


def read(path: Path, problems: Problems) -> Iterator[ImageDocument]:
    """Yields the pages of all parts, sorted by name.

    Raises:
        AnnotationError: A line is malformed, names a file that is missing, or gives a page another
            class than its folder does; or a file is damaged.
        BoxError: A box of a line lies off its page.
    """
    for part in _parts(path):
        entries = json_lines.by_name(path / f"{part}{_LINES}", _name)
        images = path / f"{part}{_IMAGES}"
        with (
            reading_as("an archive of images", str(images), error=AnnotationError),
            zipfile.ZipFile(images) as archive,
        ):
            for name, where, entry in entries:
                with reading_as("a page of docmix", where, error=AnnotationError):
                    found = _page(name, where, entry, archive, part, problems)
                if found is not None:
                    yield found
            listed = {entry["file"] for _, _, entry in entries}
            for file in sorted(set(archive.namelist()) - listed):
                if not file.endswith("/"):
                    problems.add(NOT_LISTED, printable(file))


def _parts(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    names = (file.name.removesuffix(_LINES) for file in sorted(path.glob(f"*{_LINES}")))
    return [name for name in names if (path / f"{name}{_IMAGES}").is_file()]


def _name(entry: Mapping[str, Any], where: str) -> str:
    return annotated_pages.name(entry.get("file"), where=f"file in '{where}'")


def _page(
    name: str,
    where: str,
    entry: Mapping[str, Any],
    archive: zipfile.ZipFile,
    part: str,
    problems: Problems,
) -> ImageDocument | None:
    label = annotated_pages.name(entry["class"], where=f"class in '{where}'")
    if PurePosixPath(name).parent.name != label:
        raise AnnotationError(
            f"'{printable(where)}' says that {short_repr(name)} is of the class "
            f"{short_repr(label)}, and its folder names another one. Correct the line, or move the "
            "image."
        )
    width, height = entry["size"]
    size = annotated_pages.page_size(width, height, where=where)
    made = of_file(
        _content(archive, name, where),
        id=str(PurePosixPath(name).with_suffix("")),
        label=label,
        lines=[[_box(corners, size, where) for corners in entry["boxes_1000"]]],
        source=annotated_pages.name(entry["source"], where=f"source in '{where}'"),
        part=part,
        problems=problems,
    )
    if made is not None and [(page.width, page.height) for page in made.pages] != [size]:
        raise AnnotationError(
            f"'{printable(where)}' gives {short_repr(name)} {size[0]} x {size[1]} pixels, and it "
            "has others; boxes would lie elsewhere. Restore both files from the data set."
        )
    return made


def _content(archive: zipfile.ZipFile, name: str, where: str) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise AnnotationError(
            f"'{printable(where)}' names {short_repr(name)}, which is not in the archive "
            f"'{printable(archive.filename)}'. Restore both files from the data set."
        ) from None
    most = ReadingLimits().max_bytes
    if info.file_size > most:
        raise AnnotationError(
            f"{short_repr(name)} in '{printable(archive.filename)}' unpacks to {info.file_size} "
            f"bytes; at most {most} are read. Restore the archive from the data set."
        )
    return archive.read(info)


def _box(corners: Any, size: tuple[int, int], where: str) -> Box:
    """Returns a box in pixels, which has to lie on its page."""
    x0, y0, x1, y1 = corners
    width, height = (side / BOX_SCALE for side in size)
    box = Box(x0=x0 * width, y0=y0 * height, x1=x1 * width, y1=y1 * height)
    if problem := box.problem(width=size[0], height=size[1]):
        raise BoxError(
            f"A box of '{printable(where)}' {problem}. Restore the line from the data set."
        )
    return box


CORPUS = ImageCorpus(
    name="docmix",
    title="docmix, pages of nine classes",
    expected="train.jsonl.gz and train_images.zip",
    recognises=recognises,
    read=read,
)
