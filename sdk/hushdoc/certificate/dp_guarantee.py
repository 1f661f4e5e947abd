"""The factory of guarantees of kind dp, whose numbers an accountant computes from a mechanism.

It stands alone, so that who may use it can be held: a claim of differential privacy is made of what
ran, and never of what somebody planned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from hushdoc.accounting import gdp
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.certificate.claim import Guarantee
from hushdoc.certificate.guarantee_terms import Terms, of_kind


def differential_privacy(
    mechanism: Mechanism,
    epsilon: Callable[[float], float],
    delta: float,
    *,
    accountant: str,
    transcript: str,
    profile: tuple[float, ...] = (),
    **terms: Unpack[Terms],
) -> Guarantee:
    """Returns a guarantee of kind dp for what the adversary sees; `profile` has further deltas."""
    return of_kind(
        "dp",
        accountant,
        terms,
        epsilon=epsilon(delta),
        delta=delta,
        profile=tuple((epsilon(point), point) for point in profile),
        gdp_mu=gdp.mu(mechanism),
        transcript=transcript,
    )
