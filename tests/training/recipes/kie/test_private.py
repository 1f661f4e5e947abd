"""Private key information extraction through the engine: whole documents, clipped once."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from private_simulator import CLIP, Silent, known_streams, make_plan

from hushdoc.labels import LabelledDocument
from hushdoc_training.privacy.engine import BACKENDS
from hushdoc_training.recipes.kie import private
from hushdoc_training.recipes.kie import settings as kie_settings
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie.examples import examples_of, losses_of, trial_records
from hushdoc_training.recipes.kie.records import collate, loss_of, records_of

CPU = torch.device("cpu")
every_document = partial(make_plan, sampling_rate=1.0, steps=3, expected_records=1)


def gradient(
    start: kie_start.Start, documents: list[LabelledDocument], **changed: object
) -> torch.Tensor:
    """Returns the clipped sum over all documents, as Adam's first moment holds it."""
    start = kie_start.Start(**{**vars(start), "model": copy.deepcopy(start.model)})
    settings = kie_settings.PrivateSettings(**changed)  # type: ignore[arg-type]
    with (
        known_streams(noise=Silent()),
        private.private_training(
            start,
            documents,
            every_document(),
            settings,
            charge=lambda step: None,
            device=CPU,
        ) as training,
    ):
        training.step()
        state = training.optimizer.state.values()
        return torch.cat([value["exp_avg"].flatten() for value in state]) / 0.1


def test_every_backend_takes_the_same_step(
    small_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    sums = {
        backend: gradient(small_start, receipts[:5], trained="biases", backend=backend)
        for backend in BACKENDS
    }
    for backend, found in sums.items():
        error = float((found - sums["one-by-one"]).norm() / sums["one-by-one"].norm())
        assert error < 2e-2, (backend, error)  # bfloat16


def test_a_document_moves_the_sum_by_no_more_than_the_clipping_norm(
    small_start: kie_start.Start, receipts: list[LabelledDocument], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = gradient(small_start, receipts[:1])
    assert 0.99 * CLIP < float(one.norm()) <= CLIP
    moved = gradient(small_start, receipts[:4]) - gradient(small_start, receipts[:3])
    assert 0.9 * CLIP < float(moved.norm()) <= 1.1 * CLIP  # batches differ, and so does rounding
    # A document with more windows than a batch has examples goes alone, clipped once all the same.
    monkeypatch.setattr(private, "MAX_TOKENS", 64)
    alone = gradient(small_start, receipts[:1])
    assert float((alone - one).norm()) < 0.05 * CLIP


def test_a_documents_loss_is_the_mean_over_its_labelled_tokens(
    small_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    model, encoder = small_start.model.eval().requires_grad_(False), small_start.encoder
    records = records_of(receipts, encoder, small_start.labels, unit="document")
    assert max(map(len, records)) > 1
    for record in records[:4]:
        by_example = losses_of(model, encoder, examples_of(record), device=CPU)
        whole = loss_of(model, collate(encoder, record), device=CPU)
        assert float(by_example.mean()) == pytest.approx(float(whole), rel=1e-3)  # bfloat16
    unlabelled = tuple(window for window in records[0] for _ in range(2))
    for window in unlabelled:
        window.targets[:] = -100
    assert examples_of(unlabelled) == ()


def test_the_clipper_is_tried_on_invented_windows() -> None:
    one, other = (trial_records(vocabulary=50, tags=5) for _ in range(2))
    assert [len(record) for record in one] == [2, 1, 3]
    for example, again in zip(sum(one, ()), sum(other, ()), strict=True):
        assert (example.window.page.ids == again.window.page.ids).all()
        assert example.window.page.ids.max() < 50
        assert example.window.targets.max() < 5


def test_dropout_is_what_the_settings_say(
    small_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    """LayoutLM keeps its attention's dropout outside of any layer."""
    model, encoder = small_start.model, small_start.encoder
    record = records_of(receipts[:1], encoder, small_start.labels, unit="document")[0]
    for probability in (0.0, 0.2):
        private.set_dropout(model, probability)
        assert model.training
        losses = [losses_of(model, encoder, examples_of(record), device=CPU) for _ in range(2)]
        assert torch.equal(*losses) is (probability == 0.0)


def test_units_that_are_not_made_here_are_refused(
    small_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    with pytest.raises(ValueError, match="expected one of document, sequence"):
        private.private_training(
            small_start,
            receipts,
            every_document(privacy_unit="provider"),
            kie_settings.PrivateSettings(),
            charge=lambda step: None,
            device=CPU,
        )


@pytest.mark.parametrize(
    ("asked", "drawn"),
    [
        (None, "discrete-gaussian"),
        ("discrete-gaussian", "discrete-gaussian"),
        ("gaussian", "gaussian"),
    ],
)
def test_noise_is_drawn_as_it_was_asked_for(
    small_start: kie_start.Start, receipts: list[LabelledDocument], asked: str | None, drawn: str
) -> None:
    with private.private_training(
        small_start,
        receipts[:2],
        every_document(),
        kie_settings.PrivateSettings(trained="output", noise_distribution=asked),
        charge=lambda step: None,
        device=CPU,
    ) as training:
        training.step()
        assert training.receipt.noise_distribution == drawn
