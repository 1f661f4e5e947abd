"""What a mechanism spends, by accountants whose epsilon is an upper bound; each is asked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from hushdoc.accounting import pld, rdp
from hushdoc.accounting.mechanism import Mechanism

ACCOUNTANTS = {"pld": pld.epsilon, "rdp": rdp.epsilon}
"""Ways to compute epsilon, both upper bounds. Privacy loss distributions (pld) need about 6 % less
noise for the same epsilon; Renyi accounting (rdp) is the older way."""

PROFILE_DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""Where a guarantee gives epsilon besides its own delta."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What one mechanism spends by one of ACCOUNTANTS: every epsilon is computed once."""

    mechanism: Mechanism
    accountant: str
    adjacency: str = "add-remove"
    _computed: dict[float, float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def epsilon(self, delta: float) -> float:
        """Returns the epsilon at a delta."""
        if delta not in self._computed:
            compute = ACCOUNTANTS[self.accountant]
            self._computed[delta] = compute(self.mechanism, delta, adjacency=self.adjacency)
        return self._computed[delta]


@lru_cache(maxsize=64)
def spending_of(mechanism: Mechanism, accountant: str, adjacency: str) -> Spending:
    """Returns what a mechanism spends, the same object for a plan and for the receipt of it."""
    return Spending(mechanism=mechanism, accountant=accountant, adjacency=adjacency)
