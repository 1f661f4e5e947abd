"""Claims: the guarantee follows from what ran, or from all runs that a ledger holds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metered import claim_by, receipt_of
from private_simulator import small_model, training

from hushdoc.accounting import gdp, pld, rdp
from hushdoc.accounting.mechanism import Composed, Gaussian, PoissonSampled, Sequence
from hushdoc.certificate.claim import Claim
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import PrivacyError
from hushdoc.policy.rules import _sampled_as_accounted
from hushdoc_training import duplicates
from hushdoc_training.inherited_claims import LEDGER_RUNS
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.receipt import NOISE_DISTRIBUTIONS
from hushdoc_training.runs import claim_words, continued, document_units, receipts
from hushdoc_training.runs.receipts import Declared

PLAN = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.3, steps=20)
EARLIER = PoissonSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=3.0))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "ledger", data="forms", epsilon=8, delta=1e-5)
    made.reserve("tried", title="", step=EARLIER, steps=30, claim="c", documents="d")
    made.charge("tried", 12)
    made.close("tried", reason="dropped")
    made.reserve("open", title="", step=EARLIER, steps=5, claim="c", documents="d")
    made.reserve("this", title="", step=PLAN.step, steps=20, claim="c", documents="d")
    return made


def test_without_a_ledger_the_claim_is_the_run_and_warns_of_dropped_runs() -> None:
    claim = claim_by(PLAN, "forms")
    (guarantee,) = claim.guarantees
    assert guarantee.epsilon == PLAN.epsilon_after(20) <= 2
    assert guarantee.accountant.name == PLAN.accountant == "pld"
    assert dict((delta, epsilon) for epsilon, delta in guarantee.profile)[1e-5] == guarantee.epsilon
    assert claim.transcripts == {"training": PLAN.mechanism()}
    assert guarantee.hyperparameter_tuning == "none"
    assert any("dropped" in caveat for caveat in claim.caveats)
    assert claim.protected_data[0].commitment is None
    # Told for comparison; the limit theorem says too little where few steps are sampled.
    assert guarantee.gdp_mu == gdp.mu(PLAN.mechanism())


@pytest.mark.parametrize("stated", ["none", "public-data"])
def test_without_a_ledger_nothing_can_show_other_runs_wherever_settings_come_from(
    stated: str, ledger: Ledger
) -> None:
    said = "nothing in this certificate can show them"
    alone = claim_by(PLAN, "forms", hyperparameter_tuning=stated)
    assert sum(said in caveat for caveat in alone.caveats) == 1
    counted = claim_by(PLAN, "forms", hyperparameter_tuning=stated, ledger=ledger.statement())
    assert not any(said in caveat for caveat in counted.caveats)


def test_with_a_ledger_every_run_is_inside_epsilon(ledger: Ledger) -> None:
    claim = claim_by(PLAN, "forms", ledger=ledger.statement())
    (guarantee,) = claim.guarantees
    everything = Sequence(
        events=(
            Composed(event=EARLIER, count=12),
            Composed(event=EARLIER, count=5),
            Composed(event=PLAN.step, count=20),
        )
    )
    assert claim.transcripts == {"training": everything}
    assert guarantee.epsilon == pld.epsilon(everything, 1e-5)
    assert PLAN.epsilon_after(20) < guarantee.epsilon <= 8
    assert guarantee.hyperparameter_tuning == "accounted"
    assert "3 training runs are in the ledger" in guarantee.composition
    assert any("ledger" in condition for condition in guarantee.assumes)
    assert claim_words.OTHER_RUNS_KEPT in guarantee.assumes
    assert not any("dropped" in caveat for caveat in claim.caveats)
    assert claim_words.COPIES_OF_RUNS in claim.caveats
    assert claim_words.COPIES_OF_RUNS not in claim_by(PLAN, "forms").caveats
    assert claim.protected_data[0].commitment == ledger.statement().commitment
    again = Claim.from_json(claim.to_json())
    assert again.to_json() == claim.to_json()
    for mode in ("fast", "exact"):
        (found,) = reproduce(again, mode=mode)
        assert found.code is None, found.message


def test_a_ledger_that_does_not_count_the_run_gives_no_claim(tmp_path: Path) -> None:
    other = Ledger.create(tmp_path / "other", data="forms", epsilon=8, delta=1e-5)
    other.reserve("tried", title="", step=EARLIER, steps=30, claim="c", documents="d")
    with pytest.raises(PrivacyError, match="counts no run of") as refused:
        claim_by(PLAN, "forms", ledger=other.statement())
    assert refused.value.code == "NOT_IN_LEDGER"


def test_a_ledger_of_another_unit_gives_no_claim(tmp_path: Path) -> None:
    # A document that was protected is not all that its provider has given.
    other = Ledger.create(tmp_path / "other", data="forms", unit="provider", epsilon=8, delta=1e-5)
    other.reserve("run", title="", step=PLAN.step, steps=PLAN.steps, claim="c", documents="d")
    with pytest.raises(PrivacyError, match="of each provider") as refused:
        claim_by(PLAN, "forms", ledger=other.statement())
    assert refused.value.code == "NOT_IN_LEDGER"


@pytest.mark.parametrize(
    ("declared", "stated"),
    [
        (None, document_units.ALONE),
        (duplicates.defined(UNIT_DEFINITIONS["document"]), document_units.ALONE),
        (duplicates.defined("one sentence"), "one sentence, where no other has the same words"),
    ],
)
def test_runs_of_a_ledger_that_count_copies_otherwise_guarantee_for_what_has_none(
    ledger: Ledger, declared: str | None, stated: str
) -> None:
    """Three copies are one record of a run by default, and three of one with --duplicates keep."""
    claim = claim_by(PLAN, "forms", unit_definition=declared, ledger=ledger.statement())
    assert claim.guarantees[0].unit_definition == stated
    both = continued.added(claim, claim_by(PLAN, "forms", unit_definition=declared))
    assert both.guarantees[0].unit_definition == stated
    kept = claim_by(PLAN, "forms", unit_definition=declared)
    assert kept.guarantees[0].unit_definition == (declared or UNIT_DEFINITIONS["document"])


@pytest.mark.parametrize(
    ("stated", "claimed"),
    [("none", "accounted"), ("public-data", "accounted"), ("unaccounted", "unaccounted")],
)
def test_a_ledger_accounts_for_its_runs_and_for_nothing_else(
    ledger: Ledger, stated: str, claimed: str
) -> None:
    claim = claim_by(
        PLAN,
        "forms",
        hyperparameter_tuning=stated,
        ledger=ledger.statement(),
    )
    assert claim.guarantees[0].hyperparameter_tuning == claimed
    assert any("not part of epsilon" in caveat for caveat in claim.caveats) == (
        claimed == "unaccounted"
    )


def test_settings_chosen_by_the_loss_of_an_earlier_run_of_the_ledger_are_unaccounted(
    ledger: Ledger,
) -> None:
    """A ledger composes noised outputs: a rate that followed a loss told a record's presence."""
    before = claim_by(PLAN, "forms", ledger=ledger.statement())
    assert before.guarantees[0].hyperparameter_tuning == "accounted"
    ledger.note_read("tried", "losses")
    claim = claim_by(PLAN, "forms", ledger=ledger.statement())
    (guarantee,) = claim.guarantees
    assert guarantee.hyperparameter_tuning == "unaccounted"
    assert any("not part of epsilon" in caveat for caveat in claim.caveats)
    assert any("no un-noised number" in condition for condition in guarantee.assumes)


