from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument, Question
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.models.vt5 import VT5
from hushdoc_training.recipes.docvqa.private import losses_of
from hushdoc_training.recipes.docvqa.rows import Example, examples_of, rows_of
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
                each = losses_of(start, [Example(rows=(row,)) for row in rows], device=CPU)
            assert found.loss == pytest.approx(float(each[0]), rel=3e-2)  # of bfloat16, maybe
            compared += 1
    assert compared


def test_a_vt5_says_what_it_learned_as_surely_as_its_tokens_are_likely() -> None:
    asked = Question(text="Who?", answers=("Kara Olo",), key="provider_name", word_ids=(0, 1))
    words = ["Kara", "Olo", "Umi", "12"]
    page = Document.from_words(words, [(0, 0, 9, 9)] * 4, width=99, height=99, id="one")
    known = LabelledDocument(document=page, spans=(), questions=(asked,), provider="Kara Olo")
    start = start_from(
        "tiny", architecture="vt5", max_tokens=64, max_question=40,
        vocabulary=lambda: [*words, "who", "question context", "total due"],
    )  # fmt: skip
    model = start.model.eval()
    assert isinstance(model, VT5)
    examples = examples_of([known], start.encoder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(20):
        losses_of(start, examples, device=CPU).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    nothing = replace(asked, text="Who else?", answers=(), word_ids=())
    document = replace(known, questions=(asked, nothing))
    [found, other] = Scorer(start=start, device=CPU).score([document])
    assert (found.prediction, found.exact_match, other.answers) == ("kara olo", 1.0, ())
    with torch.inference_mode():
        loss = float(losses_of(start, examples, device=CPU)[0])
    assert found.loss == pytest.approx(loss, rel=3e-2)
    # The end token is in the loss and not in the confidence.
    tokens = len(examples[0].rows[0].target)
    assert math.exp(-tokens * loss) <= found.confidence * 1.03 <= 1.03
    assert found.confidence ** (1 / (tokens - 1)) == pytest.approx(math.exp(-loss), abs=0.2)
