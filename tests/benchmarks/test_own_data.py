from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hushdoc_training import invented

CORPUS = {"public", "not_private", "dp_eps8_document", "retention", "seconds"}


def written(folder: Path, name: str, lines: list[dict[str, Any]]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return path


def contracts(folder: Path) -> Path:
    clause = "This Agreement is governed by the laws of Ohio."
    texts = [f"The parties number {number} agree. {clause}" for number in range(40)]
    spans = [[["Governing Law", text.index(clause), len(text)]] for text in texts]
    pairs = zip(texts, spans, strict=True)
    return written(
        folder,
        "contracts",
        [{"id": str(n), "text": text, "spans": found} for n, (text, found) in enumerate(pairs)],
    )


def messages(folder: Path) -> Path:
    lines = [
        {"id": f"{label}{number}", "label": label, "text": f"{label} number {number} of goods"}
        for number in range(30)
        for label in ("bill", "order")
    ]
    return written(folder, "messages", lines)


@pytest.mark.slow
def test_quick_run_prints_every_figure_and_goes_on(run: Any, tmp_path: Path) -> None:
    config = invented.InventedConfig(document_types=("receipt",), labels="fields")
    pages = tmp_path / "pages"
    invented.write(pages, seed=1, count=24, config=config, images=False)
    data = [str(path) for path in (pages, contracts(tmp_path), messages(tmp_path))]
    told = ("--quick", "--work", str(tmp_path / "work"), "--data", *data)
    result, printed = run("own_data", *told)
    assert set(result["corpora"]) == {"pages", "contracts.jsonl", "messages.jsonl"}
    for found in result["corpora"].values():
        assert set(found) >= CORPUS
        assert len(found["each"]["dp_eps8_document"]) == 1
        assert 0 <= found["dp_eps8_document"] <= 1
    assert result["corpora"]["pages"]["public"] is not None
    assert result["corpora"]["contracts.jsonl"]["public"] is None
    assert result["corpora"]["messages.jsonl"]["not_private"] > 0.9
    assert result["quick"] is True
    assert printed.count("$ hushdoc train") == 7
    again, printed = run("own_data", *told)
    assert again["corpora"] == result["corpora"]
    assert "$ hushdoc train" not in printed
