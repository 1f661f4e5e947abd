"""A claim is about what was written with it: other weights or pages in the folder are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import hushdoc_tiny as tiny
import numpy as np
import pytest

from hushdoc.errors import CheckpointError
from hushdoc.hashing import FeatureScheme
from hushdoc_training import claimed_files, drawn_checkpoint, table_checkpoint
from hushdoc_training.checkpoint import HEAD, Checkpoint


def table(folder: Path) -> Path:
    return tiny.save_table(
        folder / "checkpoint",
        weights=np.full((8, 2), 0.5, np.float32),
        transitions=np.zeros((2, 2), np.float32),
        tags=("O", "law"),
        scheme=FeatureScheme(rows=8),
    )


def pages(folder: Path) -> Path:
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "page-00000.png").write_bytes(b"drawn")
    drawn_checkpoint.save(
        folder / "checkpoint",
        prompts=[{"label": "form", "layout": 0, "seed": 1}],
        images=folder / "images",
        claim=tiny.claim(),
    )
    return folder / "checkpoint"


def test_other_weights_are_not_those_of_the_claim(tmp_path: Path) -> None:
    folder = table(tmp_path)
    path = folder / "table.safetensors"
    written, half, other = path.read_bytes(), np.float32(0.5).tobytes(), np.float32(0.75).tobytes()
    path.write_bytes(written.replace(half, other))
    with pytest.raises(CheckpointError, match=r"another 'table.safetensors' than .* its claim"):
        table_checkpoint.load(folder)
    path.write_bytes(written)
    table_checkpoint.load(folder)


def test_another_runs_claim_is_not_that_of_these_weights(tmp_path: Path) -> None:
    folder = table(tmp_path)
    path = folder / "claim.json"
    path.write_bytes(replace(tiny.claim(), training={"seed": 2}).to_json())
    with pytest.raises(CheckpointError, match="another 'claim.json' than"):
        table_checkpoint.load(folder)


@pytest.mark.parametrize("name", ["prompts.jsonl", "images/page-00000.png"])
def test_other_documents_are_not_those_of_the_claim(tmp_path: Path, name: str) -> None:
    folder = pages(tmp_path)
    drawn_checkpoint.load(folder)
    with (folder / name).open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(CheckpointError, match=f"another '{name}' than"):
        drawn_checkpoint.load(folder)


def test_a_missing_file_is_another_one(tmp_path: Path) -> None:
    folder = table(tmp_path)
    (folder / "table.safetensors").unlink()
    with pytest.raises(CheckpointError, match="found the SHA-256 no file"):
        table_checkpoint.load(folder)


def test_checkpoints_of_earlier_versions_name_no_file(tmp_path: Path) -> None:
    folder = table(tmp_path)
    head = json.loads((folder / HEAD).read_text())
    assert list(head.pop(claimed_files.KEY)) == ["claim.json", "table.safetensors"]
    (folder / HEAD).write_text(json.dumps(head))
    table_checkpoint.load(folder)
    (folder / HEAD).write_text(json.dumps({**head, claimed_files.KEY: []}))
    with pytest.raises(CheckpointError, match="another 'sha256'"):
        table_checkpoint.load(folder)


def test_a_checkpoint_that_is_not_there_is_no_incomplete_one(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no folder"):
        Checkpoint.load(tmp_path / "none")
