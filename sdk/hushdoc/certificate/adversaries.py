"""Which adversary sees no more than another, and guarantees that contradict that order.

A guarantee against an adversary holds against everybody who sees less. So one that is weaker for
whoever sees less shows that the stronger one leaves something out.
"""

from __future__ import annotations

from collections.abc import Iterable

from hushdoc.certificate.claim import WATCHES_TRAINING, Guarantee

_WIDER = {
    "api-user": ("model-recipient", *WATCHES_TRAINING),
    "model-recipient": WATCHES_TRAINING,
}


def sees_no_more(viewer: str, adversary: str) -> bool:
    """Returns whether the adversary can do all that a viewer with this view can."""
    return viewer == adversary or adversary in _WIDER.get(viewer, ())


def contradictions(guarantees: Iterable[Guarantee]) -> list[tuple[Guarantee, Guarantee]]:
    """Returns each guarantee that is weaker than another against somebody who sees more."""
    found = list(guarantees)
    return [
        (lesser, wider)
        for lesser in found
        for wider in found
        if lesser.adversary != wider.adversary
        and sees_no_more(lesser.adversary, wider.adversary)
        and (lesser.unit, lesser.adjacency) == (wider.unit, wider.adjacency)
        and _is_weaker(lesser, wider)
    ]


def _is_weaker(lesser: Guarantee, wider: Guarantee) -> bool:
    """Whether a guarantee contradicts what one of kind dp says."""
    if wider.kind != "dp":
        return False
    return lesser.kind != "dp" or any(
        epsilon > less and delta >= least
        for epsilon, delta in _points(lesser)
        for less, least in _points(wider)
    )


def _points(guarantee: Guarantee) -> list[tuple[float, float]]:
    if guarantee.epsilon is None or guarantee.delta is None:
        return [*guarantee.profile]
    return [(guarantee.epsilon, guarantee.delta), *guarantee.profile]
