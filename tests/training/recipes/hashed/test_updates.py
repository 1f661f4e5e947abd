"""Certificates of tables that were trained further: nothing of the first is taken back."""

from __future__ import annotations

from dataclasses import replace

import hushdoc_builders
import pytest
from metered import claim_by

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Sequence
from hushdoc.certificate.audit_reports import Audit
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import CheckpointError
from hushdoc_training.crf import claims
from hushdoc_training.inherited_claims import LEDGER_RUNS
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.hashed import private_tables, updates
from hushdoc_training.runs import continued

AUDIT = hushdoc_builders.audit(method="two samples", unit="token-term")


def private(name: str, epsilon: float, **told: str) -> Claim:
    plan = PrivacyPlan.calibrated(
        epsilon=epsilon, sampling_rate=1.0, steps=16, clipping_norm=1.0, expected_records=10_000
    )
    return claim_by(plan, name, training={"of": name}, releases=private_tables.RELEASES, **told)


def filled(name: str, *audits: Audit, fill: str = "noisy-fill") -> Claim:
    made = claims.FilledTable(name=name, fill=fill, rows=8, columns=2, settings={}, audits=audits)
    return claims.claim(made)


def test_two_private_trainings_are_one_sequence_that_anybody_recomputes() -> None:
    first, second = private("old mail", 3), private("new mail", 2)
    both = continued.added(second, first)
    [guarantee] = both.guarantees
    events = tuple(claim.transcripts["training"] for claim in (first, second))
    assert both.transcripts == {"training": Sequence(events=events)}
    assert guarantee.epsilon == pld.epsilon(Sequence(events=events), 1e-5)
    assert 3 < guarantee.epsilon < 5
    assert all(found.code is None for found in reproduce(Claim.from_json(both.to_json())))
    assert [data.name for data in both.protected_data] == ["old mail", "new mail"]
    assert both.training["startedFrom"]["of"] == "old mail"
    third = continued.added(private("newest mail", 2), both)
    assert len(third.transcripts["training"].events) == 3  # type: ignore[union-attr]
    assert (third.guarantees[0].epsilon or 0.0) > guarantee.epsilon


def test_the_same_documents_are_named_once_and_cost_twice() -> None:
    both = continued.added(private("mail", 3), private("mail", 3))
    assert len(both.protected_data) == 1
    assert (both.guarantees[0].epsilon or 0.0) > 4


def test_a_ledger_that_was_set_back_counts_nothing_of_the_first_training() -> None:
    def of_one_ledger(claim: Claim, *epsilons: float) -> Claim:
        (data,) = claim.protected_data
        counted = tuple(private("mail", each).transcripts["training"] for each in epsilons)
        return replace(
            claim,
            protected_data=(replace(data, commitment="ab" * 32),),
            transcripts={"training": Sequence(events=counted)},
            training={LEDGER_RUNS: [str(each) for each in epsilons]},
        )

    first = of_one_ledger(private("mail", 3), 3)
    kept = continued.added(of_one_ledger(private("mail", 2), 3, 2), first)
    assert len(kept.transcripts["training"].events) == 2  # type: ignore[union-attr]
    for counted in ((2,), (3,)):  # the second as if it were the first itself
        lost = continued.added(of_one_ledger(private("mail", 2), *counted), first)
        assert len(lost.transcripts["training"].events) == 2  # type: ignore[union-attr]


def test_a_ledger_counts_nothing_of_what_other_documents_spent_by_the_same_settings() -> None:
    def of_ledgers(claim: Claim, *commitments: str) -> Claim:
        (data,) = claim.protected_data
        events = [claim.transcripts["training"] for _ in range(2)]
        return replace(
            claim,
            protected_data=tuple(
                replace(data, name=f"mail {each}", commitment=each * 32) for each in commitments
            ),
            transcripts={"training": Sequence(events=tuple(events))},
            training={LEDGER_RUNS: ["one", "two"]},
        )

    # Once on each of two ledgers, and then on the first, which another run had charged alike.
    first = of_ledgers(private("mail", 3), "ab", "cd")
    later = of_ledgers(private("mail", 3), "ab")
    events = (*later.transcripts["training"].events, private("mail", 2).transcripts["training"])  # type: ignore[union-attr]
    later = replace(
        later,
        transcripts={"training": Sequence(events=events)},
        training={LEDGER_RUNS: ["one", "two", "three"]},
    )
    both = continued.added(later, first)
    assert len(both.transcripts["training"].events) == 5  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("earlier", "further"),
    [(None, None), ("ab", None), (None, "ab"), ("ab", "cd"), ("ab", "ab")],
)
def test_events_are_the_earlier_ones_in_the_same_ledger_alone(
    earlier: str | None, further: str | None
) -> None:
    def of(claim: Claim, commitment: str | None, *epsilons: float) -> Claim:
        (data,) = claim.protected_data
        spent = tuple(private("mail", each).transcripts["training"] for each in epsilons)
        return replace(
            claim,
            protected_data=(replace(data, commitment=commitment and commitment * 32),),
            transcripts={"training": Sequence(events=spent)},
            training={LEDGER_RUNS: [str(each) for each in epsilons]},
        )

    both = continued.added(
        of(private("mail", 2), further, 3, 2), of(private("mail", 3), earlier, 3)
    )
    events = both.transcripts["training"].events  # type: ignore[union-attr]
    assert len(events) == (2 if earlier == further == "ab" else 3)


