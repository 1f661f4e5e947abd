"""Simpler normal forms that cost no less, so that any transcript is answered in bounded time.

`coarsened` leaves few different steps, for Renyi accounting. `alternatives` leaves a few forms of
Step, Product and PublicMixture alone, of which one costs no less, for privacy loss distributions:
a record is in one part of the data only. What runs on disjoint parts once is therefore one of these
forms for each record. What runs on them repeatedly may meet a record elsewhere each time, and is
answered only where one step costs no less than all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

from hushdoc.accounting.normal_form import (
    SMALLEST,
    UNBOUNDED,
    Largest,
    NormalForm,
    Product,
    PublicMixture,
    Selected,
    Step,
    loosened,
    product,
)

_FINEST_UNIT, _COARSEST_UNIT = 1 / 512, 512.0  # of natural logarithms

_MOST = 16
_MOST_STEPS = 64
_MOST_MIXTURES = 64
_MOST_EXECUTIONS = 1e12
_LEAST_NOISE, _MOST_NOISE = 1e-2, 1e8
_LEAST_RATE = 1e-30
_LARGEST_GROUP = 64


def _parts(form: NormalForm) -> tuple[NormalForm, ...]:
    """Returns the forms directly inside one."""
    match form:
        case Product():
            return tuple(part for part, _ in form.terms)
        case Largest():
            return form.events
        case PublicMixture() | Selected():
            return (form.event,)
        case _:
            return ()


def steps_of(form: NormalForm) -> set[Step]:
    """Returns the different steps of a form."""
    if isinstance(form, Step):
        return {form}
    return set().union(*(steps_of(part) for part in _parts(form)))


def count_of(form: NormalForm, cls: type[PublicMixture | Selected]) -> int:
    """Returns how many parts of a form are of one class."""
    return isinstance(form, cls) + sum(count_of(part, cls) for part in _parts(form))


def executions(form: NormalForm) -> float:
    """Returns how many steps run, on average."""
    match form:
        case Product():
            return sum(count * executions(part) for part, count in form.terms)
        case PublicMixture():
            return form.rate * executions(form.event)
        case _:
            return 1.0


def coarsened(form: NormalForm, limit: int) -> NormalForm:
    """Returns a form of at most `limit` different steps that spends no less.

    Rates and groups are rounded up and noise is rounded down to ever coarser logarithmic grids. A
    smaller rate is a mixture with the neighbour, more noise is post-processing, and fewer records
    are a special case of more: none of them costs more.
    """
    steps = steps_of(form)
    if len(steps) <= limit:
        return form
    unit = _FINEST_UNIT
    while unit < _COARSEST_UNIT and _num_places(steps, unit, limit) > limit:
        unit *= 2
    rounded = {step: _rounded(step, unit) for step in steps}
    return _replaced(form, rounded) if len(set(rounded.values())) <= limit else UNBOUNDED


def _place(step: Step, unit: float) -> tuple[int, int, int]:
    logs = math.log(step.rate), math.log(max(step.noise, SMALLEST)), math.log(step.size)
    rate, noise, size = (value / unit for value in logs)
    return math.ceil(rate), math.floor(noise), math.ceil(size)


def _num_places(steps: set[Step], unit: float, limit: int) -> int:
    """How many steps are left on a logarithmic grid, or some number above the limit."""
    places = set()
    for step in steps:
        places.add((*_place(step, unit), step.change))
        if len(places) > limit:
            break
    return len(places)


def _rounded(step: Step, unit: float) -> Step:
    """A step on a logarithmic grid; at a rate of 1 there is no sampling."""
    rate, noise, records = (math.exp(place * unit) for place in _place(step, unit))
    rate, noise = min(1.0, max(rate, step.rate)), min(noise, step.noise)
    size = max(step.size, math.ceil(records)) if step.size > 1 else 1
    if rate == 1:
        apart = 2 if step.change == "replaced" else 1
        return Step(rate=1.0, noise=noise / (size * apart), exact=False)
    return dataclasses.replace(step, rate=rate, noise=noise, size=size, exact=False)


def _replaced(form: NormalForm, steps: dict[Step, Step]) -> NormalForm:
    match form:
        case Step():
            return steps[form]
        case Product():
            return product([(_replaced(part, steps), count) for part, count in form.terms])
        case Largest():
            parts = dict.fromkeys(_replaced(part, steps) for part in form.events)
            return Largest(events=tuple(parts))
        case PublicMixture() | Selected():
            return dataclasses.replace(form, event=_replaced(form.event, steps))
        case _:
            return form


def alternatives(form: NormalForm) -> tuple[NormalForm, ...] | None:
    """Returns forms with losses in the range of doubles of which one costs no less, or None."""
    found = _expanded(form)
    if found is None or not found or len(found) > _MOST:
        return None
    kept = []
    for choice in found:
        narrowed = coarsened(choice, _MOST_STEPS)
        if not steps_of(narrowed) or count_of(narrowed, PublicMixture) > _MOST_MIXTURES:
            return None
        if not executions(narrowed) <= _MOST_EXECUTIONS:
            return None
        kept.append(narrowed)
    return tuple(kept)


def _expanded(form: NormalForm) -> list[NormalForm] | None:
    match form:
        case Step():
            step = _computable(form)
            return None if step is None else [step]
        case PublicMixture():
            inner = _expanded(form.event)
            return inner and [_mixture(form.rate, part) for part in inner]
        case Product():
            return _expanded_product(form)
        case Largest():
            parts = [_expanded(part) for part in form.events]
            return None if None in parts else [c for part in parts for c in part or []]
        case _:
            return None


def _expanded_product(form: Product) -> list[NormalForm] | None:
    columns = []
    for part, count in form.terms:
        inner = _expanded(part)
        if inner is not None and count != 1 and len(inner) > 1:
            inner = _costliest(inner)
        if inner is None:
            return None
        columns.append([(choice, count) for choice in inner])
    if math.prod(len(column) for column in columns) > _MOST:
        return None
    return [product(list(choice)) for choice in itertools.product(*columns)]


def _costliest(forms: list[NormalForm]) -> list[NormalForm] | None:
    """One step that costs no less than each of these, if these are steps."""
    steps = [form for form in forms if isinstance(form, Step)]
    if len(steps) < len(forms) or any(step.size > 1 or step.change != "removed" for step in steps):
        return None
    rate, noise = max(step.rate for step in steps), min(step.noise for step in steps)
    best = [step for step in steps if (step.rate, step.noise) == (rate, noise)]
    return [best[0] if best else Step(rate=rate, noise=noise, exact=False)]


def _mixture(rate: float, event: NormalForm) -> PublicMixture:
    """A mixture at a rate in the range of doubles; one that runs more often costs no less."""
    if rate < _LEAST_RATE:
        return PublicMixture(rate=_LEAST_RATE, event=loosened(event))
    return PublicMixture(rate=rate, event=event)


def _computable(step: Step) -> Step | None:
    if step.size > _LARGEST_GROUP:
        step = Step(rate=1.0, noise=step.noise / step.size, exact=False)
    if step.noise < _LEAST_NOISE:
        return None
    if step.noise > _MOST_NOISE or step.rate < _LEAST_RATE:
        return dataclasses.replace(
            step,
            noise=min(step.noise, _MOST_NOISE),
            rate=max(step.rate, _LEAST_RATE),
            exact=False,
        )
    return step
