"""A client's account: what was entered stays charged, whatever is killed, lost or put back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hushdoc_parties import roster

from hushdoc.accounting.mechanism import Gaussian, PoissonSampled
from hushdoc.errors import CheckpointError, HushdocError, OutputWriteError, PrivacyError
from hushdoc.system import atomic_files
from hushdoc_training.federated.account import JOURNAL, Account, Budget
from hushdoc_training.ledger.ledger import Ledger

STEP = PoissonSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=2.0))
ROSTER = roster()
ROUNDS = 5


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger", data="forms", epsilon=8, delta=1e-5)


def opened(
    folder: Path, ledger: Ledger | None, *, documents: str = "them", **change: int
) -> Account:
    budget = None if ledger is None else Budget(ledger=ledger, documents=documents, step=STEP)
    rounds = change.get("rounds", ROUNDS)
    account = Account(folder / "client", ROSTER, rounds=rounds, budget=budget)
    try:
        account.reserve()
    except HushdocError:
        account.__exit__()
        raise
    return account


def charged(ledger: Ledger) -> int:
    found = ledger.find(ROSTER.run)
    assert found is not None
    return found.charged


def test_rounds_are_charged_in_the_order_in_which_they_are_entered(
    tmp_path: Path, ledger: Ledger
) -> None:
    with opened(tmp_path, ledger) as account:
        assert [account.enter(number) for number in (1, 2, 4)] == [1, 2, 3]
        assert charged(ledger) == 3
        assert (account.next_round, account.rounds_left) == (5, 2)
        account.close()
    assert ledger.find(ROSTER.run).counted == 3  # type: ignore[union-attr]
    with opened(tmp_path, ledger) as account, pytest.raises(PrivacyError):
        account.enter(5)


def kill(folder: Path) -> None:
    """Nothing is closed: what was written is all there is."""


def lose_the_journal(folder: Path) -> None:
    (folder / "client" / JOURNAL).unlink()


def put_an_older_journal_back(folder: Path) -> None:
    shutil.copy(folder / "older", folder / "client" / JOURNAL)


@pytest.mark.parametrize("damage", [kill, lose_the_journal, put_an_older_journal_back])
def test_a_round_that_was_entered_stays_charged(
    damage: Callable[[Path], None], tmp_path: Path, ledger: Ledger
) -> None:
    with opened(tmp_path, ledger) as account:
        account.enter(1)
        shutil.copy(tmp_path / "client" / JOURNAL, tmp_path / "older")
        account.enter(2)
    damage(tmp_path)
    with opened(tmp_path, ledger) as account:
        assert account.taken == charged(ledger) == 2
        account.enter(3)
        assert charged(ledger) == 3


def test_a_kill_between_journal_and_charge_loses_the_round(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, ledger) as account:
        account.enter(1)
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "charge", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                account.enter(2)
    with opened(tmp_path, ledger) as account:
        with pytest.raises(PrivacyError) as refused:
            account.enter(2)
        assert refused.value.code == "NOT_RESERVED"
        assert account.enter(3) == 3
    assert charged(ledger) == 3


def test_a_full_disk_enters_no_round(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise atomic_files.not_written(path, OSError(28, "No space left on device"))

    with opened(tmp_path, ledger) as account:
        with monkeypatch.context() as patched:
            patched.setattr(atomic_files, "write_file", full)
            with pytest.raises(OutputWriteError):
                account.enter(1)
        assert (account.taken, charged(ledger)) == (0, 0)
        assert account.enter(1) == 1


REFUSED: dict[str, tuple[Callable[[Path, Ledger], object], type[HushdocError], str]] = {
    "a round twice": (
        lambda folder, ledger: [opened(folder, ledger).enter(1) for _ in range(2)],
        PrivacyError,
        "NOT_RESERVED",
    ),
    "more rounds than planned": (
        lambda folder, ledger: [
            (account := opened(folder, ledger, rounds=1)).enter(1),
            account.enter(2),
        ],
        PrivacyError,
        "NOT_RESERVED",
    ),
    "more than the ledger allows": (
        lambda folder, ledger: opened(folder, ledger, rounds=100_000),
        PrivacyError,
        "BUDGET_EXCEEDED",
    ),
    "another plan of the same run": (
        lambda folder, ledger: [
            opened(folder, ledger).__exit__(),
            shutil.rmtree(folder / "client"),
            opened(folder, ledger, rounds=4),
        ],
        PrivacyError,
        "RUN_DIFFERS",
    ),
    "other documents": (
        lambda folder, ledger: [
            opened(folder, ledger).__exit__(),
            opened(folder, ledger, documents="others"),
        ],
        PrivacyError,
        "RUN_DIFFERS",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_ledger_or_the_plan_does_not_allow_is_refused(
    case: str, tmp_path: Path, ledger: Ledger
) -> None:
    attempt, error, code = REFUSED[case]
    with pytest.raises(error) as refused:
        attempt(tmp_path, ledger)
    assert refused.value.code == code


def test_a_folder_is_of_one_roster(tmp_path: Path, ledger: Ledger) -> None:
    opened(tmp_path, ledger).__exit__()
    changed = replace(ROSTER, plan={"clients": 3})
    with pytest.raises(CheckpointError, match="another roster"):
        Account(tmp_path / "client", changed, rounds=ROUNDS, budget=None)


def test_without_a_budget_rounds_are_journaled_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path, None) as account:
        account.enter(1)
    with opened(tmp_path, None) as account, pytest.raises(PrivacyError):
        account.enter(1)


def test_two_processes_never_have_one_account(tmp_path: Path, ledger: Ledger) -> None:
    with opened(tmp_path, ledger), pytest.raises(PrivacyError, match="is running"):
        opened(tmp_path, ledger)
