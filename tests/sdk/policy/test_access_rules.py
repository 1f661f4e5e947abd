"""What was read: every protected data set is accounted for, in transcripts that read something."""

from __future__ import annotations

import dataclasses
from typing import Any

import hushdoc_builders as build
import pytest

from hushdoc.accounting import mechanism
from hushdoc.accounting.mechanism import (
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    HashFill,
    Mechanism,
    Parallel,
    RepeatAndSelect,
    Sequence,
    WithoutReplacement,
)
from hushdoc.certificate.claim import DataAccess
from hushdoc.policy.policy import Policy
from hushdoc.policy.report import RuleResult
from hushdoc.policy.rules import check

NEVER = Composed(event=build.STEP, count=0)


def failed(
    key: Any, *guarantees: Any, policy: dict[str, Any] | None = None, **change: Any
) -> list[RuleResult]:
    report = check(build.policy(key, **(policy or {})), build.certify(*guarantees, **change))
    return list(report.failed)


def access(treatment: str, **change: Any) -> DataAccess:
    found = DataAccess(
        data="invoices", purpose="names of the labels", accounted_in=(), treatment=treatment
    )
    return dataclasses.replace(found, **change)


def with_access(*more: DataAccess) -> dict[str, Any]:
    return {"data_accesses": (*build.claim().data_accesses, *more)}


def two_data_sets(treatment: str, *accounted_in: str) -> dict[str, Any]:
    first = build.claim().protected_data[0]
    read = access(treatment, data="receipts", purpose="training", accounted_in=accounted_in)
    more = dataclasses.replace(first, name="receipts")
    return {"protected_data": (first, more), **with_access(read)}


def test_a_data_set_whose_only_access_is_not_released_is_covered_by_no_guarantee(key: Any) -> None:
    (rule,) = failed(key, **two_data_sets("not-released"))
    assert (rule.rule, rule.code) == ("data accesses", "UNACCOUNTED_ACCESS")
    assert rule.found == "no access to receipts is accounted"


def test_two_data_sets_may_be_in_one_transcript(key: Any) -> None:
    assert failed(key, **two_data_sets("accounted", "training")) == []


@pytest.mark.parametrize("treatment", ["declared-public", "post-processing"])
def test_what_the_owner_calls_harmless_counts_only_where_the_policy_lists_it(
    key: Any, treatment: str
) -> None:
    change = with_access(access(treatment))
    (rule,) = failed(key, **change)
    assert (rule.rule, rule.code) == ("treatments", "UNACCOUNTED_ACCESS")
    assert rule.found == f"names of the labels ({treatment})"
    assert treatment not in rule.allowed
    listed = {"treatments": {"accounted", "not-released", treatment}}
    assert failed(key, policy=listed, **change) == []
    (rule,) = failed(key, policy={"treatments": {treatment}}, **change)
    assert rule.found == "training (accounted)"


def test_no_policy_lists_what_leaks(key: Any) -> None:
    with pytest.raises(ValueError, match="treatments"):
        build.policy(key, treatments={"accounted", "unaccounted"})
    (rule,) = failed(key, **with_access(access("unaccounted")))
    assert rule.found == "names of the labels (unaccounted)"


READS_NOTHING = {
    "no step": NEVER,
    "no record": build.run_of(0.0, 2.0, 350),
    "an empty batch": WithoutReplacement(population=9, sample_size=0, event=build.TRANSCRIPT),
    "no cluster": Composed(event=ClusterSampled(sampling_rate=0, event=build.STEP), count=9),
    "no event": Sequence(events=()),
    "parts that never ran": Parallel(events=(NEVER, NEVER)),
    "nothing, for many": Grouped(size=3, event=NEVER),
    "the best of nothing": RepeatAndSelect(event=NEVER, distribution="poisson", expected_runs=4.0),
}
READS = {
    "one step": Composed(event=build.STEP, count=1),
    "one of two": Sequence(events=(NEVER, build.TRANSCRIPT)),
    "noise alone": Gaussian(noise_multiplier=1e9),
    "a table": HashFill(rows=1, columns=1),
    "for many": Grouped(size=3, event=build.TRANSCRIPT),
}


@pytest.mark.parametrize("name", READS_NOTHING)
def test_a_transcript_that_reads_nothing_accounts_for_nothing(key: Any, name: str) -> None:
    event = READS_NOTHING[name]
    assert not mechanism.reads_data(event)
    rules = failed(key, build.guarantee(profile=()), transcripts={"training": event})
    assert "training (accounted in training, which reads nothing)" in [
        rule.found for rule in rules if rule.rule == "data accesses"
    ]


