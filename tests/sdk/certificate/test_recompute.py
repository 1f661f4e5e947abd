"""Numbers that follow from their transcript, and numbers that don't."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from hushdoc.accounting import offline, pld, rdp
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    PoissonSampled,
    Sequence,
)
from hushdoc.certificate import recompute
from hushdoc.certificate.claim import Claim


def code_of(build: ModuleType, **change: Any) -> str | None:
    claim = build.claim(build.guarantee(**change))
    (finding,) = recompute.reproduce(claim)
    return finding.code


def test_an_honest_claim_is_reproduced(build: ModuleType) -> None:
    (finding,) = recompute.reproduce(build.claim())
    assert finding.code is None
    assert finding.recomputed == finding.claimed


def test_a_claim_above_its_transcript_is_true_as_well(build: ModuleType) -> None:
    assert code_of(build, epsilon=20.0, profile=()) is None


def test_a_claim_below_its_transcript_is_not_reproduced(build: ModuleType) -> None:
    bounds = pld.bounds(build.TRANSCRIPT, build.DELTA)
    for epsilon in (bounds.lower * (1 - 1e-6), build.guarantee().epsilon / 2, 0.0):
        assert code_of(build, epsilon=epsilon, profile=()) == "EPSILON_NOT_REPRODUCED"


@pytest.mark.parametrize("mode", recompute.RECOMPUTE_MODES)
def test_a_claim_below_renyi_accounting_is_proven_by_the_exact_engine(
    build: ModuleType, mode: str
) -> None:
    renyi = rdp.epsilon(build.TRANSCRIPT, build.DELTA)
    exact = pld.epsilon(build.TRANSCRIPT, build.DELTA)
    assert exact < 0.98 * renyi
    for epsilon, code in (
        (renyi, None),
        (exact, None),
        (exact * 0.97, "EPSILON_NOT_REPRODUCED"),
    ):
        claim = build.claim(build.guarantee(epsilon=epsilon, profile=()))
        (finding,) = recompute.reproduce(claim, mode=mode)
        assert finding.code == code
        assert finding.recomputed is not None
        assert finding.recomputed <= renyi


def test_what_was_recomputed_comes_from_the_engine_that_decided(build: ModuleType) -> None:
    claim = build.claim(build.guarantee(profile=()))
    (fast,) = recompute.reproduce(claim)
    (exact,) = recompute.reproduce(claim, mode="exact")
    assert fast.recomputed == rdp.epsilon(build.TRANSCRIPT, build.DELTA)
    assert exact.recomputed == pld.epsilon(build.TRANSCRIPT, build.DELTA)


@pytest.mark.parametrize(("times", "deltas"), [(2.0, 10.0), (2.0, 1.0)])
def test_points_that_contradict_one_another_are_not_reproduced(
    build: ModuleType, times: float, deltas: float
) -> None:
    """Each of them is true, and a reader can't tell which one is meant."""
    claimed = build.guarantee().epsilon
    point = (times * claimed, deltas * build.DELTA)
    assert code_of(build, epsilon=point[0], delta=point[1], profile=()) is None
    claim = build.claim(build.guarantee(profile=(point,)))
    (finding,) = recompute.reproduce(claim)
    assert finding.code == "EPSILON_NOT_REPRODUCED"
    assert "contradict one another" in finding.message
    assert code_of(build, profile=((claimed, build.DELTA),)) is None  # the same point twice


@pytest.mark.parametrize(
    ("second", "message"), [(1.01, "confirms no less"), (1.0, None), (None, "does not support")]
)
def test_a_second_implementation_has_to_confirm_offline(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, second: float | None, message: str | None
) -> None:
    claim = build.claim(build.guarantee(profile=()))
    claimed = claim.guarantees[0].epsilon
    monkeypatch.setattr(
        offline, "epsilon", lambda *_, **__: None if second is None else second * claimed
    )
    (finding,) = recompute.reproduce(claim, mode="offline")
    assert finding.code == (None if message is None else "EPSILON_NOT_REPRODUCED")
    assert message is None or message in finding.message


def test_an_empty_record_in_place_of_one_is_the_same_as_none(build: ModuleType) -> None:
    assert code_of(build, adjacency="zero-out") is None


def test_whole_terms_are_not_what_this_engine_computes(build: ModuleType) -> None:
    adjacency = "all-occurrences-of-one-term"
    found = code_of(build, adjacency=adjacency, epsilon=1e6, profile=())
    assert found == "EPSILON_NOT_REPRODUCED"


def test_what_dp_accounting_does_not_support_is_not_confirmed(build: ModuleType) -> None:
    event = ClusterSampled(sampling_rate=0.5, event=build.STEP)
    claim = build.claim(
        build.guarantee(epsilon=8.0, profile=()),
        transcripts={"training": Composed(event=event, count=10)},
    )
    assert recompute.reproduce(claim, mode="exact")[0].code is None
    assert recompute.reproduce(claim, mode="offline")[0].code == "EPSILON_NOT_REPRODUCED"


