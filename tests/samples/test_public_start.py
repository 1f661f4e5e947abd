"""The sample that makes a public start, on a few pages in the forms of real collections."""

from __future__ import annotations

import gzip
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from hushdoc_training.checkpoint import Checkpoint

SAMPLE = Path(__file__).parents[2] / "samples" / "public_start.py"


def _write(path: Path, *entries: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True)
    with gzip.open(path, "wt") as stream:
        stream.writelines(json.dumps(entry) + "\n" for entry in entries)


def _corpora(folder: Path) -> Path:
    boxes = [[10, 20 * n, 400 + n, 20 * n + 15] for n in range(1, 40)]
    _write(
        folder / "docmix" / "train.jsonl.gz",
        {"file": "a/1.webp", "source": "sroie", "boxes_1000": [*boxes, [5, 5, 5, 9]]},
        {"file": "b/2.webp", "source": "docbank", "boxes_1000": boxes},
    )
    words = [[f"word{n}", 5.0 * n, 10.0, 5.0 * n + 4, 19.5] for n in range(60)]
    page = {
        "page": 0,
        "width": 612.0,
        "height": 792.0,
        "words": [*words, ["", 1, 1, 2, 2], ["\x8b", 1, 1, 2, 2]],
    }
    _write(
        folder / "fcc_adbuy" / "train.jsonl.gz", {"id": "x", "pages": [page, page | {"page": 1}]}
    )
    return folder


def test_a_start_is_made_and_kept_without_what_is_private_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = ("--data", _corpora(tmp_path / "data"), "--out", tmp_path / "out")
    small = ("--share", "0.0005", "--start", "small", "--public-overlap", "none")
    line = (SAMPLE, *folders, *small, "--without", "sroie")
    monkeypatch.setattr(sys, "argv", [str(part) for part in line])
    sample = runpy.run_path(str(SAMPLE))
    assert sample["main"]() == 0
    assert "--without 'docmix sroie'" in capsys.readouterr().out
    masked = Checkpoint.load(tmp_path / "out" / "masked")
    names = {data.name for data in masked.claim.public_data}
    assert names == {"docmix docbank", "fcc_adbuy"}
    stored = Checkpoint.load(tmp_path / "out" / "start")
    overlaps = {data.overlap_with_protected for data in stored.claim.public_data}
    assert overlaps == {"none"}
    assert {"company", "menu.nm", "question", "vendor_name"} <= set(stored.labels.fields)
    assert names < {data.name for data in stored.claim.public_data}
    assert sample["main"]() == 0
    assert capsys.readouterr().out.count("done before") == 2
    private = [str(part) for part in (SAMPLE, *folders, *small, "--without", "docile")]
    monkeypatch.setattr(sys, "argv", private)
    with pytest.raises(SystemExit, match="2"):
        sample["main"]()
    assert "from fcc_adbuy, which --without leaves out" in capsys.readouterr().err
