"""The order of words from training through export to answers, and where exports measure answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import hushdoc_tiny as tiny
import pytest
from hushdoc_documents import scrambled
from hushdoc_smaller import smaller

from hushdoc.__main__ import main
from hushdoc.labels import LabelledDocument, Span, spans_from_words
from hushdoc.policy.policy import Policy
from hushdoc.runtime.extraction import Extraction
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Runtime
from hushdoc_export import field_agreement, kie
from hushdoc_export.calibration import field_answers
from hushdoc_training import invented


def found(answer: Extraction, numbers: Sequence[int]) -> list[tuple[str, str, list[int], float]]:
    return [
        (field.label, field.text, [numbers[index] for index in field.word_ids], field.score)
        for field in answer.fields
    ]


@smaller()
@pytest.mark.parametrize("order", [pytest.param("given", marks=pytest.mark.slow), "reading"])
def test_what_training_chose_is_what_the_artifact_does(tmp_path: Path, order: str) -> None:
    run, out = tmp_path / "run", tmp_path / "artifact"
    asked = ["train", "kie", "--data", "invented:receipt", "--documents", "6", "--public"]
    small = ["--start", "small", "--max-tokens", "64", "--epochs", "0.1", "--quiet"]
    chosen = ["--word-order", "reading"] if order == "reading" else []
    assert main([*asked, *small, *chosen, "--out", str(run)]) == 0
    kie.export(run, out, tiny.release())
    manifest = json.loads((out / "hushdoc.json").read_text())
    assert manifest["preprocessing"]["word_order"] == order
    model = KIEModel.load(
        out, policy=Policy.integrity_only(trust=tiny.TRUST), runtime=Runtime(threads=1)
    )
    config = invented.InventedConfig(document_types=("receipt",))
    documents = [item.document for item in invented.documents(seed=8, count=3, config=config)]
    straight = [found(model.extract(item), range(item.num_words)) for item in documents]
    moved = [scrambled(item, seed) for seed, item in enumerate(documents)]
    answers = [found(model.extract(item), numbers) for item, numbers in moved]
    assert any(straight)
    assert (answers == straight) is (order == "reading")


def test_answers_are_held_against_labels_by_the_documents_own_numbers(tmp_path: Path) -> None:
    folder = tiny.resealed(tmp_path / "artifact", settings=tiny.preprocessing(word_order="reading"))
    model = KIEModel.load(folder, policy=tiny.policy(), runtime=Runtime(threads=1))
    config = invented.InventedConfig(document_types=("receipt",))
    (item,) = invented.documents(seed=4, count=1, config=config)
    document, _ = scrambled(item.document, 2)
    fields = model.extract(document).fields
    torn = [field for field in fields if len(_spans(field.label, field.word_ids)) > 1]
    assert torn
    whole = [field for field in fields if field not in torn]
    assert whole
    labelled = LabelledDocument(
        document=document,
        spans=tuple(span for field in whole for span in _spans(field.label, field.word_ids)),
    )
    answers = field_answers(model, [labelled])
    assert answers.right.tolist() == [field in whole for field in fields]
    (spans,) = field_agreement.fields_of(model, [labelled])
    assert set(labelled.spans) <= set(spans)
    members = {(span.label, word) for span in spans for word in range(span.start, span.stop)}
    assert members == {(field.label, word) for field in fields for word in field.word_ids}


def _spans(label: str, words: Sequence[int]) -> list[Span]:
    return spans_from_words(words, label=label)
