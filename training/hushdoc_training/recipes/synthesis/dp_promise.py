"""DP-Promise as its paper has it, to compare with: what it trains has no guarantee.

Wang et al. 2024 (USENIX Security): a first phase learns the times at which a page is nearly all
noise, by Adam without clipping or noise; a second one the other times, by DPDM. The paper takes the
noise that diffusion adds to pages for that of a Gaussian mechanism. But that noise is the target of
the loss, so whoever sees a gradient finds noise, noisy page and page (docs/papers.md, 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from hushdoc.accounting import gdp
from hushdoc.certificate.claim import Claim
from hushdoc.system.progress import TaskProgress
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.models.denoiser import Denoiser
from hushdoc_training.models.diffusion_schedule import TIMES, kept_signal
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.private_view import PrivateView
from hushdoc_training.recipes.synthesis import denoising, diffusion, page_squares, public_images
from hushdoc_training.recipes.synthesis.denoising import PageExample
from hushdoc_training.recipes.synthesis.diffusion import Layouts
from hushdoc_training.recipes.synthesis.diffusion_settings import DiffusionSettings, PromiseSettings
from hushdoc_training.recipes.synthesis.diffusion_start import DiffusionStart
from hushdoc_training.runs.claim_words import SYNTHETIC_PAGES
from hushdoc_training.runs.run_folder import CHECKPOINT, Run

REASON = (
    "The first phase of DP-Promise learns from gradients without clipping or noise, and the target "
    "of its loss is the noise that was added to a page, so that one gradient gives the page back."
)
CAVEAT = (
    "What was trained by DP-Promise is for comparison with its paper, whose accounting does not "
    "hold: whoever receives these pages may learn anything of the documents."
)


def train(
    start: DiffusionStart,
    documents: Sequence[ImageDocument],
    plan: PrivacyPlan,  # of the second phase
    settings: DiffusionSettings,
    promise: PromiseSettings,
    *,
    out: Path,
    name: str,  # what the certificate calls the documents
    layouts: Layouts | None = None,  # where the denoiser reads layouts
    labels_from_documents: bool = False,
    quiet: bool = False,
) -> None:
    """Trains in both phases, draws the pages, and writes `out/checkpoint`, whose claim says none.

    There is no ledger, for it can't charge the first phase, and no resuming.

    Raises:
        AnnotationError: A document is of a class that is not declared, an image can't be read, or
            there is no layout with text.
        EmptyDocumentError: There is no document.
        OutputExistsError: The folder holds something.
        PrivacyError: The start has seen protected documents, or a layout is of a protected page.
        ValueError: The plan is not one of whole documents, the layouts are of synthetic documents,
            or not all of the denoiser is trained.
    """
    if settings.trained != "all":
        raise ValueError(f"trained is '{settings.trained}'; DP-Promise trains all.")
    diffusion.require_fitting(start, plan, settings, layouts)
    page_squares.require_known(documents, settings.classes)
    used = layouts if start.denoiser.preset.layout else None
    if used is not None and used.claim is not None:
        raise ValueError(
            "The layouts are of synthetic documents, whose guarantee DP-Promise, which has none, "
            "would lose. Give layouts of public or invented pages."
        )
    public_images.require_apart({} if used is None else used.files, documents)
    denoiser, records = diffusion.prepared(start, documents, settings, used)
    shared = {"mode": "dp-promise", **asdict(settings), "first_phase": asdict(promise)}
    Run.open(out, {**shared, "start": start.name, "plan": asdict(plan)}, resume=False)
    first_phase(denoiser, records, plan.sampling_rate, settings, promise, quiet=quiet)
    with (
        denoising.private_training(
            denoiser,
            records,
            plan,
            diffusion.adam(denoiser, settings),
            multiplicity=settings.multiplicity,
            view=PrivateView.of("hidden"),
            times=range(promise.since),
        ) as training,
        TaskProgress("private step", quiet=quiet) as progress,
    ):
        for step in training:
            progress.show(step.number, plan.steps)
    claim = _claim(start, plan, settings, promise, name, used, labels_from_documents)
    diffusion.save_pages(
        out / CHECKPOINT, claim, start.codec, denoiser, settings, layouts=used, quiet=quiet
    )


def first_phase(
    denoiser: Denoiser,
    records: Sequence[Sequence[PageExample]],
    sampling_rate: float,
    settings: DiffusionSettings,
    promise: PromiseSettings,
    *,
    quiet: bool,
) -> None:
    """Takes the steps of the first phase: any part of any page may be in the weights afterwards."""
    optimizer = diffusion.adam(denoiser, settings)
    with TaskProgress("step without privacy", quiet=quiet) as progress:
        for number in range(1, promise.steps + 1):
            drawn = np.random.default_rng((settings.seed, number)).random(len(records))
            chosen = [
                page
                for record, coin in zip(records, drawn, strict=True)
                for page in record
                if coin < sampling_rate
            ]
            torch.manual_seed(settings.seed * 10**9 + number)
            for first in range(0, len(chosen), denoising.MAX_EXAMPLES):
                part = chosen[first : first + denoising.MAX_EXAMPLES]
                times = range(promise.since, TIMES)
                losses = denoising.losses_of(denoiser, part, times=times, dropped=1.0)
                torch.autograd.backward(losses.sum() / len(chosen))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            progress.show(number, promise.steps)


def papers_epsilon(plan: PrivacyPlan, promise: PromiseSettings, *, numbers: int) -> float:
    """Returns the epsilon that the paper claims of such a run, for comparison: it bounds nothing.

    Args:
        plan: Of the second phase.
        promise: Of the first.
        numbers: Of a latent, each taken to be from -1 to 1.
    """
    first = papers_mu(plan.sampling_rate, promise.steps, signal(promise.since, numbers))
    second = papers_mu(plan.sampling_rate, plan.steps, plan.noise_multiplier**-2)
    return gdp.gaussian_epsilon(math.hypot(first, second), plan.delta)


def papers_mu(rate: float, steps: int, exponent: float) -> float:
    """Returns the mu of its central limit theorem; the exponent is 1 / sigma^2 of a step."""
    with np.errstate(over="ignore"):
        return rate * math.sqrt(steps * np.expm1(np.float64(exponent)))


def signal(since: int, numbers: int) -> float:
    """Returns 1 / sigma^2 of its first phase, of how far a page can move what noise is added to."""
    kept = float(kept_signal().double()[since - 1])
    return 4 * numbers * kept / (1 - kept)


def _claim(
    start: DiffusionStart,
    plan: PrivacyPlan,
    settings: DiffusionSettings,
    promise: PromiseSettings,
    name: str,
    layouts: Layouts | None,
    labels_from_documents: bool,
) -> Claim:
    """Returns the claim: no guarantee, and why."""
    made = claims.not_private(
        name,
        (*start.claim.public_data, *diffusion.public_of(layouts)),
        training={
            "method": "latent diffusion (DP-Promise)",
            "start": start.name,
            "layouts": None if layouts is None else layouts.name,
            **asdict(settings),
            "first_phase": asdict(promise),
            "second_phase": {
                "steps": plan.steps,
                "sampling_rate": plan.sampling_rate,
                "clipping_norm": plan.clipping_norm,
                "noise_multiplier": plan.noise_multiplier,
            },
        },
    )
    guarantee = replace(
        made.guarantees[0],
        reason=REASON,
        adversary=SYNTHETIC_PAGES.adversary,
        observes=SYNTHETIC_PAGES.observes,
        composition="two phases of training, of which the first has no noise",
        sampling_as_implemented="unknown",
        floating_point="the noise of the second phase alone was drawn",
    )
    return replace(
        made,
        guarantees=(guarantee,),
        releases=("synthetic-records",),
        data_accesses=(*made.data_accesses, *claims.label_access(name, labels_from_documents)),
        caveats=(CAVEAT,),
    )
