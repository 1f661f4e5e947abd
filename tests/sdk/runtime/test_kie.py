"""Documents in, fields out: a real artifact, exported from a tiny model, loaded and run."""

from __future__ import annotations

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import numpy as np
import pytest
from hushdoc_documents import document, page
from hushdoc_processes import in_python
from hypothesis import given
from hypothesis import strategies as st

import hushdoc
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Word, union
from hushdoc.errors import (
    ArtifactError,
    BoxError,
    EmptyDocumentError,
    HushdocError,
    InputError,
    LimitExceededError,
    PolicyViolationError,
    TaskMismatchError,
)
from hushdoc.labels import LabelSet
from hushdoc.reading import with_segments
from hushdoc.runtime import windows
from hushdoc.runtime.extraction import Failure
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Runtime


@pytest.fixture(scope="module")
def model() -> KIEModel:
    return KIEModel.load(tiny.sealed(), policy=tiny.policy(), runtime=Runtime(threads=1))


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_an_exported_model_answers_like_its_checkpoint(architecture: str) -> None:
    folder = tiny.sealed(architecture)
    assert hushdoc.verify(folder, tiny.policy()).passed
    loaded = hushdoc.load(folder, policy=tiny.policy())
    asked = page(9)
    answer = loaded.extract(Document(id="d", pages=(asked,)))
    found = [(field.label, field.word_ids, field.score) for field in answer.fields]
    tiny_models = pytest.importorskip("hushdoc_tiny_models")
    expected = tiny_models.fields_by_torch(tiny_models.model(architecture), asked)
    assert [item[:2] for item in found] == [item[:2] for item in expected]
    assert [item[2] for item in found] == pytest.approx([item[2] for item in expected], abs=1e-5)
    assert len(found) > 1
    assert answer.coverage == 1
    assert answer.warnings == ()


def test_a_model_of_words_alone_reads_no_box_and_plain_texts_too() -> None:
    folder = tiny.sealed("roberta")
    manifest = json.loads((folder / "hushdoc.json").read_text())
    assert [port["name"] for port in manifest["inputs"]] == ["input_ids", "attention_mask"]
    assert manifest["preprocessing"]["box_level"] == "none"
    loaded = hushdoc.KIEModel.load(folder, policy=tiny.policy())
    asked = page(9)
    far = [replace(word, box=Box(x0=0, y0=0, x1=1, y1=1)) for word in asked.words]
    answers = [
        loaded.extract(Document(id="d", pages=(one,)))
        for one in (asked, replace(asked, words=tuple(far)))
    ]
    parts = [(field.label, field.word_ids, field.score) for field in answers[0].fields]
    assert parts == [(field.label, field.word_ids, field.score) for field in answers[1].fields]
    words = [word.text for word in asked.words]
    text = "\n ".join(words) + "\n"
    found = loaded.extract(Document.from_text(text)).fields
    assert [(field.label, field.text.split(), field.score) for field in found] == [
        (label, [words[index] for index in ids], score) for label, ids, score in parts
    ]
    assert len(found) > 1
    assert all(text[field.start : field.stop] == field.text for field in found)
    with pytest.raises(LimitExceededError, match="word 1 of 'document' has 10001 characters"):
        loaded.extract(Document.from_text("a " + "b" * 10_001))


def test_a_model_of_boxes_reads_no_plain_text(model: KIEModel) -> None:
    with pytest.raises(TaskMismatchError, match="plain text"):
        model.extract(Document.from_text("Total 12.50"))


def test_fields_carry_text_box_and_words(model: KIEModel) -> None:
    asked = document(20)
    answer = model.extract(asked)
    words = asked.pages[0].words
    assert answer.fields
    for field in answer.fields:
        members = [words[index] for index in field.word_ids]
        assert field.text == " ".join(word.text for word in members)
        assert field.box == union(word.box for word in members)
        assert field.normalized == field.box.normalized(width=640, height=asked.pages[0].height)
        assert field.label in model.labels.fields
        assert 0 < field.score <= 1
    assert answer.timings.total_seconds > 0


def test_pages_do_not_influence_one_another(model: KIEModel) -> None:
    together = model.extract(document(9, 30, 4))
    for number, count in enumerate((9, 30, 4)):
        alone = model.extract(Document(id="d", pages=(page(count, shift=number),)))
        found = [field for field in together.fields if field.page == number]
        assert [field.word_ids for field in found] == [field.word_ids for field in alone.fields]
        assert [field.score for field in found] == pytest.approx(
            [field.score for field in alone.fields], abs=1e-5
        )
    assert [field.page for field in together.fields] == sorted(
        field.page for field in together.fields
    )


def test_pages_do_not_influence_one_another_in_bytes_either() -> None:
    folder = tiny.sealed_variant("int8")
    model = KIEModel.load(folder, policy=tiny.policy(), runtime=Runtime(threads=1))
    together = model.extract(document(9, 30, 400, 4))
    for number, count in enumerate((9, 30, 400, 4)):
        alone = model.extract(Document(id="d", pages=(page(count, shift=number),)))
        assert [replace(field, page=number) for field in alone.fields] == [
            field for field in together.fields if field.page == number
        ]


