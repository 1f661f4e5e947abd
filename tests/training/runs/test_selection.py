"""The best of several private trainings: how many there are, what is claimed, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from private_simulator import (
    example_records,
    known_streams,
    make_plan,
    small_model,
    squares,
)

from hushdoc.accounting import rdp
from hushdoc.accounting.mechanism import RepeatAndSelect
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.runs import receipts
from hushdoc_training.runs.selection import Candidate, Selection, best_of

PLAN = PrivacyPlan.calibrated(epsilon=1, sampling_rate=0.5, steps=3, expected_records=4)


def drawn(selection: Selection, count: int = 5_000) -> Any:
    stream = SecretStream(key=bytes(32))
    return np.array([selection.draw(stream) for _ in range(count)])


@pytest.mark.parametrize("mean", [1.5, 4.0, 30.0])
def test_the_number_of_runs_follows_its_distribution(mean: float) -> None:
    geometric = drawn(Selection(expected_runs=mean))
    assert geometric.min() == 1
    assert geometric.mean() == pytest.approx(mean, rel=0.04)
    for number in (1, 2, 5):
        expected = (1 / mean) * (1 - 1 / mean) ** (number - 1)
        assert (geometric == number).mean() == pytest.approx(expected, abs=0.015)
    logarithmic = drawn(Selection(expected_runs=mean, distribution="logarithmic"))
    inverse = rdp.log_inverse_gamma("logarithmic", mean)
    rest = 1 - math.exp(-inverse)
    assert (1 / math.exp(-inverse) - 1) / inverse == pytest.approx(mean)
    for number in (1, 2, 5):
        expected = rest**number / number / inverse
        assert (logarithmic == number).mean() == pytest.approx(expected, abs=0.015)


def test_one_run_on_average_is_one_run() -> None:
    for distribution in ("geometric", "logarithmic"):
        assert set(drawn(Selection(expected_runs=1, distribution=distribution), 100)) == {1}


@pytest.mark.parametrize(
    "wrong", [{"expected_runs": 0.5}, {"expected_runs": math.nan}, {"expected_runs": 1e9}]
)
def test_no_number_of_runs_below_one(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected_runs"):
        Selection(**wrong)
    with pytest.raises(ValueError, match="distribution"):
        Selection(expected_runs=2, distribution="poisson")  # would sometimes release nothing


def candidate(
    score: float, plan: PrivacyPlan = PLAN, *, steps: int = 3, unit: str | None = "document"
) -> Candidate[float]:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    records = Records(example_records(), unit=unit) if unit else example_records()
    with PrivateTraining(
        plan, model, optimizer, records=records, losses=squares(model)
    ) as training:
        for _ in range(steps):
            training.step()
    return Candidate(outcome=score, score=score, training=training)


def test_the_best_is_claimed_at_the_price_of_choosing_it() -> None:
    scores: list[float] = []

    def run(rate: float) -> Candidate[float]:
        scores.append(math.nan if not scores else rate + len(scores))
        return candidate(scores[-1])

    selection = Selection(expected_runs=3)
    best = best_of(selection, [0.1, 0.2], run)
    if len(scores) > 1:
        assert best.outcome == max(scores[1:])
    public = PublicData(
        name="weights", uses=("pretraining",), privacy_status="x", overlap_with_protected="unknown"
    )
    claim = receipts.claim_of_best(best, "forms", (public,), training={"rates": 2})
    [guarantee] = claim.guarantees
    with pytest.raises(PrivacyError, match="claim_of_best"):
        receipts.claim_of(best.training, "forms")
    # What was read beside, and what is assumed, is what one training alone says.
    best.training.is_candidate = False
    alone = receipts.claim_of(best.training, "forms", (public,), training={"rates": 2})
    assert claim.data_accesses == alone.data_accesses
    assert any("test" in access.purpose for access in claim.data_accesses)
    assert {*alone.guarantees[0].assumes} < {*guarantee.assumes}
    assert claim.public_data == alone.public_data == (public,)
    assert claim.training["rates"] == alone.training["rates"]
    assert claim.training["selection"]["expected_runs"] == 3
    event = claim.transcripts["training"]
    assert event == RepeatAndSelect(
        event=best.training.receipt.mechanism(), distribution="geometric", expected_runs=3.0
    )
    assert guarantee.hyperparameter_tuning == "accounted"
    assert any("can show them" in caveat for caveat in claim.caveats)  # runs besides
    assert guarantee.epsilon is not None
    # More than one run, and less than three of them in a row would be by groups of losses.
    assert PLAN.epsilon < guarantee.epsilon < 6 * PLAN.epsilon
    assert "3 on average" in guarantee.composition
    again = Claim.from_json(claim.to_json())
    assert all(found.code is None for found in reproduce(again, mode="exact"))


def test_runs_of_different_mechanisms_have_no_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selection, "draw", lambda *_: 2)
    plans = iter([PLAN, make_plan(noise_multiplier=50.0, steps=3)])
    with pytest.raises(PrivacyError, match="accounted for where all execute the same"):
        best_of(Selection(expected_runs=2), [1], lambda _: candidate(1.0, next(plans)))


def test_runs_that_protect_different_units_have_no_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal noise and rate: a document that is several records of one of them costs more."""
    monkeypatch.setattr(Selection, "draw", lambda *_: 2)
    windows = replace(PLAN, privacy_unit="sequence")
    for unit, plan in (("sequence", windows), (None, PLAN)):
        runs = iter([candidate(1.0, plan, unit=unit), candidate(2.0)])
        with pytest.raises(PrivacyError, match="nor what one record is"):
            best_of(Selection(expected_runs=2), [1], lambda _, runs=runs: next(runs))


