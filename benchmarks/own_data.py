"""What privacy costs on labelled documents of one's own, by the command line alone.

    python benchmarks/own_data.py --data path/to/sroie path/to/funsd path/to/cuad --work runs/own
    python benchmarks/own_data.py --data path/to/sroie --start runs/public --work runs/own
    python benchmarks/own_data.py --data path/to/sroie --quick

Receipts and forms are trained by `hushdoc train kie`, contracts by `train clauses`, messages by
`train classifier`: without privacy, and at epsilon 8 for each document, three times each, from the
same public start. Every command is printed. A fifth of the documents is held out by the fixed split
of the commands (`--held-out`) and scored once, with the released weights. Recipes were chosen with
a look at SROIE, WildReceipt and FUNSD, which the claims of these runs don't tell: none of them is
to be released. With --work an interrupted benchmark goes on where it was, also within a training of
fields. A line of JSON follows each corpus, and the last line holds all:

    public            F1 of the start on the held-out documents; null for tables, which have none
    not_private       F1 without privacy (share of right classes for messages): mean of the seeds
    dp_eps8_document  the same at epsilon 8, delta 1e-5, for each document
    retention         the latter over the former
    seconds           of all trainings of the corpus
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import machine
import public_start
import torch

from hushdoc.commands import command_line
from hushdoc.errors import HushdocError
from hushdoc.labels import LabelledDocument
from hushdoc_training import labelled_texts
from hushdoc_training.data import dataset, splits
from hushdoc_training.labelled_texts import Contract, Message
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie import training

HELD_OUT = 0.2
CLAUSE_TYPES = 4
"""How many of the most frequent clause types are learned, each by a table of its own."""

NO_CLAUSES = {"Parties", "Document Name", "Agreement Date", "Effective Date", "Expiration Date"}
"""Labels of contracts that are facts of a few words and no clauses."""

PRIVATE = "--epsilon 8 --delta 1e-5 --private-numbers shown-unused"
INVENTED = {
    "cord": "invented:till-receipt --labels cord",
    "docile": "invented:invoice --labels docile",
    "funsd": "invented:form",
    "sroie": "invented:till-receipt --labels sroie",
    "wildreceipt": "invented:till-receipt --labels wildreceipt",
    "xfund": "invented:form",
}
"""Invented pages that are most like a corpus, where no --start is given."""

SHOWN = {
    "clauses": re.compile(r"^Held out: .* F1 ([\d.]+) ", re.MULTILINE),
    "classifier": re.compile(r"^Held out: +([\d.]+) of ", re.MULTILINE),
}
"""Where the commands that train tables print their score."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work: the full benchmark, or a look that takes a minute."""

    seeds: int
    start: str
    plain: str
    private: str
    table: str
    private_table: str
    quick: bool = False


