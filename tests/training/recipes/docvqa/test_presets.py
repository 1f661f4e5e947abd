"""Table 12 of Privacy-aware DocVQA (pa-docvqa): what it says, and that each row trains."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from hushdoc.__main__ import main
from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.recipes.docvqa.presets import PRESETS
from hushdoc_training.runs.run_folder import CONFIGURATION
from hushdoc_training.runs.step_log import read_log
from hushdoc_training.witness.forms_witness import weights_in

PRIVATE = {
    # name: epsilon, clipping norm, noise multiplier as printed, epsilon by it
    "pa-docvqa-eps1": (1.0, 1.0, 3.32031250000, 0.985),
    "pa-docvqa-eps4": (4.0, 5.0, 1.25244140625, 3.98),
    "pa-docvqa-eps8": (8.0, 5.0, 0.83251953125, 7.98),
}
DATA = ("--data", "invented:receipt,questions=keyed,providers=0:4", "--documents", "4", "--quiet")


def test_the_rows_are_those_of_the_paper_and_its_noise_keeps_what_it_claims() -> None:
    assert set(PRESETS) == {"pa-docvqa", *PRIVATE}
    plain = PRESETS["pa-docvqa"].settings
    assert (plain["batch-size"], plain["epochs"], plain["learning-rate"]) == (10, 10, 2e-4)
    for name, (epsilon, norm, noise, holds) in PRIVATE.items():
        found = PRESETS[name].settings
        assert (found["epsilon"], found["clipping-norm"], found["delta"]) == (epsilon, norm, 1e-5)
        assert (found["batch-size"], found["learning-rate"]) == (8, 2e-4)
        assert (found["steps"], found["expected-records"]) == (10, 1000)
        rate = found["sampling-rate"]
        assert found["expected-records"] / rate == pytest.approx(4149)
        step = PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise))
        spent = pld.epsilon(Composed(event=step, count=10), found["delta"])
        assert spent == pytest.approx(holds, abs=5e-3)
        assert spent <= epsilon


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("start") / "public"
    begin = ["train", "docvqa", *DATA, "--architecture", "vt5", "--start", "tiny"]
    assert main([*begin, "--public", "--max-tokens", "80", "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize(
    "name",
    [
        "pa-docvqa",
        pytest.param("pa-docvqa-eps1", marks=pytest.mark.slow),
        pytest.param("pa-docvqa-eps4", marks=pytest.mark.slow),
        "pa-docvqa-eps8",
    ],
)
def test_every_preset_trains_two_steps(
    name: str, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, settings = tmp_path / "run", PRESETS[name].settings
    given = ["--start", str(start), "--preset", name, "--out", str(out)]
    fewer = ["--steps", "2"] if name in PRIVATE else ["--epochs", "0.5"]
    assert main(["train", "docvqa", *DATA, *given, *fewer]) == 0
    claim = DocVQACheckpoint.load(out).claim
    kept = tomllib.loads((out / CONFIGURATION).read_text(encoding="utf-8"))
    assert {kept[key] for key in ("preset", "learning-rate")} == {name, 2e-4}
    (guarantee,) = claim.guarantees
    if name not in PRIVATE:
        assert guarantee.kind == "none"
        return
    entries = read_log(out / "steps.jsonl")
    for key in ("charge", "step"):
        assert [entry[key] for entry in entries if key in entry] == [1, 2]
    before, after = weights_in(start), weights_in(out)
    assert all(not torch.equal(before[key], after[key]) for key in after)
    assert f"{name} (Privacy-aware DocVQA, table 12)" in capsys.readouterr().out
    epsilon, norm, _, _ = PRIVATE[name]
    assert (guarantee.unit, guarantee.delta) == ("provider", 1e-5)
    assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-3)
    assert guarantee.epsilon <= epsilon
    told = claim.training
    assert told["recipe"] == name
    assert told["trained"] == settings["trained"] == "all"
    assert told["algorithm"] == "fl-provider-dp, one client"
    assert told["local_training"] == {
        "passes": 1, "batch_size": 8, "learning_rate": 2e-4, "weight_decay": 0.0
    }  # fmt: skip
    assert "optimizer" not in told
    assert "decay" not in told
    (protected,) = claim.protected_data
    assert f"what local training on it changes is clipped to an L2 norm of {norm:g}" in (
        protected.contribution_bound
    )
