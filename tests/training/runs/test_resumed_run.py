"""A run's folder after kills, losses and other records: what was charged stays charged."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from private_simulator import Silent, example_records, flat, make_plan, small_model, training
from torch import nn

from hushdoc.errors import CheckpointError, OutputExistsError, PrivacyError
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.randomness.secret_stream import Floats
from hushdoc_training.runs import run_folder
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.step_log import StepLog, read_log

PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=0.3, steps=4, expected_records=4, accountant="rdp"
)


def interrupted_run(folder: Path, *, stop_after: int, resume: bool = False) -> nn.Module:
    """Trains in a folder and ends the process, as it were, inside a step."""
    model = small_model()
    run = PrivateRun.open(folder, PLAN, resume=resume)
    left = stop_after

    class Cut(Silent):
        def lattice_noise(self, shape: tuple[int, ...], **law: Any) -> Floats:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return super().lattice_noise(shape, **law)

    with training(
        model,
        draws=[[1]] * 4,
        plan=PLAN,
        charge=run.charge,
        noise=Cut(),
        optimizer=torch.optim.Adam(model.parameters(), lr=0.1),
    ) as made:
        run.train(made, save_every=0.0)
    return model


def charged(folder: Path) -> list[int]:
    log = read_log(folder / "steps.jsonl")
    return [entry["charge"] for entry in log if "charge" in entry]


def test_a_state_that_a_kill_kept_from_being_removed_goes_with_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder, stop_after=100)
    (folder / "state-00000003").mkdir()  # killed after the last state, before older ones went
    interrupted_run(folder, stop_after=100, resume=True)
    assert [path.name for path in folder.glob("state-*")] == ["state-00000004"]


def test_a_lost_step_is_charged_again_and_never_free(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        interrupted_run(folder, stop_after=2 * 4 + 1)  # four parameters: inside the third step
    assert [path.name for path in folder.glob("state-*")] == ["state-00000002"]
    model = interrupted_run(folder, stop_after=100, resume=True)
    assert charged(folder) == [1, 2, 3, 4]
    # Three updates of the four that were paid for, with Adam's state carried over.
    again = small_model()
    with training(
        again,
        draws=[[1]] * 3,
        plan=PLAN,
        optimizer=torch.optim.Adam(again.parameters(), lr=0.1),
    ) as made:
        for _ in range(3):
            made.step()
    assert torch.equal(flat(again), flat(model))


def test_a_private_run_is_resumed_as_it_was_planned(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(CheckpointError, match="no run to resume"):
        PrivateRun.open(folder, PLAN, resume=True)
    run = PrivateRun.open(folder, PLAN)
    with pytest.raises(OutputExistsError):
        PrivateRun.open(folder, PLAN)
    with pytest.raises(CheckpointError, match="steps"):
        PrivateRun.open(folder, make_plan(), resume=True)
    with (
        training(small_model(), draws=[[1]], plan=PLAN) as made,
        pytest.raises(ValueError, match="without this run's charge"),
    ):
        run.train(made)
    with (
        training(small_model(), draws=[[1]], charge=run.charge) as made,
        pytest.raises(ValueError, match="another plan"),
    ):
        run.train(made)
    assert run.charges.charged == 0
    for step in range(1, 5):
        run.charge(step)
    with (
        training(small_model(), draws=[], plan=PLAN, charge=run.charge) as made,
        pytest.raises(CheckpointError, match="All 4 steps"),
    ):
        run.train(made)


@pytest.mark.parametrize("stop_after", [1, 100], ids=["no state was saved", "all steps are taken"])
@pytest.mark.parametrize(
    "left", [None, b"", b'{"charge": 1}\n', b'{"run": "', b'{"run": "another"}\n{"charge": 4}\n']
)
def test_lost_charges_are_never_taken_for_none(
    tmp_path: Path, left: bytes | None, stop_after: int
) -> None:
    folder = tmp_path / "run"
    with suppress(KeyboardInterrupt):
        interrupted_run(folder, stop_after=stop_after)
    log = folder / "steps.jsonl"
    whole = log.read_bytes()
    log.unlink()
    if left is not None:
        log.write_bytes(left)
    with pytest.raises(CheckpointError, match="is gone or cut.*stays spent"):
        PrivateRun.open(folder, PLAN, resume=True)
    log.write_bytes(whole)
    interrupted_run(folder, stop_after=100, resume=True)
    assert charged(folder)[-1] == 4


def test_a_state_beyond_its_charges_is_refused(tmp_path: Path) -> None:
    """As an old copy of the file would bring it about."""
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        interrupted_run(folder, stop_after=2 * 4 + 1)
    assert charged(folder) == [1, 2, 3]
    log = folder / "steps.jsonl"
    *before, second, third = log.read_bytes().splitlines(keepends=True)
    old = b"".join(before)
    log.write_bytes(old)
    with pytest.raises(CheckpointError, match=r"saved step 2, and its log 'steps.jsonl' charges 1"):
        interrupted_run(folder, stop_after=100, resume=True)
    assert log.read_bytes() == old
    log.write_bytes(old + second)
    interrupted_run(folder, stop_after=100, resume=True)


def test_a_run_that_was_killed_before_it_began_is_begun_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    StepLog.begin(folder / "steps.jsonl", "id")
    (folder / ".steps.jsonl.0123abcd.partial").write_bytes(b"")
    PrivateRun.open(folder, PLAN).charge(1)
    assert sorted(path.name for path in folder.iterdir()) == ["run.json", "steps.jsonl"]
    with pytest.raises(OutputExistsError):
        PrivateRun.open(folder, PLAN)
    (folder / "run.json").unlink()
    with pytest.raises(OutputExistsError):  # something was spent
        PrivateRun.open(folder, PLAN)


def test_of_two_runs_that_begin_at_once_in_a_folder_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, begin = tmp_path / "run", StepLog.begin

    def begin_beside_another(path: Path, run_id: str) -> None:
        begin(path, run_id)
        with pytest.raises(OutputExistsError, match="Another process"):
            run_folder.require_usable(folder, resume=False)
        with pytest.raises(OutputExistsError, match="Another process"):
            PrivateRun.open(folder, PLAN)

    monkeypatch.setattr(StepLog, "begin", begin_beside_another)
    PrivateRun.open(folder, PLAN).charge(1)
    assert PrivateRun.open(folder, PLAN, resume=True).read_charges() == 1


def test_a_step_is_charged_once_whatever_threads_ask_for_it(tmp_path: Path) -> None:
    run = PrivateRun.open(tmp_path / "run", PLAN)
    together = threading.Barrier(2)

    def granted(_: int) -> list[int]:
        steps = []
        for number in range(1, PLAN.steps + 1):
            together.wait()
            with suppress(PrivacyError):
                run.charge(number)
                steps.append(number)
        return steps

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(granted, range(2))
    assert sorted(one + other) == charged(tmp_path / "run") == [1, 2, 3, 4]


def test_no_run_begins_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("notes")
    with pytest.raises(OutputExistsError):
        PrivateRun.open(tmp_path / "run", PLAN)


def test_a_run_goes_on_with_the_records_it_began_with(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        interrupted_run(folder, stop_after=2 * 4 + 1)
    others = [example_records()[::-1], [*example_records(), [torch.ones(6)]], example_records()]
    others[2][4] = [example_records()[4][0] + 1e-6]
    for records in others:
        run, model = PrivateRun.open(folder, PLAN, resume=True), small_model()
        with (
            training(model, draws=[[1]], plan=PLAN, charge=run.charge, records=records) as made,
            pytest.raises(CheckpointError, match="begun on other records"),
        ):
            run.train(made)
    assert charged(folder) == [1, 2, 3]
    interrupted_run(folder, stop_after=100, resume=True)


def test_examples_that_point_elsewhere_are_known_by_what_stands_for_them(tmp_path: Path) -> None:
    class Opaque:
        def __init__(self, number: int) -> None:
            self.number = number

    def attempt(data: torch.Tensor, *, resume: bool, **known: object) -> bool:
        run, model = PrivateRun.open(tmp_path / "run", PLAN, resume=resume), small_model()
        with training(
            model,
            draws=[[1]] * 4,
            plan=PLAN,
            charge=run.charge,
            records=[[Opaque(number)] for number in range(9)],
            losses=lambda examples: (
                model(data[[example.number for example in examples]]).square().sum(1)
            ),
            **known,
        ) as made:
            return run.train(made)

    data = torch.randn(9, 6)
    other = data.flip(0)
    with pytest.raises(PrivacyError, match=r"Example 0 of record 0 holds a 'Opaque' \(example\)"):
        attempt(data, resume=False)
    assert attempt(data, resume=True, fingerprint=lambda example: data[example.number])
    with pytest.raises(CheckpointError, match="other records"):
        attempt(other, resume=True, fingerprint=lambda example: other[example.number])
