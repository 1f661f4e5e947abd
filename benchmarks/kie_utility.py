"""What privacy costs on a corpus of labelled pages, at several budgets and from several starts.

    python benchmarks/kie_utility.py --data path/to/sroie --start runs/public --work runs/utility
    python benchmarks/kie_utility.py --data path/to/funsd --quick

Every training is a command of `hushdoc train kie`, and is printed. A fifth of the documents is held
out by the fixed split of the commands, and each model is scored on it once, with the weights of its
last step. Settings are those of the recipe for the declared number of documents, with privacy and
without; --plain and --private change them for every training of their kind.

There are up to three starts, as in PrIeD-KIE's table 2:

    raw       MiniLM as it was published, which has not learned from any page
    invented  pretrained on invented pages most like the corpus
    public    the run folder of --start, as samples/public_start.py makes it from many public sets

From the last of these that there is, models are trained without privacy, at epsilon 1, 3, 8 and 20
for each document (delta 1e-5), and at epsilon 8 in the paper's terms: for each window of tokens,
delta one over the number of windows. From the others without privacy, and at epsilon 8 and 20. With
--work an interrupted benchmark goes on where it was, and takes what `own_data.py` trained there.
The last line is JSON, of means over the seeds:

    f1_public                 the start, before it is trained on the corpus
    f1_nonprivate, f1_dp_...  after training
    retention_...             f1_dp over f1_nonprivate
    gain_kept_eps8            what training adds to the start at epsilon 8 for each document, over
                              what it adds without privacy
    spread                    standard deviations over the seeds
    missed                    goals that were missed, and by how much
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import machine
import own_data
import public_start
from own_data import Pages, Place

from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.recipes.kie import recipe
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie.records import records_of

WORKERS = 2
"""Trainings at a time, each on its share of the cores."""

NONPRIVATE, PAPERS_TERMS = "not_private", "dp_eps8_sequence"
DOCUMENT = {f"dp_eps{epsilon}_document": epsilon for epsilon in (1, 3, 8, 20)}
OF_ALL_STARTS = (NONPRIVATE, "dp_eps8_document", "dp_eps20_document")
"""Arms, named as `own_data.py` names their folders."""

TABLE_2 = {
    "funsd": {
        "none": (68.81, 75.27),
        "SROIE": (66.32, 73.31),
        "WildReceipts": (63.81, 74.96),
        "DOCILE-Synthetic": (65.09, 72.27),
        "CORD": (72.49, 79.19),
    },
    "sroie": {
        "none": (69.79, 77.05),
        "CORD": (71.13, 75.36),
        "WildReceipts": (73.20, 77.69),
        "DOCILE-Synthetic": (76.17, 79.84),
    },
    "wildreceipt": {
        "none": (71.26, 78.44),
        "SROIE": (69.15, 76.33),
        "DOCILE-Synthetic": (71.23, 78.20),
        "CORD": (73.38, 79.71),
    },
}
"""PrIeD-KIE, table 2: F1 at epsilon 8 and 20 by the set that LayoutLMv3 was pretrained on first."""

TABLE_3 = {"funsd": (90.22, 78.22), "sroie": (92.53, 77.15), "wildreceipt": (92.99, 80.97)}
"""PrIeD-KIE, table 3: F1 of LayoutLMv3 without privacy and at epsilon 8."""

GOALS = {"funsd": (0.75, 0.6), "sroie": (0.85, 0.75), "wildreceipt": (0.85, 0.75)}
"""Ours: least F1 without privacy, and least share of its gain that epsilon 8 keeps."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """What trainings start from.

    Attributes:
        place: Where its runs are.
        model: The value of `--start`, with options that belong to it.
        run: Its folder; None where it has learned no label.
        arms: What is trained from it.
    """

    place: Place
    model: str
    run: Path | None
    arms: tuple[str, ...]

    def scored(self, pages: Pages) -> float:
        """Returns its F1 before it is trained on the corpus."""
        return 0.0 if self.run is None else public_start.score(self.run, pages.held_out)

    def kept(self, pages: Pages) -> list[str]:
        """Returns the labels of the corpus that it knows."""
        known = () if self.run is None else Checkpoint.load(self.run).labels.fields
        return [label for label in pages.labels if label in known]


def main() -> int:
    """Trains every arm from every start, prints the tables and the JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--start", type=Path, help="run folder of a public start")
    parser.add_argument("--work", type=Path, help="keep runs here, and continue them")
    parser.add_argument("--seeds", type=int, help="of each training (default: 3)")
    parser.add_argument("--plain", help="options of every training without privacy")
    parser.add_argument("--private", help="options of every training with privacy")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    scale = own_data.QUICK if options.quick else own_data.FULL
    told = {name: getattr(options, name) for name in ("seeds", "plain", "private")}
    scale = replace(scale, **{name: value for name, value in told.items() if value is not None})
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // WORKERS)))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.work or Path(scratch)) / options.data.name
        place = Place(data=options.data, folder=folder, scale=scale)
        result = measured(place, options.start, quick=options.quick)
    result |= {
        "seeds": scale.seeds,
        "plain": scale.plain,
        "private": scale.private,
        "quick": options.quick,
        "start": None if options.start is None else options.start.name,
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(result))
    return 0


