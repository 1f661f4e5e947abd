"""Settings of DP-SGD for clauses, chosen on contracts that no other benchmark scores.

    python benchmarks/clause_choices.py --data path/to/cuad
    python benchmarks/clause_choices.py --quick

Nested splits: `clauses.py` scores the companies whose salted digest says so, and none of them is
read here. The others are cut into three folds, a company's contracts all in one; each candidate is
trained without a fold at epsilon 8 and scored on it, for the clause types that most contracts have.
The last candidate is what `private_runs.CLAUSES` and `private_tables` hold. Epsilon does not cover
these looks. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import clause_arms
import clauses
import machine
from clause_arms import SCHEME, Side, Task

from hushdoc.hashing import Features
from hushdoc.labels import OUTSIDE
from hushdoc_training import labelled_texts as readers
from hushdoc_training.crf.corpus import is_held_out, sentence_corpus
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import Contract
from hushdoc_training.recipes.hashed import private_runs, private_tables

FOLDS = 3
ARM = "dp_sgd_8"
WORDS = replace(SCHEME, bigrams=False, skip_grams=False)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings that can be looked at without a contract; steps and rate are those of `ARM`."""

    emphasis: float
    rarity: float
    staying: float

    def of(self, task: Task) -> Task:
        """Returns a task with these settings."""
        settings = replace(task.settings, emphasis=self.emphasis)
        return replace(task, settings=settings, rarity=self.rarity, staying=self.staying)


CANDIDATES = {
    "until now": Candidate(emphasis=8.0, rarity=5.5, staying=1.0),
    "less rare": Candidate(emphasis=8.0, rarity=1.5, staying=3.0),
    "less rare, more emphasis": Candidate(
        emphasis=private_runs.CLAUSES.emphasis,
        rarity=private_tables.RARITY,
        staying=private_tables.STAYING,
    ),
}


def main() -> int:
    """Scores the candidates and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of CUAD's train.jsonl.gz")
    parser.add_argument("--types", type=int, default=8, help="clause types")
    parser.add_argument("--folds", type=int, default=FOLDS, help="folds that are scored")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began, cpu = time.monotonic(), time.process_time()
    found: dict[str, dict[str, list[float]]] = {name: {} for name in CANDIDATES}
    with tempfile.TemporaryDirectory() as folder:
        quick = options.quick or options.data is None
        types, folds = (1, 1) if quick else (options.types, options.folds)
        for label, task in tasks(None if quick else options.data, types, folds, Path(folder)):
            for name, candidate in CANDIDATES.items():
                asked = candidate.of(task)
                score = clauses.score(asked, clause_arms.train(asked, ARM))
                found[name].setdefault(label, []).append(round(score["f1"], 4))
            print(label, {name: scores[label] for name, scores in found.items()}, flush=True)
    means = {
        name: round(mean(mean(scores) for scores in by_type.values()), 4)
        for name, by_type in found.items()
    }
    result = {
        "mean_f1": means,
        "best": max(means, key=lambda name: means[name]),
        "f1": found,
        "quick": quick,
        **machine.stamp(began),
        "cpu_seconds": round(time.process_time() - cpu),
    }
    print(json.dumps(result))
    return 0


def tasks(data: Path | None, types: int, folds: int, folder: Path) -> Iterator[tuple[str, Task]]:
    """Yields each clause type with a fold to score and the other folds to learn from."""
    if data is None:
        contracts = clause_contracts.contracts(120)
        public = [contract.text for contract in clause_contracts.contracts(40, seed=1)]
    else:
        contracts = readers.read_contracts(data / "train.jsonl.gz")
        public = list(clauses.public_texts(data.parent))
    contracts, _ = clauses.by_company(contracts, clauses.HELD_OUT, clauses.SCORED)
    background = clauses.public_features(public, WORDS)
    labels = clauses.frequent_types(contracts, types)
    for fold in range(folds):
        sides = [
            [contract for contract in contracts if (fold_of(contract) == fold) == scored]
            for scored in (False, True)
        ]
        found = [sentence_corpus(side, labels[:1]) for side in sides]
        features = [corpus.features(WORDS) for corpus in found]
        for label in labels:
            made = [
                side_of(corpus.sentences, own, corpus.documents, side, label)
                for corpus, own, side in zip(found, features, sides, strict=True)
            ]
            yield label, task_of(label, made, background, folder)


def fold_of(contract: Contract) -> int:
    """Returns the fold of a contract's company, as its salted digest decides.

    Example:
        >>> fold_of(Contract(name="1", group="Acme", text="", spans=())) in range(FOLDS)
        True
    """
    name = f"inner{contract.group}"
    return sum(not is_held_out(name, (fold + 1) / FOLDS) for fold in range(FOLDS - 1))


def side_of(
    sentences: Sequence[Sequence[str]],
    features: Features,
    documents: clause_arms.Numbers,
    contracts: Sequence[Contract],
    label: str,
) -> Side:
    """Returns contracts to learn one clause type from, or to score."""
    return Side(
        tokens=sentences,
        features={"words": features},
        labels=sentence_corpus(contracts, [label]).labels,
        sequences=documents,
        records=documents,
    )


def task_of(label: str, sides: Sequence[Side], background: Features, folder: Path) -> Task:
    """Returns a clause type as `clauses.py` has it."""
    train, test = sides
    return Task(
        names=(OUTSIDE, label),
        train=train,
        test=test,
        schemes={"words": WORDS},
        public=background,
        expected_records=clauses.FULL.expected_records,
        puzzles=0,
        settings=private_runs.CLAUSES,
        folder=folder,
    )


if __name__ == "__main__":
    raise SystemExit(main())
