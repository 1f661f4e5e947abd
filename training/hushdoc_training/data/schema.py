"""A schema: the names of labels that somebody chose, from a file or as a corpus publishes them.

The file is TOML or JSON: a list of names, or of objects with "name" and perhaps "description", by
itself (JSON alone) or as "fields".
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from hushdoc.arguments import MalformedError, failure_of, printable, short_repr
from hushdoc.errors import InputError
from hushdoc.labels import LabelSet
from hushdoc.system import atomic_files
from hushdoc_training.data import dataset

MAX_BYTES = 2**20


def named(name: str) -> LabelSet:
    """Returns the labels of a corpus by its name, such as "sroie", else those in a file.

    Raises:
        InputError: There is no such corpus or file, or it names no labels.
    """
    for corpus in dataset.CORPORA:
        if corpus.name == name and corpus.labels.fields:
            return corpus.labels
    return LabelSet(fields=tuple(read(Path(name))))


def read(path: Path) -> list[str]:
    """Returns the names of labels in a file of TOML or JSON, in their order."""
    try:
        content = atomic_files.read_file(path, max_bytes=MAX_BYTES)
        if len(content) > MAX_BYTES:
            raise MalformedError(f"it has more than {MAX_BYTES} bytes")
        return _names(_parsed(content.decode("utf-8-sig"), path))
    except (OSError, ValueError, RecursionError) as error:
        found = (error.strerror or "no file") if isinstance(error, OSError) else failure_of(error)
        corpora = ", ".join(item.name for item in dataset.CORPORA if item.labels.fields)
        raise InputError(
            f"The schema '{printable(path)}' can't be read: {found}. Give a file of TOML or JSON "
            'that lists names, as ["date", "total"] or as "fields" of {"name", "description"}, or '
            f"the name of a corpus: {corpora}."
        ) from error


def _parsed(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except json.JSONDecodeError as error:
        raise MalformedError(f"it is not JSON at line {error.lineno}: {error.msg}") from None
    except tomllib.TOMLDecodeError as error:
        raise MalformedError(f"it is not TOML: {error}") from None


def _names(found: Any) -> list[str]:
    items = found.get("fields") if isinstance(found, dict) else found
    if not isinstance(items, list) or not items:
        raise MalformedError("it holds no list of names")
    names = [_name(item) for item in items]
    if len(set(names)) < len(names):
        raise MalformedError("it names a label twice")
    return names


def _name(item: Any) -> str:
    if isinstance(item, dict):
        if not isinstance(item.get("description", ""), str) or item.keys() - _KEYS:
            raise MalformedError(
                f'it has {short_repr(sorted(map(str, item)))} where a label has "name" and '
                '"description", two texts'
            )
        item = item.get("name")
    if not isinstance(item, str) or not item.strip() or not item.isprintable():
        raise MalformedError(f"it has {short_repr(item)} where the name of a label should be")
    return item


_KEYS = {"name", "description"}
