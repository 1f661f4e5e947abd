"""Receipts of interrupted runs: whole after a kill, and nothing is claimed without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from private_simulator import example_records, small_model, training
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hushdoc.accounting import rdp
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.private_view import PrivateView
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.receipt import Receipt
from hushdoc_training.runs import receipts
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.step_log import read_log

PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=0.3, steps=5, expected_records=4, accountant="rdp"
)


class PowerCut(BaseException):
    """Stands for the end of the process."""


def part(folder: Path, *, until: int | None = None, **settings: Any) -> PrivateTraining[Any]:
    """Trains on from wherever the run is, saving every step; `until` is taken and not saved."""
    run = PrivateRun.open(folder, PLAN, resume=(folder / "run.json").exists())

    def seen(step: Any) -> None:
        if step.number == until:
            raise PowerCut

    settings = {"coins": None, "noise": None, **settings}
    with training(small_model(), draws=[], plan=PLAN, charge=run.charge, **settings) as made:
        if until is not None:
            with pytest.raises(PowerCut):
                run.train(made, seen=seen, save_every=0.0)
        else:
            assert run.train(made, seen=seen, save_every=0.0)
    return made


def newest(folder: Path) -> Path:
    return sorted(folder.glob("state-*/state.safetensors"))[-1]


def kept(folder: Path) -> Receipt:
    with safe_open(newest(folder), framework="pt") as state:
        return Receipt.from_json(state.metadata()["receipt"].encode())


def rewrite(folder: Path, receipt: str | None) -> None:
    """Puts another receipt into the newest state, or takes it out."""
    with safe_open(newest(folder), framework="pt") as state:
        words = dict(state.metadata())
    del words["receipt"]
    tensors = load_file(newest(folder))
    save_file(
        tensors, newest(folder), metadata=words | ({} if receipt is None else {"receipt": receipt})
    )


def test_a_run_that_was_killed_twice_has_one_receipt_of_all_its_parts(tmp_path: Path) -> None:
    part(tmp_path / "run", until=2)  # step 2 is lost
    assert kept(tmp_path / "run").steps == 1
    part(tmp_path / "run", until=4)  # and step 4
    made = part(tmp_path / "run")
    assert (made.receipt.steps, made.receipt.planned_steps) == (3, 5)
    assert made.receipt.invocations == 3
    assert kept(tmp_path / "run") == made.receipt
    claim = receipts.claim_of(made, "pages")
    # The lost steps are paid for: somebody may have seen their noise.
    assert claim.transcripts == {"training": PLAN.mechanism()}
    assert claim.guarantees[0].epsilon == rdp.epsilon(made.receipt.mechanism(), PLAN.delta)
    assert claim.training["receipt"]["steps"] == 3


def test_a_run_whose_steps_were_all_lost_begins_anew_at_the_old_charge(tmp_path: Path) -> None:
    part(tmp_path / "run", until=1)
    made = part(tmp_path / "run")
    assert (made.charged, made.receipt.steps, made.receipt.invocations) == (5, 4, 1)
    assert receipts.claim_of(made, "pages").transcripts == {"training": PLAN.mechanism()}


def test_a_finished_run_is_claimed_after_a_kill_by_the_receipt_of_its_last_state(
    tmp_path: Path,
) -> None:
    first = part(tmp_path / "run")
    again = part(tmp_path / "run")  # nothing is left to take
    assert again.receipt == first.receipt
    assert receipts.claim_of(again, "pages").guarantees[0].kind == "dp"


def test_nothing_is_claimed_of_a_run_whose_receipt_is_lost(tmp_path: Path) -> None:
    part(tmp_path / "run", until=3)
    rewrite(tmp_path / "run", None)
    made = part(tmp_path / "run")
    with pytest.raises(PrivacyError, match="resumed after step 2 without the receipt") as refused:
        receipts.claim_of(made, "pages")
    assert refused.value.code == "NO_RECEIPT"
    again = part(tmp_path / "run")  # nor once more, from the states that came after
    with pytest.raises(PrivacyError, match="without the receipt"):
        receipts.claim_of(again, "pages")


def test_a_run_does_not_go_on_with_a_damaged_receipt(tmp_path: Path) -> None:
    part(tmp_path / "run", until=3)
    rewrite(tmp_path / "run", kept(tmp_path / "run").to_json().decode()[:-9])
    run = PrivateRun.open(tmp_path / "run", PLAN, resume=True)
    with (
        training(
            small_model(), draws=[], plan=PLAN, charge=run.charge, coins=None, noise=None
        ) as made,
        pytest.raises(PrivacyError, match="receipt can't be read") as refused,
    ):
        run.train(made)
    assert refused.value.code == "NO_RECEIPT"
    assert made.charged == 0
    assert not [entry for entry in read_log(tmp_path / "run/steps.jsonl") if "charge" in entry][3:]


def test_noise_that_somebody_knew_in_one_part_spoils_the_whole_run(tmp_path: Path) -> None:
    part(tmp_path / "run", until=3, noise=SecretStream(key=bytes(32)))
    with pytest.raises(PrivacyError, match="noise is .*operating-system.* after .*given"):
        part(tmp_path / "run")


def test_parts_that_were_executed_otherwise_are_not_one_run(tmp_path: Path) -> None:
    part(tmp_path / "run", until=3)
    other = kept(tmp_path / "run").to_json().decode()
    rewrite(tmp_path / "run", other.replace('"sampling_rate": 0.3', '"sampling_rate": 0.2'))
    with pytest.raises(PrivacyError, match="sampling_rate is 0.3 after 0.2"):
        part(tmp_path / "run")


def test_weights_that_were_resumed_by_hand_need_their_receipt() -> None:
    settings: dict[str, Any] = {"draws": [], "plan": PLAN, "coins": None, "noise": None}
    model = small_model()
    with training(model, **settings) as made:
        made.step()
        receipt = made.receipt
    for given, whole in ((None, False), (receipt, True)):
        with training(model, **settings) as made:
            made.resume(1, receipt=given)
            list(made)
            if whole:
                claim = receipts.claim_of(made, "pages")
                assert claim.training["receipt"]["invocations"] == 2
            else:
                with pytest.raises(PrivacyError, match="without the receipt"):
                    receipts.claim_of(made, "pages")


def test_what_parts_before_a_kill_read_and_assumed_the_claim_of_the_whole_run_says() -> None:
    """A part that saw losses and tried private records, and one that did neither."""
    model, why = small_model(), "I watched the first part"
    settings: dict[str, Any] = {"draws": [], "plan": PLAN, "coins": None, "noise": None}
    with training(model, **settings, view=PrivateView(declared_unused=why)) as made:
        assert made.step().losses is not None
        written = made.receipt.to_json()
    with training(model, **settings, trial_records=example_records()) as made:
        made.resume(1, receipt=Receipt.from_json(written))
        list(made)
        claim = receipts.claim_of(made, "pages")
    (guarantee,) = claim.guarantees
    assert any(why in condition for condition in guarantee.assumes)
    assert any("self-test" in access.purpose for access in claim.data_accesses)
    assert len({*claim.data_accesses}) == len(claim.data_accesses)
    assert len({*guarantee.assumes}) == len(guarantee.assumes)
    assert "declared" not in claim.training["receipt"]
