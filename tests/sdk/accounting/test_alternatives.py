"""Forms of noisy sums, one of which costs no less than a given form."""

from __future__ import annotations

import math

import pytest

from hushdoc.accounting.normal_form import UNBOUNDED, Chance, Largest, Product, Selected, Step
from hushdoc.accounting.simplified_forms import alternatives, executions

SMALL, LARGE = Step(rate=0.1, noise=4.0), Step(rate=0.2, noise=2.0)
MIXED = Step(rate=0.3, noise=5.0)


def test_sums_stand_for_themselves() -> None:
    form = Product(terms=((SMALL, 3.0), (Chance(rate=0.5, event=LARGE), 2.0)))
    assert alternatives(form) == (form,)
    assert executions(form) == 4.0


def test_parts_that_run_once_are_told_apart() -> None:
    parts = Largest(events=(SMALL, LARGE))
    assert alternatives(parts) == (SMALL, LARGE)
    assert alternatives(Chance(rate=0.1, event=parts)) == (
        Chance(rate=0.1, event=SMALL),
        Chance(rate=0.1, event=LARGE),
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
def test_the_rest_has_none(form: Step) -> None:
    assert alternatives(form) is None


def test_steps_are_brought_into_range_from_above() -> None:
    assert alternatives(Step(rate=0.5, noise=1e40)) == (Step(rate=0.5, noise=1e8, exact=False),)
    assert alternatives(Step(rate=1e-200, noise=1.0)) == (Step(rate=1e-30, noise=1.0, exact=False),)
    assert alternatives(Step(rate=0.5, noise=100.0, size=1000)) == (
        Step(rate=1.0, noise=0.1, exact=False),
    )
