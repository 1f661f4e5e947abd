"""Zero egress: real artifacts of every task and pages are read while sockets are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from hushdoc.commands.sockets import Attempt
from hushdoc.hashing import FeatureScheme
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_export.classification import export_image_classifier, export_text_classifier
from hushdoc_export.embedding import export_embedding
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table

CODE = """
import argparse, sys
{before}
from hushdoc.commands import doctor
parser = argparse.ArgumentParser(prog="hushdoc")
doctor.register(parser.add_subparsers())
options = parser.parse_args(["doctor", *sys.argv[1:]])
sys.exit(options.run(options))
"""

COUNTED = """
from hushdoc.reading import ocr, tesseract
from hushdoc.runtime.hashed import model
from hushdoc.runtime.session import Session
ocr.rapid_is_installed = lambda: False
tesseract.program = lambda: None
def counting(owner, name):
    real = getattr(owner, name)
    def counted(*given, **options):
        print("ran", owner.__name__, file=sys.stderr)
        return real(*given, **options)
    setattr(owner, name, counted)
counting(Session, "run")
counting(model, "item_scores")
"""
"""Tells on standard error whenever a graph or a table answers; leaves OCR to a test of its own."""

LABELS = ["letter", "invoice"]
SIZES = {
    "vocab_size": 90,
    "hidden_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 70,
    "num_labels": len(LABELS),
}
TASKS = {
    "kie": "KIEModel",
    "kie-images": "KIEModel",
    "text": "ClassificationModel",
    "layout": "ClassificationModel",
    "images": "ClassificationModel",
    "vectors": "EmbeddingModel",
    "table": "HashedCRFModel",
}
"""Artifacts of `home`, and the class of each."""


@pytest.fixture(scope="module")
def home(tiny: ModuleType) -> Iterator[Path]:
    """A folder with an artifact for each task."""
    torch.manual_seed(21)
    release = Release(key=tiny.KEY, name="tiny", issuer="the tests")
    words = {"tokenizer_json": tiny.tokenizer_json(), "preprocessing": tiny.preprocessing()}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "kie").symlink_to(tiny.sealed())
        (place / "kie-images").symlink_to(tiny.sealed_with_images())
        bert = transformers.BertConfig(**SIZES)
        layout = transformers.LayoutLMConfig(max_2d_position_embeddings=1024, **SIZES)
        for name, model in (
            ("text", transformers.BertForSequenceClassification(bert)),
            ("layout", transformers.LayoutLMForSequenceClassification(layout)),
        ):
            export_text_classifier(
                model.eval(),
                place / name,
                release,
                labels=LABELS,
                claim=tiny.claim(),
                layout=name == "layout",
                **words,
            )
        resnet = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8], depths=[1], num_labels=len(LABELS)
        )
        export_image_classifier(
            transformers.ResNetForImageClassification(resnet).eval(),
            place / "images",
            release,
            labels=LABELS,
            preprocessing=ImagePreprocessing(
                height=16, width=16, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)
            ),
            claim=tiny.claim(),
        )
        export_embedding(
            transformers.BertModel(bert, add_pooling_layer=False).eval(),
            place / "vectors",
            release,
            pooling="mean",
            claim=tiny.claim(),
            **words,
        )
        seal_table(
            place / "table",
            weights=np.full((1009, 2), 1e-3, dtype=np.float32),
            transitions=np.zeros((2, 2)),
            tags=("O", "distribution"),
            scheme=FeatureScheme(rows=1009, level="sentence", seed=9),
            claim=tiny.claim(),
            key=tiny.KEY,
            name="contracts",
            issuer="the tests",
        )
        yield place


def proof(
    tiny: ModuleType, folder: Path, artifact: Path, seconds: int, before: str = ""
) -> tuple[dict[str, Any], str]:
    """Returns what `hushdoc doctor --prove-offline` tells as JSON, and what it prints besides."""
    trust = folder / "trust.json"
    trust.write_bytes(tiny.TRUST.to_json())
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [
            *(sys.executable, "-c", CODE.format(before=before), str(artifact), "--json"),
            *("--prove-offline", "--seconds", str(seconds), "--trust", str(trust)),
            *("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document"),
        ],
        capture_output=True,
        text=True,
        env=kept,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)["offline"]
    assert told["exit_code"] == 0
    return told, done.stderr


@pytest.mark.parametrize("task", TASKS)
def test_models_of_every_task_run_and_ask_for_no_socket(
    tiny: ModuleType, home: Path, tmp_path: Path, task: str
) -> None:
    told, printed = proof(tiny, tmp_path, home / task, 0, COUNTED)
    assert told["attempts"] == []
    assert told["ran"] == [f"a document through {TASKS[task]}"]
    assert printed == f"ran {'hushdoc.runtime.hashed.model' if task == 'table' else 'Session'}\n"


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_a_model_and_ocr_ask_for_nothing_that_could_send(
    tiny: ModuleType, tmp_path: Path, seconds: int
) -> None:
    told, _ = proof(tiny, tmp_path, tiny.sealed(), seconds)
    assert [one for one in told["attempts"] if not Attempt(**one).is_local_test] == []
    assert told["ran"][0] == "a document through KIEModel"
    assert told["seconds"] >= seconds
