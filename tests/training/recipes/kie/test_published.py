"""Published encoders as starts: their tokenizers, their windows, and what they read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_published as published
import pytest
import torch
from kie_training import PLAN, train_private
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout, tokenizer_files, vt5_start
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.kie import pretraining, private, training
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie.examples import examples_of, losses_of
from hushdoc_training.recipes.kie.records import records_of

LABELS = LabelSet(fields=("date", "total"))
PIECES = ("▁发票", "票", "▁total", "t", "o", "a", "l", "1", "2", ".", "5", "0")
FEW = replace(PLAN, steps=2)
CPU = torch.device("cpu")

Publish = Callable[..., Path]


def texts_of(documents: Sequence[LabelledDocument]) -> list[str]:
    return [word.text for item in documents for word in item.document.pages[0].words]


@pytest.fixture
def encoders(tmp_path: Path, receipts: list[LabelledDocument]) -> Publish:
    """Writes an encoder with the tokenizer that is published with it."""

    def write(architecture: str, **settings: Any) -> Path:
        texts = texts_of(receipts)
        tokenizer = {
            "bert": lambda: Tokenizer.from_str(layout.wordpiece(texts, vocab_size=500)),
            "roberta": lambda: published.byte_level(texts),
            "layoutlmv3": lambda: published.sentencepiece_model(sorted({*"".join(texts)})),
        }[architecture]()
        images = published.IMAGES if architecture == "layoutlmv3" else {}
        folder = tmp_path / architecture
        return published.publish(folder, architecture, tokenizer, **{**images, **settings})

    return write


def tokens(tokenizer_json: str, words: Sequence[str]) -> tuple[list[str], list[int]]:
    found = Tokenizer.from_str(tokenizer_json).encode(
        list(words), is_pretokenized=True, add_special_tokens=False
    )
    return found.tokens, found.ids


def test_robertas_words_begin_as_inside_of_a_text(tmp_path: Path) -> None:
    tokenizer = published.byte_level(["total total date total"])
    whole = tokenizer.encode(" total date", add_special_tokens=False)
    assert [token[0] for token in whole.tokens] == ["Ġ", "Ġ"]
    folder = published.publish(tmp_path / "encoder", "roberta", tokenizer)
    _, tokenizer_json, special = layout.pretrained(str(folder), LABELS)
    assert tokens(tokenizer_json, ["total", "date"]) == (whole.tokens, whole.ids)
    assert (special.cls_id, special.pad_id, special.sep_id) == (0, 1, 2)


@pytest.mark.parametrize(
    ("architecture", "labels"),
    [("bert", LABELS), ("layoutlmv3", LabelSet(fields=("a", "b", "c", "d", "e")))],
)
def test_the_output_layer_of_a_published_classifier_is_not_kept(
    encoders: Publish, architecture: str, labels: LabelSet
) -> None:
    """Its tags are others, be they as many; LayoutLMv3's has a layer before it from ten tags on."""
    folder = encoders(architecture, num_labels=len(labels.tags))
    weights = load_file(folder / "model.safetensors")
    head = [name for name in weights if name.startswith("classifier.")]
    assert len(head) == (2 if architecture == "bert" else 4)
    save_file(
        {**weights, **{name: weights[name] + 3 for name in head}}, folder / "model.safetensors"
    )
    model, _, _ = layout.pretrained(str(folder), labels)
    found = model.inner.state_dict()
    assert all(found[name].abs().max() < 1 for name in head)
    kept = next(name for name in weights if name.endswith("word_embeddings.weight"))
    assert torch.equal(found[kept], weights[kept])


def test_of_an_encoder_without_a_layer_the_output_layer_reads_one_state(encoders: Publish) -> None:
    model, _, _ = layout.pretrained(str(encoders("bert", num_hidden_layers=0)), LABELS)
    assert layout.most_read(model) == 1
    assert model.read_layers == []
    assert model(*model.probe(8)).shape == (2, 8, len(LABELS.tags))