def test_a_page_without_words_between_others_is_passed_over(model: KIEModel) -> None:
    empty = replace(page(1), words=())
    answer = model.extract(Document(id="d", pages=(page(5), empty, page(5))))
    assert {field.page for field in answer.fields} == {0, 2}


def test_a_long_page_is_read_to_its_end(model: KIEModel) -> None:
    answer = model.extract(document(2000))
    assert answer.coverage == 1
    assert answer.warnings == ()
    found = {word for field in answer.fields for word in field.word_ids}
    assert min(found) < 30
    assert max(found) > 1970


def test_no_word_is_lost_where_windows_meet(model: KIEModel) -> None:
    """Every word of a long page gets the scores of exactly one window that held it."""
    asked = page(120)
    encoded = model._encoder.encode(asked)
    parts = [
        windows.Window(page=0, start=start, stop=stop)
        for start, stop in windows.split(encoded, capacity=62, overlap=16)
    ]
    assert len(parts) > 5
    outputs = model._run([encoded], parts)
    scores = model._word_scores(0, encoded, outputs)
    assert scores.shape == (120, len(model.labels.tags))
    for word, row in enumerate(scores):
        token = int(np.flatnonzero(encoded.words == word)[0])
        candidates = [
            outputs[part][token - part.start] for part in parts if part.start <= token < part.stop
        ]
        assert any(np.allclose(row, candidate, atol=1e-6) for candidate in candidates)


@given(lengths=st.lists(st.integers(1, 600), max_size=60))
def test_batches_are_bounded_and_hold_each_window_once(lengths: list[int]) -> None:
    parts = [windows.Window(page=0, start=i, stop=i + length) for i, length in enumerate(lengths)]
    made = list(windows.batches(parts, max_tokens=512))
    assert sorted(part.start for batch in made for part in batch) == list(range(len(parts)))
    for batch in made:
        longest = max(part.num_tokens for part in batch) + 2
        assert len(batch) == 1 or len(batch) * longest <= 512
        assert all(2 * (part.num_tokens + 2) >= longest for part in batch)


def with_word(word: Word) -> Document:
    return Document(id="bad", pages=(replace(page(3), words=(*page(3).words, word)),))


BOX = Box(x0=1, y0=1, x1=9, y1=9)
BAD = [
    (with_word(Word(text="a", box=replace(BOX, x0=math.nan))), BoxError, "finite"),
    (with_word(Word(text="a", box=replace(BOX, x1=5000))), BoxError, "outside its page"),
    (with_word(Word(text="a", box=replace(BOX, x1=-5))), BoxError, "corners swapped"),
    (with_word(Word(text="a\ud800", box=BOX)), InputError, "not valid Unicode"),
    (Document(id="bad", pages=()), EmptyDocumentError, "no word"),
    (Document(id="bad", pages=(replace(page(1), words=()),)), EmptyDocumentError, "no word"),
    (Document(id="bad", pages=(replace(page(1), width=0),)), InputError, "must be positive"),
]


@pytest.mark.parametrize(("bad", "error", "text"), BAD)
def test_bad_input_is_a_typed_error_and_the_next_call_works(
    model: KIEModel, bad: Document, error: type[HushdocError], text: str
) -> None:
    before = model.extract(document(9))
    with pytest.raises(error, match=text):
        model.extract(bad)
    assert model.extract(document(9)) == before


def test_workers_answer_like_one_after_the_other(model: KIEModel) -> None:
    asked = [document(3 * n + 1, id=str(n)) for n in range(12)]
    asked.insert(5, Document(id="empty", pages=()))
    alone = list(model.extract_many(asked, on_error="collect"))
    together = list(model.extract_many(iter(asked), workers=3, on_error="collect"))
    assert [type(item) for item in together] == [type(item) for item in alone]
    failure = together.pop(5)
    assert isinstance(alone.pop(5), Failure)
    assert together == alone
    assert isinstance(failure, Failure)
    assert failure.error.code == "EMPTY_DOCUMENT"


def test_eight_threads_answer_like_one(model: KIEModel) -> None:
    documents = [document(5 + 7 * number, 30) for number in range(24)]
    alone = [model.extract(item) for item in documents]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(model.extract, documents))
    assert together == alone


def test_words_that_were_not_read_are_told(model: KIEModel) -> None:
    unread = Word(text="\u200b", box=BOX)
    long = Word(text="x" * 90, box=BOX)
    asked = Document(id="d", pages=(replace(page(3), words=(*page(3).words, unread, long)),))
    answer = model.extract(asked)
    assert answer.coverage == pytest.approx(3 / 5)
    no_token, cut = answer.warnings
    assert "no token for 1 word (3)" in no_token
    assert "1 word (4) exceed one whole window of 62 tokens" in cut


