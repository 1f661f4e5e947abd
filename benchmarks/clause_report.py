"""From the results of benchmarks/clauses.py to one JSON object and a Markdown table."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist, mean
from typing import Any

from hushdoc_training.audit.roc import FALSE_POSITIVE_RATE, clopper_pearson
from hushdoc_training.crf import term_cost

OTHER = "other "
MANY = ("_all", "_kept", "_kept_learned", "_outside")
"""Attacks on terms of many contracts."""
NAMES = {
    "original": "original, not to be released",
    "paper_fill": "filled as in the paper",
    "paper_fill_file": "the same from the model file, zeros drawn",
    "noisy_fill": "noisy fill",
    "paper_fill_joint": "filled as in the paper, by a joint normal distribution",
    "noisy_fill_pairs": "noisy fill of tokens and pairs",
    "noisy_fill_invented": "noisy fill, without public contracts",
    "pairs_halves": "the same of half the contracts",
    "noisy_fill_0": "noisy fill, next to no noise",
    "noisy_fill_half": "noisy fill, noise 0.5",
    "noisy_fill_more": "noisy fill, noise 1.5",
    "noisy_fill_2": "noisy fill, noise 2",
    "noisy_fill_halves": "noisy fill of half the contracts",
    "paper_fill_halves": "filled as in the paper, of half the contracts",
    "noiseless": "as the private ones, without noise",
    "dp_sgd_8": "DP-SGD, epsilon 8",
    "dp_sgd_8_invented": "DP-SGD, epsilon 8, without public contracts",
    "dp_sgd_3": "DP-SGD, epsilon 3",
    "dp_sgd_1": "DP-SGD, epsilon 1",
}


def report(work: Path, arms: Sequence[str]) -> dict[str, Any]:
    """Returns the figures of every result below a folder."""
    found = {
        folder.name: {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
        for folder in sorted(work.iterdir())
        if folder.is_dir()
    }
    clauses = {name: results for name, results in found.items() if not name.startswith(OTHER)}
    audits = {arm: _audits(clauses, arm) for arm in arms if _audits(clauses, arm)}
    return {
        "mean_f1": {arm: _mean(clauses, arm, "f1") for arm in arms},
        "mean_precision": {arm: _mean(clauses, arm, "precision") for arm in arms},
        "mean_recall": {arm: _mean(clauses, arm, "recall") for arm in arms},
        "f1_loss_noisy_fill": _loss(clauses, "noisy_fill"),
        "f1_loss_dp_sgd_8": _loss(clauses, "dp_sgd_8"),
        **_verdicts(audits),
        "audits": audits,
        "f1": {
            name: {arm: round(result["f1"], 4) for arm, result in results.items()}
            for name, results in found.items()
        },
        "term_cost_as_paper_fill": _cost(clauses, "as_paper_fill"),
        "term_cost_other_way": _cost(clauses, "other_way"),
        "tokens_per_cpu_second": _mean(clauses, "original", "tokens_per_cpu_second"),
        "table_bytes_int8": _mean(clauses, "original", "table_bytes_int8"),
        "num_types": len(clauses),
    }


def _verdicts(audits: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures that attacks are judged by."""
    found = {}
    if everything := audits.get("noisy_fill"):
        noisy_fill = {name: a for name, a in everything.items() if not name.startswith("blind")}
        for rate in ("auc", "tpr"):
            found[f"noisy_fill_largest_{rate}"] = max(
                a[f"largest_{rate}"] for a in noisy_fill.values()
            )
            found[f"noisy_fill_largest_mean_{rate}"] = max(a[rate] for a in noisy_fill.values())
    if paper_fill := audits.get("paper_fill"):
        found["paper_fill_largest_term_tpr"] = max(
            a["tpr"] for name, a in paper_fill.items() if name.endswith(("_rare", "_learned"))
        )
    if learned := audits.get("paper_fill_file", {}).get("coincidence_learned"):
        found["paper_fill_file_coincidence_tpr"] = learned["tpr"]
    kept = [a["kept"] for attacks in audits.values() for a in attacks.values() if "kept" in a]
    return found | ({"private_audits_kept": all(kept)} if kept else {})


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
        "| attack | table | AUC | largest | TPR at FPR .001 | largest | allowed |",
        "|---" * 7 + "|",
    ]
    for arm, audits in result["audits"].items():
        lines += [_audit_line(attack, arm, found) for attack, found in audits.items()]
    return "\n".join(lines)


def _audit_line(attack: str, arm: str, found: dict[str, Any]) -> str:
    low, high = found["auc_interval"]
    least, most = found["tpr_interval"]
    allowed = f"{found['tpr_allowed_by_mechanism']:.4f}" if "kept" in found else ""
    return (
        f"| {attack} | {arm} | {found['auc']:.3f} ({low:.3f}-{high:.3f}) "
        f"| {found['largest_auc']:.3f} | {found['tpr']:.4f} ({least:.4f}-{most:.4f}) "
        f"| {found['largest_tpr']:.3f} | {allowed} |"
    )


