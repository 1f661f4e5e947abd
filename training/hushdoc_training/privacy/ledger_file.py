"""The ledger's file: SQLite, added to and never changed, checked before a row of it is believed.

A commit is on the disk when it returns: the rollback journal with synchronous=EXTRA syncs the file
and then the folder that the journal vanishes from, so neither a killed process nor a power cut
takes a charge back. The file is one file whenever nobody writes, it needs no shared memory, and
several processes may use it at once. Every call opens it anew: no connection outlives a fork, and
a file that was swapped is noticed.

A stranger's database is never read as a ledger: id, version and the text of every table and
trigger must be ours.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from hushdoc import files
from hushdoc.errors import HushdocError, InputError, OutputWriteError, PrivacyError

APPLICATION_ID = 0x48444C47
"""Stands in the file's header and spells HDLG."""

VERSION = 1
"""Version of the tables below."""

BUSY_SECONDS = 30.0
"""How long one process waits for another."""

_APPEND_ONLY = """
CREATE TRIGGER {table}_is_not_changed BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
CREATE TRIGGER {table}_is_not_deleted BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
"""

_TABLES = """
CREATE TABLE account (
    one INTEGER PRIMARY KEY CHECK (one = 1), ledger_id TEXT NOT NULL, data TEXT NOT NULL,
    unit TEXT NOT NULL, adjacency TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    salt BLOB NOT NULL, at TEXT NOT NULL
);
CREATE TABLE contents (commitment TEXT PRIMARY KEY, reason TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
    step TEXT NOT NULL, reserved INTEGER NOT NULL CHECK (reserved >= 1), claim TEXT NOT NULL,
    commitment TEXT NOT NULL REFERENCES contents (commitment), at TEXT NOT NULL
);
CREATE TABLE charges (
    run INTEGER NOT NULL REFERENCES runs (number), step INTEGER NOT NULL CHECK (step >= 1),
    at TEXT NOT NULL, PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE closings (
    run INTEGER PRIMARY KEY REFERENCES runs (number), reason TEXT NOT NULL, at TEXT NOT NULL
);
CREATE TRIGGER charges_keep_their_reservation BEFORE INSERT ON charges
BEGIN
    SELECT RAISE(ABORT, 'the run is closed')
        WHERE EXISTS (SELECT 1 FROM closings WHERE run = NEW.run);
    SELECT RAISE(ABORT, 'the step is not reserved')
        WHERE NEW.step > (SELECT reserved FROM runs WHERE number = NEW.run);
    SELECT RAISE(ABORT, 'the step is charged already')
        WHERE NEW.step <= (SELECT MAX(step) FROM charges WHERE run = NEW.run);
END;
"""

SCHEMA = _TABLES + "".join(
    _APPEND_ONLY.format(table=table)
    for table in ("account", "contents", "runs", "charges", "closings")
)


ACCOUNT = ("ledger_id", "data", "unit", "adjacency", "epsilon", "delta", "salt")
"""Columns of the one row that says whose budget a ledger is."""


def create(path: Path, account: dict[str, Any]) -> None:
    """Writes a new ledger, whole or not at all; only its owner may read it.

    Args:
        path: Where it shall stand.
        account: The one row of the table account.

    Raises:
        OutputExistsError: Something already stands there; a ledger is never overwritten.
        OutputWriteError: The disk is full or not writable.
    """
    files.require_free(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with _typed_errors(path):
            _fill(beside, account)
        # The salt is a secret, so the copy keeps the mode that an owner's eyes alone have.
        files.write_file(path, beside.read_bytes(), mode=0o600, overwrite=False)
    except OSError as error:
        raise files.not_written(path, error) from error
    finally:
        beside.unlink(missing_ok=True)


def _fill(path: Path, account: dict[str, Any]) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript(
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};" + SCHEMA
        )
        names = ", ".join(account)
        values = ", ".join(f":{name}" for name in account)
        database.execute(f"INSERT INTO account (one, {names}) VALUES (1, {values})", account)
    finally:
        database.close()


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Yields a connection that sees one moment of the ledger.

    Raises:
        InputError: NO_LEDGER, BAD_LEDGER or LEDGER_TOO_NEW.
        OutputWriteError: LEDGER_BUSY, or what a crash left can't be tidied up.
    """
    with _connection(path, begin="BEGIN") as database:
        yield database


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Yields a connection whose work is on the disk once the block ends, or is not done at all.

    Raises:
        InputError: NO_LEDGER, BAD_LEDGER or LEDGER_TOO_NEW.
        OutputWriteError: LEDGER_BUSY, or the file can't be written.
    """
    with _connection(path, begin="BEGIN IMMEDIATE") as database:
        yield database


