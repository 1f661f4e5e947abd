"""Transcripts that prove nothing, or only under another relation, or cost a reader too much."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest
from hushdoc_corruption import Refused, Scene, cases, claims_of, refusals, require_accepted

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import (
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
from hushdoc.artifact import artifact
from hushdoc.errors import HushdocError

LARGEST = 2**53 - 1
NOISE = Gaussian(noise_multiplier=2.0)
STEP = PoissonSampled(sampling_rate=1 / 7, event=NOISE)
TRAINING = Composed(event=STEP, count=350)


def _nested(levels: int, count: int, event: Mechanism) -> Mechanism:
    for _ in range(levels):
        event = Composed(event=event, count=count)
    return event


def _different_steps(number: int) -> Mechanism:
    return Sequence(
        events=tuple(
            PoissonSampled(sampling_rate=0.01 + step / 1e6, event=Gaussian(noise_multiplier=50.0))
            for step in range(number)
        )
    )


def _parallel_under_replace_one(scene: Scene) -> None:
    """Counts as the largest part alone, which holds only where nobody changes parts."""
    scene.demand(adjacency={"replace-one"})
    part = PoissonSampled(sampling_rate=0.01, event=Gaussian(noise_multiplier=1.0))
    sound = pld.epsilon(part, 1e-5, adjacency="replace-one")
    claims_of(Parallel(events=(part, part)), adjacency="replace-one", epsilon=sound * 1.01)(scene)


NOT_REPRODUCED = "EPSILON_NOT_REPRODUCED"

# (what is done, how, code of the first rule that fails, codes of the others)

REFUSED: Refused = {
    NOT_REPRODUCED: {
        "parallel-under-replace-one": _parallel_under_replace_one,
        "fixed-size-batches-under-add-remove": claims_of(
            WithoutReplacement(
                population=100, sample_size=1, event=Gaussian(noise_multiplier=99.0)
            ),
            sampling_as_implemented="fixed-size",
        ),
        "transcript-without-noise": claims_of(
            Composed(
                event=PoissonSampled(sampling_rate=0.1, event=Gaussian(noise_multiplier=0.0)),
                count=1,
            )
        ),
        "transcript-with-hardly-any-noise": claims_of(
            Composed(
                event=PoissonSampled(sampling_rate=0.1, event=Gaussian(noise_multiplier=5e-324)),
                count=1,
            )
        ),
        "transcript-of-2-to-the-53-steps": claims_of(Composed(event=STEP, count=LARGEST)),
        "transcript-of-more-steps-than-a-double-holds": claims_of(_nested(13, LARGEST, STEP)),
        "transcript-of-groups-of-2-to-the-53": claims_of(Grouped(size=LARGEST, event=STEP)),
        "transcript-of-1e308-runs": claims_of(
            RepeatAndSelect(event=TRAINING, distribution="poisson", expected_runs=1e308)
        ),
        "transcript-of-groups-of-2000": claims_of(
            Composed(event=Grouped(size=2000, event=STEP), count=350)
        ),
    },
}

CASES = cases("semantics/", REFUSED)


test_is_refused = refusals(CASES)


def test_many_different_steps_are_recomputed(
    make_scene: Callable[[], Scene],
) -> None:
    require_accepted(claims_of(_different_steps(257)), make_scene)


def _costly() -> dict[str, Mechanism]:
    """Transcripts of as many different steps as are recomputed, each kind of step alone."""
    numbers = range(256)
    quiet = Gaussian(noise_multiplier=30.0)
    steps: dict[str, Callable[[int], Mechanism]] = {
        "sampled": lambda n: PoissonSampled(sampling_rate=0.1 + n / 1e4, event=quiet),
        "fixed-size": lambda n: WithoutReplacement(
            population=10**6, sample_size=1000 + n, event=quiet
        ),
        "groups": lambda n: Grouped(size=100 + n, event=STEP),
        "clusters": lambda n: ClusterSampled(sampling_rate=0.1 + n / 1e4, event=STEP),
        "selections": lambda n: RepeatAndSelect(
            event=STEP, distribution="poisson", expected_runs=2.0 + n
        ),
    }
    return {name: Sequence(events=tuple(map(make, numbers))) for name, make in steps.items()}


KINDS_OF_STEPS = [
    (name, adjacency) for name in _costly() for adjacency in ("add-remove", "replace-one")
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "adjacency"), KINDS_OF_STEPS)
def test_no_transcript_costs_a_reader_more_than_seconds(
    name: str, adjacency: str, make_scene: Callable[[], Scene]
) -> None:
    scene = make_scene()
    scene.demand(adjacency={adjacency})
    claims_of(_costly()[name], adjacency=adjacency)(scene)
    began = time.process_time()
    with contextlib.suppress(HushdocError):
        artifact.verify(scene.folder, scene.policy, now=scene.now)
    assert time.process_time() - began < 10
