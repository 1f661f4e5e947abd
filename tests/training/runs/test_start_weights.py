"""What tells a run's start from another one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from hushdoc.errors import CheckpointError
from hushdoc_training.runs import start_weights
from hushdoc_training.runs.run_folder import Run


def test_a_digest_is_of_names_types_and_numbers() -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    by_hand = hashlib.sha256(b"before" + b"weight torch.float32 [1, 2]\n" + b"\x00\x00\x80\x3f" * 2)
    assert start_weights.digest(model, after=b"before") == by_hand.hexdigest()
    found = {start_weights.digest(model), start_weights.digest(model.double())}
    with torch.no_grad():
        model.weight[0, 1] += 1e-12
    assert len(found | {start_weights.digest(model)}) == 3
    normed = nn.BatchNorm1d(2)
    before = start_weights.digest(normed)
    normed(torch.ones(2, 2))  # moves a buffer
    assert start_weights.digest(normed) != before


def test_a_run_of_an_earlier_version_goes_on_and_another_start_does_not(tmp_path: Path) -> None:
    settings = {"start": "small", "weights": "a"}
    made = Run.open(tmp_path / "run", settings, resume=False)
    with pytest.raises(CheckpointError, match="other settings: weights"):
        Run.open(tmp_path / "run", {**settings, "weights": "b"}, resume=True)
    path = made.folder / "run.json"
    kept = json.loads(path.read_text())
    del kept["weights"]
    path.write_text(json.dumps(kept))
    assert Run.open(tmp_path / "run", settings, resume=True).run_id == made.run_id
    with pytest.raises(CheckpointError, match="other settings: start"):
        Run.open(tmp_path / "run", {**settings, "start": "minilm"}, resume=True)
