"""Training with a ledger: reserved before, charged before noise, resumed within, told after."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kie_training import OUTPUT, train_private
from power_cuts import PowerCut, power_cut
from private_simulator import known

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Sequence
from hushdoc.certificate.claim import Claim
from hushdoc.errors import CheckpointError, InputError, OutputWriteError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.ledger.runs import LedgerRun, Spent
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import Floats, SecretStream
from hushdoc_training.recipes.kie import start
from hushdoc_training.recipes.kie import training as kie
from hushdoc_training.runs import account as budget
from hushdoc_training.runs import ledger_audit, loop, state
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.run_folder import Run
from hushdoc_training.runs.step_log import read_log

PLAN = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.3, steps=5, expected_records=4)
TWICE = Sequence(events=(PLAN.mechanism(), PLAN.mechanism()))
CAP = pld.epsilon(TWICE, 1e-5)
Train = Callable[..., loop.Outcome]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger", data="receipts", epsilon=CAP, delta=1e-5)


@pytest.fixture
def train(
    tmp_path: Path, small_start: start.Start, receipts: list[LabelledDocument], ledger: Ledger
) -> Train:
    def run(folder: str, **changed: Any) -> loop.Outcome:
        options = {"plan": PLAN, "settings": OUTPUT, "ledger": ledger} | changed
        documents = options.pop("documents", receipts[:6])
        # As a process has it: every run, resumed or not, begins with the same weights.
        begun = replace(small_start, model=copy.deepcopy(small_start.model))
        return train_private(begun, documents, tmp_path / folder, **options)

    return run


def only(ledger: Ledger) -> Any:
    (run,) = ledger.runs()
    return run


def test_a_run_reserves_charges_closes_and_states_all_runs(
    train: Train, ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("first").charged == 5
    first = only(ledger)
    assert (first.charged, first.reserved, first.closed) == (5, 5, True)
    assert first.run_id == Run.read(tmp_path / "first").run_id
    assert train("second", quiet=False).charged == 5
    (guarantee,) = Checkpoint.load(tmp_path / "second").claim.guarantees
    assert Checkpoint.load(tmp_path / "second").claim.transcripts == {"training": TWICE}
    assert guarantee.epsilon == pytest.approx(CAP, rel=1e-5)
    told = capsys.readouterr().err
    assert (
        f"this run and 1 other on these documents come to epsilon {guarantee.epsilon:.4g}" in told
    )
    folders = [tmp_path / "first", tmp_path / "second"]
    findings = ledger_audit.audit(Ledger.open(ledger.path), folders)
    assert [found.problem for found in findings] == [None] * 8
    # A third does not fit, and leaves nothing behind.
    with pytest.raises(PrivacyError) as refused:
        train("third")
    assert refused.value.code == "BUDGET_EXCEEDED"
    assert not (tmp_path / "third").exists()
    assert len(ledger.runs()) == 2


@pytest.mark.parametrize("dropped", [False, True])
def test_settings_that_followed_what_is_unaccounted_make_later_runs_of_the_ledger_so_too(
    train: Train,
    ledger: Ledger,
    tmp_path: Path,
    dropped: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of a run whose losses were read do: they may follow what the first one left."""
    tuned = {"hyperparameter_tuning": "unaccounted"}
    if dropped:
        with power_cut(monkeypatch, at=2):
            train("first", **tuned)
        ledger.close(only(ledger).run_id, reason="dropped")
    else:
        train("first", **tuned)
    train("second", hyperparameter_tuning="none")
    (guarantee,) = Checkpoint.load(tmp_path / "second").claim.guarantees
    assert guarantee.hyperparameter_tuning == "unaccounted"


