"""The sample that makes a public start, on a few pages in the forms of real collections."""

from __future__ import annotations

import gzip
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hushdoc_training.checkpoint import Checkpoint

WORD = {"text": "Date", "box": [20, 20, 70, 40]}
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
    for name in ("annotations", "images"):
        (folder / "funsd" / name).mkdir(parents=True)
    line = {"id": 0, "label": "question", "linking": [], "words": [WORD]}
    (folder / "funsd" / "annotations" / "a.json").write_text(json.dumps({"form": [line]}))
    Image.new("L", (400, 300), 255).save(folder / "funsd" / "images" / "a.png")
    return folder


def test_a_start_is_made_and_kept_without_what_is_private_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    sample = runpy.run_path(str(SAMPLE))

    def made(*without: str, parts: tuple[str, ...] = ("--parts", "all")) -> str:
        folders = ("--data", str(tmp_path / "data"), "--out", str(out))
        small = ("--share", "0.0005", "--start", "small", "--public-overlap", "none", *parts)
        left_out = (part for name in without for part in ("--without", name))
        monkeypatch.setattr(sys, "argv", [str(SAMPLE), *folders, *small, *left_out])
        assert sample["main"]() == 0
        return capsys.readouterr().out

    def names(run: str) -> set[str]:
        return {data.name for data in Checkpoint.load(out / run).claim.public_data}

    _corpora(tmp_path / "data")
    assert f"The start is {out / 'invented'}." in made("sroie", parts=())
    assert not (out / "start-without-sroie").exists()
    assert f"The start is {out / 'start-without-sroie'}." in made("sroie")
    assert names("masked") == {"docmix docbank", "fcc_adbuy"}
    assert names("invented") > names("masked")
    last = names("start-without-sroie") - names("invented")
    assert {name for name in last if not name.startswith("more invented")} == {"funsd"}
    stored = Checkpoint.load(out / "start-without-sroie")
    overlaps = {data.overlap_with_protected for data in stored.claim.public_data}
    assert overlaps == {"none"}
    assert {"company", "menu.nm", "question", "vendor_name"} <= set(stored.labels.fields)
    assert made("sroie").count("done before") == 3
    # What is short is done again, and the start that reads no corpus is the one before it.
    assert f"The start is {out / 'invented'}." in made("funsd", "sroie")
    with pytest.raises(SystemExit, match="from fcc_adbuy, which --without leaves out"):
        made("docile")
