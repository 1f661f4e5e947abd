"""What a word of --trained trains, what steps it, and that the claim says so."""

from __future__ import annotations

import copy
import os
import re
import signal
from pathlib import Path
from typing import Any

import hushdoc_tiny_models
import hushdoc_witnessed
import pytest
import torch
from kie_training import PLAN, train_private

from hushdoc.document.document import Document
from hushdoc.errors import InputError
from hushdoc.labels import LabelledDocument, Span
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.models import layout, low_rank
from hushdoc_training.models.trained import Trained
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.runs.step_log import StepReport, read_log
from hushdoc_training.witness.optimizer_spy import OptimizerSpy


@pytest.fixture(scope="module")
def forms() -> list[LabelledDocument]:
    boxes = [(100 * number, 50, 100 * number + 90, 80) for number in range(6)]
    label = hushdoc_witnessed.LABELS.fields[0]
    return [
        LabelledDocument(
            document=Document.from_words([*f"abcde{name}"], boxes, width=1000, height=100, id=name),
            spans=(Span(page=0, start=1, stop=3, label=label),),
        )
        for name in "wxyz"
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hushdoc_witnessed.public_start(tmp_path_factory.mktemp("start"))


@pytest.fixture
def start(folder: Path) -> Start:
    return start_from(str(folder), None)


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def moved(out: Path, start: dict[str, torch.Tensor]) -> set[str]:
    stored = Checkpoint.load(out)
    end = weights(layout.load(stored.folder, stored.architecture))
    assert end.keys() == start.keys()
    return {name for name, value in end.items() if not torch.equal(value, start[name])}


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("all", ".*"),
        ("encoder", r"(?!.*word_embeddings).*"),
        ("top:1", r".*\.layer\.1\..*|.*classifier.*"),
        ("top:2", r".*\.layer\..*|.*classifier.*"),
        ("biases", r".*bias|.*LayerNorm\.weight|.*norm\.weight|.*classifier.*"),
        ("output", r".*classifier.*"),
        ("lora:3", r".*\.(down|up)\.weight|.*classifier.*"),
    ],
)
@pytest.mark.parametrize("architecture", ["bert", "layoutlm", "layoutlmv3", "lilt"])
def test_a_word_trains_what_it_names_and_a_window_reaches(
    architecture: str, word: str, pattern: str
) -> None:
    model = hushdoc_tiny_models.model(architecture, num_hidden_layers=2)
    idle = set(layout.unreached(model))
    assert idle or architecture == "bert"
    layout.freeze(model, trained=Trained.of(word))
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    named = {name for name, _ in model.named_parameters() if re.fullmatch(pattern, name)}
    assert trained == named - idle
    # Nor are there factors beside a layer that no window reaches, as LiLT's last one of boxes.
    assert not {f"{name.removesuffix('weight')}down.weight" for name in idle} & trained


def test_what_a_window_reaches_is_known_on_the_device_of_the_model() -> None:
    model = hushdoc_tiny_models.model("layoutlm")
    assert layout.unreached(model) == layout.unreached(model.to("meta")) != []


@pytest.mark.parametrize(("word", "layers"), [("top:4", range(8, 12)), ("top:8", range(4, 12))])
def test_the_papers_top4_and_top8_train_that_many_layers(word: str, layers: range) -> None:
    assert Trained.of(word) == Trained("top", len(layers))
    model = hushdoc_tiny_models.model("layoutlm", num_hidden_layers=12)
    layout.freeze(model, trained=Trained.of(word))
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    numbers = [re.search(r"\.layer\.(\d+)\.", name) for name in trained]
    assert {int(found[1]) for found in numbers if found} == {*layers}
    others = {name for name, found in zip(trained, numbers, strict=True) if not found}
    assert others == {"inner.classifier.weight", "inner.classifier.bias"}


def test_factors_of_low_rank_are_merged_and_move_nothing_else(
    tmp_path: Path, start: Start, forms: list[LabelledDocument]
) -> None:
    before = weights(start.model)
    settings = PrivateSettings(trained="lora:2")
    train_private(start, forms, tmp_path / "run", settings=settings)
    expected = {
        name
        for name, value in before.items()
        if re.search(r"\.encoder\.layer\.", name) and value.dim() == 2 or "classifier" in name
    }
    assert moved(tmp_path / "run", before) == expected
    assert len(expected) == 2 * 6 + 2
    claim = Checkpoint.load(tmp_path / "run").claim
    said = {name: claim.training[name] for name in ("trained", "rank", "optimizer", "momentum")}
    assert said == {"trained": "lora:2", "rank": 2, "optimizer": "adam", "momentum": 0.0}


