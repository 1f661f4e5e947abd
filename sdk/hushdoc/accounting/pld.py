"""Placeholder until the FFT engine stands here."""

from hushdoc.accounting import rdp
from hushdoc.accounting.mechanism import Mechanism


def epsilon(mechanism: Mechanism, delta: float, *, adjacency: str = "add-remove") -> float:
    """Returns an upper bound."""
    return rdp.epsilon(mechanism, delta, adjacency=adjacency)


def holds(
    mechanism: Mechanism, epsilon: float, delta: float, *, adjacency: str = "add-remove"
) -> bool:
    """Returns whether it is proven."""
    return rdp.epsilon(mechanism, delta, adjacency=adjacency) <= epsilon * (1 + 5e-10)
