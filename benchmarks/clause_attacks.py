"""What benchmarks/clauses.py measures of one arm on one task: scores, and what attacks find."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import clause_arms
import numpy as np
import numpy.typing as npt
from clause_arms import AUDITED, BUDGETS, HALVES, RARE, Side, Task, Trained

from hushdoc.hashing import FeatureScheme
from hushdoc_training.audit import canaries, coincidence
from hushdoc_training.audit.coincidence import Guesses, Puzzle
from hushdoc_training.audit.float_pattern import float_pattern
from hushdoc_training.audit.roc import Attack, measured
from hushdoc_training.audit.row_traces import antisymmetry, multiplicity, zeros
from hushdoc_training.audit.two_sample import two_sample
from hushdoc_training.crf.filling import NOISY_FILL_DOCUMENTS

BLIND_BESIDE = "noisy_fill"
"""The arm beside whose attacks the guesses without any table are reported."""

CANARIES = 1000
"""Canary documents that a private training is attacked by, and as many that it does not see."""

Floats = npt.NDArray[np.floating]


def run(task: Task, arm: str, score: Callable[[Task, Trained], dict[str, Any]]) -> dict[str, Any]:
    """Returns everything that is measured of one arm on one task."""
    began = time.process_time()
    trained = clause_arms.train(task, arm)
    seconds = round(time.process_time() - began, 1)
    result = {**score(task, trained), **trained.facts, "cpu_seconds": seconds}
    if task.puzzles and arm in AUDITED:
        found = attacks(task, trained, arm)
        if arm in BUDGETS and trained.scales is not None:
            found["canaries"] = _attack_by_canaries(task, arm, trained.scales)
        if arm == BLIND_BESIDE:
            found |= _blind(task)
        result["audits"] = {name: asdict(attack) for name, attack in found.items()}
    if task.puzzles and arm in HALVES:
        control = _attacks_on_halves(task, HALVES[arm])
        result["audits"] = {name: asdict(attack) for name, attack in control.items()}
    return result


def _attack_by_canaries(task: Task, arm: str, scales: clause_arms.Doubles) -> Attack:
    """Returns what a further training with canary documents among the others gives away of them."""
    data, planted = canaries.plant(
        clause_arms.private_data(task),
        rows=task.schemes["words"].rows,
        count=CANARIES,
        label=len(task.names) - 1,
        generator=np.random.default_rng(2),
    )
    table = clause_arms.fit_private(task, arm, data, scales)
    return planted.attack(table.weights / scales[:, None])


def attacks(task: Task, trained: Trained, arm: str) -> dict[str, Attack]:
    """Returns what every attack on a table achieves."""
    rows = even_weights(trained)
    return {
        "zeros": zeros(rows, trained.genuine),
        "antisymmetry": antisymmetry(rows, trained.genuine),
        "multiplicity": multiplicity(rows, trained.genuine),
        "float_pattern": float_pattern(trained.weights, trained.genuine),
        "two_sample": two_sample(rows, trained.genuine),
        **_attacks_on_terms(task, arm, rows, task.schemes[trained.kind]),
    }


def _blind(task: Task) -> dict[str, Attack]:
    """Returns what whoever has no table achieves, who takes the word that public text has most."""
    scheme = task.schemes["words"]
    counts = np.bincount(task.public.indices, minlength=scheme.rows).astype(float)
    # A row for the sentence's label: what `candidate_scores` adds up.
    return {
        f"blind_{name}": coincidence.candidate_scores(
            np.stack([counts * (label == puzzles[0].label) for label in range(len(task.names))], 1),
            puzzles,
            scheme,
        ).attack("blind")
        for name, puzzles in _puzzles(task).items()
        if puzzles
    }


def even_weights(trained: Trained) -> Floats:
    """Returns a table in units of its rows' scales, which are public."""
    if trained.scales is None:
        return trained.weights
    return (trained.weights / trained.scales[:, None]).astype(np.float32)


def _attacks_on_terms(
    task: Task, arm: str, rows: Floats, scheme: FeatureScheme
) -> dict[str, Attack]:
    """Returns what attacks on blacked out terms achieve, by which terms they are."""
    found = {}
    for name, puzzles in _puzzles(task).items():
        if not puzzles:
            continue
        guesses = _guesses(rows, puzzles, scheme)
        for kind, numbers in _kinds(task, arm, name, puzzles).items():
            for attack, guessed in guesses.items():
                own = guessed.of(numbers) if len(numbers) < len(puzzles) else guessed
                found[f"{attack}_{kind}"] = own.attack(attack)
    return found


def _guesses(rows: Floats, puzzles: list[Puzzle], scheme: FeatureScheme) -> dict[str, Guesses]:
    scores = coincidence.candidate_scores(rows, puzzles, scheme)
    return {
        "coincidence": coincidence.closeness(rows, puzzles, scheme),
        "traces": coincidence.traces(rows, puzzles, scheme),
        "score": scores,
        "rank": scores.standing(),
    }


