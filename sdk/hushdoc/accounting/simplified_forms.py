"""Forms of fewer different steps that cost no less, so that any transcript takes bounded time."""

from __future__ import annotations

import dataclasses
import itertools
import math

from hushdoc.accounting.normal_form import (
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


_MOST = 16
_MOST_STEPS = 64
_MOST_CHANCES = 64
_MOST_EXECUTIONS = 1e12
_LEAST_NOISE, _MOST_NOISE = 1e-2, 1e8
_LEAST_RATE = 1e-30
_LARGEST_GROUP = 64


def alternatives(form: Form) -> tuple[Form, ...] | None:
    """Returns forms of Step, Product and Chance of which one costs no less, or None.

    Steps are brought into the range in which losses can be computed with doubles.

    Args:
        form: Any.
    """
    found = _expanded(form)
    if found is None or not found or len(found) > _MOST:
        return None
    kept = []
    for choice in found:
        narrowed = coarsened(choice, _MOST_STEPS)
        if not steps_of(narrowed) or num_chances(narrowed) > _MOST_CHANCES:
            return None
        if not executions(narrowed) <= _MOST_EXECUTIONS:
            return None
        kept.append(narrowed)
    return tuple(kept)


def executions(form: Form) -> float:
    """Returns how many steps run, on average."""
    match form:
        case Product():
            return sum(count * executions(part) for part, count in form.terms)
        case Chance():
            return form.rate * executions(form.event)
        case _:
            return 1.0


def _expanded(form: Form) -> list[Form] | None:
    match form:
        case Step():
            step = _computable(form)
            return None if step is None else [step]
        case Chance():
            inner = _expanded(form.event)
            return inner and [dataclasses.replace(form, event=part) for part in inner]
        case Product():
            return _expanded_product(form)
        case Largest():
            parts = [_expanded(part) for part in form.events]
            return None if None in parts else [c for part in parts for c in part or []]
        case _:
            return None


def _expanded_product(form: Product) -> list[Form] | None:
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


def _costliest(forms: list[Form]) -> list[Form] | None:
    """One step that costs no less than each of these, if these are steps."""
    steps = [form for form in forms if isinstance(form, Step)]
    if len(steps) < len(forms) or any(step.size > 1 or step.change != "removed" for step in steps):
        return None
    rate, noise = max(step.rate for step in steps), min(step.noise for step in steps)
    best = [step for step in steps if (step.rate, step.noise) == (rate, noise)]
    return [best[0] if best else Step(rate=rate, noise=noise, exact=False)]


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


def num_chances(form: Form) -> int:
    """Returns how often something takes part by public chance."""
    match form:
        case Product():
            return sum(num_chances(part) for part, _ in form.terms)
        case Chance():
            return 1 + num_chances(form.event)
        case _:
            return 0
