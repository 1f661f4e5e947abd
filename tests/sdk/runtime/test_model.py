"""What every model has: paths as documents, closing, a repr; results that equal their copies."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import pytest
from PIL import Image

import hushdoc
from hushdoc.document.document import Document
from hushdoc.errors import InputError, ModelClosedError
from hushdoc.runtime.extraction import Extraction
from hushdoc.runtime.scoring import Scoring

PAGE = Document.from_words(["Total", "12.50"], [(1, 2, 30, 9), (40, 2, 80, 9)], width=90, height=40)
ASK: Mapping[str, Callable[[Any, Any], Any]] = {
    "fields": lambda model, asked: model.extract(asked),
    "clauses": lambda model, asked: model.extract(asked),
    "classes": lambda model, asked: model.classify(asked),
    "images": lambda model, asked: model.classify(asked),
    "table of classes": lambda model, asked: model.classify(asked),
    "vectors": lambda model, asked: model.embed(asked),
    "answers": lambda model, asked: model.ask(asked, "Total?"),
}
"""What asks one model of each task."""

MANY = {"KIEModel": "extract_many", "HashedCRFModel": "extract_many"}
MANY |= {"ClassificationModel": "classify_many", "EmbeddingModel": "embed_many"}
MANY |= {"DocVQAModel": "ask_many"}


def ask_many(model: Any, items: list[Any]) -> Any:
    """Returns the stream of answers of a model of any task."""
    more = ("Total?",) if isinstance(model, hushdoc.DocVQAModel) else ()
    return getattr(model, MANY[type(model).__name__])(items, *more)


def loaded(name: str) -> Any:
    return hushdoc.load(tiny.artifact_of(name), policy=tiny.policy())


def file_for(name: str, folder: Path) -> Path:
    """Returns a file that such a model reads."""
    if name == "images":
        Image.new("RGB", (90, 40), "white").save(folder / "a.png")
        return folder / "a.png"
    (folder / "a.json").write_text(json.dumps(PAGE.to_dict()))
    return folder / "a.json"


@pytest.mark.parametrize("name", ASK)
def test_a_model_takes_paths_and_functions_and_is_asked_no_more_once_closed(
    name: str, tmp_path: Path
) -> None:
    path = file_for(name, tmp_path)
    ask = ASK[name]
    with loaded(name) as model:
        answer = ask(model, path)
        if name != "images":
            assert ask(model, partial(hushdoc.open_document, path, ocr="none")) == answer
        if name != "vectors":  # where a string is a text
            assert ask(model, str(path)) == answer
        stream = ask_many(model, [path, path])
        assert next(stream) == answer
    assert next(stream) == answer  # it had begun
    model.close()
    for asked in (
        lambda: ask(model, path),
        lambda: ask_many(model, [path]),
        model.__enter__,
    ):
        with pytest.raises(ModelClosedError, match="was closed and can't be asked") as raised:
            asked()
        assert raised.value.code == "MODEL_CLOSED"
    assert repr(model).endswith(", cpu, closed>")


@pytest.mark.parametrize("name", ["fields", "clauses", "vectors"])
def test_a_closed_model_gives_its_weights_back_once_the_last_call_ends(name: str) -> None:
    model = loaded(name)
    weights = weakref.ref(model._sealed if name == "clauses" else model._session)
    begun, closed = threading.Event(), threading.Event()

    def slow() -> Document:
        begun.set()
        assert closed.wait(60)
        return PAGE

    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ASK[name](model, slow)))
    thread.start()
    assert begun.wait(60)
    model.close()
    assert weights() is not None
    closed.set()
    thread.join()
    assert answers == [ASK[name](loaded(name), PAGE)]
    gc.collect()
    assert weights() is None


def test_closing_while_many_threads_ask_never_breaks_a_call() -> None:
    model = loaded("clauses")
    text = Document.from_text("It is governed by the laws of Utah. " * 20)
    expected, found, typed = model.extract(text), [], []

    def ask() -> None:
        while not typed:
            try:
                found.append(model.extract(text))
            except ModelClosedError as error:
                typed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(found) < 50:
        pass
    model.close()
    for thread in threads:
        thread.join(60)
    assert typed
    assert all(answer == expected for answer in found)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fields", "<hushdoc.KIEModel 'tiny-kie' version 1: 3 fields, epsilon "),
        ("clauses", "<hushdoc.HashedCRFModel 'tiny-table' version 1: 1 fields, epsilon "),
        ("table of classes", "<hushdoc.ClassificationModel 'tiny-table' version 1: 4 classes, eps"),
        ("vectors", "<hushdoc.EmbeddingModel 'tiny-kie' version 1: 48 dimensions, epsilon "),
    ],
)
def test_a_repr_names_the_artifact_its_guarantee_and_its_device(name: str, says: str) -> None:
    shown = repr(loaded(name))
    assert shown.startswith(says)
    assert shown.endswith(" at delta 1e-05 for a document against model-recipient, cpu>")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("none", "no guarantee for a document against"),
        ("empirical", "attacks measured, no guarantee for a document against"),
        ("dp-conditional", "delta 1e-05 on a condition for a document against"),
    ],
)
def test_a_repr_does_not_promise_what_is_not_proven(kind: str, says: str) -> None:
    model = loaded("clauses")
    claim = model.certificate.claim
    numbers = {} if kind == "dp-conditional" else {"epsilon": None, "delta": None}
    guarantee = replace(claim.guarantees[0], kind=kind, **numbers)
    model.certificate = replace(model.certificate, claim=replace(claim, guarantees=(guarantee,)))
    assert says in repr(model)
    assert ("epsilon" in repr(model)) == (kind == "dp-conditional")


def test_results_equal_their_copies_and_can_be_hashed() -> None:
    failure = next(iter(loaded("clauses").extract_many([None], on_error="collect")))
    fields = loaded("clauses").extract(PAGE)
    results = [
        fields,
        fields.fields[0] if fields.fields else PAGE.pages[0].words[0],
        loaded("table of classes").classify(PAGE),
        loaded("vectors").embed(PAGE),
        hushdoc.redact(PAGE, ()),
        failure,
        PAGE,
        PAGE.pages[0],
        tiny.policy(),
        hushdoc.Runtime(threads=2),
    ]
    for result in results:
        for twin in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert twin is not result
            assert twin == result
            assert hash(twin) == hash(result)
        assert result != "something else"


@pytest.mark.parametrize("name", ["fields", "table of classes"])
def test_a_model_is_loaded_where_it_is_needed_and_never_pickled(name: str) -> None:
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(InputError, match="let each process load the artifact"):
            copied(loaded(name))


def test_embeddings_differ_by_their_numbers_and_show_none_of_them() -> None:
    model = loaded("vectors")
    one, other = model.embed("the laws of Utah"), model.embed("the total due")
    assert one == model.embed_texts(["the laws of Utah"])
    assert one != other
    assert one != replace(one, level="page")
    assert len({one, other, copy.deepcopy(one)}) == 2
    shown = "document_id=None, level='text', vectors=<1 x 48 float32>, coverage=1, warnings=0"
    assert repr(one) == f"Embedding({shown})"


def test_a_string_is_a_text_where_texts_are_embedded(tmp_path: Path) -> None:
    model = loaded("vectors")
    (tmp_path / "a.txt").write_text("the laws of Utah")
    text = model.embed("the laws of Utah")
    assert (text.vector == model.embed(tmp_path / "a.txt").vector).all()
    assert (text.document_id, text.level, text.warnings) == (None, "text", ())
    (note,) = model.embed("letter.pdf").warnings
    assert "'letter.pdf' looks like a file's name" in note
    fields = loaded("fields").extract(PAGE).fields
    (label, *_) = model.embed("Total 12.50", level="field", fields=fields[:1]).labels
    assert label == fields[0].label


def test_answers_name_what_their_scores_were_calibrated_on() -> None:
    scoring = Scoring(fitted_on="public bills", num_answers=9)
    table = loaded("table of classes")
    assert table.classify(PAGE).calibrated_on is None
    answer = table.scored_by(scoring).classify(PAGE)
    assert answer.calibrated_on == answer.to_dict()["calibrated_on"] == "public bills"
    found = loaded("clauses").scored_by(scoring).extract(PAGE)
    assert found.calibrated_on == "public bills"
    assert Extraction.from_dict(found.to_dict()) == found
