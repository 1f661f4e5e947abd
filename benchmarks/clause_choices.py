"""Settings of DP-SGD for clauses, chosen on contracts that no other benchmark scores.

    python benchmarks/clause_choices.py --data path/to/cuad
    python benchmarks/clause_choices.py --quick

Nested splits: `clauses.py` scores the companies whose salted digest says so, and none of them is
read here. The others are cut into three folds, a company's contracts all in one; each candidate is
trained without a fold and scored on it, for the clause types that most contracts have: at epsilon
8, or by another `--arm`, without public contracts or without noise. TAKEN is what
`private_runs.CLAUSES` and `private_tables` hold; "with pairs" also learns from neighbouring tokens,
those pairs scaled like words that public contracts have. Epsilon does not cover these looks. The
last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import clause_arms
import clauses
import machine
from clause_arms import SCHEME, Side, Task

from hushdoc.hashing import Features, FeatureScheme
from hushdoc.labels import OUTSIDE
from hushdoc_training import labelled_texts as readers
from hushdoc_training.crf.corpus import is_held_out, sentence_corpus
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import Contract
from hushdoc_training.recipes.hashed import private_runs, private_tables

FOLDS = 3
ARMS = ("dp_sgd_8", clause_arms.PRIVATE_INVENTED, "noiseless")
WORDS = replace(SCHEME, bigrams=False, skip_grams=False)
PAIRS = replace(SCHEME, skip_grams=False)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings that can be looked at without a contract; steps and rate are those of the arm."""

    emphasis: float
    rarity: float
    staying: float
    scheme: FeatureScheme = WORDS

    def of(self, task: Task) -> Task:
        """Returns a task with these settings."""
        settings = replace(task.settings, emphasis=self.emphasis)
        return replace(task, settings=settings, rarity=self.rarity, staying=self.staying)


TAKEN = Candidate(
    emphasis=private_runs.CLAUSES.emphasis,
    rarity=private_tables.RARITY,
    staying=private_tables.STAYING,
)
CANDIDATES = {
    "until now": Candidate(emphasis=8.0, rarity=5.5, staying=1.0),
    "less rare": Candidate(emphasis=8.0, rarity=1.5, staying=3.0),
    "less rare, more emphasis": TAKEN,
    "with pairs": replace(TAKEN, scheme=PAIRS),
}


def main() -> int:
    """Scores the candidates and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of CUAD's train.jsonl.gz")
    parser.add_argument("--types", type=int, default=8, help="clause types")
    parser.add_argument("--folds", type=int, default=FOLDS, help="folds that are scored")
    parser.add_argument("--arm", choices=ARMS, default=ARMS[0], help="how it is trained")
    parser.add_argument(
        "--candidates", nargs="+", choices=CANDIDATES, default=[*CANDIDATES], help="only these"
    )
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began, cpu = time.monotonic(), time.process_time()
    found: dict[str, dict[str, list[float]]] = {name: {} for name in options.candidates}
    with tempfile.TemporaryDirectory() as folder:
        quick = options.quick or options.data is None
        types, folds = (1, 1) if quick else (options.types, options.folds)
        schemes = {CANDIDATES[name].scheme for name in options.candidates}
        data = None if quick else options.data
        for label, made in tasks(data, types, folds, Path(folder), schemes):
            for name in options.candidates:
                candidate = CANDIDATES[name]
                asked = candidate.of(made[candidate.scheme])
                score = clauses.score(asked, clause_arms.train(asked, options.arm))
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
        "arm": options.arm,
        "quick": quick,
        **machine.stamp(began),
        "cpu_seconds": round(time.process_time() - cpu),
    }
    print(json.dumps(result))
    return 0


def tasks(
    data: Path | None, types: int, folds: int, folder: Path, schemes: Iterable[FeatureScheme]
) -> Iterator[tuple[str, dict[FeatureScheme, Task]]]:
    """Yields each clause type with a fold to score and the others to learn from, by scheme."""
    if data is None:
        contracts = clause_contracts.contracts(120)
        public = [contract.text for contract in clause_contracts.contracts(40, seed=1)]
    else:
        contracts = readers.read_contracts(data / "train.jsonl.gz")
        public = list(clauses.public_texts(data.parent))
    contracts, _ = clauses.by_company(contracts, clauses.HELD_OUT, clauses.SCORED)
    backgrounds = {scheme: clauses.public_features(public, scheme) for scheme in schemes}
    labels = clauses.frequent_types(contracts, types)
    for fold in range(folds):
        sides = [
            [contract for contract in contracts if (fold_of(contract) == fold) == scored]
            for scored in (False, True)
        ]
        found = [sentence_corpus(side, labels[:1]) for side in sides]
        features = {scheme: [corpus.features(scheme) for corpus in found] for scheme in backgrounds}
        for label in labels:
            made = {}
            for scheme, background in backgrounds.items():
                both = [
                    side_of(corpus.sentences, own, corpus.documents, side, label)
                    for corpus, own, side in zip(found, features[scheme], sides, strict=True)
                ]
                made[scheme] = task_of(label, both, background, scheme, folder)
            yield label, made


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


def task_of(
    label: str, sides: Sequence[Side], background: Features, scheme: FeatureScheme, folder: Path
) -> Task:
    """Returns a clause type as `clauses.py` has it; what is learned from goes by "words" there."""
    train, test = sides
    return Task(
        names=(OUTSIDE, label),
        train=train,
        test=test,
        schemes={"words": scheme},
        public=background,
        expected_records=clauses.FULL.expected_records,
        puzzles=0,
        settings=private_runs.CLAUSES,
        folder=folder,
    )


if __name__ == "__main__":
    raise SystemExit(main())
