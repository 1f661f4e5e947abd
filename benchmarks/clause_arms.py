"""What benchmarks/clauses.py trains and measures: one arm on one task at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.accounting import calibration
from hushdoc.hashing import Features, FeatureScheme
from hushdoc_training.audit import canaries
from hushdoc_training.commands.table_options import CLASSIFIER_STEPS
from hushdoc_training.crf import (
    filling,
    noiseless_fitting,
    private_fitting,
    private_linear,
    term_cost,
)
from hushdoc_training.crf.fitting import FittedTable, fit, occurrences
from hushdoc_training.crf.private_fitting import PrivateTable, Settings, Start
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import private_runs, public_texts
from hushdoc_training.recipes.hashed.private_tables import RARITY, STAYING
from hushdoc_training.recipes.hashed.public_texts import PublicText
from hushdoc_training.recipes.hashed.settings import TOTAL_LEARNING_RATE

DELTA = 1e-5
ITERATIONS = 10
SCHEME = FeatureScheme(rows=2**20)
"""The paper's features: tokens, neighbours and skip-grams."""

BUDGETS = {
    "dp_sgd_8": (8.0, 16, 500.0),
    "dp_sgd_3": (3.0, 16, 260.0),
    "dp_sgd_1": (1.0, 4, 70.0),
}
"""Epsilon, steps and `Settings.total_learning_rate`, chosen on contracts that are not scored, as
emphasis and rarity (`clause_choices`). Epsilon does not cover these looks at them.
"""

ARMS = ("original", "paper_fill", "paper_fill_file", "noisy_fill", "noiseless", *BUDGETS)
FILLED = ("paper_fill", "paper_fill_file", "noisy_fill")
"""As the paper says; the same where weights that stayed zero are drawn as well, as whoever fills
CRFsuite's model file does; and ours."""

NOISES = {"noisy_fill_0": 1e-9, "noisy_fill_half": 0.5, "noisy_fill_more": 1.5, "noisy_fill_2": 2.0}
"""The noisy fill with next to no noise and with other amounts: run where --arms names them."""

PAIRS = "noisy_fill_pairs"
"""The noisy fill of a table of tokens and their pairs, learned by CRFsuite as the original."""

INVENTED = "noisy_fill_invented"
"""The noisy fill of who has no public contracts: `public_texts.without_any` scales rows."""

PRIVATE_INVENTED = "dp_sgd_8_invented"
"""DP-SGD at epsilon 8 with the same scales; scored, and not attacked again."""

VARIANTS = ("paper_fill_joint", PAIRS, INVENTED, *NOISES)
"""Other ways to fill, not among ARMS: "paper_fill_joint" draws all labels of a row together."""

HALVES = {
    "noisy_fill_halves": "noisy_fill",
    "pairs_halves": PAIRS,
    "paper_fill_halves": "paper_fill",
}
"""The control: two tables, each of half the contracts. What one tells of the other's contracts is
what such contracts have in common. Run where --arms names them."""

AUDITED = (*FILLED, *VARIANTS, *BUDGETS)
RARE = 2
"""A rare term is in at most so many contracts."""

