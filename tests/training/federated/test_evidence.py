"""What clients said, in frames that they signed: nobody changes a word, and certificates follow."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest
from hushdoc_command_runs import refusal, run
from hushdoc_javascript import require_accepted
from hushdoc_parties import FIRST, SECOND, SERVER, Federation, plan

from hushdoc.artifact import artifact
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.errors import FrameError, PrivacyError
from hushdoc.policy.policy import Policy
from hushdoc.serialization import strict_json
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc_training import duplicates
from hushdoc_training.federated import account, claims, evidence, frames, testimony
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.claims import Executed
from hushdoc_training.federated.coordinator import Coordinator
from hushdoc_training.federated.frames import Frame
from hushdoc_training.federated.roster import COORDINATOR
from hushdoc_training.federated.transport import drive
from hushdoc_training.privacy.claims import unaccounted
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.recipes.docvqa import rows
from hushdoc_training.recipes.federated_parties import trained_by
from hushdoc_training.runs.claim_words import READABLE, READING
from hushdoc_training.runs.receipts import Declared

DECLARED = Declared(name="forms")


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A run that has ended."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        made = Federation(tmp_path_factory.mktemp("run"), plan(colluding=1))
        drive(made.coordinator, made.transport())
    yield made
    for name in [*made.keys, COORDINATOR]:
        made.end(name)


@pytest.fixture
def receipts(federation: Federation) -> Path:
    return federation.home / COORDINATOR / testimony.RECEIPTS


@pytest.fixture
def testified(federation: Federation, receipts: Path) -> dict[str, Frame]:
    return testimony.kept(receipts, federation.roster)


def claimed(federation: Federation, testified: dict[str, Frame]) -> Claim:
    executed = Executed.testified(
        testified,
        took_part=federation.coordinator.took_part,
        begun=federation.coordinator.begun,
        aborted=len(federation.coordinator.aborted),
        roster=federation.roster.digest,
    )
    made = claims.claim(federation.plan, executed, DECLARED)
    return Claim.from_json(made.to_json())


def test_certificates_say_what_clients_said_of_their_tests(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    claim = claimed(federation, testified)
    evidence.require(claim, federation.roster, testified)
    told = claim.training["federated"]
    assert (told["selfTests"], told["receipts"], told["withoutReceipt"]) == (3, 3, [])
    assert told["receiptsDigest"] == testimony.digest_of(testified)
    assert claim.training["untrained_parameters"] == ["pooler"]
    for guarantee in claim.guarantees:
        assert "ones are ones" in guarantee.assumes
        assert not any("no self-test" in words for words in guarantee.assumes)
    assert ("forms", "test") in {(item.data, item.purpose) for item in claim.data_accesses}


def test_a_client_that_tells_of_no_self_test_is_trusted_in_words(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    silent = testimony.said(testified["first"])
    payload = replace(silent, checks=None).encoded()
    frame = signed(federation, testified["first"], payload)
    claim = claimed(federation, {**testified, "first": frame})
    assert claim.training["federated"]["selfTests"] == 2
    for guarantee in claim.guarantees:
        assert any("told of no self-test" in words for words in guarantee.assumes)


OTHER_WORDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "noise that is no number": lambda told: told["executed"].update(noise_multiplier=[]),
    "no noise at all": lambda told: told["executed"].update(noise_multiplier=None),
    "a rate that is no number": lambda told: told["executed"].update(sampling_rate=""),
    "a reading that noise is to account for": lambda told: told["checks"]["accesses"][0].update(
        treatment="accounted", accountedIn=["released"]
    ),
}


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_what_no_claim_could_be_made_of_is_no_testimony(
    words: str, federation: Federation, testified: dict[str, Frame]
) -> None:
    told = json.loads(bytes(testified["first"].payload))
    OTHER_WORDS[words](told)
    frame = signed(federation, testified["first"], strict_json.dumps(told))
    with pytest.raises(FrameError) as refused:
        testimony.said(frame)
    assert refused.value.code == "BAD_FRAME"


def signed(federation: Federation, frame: Frame, payload: bytes) -> Frame:
    """Returns a frame as its client would have signed it with another payload."""
    other = replace(frame, payload=payload)
    return replace(other, encoded=frames.encode(other, federation.keys[frame.sender]))


# What a coordinator might make of it.


def with_guarantees(claim: Claim, **change: Any) -> Claim:
    return replace(claim, guarantees=tuple(replace(item, **change) for item in claim.guarantees))


def with_training(claim: Claim, **change: Any) -> Claim:
    federated = {**claim.training["federated"], **change}
    return replace(claim, training={**claim.training, "federated": federated})


OTHERWISE: dict[str, tuple[Callable[[Claim], Claim], str]] = {
    "less epsilon": (lambda claim: with_guarantees(claim, epsilon=0.5), "the guarantees"),
    "less epsilon against one of them": (
        lambda claim: replace(
            claim, guarantees=(*claim.guarantees[:-1], replace(claim.guarantees[-1], epsilon=0.5))
        ),
        "the guarantees",
    ),
    "an assumption fewer": (
        lambda claim: with_guarantees(claim, assumes=claim.guarantees[0].assumes[:-2]),
        "the guarantees",
    ),
    "a larger unit": (lambda claim: with_guarantees(claim, unit="provider"), "the guarantees"),
    "another definition": (
        lambda claim: with_guarantees(claim, unit_definition="all documents of a company"),
        "what is protected",
    ),
    "a smaller contribution": (
        lambda claim: replace(
            claim,
            protected_data=tuple(
                replace(data, contribution_bound="none") for data in claim.protected_data
            ),
        ),
        "what is protected",
    ),
    "fewer rounds": (
        lambda claim: replace(
            claim, transcripts={name: event.event for name, event in claim.transcripts.items()}
        ),
        "the transcripts",
    ),
    "an access that it hides": (lambda claim: replace(claim, data_accesses=()), "what was read"),
    "a release that it hides": (
        lambda claim: replace(claim, releases=("final-weights",)),
        "the releases",
    ),
    "a caveat fewer": (lambda claim: replace(claim, caveats=()), "the caveats"),
    "fewer colluding clients": (lambda claim: with_training(claim, colluding=0), "what ran"),
    "other receipts": (lambda claim: with_training(claim, receiptsDigest="0" * 64), "what ran"),
    "another roster": (lambda claim: with_training(claim, rosterDigest="0" * 64), "what ran"),
    "another setting than was tested": (
        lambda claim: replace(claim, training={**claim.training, "untrained_parameters": []}),
        "the setting untrained_parameters",
    ),
    "other receipts in plain data": (
        lambda claim: replace(claim, training={**claim.training, "receipt": {"steps": 1}}),
        "the setting receipt",
    ),
    "no run at all": (lambda claim: replace(claim, training={}), "no federated run"),
}


@pytest.mark.parametrize("how", OTHERWISE)
def test_a_claim_that_says_more_than_its_clients_is_refused(
    how: str, federation: Federation, testified: dict[str, Frame]
) -> None:
    change, named = OTHERWISE[how]
    with pytest.raises(PrivacyError, match=named) as refused:
        evidence.require(change(claimed(federation, testified)), federation.roster, testified)
    assert refused.value.code == "NOT_AS_TESTIFIED"


def test_a_claim_may_say_less(federation: Federation, testified: dict[str, Frame]) -> None:
    claim = claimed(federation, testified)
    conditional = with_guarantees(claim, kind="dp-conditional", condition="more")
    fewer = replace(claim, guarantees=claim.guarantees[:1])
    for less in (
        conditional,
        fewer,
        with_guarantees(claim, assumes=(*claim.guarantees[-1].assumes, "so")),
    ):
        evidence.require(less, federation.roster, testified)


def test_a_unit_is_what_the_task_of_the_roster_defines(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    defined = rows.unit_definition(federation.plan.privacy_unit)
    claim = with_guarantees(claimed(federation, testified), unit_definition=defined)
    evidence.require(claim, federation.roster, testified, defined)
    with pytest.raises(PrivacyError, match="what is protected"):
        evidence.require(claim, federation.roster, testified)


def test_a_claim_says_how_copies_counted(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    plain = UNIT_DEFINITIONS[federation.plan.privacy_unit]
    grouped = duplicates.defined(plain)
    claim = with_guarantees(claimed(federation, testified), unit_definition=grouped)
    told = replace(claim, caveats=(*claim.caveats, duplicates.CAVEAT))
    evidence.require(told, federation.roster, testified, grouped)
    with pytest.raises(PrivacyError, match="the caveats"):
        evidence.require(claim, federation.roster, testified, grouped)
    stronger = with_guarantees(told, unit_definition=plain)
    with pytest.raises(PrivacyError, match="what is protected"):
        evidence.require(stronger, federation.roster, testified, grouped)


def test_a_claim_lists_the_public_data_of_the_roster(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    claim = claimed(federation, testified)
    data = PublicData(
        name="weights",
        uses=("pretraining",),
        privacy_status="published",
        overlap_with_protected="partial",
    )
    plain = UNIT_DEFINITIONS[federation.plan.privacy_unit]
    evidence.require(
        replace(claim, public_data=(data,)), federation.roster, testified, plain, (data,)
    )
    better = replace(data, overlap_with_protected="none")
    for listed in ((), (better,)):
        told = replace(claim, public_data=listed)
        with pytest.raises(PrivacyError, match="the public data"):
            evidence.require(told, federation.roster, testified, plain, (data,))


def test_a_claim_names_no_setting_otherwise_than_the_roster(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    claim, settings = claimed(federation, testified), trained_by(federation.roster)
    assert settings["backend"] == "one-by-one"
    for told in ({}, settings, {"start": "the coordinator's word"}):
        said = replace(claim, training={**claim.training, **told})
        evidence.require(said, federation.roster, testified, settings=settings)
    for name, value in (("backend", "book-keeping"), ("learning_rate", 1.0)):
        said = replace(claim, training={**claim.training, **settings, name: value})
        with pytest.raises(PrivacyError, match=f"the setting {name}"):
            evidence.require(said, federation.roster, testified, settings=settings)


def as_recipes_say(claim: Claim) -> Claim:
    """Returns a claim with how recipes read documents, and what they take to be true of them."""
    return replace(
        claim,
        data_accesses=(*claim.data_accesses, *unaccounted(DECLARED.name, READING)),
        guarantees=tuple(
            replace(item, assumes=(*item.assumes, READABLE)) for item in claim.guarantees
        ),
    )


def test_a_claim_says_how_documents_are_read_and_what_they_are_taken_to_be(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    claim = claimed(federation, testified)
    told = as_recipes_say(claim)
    terms: dict[str, Any] = {"reads": READING, "assumes": (READABLE,)}
    evidence.require(told, federation.roster, testified, **terms)
    for hidden, named in (
        (replace(told, data_accesses=claim.data_accesses), "what was read"),
        (replace(told, guarantees=claim.guarantees), "the guarantees"),
    ):
        with pytest.raises(PrivacyError, match=named):
            evidence.require(hidden, federation.roster, testified, **terms)


def test_nobody_changes_a_word_of_what_a_client_said(
    federation: Federation, receipts: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "receipts"
    shutil.copytree(receipts, changed)
    path = changed / "first.frame"
    path.write_bytes(path.read_bytes().replace(b'"noise_multiplier":', b'"noise_multipliers:'))
    with pytest.raises(FrameError, match="another payload than was signed"):
        testimony.kept(changed, federation.roster)
    shutil.copy(receipts / "second.frame", path)
    with pytest.raises(FrameError) as refused:
        testimony.kept(changed, federation.roster)
    assert refused.value.code == "UNKNOWN_SENDER"


def test_a_client_misses_its_own_words_and_those_of_others(
    federation: Federation, testified: dict[str, Frame]
) -> None:
    known = account.journal_of(federation.home / "first")
    assert known is not None
    journal, said = known
    assert journal.met == ("first", "second", "third")
    evidence.require_own(journal, said, "first", federation.roster, testified)
    one_less = {name: frame for name, frame in testified.items() if name != "third"}
    evidence.require_own(journal, said, "first", federation.roster, one_less)  # c is 1
    other = signed(federation, testified["first"], said.replace(b'"taken":3', b'"taken":2'))
    alone = {"first": testified["first"]}
    # Words without a receipt are none.
    silent = {
        name: signed(
            federation,
            testified[name],
            replace(testimony.said(testified[name]), executed=None).encoded(),
        )
        for name in ("second", "third")
    }
    for wrong in (
        alone,
        {**testified, **silent},
        {**testified, "first": other},
        {"second": testified["second"]},
    ):
        with pytest.raises(PrivacyError) as refused:
            evidence.require_own(journal, said, "first", federation.roster, wrong)
        assert refused.value.code == "NOT_AS_TESTIFIED"


def test_clients_countersign_and_both_verifiers_accept(
    federation: Federation,
    receipts: Path,
    testified: dict[str, Frame],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = tmp_path / "first"
    own.mkdir()
    shutil.copytree(federation.home / "first", own / "state")
    keys.write_private_key(FIRST, own / "key.pem")
    rosters.save(own / "roster.json", federation.roster, SERVER)
    release = keys.generate_key()
    grouped = duplicates.defined(UNIT_DEFINITIONS["document"])
    claim = with_guarantees(claimed(federation, testified), unit_definition=grouped)
    short = replace(claim, caveats=(*claim.caveats, duplicates.CAVEAT))
    claim = as_recipes_say(short)
    certified = replace(build.certify(), claim=claim)
    hiding = replace(certified, claim=short)
    other = build.seal_anything(tmp_path / "hiding", release, certified=hiding)
    hidden = ("check", other, "--roster", own / "roster.json", "--receipts", receipts)
    assert refusal("federated", *hidden) == "NOT_AS_TESTIFIED"
    model = build.seal_anything(tmp_path / "model", release, certified=certified)
    check = ("check", model, "--roster", own / "roster.json", "--receipts", receipts)
    assert run("federated", *check) == 0
    assert "what 3 clients signed" in capsys.readouterr().out
    sign = ("countersign", own, model, "--receipts", receipts, "--approve")
    assert refusal("federated", *sign, "0" * 64) == "ROSTER_NOT_APPROVED"
    assert run("federated", *sign, federation.roster.digest) == 0
    assert "Signed with the" in capsys.readouterr().out
    lying = replace(certified, claim=with_training(claim, begun=2))
    other = build.seal_anything(tmp_path / "other", release, certified=lying)
    sign = ("countersign", own, other, "--receipts", tmp_path, "--approve")
    assert refusal("federated", *sign, federation.roster.digest) == "NOT_AS_TESTIFIED"
    trust = TrustStore.of(TrustedKey.of(key, name=str(key)) for key in (release, FIRST, SECOND))
    limits: dict[str, Any] = {"max_epsilon": 100, "max_delta": 1e-5, "privacy_units": ["document"]}
    policy = Policy(trust=trust, threshold=2, adversary="server", **limits)
    now = datetime(2026, 12, 1, tzinfo=UTC)
    report = artifact.examine(model, policy, now=now)
    assert report.passed, [rule.code for rule in report.policy.failed]
    with pytest.raises(Exception, match="threshold|signed"):
        artifact.examine(model, replace(policy, threshold=3), now=now).require_passed()
    require_accepted(model, tmp_path, FIRST, now=now, adversary="server", **limits)


def test_a_coordinator_keeps_what_was_said_over_a_restart(federation: Federation) -> None:
    before = federation.coordinator.testified
    again: Coordinator = federation.coordinate()
    assert {name: frame.encoded for name, frame in again.testified.items()} == {
        name: frame.encoded for name, frame in before.items()
    }
    assert again.owing == ()
