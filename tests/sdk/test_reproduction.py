"""Numbers that follow from their transcript, and numbers that don't."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from hushdoc import reproduction
from hushdoc.accounting import rdp
from hushdoc.accounting.mechanism import Gaussian, Sequence


def code_of(build: ModuleType, **change: Any) -> str | None:
    claim = build.claim(build.guarantee(**change))
    (finding,) = reproduction.reproduce(claim)
    return finding.code


def test_an_honest_claim_is_reproduced(build: ModuleType) -> None:
    (finding,) = reproduction.reproduce(build.claim())
    assert finding.code is None
    assert finding.recomputed == finding.claimed


def test_a_claim_above_its_transcript_is_true_as_well(build: ModuleType) -> None:
    assert code_of(build, epsilon=20.0, profile=()) is None


def test_a_claim_below_its_transcript_is_not_reproduced(build: ModuleType) -> None:
    honest = build.guarantee().epsilon
    for epsilon in (honest * (1 - 1e-6), honest / 2, 0.0):
        assert code_of(build, epsilon=epsilon, profile=()) == "EPSILON_NOT_REPRODUCED"


def test_a_smaller_delta_is_another_claim(build: ModuleType) -> None:
    assert code_of(build, delta=1e-6, profile=()) == "EPSILON_NOT_REPRODUCED"
    assert code_of(build, delta=0.0, profile=()) == "EPSILON_NOT_REPRODUCED"


@pytest.mark.parametrize("profile", [((1.0, 1e-6),), ((20.0, 1e-4),), ((5.0, 1e-5),)])
def test_a_profile_may_not_promise_more_or_contradict(
    build: ModuleType, profile: tuple[tuple[float, float], ...]
) -> None:
    assert code_of(build, profile=profile) == "EPSILON_NOT_REPRODUCED"


def test_without_a_transcript_nothing_is_proven(build: ModuleType) -> None:
    assert code_of(build, transcript=None) == "NO_TRANSCRIPT"


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out", "all-occurrences-of-one-term"])
def test_other_neighbours_are_not_what_this_engine_computes(
    build: ModuleType, adjacency: str
) -> None:
    assert code_of(build, adjacency=adjacency, epsilon=100.0) == "EPSILON_NOT_REPRODUCED"


@pytest.mark.parametrize("name", ["gdp-clt", "none"])
def test_some_accountants_never_certify(build: ModuleType, name: str) -> None:
    accountant = build.Accountant(name=name, library="x", version="1", error_bound=None)
    assert code_of(build, accountant=accountant, epsilon=100.0) == "EPSILON_NOT_REPRODUCED"


def test_absurd_transcripts_cost_no_time(build: ModuleType) -> None:
    steps = tuple(Gaussian(noise_multiplier=1 + index / 1000) for index in range(300))
    claim = build.claim(transcripts={"training": Sequence(events=steps)})
    (finding,) = reproduction.reproduce(claim)
    assert finding.code == "EPSILON_NOT_REPRODUCED"
    assert finding.recomputed is None


def test_no_noise_reproduces_nothing(build: ModuleType) -> None:
    claim = build.claim(transcripts={"training": Gaussian(noise_multiplier=0.0)})
    assert reproduction.reproduce(claim)[0].code == "EPSILON_NOT_REPRODUCED"


def test_only_promises_of_differential_privacy_are_recomputed(build: ModuleType) -> None:
    assert reproduction.reproduce(build.claim(build.no_guarantee())) == ()
    conditional = build.guarantee(kind="dp-conditional", condition="if secure", epsilon=1.0)
    assert reproduction.reproduce(build.claim(conditional))[0].code == "EPSILON_NOT_REPRODUCED"


def test_rounding_on_another_machine_is_forgiven_but_never_the_truth(build: ModuleType) -> None:
    truth = rdp.epsilon(build.TRANSCRIPT, build.DELTA) / (1 + rdp.ROUNDING)
    assert code_of(build, epsilon=truth * (1 + rdp.ROUNDING * 0.6), profile=()) is None
    assert code_of(build, epsilon=truth, profile=()) == "EPSILON_NOT_REPRODUCED"
