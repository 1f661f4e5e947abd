"""A run's folder is one process's at a time, and any number of processes go on with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import shared_run_driver
import torch
from private_simulator import small_model, training
from shared_run_driver import DRAWS, PLAN, STOP

from hushdoc_training.runs.step_log import read_log

WAYS = ["replicated", "sharded"]


@pytest.fixture(scope="module")
def folder(in_two_processes: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds what two processes did with runs that they or one process had begun."""
    made = tmp_path_factory.mktemp("runs")
    for way in WAYS:
        begun = shared_run_driver.begin(
            made / f"one-{way}", small_model(), shared_run_driver.press_at(STOP)
        )
        assert begun == {"finished": False, "charged": STOP, "told": STOP}
    in_two_processes("shared_run_driver", made)
    return made


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[dict[str, Any]]:
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]


def weights_of_one(kind: type[torch.optim.Optimizer]) -> torch.Tensor:
    """Returns what one process gets to that nobody interrupts."""
    model = small_model()
    optimizer = kind(model.parameters(), lr=0.02)  # type: ignore[call-arg]
    with training(model, draws=DRAWS, plan=PLAN, optimizer=optimizer) as made:
        list(made)
    return shared_run_driver.whole(model)


def require_same(found: dict[str, Any], expected: torch.Tensor) -> None:
    assert found["finished"] is True
    assert found["told"] == STOP
    assert found["rate"] == 0.02
    assert torch.equal(found["mark"], torch.full((3,), 7.0))
    assert float((found["weights"] - expected).norm() / expected.norm()) < 1e-5


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_in_one_process_stops_all_after_the_same_step(
    ranks: list[dict[str, Any]], way: str
) -> None:
    for found in ranks:
        assert found[f"begin {way}"] == {"finished": False, "charged": STOP, "told": STOP}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["{} by the same", "{} by the other", "one, then {}"])
def test_two_processes_go_on_with_what_two_or_one_left(
    ranks: list[dict[str, Any]], way: str, how: str
) -> None:
    """Weights, buffers, Adam's state and the learning rate go over, to both processes alike."""
    for found in ranks:
        require_same(found[how.format(way)], weights_of_one(torch.optim.Adam))
    first, second = (found[how.format(way)]["weights"] for found in ranks)
    assert torch.equal(first, second)


@pytest.mark.parametrize("way", WAYS)
def test_an_optimizer_without_state_goes_on_too(ranks: list[dict[str, Any]], way: str) -> None:
    for found in ranks:
        require_same(found[f"stateless {way}"], weights_of_one(torch.optim.SGD))


@pytest.mark.parametrize("way", WAYS)
def test_one_process_goes_on_with_what_two_left(folder: Path, way: str) -> None:
    found = shared_run_driver.go_on(folder / f"alone-{way}", small_model())
    require_same(found, weights_of_one(torch.optim.Adam))
    log = read_log(folder / f"alone-{way}" / "steps.jsonl")
    assert [entry["charge"] for entry in log if "charge" in entry] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("way", WAYS)
def test_only_the_first_process_writes(folder: Path, way: str) -> None:
    assert not (folder / "another machine").exists()
    assert sorted(path.name for path in (folder / f"same-{way}").iterdir()) == [
        "run.json",
        "state-00000006",
        "steps.jsonl",
    ]


def test_what_fails_in_the_first_process_is_raised_in_all(ranks: list[dict[str, Any]]) -> None:
    expected = {
        "taken": ("OutputExistsError", "already holds something"),
        "planned otherwise": ("CheckpointError", "started with other settings"),
        "nothing there": ("CheckpointError", "holds no run to resume"),
        "another model": ("CheckpointError", "has shape (5, 6), the model's (9, 6)"),
        "damaged": ("CheckpointError", "can't be read"),
        "full": ("OutputWriteError", "Could not write"),
    }
    first, second = (found["refusals"] for found in ranks)
    for name, (kind, words) in expected.items():
        assert first[name].startswith(f"{kind}: ")
        assert second[name].startswith("PrivacyError: The first process could not go on: ")
        assert words in first[name]
        assert words in second[name]
    for found in (first, second):
        assert found["plans"].startswith("PrivacyError: The 2 processes differ in the plan")
        assert found["uncharged"].startswith("ValueError: training was made without this run's")
    assert first["charged elsewhere"] == "not refused"
    assert "same `processes`" in second["charged elsewhere"]
