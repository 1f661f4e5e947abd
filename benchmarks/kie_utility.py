"""What privacy costs on a corpus of labelled pages, at several budgets and from several starts.

    python benchmarks/kie_utility.py --data path/to/sroie --start runs/public --work runs/utility
    python benchmarks/kie_utility.py --data path/to/funsd --quick

Every training is a command of `hushdoc train kie`, and is printed. A fifth of the documents is held
out by the fixed split of the commands, and each model is scored on it once, with the weights of its
last step. Settings are those of the recipe for the declared number of documents, with privacy and
without; --plain and --private change them for every training of their kind. Recipes were chosen
with a look at these corpora, which the claims of these runs don't tell: none is to be released.

There are up to three starts, as in PrIeD-KIE's table 2:

    raw       MiniLM as it was published, which has not learned from any page
    invented  pretrained on invented pages most like the corpus
    public    the run folder of --start, as samples/public_start.py makes it from many public sets

From the last of these that there is, models are trained without privacy, at epsilon 1, 3, 8 and 20
for each document (delta 1e-5), and at epsilon 8 in the paper's terms: for each window of tokens,
delta one over the number of windows. From the others without privacy, and at epsilon 8 and 20. With
--work an interrupted benchmark goes on where it was, and takes what `own_data.py` trained there.
So it can be run in parts, which --starts, --arms and --seeds choose:

    python benchmarks/kie_utility.py ... --work runs/utility --starts public --arms dp_eps1_document

The last line is JSON, of means over the seeds that any part has trained, null where none has:

    f1_public                 the start, before it is trained on the corpus
    f1_nonprivate, f1_dp_...  after training
    retention_...             f1_dp over f1_nonprivate
    gain_kept_eps8            what training adds to the start at epsilon 8 for each document, over
                              what it adds without privacy
    spread                    standard deviations over the seeds
    seeds                     how many there are of each
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
from hushdoc_training.recipes.kie.start import Start as KieStart

NONPRIVATE, PAPERS_TERMS = "not_private", "dp_eps8_sequence"
DOCUMENT = {f"dp_eps{epsilon}_document": epsilon for epsilon in (1, 3, 8, 20)}
ARMS = (NONPRIVATE, *DOCUMENT, PAPERS_TERMS)
OF_ALL_STARTS = (NONPRIVATE, "dp_eps8_document", "dp_eps20_document")
"""Arms, named as `own_data.py` names their folders."""

STARTS = ("raw", "invented", "public")

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
    """

    place: Place
    model: str
    run: Path | None

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
    parser.add_argument("--starts", nargs="+", choices=STARTS, help="train from these alone")
    parser.add_argument("--arms", nargs="+", choices=ARMS, help="train these alone")
    parser.add_argument("--seeds", type=int, help="of each training (default: 3)")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time (default: 2)")
    parser.add_argument("--plain", help="options of every training without privacy")
    parser.add_argument("--private", help="options of every training with privacy")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    scale = own_data.QUICK if options.quick else own_data.FULL
    told = {name: getattr(options, name) for name in ("seeds", "plain", "private")}
    scale = replace(scale, **{name: value for name, value in told.items() if value is not None})
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // options.workers)))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.work or Path(scratch)) / options.data.name
        place = Place(data=options.data, folder=folder, scale=scale)
        result = measured(place, options)
    result |= {
        "plain": scale.plain,
        "private": scale.private,
        "quick": options.quick,
        "start": None if options.start is None else options.start.name,
        "threads": int(os.environ["OMP_NUM_THREADS"]),
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(result))
    return 0


