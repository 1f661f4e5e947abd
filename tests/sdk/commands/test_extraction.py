"""`hushdoc extract` on plain texts: a sealed table of hashed features, and nothing but numpy."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import hushdoc_command_runs
import pytest

from hushdoc.errors import DeviceUnavailableError

TEXT = "1. Term. This lasts for a year. It is governed by the laws of Utah. Nothing else."


def run(*arguments: str) -> int:
    return hushdoc_command_runs.run("extract", "model", *arguments, "--policy", "policy.toml")


def write_scan(place: Path) -> None:
    """Writes the text as a page of another program's JSON."""
    page = {"page_idx": 0, "dimensions": [100, 900], "blocks": [{"lines": [{"words": []}]}]}
    words = page["blocks"][0]["lines"][0]["words"]  # type: ignore[index]
    for number, text in enumerate(TEXT.split(" ")):
        corners = [[0.05 * number, 0.1], [0.05 * number + 0.04, 0.2]]
        words.append({"value": text, "confidence": 1, "geometry": corners})
    (place / "scan.json").write_text(json.dumps({"pages": [page]}))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_clauses_of_a_text_file_are_found(
    place: Path, capfd: pytest.CaptureFixture[str], encoding: str
) -> None:
    (place / "contract.txt").write_text(TEXT, encoding=encoding)
    assert run("contract.txt", "--json") == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["document_id"] == "contract"
    (field,) = answer["fields"]
    assert field["text"] == "It is governed by the laws of Utah."
    assert TEXT[field["start"] : field["stop"]] == field["text"]


def test_clauses_of_other_programs_pages_are_found(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_scan(place)
    assert run("scan.json", "--json") == 0
    (field,) = json.loads(capfd.readouterr().out)["fields"]
    assert field["text"] == "It is governed by the laws of Utah."
    assert len(field["word_ids"]) == 8


def test_a_text_in_an_unknown_encoding_is_told_and_the_others_answered(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "old.txt").write_bytes("caf\u00e9 laws".encode("latin-1"))
    (place / "new.txt").write_text(TEXT)
    assert run("old.txt", "new.txt", "--jsonl") == 7
    printed, warned = capfd.readouterr()
    first, second = (json.loads(line) for line in printed.splitlines())
    assert first["error"]["code"] == "UNSUPPORTED_FORMAT"
    assert len(second["fields"]) == 1
    assert "iconv" in warned


def test_a_table_is_read_on_the_cpu_alone(place: Path) -> None:
    (place / "new.txt").write_text(TEXT)
    with pytest.raises(DeviceUnavailableError, match="on the cpu only"):
        run("new.txt", "--device", "cuda")


def test_a_text_has_no_page_to_draw(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (place / "new.txt").write_text(TEXT)
    assert run("new.txt", "--overlay", "out.png") == 3
    assert "has 0 pages" in capfd.readouterr().err


def test_formulas_of_a_document_can_be_made_text_for_a_spreadsheet(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "=HYPERLINK(1) is governed by the laws of Utah."
    (place / "contract.txt").write_text(text)
    assert run("contract.txt", "--csv") == 0
    plain = capfd.readouterr().out
    assert run("contract.txt", "--csv", "--spreadsheet") == 0
    safe = capfd.readouterr().out
    (row,) = csv.DictReader(io.StringIO(plain))
    assert row["text"] == text
    (inert,) = csv.DictReader(io.StringIO(safe))
    assert inert == {**row, "text": f"'{text}"}
    with pytest.raises(SystemExit, match="2"):
        run("contract.txt", "--spreadsheet")


@pytest.mark.parametrize(
    "options",
    [
        "--csv",
        "--csv --out found",
        "--hocr --out found",
        "--overlay --out found",
        "--hocr page.hocr --json",
        "--overlay page.png --jsonl",
    ],
)
def test_formats_without_a_place_for_it_say_beside_them_what_scores_mean(
    options: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_scan(place)
    assert run("scan.json", *options.split()) == 0
    printed, reported = capfd.readouterr()
    assert reported.count("note: Scores are the model's own probabilities and not calibrated") == 1
    assert "note" not in printed


@pytest.mark.parametrize("options", ["", "--json", "--html --out found", "--overlay page.png"])
def test_formats_that_say_it_themselves_need_no_word_beside_them(
    options: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_scan(place)
    assert run("scan.json", *options.split()) == 0
    assert "calibrated" not in capfd.readouterr().err


def test_people_are_told_which_characters(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (place / "contract.txt").write_text(TEXT)
    assert run("contract.txt") == 0
    _, head, row, note = capfd.readouterr().out.splitlines()
    assert note.startswith("note: Scores are the model's own probabilities and not calibrated")
    assert head.split() == ["field", "score", "characters", "text"]
    start, stop = row.split()[2].split("-")
    assert TEXT[int(start) : int(stop)] == "It is governed by the laws of Utah."
