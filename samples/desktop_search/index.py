"""The index of a folder of documents: one SQLite file with a vector for each page.

It says which artifact made its vectors, and begins anew with another: vectors of two models can't
be compared. Several programs may use one index; a crash or a full disk leaves what was there.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import files
import numpy as np

import hushdoc
from hushdoc.errors import HushdocError, OutputWriteError, TaskMismatchError


@dataclass(frozen=True)
class Match:
    """A page that was found, and how alike it is."""

    path: Path
    page: int
    score: float
    text: str
    fields: tuple[tuple[str, str], ...]


class Index:
    """A folder's documents, searched by what their pages mean."""

    def __init__(self, file: Path, folder: Path, model: Any, fields: Any = None) -> None:
        """Opens or begins the index of a folder, by a model of embeddings and one of fields."""
        self.folder, self.model, self.fields, self._matrix = folder, model, fields, None
        self._database = files.database(file)
        made_by = json.dumps([one.certificate.certificate_id for one in (model, fields) if one])
        with self._changing():
            if self._rows("SELECT value FROM about WHERE key = 'artifacts'") != [(made_by,)]:
                for table in ("about", "files", "pages", "fields"):
                    self._database.execute(f"DELETE FROM {table}")
                self._put("about", [("artifacts", made_by)])

    def update(self) -> int:
        """Takes up what changed in the folder and returns how many files did."""
        states = files.states(self.folder)
        known = {row[0]: row[1:] for row in self._rows("SELECT path, changed, size FROM files")}
        names = sorted({*known, *states}, key=os.fsencode)
        changed = [name for name in names if known.get(name) != states.get(name)]
        for name in changed:
            path = files.path_of(self.folder, name)
            note, pages, fields = self._read(path) if name in states else ("", [], [])
            with self._changing():
                for table in ("files", "pages", "fields"):
                    self._database.execute(f"DELETE FROM {table} WHERE path = ?", (name,))
                self._put("files", [(name, *states[name], note)] if name in states else [])
                self._put("pages", [(name, *row) for row in pages])
                self._put("fields", [(name, *row) for row in fields])
        return len(changed)

    def search(self, query: str, *, count: int = 20) -> list[Match]:
        """Returns pages with a field that holds the query, then others; most alike first."""
        places, vectors = self._vectors()
        if not query.strip() or not places:
            return []
        scores = vectors @ self.model.embed(query, level="document").vector
        holding = "SELECT path, page FROM fields WHERE instr(lower(text), lower(?))"
        by_field = set(self._rows(holding, (query.strip(),)))
        found, others = [], [place not in by_field for place in places]
        for row in np.lexsort((-scores, others))[:count]:
            name, page = places[row]
            where = "WHERE path = ? AND page = ?"
            [(text,)] = self._rows(f"SELECT text FROM pages {where}", places[row])
            fields = tuple(self._rows(f"SELECT label, text FROM fields {where}", places[row]))
            path = files.path_of(self.folder, name)
            found.append(Match(path, page, float(scores[row]), text, fields))
        return found

    def notes(self) -> dict[str, str]:
        """Returns the files that could not be read, and why."""
        found = self._rows("SELECT path, note FROM files WHERE note IS NOT NULL")
        return {os.fsdecode(name): note for name, note in found}

    def _read(self, path: Path) -> tuple[str | None, list[Any], list[Any]]:
        try:
            document = hushdoc.open_document(path, reader="process")
            made = self.model.embed(document)
            read = [" ".join(word.text for word in page.words) for page in document.pages]
            texts = read if document.text is None else [document.text]
            found = ()
            with suppress(TaskMismatchError):  # a plain text, and the model reads pages
                found = self.fields.extract(document).fields if self.fields else ()
        except HushdocError as error:
            return f"{error.code}: {error}", [], []
        vectors = zip(made.pages, made.vectors, strict=True)
        rows = [(page, texts[page], vector.astype("<f4").tobytes()) for page, vector in vectors]
        return None, rows, [(item.page, item.label, item.text) for item in found]

    def _vectors(self) -> tuple[list[tuple[str, int]], Any]:
        """Returns places and vectors, kept until some program changes the file."""
        [(version,)] = self._rows("PRAGMA data_version")
        version += self._database.total_changes << 32
        if self._matrix is None or self._matrix[0] != version:
            rows = self._rows("SELECT path, page, vector FROM pages ORDER BY path, page")
            vectors = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4")
            shape = (len(rows), self.model.dimensions)
            self._matrix = version, [row[:2] for row in rows], vectors.reshape(shape)
        return self._matrix[1:]

    def _put(self, table: str, rows: list[Any]) -> None:
        for row in rows:
            self._rows(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._database.execute(query, values).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One change of the file: all of it or nothing."""
        try:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.OperationalError as error:
            why = f"The index could not be written: {error}. It is as it was before. Free some"
            raise OutputWriteError(f"{why} space, or wait for the other program.") from error
