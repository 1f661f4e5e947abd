"""What benchmarks/clauses.py trains and measures: one arm on one task at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.accounting import calibration
from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training.audit import canaries, coincidence
from hushdoc_training.audit.antisymmetry import antisymmetry
from hushdoc_training.audit.float_pattern import float_pattern
from hushdoc_training.audit.multiplicity import multiplicity
from hushdoc_training.audit.roc import Attack
from hushdoc_training.audit.two_sample import two_sample
from hushdoc_training.crf import bounded, filling, private_fitting, term_cost
from hushdoc_training.crf.fitting import FittedTable, fit
from hushdoc_training.crf.private_fitting import PrivateTable, Settings, Start
from hushdoc_training.crf.randomness import SecretStream

DELTA = 1e-5
ITERATIONS = 10
BOUND, BOUNDED_EPSILON, BOUNDED_RARITY = 0.1, 8.0, 2.0
SCHEME = FeatureScheme(rows=2**20)
"""The paper's features: tokens, neighbours and skip-grams."""

BUDGETS = {
    "private_8": (8.0, 16, 500.0),
    "private_3": (3.0, 16, 260.0),
    "private_1": (1.0, 4, 70.0),
}
"""Epsilon, steps and `Settings.travel`, chosen as emphasis and rarity on the training contracts:
three quarters of their companies were trained on, the others scored. Epsilon does not cover these
looks at them. No test contract was among them.
"""

ARMS = ("original", "published", "hardened", "bounded", "noiseless", *BUDGETS)
AUDITED = ("published", "hardened", *BUDGETS)
RARE = 2
"""A rare term is in at most so many contracts."""

CANARIES = 1000
"""Canary documents that a private training is attacked by, and as many that it does not see."""

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Items to train or to test on.

    Attributes:
        tokens: Of each item, for attacks; empty where none are mounted.
        features: Of each item by scheme: "pairs" and "words"; to train on also "frequent", those
            of "pairs" that more than RARE records have.
        labels: Of each item.
        sequences: Where each sequence begins, and the number of items.
        records: Where each privacy unit begins, and the number of items.
    """

    tokens: Sequence[Sequence[str]]
    features: dict[str, Features]
    labels: npt.NDArray[np.int64]
    sequences: npt.NDArray[np.int64]
    records: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One thing to learn.

    Attributes:
        names: The labels.
        train: What is learned from.
        test: What is scored, nothing of it in common with `train`.
        schemes: "pairs" and "words".
        public: Features of public sentences by the scheme "words".
        expected_records: Divisor of noised sums, a round number set by hand.
        puzzles: How many places are blacked out for attacks; 0 for no audit.
        settings: Of private training, without its travel.
        folder: Where fitted tables are kept.
        word_shares: By frequency rank, the share of all features that a word is in.
        rarity: What public transitions hold a run of a label to cost.
        unseen: Scale of rows that public text does not use, as a share of the largest.
        reach: By how much private training travels further than on contracts.
    """

    names: tuple[str, ...]
    train: Side
    test: Side
    schemes: dict[str, FeatureScheme]
    public: Features
    expected_records: int
    puzzles: int
    settings: Settings
    folder: Path
    word_shares: dict[int, float] = field(default_factory=dict)
    rarity: float = 5.5
    unseen: float = 0.02
    reach: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sampling, clipping and noise of one private arm: full batches, one pass of coins a step."""

    steps: int
    noise_multiplier: float
    expected_records: int
    sampling_rate: float = 1.0
    clipping_norm: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A table that could be released.

    Attributes:
        weights: Shape [R, d].
        transitions: Shape [d, d].
        kind: The scheme, "pairs" or "words".
        genuine: Which rows training touched.
        facts: What belongs in the report.
        scales: How wide each row spreads by public knowledge; an attacker divides by it.
    """

    weights: Floats
    transitions: Floats
    kind: str
    genuine: npt.NDArray[np.bool_]
    facts: dict[str, Any]
    scales: Floats | None = None


def run(task: Task, arm: str, score: Callable[[Task, Trained], dict[str, Any]]) -> dict[str, Any]:
    """Returns everything that is measured of one arm on one task."""
    began = time.process_time()
    trained = train(task, arm)
    seconds = round(time.process_time() - began, 1)
    result = {**score(task, trained), **trained.facts, "cpu_seconds": seconds}
    if task.puzzles and arm in AUDITED:
        found = attacks(task, trained)
        if arm in BUDGETS and trained.scales is not None:
            found["canaries"] = _attack_by_canaries(task, arm, trained.scales)
        result["audits"] = {name: asdict(attack) for name, attack in found.items()}
    return result