Floats = npt.NDArray[np.floating]
Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Items to train or to test on.

    Attributes:
        tokens: Of each item, for attacks; empty where none are mounted.
        features: Of each item by scheme: "pairs" and "words"; to train on also "frequent" and
            "frequent_pairs", those that enough records have for a noisy fill.
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
        settings: Of private training, without its total_learning_rate.
        folder: Where fitted tables are kept.
        word_shares: By frequency rank, the share of all features that a word is in.
        rarity: What public transitions hold a run of a label to cost.
        staying: And each further item of it.
        unseen_scale: Scale of rows that public text does not use, as a share of the largest.
        reach: By how much private training travels further than on contracts.
        noisy_fill: From which features a noisy fill is learned: "frequent", words scaled by public
            text, in batches; or "frequent_pairs", by CRFsuite.
        classes: Whether items are whole texts, which private tables learn as `hushdoc train
            classifier` does by default: settings of its own, rows scaled by private counts.
        halves: The same with half the contracts to train on, with the other half, and with those
            that are scored: an attacker's own table.
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
    rarity: float = RARITY
    staying: float = STAYING
    unseen_scale: float = 0.02
    reach: float = 1.0
    noisy_fill: str = "frequent"
    classes: bool = False
    halves: tuple[Task, ...] = ()


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
        kind: Of the scheme, as `scheme_of` has it.
        genuine: Which rows training had or learned, and the fill did not make up.
        facts: What belongs in the report.
        scales: How wide each row spreads by public knowledge; an attacker divides by it.
    """

    weights: Floats
    transitions: Floats
    kind: str
    genuine: npt.NDArray[np.bool_]
    facts: dict[str, Any]
    scales: Doubles | None = None


def train(task: Task, arm: str) -> Trained:
    """Returns the table of one arm."""
    if arm in HALVES:
        return _fitted(task.halves[0], HALVES[arm])
    if arm in ("original", *FILLED, *VARIANTS):
        return _fitted(task, arm)
    if arm == PRIVATE_INVENTED:
        return _private(task, "dp_sgd_8", scales_of(task, "frequent_invented"))
    return _private(task, arm, scales_of(task))


def _fitted(task: Task, arm: str) -> Trained:
    kind = kind_of(task, arm)
    table = fitted(task, kind)
    scales = None if scheme_of(kind) == "pairs" else scales_of(task, kind)
    return Trained(
        weights=_filled(table, arm, scales),
        transitions=table.transitions,
        kind=scheme_of(kind),
        genuine=np.asarray(table.seen.any(axis=1))
        if arm in ("paper_fill", "paper_fill_joint")
        else table.genuine,
        facts={"genuine_rows": int(table.genuine.sum()), **_term_cost(task, table, arm)},
        scales=scales,
    )


def _term_cost(task: Task, table: FittedTable, arm: str) -> dict[str, Any]:
    """Returns the measured cost of words by frequency rank, as in figure 2 of the paper."""
    if arm != "paper_fill" or not task.word_shares:
        return {}
    costs = term_cost.AdjacentDistributions(filling.complete_rows(table.realized))
    found = {rank: costs.cost_of_share(share, DELTA) for rank, share in task.word_shares.items()}
    return {
        "term_costs": [
            {
                "rank": rank,
                "share": task.word_shares[rank],
                "as_paper_fill": cost.without_term,
                "other_way": cost.with_term,
            }
            for rank, cost in found.items()
        ]
    }


def kind_of(task: Task, arm: str) -> str:
    """Returns which features the table of an arm is fitted to."""
    if arm in (PAIRS, INVENTED):
        return "frequent_pairs" if arm == PAIRS else "frequent_invented"
    return task.noisy_fill if arm.startswith("noisy_fill") else "pairs"


def scheme_of(kind: str) -> str:
    """Returns the scheme of a kind of features: "pairs" or "words"."""
    return "pairs" if kind.endswith("pairs") else "words"


def scales_of(task: Task, kind: str = "frequent") -> Doubles:
    """Returns how loud each row of a table of words may be, by public or by invented text."""
    scheme = task.schemes["words"]
    if kind == "frequent_invented":
        own = _without_any(scheme)
        return private_fitting.public_scales(
            own.features, scheme.rows, unseen_scale=own.unseen_scale
        )
    return private_fitting.public_scales(task.public, scheme.rows, unseen_scale=task.unseen_scale)


@lru_cache(maxsize=1)
def _without_any(scheme: FeatureScheme) -> PublicText:
    """Returns what `hushdoc train clauses` takes where it is given no public text."""
    return public_texts.without_any(scheme, words="none")


@lru_cache(maxsize=2)
def fitted(task: Task, kind: str) -> FittedTable:
    """Returns what is learned, from the task's folder where it was learned before."""
    features = _features_of(task, kind)
    path = task.folder / f"{'all' if kind == 'pairs' else kind}.npz"
    rows = task.schemes[scheme_of(kind)].rows
    if not path.exists():
        table = _learned(task, kind)
        places = np.flatnonzero(table.genuine)
        new = path.with_suffix(".new.npz")
        np.savez(new, places=places, rows=table.weights[places], steps=table.transitions)
        new.replace(path)
    with np.load(path) as found:
        weights = np.full((rows, len(task.names)), np.nan, dtype=np.float32)
        weights[found["places"]] = found["rows"]
        return FittedTable(
            weights=weights,
            seen=occurrences(features, task.train.labels, rows=rows, columns=len(task.names)),
            transitions=found["steps"],
            labels=task.names,
        )


