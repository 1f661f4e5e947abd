from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_quick_run_prints_every_figure_and_goes_on(run: Any, funsd: Path, tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    told = ("--quick", "--data", str(funsd), "--work", str(tmp_path / "work"))
    result, _ = run("federated", *told)
    algorithms = ("feam", "fedavg_dp", "fedavg_same", "fedavg")
    scores = {"f1_start", "f1_central", *(f"f1_{name}_k2" for name in algorithms)}
    assert {key for key in result if key.startswith("f1_")} == scores
    assert result["payload_gib_formula"] == 44.66
    assert result["seconds_per_round_loopback"] is None  # no Flower was named
    assert result["epsilon_model_recipient"] <= 8
    assert result["epsilon_server"] <= 8 <= result["epsilon_server_and_2_clients"] * 1.01
    assert result["quick"] is True
    again, printed = run("federated", *told, "--figure", str(figure))
    assert {key: again[key] for key in scores} == {key: result[key] for key in scores}
    assert "$ hushdoc train" not in printed
    assert figure.stat().st_size > 5000


def test_at_most_two_clients_collude_and_a_fellow_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    federated = importlib.import_module("federated")
    assert [federated.colluding(k) for k in (1, 2, 4, 8, 16)] == [0, 1, 1, 2, 2]
    found = federated.missed({"f1_central": 0.7, "f1_feam_k16": 0.66}, "f1_feam_k16")
    assert found == {"f1_feam_k16": 0.02}
    assert federated.missed({"f1_central": 0.7, "f1_feam_k16": 0.69}, "f1_feam_k16") == {}
    for unknown in ({}, {"f1_feam_k16": None}):
        assert federated.missed({"f1_central": 0.7, **unknown}, "f1_feam_k16") == {}
