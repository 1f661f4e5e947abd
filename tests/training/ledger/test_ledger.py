"""The budget over many runs: what is reserved, charged, freed and refused."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Composed, Gaussian, Grouped, PoissonSampled, Sequence
from hushdoc.errors import HushdocError, InputError, OutputExistsError, PrivacyError
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.ledger.runs import LedgerRun, most_steps

STEP = PoissonSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=2.0))
QUIETER = PoissonSampled(sampling_rate=0.1, event=Gaussian(noise_multiplier=3.0))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger", data="invoices", epsilon=4, delta=1e-5)


def reserve(ledger: Ledger, run_id: str, steps: int, **changed: Any) -> LedgerRun:
    asked: dict[str, Any] = {"title": "a run", "step": STEP, "claim": "c", "documents": "d"}
    return ledger.reserve(run_id, steps=steps, **{**asked, **changed})


def epsilon(*counts: tuple[Any, int]) -> float:
    events = tuple(Composed(event=step, count=count) for step, count in counts)
    return pld.epsilon(Sequence(events=events), 1e-5)


def test_opening_gives_what_was_created(ledger: Ledger) -> None:
    assert Ledger.open(ledger.path) == ledger
    assert (ledger.data, ledger.unit, ledger.adjacency) == ("invoices", "document", "add-remove")
    assert ledger.spent().charged == ledger.spent().reserved == 0
    assert ledger.mechanism() == Sequence(events=())
    assert "salt" not in repr(ledger)
    assert ledger.path.stat().st_mode & 0o077 == 0


def test_a_ledger_is_never_overwritten(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    with pytest.raises(OutputExistsError):
        Ledger.create(ledger.path, data="other", epsilon=9, delta=1e-5)
    assert ledger.path.read_bytes() == before
    assert [path.name for path in ledger.path.parent.iterdir()] == ["ledger"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"unit": "pages"}, "unit"),
        ({"adjacency": "replace-one"}, "adjacency"),
        ({"data": ""}, "data"),
        ({"data": "x\x1b[2J"}, "data"),
        ({"data": "x" * 300}, "data"),
    ],
)
def test_an_account_out_of_range_is_refused(
    tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    account: dict[str, Any] = {"data": "invoices", "epsilon": 3.0, "delta": 1e-5}
    with pytest.raises(ValueError, match=says):
        Ledger.create(tmp_path / "ledger", **{**account, **changed})
    assert not list(tmp_path.iterdir())


def test_open_runs_count_as_reserved_and_closed_ones_as_charged(ledger: Ledger) -> None:
    reserve(ledger, "first", 40)
    reserve(ledger, "second", 30, step=QUIETER)
    for step in range(1, 11):
        ledger.charge("first", step)
    assert ledger.spent().charged == pytest.approx(epsilon((STEP, 10)))
    assert ledger.spent().reserved == pytest.approx(epsilon((STEP, 40), (QUIETER, 30)))
    closed = ledger.close("first", reason="given up")
    assert (closed.charged, closed.reserved, closed.counted) == (10, 40, 10)
    assert ledger.spent().reserved == pytest.approx(epsilon((STEP, 10), (QUIETER, 30)))
    assert ledger.mechanism() == Sequence(
        events=(Composed(event=STEP, count=10), Composed(event=QUIETER, count=30))
    )
    ledger.close("second", reason="given up")
    assert ledger.mechanism() == Sequence(events=(Composed(event=STEP, count=10),))


def test_the_cap_holds_for_all_runs_together_and_says_what_would_fit(ledger: Ledger) -> None:
    reserve(ledger, "first", 40)
    with pytest.raises(PrivacyError, match=r"At most (\d+) such steps fit") as refused:
        reserve(ledger, "second", 500)
    assert refused.value.code == "BUDGET_EXCEEDED"
    assert "its ledger allows 4" in str(refused.value)
    assert [run.run_id for run in ledger.runs()] == ["first"]
    fitting = int(str(refused.value).split("At most ")[1].split()[0])
    assert epsilon((STEP, 40), (STEP, fitting)) <= 4 < epsilon((STEP, 40), (STEP, fitting + 1))
    assert fitting * 0.98 <= ledger.room(STEP) <= fitting
    with pytest.raises(PrivacyError):
        reserve(ledger, "second", fitting + 1)
    reserve(ledger, "second", fitting)
    with pytest.raises(PrivacyError, match="Not one such step fits"):
        reserve(ledger, "third", 5)
    # What an abandoned run did not take is free again.
    ledger.close("first", reason="given up")
    reserve(ledger, "third", 40)


def test_a_run_that_spends_the_cap_exactly_fits_once(tmp_path: Path) -> None:
    cap = pld.epsilon(Composed(event=STEP, count=50), 1e-5)
    ledger = Ledger.create(tmp_path / "ledger", data="x", epsilon=cap, delta=1e-5)
    reserve(ledger, "all of it", 50)
    assert ledger.spent().reserved == cap
    with pytest.raises(PrivacyError, match="Not one"):
        reserve(ledger, "more", 1)


def test_charges_only_grow_and_stay_within_the_reservation(ledger: Ledger) -> None:
    reserve(ledger, "run", 10)
    ledger.charge("run", 1)
    ledger.charge("run", 4)  # 2 and 3 were lost: they count
    for wrong in (4, 3, 0, -1, 11):
        with pytest.raises(PrivacyError, match="reserved 10") as refused:
            ledger.charge("run", wrong)
        assert refused.value.code == "NOT_RESERVED"
    ledger.charge("run", 10)
    run = ledger.find("run")
    assert run is not None
    assert (run.charged, run.reserved, run.closed) == (10, 10, False)
    with pytest.raises(InputError) as unknown:
        ledger.charge("nobody", 1)
    assert unknown.value.code == "UNKNOWN_RUN"


def test_a_closed_run_stays_closed(ledger: Ledger) -> None:
    reserve(ledger, "run", 10)
    ledger.charge("run", 1)
    ledger.close("run", reason="given up")
    ledger.close("run", reason="again")
    for deed in (lambda: ledger.charge("run", 2), lambda: reserve(ledger, "run", 10)):
        with pytest.raises(PrivacyError, match="closed in the ledger after 1 of 10") as refused:
            deed()
        assert refused.value.code == "RUN_CLOSED"
    with pytest.raises(InputError, match="knows no run"):
        ledger.close("nobody", reason="")


def test_a_run_returns_to_its_reservation_and_to_no_other(ledger: Ledger) -> None:
    made = reserve(ledger, "run", 10)
    ledger.charge("run", 1)
    assert reserve(ledger, "run", 10).charged == 1
    assert reserve(ledger, "run", 10).number == made.number == 1
    ledger.admit("others", reason="more")
    for changed in ({"step": QUIETER}, {"claim": "other"}, {"documents": "others"}):
        with pytest.raises(PrivacyError) as refused:
            reserve(ledger, "run", 10, **changed)
        assert refused.value.code == "RUN_DIFFERS"
    with pytest.raises(PrivacyError, match="another plan"):
        reserve(ledger, "run", 11)
    for run_id, steps in (("", 1), ("x", 0), ("x", 10**9)):
        with pytest.raises(ValueError, match="expected"):
            reserve(ledger, run_id, steps)


def test_documents_are_bound_by_a_salted_commitment(ledger: Ledger, tmp_path: Path) -> None:
    run = reserve(ledger, "run", 5)
    assert run.commitment == ledger.commitment("d")
    assert run.commitment.startswith("salted-sha256:")
    assert len(run.commitment) == len("salted-sha256:") + 64
    twin = Ledger.create(tmp_path / "twin", data="invoices", epsilon=4, delta=1e-5)
    assert twin.commitment("d") != ledger.commitment("d")
    for deed in (
        lambda: reserve(ledger, "other", 5, documents="more"),
        lambda: ledger.require_room(step=STEP, steps=5, documents="more"),
    ):
        with pytest.raises(PrivacyError, match="--documents-changed") as refused:
            deed()
        assert refused.value.code == "OTHER_DOCUMENTS"
    # Grown, and said so: the earlier run counts for the new documents too.
    ledger.admit("more", reason="two documents joined")
    reserve(ledger, "other", 5, documents="more")
    reserve(ledger, "back", 5, documents="d")
    assert ledger.statement().num_runs == 3
    assert ledger.spent().reserved == pytest.approx(epsilon((STEP, 15)))


def test_no_certificate_tells_whether_documents_joined_or_left(
    ledger: Ledger, tmp_path: Path
) -> None:
    """All certificates of a ledger say the same of its documents, and of no other ledger's."""
    reserve(ledger, "first", 5)
    (before, preview) = ledger.statement(), ledger.require_room(step=STEP, steps=5, documents="d")
    ledger.admit("more", reason="a document joined")
    reserve(ledger, "second", 5, documents="more")
    assert {before.commitment} == {preview.commitment, ledger.statement().commitment}
    assert before.commitment not in {run.commitment for run in ledger.runs()}
    twin = Ledger.create(tmp_path / "twin", data="invoices", epsilon=4, delta=1e-5)
    assert twin.statement().commitment != before.commitment


