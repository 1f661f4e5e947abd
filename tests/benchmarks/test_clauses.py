from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hushdoc_processes import in_python

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ARMS = ("original", "paper_fill", "noisy_fill", "dp_sgd_8")
# Its noise comes from the operating system and has no seed: here the same bytes in every run.
KNOWN_NOISE = """
import os, random, runpy, sys
os.urandom = random.Random(0).randbytes
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def report() -> ModuleType:
    place = BENCHMARKS / "clause_report.py"
    spec = importlib.util.spec_from_file_location("clause_report_under_test", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attack(auc: float, tpr: float, num_true: int = 200) -> dict[str, object]:
    return {
        "auc": auc,
        "auc_interval": [auc - 0.03, auc + 0.03],
        "tpr": tpr,
        "fpr": 0.001,
        "num_true": num_true,
        "num_false": 20_000,
    }


def write(work: Path, task: str, arm: str, f1: float, **more: object) -> None:
    result = {"f1": f1, "precision": f1, "recall": f1, **more}
    (work / task).mkdir(exist_ok=True)
    (work / task / f"{arm}.json").write_text(json.dumps(result))


def test_means_are_reported_once_every_type_is_there(report: ModuleType, tmp_path: Path) -> None:
    for task, f1 in (("Insurance", 0.8), ("Renewal", 0.4), ("other tweets", 0.0)):
        write(tmp_path, task, "original", f1)
    write(tmp_path, "Insurance", "noisy_fill", 0.7)
    early = report.report(tmp_path, ARMS)
    assert early["mean_f1"]["original"] == pytest.approx(0.6)
    assert early["mean_f1"]["noisy_fill"] is None
    assert early["f1_loss_noisy_fill"] is None
    write(tmp_path, "Renewal", "noisy_fill", 0.4)
    found = report.report(tmp_path, ARMS)
    assert found["f1_loss_noisy_fill"] == pytest.approx(0.05)
    assert found["num_types"] == 2


def test_attacks_on_all_types_are_put_together(report: ModuleType, tmp_path: Path) -> None:
    write(
        tmp_path,
        "Insurance",
        "noisy_fill",
        0.8,
        audits={"coincidence_rare": attack(0.6, 0.05), "two_sample": attack(0.5, 0.0)},
    )
    audits = {"coincidence_rare": attack(0.5, 0.0, num_true=600)}
    write(tmp_path, "Renewal", "noisy_fill", 0.4, audits=audits)
    found = report.report(tmp_path, ARMS)
    both = found["audits"]["noisy_fill"]["coincidence_rare"]
    assert both["auc"] == pytest.approx(0.55)
    assert both["auc_interval"] == pytest.approx([0.55 - 0.0212, 0.55 + 0.0212], abs=1e-4)
    assert both["largest_auc"] == pytest.approx(0.6)
    assert (both["tpr"], both["num_true"]) == (pytest.approx(10 / 800), 800)
    assert both["tpr_interval"][0] < 10 / 800 < both["tpr_interval"][1]
    # The largest of any type and attack, and the largest mean of an attack over the types.
    assert found["noisy_fill_largest_auc"] == pytest.approx(0.6)
    assert found["noisy_fill_largest_tpr"] == pytest.approx(0.05)
    assert found["noisy_fill_largest_mean_auc"] == pytest.approx(0.55)
    assert "kept" not in both
    assert "private_audits_kept" not in found


@pytest.mark.parametrize(("tpr", "kept"), [(0.003, True), (0.05, False)])
def test_private_tables_are_held_to_their_guarantee(
    report: ModuleType, tmp_path: Path, tpr: float, kept: bool
) -> None:
    # Epsilon 1 at delta 1e-5 by four steps; the multiplier is what calibration finds.
    guarantee = {"epsilon": 1.0, "delta": 1e-5, "steps": 4, "noise_multiplier": 7.4615}
    audits = {"canaries": attack(0.57, tpr, num_true=1000)}
    write(tmp_path, "Insurance", "dp_sgd_1", 0.4, audits=audits, **guarantee)
    found = report.report(tmp_path, ("dp_sgd_1",))
    audit = found["audits"]["dp_sgd_1"]["canaries"]
    assert audit["tpr_allowed"] == pytest.approx(2.71828 * 0.001 + 1e-5, abs=1e-5)
    assert 0.001 < audit["tpr_allowed_by_mechanism"] < audit["tpr_allowed"]
    assert audit["kept"] is kept
    assert found["private_audits_kept"] is kept


def test_table_shows_what_is_there(report: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "Insurance", "original", 0.8)
    write(tmp_path, "Insurance", "noisy_fill", 0.75)
    text = report.markdown(report.report(tmp_path, ARMS))
    assert "| noisy fill | 0.750 | 0.750 | **0.750** |" in text
    assert "| Insurance | 0.800 | 0.750 |" in text
    assert "DP-SGD" not in text


def quick_run(*arguments: object) -> dict[str, Any]:
    done = in_python(KNOWN_NOISE, BENCHMARKS / "clauses.py", "--quick", *arguments)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_quick_run_prints_every_figure_and_continues(tmp_path: Path) -> None:
    paths = ("--work", tmp_path / "work", "--plot", tmp_path / "cost.png")
    first = quick_run(*paths)
    assert first["quick"] is True
    assert first["num_types"] == 1
    mean_f1 = first["mean_f1"]
    assert all(isinstance(f1, float) for f1 in mean_f1.values())
    assert mean_f1["dp_sgd_8"] > 0.8
    audits = first["audits"]
    assert audits["paper_fill"]["multiplicity"]["auc"] > 0.9
    assert audits["noisy_fill"]["multiplicity"]["auc"] < 0.55
    # A thousand canaries: what a guarantee leaves to be seen is seen, and no more.
    assert audits["dp_sgd_8"]["canaries"]["auc"] > 0.8
    assert audits["dp_sgd_1"]["canaries"]["auc"] < 0.65
    assert (tmp_path / "cost.png").read_bytes()[:4] == b"\x89PNG"
    assert quick_run(*paths)["mean_f1"] == mean_f1


@pytest.mark.slow
def test_control_tells_tables_apart_by_their_training_data(tmp_path: Path) -> None:
    arms = "noisy_fill_halves,paper_fill_halves"
    audits = quick_run("--work", tmp_path, "--arms", arms)["audits"]
    paper_fill, noisy_fill = audits["paper_fill_halves"], audits["noisy_fill_halves"]
    # Rows of a term reveal that it was trained on; a table of other contracts has never seen it.
    assert paper_fill["traces_rare_own"]["auc"] > 0.9
    assert 0.35 < paper_fill["traces_rare_other"]["auc"] < 0.65
    assert paper_fill["traces_rare_members"]["auc"] > 0.9
    assert 0.35 < noisy_fill["rank_rare_members"]["auc"] < 0.65
