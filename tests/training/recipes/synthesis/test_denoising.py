"""Private training of denoisers: exact gradients, neighbours, multiplicity, what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from hushdoc.accounting import calibration
from hushdoc.errors import PrivacyError
from hushdoc_training.models.denoiser import UNET_SMALL, ClassDenoisers, Denoiser
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.privacy.trial import GIVEN_RECORDS, trial_examples
from hushdoc_training.recipes.synthesis import denoising
from hushdoc_training.recipes.synthesis.denoising import PageExample

TINY = replace(UNET_SMALL, latent_size=4, channels=(16, 16), groups=4)
NORM = 0.01


def denoiser(**changed: Any) -> Denoiser:
    torch.manual_seed(0)
    model = Denoiser(replace(TINY, **changed), classes=2).eval()
    model.freeze_time()
    return model


def records(count: int = 5, pages: int = 1) -> list[list[PageExample]]:
    generator = torch.Generator().manual_seed(5)
    return [
        [
            PageExample(
                latent=torch.randn(3, 4, 4, generator=generator) * 3 ** (number % 3),
                layout=torch.randn(3, 4, 4, generator=generator).sign(),
                label=number % 2,
            )
            for _ in range(pages)
        ]
        for number in range(count)
    ]


def plan(**changed: Any) -> PrivacyPlan:
    return PrivacyPlan.calibrated(
        **{
            "epsilon": 8.0,
            "sampling_rate": 0.5,
            "steps": 2,
            "clipping_norm": NORM,
            "expected_records": 3,
            "accountant": "rdp",
            **changed,
        }
    )


def training(model: Denoiser, protected: list[list[PageExample]], **further: Any) -> Any:
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-4)
    return denoising.private_training(
        model,
        Records(protected, unit="document"),
        plan(),
        optimizer,
        **{"multiplicity": 2, **further},
    )


def test_a_denoiser_passes_the_self_test_and_steps() -> None:
    model = denoiser()
    frozen = {k: v.clone() for k, v in model.named_parameters() if not v.requires_grad}
    before = {k: v.clone() for k, v in model.named_parameters() if v.requires_grad}
    with training(model, records(pages=2)) as trained:
        for _ in trained:
            pass
        details = trained.claim_details("pages")
        assert not trained.untrained_parameters
        assert (trained.receipt.steps, trained.receipt.privacy_unit) == (2, "document")
    after = dict(model.named_parameters())
    assert all(torch.equal(after[name], value) for name, value in frozen.items())
    assert all(not torch.equal(after[name], value) for name, value in before.items())
    assert any("draw at random" in assumed for assumed in details.assumes)
    assert not details.accesses  # the self-test read invented numbers


def test_one_channel_a_group_is_refused() -> None:
    """What time and class add to a channel of its own group, the norm takes away."""
    model = denoiser()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.GroupNorm):
                setattr(parent, name, nn.GroupNorm(child.num_channels, child.num_channels))
    with pytest.raises(PrivacyError, match="off by"):
        training(model, records())


def mean_shares(model: Denoiser, examples: list[PageExample]) -> torch.Tensor:
    return denoising.calm_losses_of(model, examples) / len(examples)


def clipped_sum(
    model: Denoiser,
    protected: list[list[PageExample]],
    *,
    multiplicity: int = 1,
    clipper: type[clipping.Clipper] = clipping.BookKeeping,
) -> torch.Tensor:
    """Returns the noiseless clipped sum of records, each of its examples' mean loss."""
    made = clipper(model, clipping_norm=NORM, clipping="flat")
    for record in protected:
        repeated = [one for one in record for _ in range(multiplicity)]
        made.add(partial(mean_shares, model, repeated), torch.zeros(len(repeated), dtype=int))
    found = torch.cat([total.flatten() for total in made.sums.values()])
    made.clear()
    return found


def test_one_record_more_moves_the_sum_by_no_more_than_the_norm() -> None:
    model, protected = denoiser(), records(count=3, pages=2)
    whole = clipped_sum(model, protected)
    for left_out in range(3):
        without = clipped_sum(model, protected[:left_out] + protected[left_out + 1 :])
        assert float((whole - without).norm()) <= NORM * (1 + 1e-5)
    assert float((whole - without).norm()) > 0.5 * NORM


def test_repetitions_of_the_same_draws_change_nothing() -> None:
    """The mean over draws is clipped once: K equal draws are one."""
    model, protected = denoiser(), records(count=1)
    once, thrice = (clipped_sum(model, protected, multiplicity=k) for k in (1, 3))
    assert torch.allclose(once, thrice, rtol=1e-4, atol=1e-7)


def class_denoisers(classes: int = 2, **changed: Any) -> ClassDenoisers:
    torch.manual_seed(0)
    model = ClassDenoisers(Denoiser(replace(TINY, **changed), classes=0).eval(), classes=classes)
    for number, one in enumerate(model.each):  # as if they had learned already
        for value in one.parameters():
            value.data.add_(0.02 * number * torch.randn_like(value))
    model.freeze_time()
    return model


