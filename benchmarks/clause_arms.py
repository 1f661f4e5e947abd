"""What benchmarks/clauses.py trains and measures: one arm on one task at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.accounting import calibration
from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training.audit import coincidence
from hushdoc_training.audit.antisymmetry import antisymmetry
from hushdoc_training.audit.float_pattern import float_pattern
from hushdoc_training.audit.multiplicity import multiplicity
from hushdoc_training.audit.roc import Attack
from hushdoc_training.audit.two_sample import two_sample
from hushdoc_training.crf import bounded, filling, private_fitting, term_cost
from hushdoc_training.crf.fitting import FittedTable, fit
from hushdoc_training.crf.private_fitting import Settings, Start
from hushdoc_training.crf.randomness import SecretStream

DELTA = 1e-5
ITERATIONS = 10
BOUND, BOUNDED_EPSILON, BOUNDED_RARITY = 0.1, 8.0, 2.0
SCHEME = FeatureScheme(rows=2**20)
"""The paper's features: tokens, neighbours and skip-grams."""

PRIVATE_SCHEME = replace(SCHEME, bigrams=False, skip_grams=False)
"""Tokens alone: the fewer features an item has, the less noise reaches its score."""

BUDGETS = {"private_8": (8.0, 16, 350.0), "private_3": (3.0, 8, 180.0), "private_1": (1.0, 4, 70.0)}
"""Epsilon, steps and `Settings.travel`, chosen on a part of the training contracts."""

ARMS = ("original", "published", "hardened", "bounded", "noiseless", *BUDGETS)
AUDITED = ("published", "hardened", *BUDGETS)
RARE = 2
"""A rare term is in at most so many contracts."""

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
        word_share: The share of all features that the 100th most common word is in.
        rarity: What public transitions hold a run of a label to cost.
    """

    names: tuple[str, ...]
    train: Side
    test: Side
    schemes: dict[str, FeatureScheme]
    public: Features
    expected_records: int
    puzzles: int
    settings: Settings
    word_share: float | None = None
    rarity: float = 5.5


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
        result["audits"] = {name: asdict(attack) for name, attack in attacks(task, trained).items()}
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


def _term_cost(task: Task, table: FittedTable, arm: str) -> dict[str, float]:
    """Returns the measured cost of the 100th most common word, both ways."""
    if arm != "published" or task.word_share is None:
        return {}
    laws = term_cost.AdjacentLaws(filling.complete_rows(table.weights))
    cost = laws.cost_of_share(task.word_share, DELTA)
    return {"term_cost_as_published": cost.without_term, "term_cost_other_way": cost.with_term}


@lru_cache(maxsize=1)
def _fit(task: Task, only_frequent: bool) -> FittedTable:
    return fit(
        task.train.features["frequent" if only_frequent else "pairs"],
        task.train.labels,
        task.train.sequences,
        scheme=task.schemes["pairs"],
        names=task.names,
        iterations=ITERATIONS,
    )


def _filled(table: FittedTable, arm: str) -> Floats:
    match arm:
        case "published":
            return filling.published(table, stream=SecretStream())
        case "hardened":
            return filling.hardened(table, stream=SecretStream())
    return table.unfilled()


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
    epsilon, steps, travel = BUDGETS.get(arm, (None, *BUDGETS["private_8"][1:]))
    multiplier = 0.0 if epsilon is None else _noise_multiplier(epsilon, steps)
    features = task.train.features["words"]
    rows = task.schemes["words"].rows
    scales = private_fitting.public_scales(task.public, rows)
    table = private_fitting.fit_private(
        features,
        task.train.labels,
        sequences=task.train.sequences,
        records=task.train.records,
        start=Start(
            tags=task.names,
            scales=scales,
            transitions=private_fitting.transitions_of(task.names, rarity=task.rarity),
        ),
        plan=Plan(steps=steps, noise_multiplier=multiplier, expected_records=task.expected_records),
        settings=replace(task.settings, travel=travel),
        stream=SecretStream(),
    )
    facts = {} if epsilon is None else {"epsilon": epsilon, "delta": DELTA, "steps": steps}
    return Trained(
        weights=table.weights,
        transitions=table.transitions,
        kind="words",
        genuine=np.bincount(features.indices, minlength=rows) > 0,
        facts={**facts, "noise_multiplier": round(multiplier, 4)},
        scales=scales,
    )


def _noise_multiplier(epsilon: float, steps: int) -> float:
    return calibration.noise_multiplier(
        epsilon=epsilon, delta=DELTA, sampling_rate=1.0, steps=steps, accountant="pld"
    )


def attacks(task: Task, trained: Trained) -> dict[str, Attack]:
    """Returns what every attack on a table achieves."""
    rows = trained.weights
    if trained.scales is not None:
        rows = (rows / trained.scales[:, None]).astype(np.float32)
    found = {
        "antisymmetry": antisymmetry(rows, trained.genuine),
        "multiplicity": multiplicity(rows, trained.genuine),
        "float_pattern": float_pattern(trained.weights, trained.genuine),
        "two_sample": two_sample(rows, trained.genuine),
    }
    for name, rare in (("coincidence", False), ("coincidence_rare", True)):
        guesses = coincidence.closeness(
            trained.weights, _puzzles(task, rare), task.schemes[trained.kind]
        )
        found[name] = guesses.attack(coincidence.CLOSENESS)
    scores = coincidence.candidate_scores(
        trained.weights, _puzzles(task, True), task.schemes[trained.kind]
    )
    return {**found, "score_rare": scores.attack(coincidence.SCORE)}


def _puzzles(task: Task, rare: bool) -> list[coincidence.Puzzle]:
    """Returns places in training sentences; candidates come from contracts not trained on."""
    here, there = (_documents_of_terms(side) for side in (task.train, task.test))
    most = RARE if rare else len(task.train.records)
    others = [term for term, count in there.items() if count <= most and here.get(term, 0) <= most]
    return coincidence.puzzles(
        task.train.tokens,
        task.train.labels,
        others,
        count=task.puzzles,
        candidates=100,
        generator=np.random.default_rng(1),
        eligible=lambda term: here[term] <= most,
    )


def _documents_of_terms(side: Side) -> dict[str, int]:
    """Returns in how many records each term occurs, as it is spelled."""
    counts: dict[str, int] = {}
    for first, last in zip(side.records[:-1], side.records[1:], strict=True):
        terms = {token for tokens in side.tokens[first:last] for token in tokens}
        for term in terms:
            if term.isalpha():
                counts[term] = counts.get(term, 0) + 1
    return counts
