"""No kill loses a charge or leaves half a file: a run is shot at random points and resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Forks = Callable[..., list[dict[str, Any]]]

FEW = [("alone", 6), ("ledger", 6), ("replicated", 2), ("sharded", 2)]
MANY = [("alone", 50), ("ledger", 50), ("replicated", 30), ("sharded", 30)]


def kill(in_processes: Forks, folder: Path, way: str, kills: int) -> None:
    (result,) = in_processes(1, "run_kill_driver", folder, way, kills)
    # Every kill that counts came after a charge and before the last one, at many different steps,
    # and some found a state to go on from.
    assert len(result["inside"]) == kills
    assert all(0 < charged < 60 for charged in result["inside"])
    assert len(set(result["inside"])) > kills / 3
    if way in ("alone", "ledger"):
        assert result["with_state"] > 0  # how often depends on the speed of the machine
        assert result["runs"] > kills / 20


@pytest.mark.parametrize(("way", "kills"), FEW)
def test_a_few_kills_cost_no_run_and_no_charge(
    in_processes: Forks, tmp_path: Path, way: str, kills: int
) -> None:
    kill(in_processes, tmp_path, way, kills)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("way", "kills"), MANY)
def test_many_kills_cost_no_run_and_no_charge(
    in_processes: Forks, tmp_path: Path, way: str, kills: int
) -> None:
    kill(in_processes, tmp_path, way, kills)
