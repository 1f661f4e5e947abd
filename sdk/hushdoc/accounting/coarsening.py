"""Forms of fewer different steps that cost no less, so that any transcript takes bounded time."""

from __future__ import annotations

import dataclasses
import math

from hushdoc.accounting.steps import (
    SMALLEST,
    UNBOUNDED,
    Chance,
    Form,
    Largest,
    Product,
    Selected,
    Step,
    product,
)

_FINEST_UNIT, _COARSEST_UNIT = 1 / 512, 512.0  # of natural logarithms


def steps_of(form: Form) -> set[Step]:
    """Returns the different steps of a form."""
    match form:
        case Step():
            return {form}
        case Product():
            return set().union(*(steps_of(part) for part, _ in form.terms))
        case Largest():
            return set().union(*(steps_of(part) for part in form.events))
        case Chance() | Selected():
            return steps_of(form.event)
        case _:
            return set()


def num_selections(form: Form) -> int:
    """Returns how often a form takes the best of several runs."""
    match form:
        case Product():
            return sum(num_selections(part) for part, _ in form.terms)
        case Largest():
            return sum(num_selections(part) for part in form.events)
        case Selected():
            return 1 + num_selections(form.event)
        case Chance():
            return num_selections(form.event)
        case _:
            return 0


def coarsened(form: Form, limit: int) -> Form:
    """Returns a form of at most `limit` different steps that spends no less.

    Rates and groups are rounded up and noise is rounded down to ever coarser logarithmic grids. A
    smaller rate is a mixture with the neighbour, more noise is post-processing, and fewer records
    are a special case of more: none of them costs more.

    Args:
        form: Any.
        limit: From 1.
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
    """A step on a logarithmic grid; a rate of 1 leaves nothing to sample."""
    rate, noise, records = (math.exp(place * unit) for place in _place(step, unit))
    rate, noise = min(1.0, max(rate, step.rate)), min(noise, step.noise)
    size = max(step.size, math.ceil(records)) if step.size > 1 else 1
    if rate == 1:
        apart = 2 if step.change == "replaced" else 1
        return Step(rate=1.0, noise=noise / (size * apart), exact=False)
    return dataclasses.replace(step, rate=rate, noise=noise, size=size, exact=False)


def _replaced(form: Form, steps: dict[Step, Step]) -> Form:
    match form:
        case Step():
            return steps[form]
        case Product():
            return product([(_replaced(part, steps), count) for part, count in form.terms])
        case Largest():
            parts = dict.fromkeys(_replaced(part, steps) for part in form.events)
            return Largest(events=tuple(parts))
        case Chance() | Selected():
            return dataclasses.replace(form, event=_replaced(form.event, steps))
        case _:
            return form