def test_steps_of_all_records_are_full_batches_unless_the_ledger_has_samples(
    ledger: Ledger,
) -> None:
    """The checker takes the word for all events together, and finds either right."""
    full = PrivacyPlan.calibrated(epsilon=2, sampling_rate=1.0, steps=20)
    alone = claim_by(full, "forms")
    assert alone.guarantees[0].sampling_as_implemented == "full-batch"
    ledger.reserve("full", title="", step=full.step, steps=20, claim="c", documents="d")
    together = claim_by(full, "forms", ledger=ledger.statement())
    assert together.guarantees[0].sampling_as_implemented == "poisson"
    assert claim_by(PLAN, "forms").guarantees[0].sampling_as_implemented == "poisson"
    for before, after in ((alone, claim_by(PLAN, "forms")), (claim_by(PLAN, "forms"), alone)):
        both = continued.added(after, before)
        assert both.guarantees[0].sampling_as_implemented == "poisson"
        assert _sampled_as_accounted(both.guarantees[0], both)
    twice = continued.added(alone, alone)
    assert twice.guarantees[0].sampling_as_implemented == "full-batch"
    for claim in (alone, together, twice):
        assert _sampled_as_accounted(claim.guarantees[0], claim)


def test_an_accountant_of_the_plan_is_the_claims(ledger: Ledger) -> None:
    renyi = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.3, steps=20, accountant="rdp")
    assert claim_by(renyi, "x").guarantees[0].accountant.name == "rdp"
    ledger.reserve("renyi", title="", step=renyi.step, steps=20, claim="c", documents="d")
    counted = claim_by(renyi, "x", ledger=ledger.statement())
    assert counted.guarantees[0].accountant.name == "pld"


def test_two_trainings_are_composed_by_the_accountant_that_the_claim_names() -> None:
    renyi = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.3, steps=20, accountant="rdp")
    both = continued.added(claim_by(renyi, "x"), claim_by(renyi, "x"))
    (guarantee,) = both.guarantees
    mechanism = both.transcripts["training"]
    assert guarantee.accountant.name == "pld"
    assert guarantee.epsilon == pld.epsilon(mechanism, 1e-5) < rdp.epsilon(mechanism, 1e-5)


@pytest.mark.parametrize("distribution", NOISE_DISTRIBUTIONS)
def test_the_certificate_says_which_noise_was_drawn(distribution: str) -> None:
    """And the multiplier of the plan, for noise that covers the rounding to the grid besides."""
    plan = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.5, steps=2, expected_records=4)
    with training(
        small_model(),
        draws=[],
        plan=plan,
        coins=None,
        noise=None,
        noise_distribution=distribution,
    ) as made:
        list(made)
        claim = receipts.claim(
            made.receipt, Declared(name="forms"), delta=plan.delta, accountant=plan.accountant
        )
    (guarantee,) = claim.guarantees
    assert guarantee.floating_point == NOISE_DISTRIBUTIONS[distribution]
    assert claim.transcripts == {"training": plan.mechanism()}
    assert made._lattice.width * made._lattice.step > plan.noise_multiplier * plan.clipping_norm


