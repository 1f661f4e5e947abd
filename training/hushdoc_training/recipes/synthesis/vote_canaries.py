"""Canaries of private votes: one run shows a lower bound on what a round of votes spends.

A canary is a page of the public pool itself, so its vote is for that page alone, with the whole
norm: no document is seen better. Each votes or not by a fair coin of its own, and whoever sees the
noisy sum, which is released, guesses the coins (`hushdoc_training.audit.one_run`).
"""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from hushdoc.certificate.audit_reports import Audit
from hushdoc.synthetic_documents import ADVERSARY
from hushdoc_training.audit.one_run import SHARE, Guesses
from hushdoc_training.invented import released
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import evolution
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings

METHOD = "one-run audit of private votes: pages of the pool vote for themselves by fair coins"


def audit(plan: PrivacyPlan, *, canaries: int = 400, confidence: float = 0.95) -> Audit:
    """Returns the lower bound that one round of votes of canaries alone shows at a plan's delta.

    Args:
        plan: Of one round of votes.
        canaries: How many there are; a quarter of them is guessed.
        confidence: Probability that the bound is right.

    Raises:
        ValueError: The plan has several rounds.
    """
    if plan.steps != 1:
        raise ValueError(f"the plan has {plan.steps} rounds; canaries are of one. Plan one round.")
    settings = EvolutionSettings(
        vote="pages", nearest=1, pool=canaries, documents=1, document_types=("receipt",)
    )
    specifications = evolution.first_pool(settings)
    voted = np.array([secrets.randbelow(2) for _ in specifications], dtype=bool)
    voters = [
        released.document_of(one, settings.labels)
        for one, takes_part in zip(specifications, voted, strict=True)
        if takes_part
    ]
    with tempfile.TemporaryDirectory(prefix="hushdoc-canaries-") as scratch:
        out = Path(scratch) / "run"
        evolution.evolve(
            voters,
            plan,
            settings,
            out=out,
            name="canaries",
            quiet=True,
            copies="keep",
        )
        (kept,) = out.glob("votes-*.safetensors")
        sums = load_file(kept)["sums"]
    order = np.argsort(sums, kind="stable")
    half = max(1, round(canaries * SHARE / 2))
    right = int((~voted[order[:half]]).sum() + voted[order[-half:]].sum())
    guesses = Guesses(canaries=canaries, guesses=2 * half, right=right)
    return Audit(
        method=METHOD,
        adversary=ADVERSARY,
        unit="document",
        canaries=canaries,
        runs=1,
        confidence=confidence,
        epsilon_lower=guesses.epsilon_lower(plan.delta, confidence),
        delta=plan.delta,
        tpr_at_fpr=(),
        auc=None,
    )
