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
from hushdoc_training.models.denoiser import UNET_SMALL, Denoiser
from hushdoc_training.privacy import clipping
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
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
    model: Denoiser, protected: list[list[PageExample]], *, multiplicity: int = 1
) -> torch.Tensor:
    """Returns the noiseless clipped sum of records, each of its examples' mean loss."""
    clipper = clipping.BookKeeping(model, clipping_norm=NORM, clipping="flat")
    for record in protected:
        repeated = [one for one in record for _ in range(multiplicity)]
        clipper.add(partial(mean_shares, model, repeated), torch.zeros(len(repeated), dtype=int))
    found = torch.cat([total.flatten() for total in clipper.sums.values()])
    clipper.clear()
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
