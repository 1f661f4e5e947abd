from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ARMS = ("original", "published", "hardened", "private_8")


@pytest.fixture
def report() -> ModuleType:
    place = BENCHMARKS / "clause_report.py"
    spec = importlib.util.spec_from_file_location("clause_report_under_test", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(work: Path, task: str, arm: str, f1: float, auc: float | None = None) -> None:
    result: dict[str, object] = {"f1": f1, "precision": f1, "recall": f1}
    if auc is not None:
        result["audits"] = {"coincidence": {"auc": auc, "tpr": auc / 2}}
    (work / task).mkdir(exist_ok=True)
    (work / task / f"{arm}.json").write_text(json.dumps(result))


def test_means_are_stated_once_every_type_is_there(report: ModuleType, tmp_path: Path) -> None:
    for task, f1 in (("Insurance", 0.8), ("Renewal", 0.4), ("other tweets", 0.0)):
        write(tmp_path, task, "original", f1)
    write(tmp_path, "Insurance", "hardened", 0.7, 0.6)
    early = report.report(tmp_path, ARMS)
    assert early["mean_f1"]["original"] == pytest.approx(0.6)
    assert early["mean_f1"]["hardened"] is None
    assert early["f1_loss_hardened"] is None
    write(tmp_path, "Renewal", "hardened", 0.4, 0.5)
    found = report.report(tmp_path, ARMS)
    assert found["f1_loss_hardened"] == pytest.approx(0.05)
    assert found["audits"]["hardened"]["coincidence"]["auc"] == pytest.approx(0.55)
    assert found["audits"]["hardened"]["coincidence"]["largest_auc"] == pytest.approx(0.6)
    assert found["num_types"] == 2


def test_table_shows_what_is_there(report: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "Insurance", "original", 0.8)
    write(tmp_path, "Insurance", "hardened", 0.75, 0.5)
    text = report.markdown(report.report(tmp_path, ARMS))
    assert "| hardened fill | 0.750 | 0.750 | **0.750** |" in text
    assert "| Insurance | 0.800 | 0.750 |" in text
    assert "DP-SGD" not in text


def test_quick_run_prints_every_figure_and_continues(tmp_path: Path) -> None:
    def run() -> dict[str, object]:
        command = [sys.executable, str(BENCHMARKS / "clauses.py"), "--quick", "--work"]
        done = subprocess.run(
            [*command, str(tmp_path / "work")], capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, done.stderr[-3000:]
        result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return result

    first = run()
    assert first["quick"] is True
    assert first["num_types"] == 1
    mean_f1 = first["mean_f1"]
    assert isinstance(mean_f1, dict)
    assert all(isinstance(f1, float) for f1 in mean_f1.values())
    assert mean_f1["private_8"] > 0.8
    audits = first["audits"]
    assert isinstance(audits, dict)
    assert audits["published"]["multiplicity"]["auc"] > 0.9
    assert audits["hardened"]["multiplicity"]["auc"] < 0.55
    assert run()["mean_f1"] == mean_f1
