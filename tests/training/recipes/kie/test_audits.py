"""Private key information extraction is audited through its own recipe before it trains."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hushdoc_witnessed import public_start
from kie_training import train_private

from hushdoc.errors import InputError, PrivacyError
from hushdoc.labels import LabelledDocument, LabelSet, Span
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_training import audited_claims
from hushdoc_training.audit import first_order
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import layout
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import audits
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start, start_from

PLAN = PrivacyPlan.calibrated(epsilon=8, sampling_rate=1.0, steps=6, expected_records=6)
FEW = 160
"""Canaries: enough to refute a training without noise, in seconds; the slow test has them all."""
LABELS = LabelSet(fields=("answer", "question"))
SCALED = PrivateSettings(trained="output", scaling="public", optimizer="sgd", learning_rate=0.05)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return start_from(str(public_start(tmp_path / "start")), LABELS)


@pytest.fixture
def documents(receipts: list[LabelledDocument]) -> list[LabelledDocument]:
    spans = (Span(page=0, start=0, stop=1, label="answer"),)
    return [LabelledDocument(document=item.document, spans=spans) for item in receipts[:6]]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "CANARIES", FEW)


@pytest.mark.usefixtures("few")
def test_an_honest_recipe_passes_and_says_what_was_audited(
    start: Start, documents: list[LabelledDocument], tmp_path: Path
) -> None:
    train_private(start, documents, tmp_path / "run", plan=PLAN, audited=True)
    claim = Checkpoint.load(tmp_path / "run").claim
    audited_claims.require_unrefuted(claim)
    [audit], [entry] = claim.audits, claim.training["audits"]
    assert (audit.unit, audit.canaries, audit.delta) == ("document", FEW, 1e-5)
    assert (audit.confidence, audit.runs, entry["steps"]) == (0.99, 1, PLAN.steps)
    assert audit.epsilon_lower == entry["epsilon_lower"] <= 1.0 < 1.5 < entry["ceiling"]
    assert 0.9 < entry["claimed_epsilon"] <= 1.0
    assert claim.guarantees[0].audit_lower_bound == audit.epsilon_lower
    assert audits.CAVEAT.format(steps=PLAN.steps) in claim.caveats


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("how", [{}, {"settings": SCALED}], ids=["as usual", "scaled output"])
def test_a_recipe_without_noise_is_refuted_before_a_step_is_charged(
    start: Start,
    documents: list[LabelledDocument],
    tmp_path: Path,
    with_noise: Callable[[float], None],
    how: dict[str, Any],
) -> None:
    ledger = Ledger.create(tmp_path / "ledger", data="forms", epsilon=20, delta=PLAN.delta)
    how = {"plan": PLAN, "ledger": ledger, **how}
    with_noise(0.0)
    with pytest.raises(PrivacyError, match=r"shows an epsilon of at least .*claims") as refused:
        train_private(start, documents, tmp_path / "run", audited=True, **how)
    assert refused.value.code == "AUDIT_CONTRADICTION"
    assert not (tmp_path / "run").exists()
    [noted] = ledger.refuted()  # so that no audit that passes later hides it
    assert str(refused.value).startswith(f"{noted}: what was trained")
    assert not ledger.runs()
    with_noise(1.0)
    train_private(start, documents, tmp_path / "run", **how)
    [said] = [one for one in Checkpoint.load(tmp_path / "run").claim.caveats if "refuted" in one]
    assert "1 refuted what they tested" in said
    assert noted in said


@pytest.mark.usefixtures("few")
def test_an_output_layer_that_reads_several_layers_is_audited(
    start: Start, documents: list[LabelledDocument], tmp_path: Path
) -> None:
    """Of many documents it is the default, and the audit ended in an error of torch's."""
    settings = PrivateSettings(trained="output", scaling="public", read_layers=2)
    out = tmp_path / "run"
    train_private(start, documents, out, plan=PLAN, settings=settings, audited=True)
    stored = Checkpoint.load(out)
    assert len(layout.load(stored.folder, stored.architecture).read_layers) == 2
    assert stored.claim.audits[0].canaries == FEW


def test_the_twin_trains_a_copy(start: Start) -> None:
    before = {name: value.clone() for name, value in start.model.state_dict().items()}
    trained = []

    def recipe(begin: Start, *others: Any) -> None:
        trained.append(begin.model)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        audits.audit(start, PLAN, recipe, device=torch.device("cpu"))
    assert trained[0] is not start.model
    assert all(value.equal(before[name]) for name, value in start.model.state_dict().items())


def test_models_that_read_images_are_not_audited(start: Start) -> None:
    settings = ImagePreprocessing(
        height=32, width=32, resample="bilinear", mean=(0.5,) * 3, std=(0.5,) * 3
    )
    seeing = replace(start, preprocessing=replace(start.preprocessing, image=settings))
    with pytest.raises(InputError, match="reads images of pages"):
        audits.audit(seeing, PLAN, lambda *_: None, device=torch.device("cpu"))


