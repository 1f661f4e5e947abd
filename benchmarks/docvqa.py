"""Answers to questions about documents of providers that no training saw, by arm and set.

    python benchmarks/docvqa.py --sroie path/to/sroie
    python benchmarks/docvqa.py --quick

The sets are invented invoices and receipts, and forms, of providers from 800 on, with the first 15
wordings of each key (`invented`, `forms`) and with the last 5, which training leaves out
(`other_wordings`); and SROIE's receipts of companies on the side of non-members, by
`data.providers.split` (`sroie`). The arms:

    nearest_label   no training: the label most like the question by MiniLM, and what is beside it

For each set and arm: questions, ANLS of all of them, ANLS of those that have an answer (an arm that
never says "none" has 0 for the others), share of exact answers, and ANLS by key. The last line is
JSON, in which `anls_nearest_label` and `anls_nearest_label_answerable` are the first two on
`invented`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import machine
import torch
from docvqa_nearest import NearestLabel

from hushdoc.labels import LabelledDocument
from hushdoc_training.data import dataset, providers
from hushdoc_training.question_scores import Answering, QuestionScore

Arm = Callable[[], Answering]

ARMS: dict[str, Arm] = {"nearest_label": NearestLabel}
"""What answers, by name; each is loaded or trained once and asked about every set."""

UNSEEN = "providers=800:1600,questions=keyed"
SETS = {
    "invented": f"invented:invoice+receipt,{UNSEEN},wordings=0:15",
    "other_wordings": f"invented:invoice+receipt,{UNSEEN},wordings=15:20",
    "forms": f"invented:form,{UNSEEN},wordings=0:15",
}


def main() -> int:
    """Asks every arm about every set and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sroie", type=Path, help="folder of SROIE")
    parser.add_argument("--documents", type=int, default=150, help="of each invented set")
    parser.add_argument("--seed", type=int, default=1, help="of the invented sets and the split")
    parser.add_argument("--quick", action="store_true", help="10 documents of each invented set")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    count = 10 if options.quick else options.documents
    sets = {
        name: dataset.read(dataset.Source(location=location, documents=count, seed=options.seed))
        for name, location in SETS.items()
    }
    if options.sroie is not None:
        receipts = dataset.read(dataset.Source(location=str(options.sroie)))
        sets["sroie"] = providers.split(receipts, seed=options.seed).non_members
    results: dict[str, dict[str, Any]] = {name: {} for name in sets}
    for arm, made in ARMS.items():
        answering = made()
        for name, documents in sets.items():
            results[name][arm] = found = measured(answering, documents)
            print(f"{name}, {arm}: {found}")
    figures = {
        f"anls_{arm}{end}": found[f"anls{end}"]
        for arm, found in results["invented"].items()
        for end in ("", "_answerable")
    }
    stamp = machine.stamp(began, "torch", "transformers")
    print(json.dumps({**figures, "sets": results, "quick": options.quick, **stamp}))
    return 0


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


if __name__ == "__main__":
    raise SystemExit(main())