def measured(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of a corpus."""
    pages = Pages.read(place)
    *others, last = STARTS if options.start else STARTS[:-1]
    chosen = options.starts or (*others, last)
    kept_here = [name for name in others if (place.folder / name).is_dir()]
    starts = {
        name: start_of(name, place, options)
        for name in (*others, last)
        if name == last or name in chosen or name in kept_here
    }
    windows, told = in_papers_terms(pages, starts[last])
    words = arms(pages, place.scale, told)
    of_start = {name: ARMS if name == last else OF_ALL_STARTS for name in starts}
    tasks = [
        (name, arm, seed)
        for seed in range(place.scale.seeds)
        for name in reversed(of_start)
        if name in chosen
        for arm in of_start[name]
        if arm in (options.arms or ARMS)
    ]

    def train(task: tuple[str, str, int]) -> None:
        name, arm, seed = task
        start = starts[name]
        told = f"{words[arm]} --seed {seed}"
        pages.trained(start.place, f"{arm}-{seed}", start.model, told)

    with ThreadPoolExecutor(options.workers) as pool:
        list((map if place.scale.quick else pool.map)(train, tasks))
    scores = {
        name: {
            arm: pages.finished(start.place, arm, start.model, words[arm]) for arm in of_start[name]
        }
        for name, start in starts.items()
    }
    before = {name: start.scored(pages) for name, start in starts.items()}
    kept = {name: start.kept(pages) for name, start in starts.items()}
    print(f"\nF1 from the start '{last}', which has {before[last]:.3f}: mean (spread) x seeds")
    print("\n".join(f"{arm:20} {shown(found)}" for arm, found in scores[last].items()))
    print(table_2(place.data.name, scores, before, kept, num_labels=len(pages.labels)), flush=True)
    result = figures(scores[last], before[last])
    return {
        "corpus": place.data.name,
        **result,
        "missed": missed(place.data.name, result),
        "spread": {named(arm): spread(found) for arm, found in scores[last].items()},
        "seeds": {named(arm): len(found) for arm, found in scores[last].items()},
        "starts": {
            name: {
                "kept_labels": kept[name],
                "f1_public": round(before[name], 4),
                **{named(arm): [round(f1, 4) for f1 in f1s] for arm, f1s in found.items()},
            }
            for name, found in scores.items()
        },
        "num_train": len(pages.train),
        "num_held_out": len(pages.held_out),
        "num_windows": windows,
        "declared_documents": own_data.declared(len(pages.train)),
        "delta_sequence": 1 / own_data.declared(windows),
        "labels": pages.labels,
    }


def start_of(name: str, place: Place, options: argparse.Namespace) -> Start:
    """Returns a start; invented pages are learned here, unless they are already."""
    if name == "public":
        public: Path = options.start
        run = public / "start" if (public / "start").is_dir() else public
        return Start(place=place, model=shlex.quote(str(run)), run=run)
    if name == "invented":
        at = replace(place, folder=place.folder / "invented") if options.start else place
        run, _ = own_data.invented_start(at)
        return Start(place=at, model=shlex.quote(str(run)), run=run)
    at = replace(place, folder=place.folder / "raw")
    model = nearly_untrained(at) if options.quick else "minilm --box-level segment"
    return Start(place=at, model=model, run=None)


def nearly_untrained(place: Place) -> str:
    """Returns a small start for a quick look, where only MiniLM is published as it is."""
    more = "--start small --documents 4 --max-tokens 64 --public-overlap none --quiet"
    place.train("start", "kie", f"--data invented:receipt --public {more}", resumes=True)
    return shlex.quote(str(place.folder / "start"))


def arms(pages: Pages, scale: own_data.Scale, papers_terms: str) -> dict[str, str]:
    """Returns the options of each arm."""
    shown = "--private-numbers shown-unused"
    documents = own_data.declared(len(pages.train))
    return {
        NONPRIVATE: f"--not-private {scale.plain}",
        **{
            name: f"--epsilon {epsilon} --delta 1e-5 {shown} --declared-documents {documents} "
            f"{scale.private}"
            for name, epsilon in DOCUMENT.items()
        },
        PAPERS_TERMS: f"{papers_terms} {shown} {scale.private}",
    }


def in_papers_terms(pages: Pages, start: Start) -> tuple[int, str]:
    """Returns how many windows there are, and options as `terms` has them."""
    assert start.run is not None
    made = kie_start.start_from(str(start.run), None)
    records = records_of(pages.train, made.encoder, made.labels, unit="sequence")
    return len(records), terms(own_data.declared(len(records)), made)


def terms(windows: int, start: KieStart) -> str:
    """Returns options of a guarantee as the paper's, and besides of our recipe for so many."""
    ours = recipe.of_size(windows)
    private = recipe.fitting(ours.private, start.model)
    records = max(1, round(windows * ours.sampling_rate))
    return (
        f"--preset pried-kie --epsilon 8 --delta {1 / windows!r} --accountant pld "
        f"--declared-documents {windows} --max-tokens {start.preprocessing.max_tokens} "
        f"--expected-records {records} --sampling-rate {ours.sampling_rate} --steps {ours.steps} "
        f"--clipping-norm {ours.clipping_norm} --trained {private.trained} "
        f"--scaling {private.scaling} --read-layers {private.read_layers} "
        f"--learning-rate {private.learning_rate} --decay"
    )


def figures(scores: dict[str, list[float]], public: float) -> dict[str, float | None]:
    """Returns means over the seeds, and what privacy leaves of them; None where nothing was run."""
    mean = {arm: statistics.fmean(scores[arm]) if scores.get(arm) else None for arm in ARMS}
    best = mean[NONPRIVATE]
    result = {"f1_public": public, **{named(arm): f1 for arm, f1 in mean.items()}}
    for arm in ("dp_eps8_document", PAPERS_TERMS):
        f1 = mean[arm]
        result[f"retention_{arm.removeprefix('dp_')}"] = f1 / best if best and f1 else None
    f1, gained = mean["dp_eps8_document"], (best or 0.0) - public
    result["gain_kept_eps8"] = (f1 - public) / gained if f1 is not None and gained > 0 else None
    return {name: None if value is None else round(value, 4) for name, value in result.items()}


def named(arm: str) -> str:
    """Returns an arm's key of the JSON line."""
    return "f1_nonprivate" if arm == NONPRIVATE else f"f1_{arm}"


def spread(scores: Sequence[float]) -> float | None:
    """Returns the standard deviation of scores; None of fewer than two."""
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
        if value is not None and value < goal:
            found[name] = round(goal - value, 4)
        elif name == "gain_kept_eps8" and result["retention_eps8_document"] and value is None:
            found[name] = None  # training without privacy gained nothing
        told = "-" if value is None else f"{value:.3f}"
        print(f"{name:24}  {goal:8.3f}  {told:>8}  {found.get(name, '-')}")
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
    raw = each.get("raw", {})
    lines = [
        "",
        f"{'start':20} labels known  before  {'not private':20} {'epsilon 8':20} epsilon 20",
    ]
    for name, scores in each.items():
        told = "".join(
            f" {f'{shown(scores[arm])} {arrow(scores[arm], raw.get(arm, []))}':20}"
            for arm in OF_ALL_STARTS
        )
        known = f"{len(kept[name])} of {num_labels}"
        lines.append(f"{name:20} {known:12}  {before[name]:.3f}  {told.strip()}")
    if corpus in TABLE_2:
        lines.append("PrIeD-KIE, table 2 (sequence unit, delta 1/N, windows of 512 tokens):")
    for name, found in TABLE_2.get(corpus, {}).items():
        told = "".join(
            f" {f'{f1 / 100:.3f} {arrow([f1], [base])}':20}"
            for f1, base in zip(found, TABLE_2[corpus]["none"], strict=True)
        )
        lines.append(f"{name:20} {'':12}  {'':5}  {'':20}{told.rstrip()}")
    return "\n".join(lines)


def shown(scores: Sequence[float]) -> str:
    """Returns the mean of scores, their standard deviation and how many there are."""
    if not scores:
        return "-"
    among = "" if len(scores) == 1 else f" ({spread(scores):.3f})"
    return f"{statistics.fmean(scores):.3f}{among} x{len(scores)}"


def arrow(scores: Sequence[float], base: Sequence[float]) -> str:
    """Returns whether scores are above or below those without a stage before, on average."""
    if not (scores and base):
        return ""
    difference = statistics.fmean(scores) - statistics.fmean(base)
    return " " if difference == 0 else "\u2191" if difference > 0 else "\u2193"


if __name__ == "__main__":
    sys.exit(main())
