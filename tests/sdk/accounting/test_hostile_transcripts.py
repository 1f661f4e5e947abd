"""Any transcript ends soon, in little memory, with a sound answer and without a warning."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

import pytest

from hushdoc.accounting import gdp, pld, rdp
from hushdoc.accounting.mechanism import (
    MAX_DEPTH,
    MAX_NODES,
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    Mechanism,
    Parallel,
    PoissonSampled,
    RepeatAndSelect,
    Sequence,
    WithoutReplacement,
)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

SECONDS = 30.0
"""Of CPU time: a question takes at most two on an idle core, what explodes takes hours."""


def noise(multiplier: float) -> Mechanism:
    return Gaussian(noise_multiplier=multiplier)


def sampled(rate: float, event: Mechanism) -> Mechanism:
    return PoissonSampled(sampling_rate=rate, event=event)


def times(event: Mechanism, count: int) -> Mechanism:
    return Composed(event=event, count=count)


def cluster(share: float, event: Mechanism) -> Mechanism:
    return ClusterSampled(sampling_rate=share, event=event)


def best(event: Mechanism, distribution: str = "poisson", runs: float = 10.0) -> Mechanism:
    return RepeatAndSelect(event=event, distribution=distribution, expected_runs=runs)


def nested(wrap: Callable[[Mechanism], Mechanism], depth: int = MAX_DEPTH - 2) -> Mechanism:
    event = sampled(0.1, noise(1.0))
    for _ in range(depth):
        event = wrap(event)
    return event


GENERATOR = random.Random(1)
MANY = tuple(
    sampled(GENERATOR.uniform(0.001, 0.5), noise(GENERATOR.uniform(0.5, 20)))
    for _ in range(MAX_NODES // 2 - 1)
)
WIDE = tuple(
    sampled(10 ** GENERATOR.uniform(-300, 0), noise(10 ** GENERATOR.uniform(-300, 300)))
    for _ in range(MAX_NODES // 2 - 1)
)
ONE = MANY[0]

HOSTILE = {
    "thousands of different steps": Sequence(events=MANY),
    "a hundred different steps": Sequence(events=MANY[:100]),
    "steps of every size": Sequence(events=WIDE),
    "count beyond doubles": times(ONE, 10**400),
    "count beyond precision": times(ONE, 10**15),
    "tiny rate, huge count": times(sampled(1e-9, noise(1.0)), 10**15),
    "quiet and endless": times(sampled(1e-3, noise(1000.0)), 10**9),
    "no noise": times(sampled(0.5, noise(0.0)), 3),
    "hardly any noise": times(sampled(0.5, noise(1e-300)), 10),
    "noise drowns all": times(sampled(0.5, noise(1e300)), 10**6),
    "smallest rate": sampled(5e-324, noise(1.0)),
    "almost all records": times(sampled(1 - 1e-16, noise(1.0)), 100),
    "small noise, small rate": times(sampled(1e-6, noise(0.02)), 1000),
    "losses near the limit": times(sampled(1e-4, noise(0.05)), 100),
    "counts of counts": nested(lambda event: times(event, 10)),
    "clusters of clusters": nested(lambda event: cluster(0.5, event)),
    "repeated clusters": nested(lambda event: cluster(0.7, times(event, 3))),
    "sample of a sequence": sampled(0.1, Sequence(events=(ONE, noise(3.0)))),
    "selection of selections": nested(best),
    "many selections": Sequence(events=tuple(best(step) for step in MANY[:3000])),
    "endless selection": best(ONE, "poisson", 1e308),
    "many clusters": Sequence(events=tuple(cluster(0.3, step) for step in MANY[:3000])),
    "many parts": Parallel(events=MANY),
    "parts again and again": times(Parallel(events=MANY[:9]), 100),
    "parts of parts": nested(lambda event: Parallel(events=(event, times(event, 2))), depth=7),
    "group of all": Grouped(size=10**18, event=ONE),
    "large group": Grouped(size=64, event=times(sampled(0.5, noise(5.0)), 100)),
    "many groups": Sequence(
        events=tuple(Grouped(size=2 + k % 60, event=step) for k, step in enumerate(MANY[:3000]))
    ),
    "huge population": WithoutReplacement(
        population=10**400, sample_size=10**399, event=noise(1.0)
    ),
    "many gaussians": Sequence(events=tuple(noise(50.0 + k) for k in range(MAX_NODES - 1))),
}


LONG = ("thousands of different steps", "steps of every size", "many clusters", "many groups")


@pytest.mark.parametrize("name", HOSTILE)
def test_it_ends_with_an_answer(name: str) -> None:
    require_answer(name, "add-remove")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in HOSTILE],
)
def test_it_ends_with_an_answer_where_one_is_replaced(name: str) -> None:
    require_answer(name, "replace-one")


def require_answer(name: str, adjacency: str) -> None:
    """Asks all three accountants, and holds them against one another and the clock."""
    mechanism = HOSTILE[name]
    for delta in (0.0, 1e-300, 1e-5):
        began = time.process_time()
        renyi = rdp.epsilon(mechanism, delta, adjacency=adjacency)
        found = pld.bounds(mechanism, delta, adjacency=adjacency)
        assert time.process_time() - began < SECONDS
        assert 0 <= found.lower <= found.upper <= renyi
        assert delta > 0 or found.upper == math.inf
    began = time.process_time()
    assert 0 <= pld.delta(mechanism, 1.0, adjacency=adjacency) <= 1
    assert isinstance(pld.holds(mechanism, 2.0, 1e-5, adjacency=adjacency), bool)
    assert time.process_time() - began < SECONDS
    assert (gdp.mu(mechanism) or 0.0) >= 0


def test_memory_stays_small() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in ("quiet and endless", "a hundred different steps", "losses near the limit"):
        pld.bounds(HOSTILE[name], 2e-5)
        pld.delta(HOSTILE[name], 0.7)
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert kibibytes < 250 * 1024