def _mean(clauses: dict[str, Any], arm: str, key: str) -> float | None:
    """Returns the mean over clause types, once all of them are there."""
    values = [results[arm][key] for results in clauses.values() if key in results.get(arm, {})]
    return round(mean(values), 4) if values and len(values) == len(clauses) else None


def _cost(clauses: dict[str, Any], way: str, rank: int = 100) -> float | None:
    """Returns the mean cost of the word of a frequency rank, one way or the other."""
    found = [
        cost[way]
        for results in clauses.values()
        for cost in results.get("paper_fill", {}).get("term_costs", [])
        if cost["rank"] == rank
    ]
    return round(mean(found), 4) if found and len(found) == len(clauses) else None


def draw(work: Path, image: Path) -> None:
    """Draws the cost of words of every clause type by frequency, like figure 2 of the paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    ways = (
        ("as_paper_fill", "without term first", "tab:green"),
        ("other_way", "with term first", "tab:red"),
    )
    for path in sorted(work.glob("*/paper_fill.json")):
        if not (costs := json.loads(path.read_text()).get("term_costs")):
            continue
        shares, first = [100 * cost["share"] for cost in costs], not axes.lines
        for way, name, colour in ways:
            values, label = [cost[way] for cost in costs], name if first else None
            axes.plot(shares, values, color=colour, marker=".", label=label)
    axes.set(xscale="log", yscale="log", xlabel="share of all features, %", title=term_cost.KIND)
    axes.set_ylabel("epsilon of the measured divergence")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(image, dpi=120)


def _loss(clauses: dict[str, Any], arm: str) -> float | None:
    original, released = _mean(clauses, "original", "f1"), _mean(clauses, arm, "f1")
    return None if original is None or released is None else round(original - released, 4)


def _audits(clauses: dict[str, Any], arm: str) -> dict[str, dict[str, Any]]:
    """Returns what each attack achieves over all clause types; see `_pooled`."""
    found = [results[arm] for results in clauses.values() if "audits" in results.get(arm, {})]
    names = dict.fromkeys(attack for result in found for attack in result["audits"])
    return {
        name: _pooled([r["audits"][name] for r in found if name in r["audits"]])
        | _allowed(found[0], name, [r["audits"][name] for r in found if name in r["audits"]])
        for name in names
    }


def _pooled(attacks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the mean area and the rates of all scores together, with 95 % intervals."""
    auc = mean(attack["auc"] for attack in attacks)
    reach = math.hypot(*((high - low) / 2 for low, high in _intervals(attacks))) / len(attacks)
    hits, total = _rate(attacks, "tpr", "num_true")
    alarms, strangers = _rate(attacks, "fpr", "num_false")
    return {
        "auc": round(auc, 4),
        "auc_interval": [round(auc - reach, 4), round(auc + reach, 4)],
        "largest_auc": round(max(attack["auc"] for attack in attacks), 4),
        "tpr": round(hits / total, 5),
        "tpr_interval": [round(end, 5) for end in clopper_pearson(hits, total, 0.05)],
        "largest_tpr": round(max(attack["tpr"] for attack in attacks), 4),
        "fpr": round(alarms / strangers, 5),
        "num_true": total,
    }


def _allowed(
    result: dict[str, Any], name: str, attacks: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Returns what true positive rate a guarantee leaves at FPR .001, and whether it was kept.

    Epsilon and delta allow e^epsilon FPR + delta. What they were computed from, a Gaussian
    mechanism in several steps, allows less (Dong, Roth, Su 2022, equation 6). It is kept if the
    lower end of the measured rate is below what the upper end of the measured FPR allows. Both are
    about one record; terms of two are held to the same, and of terms of many nothing is guaranteed.
    """
    if "epsilon" not in result or name.endswith(MANY):
        return {}
    normal, mu = NormalDist(), math.sqrt(result["steps"]) / result["noise_multiplier"]

    def guaranteed(fpr: float) -> float:
        return min(1.0, math.exp(result["epsilon"]) * fpr + result["delta"])

    def exact(fpr: float) -> float:
        return normal.cdf(mu + normal.inv_cdf(fpr))

    least = clopper_pearson(*_rate(attacks, "tpr", "num_true"), 0.05)[0]
    most = clopper_pearson(*_rate(attacks, "fpr", "num_false"), 0.05)[1]
    return {
        "tpr_allowed": round(guaranteed(FALSE_POSITIVE_RATE), 5),
        "tpr_allowed_by_mechanism": round(exact(FALSE_POSITIVE_RATE), 5),
        "kept": least <= min(guaranteed(most), exact(most)),
    }


def _rate(attacks: Sequence[dict[str, Any]], rate: str, number: str) -> tuple[int, int]:
    hits = sum(round(attack[rate] * attack[number]) for attack in attacks)
    return hits, sum(attack[number] for attack in attacks)


def _intervals(attacks: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    return [tuple(attack["auc_interval"]) for attack in attacks]
