"""Lines of JSON: one object a line, plain or gzipped, as corpora are published."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import AnnotationError, LimitExceededError
from hushdoc.system import atomic_files
from hushdoc_training.data import annotated_pages

_GZIP = b"\x1f\x8b"


MAX_BYTES = 2 * 2**30
"""A file is never larger (bytes, unpacked)."""


def head(path: Path) -> bytes:
    """Returns the start of a file, unpacked; OSError or EOFError where that can't be."""
    found = annotated_pages.head(path)
    if not found.startswith(_GZIP):
        return found
    with gzip.open(path) as stream:
        return stream.read(annotated_pages.HEAD)


def content(path: Path) -> bytes:
    """Returns all of a file, unpacked where it is gzipped.

    Raises:
        AnnotationError: It can't be read, or is damaged.
        LimitExceededError: It has more than MAX_BYTES.
    """
    try:
        with atomic_files.open_file(path) as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            found = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise AnnotationError(
            f"'{printable(path)}' can't be read: {printable(error, 200)}. Restore the file from "
            "the data set."
        ) from error
    if len(found) > MAX_BYTES:
        raise LimitExceededError(
            f"'{printable(path)}' has more than {MAX_BYTES} bytes, unpacked. Split it."
        )
    return found


def read(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the object of each line that is not empty, with its place for messages.

    Raises:
        AnnotationError: The file can't be read, a line is no JSON object, or all are empty.
    """
    found = False
    for number, line in enumerate(content(path).split(b"\n"), start=1):
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
                f"The name {short_repr(name)} of '{where}' stands in '{found[name][0]}' as "
                "well; expected different names. Remove one of them."
            )
        found[name] = (where, entry)
    return [(name, *found[name]) for name in sorted(found)]
