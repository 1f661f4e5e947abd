"""One-run auditing: one training shows a lower bound on epsilon, from guesses about many canaries.

Every canary is trained on or left out by a fair coin of its own, which nobody else sees. Who looks
at the released model guesses coins, and abstains where it is not sure. Under (epsilon, delta) no
guess is right more often than e^epsilon : 1, and delta can help a few (Steinke, Nasr, Jagielski:
Privacy Auditing with One (1) Training Run, NeurIPS 2023, theorem 5.2), however dependent the
guesses are. So many right guesses refute every smaller epsilon.

How many guesses are made is fixed before anything is seen (SHARE), so one bound is looked at and
nothing is to be corrected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc_training.audit import binomial
from hushdoc_training.audit.binomial import Floats

SHARE = 0.25
"""Share of the canaries that are guessed, half as trained on and half as left out. With 1,000
canaries it shows most of noise that is four times too small, and enough of noise that is not there.
"""

MAX_EPSILON = 64.0
"""Where the search for a bound ends; no number of canaries shows as much."""

_ROUNDING = 1e-9
"""What rounding may have added to a probability, and much more."""


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """How many canaries there were, were guessed, and were guessed right."""

    canaries: int
    guesses: int
    right: int

    def __post_init__(self) -> None:
        """Refuses numbers that contradict one another."""
        if not 0 <= self.right <= self.guesses <= self.canaries:
            raise ValueError(
                f"{self.right} right of {self.guesses} guesses about {self.canaries} canaries; "
                "expected no more right than guessed and no more guessed than there are."
            )

    def p_value(self, epsilon: float, delta: float) -> float:
        """Returns an upper bound on the probability of so many right guesses under a guarantee.

        W counts the successes of r independent guesses that are right with e^epsilon : 1. The bound
        is P[W >= v] + 2 m delta max_i P[v > W >= v - i] / i, for m canaries, r guesses, v right.
        """
        if epsilon < 0 or not 0 <= delta <= 1:
            raise ValueError(
                f"epsilon is {epsilon!r} and delta {delta!r}; expected at least 0, and 0 to 1."
            )
        right = -math.log1p(math.exp(-epsilon))
        counts = binomial.probabilities(self.guesses, right, right - epsilon)
        tail = float(counts[self.right :].sum())
        below = np.cumsum(counts[: self.right][::-1]) / np.arange(1, self.right + 1)
        helped = 2 * self.canaries * delta * float(below.max(initial=0.0))
        return min(1.0, (tail + helped) * (1 + _ROUNDING))

    def epsilon_lower(self, delta: float, confidence: float) -> float:
        """Returns an epsilon such that none below it holds at delta, with this confidence.

        0 where the guesses refute nothing. The p-value grows with epsilon, so that halving finds
        where it crosses 1 - confidence; the end that is returned is refuted.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence is {confidence!r}; expected more than 0, less than 1.")
        low, high = 0.0, MAX_EPSILON
        if self.p_value(low, delta) > 1 - confidence:
            return 0.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            refuted = self.p_value(middle, delta) <= 1 - confidence
            low, high = (middle, high) if refuted else (low, middle)
        return low

    def ceiling(self, delta: float, confidence: float) -> float:
        """Returns the bound if every guess were right: ln(r / ln(1 / (1 - confidence))), nearly."""
        best = Guesses(canaries=self.canaries, guesses=self.guesses, right=self.guesses)
        return best.epsilon_lower(delta, confidence)


def guessed(scores: Floats, included: npt.NDArray[np.bool_], *, share: float = SHARE) -> Guesses:
    """Returns how well scores tell which canaries were trained on, a higher one meaning that.

    Args:
        scores: One for each canary, shape [m]. NaN and infinities are no scores: a ValueError.
        included: Whether its coin had it trained on, shape [m].
        share: Of the canaries that is guessed about, fixed before anything is seen.
    """
    if scores.shape != included.shape or scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError(
            f"scores have the shape {scores.shape} and coins {included.shape}; expected one finite "
            "score for every coin."
        )
    if not 0 < share <= 1:
        raise ValueError(f"share is {share!r}; expected more than 0 and at most 1.")
    half = int(share * len(scores)) // 2
    order = np.argsort(scores, kind="stable")
    right = included[order[len(order) - half :]].sum() + (~included[order[:half]]).sum()
    return Guesses(canaries=len(scores), guesses=2 * half, right=int(right))
