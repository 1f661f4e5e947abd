"""From a sealed table to clauses and entities with their places in the text."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import numpy as np
import pytest
from hushdoc_processes import in_python

from hushdoc import hashing
from hushdoc.document.document import Document
from hushdoc.document.page import Page
from hushdoc.errors import (
    ArtifactError,
    EmptyDocumentError,
    PolicyViolationError,
)
from hushdoc.hashing import Clusters, FeatureScheme, segmentation
from hushdoc.runtime.extraction import Extraction
from hushdoc.runtime.hashed import sealed_table
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.runtime.scoring import Scoring
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table
from hushdoc_training.table_checkpoint import TableCheckpoint

ROWS = 30_011  # a prime
SENTENCE = FeatureScheme(rows=ROWS, level="sentence", seed=9)
TOKEN = FeatureScheme(rows=ROWS, level="token", seed=9, bigrams=False, skip_grams=False, window=1)
TEXT = (
    "1. Term. This lasts for a year.\n2. Law. This Agreement is governed by the laws of Utah.\n"
    "It is construed under the laws of Utah. Nothing else matters. Acme Corp signs in Paris."
)
Seal = Callable[..., Path]


def scored(scheme: FeatureScheme, words: dict[str, int], columns: int) -> np.ndarray[Any, Any]:
    """Returns a filled table in which single words speak for a column and O for everything else."""
    weights = np.full((scheme.rows, columns), 1e-4, dtype=np.float32)
    weights[:, 0] += 2e-4
    alone = dataclasses.replace(scheme, bigrams=False, skip_grams=False, clusters=0)
    for word, column in words.items():
        found = hashing.features([[word]], alone)
        weights[found.indices, column] = 8.0
    return weights


@pytest.fixture
def seal(tmp_path: Path, key: Any) -> Seal:
    """Returns what seals a table whose words mark sentences or tokens."""

    def make(name: str = "model", *, dtype: str = "float16", **change: Any) -> Path:
        scheme = change.pop("scheme", SENTENCE)
        tags = change.pop("tags", ("O", "governing-law"))
        words = change.pop("words", {"laws": 1})
        parts = {
            "weights": scored(scheme, words, len(tags)),
            "transitions": np.zeros((len(tags),) * 2),
            "tags": tags,
            "scheme": scheme,
            "claim": build.claim(),
            **change,
        }
        release = Release(key=key, name="contracts", issuer="the tests")
        return seal_table(tmp_path / name, TableCheckpoint(**parts), release, dtype=dtype)

    return make


@pytest.fixture
def load(key: Any) -> Callable[..., HashedCRFModel]:
    return lambda folder, **options: HashedCRFModel.load(
        folder, policy=build.policy(key), **options
    )


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("low_memory", [False, True])
def test_neighbouring_sentences_of_one_label_are_one_clause(
    seal: Seal, load: Any, dtype: str, low_memory: bool
) -> None:
    model = load(seal(dtype=dtype), low_memory=low_memory)
    assert model.labels.fields == ("governing-law",)
    assert model.scheme == SENTENCE
    answer = model.extract(Document.from_text(TEXT, id="contract"))
    assert answer.document_id == "contract"
    (field,) = answer.fields
    assert field.label == "governing-law"
    assert field.text == (
        "This Agreement is governed by the laws of Utah.\nIt is construed under the laws of Utah."
    )
    assert TEXT[field.start : field.stop] == field.text
    assert 0.99 < field.score <= 1
    assert (field.box, field.normalized, field.word_ids, field.page) == (None, None, (), 0)
    assert Extraction.from_dict(json.loads(answer.to_json())) == answer
    (line,) = answer.to_rows()
    assert (line["start"], line["stop"], line["x0"]) == (field.start, field.stop, "")


def test_tokens_spell_entities(seal: Seal, load: Any) -> None:
    tags = ("O", "I-party", "B-party", "B-place")
    words = {"acme": 2, "corp": 1, "paris": 3, "utah": 3}
    model = load(seal(scheme=TOKEN, tags=tags, words=words))
    assert model.labels.fields == ("party", "place")
    found = model.extract(Document.from_text(TEXT)).fields
    assert [(field.label, field.text) for field in found] == [
        ("place", "Utah"),
        ("place", "Utah"),
        ("party", "Acme Corp"),
        ("place", "Paris"),
    ]
    for field in found:
        assert TEXT[field.start : field.stop] == field.text
        assert 0.99 < field.score <= 1


@pytest.mark.parametrize("scheme", [SENTENCE, TOKEN], ids=["sentence", "token"])
def test_where_a_text_is_divided_does_not_show(
    seal: Seal, load: Any, scheme: FeatureScheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = ("O", "law") if scheme is SENTENCE else ("O", "B-law")
    model = load(seal(scheme=scheme, tags=tags))
    document = Document.from_text("\n".join([TEXT] * 5))
    whole = model.extract(document)
    assert len(whole.fields) in (5, 10)
    monkeypatch.setattr(sealed_table, "BLOCK_CHARACTERS", 40)
    assert model.extract(document) == whole


def test_transitions_count(seal: Seal, load: Any) -> None:
    text = "Before. The laws. Then more. And more. The end."
    document = Document.from_text(text)
    (field,) = load(seal("loose")).extract(document).fields
    assert field.text == "The laws."
    sticky = seal("sticky", transitions=np.array([[0.0, 0.0], [-20.0, 20.0]]))
    (field,) = load(sticky).extract(document).fields
    assert field.stop == len(text)


def test_words_of_pages_keep_their_boxes(seal: Seal, load: Any) -> None:
    model = load(seal(scheme=TOKEN, tags=("O", "B-party", "I-party"), words={"acme": 1, "corp": 2}))
    words = ["Buyer:", "Acme", "Corp,", "Paris"]
    boxes = [(10 * i, 10, 10 * i + 8, 20) for i in range(4)]
    page = Document.from_words(words, boxes, width=100, height=50).pages[0]
    empty = Page(width=100, height=50, words=())
    answer = model.extract(Document(id="scan", pages=(empty, page)))
    (field,) = answer.fields
    assert (field.label, field.text, field.page) == ("party", "Acme Corp,", 1)
    assert field.word_ids == (1, 2)
    assert field.box.to_list() == [10, 10, 28, 20]
    assert field.normalized == (100, 200, 280, 400)
    assert (field.start, field.stop) == (None, None)


def test_a_page_of_many_fields_takes_linear_time(seal: Seal, load: Any) -> None:
    model = load(seal(scheme=TOKEN, tags=("O", "B-party"), words={"acme": 1}))
    words = ["acme", "and"] * 20_000
    boxes = [
        (10 * (i % 200), 10 * (i // 200), 10 * (i % 200) + 8, 10 * (i // 200) + 8)
        for i in range(len(words))
    ]
    document = Document.from_words(words, boxes, width=2000, height=2000)
    began = time.process_time()
    found = model.extract(document).fields
    # 2 s; where the page is gone through for each of its fields, more than a minute.
    assert time.process_time() - began < 20
    assert [field.word_ids for field in found] == [(i,) for i in range(0, len(words), 2)]


def test_clusters_speak_for_words_that_were_never_seen(seal: Seal, load: Any) -> None:
    scheme = FeatureScheme(rows=ROWS, level="sentence", seed=9, clusters=2)
    clusters = Clusters.of([("statutes", 1), ("laws", 1), ("cat", 0)], scheme)
    weights = np.full((ROWS, 2), 1e-4, dtype=np.float32)
    known = set(hashing.features([["laws"]], scheme, clusters).indices.tolist())
    (row,) = known & set(hashing.features([["statutes"]], scheme, clusters).indices.tolist())
    weights[row, 1] = 8.0
    model = load(seal(scheme=scheme, weights=weights, clusters=clusters))
    text = "Statutes apply. A cat sleeps. 法律适用。"
    assert [field.text for field in model.extract(Document.from_text(text)).fields] == [
        "Statutes apply."
    ]


@pytest.mark.parametrize("tags", [("O",), ("clause",)])
def test_one_label_alone_is_always_the_answer(seal: Seal, load: Any, tags: tuple[str, ...]) -> None:
    model = load(seal(tags=tags, words={}))
    found = model.extract(Document.from_text(TEXT)).fields
    assert [field.text for field in found] == ([] if tags == ("O",) else [TEXT])
    assert [field.score for field in found] == [1.0] * len(found)
    answer = model.scored_by(SCORES).extract(Document.from_text(TEXT))
    assert [field.score for field in answer.fields] == [0.9] * len(found)


STRANGE = {
    "NULs": "\x00\x00 laws\x00",
    "right to left": "تخضع هذه الاتفاقية لقوانين ولاية يوتا. laws",
    "emoji": "👩‍👩‍👧 laws 🇩🇪",
    "one letter": "x",
    "no letter": "....",
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("scheme", [SENTENCE, TOKEN], ids=["sentence", "token"])
def test_strange_texts_have_an_answer(
    seal: Seal, load: Any, name: str, scheme: FeatureScheme
) -> None:
    model = load(seal(scheme=scheme, tags=("O", "B-law")))
    text = STRANGE[name]
    fields = model.extract(Document.from_text(text)).fields
    assert len(fields) == ("laws" in text)
    assert all("laws" in text[field.start : field.stop] for field in fields)


@pytest.mark.parametrize("text", ["", " \n\t\u00a0"])
def test_nothing_to_read_is_an_error(seal: Seal, load: Any, text: str) -> None:
    with pytest.raises(EmptyDocumentError):
        Document.from_text(text)
    model = load(seal())
    blank = Document(id="blank", pages=(), text=text)
    for document in (blank, Document(id="none", pages=())):
        with pytest.raises(EmptyDocumentError, match=document.id):
            model.extract(document)


def test_models_of_pages_do_not_read_plain_texts() -> None:
    with pytest.raises(EmptyDocumentError):
        Document.from_text("The laws.").check()


@pytest.mark.slow
def test_fifty_megabytes_on_one_line_are_read(seal: Seal, load: Any) -> None:
    model = load(seal())
    line = "the party of the first part shall indemnify the other, "
    text = line * (50_000_000 // len(line)) + "under the laws"
    (field,) = model.extract(Document.from_text(text)).fields
    assert field.stop == len(text)
    assert len(field.text) <= segmentation.MAX_SENTENCE


def test_policies_are_asked(seal: Seal, key: Any) -> None:
    with pytest.raises(PolicyViolationError):
        HashedCRFModel.load(seal(), policy=build.policy(key, max_epsilon=0.1))


def resealed(folder: Path, key: Any, edit: Callable[[dict[str, Any]], object], file: str) -> Path:
    """Returns a soundly signed artifact with one of its JSON files changed: a wrong export."""
    from hushdoc.artifact.artifact import read_unverified

    stated = read_unverified(folder).certificate
    content = json.loads((folder / file).read_bytes())
    edit(content)
    (folder / file).write_text(json.dumps(content))
    names = ("hushdoc.json", "labels.json", "table.safetensors")
    contents = {name: (folder / name).read_bytes() for name in names}
    return build.seal(folder.with_name("resealed"), key, stated, contents)


@pytest.mark.parametrize(
    ("file", "edit"),
    [
        ("labels.json", lambda data: data.update(tags=["O"])),
        ("labels.json", lambda data: data.update(tags=["O", "O"])),
        ("labels.json", lambda data: data.update(tags=["O", 1])),
        ("labels.json", lambda data: data.update(tags=[])),
        ("labels.json", lambda data: data.pop("tags")),
        ("hushdoc.json", lambda data: data["preprocessing"].update(segmentation=99)),
        ("hushdoc.json", lambda data: data["preprocessing"].pop("features")),
        ("hushdoc.json", lambda data: data["preprocessing"]["features"].update(rows=100)),
        ("hushdoc.json", lambda data: data["preprocessing"]["features"].update(level="token")),
        ("hushdoc.json", lambda data: data["preprocessing"]["features"].update(clusters=2)),
    ],
)
def test_wrong_exports_are_refused(
    seal: Seal, load: Any, key: Any, file: str, edit: Callable[[dict[str, Any]], object]
) -> None:
    with pytest.raises(ArtifactError):
        load(resealed(seal(), key, edit, file))


SCORES = Scoring(
    raw=(0.0, 1.0), calibrated=(0.1, 0.9), threshold=0.6, fitted_on="public texts", num_answers=99
)
RARE = np.array([[0.0, -4.0, -4.0]] * 3)
"""Transitions of labels that nothing speaks for by itself."""

WEAK = 4.2
"""A weight that just outdoes that."""

TAGS = {"sentence": ("O", "law", "place"), "token": ("O", "B-law", "B-place")}


def calibrated(folder: Path, key: Any, scores: Any) -> Path:
    """Returns the artifact with a calibration in its manifest."""
    return resealed(
        folder, key, lambda data: data["preprocessing"].update(scores=scores), "hushdoc.json"
    )


@pytest.mark.parametrize("scheme", [SENTENCE, TOKEN], ids=["sentence", "token"])
def test_calibrated_fields_are_set_apart_and_none_is_lost(
    seal: Seal, load: Any, key: Any, scheme: FeatureScheme
) -> None:
    weights = scored(scheme, {"laws": 1, "paris": 2}, 3)
    weights[:, 2] = np.minimum(weights[:, 2], WEAK)
    raw_folder = seal(scheme=scheme, tags=TAGS[scheme.level], weights=weights, transitions=RARE)
    raw = load(raw_folder)
    model = load(calibrated(raw_folder, key, SCORES.to_dict()))
    assert model.scoring == SCORES
    assert raw.scoring is None
    document = Document.from_text(TEXT)
    before, after = raw.extract(document), model.extract(document)
    assert not before.below_threshold
    assert {field.label for field in after.fields} == {"law"}
    assert {field.label for field in after.below_threshold} == {"place"}
    everything = sorted((*after.fields, *after.below_threshold), key=lambda field: field.start)
    assert [dataclasses.replace(field, score=0.0) for field in everything] == [
        dataclasses.replace(field, score=0.0) for field in before.fields
    ]
    assert all(0.1 <= field.score < 0.6 for field in after.below_threshold)
    assert all(0.6 <= field.score <= 0.9 for field in after.fields)
    assert Extraction.from_dict(json.loads(after.to_json())) == after


def test_a_clause_is_as_sure_as_its_edges(seal: Seal, load: Any) -> None:
    tags, text = ("O", "law"), "Before. The laws. And after."
    model = load(seal(tags=tags, weights=scored(SENTENCE, {"laws": 1, "after": 0}, 2)))
    alone = Scoring(fitted_on="nothing", num_answers=0)
    (field,) = model.scored_by(alone).extract(Document.from_text(text)).fields
    # The clause itself is certain; that it does not begin earlier is a matter of a coin.
    assert field.text == "The laws."
    assert field.score == pytest.approx(0.5, abs=0.01)
    (field,) = model.extract(Document.from_text(text)).fields
    assert field.score > 0.99
    cold = dataclasses.replace(alone, temperature=1e-4)
    (field,) = model.scored_by(cold).extract(Document.from_text(text)).fields
    assert field.score > 0.9


@pytest.mark.parametrize("scheme", [SENTENCE, TOKEN], ids=["sentence", "token"])
def test_blocks_and_pages_do_not_show_in_scores(
    seal: Seal, load: Any, scheme: FeatureScheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(seal(scheme=scheme, tags=TAGS[scheme.level], transitions=RARE)).scored_by(SCORES)
    document = Document.from_text("\n".join([TEXT] * 30))
    whole = model.extract(document)
    monkeypatch.setattr(sealed_table, "BLOCK_CHARACTERS", 40)
    assert model.extract(document) == whole
    words = TEXT.split()
    boxes = [(10, 10 * row, 90, 10 * row + 8) for row in range(len(words))]
    pages = Document.from_words(words, boxes, width=100, height=10 * len(words))
    read = model.extract(pages)
    texts = model.extract(Document.from_text(" ".join(words)))
    assert [(item.label, item.score) for item in read.fields] == [
        (item.label, item.score) for item in texts.fields
    ]
    assert read.fields


@pytest.mark.parametrize(
    "change",
    [
        None,
        {"threshold": 2},
        {"temperature": 0},
        {"raw": [1, 0]},
        {"more": 1},
        {"num_answers": "99"},
    ],
)
def test_what_is_no_calibration_is_refused(
    seal: Seal, load: Any, key: Any, change: dict[str, Any] | None
) -> None:
    scores = None if change is None else {**SCORES.to_dict(), **change}
    with pytest.raises(ArtifactError, match="calibration can't be read"):
        load(calibrated(seal(), key, scores))


def test_the_base_install_is_enough(seal: Seal, key: Any) -> None:
    folder = seal()
    trust = folder.with_name("trust.json")
    trust.write_bytes(build.trust(key).to_json())
    program = (
        "import sys\n"
        "for name in ('onnxruntime', 'tokenizers', 'safetensors', 'torch', 'PIL'):\n"
        "    sys.modules[name] = None\n"
        "import hushdoc\n"
        "from hushdoc import Document, Policy, TrustStore\n"
        f"trust = TrustStore.from_json(open({str(trust)!r}, 'rb').read())\n"
        "policy = Policy(trust=trust, max_epsilon=8, max_delta=1e-5, privacy_units={'document'})\n"
        f"model = hushdoc.load({str(folder)!r}, policy=policy)\n"
        "print(model.extract(Document.from_text('The laws.')).fields[0].label)\n"
    )
    assert in_python(program).stdout == "governing-law\n"
