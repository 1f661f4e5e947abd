"""What an index is made of on disk: the folder's documents, and its own SQLite file.

The file holds the documents' texts, so nobody but its owner may read it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from hushdoc.errors import InputError

TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, changed INTEGER, size INTEGER, note TEXT);
CREATE TABLE IF NOT EXISTS pages (path TEXT, page INTEGER, text TEXT, vector BLOB);
CREATE TABLE IF NOT EXISTS fields (path TEXT, page INTEGER, label TEXT, text TEXT);
CREATE INDEX IF NOT EXISTS pages_by_place ON pages (path, page);
CREATE INDEX IF NOT EXISTS fields_by_place ON fields (path, page);
COMMIT;
"""

PATIENCE = 30
"""Seconds to wait for other programs that use the index."""

Name = str | bytes
"""A file's path in its folder as SQLite holds it: bytes where it is not UTF-8."""


def database(file: Path) -> sqlite3.Connection:
    """Returns the tables of an index, which are made where there are none."""
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    found = sqlite3.connect(file, timeout=PATIENCE, isolation_level=None)
    try:
        found.executescript(TABLES)
    except sqlite3.DatabaseError as error:
        found.close()
        why = f"'{file}' is no index: {error}. Name another file, or remove it yourself."
        raise InputError(why) from error
    return found


def states(folder: Path) -> dict[Name, tuple[int, int]]:
    """Returns time and size of each file of a folder that is not hidden."""
    if not folder.is_dir():
        raise InputError(f"'{folder}' is no folder of documents. The index stays as it is.")
    found: dict[Name, tuple[int, int]] = {}
    for path in folder.rglob("[!.]*"):
        place = path.relative_to(folder)
        with suppress(OSError):  # it went meanwhile
            if path.is_file() and not any(part.startswith(".") for part in place.parts):
                state = path.stat()
                found[_name(str(place))] = (state.st_mtime_ns, state.st_size)
    return found


def path_of(folder: Path, name: Name) -> Path:
    """Returns the path of a file of a folder."""
    return folder / os.fsdecode(name)


def _name(place: str) -> Name:
    try:
        place.encode()
    except UnicodeEncodeError:
        return os.fsencode(place)
    return place
