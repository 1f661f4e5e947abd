"""The file: damaged, foreign, newer, read-only, busy, swapped - each is one clear error."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hushdoc.accounting.mechanism import Gaussian, PoissonSampled
from hushdoc.errors import HushdocError, InputError, OutputWriteError, PrivacyError
from hushdoc_training.ledger import storage
from hushdoc_training.ledger.ledger import Ledger

STEP = PoissonSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=2.0))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "ledger", data="invoices", epsilon=4, delta=1e-5)
    made.reserve("run", title="a run", step=STEP, steps=9, claim="c", documents="d")
    made.charge("run", 1)
    return made


def change(path: Path, *statements: str) -> None:
    """Writes to the file as any SQLite program could."""
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def seal_anew(database: sqlite3.Connection, key: bytes) -> None:
    rows = [
        (row[-1], table, row[:-1])
        for table, columns in storage.COLUMNS.items()
        for row in database.execute(f"SELECT {', '.join(columns)}, place FROM {table}")
    ]
    seal = ""
    for place, table, values in sorted(rows):
        seal = storage._seal(table, key, seal, values)
        database.execute("UPDATE chain SET seal = ? WHERE place = ?", (seal, place))


def change_past_the_guards(path: Path, statement: str, *, key: bytes | None) -> None:
    """Takes the triggers down, changes a row, and puts them back; with the key, seals it anew."""
    database = sqlite3.connect(path, isolation_level=None)
    for table in ("chain", *storage.COLUMNS):
        database.execute(f"DROP TRIGGER {table}_is_not_changed")
        database.execute(f"DROP TRIGGER {table}_is_not_deleted")
    database.execute(statement)
    if key is not None:
        seal_anew(database, key)
    for part in storage.SCHEMA.split("CREATE TRIGGER ")[1:]:
        if "_is_not_" in part.split()[0]:
            database.executescript("CREATE TRIGGER " + part)
    database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE account SET epsilon = 100",
        "UPDATE runs SET reserved = 1000",
        "UPDATE charges SET step = 9",
        "DELETE FROM charges",
        "DELETE FROM runs",
        "DELETE FROM closings",
        "DELETE FROM chain",
        "UPDATE chain SET place = 9",
        "INSERT INTO charges VALUES (1, 10, 'now', 4)",
        "INSERT INTO charges VALUES (1, 1, 'now', 4)",
        "INSERT INTO charges VALUES (1, 0, 'now', 4)",
    ],
)
def test_the_file_itself_refuses_to_forget_or_overspend(ledger: Ledger, statement: str) -> None:
    ledger.close("run", reason="x")
    with pytest.raises(sqlite3.IntegrityError):
        change(ledger.path, statement)


def test_a_commit_waits_for_the_disk(ledger: Ledger) -> None:
    with storage.writing(ledger.path) as database:
        # EXTRA: the file, and the folder that the journal vanishes from, are synced.
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_missing_ledger_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ledger init") as missing:
        Ledger.open(tmp_path / "nowhere")
    assert missing.value.code == "NO_LEDGER"
    assert not list(tmp_path.iterdir())


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def other_database(path: Path) -> None:
    path.unlink()
    change(path, "CREATE TABLE runs (number INTEGER)")


@pytest.mark.parametrize(
    "spoil",
    [
        folder,
        other_database,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a database" * 1000),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(path.read_bytes()[:-4096]),
        lambda path: path.write_bytes(path.read_bytes()[:4096] + bytes(8 * 4096)),
        lambda path: change(path, "DROP TRIGGER runs_is_not_changed"),
        lambda path: change(path, "CREATE TABLE more (x)"),
        lambda path: change(
            path, "CREATE TRIGGER more AFTER INSERT ON charges BEGIN SELECT 1; END"
        ),
        lambda path: change(path, "PRAGMA user_version = 0"),
        lambda path: change(path, "PRAGMA application_id = 7"),
    ],
)
def test_what_is_no_sound_ledger_is_refused(
    ledger: Ledger, spoil: Callable[[Path], object]
) -> None:
    spoil(ledger.path)
    for deed in (lambda: Ledger.open(ledger.path), lambda: ledger.charge("run", 2)):
        with pytest.raises(InputError, match="not a sound ledger") as refused:
            deed()
        assert refused.value.code == "BAD_LEDGER"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE account SET epsilon = -1.0", "epsilon"),
        ("UPDATE account SET epsilon = 'much'", "epsilon"),
        ("UPDATE account SET delta = 1e400", "delta"),
        ("UPDATE account SET unit = 'pages'", "unit"),
        ("UPDATE account SET data = x'ff'", "data"),
        ("DELETE FROM account", "0 accounts"),
        ('UPDATE runs SET step = \'{"type": "laplace"}\'', "step of run 1"),
        ("UPDATE runs SET step = '{'", "step of run 1"),
        ("UPDATE runs SET title = x'ff'", "is not text"),
        ("UPDATE runs SET reserved = 1.5", "integer"),
    ],
)
def test_rows_that_make_no_sense_are_refused(ledger: Ledger, statement: str, says: str) -> None:
    change_past_the_guards(ledger.path, statement, key=ledger.salt)
    with pytest.raises(InputError, match=says) as refused:
        Ledger.open(ledger.path).runs()
    assert refused.value.code == "BAD_LEDGER"


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE account SET epsilon = 5.0", "account"),
        ("UPDATE contents SET reason = 'none'", "contents"),
        ("UPDATE runs SET reserved = 10", "runs"),
        ("UPDATE charges SET step = 2", "charges"),
        ("UPDATE closings SET at = 'then'", "closings"),
    ],
)
def test_a_row_that_was_changed_breaks_its_seal(ledger: Ledger, statement: str, table: str) -> None:
    ledger.close("run", reason="given up")
    change_past_the_guards(ledger.path, statement, key=None)
    for deed in (lambda: Ledger.open(ledger.path), ledger.runs):
        if table != "contents" or deed != ledger.runs:
            with pytest.raises(InputError, match=f"a row of its {table} is damaged"):
                deed()


def test_a_newer_ledger_asks_for_a_newer_version(ledger: Ledger) -> None:
    change(ledger.path, "PRAGMA user_version = 2")
    with pytest.raises(InputError, match="Install the version") as refused:
        Ledger.open(ledger.path)
    assert refused.value.code == "LEDGER_TOO_NEW"


def test_another_ledger_in_its_place_is_noticed(ledger: Ledger) -> None:
    ledger.path.unlink()
    Ledger.create(ledger.path, data="invoices", epsilon=4, delta=1e-5)
    for deed in (
        ledger.runs,
        ledger.head,
        lambda: ledger.require_head("1:" + "a" * 32),
        lambda: ledger.charge("run", 2),
        lambda: ledger.note_read("run", "losses"),
        lambda: ledger.admit("more", reason="a document joined"),
        lambda: ledger.require_room(step=STEP, steps=1, documents="d"),
    ):
        with pytest.raises(InputError, match="another ledger was put in its place"):
            deed()


def test_random_damage_is_a_typed_error_or_hits_what_nobody_reads(ledger: Ledger) -> None:
    for step in range(2, 9):
        ledger.charge("run", step)
    sound = ledger.path.read_bytes()
    dice = random.Random(7)
    runs = ledger.runs()
    codes = []
    for _ in range(150):
        content = bytearray(sound)
        start = dice.randrange(len(content))
        for at in range(start, min(len(content), start + dice.choice((1, 64, 4096)))):
            content[at] = dice.randrange(256)
        ledger.path.write_bytes(content)
        try:
            found = Ledger.open(ledger.path)
        except HushdocError as error:
            codes.append(error.code)
            continue
        # Not noticed, so it must have hit what nobody reads.
        assert found == ledger
        assert found.runs() == runs
    assert len(codes) > 30
    assert set(codes) <= {"BAD_LEDGER", "LEDGER_TOO_NEW", "OUTPUT_NOT_WRITTEN"}


def test_a_busy_ledger_waits_and_then_says_so(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "BUSY_SECONDS", 0.2)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutputWriteError, match="Nothing was charged") as busy:
        ledger.charge("run", 2)
    assert busy.value.code == "LEDGER_BUSY"
    assert ledger.runs()[0].charged == 1  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    ledger.charge("run", 2)
    assert ledger.runs()[0].charged == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to what is read-only")
def test_a_read_only_ledger_can_be_read_and_not_charged(ledger: Ledger) -> None:
    ledger.path.chmod(0o400)
    assert ledger.runs()[0].charged == 1
    with pytest.raises(OutputWriteError, match="permissions"):
        ledger.charge("run", 2)


def fill(ledger: Ledger) -> None:
    for _ in range(100):
        ledger.admit(str(os.urandom(8)), reason="x" * 200)


@pytest.mark.parametrize(
    ("pragma", "says"), [("max_page_count = 1", "full"), ("query_only = ON", "readonly")]
)
def test_a_disk_that_takes_nothing_charges_nothing_and_says_so(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, pragma: str, says: str
) -> None:
    ours = storage._require_ours

    def no_more(database: sqlite3.Connection, path: Path) -> None:
        ours(database, path)
        database.execute(f"PRAGMA {pragma}")

    monkeypatch.setattr(storage, "_require_ours", no_more)
    with pytest.raises(OutputWriteError, match=says):
        fill(ledger)
    monkeypatch.undo()
    assert ledger.runs()[0].charged == 1
    assert storage.damages(ledger.path) == []


def test_what_a_crash_left_half_written_is_taken_back(ledger: Ledger, tmp_path: Path) -> None:
    before = ledger.path.read_bytes()
    # A commit under way: with a cache of two pages, pages reach the file before the commit does.
    database = sqlite3.connect(ledger.path, isolation_level=None)
    database.execute("PRAGMA cache_size = 2")
    database.execute("BEGIN IMMEDIATE")
    for step in range(2, 10):
        storage.add(database, "charges", ledger.salt, (1, step, "x" * 3000))
    crashed = tmp_path / "crashed"
    crashed.write_bytes(ledger.path.read_bytes())
    Path(f"{crashed}-journal").write_bytes(Path(f"{ledger.path}-journal").read_bytes())
    database.execute("ROLLBACK")
    database.close()
    assert crashed.read_bytes() != before
    assert Ledger.open(crashed).runs() == ledger.runs()
    assert storage.damages(crashed) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["crashed", "ledger"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM charges WHERE step = 2",
        "DELETE FROM chain WHERE place = 5",
        "DELETE FROM chain WHERE place = 6",
        "UPDATE chain SET seal = (SELECT seal FROM chain WHERE place = 4) WHERE place = 5",
    ],
)
def test_a_row_that_was_taken_out_of_the_chain_is_noticed(ledger: Ledger, statement: str) -> None:
    for step in (2, 3):
        ledger.charge("run", step)
    assert ledger.head().startswith("6:")
    change_past_the_guards(ledger.path, statement, key=None)
    with pytest.raises(InputError, match="not a sound ledger"):
        Ledger.open(ledger.path)


def test_a_file_that_was_cut_back_row_by_row_lacks_a_noted_head(ledger: Ledger) -> None:
    earlier, charged = ledger.head(), ledger.charge("run", 2)
    assert charged == ledger.head() != earlier
    for statement in ("DELETE FROM charges WHERE step = 2", "DELETE FROM chain WHERE place = 5"):
        change_past_the_guards(ledger.path, statement, key=None)
    back = Ledger.open(ledger.path)  # a sound ledger of an earlier moment, which only a note tells
    back.require_head(earlier)
    for step in (3, 4):
        with pytest.raises(PrivacyError, match="older copy") as refused:
            back.require_head(charged)
        assert refused.value.code == "LEDGER_BEHIND"
        back.charge("run", step)  # an entry of the same number is not the same entry


@pytest.mark.parametrize(
    "noted", ["", "3", "3:", ":" + "a" * 32, "3:" + "A" * 32, "-1:" + "a" * 32]
)
def test_a_head_that_is_none_is_bad_input(ledger: Ledger, noted: str) -> None:
    with pytest.raises(InputError, match="ledger show") as refused:
        ledger.require_head(noted)
    assert refused.value.code == "BAD_HEAD"