def test_what_is_released_answers_as_what_was_trained(
    tmp_path: Path, start: Start, forms: list[LabelledDocument], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = torch.randint(5, 60, (3, 9))
    inputs = (ids, torch.randint(0, 500, (3, 9, 1)).expand(3, 9, 4), torch.ones_like(ids))
    answers: list[torch.Tensor] = []

    def with_factors(self: StepReport, step: Any) -> None:
        probe = copy.deepcopy(start.model).cpu().eval().requires_grad_(False)
        assert sum(isinstance(part, low_rank.LowRank) for part in probe.modules()) == 12
        answers.append(probe(*inputs))

    monkeypatch.setattr(StepReport, "show_step", with_factors)
    rate = PrivateSettings(trained="lora:2", learning_rate=0.05)
    train_private(start, forms, tmp_path / "run", settings=rate)
    assert len(answers) == PLAN.steps
    assert float((answers[-1] - answers[0]).abs().max()) > 0.01
    stored = Checkpoint.load(tmp_path / "run")
    released = layout.load(stored.folder, stored.architecture)
    torch.testing.assert_close(released(*inputs), answers[-1], rtol=1e-4, atol=1e-5)


def test_an_interrupted_run_resumes_with_the_same_factors(
    tmp_path: Path,
    folder: Path,
    start: Start,
    forms: list[LabelledDocument],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, before = tmp_path / "run", weights(start.model)
    settings = PrivateSettings(
        trained="lora:2", optimizer="sgd", momentum=0.9, learning_rate=0.5, averaging="half"
    )
    with monkeypatch.context() as patch:
        patch.setattr(StepReport, "show_step", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        outcome = train_private(start, forms, out, settings=settings)
    assert (outcome.charged, outcome.interrupted) == (1, True)
    again, spy = start_from(str(folder), None), OptimizerSpy(frozen=False)
    with spy:
        outcome = train_private(again, forms, out, settings=settings, resume=True)
    assert (outcome.charged, outcome.interrupted) == (PLAN.steps, False)
    charged = [entry["charge"] for entry in read_log(out / "steps.jsonl") if "charge" in entry]
    assert charged == list(range(1, PLAN.steps + 1))
    tensors = {name.removeprefix("inner."): value for name, value in before.items()}
    seen = spy.seen(out, tensors)
    assert seen is not None  # every factor is in the merged weights, the first step's part included
    assert (seen.steps, set(seen.merged.values())) == (PLAN.steps - 1, {2})
    assert {f"inner.{name}" for name in seen.merged} == {
        name for name in moved(out, before) if "classifier" not in name
    }


def test_momentum_is_of_noised_gradients(
    tmp_path: Path, start: Start, forms: list[LabelledDocument]
) -> None:
    """Sutskever et al. 2013 as torch has it: v <- m v + g, w <- w - rate v, g the noised mean."""
    before, spy = weights(start.model), OptimizerSpy(frozen=False)
    settings = PrivateSettings(
        trained="output", optimizer="sgd", momentum=0.8, learning_rate=0.5, decay=False
    )
    two = PrivacyPlan.calibrated(epsilon=8, sampling_rate=1.0, steps=2, expected_records=4)
    with spy:
        train_private(start, forms, tmp_path / "run", plan=two, settings=settings)
    first, second = spy.first.gradients
    expected = -0.5 * (first + (0.8 * first + second))
    names = [name for name in before if "classifier" in name]
    found = weights(start.model)
    difference = torch.cat([(found[name] - before[name]).flatten() for name in names])
    torch.testing.assert_close(difference, torch.from_numpy(expected), rtol=1e-4, atol=1e-6)
    claim = Checkpoint.load(tmp_path / "run").claim
    assert (claim.training["optimizer"], claim.training["momentum"]) == ("sgd", 0.8)
    assert "rank" not in claim.training


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("top:3", r"more layers than the 2 of this 'layoutlm' model \(0 to 1.*Choose top:2"),
        ("lora:41", "lora:41 is above 40.*Choose lora:40"),
    ],
)
def test_more_layers_or_ranks_than_there_are_take_no_folder(
    tmp_path: Path, start: Start, forms: list[LabelledDocument], word: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train_private(start, forms, tmp_path / "run", settings=PrivateSettings(trained=word))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "word", ["", "top", "top:", "top:0", "top:01", "top:-1", "lora:x", "all:3", "lora: 2", "top:N"]
)
def test_words_that_name_nothing_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"expected one of all, encoder, top:N, .*lora:R"):
        PrivateSettings(trained=word)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimizer": "lion"}, "optimizer is 'lion'; expected one of 'adam'"),
        ({"momentum": 0.9}, "momentum is 0.9 with the optimizer 'adam'"),
        ({"momentum": 1.0, "optimizer": "sgd"}, "momentum is 1.0"),
    ],
)
def test_steps_that_nothing_takes_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrivateSettings(**given)