def measured(place: Place, public: Path | None, *, quick: bool) -> dict[str, Any]:
    """Returns the figures of a corpus."""
    pages = Pages.read(place)
    starts = starts_of(place, public, quick=quick)
    *_, last = starts
    windows, length = windows_of(pages, starts[last])
    words = arms(pages, place.scale, windows, length)
    tasks = [
        (name, arm, seed)
        for name, start in reversed(starts.items())
        for seed in range(place.scale.seeds)
        for arm in start.arms
    ]

    def train(task: tuple[str, str, int]) -> float:
        name, arm, seed = task
        start = starts[name]
        told = f"{words[arm]} --seed {seed}"
        return pages.trained(start.place, f"{arm}-{seed}", start.model, told)[0]

    with ThreadPoolExecutor(WORKERS) as pool:
        scores = dict(zip(tasks, pool.map(train, tasks), strict=True))
    each = {
        name: {
            arm: [scores[name, arm, seed] for seed in range(place.scale.seeds)]
            for arm in start.arms
        }
        for name, start in starts.items()
    }
    before = {name: start.scored(pages) for name, start in starts.items()}
    kept = {name: start.kept(pages) for name, start in starts.items()}
    print(table_2(place.data.name, each, before, kept, num_labels=len(pages.labels)), flush=True)
    result = figures(each[last], before[last])
    return {
        "corpus": place.data.name,
        **result,
        "missed": missed(place.data.name, result),
        "spread": {named(arm): spread(found) for arm, found in each[last].items()},
        "starts": {
            name: {
                "kept_labels": kept[name],
                "f1_public": round(before[name], 4),
                **{named(arm): [round(f1, 4) for f1 in found] for arm, found in scored.items()},
            }
            for name, scored in each.items()
        },
        "num_train": len(pages.train),
        "num_held_out": len(pages.held_out),
        "num_windows": windows,
        "declared_documents": own_data.declared(len(pages.train)),
        "delta_sequence": 1 / own_data.declared(windows),
        "labels": pages.labels,
    }


def starts_of(place: Place, public: Path | None, *, quick: bool) -> dict[str, Start]:
    """Returns the starts by name; invented pages are learned here, unless they are already."""
    all_arms = (NONPRIVATE, *DOCUMENT, PAPERS_TERMS)
    at = replace(place, folder=place.folder / "invented") if public else place
    invented, _ = own_data.invented_start(at)
    untrained = replace(place, folder=place.folder / "raw")
    found = {
        "raw": Start(
            place=untrained,
            model=nearly_untrained(untrained) if quick else "minilm --box-level segment",
            run=None,
            arms=OF_ALL_STARTS,
        ),
        "invented": Start(
            place=at,
            model=shlex.quote(str(invented)),
            run=invented,
            arms=OF_ALL_STARTS if public else all_arms,
        ),
    }
    if public:
        run = public / "start" if (public / "start").is_dir() else public
        model = shlex.quote(str(run))
        found["public"] = Start(place=place, model=model, run=run, arms=all_arms)
    return found


def nearly_untrained(place: Place) -> str:
    """Returns a small start for a quick look, where only MiniLM is published as it is."""
    more = "--start small --documents 4 --max-tokens 64 --public-overlap none --quiet"
    place.train("start", "kie", f"--data invented:receipt --public {more}", resumes=True)
    return shlex.quote(str(place.folder / "start"))


def arms(pages: Pages, scale: own_data.Scale, windows: int, length: int) -> dict[str, str]:
    """Returns the options of each arm."""
    shown = "--private-numbers shown-unused"
    documents, sequences = own_data.declared(len(pages.train)), own_data.declared(windows)
    return {
        NONPRIVATE: f"--not-private {scale.plain}",
        **{
            name: f"--epsilon {epsilon} --delta 1e-5 {shown} --declared-documents {documents} "
            f"{scale.private}"
            for name, epsilon in DOCUMENT.items()
        },
        PAPERS_TERMS: f"{in_papers_terms(sequences, length)} {shown} {scale.private}",
    }


