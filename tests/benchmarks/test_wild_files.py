"""wild_files.py on invented files: each outcome, and the words of two readers."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hushdoc_pdf_files as pdfs
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import wild_files
import wild_peers
import wild_report


def test_files_are_counted_by_what_became_of_them(tmp_path: Path, run: Any) -> None:
    folder = tmp_path / "files"
    (folder / "deeper").mkdir(parents=True)
    (folder / "sound.pdf").write_bytes(pdfs.file([pdfs.shown("Total due 12.50")]))
    (folder / "deeper" / "scan.pdf").write_bytes(pdfs.file([b"0 0 100 100 re f"]))
    (folder / "notes.txt").write_text("Total due")
    (folder / "cut.pdf").write_bytes(b"%PDF-1.7 and no more")
    page = tmp_path / "page.html"
    result, printed = run("wild_files", str(folder), "--quick", "--html", str(page))
    assert {kind: result[kind] for kind in ("files", "ok", "typed", "untyped", "hung")} == {
        "files": 4,
        "ok": 3,
        "typed": 1,
        "untyped": 0,
        "hung": 0,
    }, printed
    assert (result["compared_with_pdfium"], result["lose_words"]) == (1, 0)
    assert 10 < result["peak_mb"] < 4000
    assert {"date", "machine", "python", "versions", "jaccard_mean", "against"} <= result.keys()
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    if shutil.which("pdftotext"):
        assert result["jaccard_mean"]["hushdoc_poppler"] == 1.0


def test_a_file_that_never_ends_is_hung_and_one_that_fails_untyped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdfs.file([pdfs.shown("Total")]))

    def endless(path: Path) -> tuple[Counter[str], bool]:
        while True:
            pass

    def failing(path: Path) -> tuple[Counter[str], bool]:
        raise ZeroDivisionError(path.name)

    monkeypatch.setattr(wild_files, "_words", endless)
    assert wild_files.opened(path, seconds=1).kind == "hung"
    monkeypatch.setattr(wild_files, "_words", failing)
    failed = wild_files.opened(path, seconds=5)
    assert (failed.kind, failed.detail) == ("untyped", "ZeroDivisionError: a.pdf")
    assert "a.pdf" in wild_report.page([failed])


def test_a_file_is_against_us_where_the_others_agree() -> None:
    words = {"hushdoc": Counter(["newempty"]), "a": Counter(["new", "empty"])}
    one = wild_files.Outcome(path=Path("x.pdf"), kind="ok", words=words | {"b": words["a"]})
    assert (one.against, one.pairs()["a_b"]) == (1.0, 1.0)
    refused = wild_files.Outcome(
        path=Path("x.pdf"), kind="typed", words=words | {"hushdoc": None, "b": words["a"]}
    )
    assert (refused.against, refused.is_compared) == (1.0, False)
    assert "newempty" in wild_report.page([one])


def test_files_that_lose_words_of_pdfium_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stamp on a scan is no loss: OCR has to read the page."""
    for name in ("torn.pdf", "whole.pdf"):
        (tmp_path / name).write_bytes(pdfs.file([pdfs.shown("Total due in May")]))
    scan = pdfs.strips(1, size=(612, 792), top=792, height=792) + pdfs.shown("Received")
    shows, image = "/XObject << /Im1 12 0 R >>", pdfs.image(1, 1, b"\x80")
    (tmp_path / "stamped.pdf").write_bytes(pdfs.file([scan], shows=shows, objects=[image]))
    (tmp_path / "cut.pdf").write_bytes(b"%PDF-1.7 and no more")
    read = wild_files._words

    def losing(path: Path) -> tuple[Counter[str], bool]:
        words, is_text = read(path)
        return (words - Counter(["due"]) if path.name == "torn.pdf" else words), is_text

    monkeypatch.setattr(wild_files, "_words", losing)
    options = argparse.Namespace(pymupdf=None, quick=False, seconds=20)
    found = list(wild_files._watched(sorted(tmp_path.iterdir()), options))
    assert {one.path.name: one.loses for one in found} == {
        "cut.pdf": None,
        "stamped.pdf": None,
        "torn.pdf": 3,
        "whole.pdf": 0,
    }
    told = wild_files.figures(found, options)
    assert (told["compared_with_pdfium"], told["lose_words"]) == (2, 1)
    wild_report.print_report(found)
    assert "loses 3 characters  torn.pdf: due" in capsys.readouterr().out


def test_a_word_that_is_divided_otherwise_is_not_lost() -> None:
    new, apart = Counter(["newempty"]), Counter(["new", "empty"])
    assert wild_peers.lost(new, apart) == wild_peers.lost(apart, new) == 0
    assert wild_peers.lost(new + new, apart) == 8


def test_words_are_written_alike() -> None:
    found = wild_peers.normalised(["\ufb01le", "co\u00adop", "a\u00a0b", "\ue000", "x\u200b"])
    assert found == Counter(["file", "co-op", "a", "b", "x"])
    assert wild_peers.jaccard(Counter("aab"), Counter("abc")) == 2 / 4
    assert wild_peers.jaccard(Counter(), Counter()) == 1.0
