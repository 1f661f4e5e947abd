"""The ledger's file: append-only SQLite, checked before a row of it is trusted.

A commit is on the disk when it returns: the rollback journal with synchronous=EXTRA syncs the file
and then the folder that the journal vanishes from, so neither a killed process nor a power cut
takes a charge back. The file is one file whenever nobody writes, it needs no shared memory, and
several processes may use it at once. Every call opens it anew: no connection outlives a fork, and
a file that was swapped is noticed.

A stranger's database is never read as a ledger: id, version and the text of every table and
trigger must be ours. All rows of all tables form one chain: each has a place in it, and a seal over
its values and the seal before. So a damaged byte, a row that was taken out and rows that changed
places are an error and no other number of steps. The last place and seal are the head. Whoever has
noted a head can tell whether a file holds everything up to it; without a note, a file cut back to
an earlier moment looks like that moment. The key of the seals stands in the file: they are no
defence against somebody who writes a false ledger on purpose.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from hushdoc.errors import HushdocError, InputError, OutputWriteError, PrivacyError
from hushdoc.system import atomic_files

APPLICATION_ID = 0x48444C47
"""Stands in the file's header and spells HDLG."""

VERSION = 1
"""Version of the tables below."""

BUSY_SECONDS = 30.0
"""How long one process waits for another."""

_FOREIGN_KEYS = "PRAGMA foreign_key_check"

_APPEND_ONLY = """
CREATE TRIGGER {table}_is_not_changed BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
CREATE TRIGGER {table}_is_not_deleted BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END;
"""

_TABLES = """
CREATE TABLE chain (place INTEGER PRIMARY KEY CHECK (place >= 1), seal TEXT NOT NULL);
CREATE TABLE account (
    one INTEGER PRIMARY KEY CHECK (one = 1), ledger_id TEXT NOT NULL, data TEXT NOT NULL,
    unit TEXT NOT NULL, adjacency TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    salt BLOB NOT NULL, at TEXT NOT NULL,
    place INTEGER NOT NULL UNIQUE REFERENCES chain (place)
);
CREATE TABLE contents (
    commitment TEXT PRIMARY KEY, reason TEXT NOT NULL, at TEXT NOT NULL,
    place INTEGER NOT NULL UNIQUE REFERENCES chain (place)
);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
    step TEXT NOT NULL, reserved INTEGER NOT NULL CHECK (reserved >= 1), claim TEXT NOT NULL,
    commitment TEXT NOT NULL REFERENCES contents (commitment), at TEXT NOT NULL,
    place INTEGER NOT NULL UNIQUE REFERENCES chain (place)
);
CREATE TABLE charges (
    run INTEGER NOT NULL REFERENCES runs (number), step INTEGER NOT NULL CHECK (step >= 1),
    at TEXT NOT NULL, place INTEGER NOT NULL UNIQUE REFERENCES chain (place),
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE closings (
    run INTEGER PRIMARY KEY REFERENCES runs (number), reason TEXT NOT NULL, at TEXT NOT NULL,
    place INTEGER NOT NULL UNIQUE REFERENCES chain (place)
);
CREATE TABLE reads (
    run INTEGER NOT NULL REFERENCES runs (number), what TEXT NOT NULL, declared TEXT NOT NULL,
    at TEXT NOT NULL, place INTEGER NOT NULL UNIQUE REFERENCES chain (place),
    PRIMARY KEY (run, what, declared)
) WITHOUT ROWID;
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

COLUMNS = {
    "account": ("one", "ledger_id", "data", "unit", "adjacency", "epsilon", "delta", "salt", "at"),
    "contents": ("commitment", "reason", "at"),
    "runs": ("number", "run_id", "title", "step", "reserved", "claim", "commitment", "at"),
    "charges": ("run", "step", "at"),
    "closings": ("run", "reason", "at"),
    "reads": ("run", "what", "declared", "at"),
}
"""What each table holds besides its rows' places in the chain."""

SCHEMA = _TABLES + "".join(_APPEND_ONLY.format(table=table) for table in ("chain", *COLUMNS))


def create(path: Path, account: dict[str, Any]) -> None:
    """Writes a new ledger, whole or not at all, over nothing; only its owner may read it."""
    atomic_files.require_free(path)
    beside = path.with_name(f".{atomic_files.name_of(path)}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with _typed_errors(path):
            _fill(beside, account)
        # The salt is a secret, so the copy keeps the mode that an owner's eyes alone have.
        atomic_files.write_file(path, beside.read_bytes(), mode=0o600, overwrite=False)
    except OSError as error:
        raise atomic_files.not_written(path, error) from error
    finally:
        beside.unlink(missing_ok=True)


def _fill(path: Path, account: dict[str, Any]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};" + SCHEMA
        )
        add(database, "account", account["salt"], tuple(account.values()))


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Yields a connection that sees one moment of the ledger."""
    with _connection(path, begin="BEGIN") as database:
        yield database


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Yields a connection whose work is on the disk once the block ends, or is not done at all."""
    with _connection(path, begin="BEGIN IMMEDIATE") as database:
        yield database


