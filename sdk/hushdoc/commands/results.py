"""Results of many documents in one folder: each whole, and none made twice.

A hidden journal in the folder has one line for each result: what it was made from (the content of
the document, the artifact, the options that matter) and the digests of its files. The line is
written once the files are; a document is done where its last line still holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from hushdoc.errors import HushdocError, OutputExistsError
from hushdoc.system import atomic_files

JOURNAL = ".hushdoc-results.jsonl"
"""The file by which a folder of results is known, and left out when documents are looked for."""

FAILURES = "failures.jsonl"
"""The report on what failed in the last run: one JSON object with path, code, message a line."""


def require_usable(folder: Path, subcommand: str) -> None:
    """Raises OutputExistsError unless a folder is free or holds this subcommand's results."""
    journal = folder / JOURNAL
    if not journal.is_file():
        atomic_files.require_free(folder)
        return
    with journal.open("rb") as stream:
        head = _parsed(stream.readline())
    if head.get("subcommand") != subcommand:
        raise OutputExistsError(
            f"'{folder}' holds results of `hushdoc {head.get('subcommand')}`, and results of two "
            "subcommands are never mixed. Choose another folder."
        )


class Results:
    """The results in a folder, and what they were made from."""

    def __init__(self, folder: Path, subcommand: str, settings: Mapping[str, Any]) -> None:
        """Takes what, beside a document, its result is made from; creates the folder."""
        require_usable(folder, subcommand)
        self.folder = folder
        self._settings = json.dumps(settings, sort_keys=True, default=str).encode()
        self._path = folder / JOURNAL
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FAILURES).unlink(missing_ok=True)
            if not self._path.is_file():
                head = json.dumps({"subcommand": subcommand}).encode() + b"\n"
                atomic_files.write_file(self._path, head)
            self._entries = _read(self._path)
        except OSError as error:
            raise atomic_files.not_written(self._path, error) from error
        _append(self._path, {})  # ends a line that was cut off

    def made_from(self, content: bytes) -> str:
        """Returns the digest of all that the result of a document depends on."""
        return hashlib.sha256(hashlib.sha256(content).digest() + self._settings).hexdigest()

    def is_done(self, name: str, made_from: str | None) -> bool:
        """Returns whether a document's result was made from this and is as it was written."""
        entry = self._entries.get(name)
        return (
            entry is not None
            and entry.get("made_from") == made_from
            and all(_digest(self.folder / file) == seen for file, seen in entry["files"].items())
        )

    def clear(self, name: str) -> None:
        """Removes the files of an earlier result of a document."""
        entry = self._entries.pop(name, None)
        for file in () if entry is None else entry["files"]:
            (self.folder / file).unlink(missing_ok=True)
            with suppress(OSError):  # other files are in it
                (self.folder / file).parent.rmdir()

    def record(self, name: str, made_from: str | None, files: Iterable[Path]) -> None:
        """Notes the files of a document's result, which are complete."""
        digests = {path.relative_to(self.folder).as_posix(): _digest(path) for path in files}
        _append(self._path, {"name": name, "made_from": made_from, "files": digests})

    def fail(self, path: str, name: str, error: HushdocError) -> None:
        """Adds a document to the report on failures, and removes its earlier result."""
        self.clear(name)
        line = {"path": path, "code": error.code, "message": str(error)}
        _append(self.folder / FAILURES, line)


def _append(path: Path, line: Mapping[str, Any]) -> None:
    """Appends a line to a file in one piece."""
    try:
        with path.open("ab", buffering=0) as stream:
            stream.write(json.dumps(line, ensure_ascii=True).encode() + b"\n")
    except OSError as error:
        raise atomic_files.not_written(path, error) from error


def _read(journal: Path) -> dict[str, dict[str, Any]]:
    """Returns the last line of each document; what is no such line says nothing."""
    found: dict[str, dict[str, Any]] = {}
    with journal.open("rb") as stream:
        for line in stream:
            entry = _parsed(line)
            if _is_result(entry):
                found[entry["name"]] = entry
    return found


def _is_result(entry: Mapping[str, Any]) -> bool:
    """Returns whether a line names a result's files, all of them the document's own."""
    name, files = entry.get("name"), entry.get("files")
    if not (isinstance(name, str) and isinstance(files, dict) and files):
        return False
    # They are removed before the document is done again.
    return all(
        file.startswith(f"{name}.") and ".." not in PurePosixPath(file).parts for file in files
    )


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(path: Path) -> str | None:
    """Returns the digest of a file, or None where there is no such file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
