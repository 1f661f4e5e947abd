"""Conversion: labelled documents of any corpus as one file of the labelled format."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hushdoc import labelled_files
from hushdoc.arguments import printable
from hushdoc.document.page import Page
from hushdoc.labels import LabelledDocument
from hushdoc.system import atomic_files
from hushdoc_training.data.annotated_pages import NO_IMAGE
from hushdoc_training.data.corpus import Problems
from hushdoc_training.data.summary import Summary

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".pdf")
_MAGIC = ((b"\x89PNG", ".png"), (b"\xff\xd8", ".jpg"), (b"%PDF", ".pdf"), (b"II*\0", ".tif"))

_OUTSIDE = "page whose image is not in the file's folder, left out (--images copies it)"


def convert(
    documents: Iterable[LabelledDocument], out: Path, problems: Problems, *, images: bool
) -> Summary:
    """Writes documents to a new file and returns what they hold; nothing half-written stays.

    Args:
        documents: In their order.
        out: The file; gzipped where it ends in .gz.
        problems: Counts images that are missing or, without `images`, out of the file's reach.
        images: Copies the pages' images into the folder `images_folder(out)`, which must be free.

    Raises:
        OutputExistsError: The file or the folder is there already.
        InputError: A document can't be written; see `labelled_files.write`.
    """
    atomic_files.require_free(out)
    summary = Summary()
    documents = without_missing(documents, problems)
    with contextlib.ExitStack() as undo:
        kept = (
            _copied(documents, images_folder(out), problems, undo)
            if images
            else _reachable(documents, out, problems)
        )
        with contextlib.closing(kept):
            labelled_files.write(out, map(summary.added, kept))
        undo.pop_all()
    return summary


def images_folder(out: Path) -> Path:
    """Returns the folder beside a file that its images are copied into."""
    name = atomic_files.name_of(out)
    return out.with_name(f"{name.removesuffix('.gz').removesuffix('.jsonl')}-images")


def without_missing(
    documents: Iterable[LabelledDocument], problems: Problems
) -> Iterator[LabelledDocument]:
    """Yields documents as they are used: images that are not there are taken away and counted."""
    for labelled in documents:
        pages = labelled.document.pages
        gone = [isinstance(page.image, Path) and not page.image.is_file() for page in pages]
        for page, missing in zip(pages, gone, strict=True):
            if missing:
                problems.add(NO_IMAGE, printable(page.image))
        kept = [
            replace(page, image=None) if missing else page
            for page, missing in zip(pages, gone, strict=True)
        ]
        yield _with_pages(labelled, kept) if any(gone) else labelled


def _reachable(
    documents: Iterable[LabelledDocument], out: Path, problems: Problems
) -> Generator[LabelledDocument, None, None]:
    """Takes away and counts images that are not in a file's folder or below: it can't name them."""
    home = out.parent.resolve()
    for labelled in documents:
        pages = []
        for page in labelled.document.pages:
            image = page.image
            if image is not None and not (
                isinstance(image, Path) and image.resolve().is_relative_to(home)
            ):
                problems.add(_OUTSIDE, labelled.document.id)
                image = None
            pages.append(replace(page, image=image))
        yield _with_pages(labelled, pages)


def _copied(
    documents: Iterable[LabelledDocument],
    folder: Path,
    problems: Problems,
    undo: contextlib.ExitStack,
) -> Generator[LabelledDocument, None, None]:
    """Copies images into a new folder as documents pass; it appears after the last one.

    What takes it away again, if the file can't be written then, is added to `undo`.
    """
    names: dict[Path, str] = {}
    count = 0
    with atomic_files.new_folder(folder) as partial:
        for labelled in documents:
            pages: list[Page] = []
            for page in labelled.document.pages:
                image = page.image
                name = names.get(image) if isinstance(image, Path) else None
                if image is not None and name is None:
                    name = f"{count:06d}{_suffix(image)}"
                    if isinstance(image, bytes):
                        (partial / name).write_bytes(image)
                    else:
                        shutil.copyfile(image, partial / name)
                        names[image] = name
                    count += 1
                pages.append(replace(page, image=None if name is None else folder / name))
            yield _with_pages(labelled, pages)
    undo.callback(shutil.rmtree, folder, ignore_errors=True)


def _with_pages(labelled: LabelledDocument, pages: Sequence[Page]) -> LabelledDocument:
    return replace(labelled, document=replace(labelled.document, pages=tuple(pages)))


def _suffix(image: Path | bytes) -> str:
    if isinstance(image, Path):
        suffix = image.suffix.lower()
        return suffix if suffix in _SUFFIXES else ""
    return next((suffix for magic, suffix in _MAGIC if image.startswith(magic)), "")