@pytest.mark.parametrize("name", READS)
def test_what_reads_something_reads_data(name: str) -> None:
    assert mechanism.reads_data(READS[name])


def also_ran(event: Mechanism = build.TRANSCRIPT) -> dict[str, Any]:
    read = dataclasses.replace(build.claim().data_accesses[0], accounted_in=("training", "tuning"))
    return {
        "data_accesses": (read,),
        "transcripts": {"training": build.TRANSCRIPT, "tuning": event},
    }


def test_a_transcript_that_no_guarantee_rests_on_is_refused(key: Any) -> None:
    (rule,) = failed(key, **also_ran())
    assert (rule.rule, rule.code) == ("transcripts", "UNACCOUNTED_ACCESS")
    assert rule.found == "no guarantee rests on tuning"


@pytest.mark.parametrize("kind", ["none", "empirical"])
def test_what_proves_nothing_does_not_make_use_of_a_transcript(key: Any, kind: str) -> None:
    reason = "not private" if kind == "none" else None
    change: dict[str, Any] = {"epsilon": None, "delta": None, "profile": (), "reason": reason}
    beside = build.guarantee(unit="page", transcript="tuning", kind=kind, **change)
    assert [rule.rule for rule in failed(key, build.guarantee(), beside, **also_ran())] == [
        "transcripts"
    ]


def test_another_view_of_the_same_training_has_its_own_transcript(key: Any) -> None:
    server = build.guarantee(
        adversary="server", aggregation="secure-sum", transcript="tuning", epsilon=8.0, profile=()
    )
    assert failed(key, build.guarantee(), server, **also_ran()) == []


def test_no_full_coverage_lets_all_of_them_pass(key: Any) -> None:
    change = {**also_ran(), **two_data_sets("unaccounted")}
    change["data_accesses"] = two_data_sets("unaccounted")["data_accesses"]
    assert failed(key, policy={"require_full_coverage": False}, **change) == []
    assert {rule.rule for rule in failed(key, **change)} == {
        "treatments",
        "data accesses",
        "transcripts",
    }


def test_a_guarantee_about_a_unit_that_the_data_do_not_have_is_refused(key: Any) -> None:
    page = build.guarantee(unit="page")
    (rule,) = failed(key, page, policy={"privacy_units": {"page"}})
    assert (rule.rule, rule.code) == ("unit of the data (page)", "UNIT_NOT_IN_DATA")
    (data,) = build.claim().protected_data
    both = dataclasses.replace(
        data, units=(*data.units, dataclasses.replace(data.units[0], unit="page"))
    )
    assert failed(key, page, policy={"privacy_units": {"page"}}, protected_data=(both,)) == []


def test_a_unit_that_only_one_of_two_data_sets_has_is_refused(key: Any) -> None:
    change = two_data_sets("accounted", "training")
    first, second = change["protected_data"]
    pages = (dataclasses.replace(second.units[0], unit="page"),)
    change["protected_data"] = (first, dataclasses.replace(second, units=pages))
    assert [rule.code for rule in failed(key, **change)] == ["UNIT_NOT_IN_DATA"]


def drawn(word: str, rate: float = 0.5, **change: Any) -> tuple[Any, dict[str, Any]]:
    event = Composed(
        event=ClusterSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=8.0)), count=20
    )
    item = build.guarantee(epsilon=8.0, profile=(), cluster_sampling_as_implemented=word, **change)
    return item, {"transcripts": {"training": event}}


@pytest.mark.parametrize("sampling", ["poisson", "full-batch"])
@pytest.mark.parametrize("word", ["none", "schedule", "unknown"])
def test_clusters_that_are_drawn_amplify_only_if_drawn_anew_in_each_round(
    key: Any, word: str, sampling: str
) -> None:
    item, change = drawn(word, sampling_as_implemented=sampling)
    (rule,) = failed(key, item, **change)
    assert (rule.rule, rule.code) == ("cluster sampling (document)", "SAMPLING_MISMATCH")
    assert rule.found == word
    item, change = drawn("each-round", sampling_as_implemented=sampling)
    assert failed(key, item, **change) == []
    item, change = drawn(word, rate=1.0, sampling_as_implemented=sampling)
    assert failed(key, item, **change) == []


def test_the_default_policy_trusts_only_what_is_accounted_or_kept() -> None:
    assert Policy.treatments == {"accounted", "not-released"}
