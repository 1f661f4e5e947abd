from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.recipes.docvqa.private import losses_of
from hushdoc_training.recipes.docvqa.rows import rows_of
from hushdoc_training.recipes.docvqa.scores import Scorer
from hushdoc_training.recipes.docvqa.start import start_from

CPU = torch.device("cpu")


def test_scores_are_of_words_of_the_page_and_losses_those_of_training() -> None:
    config = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")
    documents = list(stream.documents(seed=3, count=2, config=config))
    texts = [word.text for item in documents for word in item.document.pages[0].words]
    start = start_from("small", max_tokens=256, vocabulary=lambda: texts)
    scores = Scorer(start=start, device=CPU).score(documents)
    assert [found.text for found in scores] == [
        asked.text for item in documents for asked in item.questions
    ]
    pages = {
        item.document.id: " ".join(w.text for w in item.document.pages[0].words)
        for item in documents
    }
    start.model.eval()
    asked = [(item, question) for item in documents for question in item.questions]
    compared = 0
    for found, (item, question) in zip(scores, asked, strict=True):
        assert found.prediction is None or found.prediction in pages[found.document_id]
        assert 0 <= found.confidence <= 1
        rows = [
            row
            for row in rows_of([replace(item, questions=(question,))], start.encoder)
            if row.target.any()
        ]
        if rows:
            with torch.inference_mode():
                each = losses_of(start, rows, device=CPU)
            assert found.loss == pytest.approx(float(each[0]), rel=3e-2)  # of bfloat16, maybe
            compared += 1
    assert compared
