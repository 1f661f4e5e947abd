"""Runs a benchmark as a user does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hushdoc_processes import interpreter

from hushdoc.labels import LabelledDocument
from hushdoc_training import invented

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
Run = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Returns what runs a benchmark, for the object of its last line and all that it printed."""

    def run(name: str, *arguments: str) -> tuple[dict[str, Any], str]:
        done = interpreter(BENCHMARKS / f"{name}.py", *arguments, timeout=290)
        return json.loads(done.stdout.splitlines()[-1]), done.stdout

    return run


@pytest.fixture
def funsd(tmp_path: Path) -> Path:
    """Returns a folder of invented forms, as FUNSD has them."""
    data = tmp_path / "funsd"
    (data / "annotations").mkdir(parents=True)
    (data / "images").mkdir()
    config = invented.InventedConfig(document_types=("form",), labels="form")
    for index in range(24):
        labelled = invented.document(seed=3, index=index, config=config)
        name = f"form{index}"
        (data / "annotations" / f"{name}.json").write_text(json.dumps(as_funsd(labelled)))
        invented.image(seed=3, index=index, config=config).save(data / "images" / f"{name}.png")
    return data


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