def test_layoutlmv3_keeps_the_tokenizer_of_xlm_r(tmp_path: Path) -> None:
    """What transformers reads for LayoutLMv3 drops each character of the first word."""
    made = published.unigram(PIECES)
    folders = [
        published.publish(tmp_path / f"encoder{number}", "layoutlmv3", one, **published.IMAGES)
        for number, one in enumerate((made, published.sentencepiece_model(PIECES)))
    ]
    for folder in folders:
        _, tokenizer_json, special = layout.pretrained(str(folder), LABELS)
        names = ["▁发票", "▁total", "▁", "1", "2", ".", "5", "0"]
        ids = [made.token_to_id(name) for name in names]
        assert tokens(tokenizer_json, ["发票", "total", "12.50"]) == (names, ids)
        assert (special.cls_id, special.pad_id, special.sep_id) == (0, 1, 2)
        assert Tokenizer.from_str(tokenizer_json).token_to_id("<unk>") == 3
        assert tokenizer_files.largest_id(tokenizer_json) == made.token_to_id("<mask>")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "can't be loaded as an encoder"),
        ('{"model": {"type": "Strange"}}', "tokenizer.json is malformed"),
    ],
)
def test_a_damaged_tokenizer_is_one_error(encoders: Publish, content: str, message: str) -> None:
    folder = encoders("roberta")
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        layout.pretrained(str(folder), LABELS)


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_a_model_that_was_saved_without_its_tokenizer_is_refused(
    encoders: Publish, architecture: str
) -> None:
    """transformers makes up one, which knows no word."""
    folder = encoders(architecture)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match="no other file with its vocabulary"):
        layout.pretrained(str(folder), LABELS)


@pytest.mark.parametrize("start", ["runs/public", "./other", "a/b/c"])
def test_a_mistyped_folder_is_asked_of_no_hub(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="There is no folder"):
        layout.pretrained(start, LABELS)
    with pytest.raises(CheckpointError, match="There is no folder"):
        vt5_start.is_reference(start)


def test_a_damaged_sentencepiece_model_is_one_error(encoders: Publish) -> None:
    folder = encoders("layoutlmv3")
    (folder / "sentencepiece.bpe.model").write_bytes(b"\xff\x01 no model")
    with pytest.raises(CheckpointError, match="can't be converted"):
        layout.pretrained(str(folder), LABELS)


def test_a_tokenizer_of_another_model_is_refused(encoders: Publish) -> None:
    with pytest.raises(CheckpointError, match="has 300 word embeddings"):
        layout.pretrained(str(encoders("roberta", vocab_size=300)), LABELS)
    with pytest.raises(CheckpointError, match="pads with the id 1 .* other than 2"):
        layout.pretrained(str(encoders("roberta", pad_token_id=2)), LABELS)
    folder = encoders("bert")
    nameless = (folder / "tokenizer.json").read_text().replace("[CLS]", "[START]")
    (folder / "tokenizer.json").write_text(nameless)
    with pytest.raises(CheckpointError, match=r"expected \[CLS\], .* or <s>"):
        layout.pretrained(str(folder), LABELS)