def test_many_different_steps_are_still_recomputed(build: ModuleType) -> None:
    steps = tuple(Gaussian(noise_multiplier=100 + index / 10) for index in range(300))
    transcript = Sequence(events=steps)
    for epsilon, code in (
        (pld.epsilon(transcript, build.DELTA), None),
        (0.01, "EPSILON_NOT_REPRODUCED"),
    ):
        guarantee = build.guarantee(epsilon=epsilon, profile=())
        claim = build.claim(guarantee, transcripts={"training": transcript})
        assert recompute.reproduce(claim)[0].code == code


def test_only_guarantees_of_differential_privacy_are_recomputed(build: ModuleType) -> None:
    assert recompute.reproduce(build.claim(build.no_guarantee())) == ()
    conditional = build.guarantee(kind="dp-conditional", condition="if secure", epsilon=1.0)
    assert recompute.reproduce(build.claim(conditional))[0].code == "EPSILON_NOT_REPRODUCED"


def test_rounding_on_another_machine_is_forgiven(build: ModuleType) -> None:
    """Only within the allowance that the engine adds on top of the truth."""
    truth = rdp.epsilon(build.TRANSCRIPT, build.DELTA) / (1 + rdp.ROUNDING)
    claim = build.claim(build.guarantee(epsilon=truth * (1 + rdp.ROUNDING * 0.6), profile=()))
    (finding,) = recompute.reproduce(claim)
    assert finding.code is None
    assert finding.recomputed == rdp.epsilon(build.TRANSCRIPT, build.DELTA)


def needing_the_exact_engine(build: ModuleType, number: int, guarantees: int = 1) -> Claim:
    epsilon = pld.epsilon(build.TRANSCRIPT, 1e-5) * 1.001
    assert epsilon < rdp.epsilon(build.TRANSCRIPT, 1e-5 * 1.04)
    profile = tuple((epsilon * (1 - i / 1e6), 1e-5 * (1 + i / 1e3)) for i in range(1, number))
    one = build.guarantee(epsilon=epsilon, delta=1e-5, profile=profile)
    return build.claim(*[one] * guarantees)


def test_all_guarantees_share_the_work_of_one_certificate(build: ModuleType) -> None:
    """One guarantee with all its points is proven; sixteen of them are not kept waiting for."""
    assert recompute.reproduce(needing_the_exact_engine(build, 33))[0].code is None
    found = recompute.reproduce(needing_the_exact_engine(build, 33, guarantees=16))
    assert found[0].code is None
    assert [item.code for item in found[-8:]] == ["EPSILON_NOT_REPRODUCED"] * 8
    assert "more work than is done for one certificate" in found[-1].message
    assert found[-1].recomputed is None


def test_what_is_refused_depends_on_the_claim_and_not_on_what_was_asked_before(
    build: ModuleType,
) -> None:
    claim = needing_the_exact_engine(build, 33, guarantees=8)
    pld._counted_bounds.cache_clear()
    first = recompute.reproduce(claim)
    assert {item.code for item in first} == {None, "EPSILON_NOT_REPRODUCED"}
    assert recompute.reproduce(claim) == first


def test_points_times_events_are_limited_before_anything_is_computed(build: ModuleType) -> None:
    transcript = Sequence(events=(Gaussian(noise_multiplier=1e6),) * 999)
    for count, code in ((19, None), (20, "EPSILON_NOT_REPRODUCED")):
        profile = tuple((1 - i / 1e6, 1e-5 * (1 + i / 100)) for i in range(1, count))
        claim = build.claim(
            build.guarantee(epsilon=1.0, delta=1e-5, profile=profile),
            build.guarantee(epsilon=1.0, delta=1e-5, profile=()),
            transcripts={"training": transcript},
        )
        found = recompute.reproduce(claim)
        assert {item.code for item in found} == {code}
        assert code is None or "at most 20000 are recomputed" in found[0].message


def test_transcripts_of_too_many_different_steps_together_are_refused(build: ModuleType) -> None:
    """Each is what is recomputed alone; renyi accounting of many took half a minute."""
    transcripts = {
        f"t{k}": Sequence(
            events=tuple(
                PoissonSampled(
                    sampling_rate=0.1 + k / 1000, event=Gaussian(noise_multiplier=100 + index)
                )
                for index in range(150)
            )
        )
        for k in range(4)
    }
    guarantees = [
        build.guarantee(transcript=name, epsilon=50.0, profile=()) for name in transcripts
    ]
    found = recompute.reproduce(build.claim(*guarantees, transcripts=transcripts))
    assert [item.code for item in found[:2]] == [None, None]
    assert found[-1].code == "EPSILON_NOT_REPRODUCED"