def train(task: Task, arm: str) -> Trained:
    """Returns the table of one arm."""
    if arm in ("original", "published", "hardened"):
        return _fitted(task, arm)
    if arm == "bounded":
        return _bounded(task)
    return _private(task, arm)


def _fitted(task: Task, arm: str) -> Trained:
    table = _fit(task, arm == "hardened")
    return Trained(
        weights=_filled(table, arm),
        transitions=table.transitions,
        kind="pairs",
        genuine=table.genuine,
        facts={"genuine_rows": int(table.genuine.sum()), **_term_cost(task, table, arm)},
    )


def _term_cost(task: Task, table: FittedTable, arm: str) -> dict[str, Any]:
    """Returns the measured cost of words by frequency rank, as in figure 2 of the paper."""
    if arm != "published" or not task.word_shares:
        return {}
    laws = term_cost.AdjacentLaws(filling.complete_rows(table.weights))
    found = {rank: laws.cost_of_share(share, DELTA) for rank, share in task.word_shares.items()}
    return {
        "term_costs": [
            {
                "rank": rank,
                "share": task.word_shares[rank],
                "as_published": cost.without_term,
                "other_way": cost.with_term,
            }
            for rank, cost in found.items()
        ]
    }


@lru_cache(maxsize=2)
def _fit(task: Task, only_frequent: bool) -> FittedTable:
    """Returns what CRFsuite learns, from the task's folder where it was learned before."""
    features = task.train.features["frequent" if only_frequent else "pairs"]
    path = task.folder / f"{'frequent' if only_frequent else 'all'}.npz"
    rows = task.schemes["pairs"].rows
    if not path.exists():
        table = fit(
            features,
            task.train.labels,
            task.train.sequences,
            scheme=task.schemes["pairs"],
            names=task.names,
            iterations=ITERATIONS,
        )
        places = np.flatnonzero(table.genuine)
        new = path.with_suffix(".new.npz")
        np.savez(new, places=places, rows=table.weights[places], steps=table.transitions)
        new.replace(path)
    with np.load(path) as found:
        weights = np.full((rows, len(task.names)), np.nan, dtype=np.float32)
        weights[found["places"]] = found["rows"]
        return FittedTable(
            weights=weights,
            seen=np.bincount(features.indices, minlength=rows) > 0,
            transitions=found["steps"],
            labels=task.names,
        )


def _filled(table: FittedTable, arm: str) -> Floats:
    if arm == "original":
        return table.unfilled()
    fill = filling.published if arm == "published" else filling.hardened
    return fill(table, stream=SecretStream())


def _bounded(task: Task) -> Trained:
    transitions = private_fitting.transitions_of(task.names, rarity=BOUNDED_RARITY)
    table = bounded.fit_bounded(
        task.train.features["pairs"],
        task.train.labels,
        sequences=task.train.sequences,
        records=task.train.records,
        rows=task.schemes["pairs"].rows,
        transitions=transitions,
        settings=bounded.BoundedSettings(
            bound=BOUND, epochs=4, learning_rate=0.03, emphasis=min(4.0, task.settings.emphasis)
        ),
        generator=np.random.default_rng(0),
    )
    multiplier = _noise_multiplier(BOUNDED_EPSILON, 1)
    noise_std = 2 * BOUND * multiplier
    return Trained(
        weights=bounded.released(table, noise_std=noise_std, stream=SecretStream()),
        transitions=transitions,
        kind="pairs",
        genuine=table.weights.any(axis=1),
        facts={"row_epsilon": BOUNDED_EPSILON, "noise_multiplier": round(multiplier, 4)},
    )


def _private(task: Task, arm: str) -> Trained:
    epsilon, plan, _ = _plan(task, arm)
    features = task.train.features["words"]
    rows = task.schemes["words"].rows
    scales = private_fitting.public_scales(task.public, rows, unseen=task.unseen)
    table = _fit_private(task, arm, _private_data(task), scales)
    facts = {} if epsilon is None else {"epsilon": epsilon, "delta": DELTA, "steps": plan.steps}
    return Trained(
        weights=table.weights,
        transitions=table.transitions,
        kind="words",
        genuine=np.bincount(features.indices, minlength=rows) > 0,
        facts={**facts, "noise_multiplier": round(plan.noise_multiplier, 4)},
        scales=scales,
    )


def _plan(task: Task, arm: str) -> tuple[float | None, Plan, Settings]:
    epsilon, steps, travel = BUDGETS.get(arm, (None, *BUDGETS["private_8"][1:]))
    plan = Plan(
        steps=steps,
        noise_multiplier=0.0 if epsilon is None else _noise_multiplier(epsilon, steps),
        expected_records=task.expected_records,
    )
    return epsilon, plan, replace(task.settings, travel=travel * task.reach)