@pytest.mark.parametrize(("architecture", "most"), [("bert", 130), ("roberta", 128)])
def test_windows_have_a_position_for_each_token(
    encoders: Publish, architecture: str, most: int
) -> None:
    folder = str(encoders(architecture))
    start = kie_start.start_from(folder, LABELS, max_tokens=most)
    ids = torch.full((1, most), 9)
    start.model.eval()(ids, torch.zeros(1, most, 4, dtype=torch.int64), torch.ones_like(ids))
    with pytest.raises(CheckpointError, match=f"positions for {most}"):
        kie_start.start_from(folder, LABELS, max_tokens=most + 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_in_half_precision_are_trained_in_float32(
    encoders: Publish, tmp_path: Path, dtype: torch.dtype
) -> None:
    folder = encoders("bert")
    model = layout._class("bert").from_pretrained(folder).to(dtype)
    model.save_pretrained(folder)
    start = kie_start.start_from(str(folder), LABELS)
    assert {value.dtype for value in start.model.parameters()} == {torch.float32}
    start.model.to(dtype).save(tmp_path / "run")
    again = layout.load(tmp_path / "run", "bert")
    assert {value.dtype for value in again.parameters()} == {torch.float32}


def test_a_model_that_lacks_edges_of_boxes_is_refused(encoders: Publish) -> None:
    folder = str(encoders("layoutlmv3", max_2d_position_embeddings=1000))
    with pytest.raises(CheckpointError, match="embeddings for 1000 .*at least 1001"):
        kie_start.start_from(folder, LABELS)


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_a_row_of_words_alone_depends_on_no_box_and_on_no_padding(
    encoders: Publish, architecture: str
) -> None:
    start = kie_start.start_from(str(encoders(architecture)), LABELS)
    assert (start.preprocessing.box_level, start.preprocessing.image) == ("none", None)
    model, pad = start.model.eval(), start.preprocessing.pad_id
    ids = torch.randint(5, 100, (1, 6))
    boxes = torch.randint(0, 1000, (1, 6, 4))
    with torch.no_grad():
        alone = model(ids, boxes, torch.ones_like(ids))
        longer = torch.cat([ids, torch.full((1, 3), pad)], 1)
        mask = (torch.arange(9) < 6).long()[None]
        padded = model(longer, torch.zeros(1, 9, 4, dtype=torch.int64), mask)
        bare = layout.TextClassifier(model)(longer, mask)
    torch.testing.assert_close(padded[:, :6], alone)
    assert torch.equal(bare, padded)


@pytest.mark.parametrize("change", [{"box_level": "segment"}, {"word_order": "reading"}])
def test_boxes_are_not_asked_of_a_model_of_words_alone(
    encoders: Publish, change: dict[str, str]
) -> None:
    with pytest.raises(CheckpointError, match="reads no boxes"):
        kie_start.start_from(str(encoders("bert")), LABELS, **change)


def test_a_checkpoint_whose_boxes_are_not_its_models_is_refused(
    tmp_path: Path, encoders: Publish
) -> None:
    start = kie_start.start_from(str(encoders("bert")), LABELS, max_tokens=64)
    training.save(tmp_path / "run/checkpoint", start, claims.public((), training={}))
    path = tmp_path / "run/checkpoint/preprocessing.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "box_level": "word"}))
    with pytest.raises(CheckpointError, match="reads no boxes"):
        kie_start.start_from(str(tmp_path / "run"), LABELS)


@pytest.mark.parametrize("architecture", ["roberta", "layoutlmv3"])
def test_private_training_moves_every_layer_and_the_checkpoint_says_what_it_reads(
    tmp_path: Path, encoders: Publish, receipts: list[LabelledDocument], architecture: str
) -> None:
    start = kie_start.start_from(str(encoders(architecture)), LABELS, max_tokens=64)
    before = {name: value.detach().clone() for name, value in start.model.named_parameters()}
    train_private(start, receipts[:6], tmp_path / "run", plan=FEW)
    parameters = dict(start.model.named_parameters())
    moved = {name for name, value in parameters.items() if not torch.equal(value, before[name])}
    assert moved == {name for name, value in parameters.items() if value.requires_grad}
    assert len([name for name in moved if ".layer." in name]) == 2 * 16
    stored = Checkpoint.load(tmp_path / "run")
    assert stored.architecture == stored.claim.training["architecture"] == architecture
    told = "word" if architecture == "layoutlmv3" else "none"
    assert stored.preprocessing.box_level == told
    back = kie_start.start_from(str(tmp_path / "run"), LABELS)
    assert all(torch.equal(value, parameters[n]) for n, value in back.model.named_parameters())


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_dropout_is_what_the_settings_say(
    encoders: Publish, receipts: list[LabelledDocument], architecture: str
) -> None:
    labels = LabelSet.from_documents(receipts)
    start = kie_start.start_from(str(encoders(architecture)), labels, max_tokens=64)
    record = records_of(receipts[:1], start.encoder, labels, unit="document")[0]
    for probability in (0.0, 0.2):
        private.set_dropout(start.model, probability)
        losses = [
            losses_of(start.model, start.encoder, examples_of(record), device=CPU) for _ in range(2)
        ]
        assert torch.equal(*losses) is (probability == 0.0)


def test_no_box_is_hidden_from_a_model_of_words_alone(
    tmp_path: Path, encoders: Publish, receipts: list[LabelledDocument]
) -> None:
    start = kie_start.start_from(str(encoders("roberta")), LABELS, max_tokens=64)
    before = start.model.word_embeddings.detach().clone()
    settings = pretraining.MaskedSettings(epochs=0.5, batch_size=8)
    claim = claims.public((), training={})
    pretraining.train_masked(
        start, receipts[:4], settings, out=tmp_path / "run", claim=claim, quiet=True
    )
    assert json.loads((tmp_path / "run/run.json").read_text())["hidden_boxes"] == 0
    assert not torch.equal(start.model.word_embeddings, before)
