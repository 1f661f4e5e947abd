"""Autoencoders, denoisers and sampling: sizes of the paper, known answers, shapes, boundaries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hushdoc_training.models import diffusion_schedule
from hushdoc_training.models.autoencoder import KL_F4, KL_F8, KL_SMALL, PageAutoencoder
from hushdoc_training.models.denoiser import TIME, UNET_F4, UNET_F8, UNET_SMALL, Denoiser

TINY = replace(UNET_SMALL, latent_size=8, channels=(16, 16), groups=4)


def parameters(model: nn.Module) -> int:
    return sum(value.numel() for value in model.parameters())


def test_presets_have_the_papers_sizes() -> None:
    with torch.device("meta"):
        assert parameters(PageAutoencoder(KL_F4)) == 55_312_063
        assert parameters(PageAutoencoder(KL_F8)) == 83_653_863
        f4 = Denoiser(UNET_F4, classes=0)
        assert parameters(f4) == 35_749_763
        assert parameters(Denoiser(UNET_F8, classes=0)) == 35_753_220
        assert parameters(PageAutoencoder(KL_SMALL)) == 1_691_485
        assert parameters(Denoiser(UNET_SMALL, classes=5)) == 1_115_587
    f4.freeze_time()
    trained = {name: value for name, value in f4.named_parameters() if value.requires_grad}
    assert sum(value.numel() for value in trained.values()) == 32_860_163
    assert not any(TIME in name for name in trained)


def test_norms_of_too_many_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="a quarter"):
        replace(UNET_SMALL, groups=9)


def test_an_image_becomes_a_latent_and_an_image_again() -> None:
    torch.manual_seed(0)
    codec = PageAutoencoder(replace(KL_SMALL, channels=(8, 8, 8), groups=2)).eval()
    images = torch.rand(2, 1, 64, 64) * 2 - 1
    latents = codec.encode(images)
    assert latents.shape == (2, 3, 16, 16) == (2, 3, *[KL_SMALL.latent_size] * 2)
    assert torch.equal(latents, codec.encode(images))
    codec.scale.fill_(0.25)
    assert torch.allclose(codec.encode(images), latents / 4)
    made = codec.decode(codec.encode(images))
    assert made.shape == images.shape
    assert made.abs().max() <= 1
    assert codec.loss(images).isfinite()


def test_the_schedule_is_that_of_the_literature() -> None:
    betas = np.linspace(1e-4, 0.02, 1000)
    kept = np.cumprod(1 - betas)
    assert np.allclose(diffusion_schedule.kept_signal().numpy(), kept, rtol=1e-4)
    assert kept[-1] == pytest.approx(4.04e-5, rel=0.01)
    theirs = diffusion_schedule._scheduler("ddpm")
    latents, noise, times = torch.ones(2, 1, 2, 2), torch.ones(2, 1, 2, 2), torch.tensor([0, 999])
    ours = diffusion_schedule.noised(latents, noise, times)
    assert torch.allclose(ours, theirs.add_noise(latents, noise, times))
    theirs.set_timesteps(200)
    assert theirs.timesteps.tolist()[:2] == [995, 990]
    assert theirs.timesteps.tolist()[-1] == 0


class Known(nn.Module):
    """Knows the only latent there is, so that it finds all noise."""

    def __init__(self, latent: torch.Tensor) -> None:
        super().__init__()
        self.latent, self.preset, self.classes = latent, TINY, 2

    def forward(self, noisy: torch.Tensor, times: torch.Tensor, *_: object) -> torch.Tensor:
        kept = diffusion_schedule.kept_signal()[times].view(-1, 1, 1, 1)
        return (noisy - kept.sqrt() * self.latent) / (1 - kept).sqrt()


def generators(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


@pytest.mark.parametrize("sampler", diffusion_schedule.SAMPLERS)
def test_who_knows_all_noise_comes_to_the_latent(sampler: str) -> None:
    latent = torch.linspace(-2, 2, 3 * 64).view(3, 8, 8)
    made = diffusion_schedule.sample(
        Known(latent),  # type: ignore[arg-type]
        layouts=None,
        labels=None,
        generators=generators(1, 2),
        sampler=sampler,
        steps=20,
    )
    assert torch.allclose(made, latent.expand(2, -1, -1, -1), atol=2e-3)


@pytest.fixture(scope="module")
def tiny() -> Denoiser:
    torch.manual_seed(0)
    model = Denoiser(TINY, classes=2).eval()
    nn.init.normal_(model.inner.conv_out.weight, std=0.2)  # zero at first
    return model


def test_guidance_moves_from_no_class_to_the_class_and_beyond(tiny: Denoiser) -> None:
    noisy, layouts = torch.randn(2, 2, 3, 8, 8, generator=generators(3)[0])
    times, labels = torch.tensor([900, 4]), torch.tensor([0, 1])

    def found(guidance: float) -> torch.Tensor:
        with torch.no_grad():
            return diffusion_schedule.guided(tiny, noisy, times, layouts, labels, guidance=guidance)

    with torch.no_grad():
        null = tiny(noisy, times, layouts, torch.tensor([2, 2]))
    assert torch.allclose(found(0.0), null, atol=1e-6)
    assert torch.allclose(found(3.0), null + 3 * (found(1.0) - null), atol=1e-5)
    assert not torch.allclose(found(1.0), null)


@pytest.mark.parametrize("sampler", diffusion_schedule.SAMPLERS)
def test_a_page_is_drawn_from_its_own_seed(sampler: str, tiny: Denoiser) -> None:
    def drawn(*seeds: int) -> torch.Tensor:
        return diffusion_schedule.sample(
            tiny,
            layouts=torch.zeros(len(seeds), 3, 8, 8),
            labels=torch.zeros(len(seeds), dtype=torch.long),
            generators=generators(*seeds),
            sampler=sampler,
            steps=3,
            guidance=3.0,
        )

    both = drawn(1, 2)
    assert torch.allclose(both[1:], drawn(2), atol=1e-4)
    assert not torch.allclose(both[0], both[1])


@pytest.mark.parametrize(("sampler", "steps"), [("heun", 10), ("ddim", 0), ("ddim", 1001)])
def test_samplers_and_steps_out_of_range_are_refused(
    sampler: str, steps: int, tiny: Denoiser
) -> None:
    with pytest.raises(ValueError, match="expected"):
        diffusion_schedule.sample(
            tiny, layouts=None, labels=None, generators=[], sampler=sampler, steps=steps
        )