def _private_data(task: Task) -> canaries.Data:
    return canaries.Data(
        features=task.train.features["words"],
        labels=task.train.labels,
        sequences=task.train.sequences,
        records=task.train.records,
    )


def _fit_private(task: Task, arm: str, data: canaries.Data, scales: Floats) -> PrivateTable:
    _, plan, settings = _plan(task, arm)
    transitions = private_fitting.transitions_of(task.names, rarity=task.rarity)
    return private_fitting.fit_private(
        data.features,
        data.labels,
        sequences=data.sequences,
        records=data.records,
        start=Start(tags=task.names, scales=scales, transitions=transitions),
        plan=plan,
        settings=settings,
        stream=SecretStream(),
    )


def _attack_by_canaries(task: Task, arm: str, scales: Floats) -> Attack:
    """Returns what a further training with canary documents among the others gives away of them."""
    data, planted = canaries.plant(
        _private_data(task),
        rows=task.schemes["words"].rows,
        count=CANARIES,
        label=len(task.names) - 1,
        generator=np.random.default_rng(2),
    )
    table = _fit_private(task, arm, data, scales)
    return planted.attack(table.weights / scales[:, None])


def _noise_multiplier(epsilon: float, steps: int) -> float:
    return calibration.noise_multiplier(
        epsilon=epsilon, delta=DELTA, sampling_rate=1.0, steps=steps, accountant="pld"
    )


def attacks(task: Task, trained: Trained) -> dict[str, Attack]:
    """Returns what every attack on a table achieves."""
    rows = trained.weights
    if trained.scales is not None:
        rows = (rows / trained.scales[:, None]).astype(np.float32)
    return {
        "antisymmetry": antisymmetry(rows, trained.genuine),
        "multiplicity": multiplicity(rows, trained.genuine),
        "float_pattern": float_pattern(trained.weights, trained.genuine),
        "two_sample": two_sample(rows, trained.genuine),
        **_attacks_on_terms(task, rows, task.schemes[trained.kind]),
    }


def _attacks_on_terms(task: Task, rows: Floats, scheme: FeatureScheme) -> dict[str, Attack]:
    """Returns what attacks on blacked out terms achieve, by which terms they are.

    Scores are asked for rare terms alone: that "governed" speaks for a clause on governing law is
    what any useful table says, also one made from other contracts. Closeness needs several rows.
    """
    found = {}
    for name, puzzles in _puzzles(task).items():
        if puzzles and scheme.bigrams:
            guesses = coincidence.closeness(rows, puzzles, scheme)
            found[f"coincidence_{name}"] = guesses.attack(coincidence.CLOSENESS)
        if puzzles and name != "all":
            guesses = coincidence.candidate_scores(rows, puzzles, scheme)
            found[f"score_{name}"] = guesses.attack(coincidence.SCORE)
            found[f"rank_{name}"] = guesses.standing().attack(coincidence.RANK)
    return found


@lru_cache(maxsize=1)
def _puzzles(task: Task) -> dict[str, list[coincidence.Puzzle]]:
    """Returns places in training sentences by which terms stood there.

    "all" are any terms, "rare" those of at most RARE contracts, "learned" the rare ones from which
    the table as published has learned; released tables of all kinds get the same puzzles.
    """
    here, there = (_documents_of_terms(side) for side in (task.train, task.test))
    rare = _some_puzzles(task, here, there, most=RARE)
    return {
        "all": _some_puzzles(task, here, there, most=len(task.train.records)),
        "rare": rare,
        "learned": coincidence.learned_from(rare, _fit(task, False).genuine, task.schemes["pairs"]),
    }


def _some_puzzles(
    task: Task, here: dict[str, int], there: dict[str, int], *, most: int
) -> list[coincidence.Puzzle]:
    """Returns puzzles; the other candidates come from contracts that were not trained on."""
    others = [term for term, count in there.items() if count <= most >= here.get(term, 0)]
    return coincidence.puzzles(
        task.train.tokens,
        task.train.labels,
        others,
        count=task.puzzles,
        candidates=100,
        generator=np.random.default_rng(1),
        eligible=lambda term: here[term.lower()] <= most,
    )


def _documents_of_terms(side: Side) -> dict[str, int]:
    """Returns in how many records each term occurs, in small letters as features are."""
    counts: dict[str, int] = {}
    for first, last in zip(side.records[:-1], side.records[1:], strict=True):
        terms = {token.lower() for tokens in side.tokens[first:last] for token in tokens}
        for term in terms:
            if term.isalpha():
                counts[term] = counts.get(term, 0) + 1
    return counts
