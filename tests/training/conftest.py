from __future__ import annotations

import pytest
import torch

from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training.data import invented
from hushdoc_training.recipes import kie

torch.set_num_threads(1)  # tiny models: a second thread costs more than it brings


@pytest.fixture(scope="session")
def receipts() -> list[LabelledDocument]:
    config = invented.InventedConfig(kinds=("receipt",), labels="fields")
    return list(invented.documents(seed=5, count=24, config=config))


@pytest.fixture
def small_start(receipts: list[LabelledDocument]) -> kie.Start:
    return kie.start_from(
        "small",
        LabelSet.from_documents(receipts),
        max_tokens=64,
        vocabulary=lambda: [w.text for r in receipts for w in r.document.pages[0].words],
    )
