"""Results of many documents in one folder: each whole, and none made twice.

A hidden journal in the folder has one line for each result: what it was made from (the content of
the document, the artifact, the options that matter) and the digests of its files. The line is
written once the files are; a document is done where its last line still holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from hushdoc.errors import HushdocError, OutputExistsError
from hushdoc.system import atomic_files, locks

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
    made_by = head.get("subcommand")
    if not isinstance(made_by, str):
        raise OutputExistsError(
            f"The first line of '{journal}' is damaged, expected the subcommand that made the "
            "results. Choose another folder."
        )
    if made_by != subcommand:
        raise OutputExistsError(
            f"'{folder}' holds results of `hushdoc {made_by}`, and results of two subcommands are "
            "never mixed. Choose another folder."
        )


@contextmanager
def opened(folder: Path, subcommand: str, settings: Mapping[str, Any]) -> Iterator[Results]:
    """Creates or continues a folder of results, which one run alone writes to."""
    require_usable(folder, subcommand)
    journal = folder / JOURNAL
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locks.locked(folder, wait=False))
            for path in folder.rglob(".*.partial"):  # of a run that was killed
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            (folder / FAILURES).unlink(missing_ok=True)
            if not journal.is_file():
                head = json.dumps({"subcommand": subcommand}).encode() + b"\n"
                atomic_files.write_file(journal, head)
            entries = _read(journal)
        except BlockingIOError as error:
            raise OutputExistsError(
                f"Another run is writing results into '{folder}'. Wait for it, or choose another "
                "folder."
            ) from error
        except OSError as error:
            raise atomic_files.not_written(journal, error) from error
        _append(journal, {})  # ends a line that was cut off
        yield Results(folder, settings, entries)


class Results:
    """The results in a folder, and what they were made from."""

    def __init__(self, path: Path, settings: Mapping[str, Any], entries: dict[str, Any]) -> None:
        """Takes what, beside a document, its result is made from, and the journal's lines."""
        self.path, self._entries = path, entries
        self._settings = json.dumps(settings, sort_keys=True, default=str).encode()

    @property
    def folds_names(self) -> bool:
        """Whether this disk takes names for one that differ in capital letters alone."""
        journal = self.path / JOURNAL
        upper = journal.with_name(JOURNAL.upper())
        return upper.exists() and upper.samefile(journal)

    def made_from(self, content: bytes) -> str:
        """Returns the digest of all that the result of a document depends on."""
        return hashlib.sha256(hashlib.sha256(content).digest() + self._settings).hexdigest()

    def is_done(self, name: str, made_from: str) -> bool:
        """Returns whether a document's result was made from this and is as it was written."""
        entry = self._entries.get(name)
        if entry is None or entry.get("made_from") != made_from:
            return False
        images = entry.get("images", {})
        digests = {
            **images,
            **{str(self.path / file): entry["files"][file] for file in entry["files"]},
        }
        return all(_digest(Path(path)) == digest for path, digest in digests.items())

    def clear(self, name: str) -> None:
        """Removes the files of an earlier result of a document."""
        entry = self._entries.pop(name, None)
        for file in () if entry is None else entry["files"]:
            (self.path / file).unlink(missing_ok=True)
            with suppress(OSError):  # other files are in it
                (self.path / file).parent.rmdir()

    def record(
        self, name: str, made_from: str | None, files: Iterable[Path], images: Iterable[Path]
    ) -> None:
        """Notes the files of a document's result, which are complete, and its pages' images."""
        line = {
            "name": name,
            "made_from": made_from,
            "files": {path.relative_to(self.path).as_posix(): _digest(path) for path in files},
            "images": {os.path.abspath(path): _digest(path) for path in images},
        }
        _append(self.path / JOURNAL, line)

    def fail(self, path: str, name: str, error: HushdocError) -> None:
        """Adds a document to the report on failures, and removes its earlier result."""
        self.clear(name)
        line = {"path": path, "code": error.code, "message": str(error)}
        _append(self.path / FAILURES, line)


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
    name, files, images = entry.get("name"), entry.get("files"), entry.get("images", {})
    if not (isinstance(name, str) and isinstance(files, dict) and isinstance(images, dict)):
        return False
    # They are removed before the document is done again.
    return bool(files) and all(
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
