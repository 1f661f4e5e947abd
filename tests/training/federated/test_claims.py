"""Claims of federated runs: a guarantee against each adversary, of what clients executed."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest
from hushdoc_federated import receipt_of, settings
from hushdoc_javascript import require_accepted
from hushdoc_parties import CHECKS

from hushdoc import explanation
from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled
from hushdoc.artifact import artifact
from hushdoc.certificate import adversaries, recompute
from hushdoc.certificate.claim import Claim, DataAccess, Guarantee, PublicData
from hushdoc.errors import PrivacyError
from hushdoc.policy.policy import Policy
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc_training.federated import claims
from hushdoc_training.federated.claims import Executed
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.privacy import claims as privacy_claims
from hushdoc_training.privacy.claims import ClaimDetails
from hushdoc_training.receipt import Receipt
from hushdoc_training.runs.receipts import Declared

NAMES = ("north", "east", "south", "west")
PLAN = FederatedPlan.calibrated(epsilon=8.0, **settings())
DECLARED = Declared(name="forms of four companies", hyperparameter_tuning="public-data")


def executed(plan: FederatedPlan, **change: Any) -> Executed:
    found: dict[str, Any] = {
        "receipts": {name: receipt_of(plan) for name in NAMES},
        "took_part": frozenset(NAMES),
        "begun": plan.rounds,
        "aborted": 0,
        "roster": "ab" * 32,
        **change,
    }
    return Executed(**found)


def claim_of(plan: FederatedPlan = PLAN, **change: Any) -> Claim:
    return claims.claim(plan, executed(plan, **change), DECLARED)


def with_other_noise(receipt: Receipt) -> Receipt:
    """The receipt of a client whose noise was no discrete Gaussian."""
    return Receipt.from_json(receipt.to_json().replace(b"discrete-gaussian", b"gaussian"))


def loose(**change: Any) -> FederatedPlan:
    """A plan whose noise is given, whatever it spends."""
    given = {"noise_multiplier": 1.5, "epsilon": math.inf, "delta": 1e-5, **settings(), **change}
    return FederatedPlan(**given)


def of(claim: Claim, adversary: str) -> list[Guarantee]:
    return [item for item in claim.guarantees if item.adversary == adversary]


def test_one_guarantee_against_each_adversary_and_all_are_reproduced() -> None:
    claim = Claim.from_json(claim_of().to_json())
    whom = [item.adversary for item in claim.guarantees]
    assert whom == ["model-recipient", "server", "server", "co-client", "network-observer"]
    assert {item.aggregation for item in claim.guarantees} == {"secure-sum"}
    assert len({item.epsilon for item in claim.guarantees}) == 1
    assert 7.99 < (claim.guarantees[0].epsilon or 0) <= 8
    for mode in ("fast", "exact"):
        assert [found.code for found in recompute.reproduce(claim, mode=mode)] == [None] * 5
    assert adversaries.contradictions(claim.guarantees) == []
    alone, helped = of(claim, "server")
    assert "1 other client" not in alone.knows
    assert "everything at 1 other client" in helped.knows
    assert claim.training["federated"]["rosterDigest"] == "ab" * 32


def test_what_is_certified_is_computed_from_receipts_by_hand() -> None:
    plan = loose()
    (released,) = set(claim_of(plan).transcripts.values())
    noise = receipt_of(plan).noise_multiplier * math.sqrt(3)
    assert released == Composed(
        event=PoissonSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=noise)), count=20
    )
    assert noise == pytest.approx(1.5, rel=1e-9)


def test_against_the_server_that_draws_clients_its_draw_does_not_count() -> None:
    claim = claim_of(
        loose(participation="drawn", clients=8, sampling_rate=0.1, rounds=10, most_rounds=9)
    )
    recipient, server = of(claim, "model-recipient")[0], of(claim, "server")[0]
    assert (recipient.transcript, server.transcript) == ("released", "server")
    assert (server.epsilon or 0) > (recipient.epsilon or 0)
    assert {item.cluster_sampling_as_implemented for item in claim.guarantees} == {"each-round"}
    assert any("counts against all but the server" in words for words in server.assumes)
    assert [found.code for found in recompute.reproduce(claim)] == [None] * 5


def test_a_server_that_sees_single_updates_faces_one_share() -> None:
    claim = claim_of(loose(mode="individual-updates", colluding=0))
    (server,) = of(claim, "server")
    (observer,) = of(claim, "network-observer")
    (fellow,) = of(claim, "co-client")
    assert server.aggregation == observer.aggregation == "individual-updates"
    assert fellow.aggregation == "secure-sum"
    delta = 1e-5
    for item, part in ((server, 1 / 4), (fellow, 3 / 4)):
        step = PoissonSampled(
            sampling_rate=0.2, event=Gaussian(noise_multiplier=1.5 * math.sqrt(part))
        )
        expected = pld.epsilon(Composed(event=step, count=20), delta)
        assert item.epsilon == pytest.approx(expected, rel=1e-6)


def test_who_watches_training_uses_no_clock() -> None:
    claim = claim_of()
    watched = {
        item.adversary: any("to answer" in why for why in item.assumes) for item in claim.guarantees
    }
    assert watched == {
        "model-recipient": False,
        "server": True,
        "co-client": True,
        "network-observer": True,
    }


def test_nobody_is_claimed_not_to_see_a_client_that_a_document_made_fail() -> None:
    for guarantee in claim_of().guarantees:
        assert any("no document makes a client fail" in why for why in guarantee.assumes)


def test_epsilon_by_how_many_are_honest_falls_with_each() -> None:
    table = claim_of().training["federated"]["epsilonByHonestClients"]
    assert list(table) == ["3", "1"]
    assert table["3"] == pytest.approx(8.0, abs=0.01)
    assert table["1"] > 1.5 * table["3"]


def test_plain_averages_guarantee_nothing_against_anybody() -> None:
    plan = loose(algorithm="fedavg", noise_multiplier=0.0, epsilon=None, delta=None)
    claim = claim_of(plan, receipts={})
    assert {item.kind for item in claim.guarantees} == {"none"}
    assert [item.adversary for item in claim.guarantees] == list(claims.ADVERSARIES)
    assert claim.data_accesses[0].treatment == "unaccounted"
    Claim.from_json(claim.to_json())


@pytest.mark.parametrize("private", [True, False])
def test_what_is_declared_stands_in_the_claim(private: bool) -> None:
    read = DataAccess(data="forms", purpose="counts", accounted_in=(), treatment="unaccounted")
    public = PublicData(
        name="weights", uses=("pretraining",), privacy_status="x", overlap_with_protected="partial"
    )
    declared = Declared(
        name="forms",
        public_data=(public,),
        labels_from_documents=True,
        accesses=(read,),
        assumes=("clients tell the truth",),
        caveats=("read this",),
        contribution_bound="by hand",
    )
    none = {"algorithm": "fedavg", "noise_multiplier": 0.0, "epsilon": None, "delta": None}
    plan = PLAN if private else loose(**none)
    claim = claims.claim(plan, executed(plan, **({} if private else {"receipts": {}})), declared)
    assert {access.purpose for access in claim.data_accesses} > {"training", "counts"}
    labels = privacy_claims.label_access("forms", True)
    assert {*labels, read} < {*claim.data_accesses}
    assert claim.public_data == (public,)
    assert "read this" in claim.caveats
    assert claim.releases == ("final-weights", "round-updates")
    assert not any(item.covers_all_private_accesses for item in claim.guarantees)
    if private:
        assert claim.protected_data[0].contribution_bound == "by hand"
        assert all("clients tell the truth" in item.assumes for item in claim.guarantees)


def test_averages_of_private_trainings_have_each_client_s_own_guarantee() -> None:
    plan = loose(algorithm="fedavg-dp", local_steps=3, rounds=5, sampling_rate=0.1)
    claim = claim_of(plan)
    assert set(claim.transcripts) == {"released"}
    assert "epsilonByHonestClients" not in claim.training["federated"]
    assert not any("their share" in words for words in claim.guarantees[0].assumes)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"begun": 21}, "NOT_AS_PLANNED"),
        ({"begun": 0}, "NOT_AS_PLANNED"),
        ({"aborted": 21}, "NOT_AS_PLANNED"),
        ({"receipts": {}}, "NO_RECEIPT"),
        ({"receipts": {name: receipt_of(PLAN) for name in NAMES[:2]}}, "NO_RECEIPT"),
        ({"receipts": {**executed(PLAN).receipts, "west": receipt_of(loose())}}, "NOT_AS_PLANNED"),
        (
            {"receipts": {**executed(PLAN).receipts, "west": receipt_of(PLAN, rate=0.3)}},
            "NOT_AS_PLANNED",
        ),
        (
            {"receipts": {**executed(PLAN).receipts, "west": receipt_of(PLAN, steps=21)}},
            "NOT_AS_PLANNED",
        ),
        (
            {"receipts": {**executed(PLAN).receipts, "west": with_other_noise(receipt_of(PLAN))}},
            "NOT_AS_PLANNED",
        ),
        ({"receipts": {**executed(PLAN).receipts, "west": receipt_of(PLAN, unit=None)}}, "NO_UNIT"),
        (
            {"receipts": {**executed(PLAN).receipts, "west": receipt_of(PLAN, key=bytes(32))}},
            "KNOWN_RANDOMNESS",
        ),
    ],
)
def test_nothing_is_claimed_of_what_was_not_executed_as_planned(
    change: dict[str, Any], code: str
) -> None:
    with pytest.raises(PrivacyError) as refused:
        claim_of(PLAN, **change)
    assert refused.value.code == code
    if change.get("receipts", {}).keys() == {*NAMES} and "distribution" not in str(refused.value):
        assert str(refused.value).startswith("The receipt of west: ")


@pytest.mark.parametrize("told", [{}, {"untrained_parameters": []}, {"backend": "other"}])
def test_no_client_alone_says_by_which_settings_all_were_tested(told: dict[str, Any]) -> None:
    settings = {**CHECKS.settings, **told} if told else {}
    checks = {**dict.fromkeys(NAMES, CHECKS), "west": replace(CHECKS, settings=settings)}
    with pytest.raises(PrivacyError, match="west tells of a self-test with another") as refused:
        claim_of(checks=checks)
    assert refused.value.code == "NOT_AS_PLANNED"


def test_what_the_coordinator_declares_no_client_overwrites() -> None:
    checks = dict.fromkeys(NAMES, replace(CHECKS, settings={"trained": "nothing"}))
    declared = replace(DECLARED, training={"trained": "output"})
    claim = claims.claim(PLAN, executed(PLAN, checks=checks), declared)
    assert claim.training["trained"] == "output"


def test_clients_whose_settings_differ_have_no_claim() -> None:
    alike = {name: ClaimDetails(settings={"backend": "one-by-one"}) for name in NAMES}
    assert claim_of(checks=alike).training["backend"] == "one-by-one"
    other = {**alike, "west": ClaimDetails(settings={"backend": "book-keeping"})}
    with pytest.raises(PrivacyError, match="west tells .* another backend") as refused:
        claim_of(checks=other)
    assert refused.value.code == "NOT_AS_PLANNED"


def test_one_receipt_may_be_missing_for_each_client_that_may_collude() -> None:
    few = {name: receipt_of(PLAN) for name in NAMES[:3]}
    for some, whole in zip(claim_of(receipts=few).guarantees, claim_of().guarantees, strict=True):
        (more,) = {*some.assumes} - {*whole.assumes}
        assert more.startswith("west, of which there is no receipt, drew and clipped")
        assert replace(some, assumes=whole.assumes) == whole
    never = claim_of(receipts=few, took_part=frozenset(NAMES[:3]))
    assert never.training["federated"]["receipts"] == 3
    assert never.guarantees == claim_of().guarantees


def test_of_a_client_without_receipt_there_is_no_self_test_either() -> None:
    few = {name: receipt_of(PLAN) for name in NAMES[:3]}
    told = claim_of(receipts=few, checks={name: CHECKS for name in few})
    for guarantee in told.guarantees:
        assert any("no self-test" in words for words in guarantee.assumes)


ALONE: dict[str, dict[str, Any]] = {
    "averages": {"algorithm": "fedavg-dp", "local_steps": 3, "rounds": 5, "sampling_rate": 0.1},
    "in the clear": {"mode": "individual-updates"},
}


@pytest.mark.parametrize("how", ALONE)
def test_no_receipt_may_be_missing_where_own_noise_alone_hides_a_unit(how: str) -> None:
    plan = loose(**ALONE[how])
    assert plan.colluding == 1
    few = {name: receipt_of(plan) for name in NAMES[:3]}
    with pytest.raises(PrivacyError, match="west.*own noise alone") as refused:
        claim_of(plan, receipts=few)
    assert refused.value.code == "NO_RECEIPT"
    assert claim_of(plan, receipts=few, took_part=frozenset(few)).guarantees


def test_what_a_client_read_of_its_own_numbers_is_tuning_for_all() -> None:
    curious = receipt_of(PLAN, reads=("losses",))
    claim = claim_of(receipts={**executed(PLAN).receipts, "west": curious})
    assert {item.hyperparameter_tuning for item in claim.guarantees} == {"unaccounted"}
    assert any("losses" in caveat for caveat in claim.caveats)


def test_a_providers_change_is_what_is_bounded() -> None:
    plan = loose(algorithm="fl-provider-dp", privacy_unit="provider", sampling_rate=1.0)
    claim = claim_of(plan, receipts={name: receipt_of(plan, unit="provider") for name in NAMES})
    assert "local training on it changes" in claim.protected_data[0].contribution_bound
    assert {item.sampling_as_implemented for item in claim.guarantees} == {"full-batch"}


def test_records_that_all_join_each_round_are_no_samples() -> None:
    """The coins were drawn, and decided nothing."""
    plan = loose(sampling_rate=1.0)
    claim = claim_of(plan)
    assert {item.sampling_as_implemented for item in claim.guarantees} == {"full-batch"}
    drawn = claim_of(loose())
    assert {item.sampling_as_implemented for item in drawn.guarantees} == {"poisson"}


def test_aborted_rounds_stay_charged() -> None:
    claim = claim_of(begun=20, aborted=7)
    assert claim.transcripts == claim_of().transcripts
    assert claim.training["federated"]["aborted"] == 7
    assert "aborted ones included" in claim.guarantees[0].composition


def test_both_verifiers_accept(tmp_path: Path) -> None:
    key = keys.generate_key()
    certified = replace(build.certify(), claim=claim_of())
    folder = build.seal_anything(tmp_path / "model", key, certified=certified)
    trust = TrustStore.of([TrustedKey.of(key, name="coordinator")])
    limits: dict[str, Any] = {"max_epsilon": 8, "max_delta": 1e-5, "privacy_units": ["document"]}
    now = datetime(2026, 12, 1, tzinfo=UTC)
    for adversary in ("model-recipient", "server", "co-client", "network-observer"):
        policy = Policy(trust=trust, adversary=adversary, **limits)
        report = artifact.examine(folder, policy, now=now)
        assert report.passed, [rule.code for rule in report.policy.failed]
    require_accepted(folder, tmp_path, key, now=now, adversary="server", **limits)


def test_the_explanation_says_who_learns_what() -> None:
    words = explanation.explain_claim(claim_of())
    for part in (
        "the server",
        "1 other client",
        "no more than 1 tell others their noise",
        "set back to an earlier state",
        "only sums over all clients of a round",
        "the update of each training round",
    ):
        assert part in words
    assert words.count("set back to an earlier state") == 1
    assert "All of these assume: every unit is at one place" in words