def in_papers_terms(windows: int, length: int) -> str:
    """Returns options of a guarantee as the paper's, and besides of our recipe for so many."""
    ours = recipe.of_size(windows)
    records = max(1, round(windows * ours.sampling_rate))
    return (
        f"--preset pried-kie --epsilon 8 --delta {1 / windows!r} --accountant pld "
        f"--declared-documents {windows} --max-tokens {length} --expected-records {records} "
        f"--sampling-rate {ours.sampling_rate} --steps {ours.steps} "
        f"--clipping-norm {ours.clipping_norm} --trained {ours.private.trained} "
        f"--scaling {ours.private.scaling} --learning-rate {ours.private.learning_rate} --decay"
    )


def windows_of(pages: Pages, start: Start) -> tuple[int, int]:
    """Returns into how many windows the training documents are cut, and of how many tokens."""
    assert start.run is not None
    made = kie_start.start_from(str(start.run), None)
    records = records_of(pages.train, made.encoder, made.labels, unit="sequence")
    return len(records), made.preprocessing.max_tokens


def figures(scores: dict[str, list[float]], public: float) -> dict[str, float | None]:
    """Returns means over the seeds, and what privacy leaves of them."""
    mean = {arm: statistics.fmean(found) for arm, found in scores.items()}
    best = mean[NONPRIVATE]
    result: dict[str, float | None] = {"f1_public": round(public, 4)}
    result |= {named(arm): round(f1, 4) for arm, f1 in mean.items()}
    for arm in ("dp_eps8_document", PAPERS_TERMS):
        if arm in mean:
            kept = round(mean[arm] / best, 4) if best else None
            result[f"retention_{arm.removeprefix('dp_')}"] = kept
    gain, gained = mean["dp_eps8_document"] - public, best - public
    result["gain_kept_eps8"] = round(gain / gained, 4) if gained > 0 else None
    return result


def named(arm: str) -> str:
    """Returns an arm's key of the JSON line."""
    return "f1_nonprivate" if arm == NONPRIVATE else f"f1_{arm}"


def spread(scores: Sequence[float]) -> float | None:
    """Returns the standard deviation of scores; None of one."""
    return round(statistics.stdev(scores), 4) if len(scores) > 1 else None


def missed(corpus: str, result: dict[str, float | None]) -> dict[str, float | None]:
    """Prints the goals of a corpus, and returns those missed and by how much."""
    if corpus not in GOALS:
        return {}
    nonprivate, gain_kept = GOALS[corpus]
    plain, private = TABLE_3[corpus]
    goals = {
        "f1_nonprivate": nonprivate,
        "retention_eps8_sequence": private / plain,
        "retention_eps8_document": private / plain,
        "gain_kept_eps8": gain_kept,
    }
    print("\ngoal                      at least  measured  missed by")
    found: dict[str, float | None] = {}
    for name, goal in goals.items():
        value = result[name]
        if value is None or value < goal:
            found[name] = None if value is None else round(goal - value, 4)
        shown = "-" if value is None else f"{value:.3f}"
        print(f"{name:24}  {goal:8.3f}  {shown:>8}  {found.get(name, '-')}")
    return found


def table_2(
    corpus: str,
    each: dict[str, dict[str, list[float]]],
    before: dict[str, float],
    kept: dict[str, list[str]],
    *,
    num_labels: int,
) -> str:
    """Returns which start helps, in lines: ours, then the paper's table 2 for the corpus."""
    columns = (NONPRIVATE, "dp_eps8_document", "dp_eps20_document")
    lines = ["", f"{'start':20} labels known  before  not private  epsilon 8      epsilon 20"]
    for name, scores in each.items():
        told = [
            f"{statistics.fmean(scores[arm]):.3f} {arrow(scores[arm], each['raw'][arm])}"
            f"{'' if spread(scores[arm]) is None else f' ({spread(scores[arm]):.3f})'}"
            for arm in columns
        ]
        lines.append(
            f"{name:20} {f'{len(kept[name])} of {num_labels}':12}  {before[name]:.3f}   "
            f"{told[0]:11}  {told[1]:13}  {told[2]}"
        )
    if corpus in TABLE_2:
        lines.append("PrIeD-KIE, table 2 (sequence unit, delta 1/N, windows of 512 tokens):")
    for name, found in TABLE_2.get(corpus, {}).items():
        told = [
            f"{f1 / 100:.3f} {arrow([f1], [base])}"
            for f1, base in zip(found, TABLE_2[corpus]["none"], strict=True)
        ]
        lines.append(f"{name:20} {'':12}  {'':5}   {'':11}  {told[0]:13}  {told[1]}")
    return "\n".join(lines)


def arrow(scores: Sequence[float], base: Sequence[float]) -> str:
    """Returns whether scores are above or below those without a stage before, on average."""
    difference = statistics.fmean(scores) - statistics.fmean(base)
    return " " if difference == 0 else "\u2191" if difference > 0 else "\u2193"


if __name__ == "__main__":
    sys.exit(main())
