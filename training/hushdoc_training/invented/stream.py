"""The stream of invented documents, with random access to any of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count as counted

from PIL import Image

from hushdoc.labels import LabelledDocument
from hushdoc_training.invented import drawing, planning
from hushdoc_training.invented.settings import InventedConfig

_DEFAULT = InventedConfig()


def document(*, seed: int, index: int, config: InventedConfig = _DEFAULT) -> LabelledDocument:
    """Returns the document with this number; the same numbers give the same document for ever.

    Args:
        seed: Names a whole stream.
        index: The document's place in it.
        config: What to invent.

    Raises:
        ValueError: Seed or index is negative.

    Example:
        >>> document(seed=1, index=5).document.id == document(seed=1, index=5).document.id
        True
    """
    return planning.labelled(planning.plan(seed=seed, index=index, config=config), config.labels)


def documents(
    *, seed: int, start: int = 0, count: int | None = None, config: InventedConfig = _DEFAULT
) -> Iterator[LabelledDocument]:
    """Yields one document after the other in constant memory.

    Args:
        seed: Names the stream.
        start: The first document's place in it.
        count: How many; None for no end.
        config: What to invent.
    """
    places = counted(start) if count is None else range(start, start + count)
    for index in places:
        yield document(seed=seed, index=index, config=config)


def image(
    *, seed: int, index: int, config: InventedConfig = _DEFAULT, page: int = 0
) -> Image.Image:
    """Returns the image of a page that `document` describes; its boxes fit this image."""
    return drawing.draw(planning.plan(seed=seed, index=index, config=config).pages[page])
