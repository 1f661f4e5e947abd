"""Tables and figures of models that were trained and attacked (`docvqa_arms`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, cast

from hushdoc.labels import LabelledDocument
from hushdoc_training.question_scores import Answering, QuestionScore

Result = Mapping[str, Any]
Results = Mapping[str, Sequence[Result]]
"""Of each arm that ran, one result for each seed."""

SIDES = ("members", "others")

ATTACK = ("method", "features", "least_questions")
"""What tells rows of attacks apart."""


def measured(answering: Answering, documents: Sequence[LabelledDocument]) -> dict[str, Any]:
    """Returns what an arm's answers are worth, and the CPU seconds that they took."""
    began = time.process_time()
    scores = answering.score(documents)
    seconds = time.process_time() - began
    answerable = [score for score in scores if score.answers]
    keys = sorted({score.key for score in answerable if score.key is not None})
    return {
        "documents": len(documents),
        "providers": len({item.provider for item in documents}),
        "questions": len(scores),
        "answerable": len(answerable),
        "anls": anls(scores),
        "anls_answerable": anls(answerable),
        "exact": round(fmean(score.exact_match for score in scores), 3),
        "by_key": {key: anls([one for one in answerable if one.key == key]) for key in keys},
        "cpu_seconds": round(seconds, 1),
    }


def anls(scores: Sequence[QuestionScore]) -> float:
    """Returns the mean of normalised similarities (Biten et al. 2019)."""
    return round(fmean(score.nls for score in scores), 3)


def figures(nearest: Mapping[str, Any], results: Results) -> dict[str, float | None]:
    """Returns the figures that are goals, means over seeds; None for what did not run.

    What privacy keeps is that of the pointer, or of VT5 where no pointer was trained: of the
    non-private ANLS, and of what that gains over the start.
    """

    def of(arm: str, *path: str) -> float | None:
        return _mean([_at(result, *path) for result in results.get(arm, ())])

    def apk(arm: str) -> float | None:
        return _mean(
            [_row(result, "attacks", "APK", 0)["accuracy"] for result in results.get(arm, ())]
        )

    product = "pointer" if "pointer_provider_eps8" in results else "vt5"
    begun, kept, whole = (
        of(f"{product}_{arm}", "others", "anls") for arm in ("start", "provider_eps8", "nonprivate")
    )
    bounds = [
        result["epsilon_lower"]
        for arm, each in results.items()
        if arm.endswith("_eps8")
        for result in each
        if result["epsilon_lower"] is not None
    ]
    invented = nearest.get("invented", {})
    found = {
        "anls_nearest_label": nearest.get(f"arms_{product}", invented).get("anls"),
        "anls_nearest_label_answerable": invented.get("anls_answerable"),
        "anls_pointer_nonprivate": of("pointer_nonprivate", "others", "anls"),
        "anls_vt5_nonprivate": of("vt5_nonprivate", "others", "anls"),
        "anls_provider_eps8": kept,
        "retention_provider_eps8": None if kept is None or not whole else round(kept / whole, 4),
        "anls_start": begun,
        "anls_federated_eps8": of(f"{product}_federated_eps8", "others", "anls"),
        "gain_kept_provider_eps8": (
            None
            if begun is None or kept is None or whole is None or whole <= begun
            else round((kept - begun) / (whole - begun), 4)
        ),
    }
    for end, training in (("nonprivate", "nonprivate"), ("eps8", "provider_eps8")):
        arm = f"vt5_{training}"
        found |= {
            f"apk_accuracy_{end}": apk(arm),
            f"apk_accuracy_pointer_{end}": apk(f"pointer_{training}"),
            f"memorised_{end}": of(arm, "memorised", "memorised"),
            f"twin_alone_{end}": of(arm, "memorised", "twin_alone"),
        }
    return {**found, "epsilon_lower_eps8": max(bounds, default=None)}


