"""Canaries of private diffusion: one run of a tiny model shows a lower bound on what it spends.

A canary is a page of a class of its own, and a layout is learned for each class, so that what a
canary does to the weights is in the layout of its class, beside nothing but noise. Each is trained
on or left out by a fair coin, and whoever sees the weights at both ends guesses the coins
(`hushdoc_training.audit.one_run`). Pages are drawn from the last ones, so who receives pages alone
sees no more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from hushdoc.certificate.audit_reports import Audit
from hushdoc_training.audit import one_run, twins
from hushdoc_training.audit.binomial import Floats
from hushdoc_training.checkpoint import folder_of
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.models.denoiser import LearnedLayouts
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import denoising, diffusion, diffusion_start
from hushdoc_training.recipes.synthesis.diffusion import Layouts
from hushdoc_training.recipes.synthesis.diffusion_settings import TRAINED, DiffusionSettings
from hushdoc_training.recipes.synthesis.diffusion_start import DiffusionStart
from hushdoc_training.recipes.synthesis.vote_canaries import canary_page

METHOD = "one-run audit: canary pages in the layouts of a tiny diffusion model, seen in its weights"

MULTIPLICITY, _DRAWS = 16, 64
"""Draws for a canary in a step, and for its gradient in the eyes of whoever guesses."""

_STRIPES = np.where(np.arange(32 * 32).reshape(32, 32) // 128 % 2, 1.0, -1.0).astype(np.float32)


def audit(plan: PrivacyPlan, *, canaries: int = 400, confidence: float = 0.95) -> Audit:
    """Returns the lower bound that training on canaries alone shows at a plan's delta.

    Args:
        plan: Of few steps; each canary is in few of many.
        canaries: How many there are; a quarter of them is guessed.
        confidence: Probability that the bound is right.
    """
    codec, denoiser = diffusion_start.built("tiny", condition="layout", classes=(), seed=0)
    claim = claims.public((), training={})
    start = DiffusionStart(
        codec=codec, denoiser=denoiser, classes=(), claim=claim, name="random weights"
    )
    layouts = Layouts(name="stripes", masks=[_STRIPES])
    settings = DiffusionSettings(
        classes=tuple(f"canary {number}" for number in range(canaries)),
        trained="layouts",
        learning_rate=TRAINED["layouts"],
        multiplicity=MULTIPLICITY,
        pages=1,
        sampler="ddim",
        sampling_steps=1,
    )
    made = [canary_page(name, number) for number, name in enumerate(settings.classes)]
    begun, directions = _directions(start, made, settings, layouts)
    included = twins.coins(canaries)
    with tempfile.TemporaryDirectory(prefix="hushdoc-canaries-") as scratch:
        out = Path(scratch) / "run"
        planted = [one for one, there in zip(made, included, strict=True) if there]
        diffusion.train(
            start, planted, plan, settings, out=out, name="canaries", layouts=layouts, quiet=True
        )
        ended = load_file(folder_of(out) / "model.safetensors")["denoiser.rows.weight"]
    scores: Floats = ((begun - ended)[:canaries] * directions).sum(1).double().numpy()
    guesses = one_run.guessed(scores, included)
    return Audit(
        method=METHOD,
        adversary="model-recipient",
        unit="document",
        canaries=canaries,
        runs=1,
        confidence=confidence,
        epsilon_lower=guesses.epsilon_lower(plan.delta, confidence),
        delta=plan.delta,
        tpr_at_fpr=(),
        auc=None,
    )


def _directions(
    start: DiffusionStart,
    made: Sequence[ImageDocument],
    settings: DiffusionSettings,
    layouts: Layouts,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns all layouts as they begin, and the signs of each canary's gradient in its own."""
    denoiser, records = diffusion.prepared(start, made, settings, layouts)
    assert isinstance(denoiser, LearnedLayouts)
    rows = denoiser.rows.weight
    found = torch.zeros(len(made), rows.shape[1])
    for (example,) in records:
        torch.manual_seed(example.label)
        loss = denoising.losses_of(denoiser, [example] * _DRAWS, dropped=0.0).mean()
        (gradient,) = torch.autograd.grad(loss, [rows])
        found[example.label] = gradient[example.label].sign()  # Adam steps by about the sign
    return rows.detach().clone(), found