def test_runs_of_one_ledger_cut_documents_into_the_same_records(
    ledger: Ledger, tmp_path: Path
) -> None:
    reserve(ledger, "whole", 5)
    windows = Ledger.create(
        tmp_path / "windows", data="invoices", unit="sequence", epsilon=4, delta=1e-5
    )
    for untold in (
        lambda: reserve(windows, "first", 5),
        lambda: windows.require_room(step=STEP, steps=5, documents="d"),
    ):
        with pytest.raises(PrivacyError, match="does not say how documents are cut") as refused:
            untold()
        assert refused.value.code == "OTHER_RECORDS"
    assert windows.runs() == ()
    reserve(windows, "first", 5, cut="128 tokens")
    reserve(windows, "again", 5, cut="128 tokens")
    windows.admit("more", reason="a document joined")
    reserve(windows, "joined", 5, cut="128 tokens", documents="more")
    windows.admit("256 tokens", reason="another declaration")
    for counted, cut in ((ledger, "sentences"), (windows, "256 tokens")):
        with pytest.raises(PrivacyError, match="cut into other windows") as refused:
            reserve(counted, "other", 5, cut=cut)
        assert refused.value.code == "OTHER_RECORDS"
        with pytest.raises(PrivacyError, match="cut into other windows"):
            counted.require_room(step=STEP, steps=5, documents="d", cut=cut)
    reserve(ledger, "whole too", 5)