def test_a_restored_backup_does_not_undercount_the_run_that_it_has_forgotten(
    train: Train, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("first")
    backup = ledger.path.read_bytes()
    claim = PrivateRun.claim

    def restored(run: PrivateRun, *executed: Any, **changed: Any) -> Claim:
        ledger.path.write_bytes(backup)
        return claim(run, *executed, **changed)

    monkeypatch.setattr(PrivateRun, "claim", restored)
    with pytest.raises(PrivacyError, match="holds 0 of them") as refused:
        train("second")
    assert refused.value.code == "LEDGER_BEHIND"


def test_a_backup_that_went_on_lacks_the_head_that_a_folder_noted(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with power_cut(monkeypatch, at=3):
        train("run")
    run_id, backup = only(ledger).run_id, ledger.path.read_bytes()
    with power_cut(monkeypatch, at=1):
        train("run", resume=True)
    ledger.path.write_bytes(backup)
    ledger.charge(run_id, 5)  # no fewer charges than the folder's, by a copy of the folder
    with pytest.raises(PrivacyError, match="went on from one") as refused:
        train("run", resume=True)
    assert refused.value.code == "LEDGER_BEHIND"
    findings = ledger_audit.audit(ledger, [tmp_path / "run"])
    assert [found.problem for found in findings][-1] == ledger_audit.BROKEN


def test_a_run_that_is_open_counts_in_the_claim_of_another(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with power_cut(monkeypatch, at=3):
        train("first")
    train("second")
    # The first may still take all its steps, and which of the two is released may depend on both.
    claim = Checkpoint.load(tmp_path / "second").claim
    assert claim.transcripts == {"training": TWICE}
    train("first", resume=True)
    assert Checkpoint.load(tmp_path / "first").claim.transcripts == {"training": TWICE}


def test_every_draw_is_charged_in_the_ledger_before_and_in_the_log(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    class WitnessedNoise(SecretStream):
        def lattice_noise(self, shape: tuple[int, ...], **law: Any) -> Floats:
            logged = sum("charge" in entry for entry in read_log(tmp_path / "run" / "steps.jsonl"))
            seen.append((only(ledger).charged, logged))
            return super().lattice_noise(shape, **law)

    monkeypatch.setattr(PrivateTraining, "_streams", known(noise=WitnessedNoise()))
    with pytest.raises(PrivacyError, match="somebody knows"):  # and so nothing is certified of it
        train("run")
    assert seen == [(step, step) for step in (1, 2, 3, 4, 5) for _ in ("weight", "bias")]


def test_a_resumed_run_stays_within_its_reservation(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in (1, 3):
        with power_cut(monkeypatch, at=at):
            train("run", resume=at > 1)
    # Charged: one lost, two taken, one more lost.
    assert (only(ledger).charged, only(ledger).closed) == (4, False)
    assert ledger.spent().reserved == pld.epsilon(PLAN.mechanism(), 1e-5)
    assert train("run", resume=True).charged == 5
    assert (only(ledger).charged, only(ledger).closed) == (5, True)
    taken = [entry["step"] for entry in read_log(tmp_path / "run/steps.jsonl") if "step" in entry]
    assert taken == [2, 3, 5]
    (guarantee,) = Checkpoint.load(tmp_path / "run").claim.guarantees
    assert guarantee.epsilon == pytest.approx(PLAN.epsilon_after(5), rel=1e-5)


@pytest.mark.parametrize("emptied", [False, True])
def test_a_lost_log_goes_on_after_what_the_ledger_holds(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emptied: bool
) -> None:
    log = tmp_path / "run" / "steps.jsonl"
    for cut in (2, 2):  # charged are two, then two more; the run's room is for five
        with power_cut(monkeypatch, at=cut):
            train("run", resume=log.parent.exists())
        log.write_text("") if emptied else log.unlink()
    train("other")
    with pytest.raises(PrivacyError) as refused:  # nor is a new start free of the old one
        train("again")
    assert refused.value.code == "BUDGET_EXCEEDED"
    assert train("run", resume=True).charged == 5
    lost = ledger.find(Run.read(tmp_path / "run").run_id)
    assert lost is not None
    assert (lost.charged, lost.reserved, lost.closed) == (5, 5, True)
    assert [entry["step"] for entry in read_log(log) if "step" in entry] == [5]


def test_a_lost_log_of_a_run_whose_steps_are_all_charged_gives_none_back(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with power_cut(monkeypatch, at=5):
        train("run")
    (tmp_path / "run" / "steps.jsonl").unlink()
    with pytest.raises(CheckpointError, match="All 5 steps"):
        train("run", resume=True)
    assert only(ledger).charged == 5


def test_a_kill_between_the_two_charges_counts_the_step(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with power_cut(monkeypatch, at=2):
        train("run")
    ledger.charge(only(ledger).run_id, 3)  # and the log was never told
    assert train("run", resume=True).charged == 5
    charges = [
        entry["charge"] for entry in read_log(tmp_path / "run/steps.jsonl") if "charge" in entry
    ]
    assert charges == [1, 2, 4, 5]
    assert only(ledger).charged == 5


@pytest.mark.parametrize(
    ("owner", "name", "known"), [(budget, "join", 0), (budget.LedgerAccount, "close", 1)]
)
def test_a_kill_before_reservation_or_closing_is_made_good(
    train: Train, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, known: int
) -> None:
    def cut(*arguments: Any, **settings: Any) -> Any:
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, cut)
        with pytest.raises(PowerCut):
            train("run")
    assert [run.closed for run in ledger.runs()] == [False] * known
    for _ in range(2):
        assert train("run", resume=True) == loop.Outcome(charged=5, interrupted=False)
        assert (only(ledger).charged, only(ledger).closed) == (5, True)


def test_a_run_that_is_writing_its_checkpoint_is_not_resumed_beside_it(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = PrivateRun.finish

    def finish_beside_another(run: PrivateRun, write: Callable[[Path], None]) -> None:
        monkeypatch.setattr(PrivateRun, "finish", finish)
        partial = tmp_path / "run" / ".checkpoint.0123abcd.partial"
        partial.mkdir()
        with pytest.raises(PrivacyError, match="by another process"):
            train("run", resume=True)
        partial.rmdir()  # what the first one is writing
        finish(run, write)

    monkeypatch.setattr(PrivateRun, "finish", finish_beside_another)
    assert train("run").charged == 5
    assert train("run", resume=True).charged == 5


def test_an_older_copy_of_the_ledger_is_noticed(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = ledger.path.read_bytes()
    with power_cut(monkeypatch, at=3):
        train("run")
    ledger.path.write_bytes(empty)
    with pytest.raises(PrivacyError, match="older copy") as refused:
        train("run", resume=True)
    assert refused.value.code == "LEDGER_BEHIND"
    (*_, found) = ledger_audit.audit(ledger, [tmp_path / "run"])
    assert found.problem == ledger_audit.BROKEN
    assert "older copy" in found.text


def test_an_older_copy_does_not_close_a_run_that_has_ended(
    train: Train, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with power_cut(monkeypatch, at=3):
        train("run")
    older = ledger.path.read_bytes()
    assert train("run", resume=True).charged == 5
    ledger.path.write_bytes(older)
    before = only(ledger)
    with pytest.raises(PrivacyError, match="older copy") as refused:
        train("run", resume=True)
    assert refused.value.code == "LEDGER_BEHIND"
    assert only(ledger) == before
    assert not before.closed  # what it may take still counts


def test_a_run_that_goes_on_meanwhile_makes_no_ledger_an_older_copy(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for an audit, which takes its time, nor for somebody who would resume the run."""
    terms = Terms(declared=Declared(name="receipts"), documents="d", title="t", ledger=ledger)
    run = PrivateRun.open(tmp_path / "run", PLAN, terms=terms)
    run.charge(1)
    spent, find = Ledger.spent, Ledger.find

    def spent_meanwhile(asked: Ledger) -> Spent:
        run.charge(2)
        return spent(asked)

    def found_before(asked: Ledger, run_id: str) -> LedgerRun | None:
        found = find(asked, run_id)
        run.charge(3)
        return found

    monkeypatch.setattr(Ledger, "spent", spent_meanwhile)
    findings = ledger_audit.audit(ledger, [tmp_path / "run"])
    assert [found.problem for found in findings] == [None] * 5
    monkeypatch.setattr(Ledger, "find", found_before)
    assert PrivateRun.open(tmp_path / "run", PLAN, terms=terms, resume=True).read_charges() == 3


def test_a_run_keeps_to_the_ledger_it_began_with(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with power_cut(monkeypatch, at=3):
        train("run")
    other = Ledger.create(tmp_path / "other", data="receipts", epsilon=9, delta=1e-5)
    for wrong in (None, other):
        with pytest.raises(CheckpointError, match="other settings: ledger"):
            train("run", resume=True, ledger=wrong)
    train("outside", ledger=None)
    (found,) = ledger_audit.audit(ledger, [tmp_path / "outside"])[-1:]
    assert found.problem == ledger_audit.BROKEN


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"privacy_unit": "sequence"}, "WRONG_UNIT"), ({"delta": 1e-6}, "WRONG_DELTA")],
)
def test_plan_and_ledger_speak_of_the_same_thing(
    train: Train, tmp_path: Path, changed: dict[str, Any], code: str
) -> None:
    plan = PrivacyPlan.calibrated(epsilon=2, sampling_rate=0.3, steps=5, **changed)
    with pytest.raises(InputError) as refused:
        train("run", plan=plan)
    assert refused.value.code == code
    assert not (tmp_path / "run").exists()


def test_changed_documents_are_said_to_be_changed(
    train: Train, ledger: Ledger, tmp_path: Path, receipts: list[LabelledDocument]
) -> None:
    train("first")
    with pytest.raises(PrivacyError) as refused:
        train("second", documents=receipts[:7])
    assert refused.value.code == "OTHER_DOCUMENTS"
    assert not (tmp_path / "second").exists()
    train("second", documents=receipts[:7], documents_changed=True)
    claim = Checkpoint.load(tmp_path / "second").claim
    assert len(claim.transcripts["training"].events) == 2  # type: ignore[union-attr]
    assert len({run.commitment for run in ledger.runs()}) == 2
    # Which documents changed, and whether any did, is told by no certificate.
    assert claim.protected_data == Checkpoint.load(tmp_path / "first").claim.protected_data
    # The order of the documents does not make them others.
    with pytest.raises(PrivacyError) as refused:
        train("third", documents=receipts[6::-1])
    assert refused.value.code == "BUDGET_EXCEEDED"


def test_a_disk_that_is_too_small_is_told_before_a_step_is_charged(
    train: Train, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(state.shutil, "disk_usage", lambda folder: usage._replace(free=10_000))
        with pytest.raises(OutputWriteError, match="0 MB left.*charged nothing"):
            train("run")
    assert only(ledger).charged == 0
    assert train("run", resume=True).charged == 5


def test_a_resumed_run_says_how_many_steps_left_nothing(
    train: Train, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(optimizer: Any, settings: Any, number: int, steps: int) -> None:
        if number == 4:
            raise RuntimeError("the machine stops")

    with monkeypatch.context() as patched:
        patched.setattr(kie, "decay", ended)
        with pytest.raises(RuntimeError, match="the machine stops"):
            train("run")
    charged = only(ledger).charged
    assert charged in (3, 4)
    with pytest.warns(UserWarning, match=rf"^{charged} charged steps after .* left nothing"):
        train("run", resume=True)
    monkeypatch.setattr(state, "save", full)
    with pytest.raises(OutputWriteError, match="--resume"):
        train("other")


def full(*given: Any, **more: Any) -> None:
    raise OutputWriteError("The disk is full.")