def _features_of(task: Task, kind: str) -> Features:
    return task.train.features[kind.removesuffix("_invented")]


def _learned(task: Task, kind: str) -> FittedTable:
    features = _features_of(task, kind)
    if kind.endswith("pairs"):
        return fit(
            features,
            task.train.labels,
            task.train.sequences,
            scheme=task.schemes["pairs"],
            names=task.names,
            iterations=ITERATIONS,
        )
    return noiseless_fitting.fit_without_noise(
        features,
        task.train.labels,
        sequences=task.train.sequences,
        records=task.train.records,
        start=Start(
            tags=task.names,
            scales=scales_of(task, kind),
            transitions=private_fitting.transitions_of(task.names),
        ),
        settings=Settings(total_learning_rate=TOTAL_LEARNING_RATE),
    )


def _filled(table: FittedTable, arm: str, scales: Doubles | None) -> Floats:
    if arm == "original":
        return table.unfilled()
    if arm.startswith("noisy_fill"):
        usual = filling.NOISE if scales is None else filling.SCALED_NOISE
        noise = NOISES.get(arm, usual)
        return filling.noisy_fill(table, stream=SecretStream(), noise=noise, scales=scales)
    family = "joint-normal" if arm == "paper_fill_joint" else "normals"
    drawn = arm == "paper_fill_file"
    return filling.paper_fill(table, stream=SecretStream(), family=family, zeros_drawn=drawn)


def _private(task: Task, arm: str, scales: Doubles) -> Trained:
    epsilon, plan, _ = _plan(task, arm)
    features = task.train.features["words"]
    rows = task.schemes["words"].rows
    if task.classes:
        table = private_linear.fit_private_linear(
            features,
            task.train.labels,
            names=task.names,
            scales=rows,
            plan=plan,
            stream=SecretStream(),
            settings=replace(
                private_runs.CLASSIFIER,
                total_learning_rate=private_runs.classifier_rate(task.expected_records),
            ),
        )
    else:
        table = fit_private(task, arm, private_data(task), scales)
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
    epsilon, steps, total_learning_rate = BUDGETS.get(arm, (None, *BUDGETS["dp_sgd_8"][1:]))
    steps = CLASSIFIER_STEPS if task.classes else steps
    plan = Plan(
        steps=steps,
        noise_multiplier=0.0 if epsilon is None else noise_multiplier(epsilon, steps),
        expected_records=task.expected_records,
    )
    return (
        epsilon,
        plan,
        replace(task.settings, total_learning_rate=total_learning_rate * task.reach),
    )


def private_data(task: Task) -> canaries.Data:
    """Returns what private tables are trained on."""
    return canaries.Data(
        features=task.train.features["words"],
        labels=task.train.labels,
        sequences=task.train.sequences,
        records=task.train.records,
    )


def fit_private(task: Task, arm: str, data: canaries.Data, scales: Doubles) -> PrivateTable:
    """Returns the table of a private arm, trained on the task's data or on more."""
    _, plan, settings = _plan(task, arm)
    transitions = private_fitting.transitions_of(
        task.names, rarity=task.rarity, staying=task.staying
    )
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


def noise_multiplier(epsilon: float, steps: int) -> float:
    """Returns the noise multiplier of full batches."""
    return calibration.noise_multiplier(
        epsilon=epsilon, delta=DELTA, sampling_rate=1.0, steps=steps, accountant="pld"
    )
