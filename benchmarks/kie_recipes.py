"""Which recipe of private training does best for how many documents: F1 at epsilon 8, small scale.

    python benchmarks/kie_recipes.py --work runs/sweeps     an hour on a core
    python benchmarks/kie_recipes.py --quick                a minute, figures without meaning

A tiny layout model learns invented invoices and receipts, as `kie_sweeps.py` makes it; with --work
it is made once. Then every recipe trains it on as many others as each size says, of providers of
their own, by the engine and the code of `train kie`: epsilon 8 at delta 1e-5 for each document, a
fresh output layer, and that many documents declared, whichever recipe it is. Each is scored on
documents of other providers still. The last line is JSON: F1 by size and recipe, the recipe that
`--declared-documents` would take for that size, and the best.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import kie_sweeps
import machine
import torch
from kie_sweeps import Corpus, Setting

from hushdoc_training.models import adapters
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import recipe, training
from hushdoc_training.recipes.kie.private import private_training
from hushdoc_training.recipes.kie.recipe import Recipe

SIZES, QUICK_SIZES = (100, 400, 1200), (8,)
QUICK_STEPS = 2
SETTING = Setting(tokens=kie_sweeps.TOKENS[1])
NAMES = [made.name for made in recipe.RECIPES]


def main() -> int:
    """Trains by every recipe on every size, and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--work", type=Path, help="keep the start here")
    parser.add_argument("--sizes", type=int, nargs="+", help=f"of the corpora (default: {SIZES})")
    parser.add_argument("--only", nargs="+", choices=NAMES, help="these recipes alone")
    parser.add_argument("--runs", type=int, default=1, help="of each training (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began = time.monotonic()
    scale = kie_sweeps.QUICK if options.quick else kie_sweeps.FULL
    f1: dict[int, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = argparse.Namespace(data=None, start=None)
        for size in options.sizes or (QUICK_SIZES if options.quick else SIZES):
            sized = replace(scale, private=size)
            corpus = kie_sweeps.corpus_of(folder, options.work or Path(scratch), sized)
            f1[size] = {}
            for name in options.only or NAMES:
                of = recipe.named(name)
                of = replace(of, steps=QUICK_STEPS) if options.quick else of
                f1[size][name] = [trained(corpus, of) for _ in range(options.runs)]
                print(f"{size} documents, {name}: {f1[size][name]}", flush=True)
        public = round(training.evaluate(corpus.start, corpus.scored).f1, 4)
    means = {
        size: {name: round(statistics.fmean(found), 4) for name, found in by_name.items()}
        for size, by_name in f1.items()
    }
    result = {
        "f1": means,
        "each": f1,
        "recipe": {size: recipe.of_size(size).name for size in f1},
        "best": {size: max(found, key=lambda name: found[name]) for size, found in means.items()},
        "f1_start": public,
        "num_parameters": sum(value.numel() for value in corpus.start.model.parameters()),
        "num_scored": len(corpus.scored),
        "runs": options.runs,
        "quick": options.quick,
        "threads": torch.get_num_threads(),
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(result))
    return 0


def trained(corpus: Corpus, of: Recipe) -> float:
    """Trains privately by a recipe, and returns F1 on documents that nothing was learned from."""
    start, device, count = corpus.began(SETTING), torch.device("cpu"), len(corpus.private)
    settings = recipe.fitting(of.private, start.model)
    plan = PrivacyPlan.calibrated(
        epsilon=8,
        delta=1e-5,
        sampling_rate=of.sampling_rate,
        steps=of.steps,
        clipping_norm=of.clipping_norm,
        expected_records=max(1, round(count * of.sampling_rate)),
    )
    with (
        adapters.merging(start.model),
        private_training(
            start, corpus.private, plan, settings, charge=lambda _: None, device=device
        ) as private,
    ):
        for number in range(1, of.steps + 1):
            training.decay(private.optimizer, settings, number, of.steps)
            private.step()
    return round(training.evaluate(start, corpus.scored, device=device).f1, 4)


if __name__ == "__main__":
    sys.exit(main())