def test_a_window_that_is_four_of_another_run_spends_far_more_than_two_runs() -> None:
    """What ADR 24 says: why windows of two lengths are refused, and not composed."""
    run = Composed(
        event=PoissonSampled(sampling_rate=1 / 7, event=Gaussian(noise_multiplier=1.5)), count=350
    )
    assert pld.epsilon(Sequence(events=(run, run)), 1e-5) == pytest.approx(15.7, abs=0.05)
    four = Sequence(events=(Grouped(event=run, size=4), run))
    assert pld.epsilon(four, 1e-5) == pytest.approx(70, abs=0.1)


def test_a_preview_says_what_the_reservation_will_and_reserves_nothing(ledger: Ledger) -> None:
    reserve(ledger, "first", 10)
    preview = ledger.require_room(step=QUIETER, steps=7, documents="d")
    assert len(ledger.runs()) == 1
    reserve(ledger, "second", 7, step=QUIETER)
    reserved = ledger.statement()
    assert replace(reserved, marks=preview.marks) == preview
    assert preview.marks == (reserved.marks[0], "")
    with pytest.raises(PrivacyError) as refused:
        ledger.require_room(step=STEP, steps=500, documents="d")
    assert refused.value.code == "BUDGET_EXCEEDED"


def test_private_numbers_that_were_read_are_said_of_every_later_statement(ledger: Ledger) -> None:
    reserve(ledger, "first", 10)
    reserve(ledger, "second", 10)
    ledger.note_read("first", "losses", declared_unused="a chart for a talk")
    assert (ledger.statement().read_runs, ledger.find("first").read) == (0, ())  # type: ignore[union-attr]
    ledger.close("first", reason="finished")
    for what in ("losses", "losses", "records drawn"):  # a score may be looked at after the end
        ledger.note_read("first", what)
    assert ledger.find("first").read == ("losses", "records drawn")  # type: ignore[union-attr]
    assert ledger.find("second").read == ()  # type: ignore[union-attr]
    assert ledger.find("third") is None
    assert ledger.statement().read_runs == 1
    assert ledger.require_room(step=STEP, steps=5, documents="d").read_runs == 1
    with pytest.raises(InputError) as unknown:
        ledger.note_read("nobody", "losses")
    assert unknown.value.code == "UNKNOWN_RUN"


def test_titles_cannot_steer_a_terminal(ledger: Ledger) -> None:
    assert reserve(ledger, "run", 1, title="a\x1b[2J\ud800" + "x" * 500).title.isprintable()


def test_halving_finds_the_last_that_fits() -> None:
    for most in range(0, 40):
        assert most_steps(lambda number, most=most: number <= most, fails=40) == most  # type: ignore[misc]
    rough = most_steps(lambda number: number <= 1000, fails=4096, tolerance=0.02)
    assert 980 <= rough <= 1000


def in_processes(deed: Callable[[Path, int], str], path: Path, number: int) -> list[str]:
    context = multiprocessing.get_context("fork")
    with context.Pool(number) as pool:
        return pool.starmap(deed, [(path, index) for index in range(number)], chunksize=1)


def try_to_reserve(path: Path, index: int) -> str:
    try:
        reserve(Ledger.open(path), f"run{index}", 20)
    except HushdocError as error:
        return error.code
    return "reserved"


def test_of_many_processes_only_as_many_get_in_as_fit(tmp_path: Path) -> None:
    cap = epsilon((STEP, 65))  # three runs of twenty steps, not four
    ledger = Ledger.create(tmp_path / "ledger", data="x", epsilon=cap, delta=1e-5)
    answers = in_processes(try_to_reserve, ledger.path, 6)
    assert sorted(answers) == ["BUDGET_EXCEEDED"] * 3 + ["reserved"] * 3
    assert len(ledger.runs()) == 3
    assert ledger.spent().reserved <= cap


def charge_thirty(path: Path, index: int) -> str:
    ledger = Ledger.open(path)
    taken = []
    for step in range(1, 31):
        try:
            ledger.charge("shared", step)
            taken.append(str(step))
        except PrivacyError:
            continue
    return " ".join(taken)


def test_no_two_processes_charge_the_same_step(ledger: Ledger) -> None:
    reserve(ledger, "shared", 30)
    answers = in_processes(charge_thirty, ledger.path, 4)
    charged = [int(step) for answer in answers for step in answer.split()]
    assert len(charged) == len(set(charged))
    run = ledger.find("shared")
    assert run is not None
    assert run.charged == max(charged) == 30
