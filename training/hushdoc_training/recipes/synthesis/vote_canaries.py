"""Canaries of private votes: one run shows a lower bound on what a round of votes spends.

Of evolution a canary is a page of the public pool itself, so its vote is for that page alone, with
the whole norm; of selection it is a page of a class of its own, so that no other document votes in
its cells: no document is seen better. Each votes or not by a fair coin of its own, and whoever sees
the noisy sum, of which all that is released is made, guesses the coins
(`hushdoc_training.audit.one_run`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import load_file

from hushdoc.certificate.audit_reports import Audit
from hushdoc.reading import drawing
from hushdoc.synthetic_documents import ADVERSARY
from hushdoc.viewing.rendition import as_png
from hushdoc_training.audit import one_run, twins
from hushdoc_training.audit.binomial import Floats
from hushdoc_training.audit.twins import Coins
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.drawn_checkpoint import MOST_PAGES
from hushdoc_training.invented import released
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import evolution, selection
from hushdoc_training.recipes.synthesis.selection import Candidates, PublicImages, SelectionSettings
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings
from hushdoc_training.synthesis.page_points import CELLS

METHOD = "one-run audit of private votes: pages of the pool vote for themselves by fair coins"
METHOD_OF_IMAGES = (
    "one-run audit of private votes: pages of classes of their own vote by fair coins"
)

_PUBLIC, _SIDE = 80, 32
"""Public pages of an audit of selection, and pixels of each."""


def audit(plan: PrivacyPlan, *, canaries: int = 400, confidence: float = 0.95) -> Audit:
    """Returns the lower bound that one round of votes of canaries alone shows at a plan's delta.

    Args:
        plan: Of one round of votes.
        canaries: How many there are; a quarter of them is guessed.
        confidence: Probability that the bound is right.

    Raises:
        ValueError: The plan has several rounds.
    """
    _require_one_round(plan)
    settings = EvolutionSettings(
        vote="pages", nearest=1, pool=canaries, documents=1, document_types=("receipt",)
    )
    specifications = evolution.first_pool(settings)
    voted = twins.coins(canaries)
    voters = [
        released.document_of(one, settings.labels)
        for one, takes_part in zip(specifications, voted, strict=True)
        if takes_part
    ]
    scores = _sums(
        lambda out: evolution.evolve(
            voters, plan, settings, out=out, name="canaries", quiet=True, copies="keep"
        )
    )
    return _audit(scores, voted, plan, confidence=confidence, method=METHOD)


def audit_of_images(plan: PrivacyPlan, *, canaries: int = 400, confidence: float = 0.95) -> Audit:
    """Returns the lower bound that one round of `selection.select` shows; as `audit` does."""
    _require_one_round(plan)
    if canaries > MOST_PAGES:
        raise ValueError(f"there are {canaries} canaries; expected at most {MOST_PAGES}.")
    classes = tuple(f"canary {number}" for number in range(canaries))
    made = [canary_page(name, number) for number, name in enumerate(classes)]
    offered = [canary_page("public", canaries + number) for number in range(_PUBLIC)]
    public = PublicImages(documents=offered, name="drawn squares", overlap="none", invented=True)
    settings = SelectionSettings(
        classes=classes, pages=canaries, copies=-(-canaries // _PUBLIC), side=CELLS
    )
    voted = twins.coins(canaries)
    voters = [one for one, takes_part in zip(made, voted, strict=True) if takes_part]
    sums = _sums(
        lambda out: selection.select(
            voters, public, plan, settings, out=out, name="canaries", quiet=True
        )
    )
    candidates = Candidates(public, settings, quiet=True)
    # Each alone, in the order of the coins: who reads the sum knows what each would have voted.
    scores = np.array([candidates.votes_of([one])[0] @ sums for one in made])
    return _audit(scores, voted, plan, confidence=confidence, method=METHOD_OF_IMAGES)


def _require_one_round(plan: PrivacyPlan) -> None:
    if plan.steps != 1:
        raise ValueError(f"the plan has {plan.steps} rounds; canaries are of one. Plan one round.")


def canary_page(label: str, number: int) -> ImageDocument:
    """Returns a page of black and white squares, each number another."""
    chance = np.random.default_rng(number)
    shades = (255 * chance.integers(0, 2, (CELLS, CELLS))).astype(np.uint8)
    image = Image.fromarray(shades).resize((_SIDE, _SIDE), 0)
    pages = drawing.open_pages(as_png(image)).pages
    return ImageDocument(id=f"page {number}", label=label, pages=pages)


def _sums(run: Callable[[Path], object]) -> Floats:
    """Returns the noisy sum of a run of one round."""
    with tempfile.TemporaryDirectory(prefix="hushdoc-canaries-") as scratch:
        run(Path(scratch) / "run")
        (kept,) = Path(scratch).glob("run/votes-*.safetensors")
        sums: Floats = load_file(kept)["sums"]
    return sums


def _audit(
    scores: Floats, voted: Coins, plan: PrivacyPlan, *, confidence: float, method: str
) -> Audit:
    """Returns what scores, higher where a canary seems to have voted, show at a plan's delta."""
    guesses = one_run.guessed(scores, voted)
    return Audit(
        method=method,
        adversary=ADVERSARY,
        unit="document",
        canaries=guesses.canaries,
        runs=1,
        confidence=confidence,
        epsilon_lower=guesses.epsilon_lower(plan.delta, confidence),
        delta=plan.delta,
        tpr_at_fpr=(),
        auc=None,
    )