FULL = Scale(
    seeds=3,
    start="--start minilm --documents 6000",
    plain="",
    private="",
    table="",
    private_table="",
)
QUICK = Scale(
    seeds=1,
    start="--start small --documents 30 --max-tokens 64",
    plain="--epochs 0.1",
    private="--steps 2 --sampling-rate 0.05 --expected-records 5",
    table="--rows 4096",
    private_table="--rows 4096 --steps 3",
    quick=True,
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a corpus' runs stand, and what they are made of."""

    data: Path
    folder: Path
    scale: Scale

    def train(self, arm: str, task: str, words: str, *, resumes: bool = False) -> tuple[str, float]:
        """Trains an arm unless it is there, and returns what it printed and its seconds."""
        out, noted = self.folder / arm, self.folder / f"{arm}.json"
        before = 0.0
        if noted.is_file():
            found = json.loads(noted.read_text("utf-8"))
            if found.get("words", words) != words:
                sys.exit(f"{out} was trained by '{found['words']}', not by '{words}'. Take another "
                         "--work, or remove it.")  # fmt: skip
            if found["finished"]:
                return found["printed"], found["seconds"]
            before = found["seconds"]
        if not (resumes and (out / "run.json").is_file()):  # else it took a step
            shutil.rmtree(out, ignore_errors=True)
        goes_on = " --resume" if out.exists() else ""
        command = f"train {task} --out {shlex.quote(str(out))} {words}{goes_on}"
        print(f"$ hushdoc {command}", flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        code, printed = run(shlex.split(command), here=self.scale.quick)
        seconds = before + time.monotonic() - began
        content = {"finished": not code, "seconds": seconds, "printed": printed, "words": words}
        noted.write_text(json.dumps(content), "utf-8")
        if code:
            sys.exit(f"{printed[-2000:]}\nThe command ended with exit code {code}.")
        return printed, seconds


def run(words: Sequence[str], *, here: bool) -> tuple[int, str]:
    """Runs a command, in a process of its own or here; returns its exit code and what it printed.

    Most of a quick training is importing PyTorch, which `here` happens once.
    """
    if here:
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            code = command_line.main(words)
        return code, stream.getvalue()
    told = [sys.executable, "-m", "hushdoc", *words]
    done = subprocess.run(told, stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


def main() -> int:
    """Runs every corpus and prints the JSON lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="corpora, by path")
    parser.add_argument("--start", type=Path, help="run folder of a public start of fields")
    parser.add_argument("--work", type=Path, help="keep runs here, and continue them")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    parser.add_argument("--seeds", type=int, help="how often each is trained (default: 3)")
    parser.add_argument(
        "--clause-types", nargs="+", help="to learn from contracts (default: the 4 most frequent)"
    )
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    scale = replace(scale, seeds=options.seeds or scale.seeds)
    with tempfile.TemporaryDirectory() as scratch:
        work: Path = options.work or Path(scratch)
        corpora = {}
        for data in options.data:
            place = Place(data=data, folder=work / data.name, scale=scale)
            corpora[data.name] = measured(place, options.start, options.clause_types)
            print(json.dumps({"corpus": data.name, **corpora[data.name]}), flush=True)
    result = {
        "corpora": corpora,
        "seeds": scale.seeds,
        "quick": options.quick,
        "start": None if options.start is None else options.start.name,
        **machine.dated(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))
    return 0


def measured(
    place: Place, start: Path | None, clause_types: Sequence[str] | None
) -> dict[str, Any]:
    """Returns the figures of one corpus, whose files say which command learns from them."""
    with contextlib.suppress(HushdocError):
        contracts = labelled_texts.read_contracts(labelled_texts.find(place.data))
        return clauses(place, clause_types or frequent_types(contracts), len(contracts))
    with contextlib.suppress(HushdocError):
        return classes(place, labelled_texts.read_messages(labelled_texts.find(place.data)))
    return fields(place, start)


def fields(place: Place, start: Path | None) -> dict[str, Any]:
    """Returns the figures of a corpus of labelled pages."""
    pages = Pages.read(place)
    seconds = 0.0
    if start is None:
        start, seconds = invented_start(place)
    arms = {
        "not_private": f"--not-private {place.scale.plain}",
        "dp_eps8_document": f"{PRIVATE} --declared-documents {declared(len(pages.train))} "
        f"{place.scale.private}",
    }
    scores: dict[str, list[float]] = {arm: [] for arm in arms}
    began = shlex.quote(str(start))
    for seed in range(place.scale.seeds):
        for arm, words in arms.items():
            f1, took = pages.trained(place, f"{arm}-{seed}", began, f"{words} --seed {seed}")
            scores[arm].append(f1)
            seconds += took
    return figures(
        scores,
        public=public_start.score(start, pages.held_out),
        seconds=seconds,
        num_train=len(pages.train),
        num_held_out=len(pages.held_out),
        labels=pages.labels,
    )


@dataclass(frozen=True, kw_only=True)
class Pages:
    """A corpus of labelled pages, split as every command splits it."""

    train: list[LabelledDocument]
    held_out: list[LabelledDocument]
    labels: list[str]

    @classmethod
    def read(cls, place: Place) -> Pages:
        """Reads and splits a corpus, and prints how."""
        documents = dataset.read(dataset.Source(location=str(place.data)))
        found = splits.split(documents, held_out=HELD_OUT, traits=splits.traits_of)
        print("\n".join(found.lines()), flush=True)
        labels = sorted({span.label for item in documents for span in item.spans})
        return cls(train=list(found.train), held_out=list(found.held_out), labels=labels)

    def trained(self, place: Place, name: str, start: str, words: str) -> tuple[float, float]:
        """Trains an arm unless it is there; returns its F1 on the held-out documents and seconds.

        They are scored once: what was found is kept beside the run.
        """
        _, seconds = place.train(name, "kie", self._told(place, start, words), resumes=True)
        noted = place.folder / f"{name}.json"
        content = json.loads(noted.read_text("utf-8"))
        if "f1" not in content:
            made = kie_start.start_from(str(place.folder / name), None)
            content["f1"] = training.evaluate(made, self.held_out).f1
            noted.write_text(json.dumps(content), "utf-8")
        print(f"{place.folder / name}: F1 {content['f1']:.3f}", flush=True)
        return content["f1"], seconds

    def finished(self, place: Place, arm: str, start: str, words: str) -> list[float]:
        """Returns the F1 of each seed of an arm that is trained and scored in the place."""
        scores = {}
        for noted in place.folder.glob(f"{arm}-*.json"):
            content = json.loads(noted.read_text("utf-8"))
            seed = int(noted.stem.removeprefix(f"{arm}-"))
            told = self._told(place, start, f"{words} --seed {seed}")
            if "f1" in content and content.get("words", told) == told:
                scores[seed] = content["f1"]
        return [f1 for _, f1 in sorted(scores.items())]

    def _told(self, place: Place, start: str, words: str) -> str:
        """Returns the options of a training."""
        named = " ".join(f"--label {shlex.quote(label)}" for label in self.labels)
        return (
            f"--data {shlex.quote(str(place.data))} --start {start} --new-labels {named} "
            f"--held-out {HELD_OUT} --public-overlap none {words} --quiet"
        )


def invented_start(place: Place) -> tuple[Path, float]:
    """Returns a start that was pretrained on invented pages like those of the corpus."""
    corpus = dataset.corpus_of(place.data).name
    words = f"--data {INVENTED.get(corpus, 'invented:invoice+receipt')} --public"
    more = f"--public-overlap none --box-level segment {place.scale.start} --quiet"
    _, seconds = place.train("start", "kie", f"{words} {more}", resumes=True)
    return place.folder / "start", seconds


def frequent_types(contracts: Sequence[Contract]) -> list[str]:
    """Returns the most frequent clause types."""
    counts = Counter(label for item in contracts for label in {span[0] for span in item.spans})
    return [label for label, _ in counts.most_common() if label not in NO_CLAUSES][:CLAUSE_TYPES]


def clauses(place: Place, labels: Sequence[str], num_contracts: int) -> dict[str, Any]:
    """Returns the figures of contracts: means over clause types."""
    sets = {label: [label] for label in labels}
    return tables(place, "clauses", sets, num_contracts, plain="--algorithm pa ")


def classes(place: Place, messages: Sequence[Message]) -> dict[str, Any]:
    """Returns the figures of messages: the share whose class is right."""
    labels = sorted({message.label for message in messages})
    return tables(place, "classifier", {"classes": labels}, len(messages))


def tables(
    place: Place, task: str, sets: dict[str, list[str]], num_texts: int, *, plain: str = ""
) -> dict[str, Any]:
    """Returns the figures of tables, one for each set of labels."""
    size = declared((1 - HELD_OUT) * num_texts)
    arms = {
        "not_private": f"--mode none {plain}{place.scale.table}",
        "dp_eps8_document": f"--mode dp-sgd {PRIVATE} --expected-records {size} "
        f"--public-overlap none {place.scale.private_table}",
    }
    seconds = 0.0
    by_label: dict[str, dict[str, float]] = {arm: {} for arm in arms}
    scores: dict[str, list[list[float]]] = {
        arm: [[] for _ in range(place.scale.seeds)] for arm in arms
    }
    for number, (title, labels) in enumerate(sets.items()):
        named = " ".join(f"--label {shlex.quote(label)}" for label in labels)
        for arm, words in arms.items():
            for seed in range(place.scale.seeds if arm != "not_private" else 1):
                told = (
                    f"--data {shlex.quote(str(place.data))} --held-out {HELD_OUT} {named} {words}"
                )
                printed, took = place.train(f"{arm}-{number}-{seed}", task, told)
                seconds += took
                (found,) = SHOWN[task].findall(printed)
                scores[arm][seed].append(float(found))
                print(f"{place.data.name} {arm} {title}: {found}", flush=True)
            made = [each[-1] for each in scores[arm] if each]
            by_label[arm][title] = round(statistics.fmean(made), 4)
    means = {
        arm: [statistics.fmean(each) for each in found if each] for arm, found in scores.items()
    }
    return figures(means, public=None, seconds=seconds, by_label=by_label)


def figures(
    scores: dict[str, list[float]], *, public: float | None, seconds: float, **more: Any
) -> dict[str, Any]:
    """Returns a corpus' line of JSON."""
    means = {arm: statistics.fmean(found) for arm, found in scores.items()}
    best = means["not_private"]
    return {
        "public": None if public is None else round(public, 4),
        **{arm: round(mean, 4) for arm, mean in means.items()},
        "retention": round(means["dp_eps8_document"] / best, 4) if best else None,
        "seconds": round(seconds),
        "each": {arm: [round(one, 4) for one in found] for arm, found in scores.items()},
        **more,
    }


def declared(number: float) -> int:
    """Returns a round number that a trainer would declare: two digits of it, then zeros."""
    digits = max(0, len(str(round(number))) - 2)
    return max(1, round(number / 10**digits) * 10**digits)


if __name__ == "__main__":
    sys.exit(main())
