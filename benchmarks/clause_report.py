"""From the results of benchmarks/clauses.py to one JSON object and a Markdown table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

OTHER = "other "
NAMES = {
    "original": "original, not to be released",
    "published": "filled as published",
    "hardened": "hardened fill",
    "bounded": "bounded rows, noise for epsilon 8 of one row",
    "noiseless": "as the private ones, without noise",
    "private_8": "DP-SGD, epsilon 8",
    "private_3": "DP-SGD, epsilon 3",
    "private_1": "DP-SGD, epsilon 1",
}


def report(work: Path, arms: Sequence[str]) -> dict[str, Any]:
    """Returns the figures of every result below a folder."""
    found = {
        folder.name: {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
        for folder in sorted(work.iterdir())
        if folder.is_dir()
    }
    clauses = {name: results for name, results in found.items() if not name.startswith(OTHER)}
    return {
        "mean_f1": {arm: _mean(clauses, arm, "f1") for arm in arms},
        "mean_precision": {arm: _mean(clauses, arm, "precision") for arm in arms},
        "mean_recall": {arm: _mean(clauses, arm, "recall") for arm in arms},
        "f1_loss_hardened": _loss(clauses, "hardened"),
        "f1_loss_private_8": _loss(clauses, "private_8"),
        "audits": {arm: _audits(clauses, arm) for arm in arms if _audits(clauses, arm)},
        "f1": {
            name: {arm: round(result["f1"], 4) for arm, result in results.items()}
            for name, results in found.items()
        },
        "term_cost_as_published": _mean(clauses, "published", "term_cost_as_published"),
        "term_cost_other_way": _mean(clauses, "published", "term_cost_other_way"),
        "tokens_per_cpu_second": _mean(clauses, "original", "tokens_per_cpu_second"),
        "table_bytes_int8": _mean(clauses, "original", "table_bytes_int8"),
        "num_types": len(clauses),
    }


def markdown(result: dict[str, Any]) -> str:
    """Returns the table for people."""
    lines = ["| table | precision | recall | mean F1 |", "|---|---|---|---|"]
    for arm, f1 in result["mean_f1"].items():
        if f1 is not None:
            precision, recall = result["mean_precision"][arm], result["mean_recall"][arm]
            lines.append(f"| {NAMES[arm]} | {precision:.3f} | {recall:.3f} | **{f1:.3f}** |")
    arms = [arm for arm, f1 in result["mean_f1"].items() if f1 is not None]
    lines += ["", "| F1 | " + " | ".join(arms) + " |", "|---" * (len(arms) + 1) + "|"]
    for name, scores in result["f1"].items():
        cells = [f"{scores[arm]:.3f}" if arm in scores else "" for arm in arms]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| attack | table | AUC | largest | TPR at FPR .001 | largest |",
        "|---" * 6 + "|",
    ]
    for arm, audits in result["audits"].items():
        for attack, found in audits.items():
            lines.append(
                f"| {attack} | {arm} | {found['auc']:.3f} | {found['largest_auc']:.3f} "
                f"| {found['tpr']:.3f} | {found['largest_tpr']:.3f} |"
            )
    return "\n".join(lines)


def _mean(clauses: dict[str, Any], arm: str, key: str) -> float | None:
    """Returns the mean over clause types, once all of them are there."""
    values = [results[arm][key] for results in clauses.values() if key in results.get(arm, {})]
    return round(mean(values), 4) if values and len(values) == len(clauses) else None


def _loss(clauses: dict[str, Any], arm: str) -> float | None:
    original, released = _mean(clauses, "original", "f1"), _mean(clauses, arm, "f1")
    return None if original is None or released is None else round(original - released, 4)


def _audits(clauses: dict[str, Any], arm: str) -> dict[str, dict[str, float]]:
    found = [
        results[arm]["audits"] for results in clauses.values() if "audits" in results.get(arm, {})
    ]
    return {
        attack: {
            "auc": round(mean(audits[attack]["auc"] for audits in found), 4),
            "largest_auc": round(max(audits[attack]["auc"] for audits in found), 4),
            "tpr": round(mean(audits[attack]["tpr"] for audits in found), 4),
            "largest_tpr": round(max(audits[attack]["tpr"] for audits in found), 4),
        }
        for attack in (found[0] if found else {})
    }
