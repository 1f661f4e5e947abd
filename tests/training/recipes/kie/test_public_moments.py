"""Adam by public second moments: private documents have no part in them, and the claim says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hushdoc_witnessed
import pytest
import torch
from kie_training import PLAN, train_private
from torch.nn import functional

from hushdoc.labels import LabelledDocument
from hushdoc_training import invented
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout
from hushdoc_training.models.trained import Trained
from hushdoc_training.privacy import ownership
from hushdoc_training.privacy.noisy_adam import NoisyAdam
from hushdoc_training.recipes.kie import private, public_moments
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.runs.step_log import StepReport

SETTINGS = PrivateSettings(trained="output", optimizer="adam-public", learning_rate=0.01)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return start_from(str(hushdoc_witnessed.public_start(tmp_path / "start")), None)


def forms(count: int, *, seed: int = 3) -> list[LabelledDocument]:
    config = invented.InventedConfig(document_types=("form",), labels="form")
    return list(invented.documents(seed=seed, count=count, config=config))


def test_answers_that_the_model_draws_show_fishers_information() -> None:
    """Of logits z the mean square of d loss / d z over drawn answers is p (1 - p)."""
    logits = torch.tensor([[1.0, 0.0, -1.0]], requires_grad=True)
    generator, squares = torch.Generator().manual_seed(0), torch.zeros(3)
    for _ in range(2000):
        loss = public_moments.own_loss(logits, generator)
        squares += torch.autograd.grad(loss, logits)[0][0].square() / 2000
    likely = functional.softmax(logits.detach(), -1)[0]
    torch.testing.assert_close(squares, likely * (1 - likely), rtol=0.15, atol=0)


def test_moments_are_of_what_is_trained_and_the_same_each_time(start: Start) -> None:
    layout.freeze(start.model, trained=Trained.of("biases"))
    one, other = (public_moments.of_invented(start) for _ in range(2))
    parameters = ownership.trainable(start.model).values()
    assert [value.shape for value in one] == [value.shape for value in parameters]
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert sum(float(value.sum()) for value in one) == pytest.approx(1, abs=1e-4)
    assert not any(value.grad is not None for value in parameters)


def test_the_optimizer_follows_from_plan_and_public_documents(start: Start) -> None:
    with private.private_training(
        start, [], PLAN, SETTINGS, charge=lambda _: None, device=torch.device("cpu")
    ) as training:
        assert isinstance(training.optimizer, NoisyAdam)
        [group] = training.optimizer.param_groups
        assert group["deviation"] == PLAN.noise_deviation
        assert all("public" in training.optimizer.state[one] for one in group["params"])


def test_an_interrupted_run_goes_on_and_its_claim_names_the_documents(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = forms(3)
    with monkeypatch.context() as patch:
        patch.setattr(StepReport, "show_step", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        outcome = train_private(start, documents, tmp_path / "run", settings=SETTINGS)
    assert (outcome.charged, outcome.interrupted) == (1, True)
    again = start_from(str(tmp_path / "start"), None)
    train_private(again, documents, tmp_path / "run", settings=SETTINGS, resume=True)
    claim = Checkpoint.load(tmp_path / "run").claim
    assert claim.training["optimizer"] == "adam-public"
    assert public_moments.DATA in claim.public_data