def add(database: sqlite3.Connection, table: str, key: bytes, values: tuple[Any, ...]) -> None:
    """Adds a row to a table, and to the end of the chain."""
    last, before = head(database)
    place = last + 1
    seal = _seal(table, key, before, values)
    database.execute("INSERT INTO chain VALUES (?, ?)", (place, seal))
    marks = ", ".join("?" for _ in (*values, place))
    database.execute(f"INSERT INTO {table} VALUES ({marks})", (*values, place))


def head(database: sqlite3.Connection) -> tuple[int, str]:
    """Returns the last place of the chain and its seal, which depends on all rows before."""
    found = database.execute("SELECT place, seal FROM chain ORDER BY place DESC LIMIT 1").fetchone()
    return found or (0, "")


def holds(database: sqlite3.Connection, place: int, seal: str) -> bool:
    """Returns whether the chain has passed through a head."""
    found = database.execute("SELECT seal FROM chain WHERE place = ?", (place,)).fetchone()
    return found is not None and hmac.compare_digest(str(found[0]).encode(), seal.encode())


def rows(
    database: sqlite3.Connection, path: Path, table: str, key: bytes, where: str = ""
) -> list[tuple[Any, ...]]:
    """Returns rows of a table, their seals checked; `where` never holds anybody's text."""
    columns = ", ".join(COLUMNS[table])
    found = database.execute(
        f"SELECT {columns}, row.place, own.seal, before.seal FROM {table} AS row "
        "LEFT JOIN chain AS own ON own.place = row.place "
        f"LEFT JOIN chain AS before ON before.place = row.place - 1 {where}"
    ).fetchall()
    for *values, place, seal, before in found:
        if seal != _seal(table, key, "" if place == 1 else before, tuple(values)):
            raise bad_ledger(path, f"a row of its {table} is damaged")
    return [row[:-3] for row in found]


def account(database: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Returns the one row that says whose budget this is."""
    salts = database.execute("SELECT salt FROM account").fetchall()
    if len(salts) != 1 or not isinstance(salts[0][0], bytes):
        raise bad_ledger(path, f"it holds {len(salts)} accounts, expected one with a salt")
    (row,) = rows(database, path, "account", salts[0][0])
    return dict(zip(COLUMNS["account"], row, strict=True))


def require_sound(database: sqlite3.Connection, path: Path, key: bytes) -> None:
    """Raises InputError BAD_LEDGER if a page or a row of the file is damaged."""
    if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise bad_ledger(path, "its pages are damaged")
    if database.execute(_FOREIGN_KEYS).fetchone() is not None:
        raise bad_ledger(path, "a row is about a run that is not there")
    found = sum(len(rows(database, path, table, key)) for table in COLUMNS)
    places = database.execute("SELECT COUNT(*), MAX(place) FROM chain").fetchone()
    if places != (found, found):
        raise bad_ledger(path, f"its chain has {places[0]} places for {found} rows")


def damages(path: Path) -> list[str]:
    """Returns what SQLite's own integrity check finds wrong; nothing in a sound file."""
    with reading(path) as database:
        found = [str(row[0]) for row in database.execute("PRAGMA integrity_check(20)")]
        lost = [f"a row of {row[0]} names no row" for row in database.execute(_FOREIGN_KEYS)]
    return [text for text in found if text != "ok"] + lost


def bad_ledger(path: Path, found: str) -> InputError:
    """Returns the error that says why a file can't be trusted."""
    return InputError(
        f"'{path}' is not a sound ledger: {found}. Restore it from a copy that is not older than "
        "the last charge; where none exists, what was spent is unknown and the data must be "
        "retired.",
        code="BAD_LEDGER",
    )


def _seal(table: str, key: bytes, before: str | None, values: tuple[Any, ...]) -> str:
    content = repr((table, before, *values)).encode("utf-8", "backslashreplace")
    return hmac.new(key, content, "sha256").hexdigest()[:32]


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
        raise bad_ledger(path, "found something that is not a regular file")
    raise InputError(
        f"There is no ledger at '{path}'. Check the path, or start one with `hushdoc ledger init`; "
        "data that were trained on before need the ledger of those runs.",
        code="NO_LEDGER",
    )


def _require_ours(database: sqlite3.Connection, path: Path) -> None:
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    if _pragma(database, "application_id") != APPLICATION_ID:
        raise bad_ledger(path, "found another file or database")
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
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        return frozenset(database.execute(_READ_SCHEMA))


def _pragma(database: sqlite3.Connection, name: str) -> Any:
    return database.execute(f"PRAGMA {name}").fetchone()[0]


@contextmanager
def _typed_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _typed(path, error) from error
    except UnicodeDecodeError as error:
        raise bad_ledger(path, "a text in it is not UTF-8") from error


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