def test_what_ran_otherwise_than_planned_is_not_claimed() -> None:
    plan = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.5, steps=2, expected_records=4)
    with training(small_model(), draws=[], plan=plan, coins=None, noise=None) as made:
        list(made)
        made._plan = replace(plan, noise_multiplier=2 * plan.noise_multiplier)
        with pytest.raises(PrivacyError, match="the plan has") as refused:
            receipts.claim_of(made, "forms")
    assert refused.value.code == "NOT_AS_PLANNED"


@given(
    multiplier=st.floats(0.5, 20.0),
    rate=st.floats(0.001, 1.0),
    steps=st.integers(1, 40),
    lost=st.integers(0, 39),
)
@settings(max_examples=25, deadline=None)
def test_epsilon_is_what_the_receipt_of_the_run_gives(
    multiplier: float, rate: float, steps: int, lost: int
) -> None:
    plan = replace(PLAN, epsilon=1e9, accountant="rdp", steps=steps)
    receipt = receipt_of(plan, multiplier=multiplier, rate=rate, taken=max(1, steps - lost))
    claim = receipts.claim(receipt, Declared(name="forms"), delta=1e-5, accountant="rdp")
    step = PoissonSampled(
        sampling_rate=rate, event=Gaussian(noise_multiplier=receipt.noise_multiplier)
    )
    assert claim.transcripts == {"training": Composed(event=step, count=steps)}
    assert claim.guarantees[0].epsilon == rdp.epsilon(Composed(event=step, count=steps), 1e-5)
    if abs(multiplier - PLAN.noise_multiplier) > 1e-6:
        with pytest.raises(PrivacyError, match="that was executed is"):
            plan.require_executed(receipt)


def test_a_plan_is_no_receipt() -> None:
    with pytest.raises(TypeError, match="expected a Receipt of what ran"):
        receipts.claim(PLAN, Declared(name="forms"), delta=1e-5)  # type: ignore[arg-type]


def test_a_release_of_the_same_ledger_counts_once_also_where_copies_count_otherwise(
    tmp_path: Path,
) -> None:
    # A set of documents that voted by their words gives layouts to pages of their images.
    ledger = Ledger.create(tmp_path / "ledger", data="scans", epsilon=8, delta=1e-5)
    ledger.reserve("votes", title="", step=EARLIER, steps=3, claim="c", documents="words")
    votes = replace(PLAN, sampling_rate=0.2, noise_multiplier=3.0, steps=3)
    released = claim_by(votes, "scans", ledger=ledger.statement())
    ledger.charge("votes", 3)
    ledger.close("votes", reason="finished")
    ledger.admit("images", reason="read as images")
    ledger.reserve("this", title="", step=PLAN.step, steps=20, claim="d", documents="images")
    pages = claim_by(PLAN, "scans", ledger=ledger.statement())
    both = continued.added(pages, released)
    assert both.guarantees[0].epsilon == pages.guarantees[0].epsilon
    assert both.transcripts == pages.transcripts
    assert both.training[LEDGER_RUNS] == pages.training[LEDGER_RUNS]
    # Which of the ledger's runs it counts no certificate of an earlier version says.
    older = replace(released, training={})
    assert len(continued.added(pages, older).transcripts["training"].events) == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("reserved_before", [False, True])
def test_a_copy_of_the_ledger_that_went_another_way_counts_no_equal_run_of_the_other(
    tmp_path: Path, reserved_before: bool
) -> None:
    def reserve(ledger: Ledger, run: str) -> None:
        ledger.reserve(run, title="", step=PLAN.step, steps=20, claim="c", documents="d")

    def finish(ledger: Ledger, run: str, *, steps: int = 20) -> None:
        ledger.charge(run, steps)
        ledger.close(run, reason="finished")

    ledger = Ledger.create(tmp_path / "ledger", data="forms", epsilon=20, delta=1e-5)
    if reserved_before:
        reserve(ledger, "first")
    shutil.copy(tmp_path / "ledger", tmp_path / "copy")
    copy = Ledger.open(tmp_path / "copy")
    if not reserved_before:
        reserve(ledger, "first")
    finish(ledger, "first")
    released = claim_by(PLAN, "forms", ledger=ledger.statement())
    if reserved_before:
        finish(copy, "first", steps=1)  # given up there
    for run in ("other", "second"):
        reserve(copy, run)
        finish(copy, run)
    both = continued.added(claim_by(PLAN, "forms", ledger=copy.statement()), released)
    counted = copy.mechanism().events
    assert both.transcripts["training"] == Sequence(events=(PLAN.mechanism(), *counted))
    assert LEDGER_RUNS not in both.training  # whose transcript is of no ledger alone
