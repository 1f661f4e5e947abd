"""Recomputation by google/differential-privacy, as a second implementation.

No object of that library is ever built from a certificate's text: its own reader imports whatever
module the text names. Here each of our events is translated by hand, and what has no counterpart
has no answer.
"""

from __future__ import annotations

import math
from typing import Any

from hushdoc.accounting import mechanism as words
from hushdoc.accounting.mechanism import Mechanism
from hushdoc.errors import needs_extra

_INTERVAL = 1e-4
_MOST_STEPS = 100_000
"""Beyond it the library's composition is slow."""

_LEAST_NOISE = 0.1
"""Below it the library's grid has millions of points, and takes half a minute and more."""


def epsilon(
    mechanism: Mechanism,
    delta: float,
    *,
    adjacency: str = "add-remove",
    interval: float = _INTERVAL,
) -> float | None:
    """Returns the pessimistic epsilon of dp-accounting, or None where it has no such mechanism.

    Its grid of privacy losses has the width `interval`. Without dp-accounting: MissingExtraError.
    """
    with needs_extra("dp_accounting", "offline"):
        from dp_accounting import NeighboringRelation, dp_event, pld, rdp
    neighbours = {
        "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "zero-out": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": NeighboringRelation.REPLACE_ONE,
    }.get(adjacency)
    if neighbours is None:
        return None
    by_pld = pld.PLDAccountant(neighbours, value_discretization_interval=interval)
    by_rdp = rdp.RdpAccountant(neighboring_relation=neighbours)
    # One replaced record moves a sum of clipped ones by twice the norm. The library's PLD counts
    # that itself, its RDP leaves it to the caller's noise multiplier.
    replaced = neighbours is NeighboringRelation.REPLACE_ONE
    for accountant, norm in ((by_pld, 1.0), (by_rdp, 2.0 if replaced else 1.0)):
        event = _translated(mechanism, dp_event, norm)
        if event is not None and accountant.supports(event):
            try:
                return float(accountant.compose(event).get_epsilon(delta))
            except (ArithmeticError, ValueError):
                return None  # settings that the library can't compute, so it can't confirm them
    return None


def _translated(event: Mechanism, library: Any, norm: float) -> Any:
    """The library's event, its noise divided by the norm, or None where it has none."""
    match event:
        case words.Gaussian():
            if 0 < event.noise_multiplier / norm < _LEAST_NOISE:
                return None
            return library.GaussianDpEvent(event.noise_multiplier / norm)
        case words.Sequence():
            inner = [_translated(part, library, norm) for part in event.events]
            return None if None in inner else library.ComposedDpEvent(inner)
        case words.Grouped():
            return _group(event, library, norm)
        case words.PoissonSampled() | words.WithoutReplacement() | words.Composed():
            inner = _translated(event.event, library, norm)
            return None if inner is None else _wrapped(event, inner, library)
        case words.RepeatAndSelect():
            inner = _translated(event.event, library, norm)
            return None if inner is None else _repeated(event, inner, library)
        case _:
            return None


def _wrapped(
    event: words.PoissonSampled | words.WithoutReplacement | words.Composed,
    inner: Any,
    library: Any,
) -> Any:
    if isinstance(event, words.PoissonSampled):
        return library.PoissonSampledDpEvent(event.sampling_rate, inner)
    if isinstance(event, words.WithoutReplacement):
        return library.SampledWithoutReplacementDpEvent(event.population, event.sample_size, inner)
    if event.count == 0:
        return library.NoOpDpEvent()
    return None if event.count > _MOST_STEPS else library.SelfComposedDpEvent(inner, event.count)


def _repeated(event: words.RepeatAndSelect, inner: Any, library: Any) -> Any:
    shape = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}[event.distribution]
    return library.RepeatAndSelectDpEvent(inner, event.expected_runs, shape)


def _group(event: words.Grouped, library: Any, norm: float) -> Any:
    """Steps of Poisson-sampled Gaussians, where up to `size` records of one unit are drawn."""
    inner, count = event.event, 1
    if isinstance(inner, words.Composed):
        count = inner.count
        inner = inner.event
    if not isinstance(inner, words.PoissonSampled) or not isinstance(inner.event, words.Gaussian):
        return None
    if event.size > 1000 or count > _MOST_STEPS:
        return None
    rate, size = inner.sampling_rate, event.size
    drawn = [
        math.comb(size, number) * rate**number * (1 - rate) ** (size - number)
        for number in range(size + 1)
    ]
    step = library.MixtureOfGaussiansDpEvent(
        inner.event.noise_multiplier / norm, [float(number) for number in range(size + 1)], drawn
    )
    return library.SelfComposedDpEvent(step, count) if count else library.NoOpDpEvent()
