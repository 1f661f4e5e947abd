from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

FORM = [
    {"id": number, "label": label, "linking": [], "words": [
        {"text": text, "box": [20 + 60 * at, 30 * number + 30, 70 + 60 * at, 30 * number + 48]}
        for at, text in enumerate(texts.split())
    ]}
    for number, (label, texts) in enumerate(
        [("header", "ORDER FORM"), ("question", "Date :"), ("answer", "3 May 1990"),
         ("question", "Number :"), ("answer", "A 4711"), ("other", "Thank you")]
    )
]  # fmt: skip


def _funsd(folder: Path) -> None:
    (folder / "annotations").mkdir(parents=True)
    (folder / "images").mkdir()
    for name in ("a", "b", "c"):
        (folder / "annotations" / f"{name}.json").write_text(json.dumps({"form": FORM}))
        Image.new("L", (400, 300), 255).save(folder / "images" / f"{name}.png")


@pytest.mark.slow
def test_quick_run_prints_a_score_for_every_part(run: Any, tmp_path: Path) -> None:
    _funsd(tmp_path / "data" / "funsd")
    data, work = str(tmp_path / "data"), tmp_path / "work"
    result, shown = run("public_start", "--quick", "--data", data, "--work", str(work))
    assert set(result["f1"]["funsd"]) == {"documents", "invented", "masked", "all"}
    assert result["f1"]["funsd"]["documents"] == 3
    assert result["quick"] is True
    assert "last.toml" not in shown  # there is no other corpus
