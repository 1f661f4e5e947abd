"""Simpler forms never cost less: fewer different steps, and alternatives of noisy sums alone."""

from __future__ import annotations

import math
import random

import pytest

from hushdoc.accounting import rdp
from hushdoc.accounting.normal_form import (
    UNBOUNDED,
    Largest,
    NormalForm,
    Product,
    PublicMixture,
    Selected,
    Step,
)
from hushdoc.accounting.simplified_forms import (
    alternatives,
    coarsened,
    count_of,
    executions,
    steps_of,
)

SMALL, LARGE = Step(rate=0.1, noise=4.0), Step(rate=0.2, noise=2.0)
MIXED = Step(rate=0.3, noise=5.0)


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
        Product(terms=((PublicMixture(rate=0.3, event=Product(terms=terms)), 5.0),)),
        Selected(event=Product(terms=terms), distribution="geometric", expected_runs=4.0),
    ):
        found = coarsened(form, limit)
        assert len(steps_of(found)) <= limit
        assert not any(step.exact for step in steps_of(found))
        assert (rdp.form_rdp(found) >= rdp.form_rdp(form) * (1 - 1e-9)).all()


def test_a_schedule_of_noise_hardly_costs_more() -> None:
    schedule: NormalForm = Product(
        terms=tuple((Step(rate=0.05, noise=1 + index / 200), 1.0) for index in range(200))
    )
    order = rdp.ORDERS[50:51]
    dear = rdp.form_rdp(coarsened(schedule, 128), order)
    exact = sum(rdp.form_rdp(step, order) for step in steps_of(schedule))
    assert dear == pytest.approx(exact, rel=0.03)


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
        terms=((Largest(events=(once, twice)), 3.0), (PublicMixture(rate=0.1, event=once), 1.0))
    )
    assert count_of(form, Selected) == 4


def test_sums_are_their_own_alternative() -> None:
    form = Product(terms=((SMALL, 3.0), (PublicMixture(rate=0.5, event=LARGE), 2.0)))
    assert alternatives(form) == (form,)
    assert executions(form) == 4.0


def test_parts_that_run_once_are_alternatives() -> None:
    parts = Largest(events=(SMALL, LARGE))
    assert alternatives(parts) == (SMALL, LARGE)
    assert alternatives(PublicMixture(rate=0.1, event=parts)) == (
        PublicMixture(rate=0.1, event=SMALL),
        PublicMixture(rate=0.1, event=LARGE),
    )
    found = alternatives(Product(terms=((parts, 1.0), (MIXED, 2.0))))
    assert found == (
        Product(terms=((SMALL, 1.0), (MIXED, 2.0))),
        Product(terms=((LARGE, 1.0), (MIXED, 2.0))),
    )


def test_parts_that_run_again_are_answered_by_a_step_above_all() -> None:
    assert alternatives(Product(terms=((Largest(events=(SMALL, LARGE)), 5.0),))) == (
        Product(terms=((LARGE, 5.0),)),
    )
    found = alternatives(Product(terms=((Largest(events=(LARGE, MIXED)), 5.0),)))
    assert found == (Product(terms=((Step(rate=0.3, noise=2.0, exact=False), 5.0),)),)
    longer = Largest(events=(LARGE, Product(terms=((SMALL, 9.0),))))
    assert alternatives(Product(terms=((longer, 5.0),))) is None


@pytest.mark.parametrize(
    "form",
    [
        UNBOUNDED,
        Selected(event=SMALL, distribution="poisson", expected_runs=2.0),
        Product(terms=()),
        Step(rate=0.5, noise=1e-3),
        Product(terms=((SMALL, math.inf),)),
        Largest(events=tuple(Step(rate=0.1, noise=1.0 + k) for k in range(20))),
    ],
)
def test_other_forms_have_no_alternatives(form: Step) -> None:
    assert alternatives(form) is None


def test_steps_are_brought_into_range_from_above() -> None:
    assert alternatives(Step(rate=0.5, noise=1e40)) == (Step(rate=0.5, noise=1e8, exact=False),)
    assert alternatives(Step(rate=1e-200, noise=1.0)) == (Step(rate=1e-30, noise=1.0, exact=False),)
    assert alternatives(Step(rate=0.5, noise=100.0, size=1000)) == (
        Step(rate=1.0, noise=0.1, exact=False),
    )