def _attacks_on_halves(task: Task, fill: str) -> dict[str, Attack]:
    """Returns what the table of some contracts tells of their terms, and the table of others.

    The same places and candidates are asked for with both ("own", "other"), and the scores of the
    true candidates are held against one another ("members"): that tells what comes from having
    been trained on, and not from what all such contracts say. "calibrated" does so for scores less
    those by a third table, which an attacker has made from contracts of his own. No candidate but
    the true one is a term of either half.
    """
    tables = [clause_arms.train(half, fill) for half in task.halves]
    scheme = task.schemes[tables[0].kind]
    first, second, third = (even_weights(table) for table in tables)
    there = _documents_of_terms(task.test)
    everywhere = _documents_of_terms(task.train)
    strangers = {term: count for term, count in there.items() if term not in everywhere}
    found: dict[str, list[list[Guesses]]] = {}
    for half, by_whom in zip(
        task.halves, ((first, second, third), (second, first, third)), strict=False
    ):
        here, everything = _documents_of_terms(half.train), len(half.train.records)
        for name, wanted in (
            ("rare", range(1, RARE + 1)),
            ("kept", range(NOISY_FILL_DOCUMENTS, everything)),
        ):
            puzzles = _some_puzzles(half, here, strangers, wanted)
            guesses = [_guesses(rows, puzzles, scheme) for rows in by_whom]
            for kind, numbers in _kinds(half, fill, name, puzzles).items():
                for attack in guesses[0]:
                    chosen = [by_table[attack].of(numbers) for by_table in guesses]
                    found.setdefault(f"{attack}_{kind}", []).append(chosen)
    return {
        f"{name}_{whose}": attack
        for name, by_half in found.items()
        for whose, attack in _of_members(name, by_half).items()
    }


def _of_members(name: str, by_half: list[list[Guesses]]) -> dict[str, Attack]:
    own, other, third = (_together([guesses[at] for guesses in by_half]) for at in range(3))
    members, strangers, known = (one.scores[one.true] for one in (own, other, third))
    clusters = own.puzzle[own.true], other.puzzle[other.true]
    return {
        "own": own.attack(name),
        "other": other.attack(name),
        "members": measured(name, members, strangers, clusters=clusters),
        "calibrated": measured(name, members - known, strangers - known, clusters=clusters),
    }


def _together(guesses: list[Guesses]) -> Guesses:
    """Returns guesses at places of one half and of the other, as guesses at different places."""
    firsts = np.cumsum([0, *(int(one.puzzle.max(initial=-1)) + 1 for one in guesses[:-1])])
    places = [one.puzzle + first for one, first in zip(guesses, firsts, strict=True)]
    return Guesses(
        scores=np.concatenate([one.scores for one in guesses]),
        true=np.concatenate([one.true for one in guesses]),
        puzzle=np.concatenate(places),
    )


def _kinds(
    task: Task, arm: str, name: str, puzzles: list[Puzzle]
) -> dict[str, npt.NDArray[np.int64]]:
    """Returns the puzzles of each subset of terms: all of them, and those learned from."""
    kinds = {name: np.arange(len(puzzles))}
    kept = clause_arms.kind_of(task, arm if arm.startswith("noisy_fill") else clause_arms.PAIRS)
    subset = {"rare": ("learned", "pairs"), "kept": ("kept_learned", kept)}.get(name)
    if subset is not None:
        genuine = clause_arms.fitted(task, subset[1]).genuine
        scheme = task.schemes[clause_arms.scheme_of(subset[1])]
        learned = coincidence.learned_from(puzzles, genuine, scheme)
        places = {id(puzzle): number for number, puzzle in enumerate(puzzles)}
        numbers = np.array([places[id(puzzle)] for puzzle in learned], dtype=np.int64)
        kinds |= {subset[0]: numbers} if len(numbers) else {}
    return kinds


@lru_cache(maxsize=1)
def _puzzles(task: Task) -> dict[str, list[Puzzle]]:
    """Returns places in training sentences by which terms stood there.

    "all" are any terms, "rare" those of at most RARE contracts, "kept" those of so many that a
    noisy_fill table has learned from some; "outside" are such terms too, in sentences without a
    label. `_kinds` adds those that the fitted tables learned from: "learned" of the rare ones and
    "kept_learned".
    """
    here, there = (_documents_of_terms(side) for side in (task.train, task.test))
    everything = len(task.train.records)
    return {
        "all": _some_puzzles(task, here, there, range(1, everything)),
        "rare": _some_puzzles(task, here, there, range(1, RARE + 1)),
        "kept": _some_puzzles(task, here, there, range(NOISY_FILL_DOCUMENTS, everything)),
        "outside": _some_puzzles(
            task, here, there, range(NOISY_FILL_DOCUMENTS, everything), outside=True
        ),
    }


def _some_puzzles(
    task: Task,
    here: dict[str, int],
    there: dict[str, int],
    wanted: range,
    *,
    outside: bool = False,
) -> list[Puzzle]:
    """Returns puzzles; the other candidates come from contracts that were not trained on.

    For rare terms they are as rare in both. For those that training kept they are words that no
    training contract has, the most telling comparison that there is.
    """
    if wanted.start > 1:
        others = [term for term in there if term not in here]
    else:
        most = wanted.stop - 1
        others = [term for term, count in there.items() if count <= most >= here.get(term, 0)]
    return coincidence.puzzles(
        task.train.tokens,
        task.train.labels,
        others,
        count=task.puzzles,
        candidates=100,
        generator=np.random.default_rng(1),
        eligible=lambda term: here[term.lower()] in wanted,
        outside=outside,
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