def test_first_order_scores_are_the_coefficients_of_the_move() -> None:
    """With fewer canaries than parameters each one's share in the move can be told."""
    torch.manual_seed(0)
    model = torch.nn.Linear(400, 1)
    inputs, drawn = torch.randn(60, 400), (torch.rand(60) < 0.5).float()
    common = inputs + 0.5 * torch.randn(1, 400)

    def losses(numbers: Any) -> torch.Tensor:
        loss: torch.Tensor = model(common[list(numbers)])[:, 0]
        return loss

    moved = {"weight": 1e-3 * (drawn @ common)[None], "bias": 1e-3 * drawn.sum()[None]}
    found = first_order.scores(model, losses, count=60, moved=moved)
    far = {name: 1e30 * value for name, value in moved.items()}  # its squares are infinite
    assert first_order.scores(model, losses, count=60, moved=far) == pytest.approx(
        1e30 * found, rel=1e-3
    )
    for nowhere in ({}, {"weight": torch.full((1, 400), torch.inf)}):  # all steps were paid for
        assert not first_order.scores(model, losses, count=60, moved=nowhere).any()
    assert found[drawn.numpy() == 1].min() > found[drawn.numpy() == 0].max()
    assert (
        first_order.scores(model, losses, count=60, moved={"weight": torch.zeros(1, 400)}).tolist()
        == [0.0] * 60
    )


def test_first_order_scores_follow_a_layer_that_learns_whitened() -> None:
    """It moves along its own directions, each by as much as public inputs vary in it."""
    torch.manual_seed(0)
    model = torch.nn.Linear(200, 1)
    inputs, drawn = torch.randn(60, 200) * torch.logspace(0, -2, 200), torch.rand(60) < 0.5
    layer = Whitened(copy.deepcopy(model), torch.randn(999, 200) * inputs.std(0), most=200)

    def losses(numbers: Any) -> torch.Tensor:
        loss: torch.Tensor = model(inputs[list(numbers)])[:, 0]
        return loss

    def moves(gradients: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        weight, bias = layer.moves(gradients["weight"], gradients["bias"])
        return {"weight": weight, "bias": bias}

    moved = moves({"weight": (drawn.float() @ inputs)[None], "bias": drawn.sum()[None].float()})
    told = first_order.scores(model, losses, count=60, moved=moved, moves=moves)
    untold = first_order.scores(model, losses, count=60, moved=moved)
    assert told[drawn.numpy()].min() > told[~drawn.numpy()].max()
    assert untold[drawn.numpy()].min() < untold[~drawn.numpy()].max()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "little"),
    [
        (PrivateSettings(trained="encoder"), 0.1),
        (PrivateSettings(trained="biases"), 0.1),
        (SCALED, 0.03),  # of a tenth one audit in five misses it
    ],
    ids=["encoder", "biases", "scaled output"],
)
@pytest.mark.parametrize("shipped", [True, False], ids=["as shipped", "too little noise"])
def test_audits_of_the_small_model_pass_and_refute(
    small_start: Start,
    receipts: list[LabelledDocument],
    tmp_path: Path,
    with_noise: Callable[[float], None],
    settings: PrivateSettings,
    little: float,
    shipped: bool,
) -> None:
    with_noise(1.0 if shipped else little)
    plan = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.2, steps=20, expected_records=4)

    def run() -> None:
        train_private(
            small_start, receipts, tmp_path / "run", plan=plan, settings=settings, audited=True
        )

    if shipped:
        run()
        assert Checkpoint.load(tmp_path / "run").claim.training["audits"][0]["steps"] == 20
    else:
        with pytest.raises(PrivacyError, match="shows an epsilon"):
            run()


@pytest.mark.slow
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("architecture", "unit"), [("layoutlm", "sequence"), ("layoutlmv3", "document")]
)
def test_other_models_and_units_are_refuted_without_noise(
    tmp_path: Path,
    publish: Callable[..., Path],
    with_noise: Callable[[float], None],
    architecture: str,
    unit: str,
) -> None:
    sizes = {"coordinate_size": 8, "shape_size": 8, "input_size": 32, "patch_size": 16}
    folder = publish(architecture, **(sizes if architecture == "layoutlmv3" else {}))
    begin = start_from(str(folder), LABELS, max_tokens=24)
    plan = PrivacyPlan.calibrated(
        epsilon=8, sampling_rate=1.0, steps=6, expected_records=6, privacy_unit=unit
    )
    documents = audits._forms(begin, 6, 4, seed=3)
    with_noise(0.0)
    with pytest.raises(PrivacyError, match="attacked claims"):
        train_private(begin, documents, tmp_path / "run", plan=plan, audited=True)
