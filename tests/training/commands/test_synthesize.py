"""`hushdoc synthesize evolution`: what it refuses before a folder is taken or a round charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc_training import invented, synthetic_checkpoint
from hushdoc_training.ledger.ledger import Ledger

SMALL = ("--pool", "8", "--nearest", "2", "--documents", "2", "--types", "receipt", "--quiet")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "receipts.jsonl"
    config = invented.InventedConfig(document_types=("receipt",))
    labelled_files.write(path, invented.documents(seed=2, count=3, config=config))
    return path


def refused(data: Path, *further: str) -> int:
    """Returns the exit code of a run that leaves no folder."""
    out = data.parent / "run"
    try:
        code = main(
            ["synthesize", "evolution", "--data", str(data), "--out", str(out), *SMALL, *further]
        )
    except SystemExit as ended:
        code = int(str(ended.code))
    assert not out.exists()
    return code


@pytest.mark.parametrize(
    "further",
    [
        ("--epsilon", "0"),
        ("--rounds", "0"),
        ("--types", "poem"),
        ("--nearest", "9"),
        ("--documents", "5001"),
        ("--expected-records", "0"),
        ("--documents-changed",),
        ("--public", "pages", "--vote", "factors"),
        ("--public", "pages"),  # with --types
        ("--vote", "most"),
    ],
)
def test_settings_out_of_range_are_wrong_usage(further: tuple[str, ...], data: Path) -> None:
    assert refused(data, *further) == 2


def test_a_list_of_words_that_is_missing_or_none_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(data, "--words", str(data.parent / "none.txt")) == 3
    assert refused(data, "--words", str(data)) == 3  # lines of documents
    assert capsys.readouterr().err.count("BAD_WORDS") == 2


@pytest.mark.parametrize(("delta", "records"), [("1e-5", "20000"), ("1.1e-5", "8"), ("1e-3", "8")])
def test_a_delta_that_lets_a_document_be_published_is_refused(
    delta: str, records: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(data, "--delta", delta, "--expected-records", records) == 5
    assert "DELTA_TOO_LARGE" in capsys.readouterr().err


def test_a_ledger_of_a_larger_delta_takes_no_release(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger.create(data.parent / "ledger", data="receipts", epsilon=2, delta=1e-4)
    assert refused(data, "--ledger", str(ledger.path), "--expected-records", "8") == 5
    assert "DELTA_TOO_LARGE" in capsys.readouterr().err
    assert Ledger.open(ledger.path).runs() == ()


@pytest.mark.parametrize("damage", ["unreadable", "no words", "no finite box", "missing"])
def test_documents_that_cannot_be_read_are_refused_before_a_charge(
    damage: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger.create(data.parent / "ledger", data="receipts", epsilon=2, delta=1e-5)
    first, *others = data.read_text().splitlines()
    record = json.loads(first)
    if damage == "no words":
        record["pages"][0]["words"] = record["spans"] = record["questions"] = []
    elif damage == "no finite box":
        record["pages"][0]["words"][0]["box"][0] = float("inf")
    line = first[:-5] if damage == "unreadable" else json.dumps(record)
    data.write_text("\n".join([line, *others]))
    if damage == "missing":
        data.unlink()
    assert refused(data, "--ledger", str(ledger.path)) == 3
    assert Ledger.open(ledger.path).runs() == ()
    assert "hushdoc synthesize: " in capsys.readouterr().err


def test_two_runs_of_one_ledger_are_added_up(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger.create(data.parent / "ledger", data="receipts", epsilon=2, delta=1e-5)
    run = ["synthesize", "evolution", "--data", str(data), *SMALL, "--ledger", str(ledger.path)]
    assert main([*run, "--out", str(data.parent / "one")]) == 0
    assert main([*run, "--out", str(data.parent / "two")]) == 0
    first, second = (
        synthetic_checkpoint.load(data.parent / name).claim.guarantees[0].epsilon or 0.0
        for name in ("one", "two")
    )
    assert first == pytest.approx(1.0, abs=0.01)
    assert 1.4 < second < 1.6
    assert refused(data, "--ledger", str(ledger.path), "--epsilon", "2") != 0
    assert "BUDGET_EXCEEDED" in capsys.readouterr().err