def test_noise_of_a_run_that_was_not_chosen_has_to_be_secret_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which run is the best depends on the others: whoever knows their noise learns of it."""
    monkeypatch.setattr(Selection, "draw", lambda *_: 2)
    with known_streams(noise=SecretStream(key=bytes(32))):
        runs = [candidate(1.0)]
    runs.append(candidate(2.0))
    best = best_of(Selection(expected_runs=2), [1], lambda _: runs.pop(0))
    with pytest.raises(PrivacyError) as refused:
        receipts.claim_of_best(best, "forms")
    assert refused.value.code == "KNOWN_RANDOMNESS"


def test_a_run_that_executed_something_else_than_its_plan_has_no_best() -> None:
    found = candidate(1.0)
    found.training._plan = replace(PLAN, expected_records=5)
    with pytest.raises(PrivacyError) as refused:
        best_of(Selection(expected_runs=1), [1], lambda _: found)
    assert refused.value.code == "NOT_AS_PLANNED"


def test_what_was_read_of_a_run_that_was_not_chosen_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selection, "draw", lambda *_: 2)
    runs = [candidate(1.0), candidate(2.0)]
    runs[0].training.view.note("a score on private forms")
    best = best_of(Selection(expected_runs=2), [1], lambda _: runs.pop(0))
    assert best.outcome == 2.0
    [guarantee] = receipts.claim_of_best(best, "forms").guarantees
    assert guarantee.hyperparameter_tuning == "unaccounted"


def test_what_is_read_after_the_choice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selection, "draw", lambda *_: 2)
    for chosen in (True, False):
        runs = [candidate(1.0), candidate(2.0)]
        left = [*runs]
        best = best_of(Selection(expected_runs=2), [1], lambda _, left=left: left.pop(0))
        assert runs[chosen].training.nonfinite == 0
        claim = receipts.claim_of_best(best, "forms")
        assert claim.guarantees[0].hyperparameter_tuning == "unaccounted"
        assert any("not finite" in caveat for caveat in claim.caveats)


def test_what_any_run_declares_of_its_numbers_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Selection, "draw", lambda *_: 2)
    runs = [candidate(1.0), candidate(2.0)]
    runs[0].training.view.declared_unused = "to watch the first"
    assert runs[0].training.empty >= 0
    best = best_of(Selection(expected_runs=2), [1], lambda _: runs.pop(0))
    [guarantee] = receipts.claim_of_best(best, "forms").guarantees
    assert guarantee.hyperparameter_tuning == "accounted"
    assert any("to watch the first" in condition for condition in guarantee.assumes)


def test_an_early_end_of_any_run_is_unaccounted_for() -> None:
    best = best_of(Selection(expected_runs=1), [1], lambda _: candidate(1.0, steps=2))
    [guarantee] = receipts.claim_of_best(best, "forms").guarantees
    assert guarantee.hyperparameter_tuning == "unaccounted"
