"""Lists of public data sets: a TOML file that names what a public start learns from.

    [[set]]
    name = "receipts of our generator"   # how a claim calls it, and how --without names it
    data = "invented:till-receipt"       # or a path, from the folder of this file on
    licence = "Apache-2.0"
    documents = 3000                     # how many to invent, or the most to read
    labels = "sroie"                     # of invented documents
    seed = 1                             # of invented documents
    unlabelled = true                    # its labels are not read, and are not to be learned
    passes = 4                           # how often it is read where others are read once

Only `name`, `data` and `licence` have to be there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import AnnotationError
from hushdoc_training.data.dataset import INVENTED, Source

_TYPES: Mapping[str, type] = {
    "name": str,
    "data": str,
    "licence": str,
    "documents": int,
    "labels": str,
    "seed": int,
    "unlabelled": bool,
    "passes": int,
}
_REQUIRED = ("name", "data", "licence")


@dataclass(frozen=True, kw_only=True)
class ListedSet:
    """One set of a list."""

    name: str
    source: Source
    licence: str  # as its publisher states it
    unlabelled: bool  # whether its labels are not read
    passes: int  # how often it is read where others are read once


def read(path: Path, *, without: Collection[str] = ()) -> list[ListedSet]:
    """Returns the sets of a list, but for those that are left out by name.

    Raises:
        AnnotationError: The file is missing or malformed, a name stands twice, a set to be left out
            is not in the list (a slip there would read what is to stay private), or none is left.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise AnnotationError(
            f"'{printable(path)}' can't be read as a list of data sets: {error}. Expected TOML "
            "with a table [[set]] for each."
        ) from error
    entries = found.get("set")
    if set(found) != {"set"} or not isinstance(entries, list):
        raise AnnotationError(
            f"'{printable(path)}' has the tables {short_repr(sorted(found))}; expected [[set]] for "
            "each data set, and nothing else."
        )
    sets = [_set(entry, path, number) for number, entry in enumerate(entries, start=1)]
    names = [item.name for item in sets]
    if len(set(names)) < len(names):
        raise AnnotationError(
            f"'{printable(path)}' has two sets of one name; expected different names, because a "
            "claim and --without tell sets by them."
        )
    unknown = sorted(set(without) - set(names))
    if unknown:
        raise AnnotationError(
            f"'{printable(path)}' has no set {', '.join(map(short_repr, unknown))} to be left out; "
            f"it has {', '.join(map(short_repr, names))}. Correct --without."
        )
    left = [item for item in sets if item.name not in without]
    if not left:
        raise AnnotationError(f"No set of '{printable(path)}' is left; name one more.")
    return left


def _set(entry: Any, path: Path, number: int) -> ListedSet:
    where = f"Set {number} of '{printable(path)}'"
    if not isinstance(entry, dict):
        raise AnnotationError(f"{where} is {short_repr(entry)}; expected a table.")
    others = sorted(set(entry) - set(_TYPES))
    if others:
        raise AnnotationError(
            f"{where} has {', '.join(map(short_repr, others))}; expected {', '.join(_TYPES)}."
        )
    for key in _REQUIRED:
        if key not in entry:
            raise AnnotationError(f"{where} has no '{key}'; expected {', '.join(_REQUIRED)}.")
    for key, value in entry.items():
        if type(value) is not _TYPES[key] or value == "" or (type(value) is int and value < 0):
            raise AnnotationError(
                f"{where} has {short_repr(value)} for '{key}'; expected "
                f"{_TYPES[key].__name__}{', 0 or more' if _TYPES[key] is int else ''}."
            )
    data = entry["data"]
    return ListedSet(
        name=entry["name"],
        source=Source(
            location=data if data.startswith(INVENTED) else str(path.parent / data),
            documents=entry.get("documents"),
            seed=entry.get("seed", 0),
            labels=entry.get("labels"),
        ),
        licence=entry["licence"],
        unlabelled=entry.get("unlabelled", False),
        passes=max(1, entry.get("passes", 1)),
    )
