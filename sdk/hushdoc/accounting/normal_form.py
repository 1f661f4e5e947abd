"""The normal form of a mechanism, which every accountant reads: a small tree of noisy sums.

Every event of `hushdoc.accounting.mechanism` is interpreted here once, for one adjacency, so that
all accountants mean the same by it. A normal form bounds what one record changes; where an event
holds more than an accountant can use, its form spends more (`exact` is False then).

    PoissonSampled, WithoutReplacement of Gaussians   a Step that sampling amplifies
    the same of anything else                         the event as if on all records: the two
        samples differ by one record or not at all, and hockey-stick and Renyi divergences are
        jointly quasi-convex
    Grouped                                           pushed down to the noisy sums
    Parallel                                          Largest; in a group of records, all its parts
    ClusterSampled                                    PublicMixture; where a record is replaced,
        its old and its new cluster may differ, so one of both takes part twice as often at most
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache

from hushdoc import arguments
from hushdoc.accounting import mechanism as words
from hushdoc.accounting.mechanism import (
    ADJACENCIES,
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    HashFill,
    Mechanism,
    Parallel,
    PoissonSampled,
    RepeatAndSelect,
    WithoutReplacement,
)

SMALLEST = 1e-300
"""Replaces what is positive but too small for a double: zero is for what reads nothing."""

_MOST_NOISE = 1e50
_LEAST_SQUARE = 1e-100
_LARGEST_GROUP = 10**9


@dataclass(frozen=True, kw_only=True)
class Step:
    """Gaussian noise on a sum over a sample; the neighbour's records shift it along one line.

    Each of `size` records is sampled independently with `rate` (size is 1 and change "removed"
    where rate is 1) and shifts the sum by 1; `exact` where some neighbours reach the bound.

    The neighbour has none of these records (change "removed"), another one in Poisson samples
    ("replaced"), or another one in samples of a fixed size ("exchanged"), where a record that is
    not drawn leaves its place to another. Noise of the last is in units of the distance of two
    records.
    """

    rate: float
    noise: float
    size: int = 1
    change: str = "removed"
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class Product:
    """Forms one after the other, each with how many times; no term reads nothing."""

    terms: tuple[tuple[NormalForm, float], ...]


@dataclass(frozen=True, kw_only=True)
class PublicMixture:
    """A form that runs with a probability; whether it ran is public."""

    rate: float
    event: NormalForm


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The costliest of these."""

    events: tuple[NormalForm, ...]


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The best of a random number of runs."""

    event: NormalForm
    distribution: str
    expected_runs: float


@dataclass(frozen=True, kw_only=True)
class Unbounded:
    """No bound is known."""


NormalForm = Step | Product | PublicMixture | Largest | Selected | Unbounded

NOTHING = Product(terms=())
UNBOUNDED = Unbounded()


@lru_cache(maxsize=64)
def normal_form(mechanism: Mechanism, adjacency: str = "add-remove") -> NormalForm:
    """Returns the normal form of a mechanism for one of ADJACENCIES."""
    arguments.choice(adjacency, ADJACENCIES, what="adjacency")
    if adjacency == "all-occurrences-of-one-term":
        # A term may occur in every record, any number of times.
        return NOTHING if _Reader(adjacency="zero-out").form(mechanism, 1) == NOTHING else UNBOUNDED
    return _Reader(adjacency=adjacency).form(mechanism, 1)


def product(terms: list[tuple[NormalForm, float]]) -> NormalForm:
    """Returns the composition of forms; equal ones are counted together, products flattened."""
    counts: dict[NormalForm, float] = {}
    for form, count in terms:
        if isinstance(form, Unbounded):
            return UNBOUNDED
        inner = form.terms if isinstance(form, Product) else ((form, 1.0),)
        for part, times in inner:
            counts[part] = counts.get(part, 0.0) + count * times
    merged = _with_one_gaussian(counts)
    return merged[0][0] if len(merged) == 1 and merged[0][1] == 1 else Product(terms=merged)


def _with_one_gaussian(counts: dict[NormalForm, float]) -> tuple[tuple[NormalForm, float], ...]:
    """The same terms; all Gaussians on the full data are merged into one."""
    plain = {form: n for form, n in counts.items() if isinstance(form, Step) and form.rate == 1}
    if not plain or (len(plain) == 1 and set(plain.values()) == {1.0}):
        return tuple(counts.items())
    precision = sum(count * inverse_square(step.noise) for step, count in plain.items())
    exact = all(step.exact for step in plain)
    together = Step(rate=1.0, noise=1 / math.sqrt(precision), exact=exact)
    rest = tuple((form, count) for form, count in counts.items() if form not in plain)
    return (*rest, (together, 1.0))


def loosened(form: NormalForm) -> NormalForm:
    """Returns the same form as a bound that neighbours need not reach."""
    match form:
        case Step():
            return dataclasses.replace(form, exact=False)
        case Product():
            return product([(loosened(part), count) for part, count in form.terms])
        case Largest():
            return Largest(events=tuple(loosened(part) for part in form.events))
        case Unbounded():
            return form
        case _:
            return dataclasses.replace(form, event=loosened(form.event))


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Interprets events for one adjacency."""

    adjacency: str

    @property
    def replaces(self) -> bool:
        return self.adjacency == "replace-one"

    def form(self, event: Mechanism, size: int) -> NormalForm:
        """The form of an event for a unit of `size` records."""
        match event:
            case Gaussian():
                return Step(rate=1.0, noise=self._noise(event.noise_multiplier, size))
            case PoissonSampled():
                return self._poisson_sampled(event, size)
            case WithoutReplacement():
                return self._without_replacement(event, size)
            case ClusterSampled():
                return self._cluster_sampled(event, size)
            case Grouped():
                both = size * event.size
                return UNBOUNDED if both > _LARGEST_GROUP else self.form(event.event, both)
            case Composed():
                if event.count == 0:
                    return NOTHING
                return product([(self.form(event.event, size), _as_float(event.count))])
            case words.Sequence():
                return product([(self.form(part, size), 1.0) for part in event.events])
            case Parallel():
                return self._parallel(event, size)
            case RepeatAndSelect():
                return self._selected(event, size)
            case HashFill():
                return UNBOUNDED

    def _noise(self, noise_multiplier: float, size: int) -> float:
        # Less noise than there is costs more, so the cap is safe; it keeps squares finite.
        return min(noise_multiplier, _MOST_NOISE) / (size * (2 if self.replaces else 1))

    def _poisson_sampled(self, event: PoissonSampled, size: int) -> NormalForm:
        rate, inner = 1.0, event
        current: Mechanism = inner
        while isinstance(current, PoissonSampled):
            # A sample of a sample is a sample at the product of the rates.
            both = rate * current.sampling_rate
            rate = max(both, SMALLEST) if rate > 0 and current.sampling_rate > 0 else 0.0
            current = current.event
        if rate == 0:
            return NOTHING
        change = "replaced" if self.replaces else "removed"
        return self._sampled(rate, current, size, change)

    def _without_replacement(self, event: WithoutReplacement, size: int) -> NormalForm:
        rate = 1.0
        current: Mechanism = event
        while isinstance(current, WithoutReplacement):
            rate *= current.sample_size / current.population
            rate = max(rate, SMALLEST) if current.sample_size else 0.0
            current = current.event
        if rate == 0:
            return NOTHING
        if self.adjacency == "add-remove":
            return NOTHING if self.form(current, size) == NOTHING else UNBOUNDED
        # Another record takes the place of one that is not drawn, so twice the norm, whatever the
        # neighbour does.
        return self._sampled(rate, current, size, "exchanged")

    def _sampled(self, rate: float, event: Mechanism, size: int, change: str) -> NormalForm:
        noise = _gaussian_noise(event)
        plain = self.form(event, size)
        if rate == 1 or plain in (NOTHING, UNBOUNDED):
            return plain
        if noise is None or (size > 1 and change != "removed"):
            return loosened(plain)
        if change == "exchanged":
            noise /= 2
        exact = change != "exchanged"
        return Step(rate=rate, noise=noise, size=size, change=change, exact=exact)

    def _cluster_sampled(self, event: ClusterSampled, size: int) -> NormalForm:
        inner = self.form(event.event, size)
        rate = min(1.0, event.sampling_rate * (2 if self.replaces else 1))
        if rate == 0 or inner == NOTHING:
            return NOTHING
        if rate == 1 or inner == UNBOUNDED:
            return loosened(inner) if self.replaces else inner
        if size > 1:  # These records may be in different clusters.
            return loosened(inner)
        return PublicMixture(rate=rate, event=loosened(inner) if self.replaces else inner)

    def _parallel(self, event: Parallel, size: int) -> NormalForm:
        parts = [self.form(part, size) for part in event.events]
        distinct = tuple(dict.fromkeys(part for part in parts if part != NOTHING))
        if not distinct:
            return NOTHING
        if self.replaces or UNBOUNDED in distinct:
            return UNBOUNDED
        if size > 1:
            return loosened(product([(part, 1.0) for part in parts]))
        return distinct[0] if len(distinct) == 1 else Largest(events=distinct)

    def _selected(self, event: RepeatAndSelect, size: int) -> NormalForm:
        inner = self.form(event.event, size)
        always_once = event.expected_runs == 1 and event.distribution != "poisson"
        if inner in (NOTHING, UNBOUNDED) or always_once:
            return inner
        return Selected(
            event=inner, distribution=event.distribution, expected_runs=event.expected_runs
        )


def _gaussian_noise(event: Mechanism) -> float | None:
    """The noise of an event made of Gaussians on one sample, which are one Gaussian; or None."""
    precision = _precision(event)
    if precision is None:
        return None
    return 0.0 if math.isinf(precision) else min(1 / math.sqrt(max(precision, SMALLEST)), 1e50)


def _precision(event: Mechanism) -> float | None:
    """The sum of 1 / noise_multiplier^2 of an event that is made of Gaussians only, or None."""
    match event:
        case Gaussian():
            return inverse_square(event.noise_multiplier)
        case Composed():
            inner = _precision(event.event)
            return (
                inner if inner is None else (_as_float(event.count) * inner if event.count else 0)
            )
        case words.Sequence():
            parts = [_precision(part) for part in event.events]
            return None if None in parts else float(sum(part or 0.0 for part in parts))
        case _:
            return None


def inverse_square(noise: float) -> float:
    """Returns 1 / noise^2, at least SMALLEST; infinity where it is beyond use."""
    square = noise * noise
    return math.inf if square < _LEAST_SQUARE else max(1 / square, SMALLEST)


def _as_float(count: int) -> float:
    try:
        return float(count)
    except OverflowError:
        return math.inf
