"""Fewer different steps that cost no less."""

from __future__ import annotations

import random

import pytest

from hushdoc.accounting import rdp
from hushdoc.accounting.normal_form import Chance, Form, Largest, Product, Selected, Step
from hushdoc.accounting.simplified_forms import coarsened, num_selections, steps_of


def many(count: int, seed: int = 0) -> tuple[Step, ...]:
    generator = random.Random(seed)
    return tuple(
        Step(rate=generator.uniform(0.01, 0.3), noise=generator.uniform(1, 4)) for _ in range(count)
    )


def test_few_steps_stay_as_they_are() -> None:
    form = Product(terms=tuple((step, 2.0) for step in many(5)))
    assert coarsened(form, 5) is form
    assert len(steps_of(form)) == 5


@pytest.mark.parametrize("limit", [40, 8, 1])
def test_fewer_steps_never_cost_less(limit: int) -> None:
    terms = tuple((step, 3.0) for step in many(50))
    for form in (
        Product(terms=terms),
        Largest(events=many(50)),
        Product(terms=((Chance(rate=0.3, event=Product(terms=terms)), 5.0),)),
        Selected(event=Product(terms=terms), distribution="geometric", expected_runs=4.0),
    ):
        found = coarsened(form, limit)
        assert len(steps_of(found)) <= limit
        assert not any(step.exact for step in steps_of(found))
        assert (rdp.form_rdp(found) >= rdp.form_rdp(form) * (1 - 1e-9)).all()


def test_a_schedule_of_noise_hardly_costs_more() -> None:
    schedule: Form = Product(
        terms=tuple((Step(rate=0.05, noise=1 + index / 400), 1.0) for index in range(400))
    )
    dear = rdp.form_rdp(coarsened(schedule, 128))
    exact = sum(rdp.form_rdp(step) for step in steps_of(schedule))
    assert dear[50] == pytest.approx(exact[50], rel=0.03)


def test_groups_are_rounded_up() -> None:
    form = Product(terms=tuple((Step(rate=0.1, noise=1.0, size=k), 1.0) for k in range(1, 50)))
    steps = steps_of(coarsened(form, 10))
    assert len(steps) <= 10
    assert max(step.size for step in steps) >= 49
    assert min(step.size for step in steps) == 1


@pytest.mark.parametrize("change", ["removed", "replaced", "exchanged"])
def test_a_rate_that_rounds_to_one_is_the_plain_gaussian(change: str) -> None:
    steps = tuple(Step(rate=1 - k / 1000, noise=2.0, change=change) for k in range(1, 9))
    found = coarsened(Product(terms=tuple((step, 1.0) for step in steps)), 1)
    (step,) = steps_of(found)
    assert (step.rate, step.size) == (1.0, 1)
    # Two records are twice the norm apart; noise between exchanged ones is in that unit already.
    assert step.noise <= (1.0 if change == "replaced" else 2.0) / 8**0.5 * 1.0001


def test_selections_are_counted_everywhere() -> None:
    once = Selected(event=many(1)[0], distribution="poisson", expected_runs=2.0)
    twice = Selected(event=once, distribution="poisson", expected_runs=2.0)
    form = Product(
        terms=((Largest(events=(once, twice)), 3.0), (Chance(rate=0.1, event=once), 1.0))
    )
    assert num_selections(form) == 4
