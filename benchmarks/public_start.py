"""What each part of a public start adds, by corpus: before any training on that corpus.

    python benchmarks/public_start.py --data path/to/corpora --work runs/parts
    python benchmarks/public_start.py --data path/to/corpora --quick

`samples/public_start.py` makes every start, as a user would. For each corpus with labels in the
folder there are three, which learned nothing from it nor from pages of the same source:

    invented  labels of invented documents alone
    masked    words and boxes of the real pages that are left, then the same labels
    all       the same, then the labels of the other corpora too, with some invented ones

Each is scored, as it is, on the first documents of the corpus by the digests of their names: what
the start does not know it does not find. With --work finished starts are kept, and an interrupted
one goes on. The last line is JSON: F1 by corpus and part.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine

from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.data import dataset
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie import training

SAMPLE = Path(__file__).parents[1] / "samples" / "public_start.py"
CORPORA = ("cord", "docile", "funsd", "sroie", "wildreceipt", "xfund")
PARTS = ("invented", "masked", "all")
SHARE, QUICK_SHARE = 1.0, 0.0005
"""Of the documents that the sample takes."""

SCORED, QUICK_SCORED = 200, 5


def main() -> int:
    """Makes and scores every start, and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora's folders")
    parser.add_argument("--work", type=Path, help="keep starts here, and continue them")
    parser.add_argument("--corpus", action="append", choices=CORPORA,
                        help="score this one (default: all there are)")  # fmt: skip
    parser.add_argument("--part", action="append", choices=PARTS, help="of these (default: all)")
    parser.add_argument("--share", type=float, help=f"of the documents (default: {SHARE})")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began = time.monotonic()
    share = options.share or (QUICK_SHARE if options.quick else SHARE)
    wanted = options.corpus or [name for name in CORPORA if (options.data / name).is_dir()]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        for name in wanted:
            documents = first(options.data / name, QUICK_SCORED if options.quick else SCORED)
            found = {}
            for part in options.part or PARTS:
                start = make(options, work, share, "--parts", part, "--without", name)
                found[part] = score(start, documents)
            results[name] = {"documents": len(documents), **found}
            print(json.dumps({name: results[name]}), flush=True)
    line = {
        "f1": results,
        "share": share,
        "quick": options.quick,
        **machine.stamp(began, "torch"),
    }
    print(json.dumps(line))
    return 0


def make(options: argparse.Namespace, out: Path, share: float, *more: str) -> Path:
    """Runs the sample in a process of its own, and returns the start's folder."""
    command = [sys.executable, SAMPLE, "--data", options.data, "--out", out, "--share", share]
    command += ["--start", "small"] if options.quick else []
    with subprocess.Popen([*map(str, command), *more], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout or ():
            print(line, end="", flush=True)
    if run.returncode:
        sys.exit(f"The sample ended with exit code {run.returncode}.")
    return Path(line.removeprefix("The start is ").rstrip(".\n"))


def first(path: Path, count: int) -> list[LabelledDocument]:
    """Returns the first documents of a corpus by the digests of their names."""
    documents = dataset.read(dataset.Source(location=str(path)))
    ordered = sorted(
        documents, key=lambda item: hashlib.sha256(item.document.id.encode()).hexdigest()
    )
    return ordered[:count]


def score(folder: Path, documents: list[LabelledDocument]) -> float:
    """Returns F1 on documents, among whose labels those are found that the start knows."""
    labels = LabelSet.from_documents(documents).fields
    known = set(Checkpoint.load(folder).labels.fields) & set(labels)
    if not known:
        return 0.0
    start = kie_start.start_from(str(folder), LabelSet(fields=tuple(known)), new_labels=True)
    return round(training.evaluate(start, documents).f1, 4)


if __name__ == "__main__":
    sys.exit(main())
