"""Storage: invented documents as files, one of the labelled format each, and a PNG a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hushdoc import labelled_files
from hushdoc.labels import LabelledDocument
from hushdoc.system import atomic_files
from hushdoc.viewing.rendition import as_png
from hushdoc_training.invented import drawing, planning
from hushdoc_training.invented.settings import InventedConfig

_DEFAULT = InventedConfig()

COMPRESSION = 3
"""Level of PNG files: grain hardly shrinks, for which the usual 6 takes several times as long."""


def write(
    folder: Path,
    *,
    seed: int,
    count: int,
    start: int = 0,
    config: InventedConfig = _DEFAULT,
    images: bool = True,
    seen: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Writes documents into a new folder and returns the paths of their labelled files.

    Args:
        folder: The folder to write; it must not exist or must be empty.
        seed: Names the stream.
        count: How many documents.
        start: The first one's place in the stream.
        config: What to invent.
        images: Whether to write the image of each page beside its JSON.
        seen: Is told after each document how many are written, of how many.

    Raises:
        OutputExistsError: The folder is not empty.
        OutputWriteError: The disk is full or not writable; no partial folder remains.
    """
    names: list[str] = []
    with atomic_files.new_folder(folder) as beside:
        for index in range(start, start + count):
            plan = planning.plan(seed=seed, index=index, config=config)
            labelled = planning.labelled(plan, config.labels)
            if images:
                labelled = _with_images(labelled, _images(plan, beside))
            names.append(f"{plan.id}.json")
            line = labelled_files.dumps(labelled, folder=beside)
            (beside / names[-1]).write_bytes(line.encode("utf-8"))
            seen(len(names), count)
    return [folder / name for name in names]


def png(plan: planning.Plan) -> bytes:
    """Returns the page's image as the bytes of a PNG file."""
    return as_png(drawing.draw(plan), compress_level=COMPRESSION)


def _images(plan: planning.Plan, folder: Path) -> list[Path]:
    """Writes the image of each page and returns the files, which are numbered if there are some."""
    pages = plan.pages
    names = [f"{plan.id}-{number}.png" for number in range(len(pages))]
    files = [folder / name for name in (names if len(pages) > 1 else [f"{plan.id}.png"])]
    for page, file in zip(pages, files, strict=True):
        file.write_bytes(png(page))
    return files


def _with_images(labelled: LabelledDocument, images: list[Path]) -> LabelledDocument:
    pages = tuple(
        replace(page, image=image)
        for page, image in zip(labelled.document.pages, images, strict=True)
    )
    return replace(labelled, document=replace(labelled.document, pages=pages))