def account(database: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Returns the one row that says whose budget this is.

    Raises:
        InputError: BAD_LEDGER, where there is none or several.
    """
    rows = database.execute(f"SELECT {', '.join(ACCOUNT)} FROM account").fetchall()
    if len(rows) != 1:
        raise bad_ledger(path, f"it holds {len(rows)} accounts, expected one")
    return dict(zip(ACCOUNT, rows[0], strict=True))


def commitments(database: sqlite3.Connection) -> frozenset[str]:
    """Returns the commitments to all documents that the ledger counts for."""
    return frozenset(row[0] for row in database.execute("SELECT commitment FROM contents"))


def admit(database: sqlite3.Connection, commitment: str, reason: str, at: str) -> None:
    """Adds a commitment, unless it is there."""
    database.execute("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", (commitment, reason, at))


def add_run(database: sqlite3.Connection, values: tuple[str | int, ...]) -> None:
    """Adds a run: id, title, step, reserved, claim, commitment, time."""
    columns = "run_id, title, step, reserved, claim, commitment, at"
    database.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def add_charge(database: sqlite3.Connection, run: int, step: int, at: str) -> None:
    """Adds a charge."""
    database.execute("INSERT INTO charges VALUES (?, ?, ?)", (run, step, at))


def add_closing(database: sqlite3.Connection, run: int, reason: str, at: str) -> None:
    """Adds that a run is closed."""
    database.execute("INSERT INTO closings VALUES (?, ?, ?)", (run, reason, at))


def require_sound(database: sqlite3.Connection, path: Path) -> None:
    """Raises InputError BAD_LEDGER if SQLite finds a page of the file damaged."""
    if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise bad_ledger(path, "its pages are damaged")


def damages(path: Path) -> list[str]:
    """Returns what SQLite's own integrity check finds wrong; nothing in a sound file."""
    with reading(path) as database:
        found = [str(row[0]) for row in database.execute("PRAGMA integrity_check(20)")]
        lost = [f"a row of {row[0]} names no row" for row in database.execute(_FOREIGN_KEYS)]
    return [text for text in found if text != "ok"] + lost


_FOREIGN_KEYS = "PRAGMA foreign_key_check"


def bad_ledger(path: Path, found: str) -> InputError:
    """Returns the error that says why a file can't be believed."""
    return InputError(
        f"'{path}' is no sound ledger: {found}. Restore it from a copy that is not older than the "
        "last charge; where none exists, what was spent is unknown and the data must be retired.",
        code="BAD_LEDGER",
    )


@contextmanager
def _connection(path: Path, *, begin: str) -> Iterator[sqlite3.Connection]:
    _require_file(path)
    with _typed_errors(path):
        database = sqlite3.connect(
            # Never creates, and opens what may only be read for reading.
            path.resolve().as_uri() + "?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
        )
        try:
            _require_ours(database, path)
            database.execute(begin)
            yield database
            database.execute("COMMIT")
        finally:
            database.close()  # takes back what was not committed


def _require_file(path: Path) -> None:
    if path.is_file():
        return
    if path.exists():
        raise bad_ledger(path, "found something that is no regular file")
    raise InputError(
        f"There is no ledger at '{path}'. Check the path, or start one with `hushdoc ledger init`; "
        "data that were trained on before need the ledger of those runs.",
        code="NO_LEDGER",
    )


def _require_ours(database: sqlite3.Connection, path: Path) -> None:
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    if _pragma(database, "application_id") != APPLICATION_ID:
        raise bad_ledger(path, "found a file or database of another kind")
    version = _pragma(database, "user_version")
    if isinstance(version, int) and version > VERSION:
        raise InputError(
            f"'{path}' is a ledger of version {version}; this hushdoc reads version {VERSION}. "
            "Install the version that wrote it, or a later one.",
            code="LEDGER_TOO_NEW",
        )
    found = set(database.execute(_READ_SCHEMA))
    if version != VERSION or found != _our_schema():
        raise bad_ledger(path, "its tables are not those of a ledger")
    for setting in ("foreign_keys = ON", "synchronous = EXTRA", "fullfsync = ON"):
        database.execute(f"PRAGMA {setting}")
    if _pragma(database, "journal_mode = DELETE") != "delete":
        raise bad_ledger(path, "somebody changed its journal mode and has it open")


_READ_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master"


@lru_cache(maxsize=1)
def _our_schema() -> frozenset[tuple[Any, ...]]:
    database = sqlite3.connect(":memory:")
    try:
        database.executescript(SCHEMA)
        return frozenset(database.execute(_READ_SCHEMA))
    finally:
        database.close()


def _pragma(database: sqlite3.Connection, name: str) -> Any:
    return database.execute(f"PRAGMA {name}").fetchone()[0]


@contextmanager
def _typed_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _typed(path, error) from error


def _typed(path: Path, error: sqlite3.Error) -> HushdocError:
    code = (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_CORRUPT) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return OutputWriteError(
                f"The ledger '{path}' was busy for {BUSY_SECONDS:g} seconds: another process is "
                "writing to it. Nothing was charged by this one; try again.",
                code="LEDGER_BUSY",
            )
        case sqlite3.SQLITE_CONSTRAINT:
            return PrivacyError(
                f"The ledger '{path}' refuses: {error}. A ledger is only added to, within what was "
                "reserved.",
                code="NOT_RESERVED",
            )
        case (
            sqlite3.SQLITE_READONLY
            | sqlite3.SQLITE_FULL
            | sqlite3.SQLITE_IOERR
            | sqlite3.SQLITE_CANTOPEN
            | sqlite3.SQLITE_PERM
        ):
            return OutputWriteError(
                f"Could not write the ledger '{path}': {error}. What it held before still stands. "
                "Check the disk and the permissions of the file and its folder, then try again."
            )
        case _:
            return bad_ledger(path, str(error))
