from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hushdoc.labels import LabelledDocument
from hushdoc_training.data import dataset, splits


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_search_learns_from_no_document_that_is_held_out(
    run: Any, funsd: Path, tmp_path: Path
) -> None:
    told = ("--quick", "--data", str(funsd), "--work", str(tmp_path / "work"))
    result, printed = run("kie_search", *told)
    assert printed.count("$ hushdoc train") == 3  # a start, the recipe's settings, noisy tokens
    assert set(result["f1"]) == {result["recipe"], f"{result['recipe']} --token-noise 0.1"}
    assert result["best"] in result["f1"]
    documents = dataset.read(dataset.Source(location=str(funsd)))
    outer = splits.split(documents, held_out=0.2, traits=splits.traits_of)
    assert result["num_train"] + result["num_scored"] == len(outer.train)
    read = dataset.read(dataset.Source(location=str(tmp_path / "work" / "funsd" / "train.jsonl")))
    learned, allowed = ids(read), ids(outer.train)
    assert learned < allowed
    assert len(learned) == result["num_train"]
    again, printed = run("kie_search", *told)
    assert again["f1"] == result["f1"]
    assert "$ hushdoc train" not in printed


def ids(documents: Any) -> set[str]:
    found: list[LabelledDocument] = list(documents)
    return {item.document.id for item in found}