def gradient_alone(model: ClassDenoisers, record: list[PageExample]) -> list[torch.Tensor]:
    """Returns a record's gradient by its classes, each of a denoiser that knows no others."""
    found = []
    for label, own in enumerate(model.each):
        alone = Denoiser(model.preset, classes=0).eval()
        alone.inner.load_state_dict(own.state_dict())
        alone.freeze_time()
        chosen = [value for value in alone.parameters() if value.requires_grad]
        total = torch.zeros(()) + sum(0 * value.sum() for value in chosen)
        for page in record:
            if page.label == label:
                total = total + denoising.calm_losses_of(alone, [page]).sum() / len(record)
        found.append(torch.cat([one.flatten() for one in torch.autograd.grad(total, chosen)]))
    return found


def test_a_page_moves_the_denoiser_of_its_class_alone() -> None:
    """The clipped sum is that of a loop over records, each with denoisers that stand alone."""
    model, protected = class_denoisers(), records(count=4, pages=2)
    protected[3][1] = replace(protected[3][1], label=0)  # a document of two classes
    expected = torch.zeros(sum(p.numel() for p in model.parameters() if p.requires_grad))
    for record in protected:
        blocks = gradient_alone(model, record)
        assert [bool(block.any()) for block in blocks] == [
            any(page.label == label for page in record) for label in (0, 1)
        ]
        whole = torch.cat(blocks)
        expected += whole * min(1.0, NORM / float(whole.norm()))
        found = clipped_sum(model, [record], clipper=clipping.OneByOne)
        assert float(found.norm()) <= NORM
        halves = found.chunk(2)
        assert [bool(half.any()) for half in halves] == [bool(block.any()) for block in blocks]
    found = clipped_sum(model, protected, clipper=clipping.OneByOne)
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-6 * NORM)


def test_each_latent_is_read_by_the_denoiser_of_its_class() -> None:
    model = class_denoisers(3)
    noisy, layouts = torch.randn(2, 4, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    times, labels = torch.tensor([1, 500, 2, 999]), torch.tensor([2, 0, 2, 1])
    with torch.no_grad():
        found = model(noisy, times, layouts, labels)
        for at, label in enumerate(labels.tolist()):
            read = torch.cat([layouts[at], noisy[at]]).unsqueeze(0)
            alone = model.each[label](read, times[at : at + 1]).sample[0]
            assert torch.allclose(found[at], alone, atol=1e-5)
            assert not torch.allclose(
                found[at], model.each[(label + 1) % 3](read, times[at]).sample
            )


def test_each_class_with_weights_of_its_own_is_in_the_self_test() -> None:
    for classes in (1, 2, 7, 16, denoising.MOST_DENOISERS):
        found = denoising.trial_records(
            class_denoisers(classes, channels=(4,), groups=1, attention=0)
        )
        assert {page.label for record in found for page in record} == {*range(classes)}
        assert len(trial_examples(found, most=GIVEN_RECORDS)) == sum(map(len, found))


@pytest.mark.slow
def test_as_many_denoisers_as_there_are_classes_are_tried_and_stepped() -> None:
    """More classes than the self-test has examples of other trainings; most have no page."""
    model = class_denoisers(16, channels=(16,), attention=0)
    before = {k: v.clone() for k, v in model.named_parameters() if v.requires_grad}
    with training(model, records(count=2, pages=2), backend="one-by-one") as trained:
        assert not trained.untrained_parameters
        trained.step()
    after = dict(model.named_parameters())
    assert all(not torch.equal(after[name], value) for name, value in before.items())


def test_losses_draw_anew_and_those_of_the_self_test_do_not() -> None:
    model, (examples, *_) = denoiser(), records(pages=4)
    calm = partial(denoising.calm_losses_of, model)
    assert torch.equal(calm(examples), calm(examples))
    assert torch.allclose(calm(examples)[2:], calm(examples[2:]), rtol=1e-4)
    torch.manual_seed(1)
    first = denoising.losses_of(model, examples)
    assert not torch.equal(first, denoising.losses_of(model, examples))
    torch.manual_seed(1)
    assert torch.equal(first, denoising.losses_of(model, examples))


def test_models_without_layout_or_class_are_trained_too() -> None:
    torch.manual_seed(0)
    plain = Denoiser(replace(TINY, layout=False), classes=0).eval()
    bare = [[replace(one, layout=None) for one in record] for record in records(count=2)]
    assert denoising.losses_of(plain, [record[0] for record in bare]).shape == (2,)


@pytest.mark.parametrize(("epsilon", "sigma"), [(10.0, 1.15), (5.0, 1.81), (1.0, 7.11)])
def test_the_papers_noise_is_found_again(epsilon: float, sigma: float) -> None:
    """RVL-CDIP by label, as opacus' RDP accountant gave it to DP-DocLDM's code: 50 epochs of 19."""
    found = calibration.noise_multiplier(
        epsilon=epsilon, delta=1 / 320_000, sampling_rate=1 / 19, steps=950, accountant="rdp"
    )
    assert found == pytest.approx(sigma, rel=0.01)
