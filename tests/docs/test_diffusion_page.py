"""docs/diffusion.md: its commands run, and its numbers are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import hushdoc_command_runs
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from hushdoc import labelled_files
from hushdoc_training import invented
from hushdoc_training.models.autoencoder import PageAutoencoder
from hushdoc_training.models.denoiser import Denoiser
from hushdoc_training.recipes.synthesis import denoising
from hushdoc_training.recipes.synthesis.diffusion_start import CONDITIONS, SIZES

TEXT = (Path(__file__).parents[2] / "docs/diffusion.md").read_text("utf-8")
PRETRAIN = " --size tiny --autoencoder-steps 1 --steps 1 --public-documents 4 --quiet"
DIFFUSION = " --steps 1 --pages 2 --sampling-steps 2 --layout-documents 2 --quiet"
EVOLUTION = " --pool 12 --nearest 3 --documents 3 --quiet"
SMALL = {
    "synthesize pretrain": PRETRAIN,
    "synthesize diffusion": DIFFUSION,
    "synthesize evolution": EVOLUTION,
}


@pytest.mark.slow
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("letter", "memo"):
        (tmp_path / "scans" / name).mkdir(parents=True)
        for number in range(2):
            shades = rng.integers(0, 255, (40, 32), dtype=np.uint8)
            Image.fromarray(shades).save(tmp_path / "scans" / name / f"{number}.png")
    config = invented.InventedConfig(document_types=("receipt",))
    labelled_files.write(Path("receipts.jsonl"), invented.documents(seed=1, count=4, config=config))
    assert hushdoc_command_runs.run("keygen", "--out", "release", "--name", "tests") == 0
    Path("policy.toml").write_text(
        'max_epsilon = 1.01\nmax_delta = 1e-5\nprivacy_units = ["document"]\n'
        'adversary = "synthetic-data-recipient"\ntrust = "release.trust.json"\n'
    )
    commands = re.findall(r"```sh\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(commands) == 4
    for line in "".join(commands).splitlines():
        name = " ".join(line.split()[1:3])
        assert hushdoc_command_runs.run(*shlex.split(line + SMALL.get(name, ""))[1:]) == 0


def test_the_numbers_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) x .*? \| ([\d,]*\d) \| ([\d,]*\d)", TEXT, re.MULTILINE)
    assert [name for name, *_ in rows] == list(SIZES)
    for name, size, autoencoder, denoiser in rows:
        kl, unet = SIZES[name]
        assert int(size) == kl.image_size
        with torch.device("meta"):
            assert autoencoder == f"{parameters(PageAutoencoder(kl)):,}"
            assert denoiser == f"{parameters(Denoiser(unet, classes=0)):,}"
    assert all(f"`{condition}`" in TEXT for condition in CONDITIONS)
    assert denoising.DROPPED == 0.1
    assert "one time in ten" in TEXT


def parameters(model: nn.Module) -> int:
    return sum(value.numel() for value in model.parameters())
