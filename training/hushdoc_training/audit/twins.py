"""Twins: the same recipe once more on invented documents, with the noise of a small epsilon.

An audit of r guesses can't show more than about ln(r / ln(1 / error)), however much a training
reveals, so one that claims epsilon 8 would pass with hardly any noise. Its twin has the same
settings, sampling, clipping, divisor and code, and the noise of epsilon 1. What its canaries show
is held against the claim that its own checkpoint carries.

Everything is invented: the protected documents are not read, and it costs no privacy.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import Claim
from hushdoc_training.audit import one_run, roc
from hushdoc_training.audit.binomial import Floats
from hushdoc_training.audited_claims import AuditedRun
from hushdoc_training.inherited_claims import RECIPIENT
from hushdoc_training.privacy.plan import PrivacyPlan

EPSILON = 1.0
"""What a twin claims, unless the run itself claims less."""

CONFIDENCE = 0.99

Coins = npt.NDArray[np.bool_]


def twin_of(plan: PrivacyPlan, *, most_steps: int | None = None) -> PrivacyPlan:
    """Returns a plan that differs in its noise, and in its steps where there are more than these.

    Of a training by steps a few show as much as many do: each canary has as much of the noise.
    """
    return PrivacyPlan.calibrated(
        epsilon=min(EPSILON, plan.epsilon),
        delta=plan.delta,
        privacy_unit=plan.privacy_unit,
        sampling_rate=plan.sampling_rate,
        steps=plan.steps if most_steps is None else min(plan.steps, most_steps),
        clipping_norm=plan.clipping_norm,
        expected_records=plan.expected_records,
        accountant=plan.accountant,
    )


def coins(count: int) -> Coins:
    """Returns a fair coin for each canary, from the operating system."""
    return (np.frombuffer(os.urandom(count), dtype=np.uint8) & 1).astype(np.bool_)


def audited(
    scores: Floats,
    included: Coins,
    claim: Claim,
    *,
    method: str,
    error: float = 1 - CONFIDENCE,
    spent: float = math.inf,
    details: Mapping[str, Any],
) -> AuditedRun:
    """Returns what canaries show of a run with this claim.

    Args:
        scores: One for each canary, higher meaning that it was trained on.
        included: Its coin.
        claim: What the audited run claims, with one guarantee against who gets the model.
        method: Which attack, in words.
        error: How likely the bound may be wrong; divide it by the number of audits of one claim.
        spent: Epsilon of the training that the canaries were in, where the claim may be of others
            besides, such as of a set that its start had learned from.
        details: How it was done, for people; JSON.
    """
    [guarantee] = [found for found in claim.guarantees if found.adversary == RECIPIENT]
    if guarantee.epsilon is None or guarantee.delta is None:
        raise ValueError(f"the audited run's guarantee is of kind {guarantee.kind}; expected dp.")
    guesses = one_run.guessed(scores, included)
    # Few coins may all say the same: then there are no rates, and the bound is as it is.
    curves = (
        [roc.measured(method, scores[included], scores[~included], unit=guarantee.unit)]
        if 0 < included.sum() < len(included)
        else []
    )
    return AuditedRun(
        audit=Audit(
            method=method,
            adversary=RECIPIENT,
            unit=guarantee.unit,
            canaries=guesses.canaries,
            runs=1,
            confidence=1 - error,
            epsilon_lower=guesses.epsilon_lower(guarantee.delta, 1 - error),
            delta=guarantee.delta,
            tpr_at_fpr=tuple((curve.tpr, curve.fpr) for curve in curves),
            auc=curves[0].auc if curves else None,
        ),
        claimed=min(guarantee.epsilon, spent),
        ceiling=guesses.ceiling(guarantee.delta, 1 - error),
        details={"guesses": guesses.guesses, "right": guesses.right, **details},
    )