def require_unrefuted(results: Results) -> None:
    """Ends the program where a lower bound of epsilon is above its claim."""
    for arm, each in results.items():
        for result in each:
            if (result["epsilon_lower"] or 0.0) > (result["epsilon"] or 0.0):
                raise SystemExit(
                    f"{arm}: canaries show an epsilon of {result['epsilon_lower']:.3f} at least, "
                    f"and {result['epsilon']:.3f} is claimed. The claim is false."
                )


def tables(results: Results) -> Iterator[str]:
    """Yields the lines of the paper's tables, by their numbers, of all arms that ran."""
    yield "\n3, 6: epsilon claimed, its lower bound; ANLS, accuracy on unseen providers; MB sent"
    for arm, each in results.items():
        cells = [_spread(each, "others", what) for what in ("anls", "accuracy")]
        found = (_known(each, what) for what in ("epsilon", "epsilon_lower", "communication_mb"))
        epsilon, lower, sent = ("-" if one is None else f"{one:.2f}" for one in found)
        yield _line(arm, epsilon, lower, *cells, sent)
    yield "\n1, 9: loss on what it was trained on; accuracy, ANLS of members, and of others"
    for arm, each in results.items():
        cells = [_spread(each, side, what) for side in SIDES for what in ("accuracy", "anls")]
        yield _line(arm, _spread(each, "trained_loss"), *cells)
    yield "\n2, 7, 8: hidden answers of members, of others; sure ones: questions, accuracy, ANLS"
    for arm, each in results.items():
        for key in each[0]["hidden"]:
            cells = [
                _hidden([one["hidden"][key][side][which] for one in each])
                for which in ("all", "sure")
                for side in SIDES
            ]
            yield _line(arm, f"{key:13}", *cells)
        counts = {
            name: _mean([one["memorised"][name] for one in each]) for name in each[0]["memorised"]
        }
        yield _line(arm, f"against the twin: {counts}")
    for number, part in (("4, 10", "attacks"), ("11", "ablation")):
        yield f"\n{number}: s; accuracy, deviation; area; TPR at FPR .1, .03, .01; no bounds"
        for arm, each in results.items():
            rows: dict[str, list[Result]] = {}
            for row in (row for one in each for row in one[part]):
                rows.setdefault(str([row[key] for key in ATTACK]), []).append(row)
            for same in rows.values():  # some seeds have no providers that are asked so much
                yield _line(arm, *_attack(same), f"{len(same)} of {len(each)} seeds")


def _attack(same: Sequence[Result]) -> Iterator[str]:
    """Yields the cells of an attack, means over seeds."""
    row = same[0]
    yield f"{row['method']} of {len(row['features'])} features"
    yield f"{row['least_questions']}"
    for what in ("accuracy", "accuracy_deviation", "auc"):
        yield f"{fmean(one[what] for one in same):.3f}"
    for rate in row["tpr_at_fpr"]:
        yield f"{fmean(one['tpr_at_fpr'][rate] for one in same):.2f}"


def _row(result: Result, part: str, method: str, least: int) -> Result:
    """Returns the row of an attack on providers of more than so many questions, empty if none."""
    wanted = method, least
    for row in result[part]:
        if (row["method"], row["least_questions"]) == wanted:
            return cast(Result, row)
    return {}


def _hidden(found: Sequence[Result | None]) -> str:
    parts = [part for part in found if part]
    if not parts:
        return "-"
    means = (fmean(part[what] for part in parts) for what in ("accuracy", "anls"))
    return f"{sum(part['questions'] for part in parts)}: " + " ".join(
        f"{mean:.3f}" for mean in means
    )


def _known(each: Sequence[Result], what: str) -> float | None:
    """Returns the mean of what some results have; those that were kept before lack some."""
    return _mean([one.get(what) for one in each])


def _line(arm: str, *cells: str) -> str:
    return f"{arm:22} {' | '.join(cells)}"


def _at(result: Result, *path: str) -> Any:
    found: Any = result
    for key in path:
        found = found[key]
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 4) if known else None


def _spread(each: Sequence[Result], *path: str) -> str:
    values = [_at(result, *path) for result in each]
    deviation = f" +-{stdev(values):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{deviation}"
