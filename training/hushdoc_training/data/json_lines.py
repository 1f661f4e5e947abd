"""Lines of JSON: one object a line, as corpora of receipts are published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hushdoc.errors import AnnotationError
from hushdoc_training.data import annotated_pages

HEAD = 64 * 1024
"""Bytes of a file that are read to tell what it holds."""


def head(path: Path) -> bytes:
    """Returns the start of a file."""
    with path.open("rb") as file:
        return file.read(HEAD)


def read(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the object of each line that is not empty, with its place for messages.

    Raises:
        AnnotationError: The file can't be read, a line is no JSON object, or all are empty.
    """
    found = False
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        found = True
        where = f"{path}, line {number}"
        entry = annotated_pages.parsed(line, where)
        if not isinstance(entry, dict):
            raise AnnotationError(
                f"There is {type(entry).__name__} in '{where}'; expected a JSON object. Restore "
                "the file from the data set."
            )
        yield where, entry
    if not found:
        raise AnnotationError(
            f"'{path}' is empty; expected one JSON object a line. Restore the file from the data "
            "set."
        )
