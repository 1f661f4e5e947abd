"""Classifiers in transformers' format are sealed as they are, with no guarantee."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import numpy as np
import pytest
import torch
import transformers
from hushdoc_tiny_models import SMALL
from PIL import Image
from tokenizers import Tokenizer, processors
from tokenizers.pre_tokenizers import ByteLevel

import hushdoc
from hushdoc.__main__ import main
from hushdoc.document.document import Document
from hushdoc.errors import CheckpointError
from hushdoc_export.pretrained import export_classifier, holds_classifier

LABELS = {0: "letter", 1: "invoice", 2: "form"}
SIZES = {
    **{name: value for name, value in SMALL.items() if name != "num_labels"},
    "pad_token_id": 0,
    "id2label": LABELS,
}
SPECIAL = {
    name: f"[{name[:3].upper()}]" for name in ("cls_token", "sep_token", "pad_token", "unk_token")
}
ALPHABET = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", *ByteLevel.alphabet()]


def saved(
    folder: Path, model_type: str, *, dtype: torch.dtype = torch.float32, **change: Any
) -> Path:
    """Writes a random classifier as transformers does."""
    torch.manual_seed(5)
    if model_type == "resnet":
        config = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8], depths=[1], id2label=LABELS
        )
        transformers.ResNetForImageClassification(config).save_pretrained(folder)
        processor = transformers.ViTImageProcessor(size={"height": 16, "width": 16}, resample=2)
        processor.save_pretrained(folder)
        return folder
    sizes = {**SIZES, **change}
    model = {
        "bert": lambda: transformers.BertForSequenceClassification(
            transformers.BertConfig(**sizes)
        ),
        "mpnet": lambda: transformers.MPNetForSequenceClassification(
            transformers.MPNetConfig(**sizes)
        ),
        "modernbert": lambda: transformers.ModernBertForSequenceClassification(
            transformers.ModernBertConfig(local_attention=8, **sizes)
        ),
        "lilt": lambda: transformers.LiltForSequenceClassification(
            transformers.LiltConfig(**sizes)
        ),
        "layoutlmv3": lambda: transformers.LayoutLMv3ForSequenceClassification(
            transformers.LayoutLMv3Config(coordinate_size=8, shape_size=8, **sizes)
        ),
    }[model_type]()
    model.to(dtype).save_pretrained(folder)
    tokenizer = Tokenizer.from_str(tiny.tokenizer_json())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(
        folder
    )
    return folder


def opened(folder: Path) -> Any:
    policy = hushdoc.Policy.integrity_only(trust=tiny.TRUST)
    return hushdoc.ClassificationModel.load(folder, policy=policy)


def logits_of(source: Path, inputs: Any) -> torch.Tensor:
    """Returns what transformers computes in float32."""
    inner = transformers.AutoModelForSequenceClassification.from_pretrained(source).float().eval()
    with torch.no_grad():
        logits: torch.Tensor = inner(**inputs).logits
    return logits


@pytest.mark.parametrize(
    ("model_type", "before", "dtype", "vocab_size"),
    [("bert", 0, torch.bfloat16, SIZES["vocab_size"]), ("lilt", 1, torch.float16, len(ALPHABET))],
)
def test_words_are_classified_as_transformers_does(
    tmp_path: Path, model_type: str, before: int, dtype: torch.dtype, vocab_size: int
) -> None:
    """Weights in half precision are exported in float32."""
    source = saved(tmp_path / "source", model_type, dtype=dtype, vocab_size=vocab_size)
    assert holds_classifier(source)
    release = tiny.release(name="classes")
    folder = export_classifier(source, tmp_path / "model", release, trained_on="our mail")
    model = opened(folder)
    claim = model.certificate.claim
    assert [data.name for data in claim.protected_data] == ["our mail"]
    assert [guarantee.kind for guarantee in claim.guarantees] == ["none"]
    manifest = json.loads((folder / "hushdoc.json").read_text())["preprocessing"]
    assert manifest["max_tokens"] == 70 - before
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    for words in (["invoice", "no", "7", "eur"], ["7"] * (68 - before)):  # the longest window, too
        places = [(20 * (i % 4), 10 + i // 4) for i in range(len(words))]
        boxes = [(x, y, x + 10, y + 10) for x, y in places]
        found = model.classify(Document.from_words(words, boxes, width=100, height=100), top_k=3)
        each = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        inputs = {"input_ids": torch.tensor([[2, *itertools.chain(*each), 3]])}
        if model_type == "lilt":
            of_tokens = [
                [10 * edge for edge in box]
                for box, tokens in zip(boxes, each, strict=True)
                for _ in tokens
            ]
            inputs["bbox"] = torch.tensor([[[0] * 4, *of_tokens, [1000] * 4]])
        wanted = logits_of(source, inputs).softmax(-1)[0].tolist()
        assert found.scores[0].label == LABELS[int(np.argmax(wanted))]
        assert [item.score for item in found.scores] == pytest.approx(
            sorted(wanted, reverse=True), abs=1e-4
        )


def test_boxes_of_special_tokens_are_those_of_the_models_tokenizer(tmp_path: Path) -> None:
    words, boxes = ["a", "b"], [[100, 10, 150, 30], [200, 10, 250, 30]]
    tokenizer = transformers.LayoutLMv3Tokenizer(
        vocab={piece: number for number, piece in enumerate(ALPHABET)}, merges=[]
    )
    source = saved(tmp_path / "source", "lilt", dtype=torch.float16, vocab_size=len(ALPHABET))
    tokenizer.save_pretrained(source)
    release = tiny.release(name="classes")
    folder = export_classifier(source, tmp_path / "model", release, trained_on="our mail")
    document = Document.from_words(words, boxes, width=1000, height=1000)
    found = opened(folder).classify(document, top_k=3).scores
    inputs = tokenizer(words, boxes=boxes, return_tensors="pt")
    wanted = sorted(logits_of(source, inputs).softmax(-1)[0].tolist(), reverse=True)
    assert inputs["bbox"][0, -1].tolist() == [0] * 4
    assert [item.score for item in found] == pytest.approx(wanted, abs=1e-4)


def test_the_command_exports_images(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = saved(tmp_path / "scans", "resnet")
    key = str(tmp_path / "key")
    assert main(["keygen", "--out", key]) == 0
    out = str(tmp_path / "model")
    given = ("--out", out, "--key", f"{key}.key", "--trained-on", "our scans")
    assert main(["export", str(source), *given]) == 0
    Image.new("RGB", (40, 30), "white").save(tmp_path / "page.png")
    trust = ("--trust", f"{key}.trust.json", "--integrity-only")
    capfd.readouterr()
    assert main(["classify", out, str(tmp_path / "page.png"), *trust]) == 0
    printed = capfd.readouterr().out
    assert any(label in printed for label in LABELS.values())
    for change in (("--weights", "int8"), ("--calibrate",), ("--max-f1-loss", "1")):
        with pytest.raises(SystemExit) as stop:
            main(["export", str(source), "--out", f"{out}2", "--key", f"{key}.key", *change])
        assert stop.value.code == 2


def _without(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _of_tokens(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["BertForTokenClassification"]
    (folder / "config.json").write_text(json.dumps(config))


def _cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def refused(source: Path, out: Path, found: str) -> None:
    with pytest.raises(CheckpointError, match=found):
        export_classifier(source, out, tiny.release(name="classes"), trained_on="our mail")
    assert not out.exists()


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (_without("config.json"), "config.json can't be read"),
        (_without("tokenizer.json"), "no tokenizer.json"),
        (_pickled, "no model.safetensors"),
        (_of_tokens, "BertForTokenClassification"),
        (_cut, "SafetensorError"),
    ],
    ids=["no-config", "no-tokenizer", "pickled", "tags-tokens", "cut"],
)
def test_other_folders_are_refused(tmp_path: Path, damage: Any, found: str) -> None:
    source = saved(tmp_path / "source", "bert")
    damage(source)
    refused(source, tmp_path / "model", found)


def test_a_model_without_a_longest_window_is_refused_in_words(tmp_path: Path) -> None:
    source = saved(tmp_path / "source", "bert")
    config = transformers.FunnelConfig(
        vocab_size=90, block_sizes=[1], num_decoder_layers=1, d_model=8, n_head=2, d_head=4,
        d_inner=8, id2label=LABELS,
    )  # fmt: skip
    transformers.FunnelForSequenceClassification(config).save_pretrained(source)
    refused(source, tmp_path / "model", "no max_position_embeddings.*such as BERT's")


def _bare(folder: Path) -> None:
    tokenizer = Tokenizer.from_str(tiny.tokenizer_json())
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(
        folder
    )


def _cased(folder: Path) -> None:
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, **SPECIAL}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _with_new_tokens(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([f"word {number}" for number in range(90)])
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_bare, "AutoTokenizer makes other tokens"),
        (_cased, "AutoTokenizer makes other tokens"),
        (_with_new_tokens, "ids up to 175 and the model has 90 word embeddings"),
    ],
)
def test_a_tokenizer_of_other_tokens_than_the_models_own_is_refused(
    tmp_path: Path, change: Any, found: str
) -> None:
    source = saved(tmp_path / "source", "bert" if change is _cased else "lilt")
    change(source)
    refused(source, tmp_path / "model", found)


@pytest.mark.parametrize(
    ("model_type", "positions"),
    [pytest.param("mpnet", 68, marks=pytest.mark.slow), ("modernbert", 70)],
)
def test_windows_are_as_long_as_a_model_has_positions(
    tmp_path: Path, model_type: str, positions: int
) -> None:
    source = saved(tmp_path / "source", model_type, pad_token_id=1)
    release = tiny.release(name="classes")
    folder = export_classifier(source, tmp_path / "model", release, trained_on="our mail")
    text = " ".join(["7"] * (positions - 2))
    found = opened(folder).classify(Document.from_text(text), top_k=3).scores
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    logits = logits_of(source, tokenizer(text, return_tensors="pt"))
    wanted = sorted(logits.softmax(-1)[0].tolist(), reverse=True)
    assert [item.score for item in found] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"problem_type": "multi_label_classification"}, "3 outputs .* multi_label_classification"),
        ({"problem_type": "regression"}, "3 outputs .* regression"),
        ({"id2label": {0: "amount"}}, "1 outputs"),
        ({"id2label": {0: "letter", 1: "", 2: "form"}}, "not all names"),
    ],
)
def test_outputs_that_are_no_classes_are_refused(
    tmp_path: Path, change: dict[str, Any], found: str
) -> None:
    source = saved(tmp_path / "source", "bert", **change)
    refused(source, tmp_path / "model", found)


def test_a_published_model_that_is_no_classifier_is_told_where_it_can_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = saved(tmp_path / "source", "bert")
    _of_tokens(source)
    key = str(tmp_path / "key")
    assert main(["keygen", "--out", key]) == 0
    out = str(tmp_path / "model")
    assert main(["export", str(source), "--out", out, "--key", f"{key}.key"]) == 4
    assert "give `hushdoc train` the folder as --start" in capsys.readouterr().err


def test_a_model_that_reads_images_beside_words_is_refused(tmp_path: Path) -> None:
    refused(saved(tmp_path / "source", "layoutlmv3"), tmp_path / "model", "images beside words")
