"""Mixture distinguisher: tells by the sums of a federated run whether one unit was in it.

It attacks the code that runs: its draws of clients and units, its grid and its shares of the noise.
The data are the worst case: one unit of the full clipping norm, all others zero. Whoever receives
the model after every round knows who took part, which is public, and adds up likelihood ratios of
the sums. If drawing clients were counted as if units were drawn independently, what this finds
would be above what is claimed (docs/papers.md, sections 2 and 3).

Each number of an update is a run of its own, with a unit of its own, so one pass is many runs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit import roc
from hushdoc_training.audit.roc import Attack, Scores
from hushdoc_training.federated.participation import DRAWN
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.metering import Meter
from hushdoc_training.randomness.sampling import poisson_sample
from hushdoc_training.randomness.secret_stream import SecretStream

METHOD = "federated mixture distinguisher"

_RUN = "00" * 16


def attack(plan: FederatedPlan, *, fpr: float = roc.FALSE_POSITIVE_RATE) -> Attack:
    """Returns how well runs with a unit are told from runs without it, `plan.numbers` of each.

    Only so many clients add noise as a plan counts on: the others are silent, or tell theirs.

    Args:
        plan: Of an algorithm whose clients share the noise.
        fpr: Largest rate of false positives at which true ones are counted.
    """
    present, absent = (_scores(plan, present=present) for present in (True, False))
    return roc.measured(METHOD, present, absent, unit=plan.privacy_unit, fpr=fpr)


def _scores(plan: FederatedPlan, *, present: bool) -> Scores:
    """Returns the log likelihood ratio of each run."""
    grid, rate = plan.grid, plan.client_sampling_rate
    moved = round(plan.clipping_norm / grid.step)
    variance = plan.shares.counted * grid.share_deviation**2
    coins, noise = SecretStream(), SecretStream()
    meter = Meter(planned_steps=plan.rounds, privacy_unit=plan.privacy_unit)
    found = np.zeros(plan.numbers)
    for number in range(plan.rounds):
        there = _takes_part(plan, number, coins)
        own = np.zeros(plan.numbers, dtype=np.int64)
        if present:
            own[there[poisson_sample(len(there), rate, coins)]] = moved
        total = grid.noised(own, noise, meter)
        for _ in range(plan.shares.counted - 1):
            total = total + grid.noised(np.zeros_like(own), noise, meter)
        ratio = (2.0 * total[there] - moved) * moved / (2 * variance)
        with np.errstate(divide="ignore"):
            found[there] += np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)
    return found


def _takes_part(plan: FederatedPlan, number: int, coins: SecretStream) -> npt.NDArray[np.int64]:
    """Returns the runs in which the unit's client, which is the first, takes part in a round."""
    turns = plan.turns
    if turns.how == DRAWN:
        there = [0 in turns.draw(coins) for _ in range(plan.numbers)]
    else:
        there = [turns.takes_part(0, number, _RUN)] * plan.numbers
    return np.flatnonzero(there)
