"""Which rate, passes and token noise training without privacy likes, by a climb over them.

    python benchmarks/kie_search.py --data path/to/sroie --start runs/public --work runs/search
    python benchmarks/kie_search.py --data path/to/funsd --quick

Retention divides by F1 without privacy, so a divisor that nobody searched would flatter privacy.
It is another search than the private recipes had, which varied what is trained, scaling, layers,
sampling, steps and norm.
Only documents that `kie_utility.py` trains on are used: a quarter of them, chosen by the split of
the commands with a salt of its own, is scored, and `hushdoc train kie` learns from the others. From
the recipe's settings for the number of documents the rate is doubled while that helps, else halved;
then so are the passes; then up to a tenth of a window's tokens is replaced. Each setting is trained
once, unless --seeds says more, and what is best by the mean of F1 goes on. With --work an
interrupted search goes on where it was.

The last line is JSON: F1 of each setting (`f1`), the recipe's own (`recipe`) and the best one
(`best`), and what the latter gains on these documents, which it was chosen by (`gain`).
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import own_data
import public_start
from own_data import Pages, Place

from hushdoc import labelled_files
from hushdoc_training.data import splits
from hushdoc_training.recipes.kie import recipe

SCORED = 0.25
"""The share of the documents to train on that is scored here."""

CLIMBED = (("learning_rate", 2), ("learning_rate", 0.5), ("epochs", 2), ("epochs", 0.5))
"""What is multiplied by what while that helps, in this order."""

Setting = dict[str, float]


def main() -> int:
    """Searches and prints the JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--start", type=Path, help="run folder of a public start")
    parser.add_argument("--work", type=Path, help="keep runs here, and continue them")
    parser.add_argument("--seeds", type=int, default=1, help="of each training (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.work or Path(scratch)) / options.data.name
        scale = own_data.QUICK if options.quick else own_data.FULL
        place = Place(data=options.data, folder=folder, scale=scale)
        result = searched(place, options.start, seeds=options.seeds, quick=options.quick)
    start = None if options.start is None else options.start.name
    told = {"seeds": options.seeds, "quick": options.quick, "start": start}
    print(
        json.dumps({"corpus": place.data.name, **result, **told, **machine.stamp(began, "torch")})
    )
    return 0


def searched(place: Place, start: Path | None, *, seeds: int, quick: bool) -> dict[str, Any]:
    """Returns the figures of a corpus."""
    pages = Pages.read(place)
    parts = splits.split(
        pages.train, held_out=SCORED, traits=splits.traits_of, salt=splits.inner(1)
    )
    print("\n".join(parts.lines()), flush=True)
    data = place.folder / "train.jsonl"
    place.folder.mkdir(parents=True, exist_ok=True)
    labelled_files.write(data, parts.train, overwrite=True)
    begun = start or own_data.invented_start(place)[0]
    named = " ".join(f"--label {shlex.quote(label)}" for label in pages.labels)
    every = (
        f"--data {shlex.quote(str(data))} --start {shlex.quote(str(begun))} --new-labels {named} "
        "--public-overlap none --not-private --quiet"
    )
    scored = list(parts.held_out)
    f1: dict[str, list[float]] = {}

    def tried(setting: Setting) -> float:
        told = words(setting)
        if told in f1:  # the step back to where it came from
            return statistics.fmean(f1[told])
        f1[told] = []
        for seed in range(seeds):
            arm = f"{told.replace(' --', '_').strip('-').replace(' ', '-')}-{seed}"
            place.train(arm, "kie", f"{every} {told} --seed {seed}", resumes=True)
            f1[told].append(public_start.score(place.folder / arm, scored))
        print(f"{told}: F1 {statistics.fmean(f1[told]):.3f}", flush=True)
        return statistics.fmean(f1[told])

    plain = recipe.of_size(own_data.declared(len(pages.train))).plain
    own: Setting = {
        "learning_rate": plain.learning_rate,
        "epochs": 0.1 if quick else plain.epochs,
        "batch_size": plain.batch_size,
    }
    best, most = own, tried(own)
    for name, factor in () if quick else CLIMBED:
        while (found := tried(best | {name: best[name] * factor})) > most:
            best, most = best | {name: best[name] * factor}, found
    noisy = best | {"token_noise": 0.1}
    if (found := tried(noisy)) > most:
        best, most = noisy, found
    return {
        "f1": {told: [round(one, 4) for one in found] for told, found in f1.items()},
        "recipe": words(own),
        "best": words(best),
        "gain": round(most - statistics.fmean(f1[words(own)]), 4),
        "num_train": len(parts.train),
        "num_scored": len(scored),
    }


def words(setting: Setting) -> str:
    """Returns a setting as options of the command."""
    return " ".join(f"--{name.replace('_', '-')} {value:g}" for name, value in setting.items())


if __name__ == "__main__":
    sys.exit(main())
