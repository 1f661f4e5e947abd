"""Lines of JSON: one object a line, as corpora of receipts are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hushdoc.arguments import short_repr
from hushdoc.errors import AnnotationError
from hushdoc_training.data import annotated_pages


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


def by_name(
    path: Path, name_of: Callable[[Mapping[str, Any], str], str]
) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Returns name, place and object of every line, sorted by name.

    Args:
        path: The file.
        name_of: Returns the name of an object; it is given its place for messages.

    Raises:
        AnnotationError: As by `read`, or two objects have one name.
    """
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for where, entry in read(path):
        name = name_of(entry, where)
        if name in found:
            raise AnnotationError(
                f"The receipt {short_repr(name)} of '{where}' stands in '{found[name][0]}' as "
                "well; expected different names. Remove one of them."
            )
        found[name] = (where, entry)
    return [(name, *found[name]) for name in sorted(found)]
