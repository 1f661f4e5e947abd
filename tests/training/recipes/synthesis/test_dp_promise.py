"""DP-Promise: its paper's numbers, its two phases, its claim of nothing, and a page given back."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from scipy import optimize, stats
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_forward_pre_hook

from hushdoc.accounting import gdp
from hushdoc.errors import OutputExistsError, PrivacyError
from hushdoc.reading import drawing
from hushdoc_training import drawn_checkpoint
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.models.denoiser import UNET_TINY, Denoiser
from hushdoc_training.models.diffusion_schedule import kept_signal
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import (
    denoising,
    diffusion_start,
    dp_promise,
    public_images,
)
from hushdoc_training.recipes.synthesis.denoising import PageExample
from hushdoc_training.recipes.synthesis.diffusion import Layouts
from hushdoc_training.recipes.synthesis.diffusion_settings import DiffusionSettings, PromiseSettings
from hushdoc_training.recipes.synthesis.diffusion_start import DiffusionStart

SETTINGS = DiffusionSettings(multiplicity=1, pages=1, sampler="ddim", sampling_steps=1)
PROMISE = PromiseSettings(steps=2, since=900)


def plan(**changed: Any) -> PrivacyPlan:
    further = {"sampling_rate": 1.0, "steps": 2, "clipping_norm": 0.01, "expected_records": 2}
    return PrivacyPlan.calibrated(**{"epsilon": 8.0, "accountant": "rdp", **further, **changed})


@pytest.fixture
def start() -> DiffusionStart:
    codec, denoiser = diffusion_start.built("tiny", condition="none", classes=(), seed=0)
    claim = claims.public((), training={})
    return DiffusionStart(codec=codec, denoiser=denoiser, classes=(), claim=claim, name="tiny")


@pytest.fixture
def documents() -> list[ImageDocument]:
    made = []
    for number in range(2):
        stream = io.BytesIO()
        shades = np.random.default_rng(number).integers(0, 255, (32, 32), dtype=np.uint8)
        Image.fromarray(shades).save(stream, format="PNG")
        pages = drawing.open_pages(stream.getvalue()).pages
        made.append(ImageDocument(id=str(number), label="page", pages=pages))
    return made


@pytest.mark.parametrize(
    ("since", "numbers", "sigma", "signal", "private"),
    [(950, 3 * 64 * 64, 1.5, 5.31, 5.80), (900, 4 * 32 * 32, 1.19, 4.51, 8.30)],
)
def test_the_papers_accounting_is_found_again(
    since: int, numbers: int, sigma: float, signal: float, private: float
) -> None:
    """RVL-CDIP by label: 50 epochs of 19 private steps, and one of 78 with 256 pages before."""
    assert dp_promise.signal(since, numbers) == pytest.approx(signal, abs=0.005)
    first = dp_promise.papers_mu(256 / 20_000, 78, dp_promise.signal(since, numbers))
    second = dp_promise.papers_mu(1 / 19, 950, sigma**-2)
    assert gdp.gaussian_epsilon(second, 1 / 320_000) == pytest.approx(private, abs=0.005)

    def left(epsilon: float) -> float:  # Dong, Roth and Su 2022, corollary 1
        sides = stats.norm.cdf([-epsilon / mu + mu / 2, -epsilon / mu - mu / 2])
        return float(sides[0] - math.exp(epsilon) * sides[1] - 1 / 320_000)

    mu = math.hypot(first, second)
    both = gdp.gaussian_epsilon(mu, 1 / 320_000)
    assert both == pytest.approx(optimize.brentq(left, 1.0, 30.0), rel=1e-6)
    assert both > private


def test_the_first_phase_costs_more_the_more_of_a_page_is_left() -> None:
    claimed = [
        dp_promise.papers_epsilon(plan(), replace(PROMISE, since=since), numbers=192)
        for since in (999, 900, 500, 1)
    ]
    assert claimed == sorted(claimed)
    assert claimed[-1] == math.inf


@contextmanager
def learned_times() -> Iterator[list[int]]:
    """Yields the times of all passes with gradients, in their order."""
    found: list[int] = []

    def look(module: Any, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, Denoiser) and torch.is_grad_enabled():
            found.extend(inputs[1].tolist())

    handle = register_module_forward_pre_hook(look)
    try:
        yield found
    finally:
        handle.remove()


def test_what_it_trains_guarantees_nothing(
    start: DiffusionStart, documents: list[ImageDocument], tmp_path: Path
) -> None:
    with learned_times() as times:
        dp_promise.train(
            start,
            documents,
            plan(),
            SETTINGS,
            PROMISE,
            out=tmp_path / "run",
            name="scans",
            quiet=True,
        )
    pages = PROMISE.steps * len(documents)
    assert min(times[:pages]) >= PROMISE.since > max(times[pages:])
    made = drawn_checkpoint.load(tmp_path / "run")
    (guarantee,) = made.claim.guarantees
    assert (guarantee.kind, guarantee.epsilon, guarantee.reason) == (
        "none",
        None,
        dp_promise.REASON,
    )
    assert guarantee.adversary == "synthetic-data-recipient"
    assert (made.claim.transcripts, made.claim.releases) == ({}, ("synthetic-records",))
    assert dp_promise.CAVEAT in made.claim.caveats
    assert [one.treatment for one in made.claim.data_accesses] == ["unaccounted"]
    settings = json.dumps(made.claim.training)
    assert "epsilon" not in settings
    moved = load_file(tmp_path / "run" / "checkpoint" / "model.safetensors")
    assert not start.denoiser.inner.conv_in.weight.equal(moved["denoiser.inner.conv_in.weight"])
    with pytest.raises(OutputExistsError):
        dp_promise.train(
            start, documents, plan(), SETTINGS, PROMISE, out=tmp_path / "run", name="scans"
        )


def test_a_private_page_gives_no_layout(documents: list[ImageDocument], tmp_path: Path) -> None:
    codec, denoiser = diffusion_start.built("tiny", condition="layout", classes=(), seed=0)
    claim = claims.public((), training={})
    start = DiffusionStart(codec=codec, denoiser=denoiser, classes=(), claim=claim, name="tiny")
    layouts = Layouts(
        name="pages",
        masks=[np.zeros((32, 32), dtype=np.float32)],
        files=public_images.files_of(documents[:1]),
    )
    with pytest.raises(PrivacyError) as refused:
        dp_promise.train(
            start,
            documents,
            plan(),
            SETTINGS,
            PROMISE,
            out=tmp_path / "run",
            name="scans",
            layouts=layouts,
        )
    assert refused.value.code == "PRIVATE_PAGE_IS_PUBLIC"
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_takes_no_folder(
    start: DiffusionStart, documents: list[ImageDocument], tmp_path: Path
) -> None:
    apart = replace(SETTINGS, classes=("page",), trained="denoisers")
    seen = replace(start, claim=claims.not_private("scans", (), training={}))
    for one, settings, error in ((start, apart, ValueError), (seen, SETTINGS, PrivacyError)):
        with pytest.raises(error, match="trains all|protected"):
            dp_promise.train(
                one, documents, plan(), settings, PROMISE, out=tmp_path / "run", name="scans"
            )
    assert not (tmp_path / "run").exists()
    for change in ({"steps": 0}, {"since": 0}, {"since": 1000}):
        with pytest.raises(ValueError, match="expected"):
            replace(PROMISE, **change)


SIDE, VANISHED = 4, 1e-11
NUMBERS = 3 * SIDE * SIDE


@pytest.mark.slow
def test_one_gradient_of_the_first_phase_gives_the_page_back() -> None:
    """At a time when less than 2 % of a page is left, by least squares on the gradient alone.

    Unknown are the noisy page, which is all but noise, and the noise, which is the target; the
    gradient has many times as many numbers. The page is what both differ by.
    """
    torch.manual_seed(0)
    preset = replace(
        UNET_TINY, latent_size=SIDE, channels=(8,), groups=2, attention=0, layout=False
    )
    model = Denoiser(preset, classes=0).double().eval()
    model.freeze_time()
    weights = {name: value for name, value in model.named_parameters() if value.requires_grad}
    page = torch.randn(3, SIDE, SIDE, dtype=torch.float64)
    time = PROMISE.since
    loss = denoising.losses_of(
        model,
        [PageExample(latent=page, layout=None, label=0)],
        times=range(time, time + 1),
        dropped=1.0,
    )
    seen = torch.cat([one.flatten() for one in torch.autograd.grad(loss.sum(), weights.values())])

    def error(weights: dict[str, torch.Tensor], unknown: torch.Tensor) -> torch.Tensor:
        noisy, noise = unknown.view(2, 1, 3, SIDE, SIDE)
        found = functional_call(model, weights, (noisy, torch.tensor([time]), None, None))
        return (found - noise).square().mean()

    def off(unknown: torch.Tensor) -> torch.Tensor:
        found = grad(error)({k: v.detach() for k, v in weights.items()}, unknown)
        return (torch.cat([one.flatten() for one in found.values()]) - seen) / seen.norm()

    kept = kept_signal()[time].double()
    with sdpa_kernel(SDPBackend.MATH):  # the one that vmap knows
        for _ in range(5):  # whoever tries sees whether a difference is left
            found, left = fitted(off, torch.randn(NUMBERS, dtype=torch.float64).repeat(2))
            if left < VANISHED:
                break
    noisy, noise = found.view(2, 3, SIDE, SIDE)
    recovered = (noisy - (1 - kept).sqrt() * noise) / kept.sqrt()
    assert kept.sqrt() < 0.02
    assert (recovered - page).abs().max() < 1e-6


def fitted(off: Any, unknown: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Returns what leaves the least difference, and how much, by Levenberg and Marquardt."""
    every = vmap(off, chunk_size=32)
    small, damping = 1e-6 * torch.eye(len(unknown), dtype=unknown.dtype), 0.01
    found = off(unknown)
    for _ in range(25):
        slopes = ((every(unknown + small) - found) / 1e-6).T
        squares, toward = slopes.T @ slopes, slopes.T @ found
        while damping < 1e6:
            damped = squares + damping * torch.diag(squares.diagonal())
            moved = unknown - torch.linalg.solve(damped, toward)
            if (tried := off(moved)).norm() < found.norm():
                unknown, found, damping = moved, tried, damping / 5
                break
            damping *= 4
        if found.norm() < VANISHED:
            break
    return unknown, float(found.norm())