def test_a_page_that_cannot_be_read_at_all_has_no_fields(model: KIEModel) -> None:
    words = (Word(text="\u200d", box=BOX), Word(text="\u200b", box=BOX))
    answer = model.extract(Document(id="d", pages=(replace(page(1), words=words),)))
    assert (answer.fields, answer.coverage) == ((), 0)


def test_a_segment_model_says_when_segments_are_missing(tmp_path: Path) -> None:
    settings = tiny.preprocessing(box_level="segment")
    folder = tiny.resealed(tmp_path / "artifact", settings=settings)
    loaded = KIEModel.load(folder, policy=tiny.policy())
    answer = loaded.extract(document(14))
    (warning,) = answer.warnings
    assert "page 0 has none: lines were found" in warning
    given = loaded.extract(with_segments(document(14)))
    assert given.fields == answer.fields
    assert given.warnings == ()
    told = replace(page(4), words=tuple(replace(word, segment=0) for word in page(4).words))
    assert loaded.extract(Document(id="d", pages=(told,))).warnings == ()
    blank = Document(id="d", pages=(replace(told, words=()), told, replace(told, words=())))
    fields = loaded.extract(Document(id="d", pages=(told,))).fields
    assert loaded.extract(blank).fields == tuple(replace(field, page=1) for field in fields)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"labels": LabelSet(fields=("date", "total"))}, "with 2 fields needs one of .* 5"),
        ({"tokenizer": b"{}"}, "tokenizer can't be read"),
        ({"inputs": ("input_ids",)}, "manifest"),
    ],
)
def test_parts_that_do_not_fit_are_an_artifact_error(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    folder = tiny.resealed(tmp_path / "artifact", **change)
    with pytest.raises(ArtifactError, match=text):
        KIEModel.load(folder, policy=tiny.policy())


def test_a_graph_that_fails_on_long_windows_is_an_artifact_error(tmp_path: Path) -> None:
    settings = tiny.preprocessing(max_tokens=200)
    folder = tiny.resealed(tmp_path / "artifact", settings=settings)
    loaded = KIEModel.load(folder, policy=tiny.policy())
    with pytest.raises(ArtifactError, match="The graph failed"):
        loaded.extract(document(100))
    assert loaded.extract(document(3)).coverage == 1


def test_a_memory_limit_costs_time_and_no_answer(model: KIEModel) -> None:
    size = (tiny.sealed() / "onnx" / "model.onnx").stat().st_size
    runtime = Runtime(threads=1, memory_limit=size + 4_000)
    tight = KIEModel.load(tiny.sealed(), policy=tiny.policy(), runtime=runtime)
    encoded = tight._encoder.encode(page(400))
    together = tight._encoder.batch([(encoded, 0, 50)] * 40)
    with pytest.raises(LimitExceededError, match="memory_limit"):
        tight._session.run(together)
    asked = document(400, 400)
    found, expected = tight.extract(asked).fields, model.extract(asked).fields
    assert [field.word_ids for field in found] == [field.word_ids for field in expected]
    assert [field.score for field in found] == pytest.approx(
        [field.score for field in expected], abs=1e-5
    )
    with pytest.raises(LimitExceededError):
        KIEModel.load(tiny.sealed(), policy=tiny.policy(), runtime=Runtime(memory_limit=1000))


def test_a_flipped_weight_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    shutil.copytree(tiny.sealed(), folder)
    content = bytearray((folder / "onnx" / "model.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "onnx" / "model.onnx").write_bytes(content)
    with pytest.raises(ArtifactError) as raised:
        KIEModel.load(folder, policy=tiny.policy())
    assert raised.value.code == "DIGEST_MISMATCH"


def test_a_refused_model_never_reaches_the_runtime(tmp_path: Path) -> None:
    (tmp_path / "trust.json").write_bytes(tiny.TRUST.to_json())
    code = (
        "import sys, hushdoc\n"
        "trust = hushdoc.TrustStore.from_file(sys.argv[2])\n"
        "policy = hushdoc.Policy(trust=trust, max_epsilon=0.1, max_delta=1e-5,\n"
        "                        privacy_units={'document'})\n"
        "try:\n    hushdoc.KIEModel.load(sys.argv[1], policy=policy)\n"
        "except hushdoc.PolicyViolationError as error:\n    print(error.code)\n"
        "print('onnxruntime' in sys.modules)\n"
    )
    done = in_python(code, tiny.sealed(), tmp_path / "trust.json")
    assert done.stdout == "EPSILON_TOO_LARGE\nFalse\n"
    with pytest.raises(PolicyViolationError):
        hushdoc.load(tiny.sealed(), policy=tiny.policy(max_epsilon=0.1))


def test_the_certificate_travels_with_the_model(model: KIEModel) -> None:
    assert model.certificate.model.name == "tiny-kie"
    assert model.certificate.claim.to_json() == tiny.claim().to_json()
    assert model._session.metadata["hushdoc.certificate_id"] == model.certificate.certificate_id
