from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hushdoc.labels import LabelledDocument
from hushdoc_training import invented

KEYS = {
    "f1_nonprivate",
    "f1_dp_eps8_document",
    "f1_dp_eps20_document",
    "f1_dp_eps8_sequence",
    "retention_eps8_document",
}


def as_funsd(labelled: LabelledDocument) -> dict[str, object]:
    """Returns an invented form as FUNSD would annotate it."""
    page = labelled.document.pages[0]
    label_of = {index: s.label for s in labelled.spans for index in range(s.start, s.stop)}
    entities: dict[int, dict[str, object]] = {}
    words: dict[int, list[dict[str, object]]] = {}
    for index, word in enumerate(page.words):
        assert word.segment is not None
        entities.setdefault(
            word.segment,
            {"id": word.segment, "label": label_of.get(index, "other"), "linking": []},
        )
        words.setdefault(word.segment, []).append({"text": word.text, "box": word.box.to_list()})
    return {"form": [{**entity, "words": words[key]} for key, entity in entities.items()]}


@pytest.mark.slow
def test_quick_run_prints_every_figure(run: Any, tmp_path: Path) -> None:
    data = tmp_path / "forms"
    (data / "annotations").mkdir(parents=True)
    (data / "images").mkdir()
    config = invented.InventedConfig(document_types=("form",), labels="form")
    for index in range(42):
        labelled = invented.document(seed=3, index=index, config=config)
        name = f"form{index}"
        (data / "annotations" / f"{name}.json").write_text(json.dumps(as_funsd(labelled)))
        invented.image(seed=3, index=index, config=config).save(data / "images" / f"{name}.png")
    result, _ = run("kie_utility", "--quick", "--data", str(data))
    assert set(result) >= KEYS
    assert result["num_test"] == 5
    assert result["quick"] is True