@pytest.mark.parametrize(
    "changed",
    [
        {"unit": "page"},
        {"adjacency": "zero-out"},
        {"kind": "dp-conditional", "condition": "if"},
        {"kind": "empirical"},
    ],
)
def test_guarantees_of_another_kind_are_not_added_up(changed: dict[str, str]) -> None:
    first = private("mail", 3)
    other = replace(first, guarantees=(replace(first.guarantees[0], **changed),))
    with pytest.raises(CheckpointError, match="expected dp for each document"):
        continued.added(private("mail", 2), other)


def test_settings_chosen_by_results_stay_so() -> None:
    tuned = private("mail", 3, hyperparameter_tuning="unaccounted")
    for both in (
        continued.added(private("mail", 3), tuned),
        continued.added(tuned, private("mail", 3)),
    ):
        assert both.guarantees[0].hyperparameter_tuning == "unaccounted"
        assert any("not part of epsilon" in caveat for caveat in both.caveats)


def test_what_the_first_assumes_and_left_uncovered_stays_so_also_in_a_ledger() -> None:
    first = private("mail", 3)
    [guarantee] = first.guarantees
    lacking = replace(guarantee, covers_all_private_accesses=False, assumes=("no copies",))
    first = replace(first, guarantees=(lacking,))
    [data] = first.protected_data
    shared = replace(data, commitment="ab" * 32)
    events = (first.transcripts["training"], private("mail", 2).transcripts["training"])
    in_ledger = replace(
        private("mail", 2),
        protected_data=(shared,),
        transcripts={"training": Sequence(events=events)},
        training={LEDGER_RUNS: ["first", "second"]},
    )
    for both in (
        continued.added(private("mail", 2), first),
        continued.added(
            in_ledger,
            replace(first, protected_data=(shared,), training={LEDGER_RUNS: ["first"]}),
        ),
    ):
        assert len(both.transcripts["training"].events) == 2  # type: ignore[union-attr]
        assert not both.guarantees[0].covers_all_private_accesses
        assert "no copies" in both.guarantees[0].assumes


def test_how_the_first_drew_its_noise_and_batches_is_not_forgotten() -> None:
    first, second = private("old", 3), private("new", 2)
    worse = {
        "rng": "seeded",
        "sampling_as_implemented": "shuffled",
        "cluster_sampling_as_implemented": "unknown",
        "floating_point": "none at all",
        "audit_lower_bound": 0.5,
    }
    changed = replace(first, guarantees=(replace(first.guarantees[0], **worse),))
    for before, after in ((changed, second), (second, changed)):
        [guarantee] = continued.added(after, before).guarantees
        assert {name: getattr(guarantee, name) for name in worse} == worse | {
            "floating_point": guarantee.floating_point
        }
        assert "none at all" in guarantee.floating_point
    [kept] = continued.added(second, first).guarantees
    assert (kept.rng, kept.audit_lower_bound) == ("csprng", None)
    assert kept.floating_point == second.guarantees[0].floating_point


def test_a_looser_delta_for_the_first_is_said() -> None:
    first, second = private("old", 3), private("new", 2)
    stricter = replace(first, guarantees=(replace(first.guarantees[0], delta=1e-7),))
    said = continued.LOOSER_DELTA.format(1e-7, 1e-5)
    assert said in continued.added(second, stricter).caveats
    assert not any("larger" in caveat for caveat in continued.added(second, first).caveats)
    looser = replace(first, guarantees=(replace(first.guarantees[0], delta=1e-4),))
    assert not any("larger" in caveat for caveat in continued.added(second, looser).caveats)


def test_documents_of_another_meaning_are_not_added_up() -> None:
    tweets = private("tweets", 3, unit_definition="one sentence")
    with pytest.raises(CheckpointError, match="expected dp for each document"):
        continued.added(private("mail", 3), tweets)


def test_a_filled_update_promises_nothing_and_keeps_what_the_first_one_told() -> None:
    both = updates.beside(filled("new", AUDIT), filled("old", AUDIT))
    [guarantee] = both.guarantees
    assert guarantee.kind == "empirical"
    assert [audit.method for audit in both.audits] == ["two samples", "earlier table: two samples"]
    assert {access.data for access in both.data_accesses} == {"old", "new"}
    Claim.from_json(both.to_json())
    mixed = updates.beside(filled("new", AUDIT), filled("old", AUDIT, fill="paper-fill"))
    # What was given away once stays true of both.
    assert any("as they were learned" in caveat for caveat in mixed.caveats)
    thrice = updates.beside(filled("newest", AUDIT), both)
    assert thrice.audits[-1].method == "earlier table: two samples"


def test_what_promised_nothing_gives_nothing() -> None:
    for fill, audits in (("none", ()), ("noisy-fill", ())):
        both = updates.beside(filled("new", AUDIT), filled("old", *audits, fill=fill))
        [guarantee] = both.guarantees
        assert guarantee.kind == "none"
        assert "had no guarantee" in (guarantee.reason or "")
        Claim.from_json(both.to_json())
    two = replace(filled("old"), guarantees=filled("old").guarantees * 2)
    with pytest.raises(CheckpointError, match="2 guarantees"):
        updates.beside(filled("new", AUDIT), two)
