"""Forms of noisy sums alone, one of which costs no less than a given form.

A record is in one part of the data only. What runs on disjoint parts, once, is therefore one of
these forms for each record; what runs on them again and again may meet a record elsewhere each
time, and is answered only where one step costs no less than all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

from hushdoc.accounting.coarsening import coarsened, steps_of
from hushdoc.accounting.steps import (
    Chance,
    Form,
    Largest,
    Product,
    Step,
    product,
)

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
