"""Coincidence: a redacted term is found again because its features carry one and the same weight.

The attacker holds the table and a sentence of a training document in which one term is blacked out.
For each candidate the features that it would have at this place are looked up. Features that fired
together in few places were always updated together, so for the true term several weights are equal
or nearly so; for any other term they are strangers to one another. Where a term has one row,
because there are no pairs of tokens, it is held against the rows of the words around it, which
fired with it. `CLOSENESS` needs no more than that; `SCORE` asks how much the candidate's features
speak for the sentence's own label, which also works where noise has blurred every weight. `RANK`
compares candidates of one place with one another alone, so that it does not matter how much their
neighbours say. `TRACES` looks for what training leaves in rows even where it learned nothing:
weights of exactly zero and rows that cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.hashing import Clusters, FeatureScheme
from hushdoc_training.audit.roc import Attack, Scores, measured

CLOSENESS, SCORE, RANK = "value coincidence", "candidate score", "candidate rank"
TRACES = "candidate traces"
LEARNED = 0.5
"""Share of a term's rows that must be genuine for it to count as learned from."""

EQUAL = 1e-6
"""Relative distance below which two weights count as one and the same."""

_TINY = 1e-12
_NOBODY = ("\x00first", "\x00second")
"""Terms that no text has: what both have in common belongs to the terms around."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Puzzle:
    """A sentence of a training document with a word blacked out; the true candidate is first."""

    tokens: Sequence[str]
    place: int
    candidates: Sequence[str]
    label: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Guesses:
    """Scores of all candidates, the higher the likelier, which is true, and whose puzzle it is."""

    scores: Scores
    true: npt.NDArray[np.bool_]
    puzzle: npt.NDArray[np.int64]

    def attack(self, method: str) -> Attack:
        """Returns the rates of an attack over all candidates; those of a puzzle are a cluster."""
        return measured(
            method,
            self.scores[self.true],
            self.scores[~self.true],
            clusters=(self.puzzle[self.true], self.puzzle[~self.true]),
        )

    def of(self, puzzles: npt.NDArray[np.int64]) -> Guesses:
        """Returns the guesses at some of the puzzles."""
        own = np.isin(self.puzzle, puzzles)
        return Guesses(scores=self.scores[own], true=self.true[own], puzzle=self.puzzle[own])

    def standing(self) -> Guesses:
        """Returns the same guesses, each score as its deviation from the mean of its puzzle.

        The unit is the spread of the puzzle's scores. The true candidate is among them: whoever
        attacks does not know which it is.
        """
        _, own = np.unique(self.puzzle, return_inverse=True)
        counts = np.bincount(own)
        off = self.scores - (np.bincount(own, self.scores) / counts)[own]
        spread = np.sqrt(np.bincount(own, off**2) / counts)[own]
        return replace(self, scores=off / np.where(spread > 0, spread, 1.0))

    def ranks(self) -> npt.NDArray[np.float64]:
        """Returns the true candidate's rank in each puzzle: 0 is first, 1 last, .5 guessing."""
        found = []
        for number in np.unique(self.puzzle):
            own = self.puzzle == number
            others = self.scores[own & ~self.true]
            mine = self.scores[own & self.true][0]
            found.append(((others > mine).sum() + (others == mine).sum() / 2) / len(others))
        return np.array(found)


def puzzles(
    sentences: Sequence[Sequence[str]],
    labels: npt.NDArray[np.int64],
    others: Sequence[str],
    *,
    count: int,
    candidates: int,
    generator: np.random.Generator,
    eligible: Callable[[str], bool] = str.isalpha,
    outside: bool = False,
) -> list[Puzzle]:
    """Returns places in training sentences, each with the true term and `candidates` others.

    No two are about one term: their guesses would rest on the same rows, and count as one. `others`
    are drawn as often as they come; `outside` takes places in sentences of label 0 alone.
    """
    places = [
        (number, place)
        for number in np.flatnonzero((labels == 0) if outside else (labels != 0)).tolist()
        for place, token in enumerate(sentences[number])
        if token.isalpha() and eligible(token)
    ]
    order = [places[index] for index in generator.permutation(len(places))]
    # The last place that a term is entered with stays, and dictionaries keep their order.
    chosen = list({sentences[n][at].lower(): (n, at) for n, at in order}.values())[:count]
    return [
        Puzzle(
            tokens=sentences[number],
            place=place,
            candidates=_candidates(sentences[number][place], others, candidates, generator),
            label=int(labels[number]),
        )
        for number, place in chosen
    ]


def learned_from(
    puzzles: Sequence[Puzzle],
    genuine: npt.NDArray[np.bool_],
    scheme: FeatureScheme,
    clusters: Clusters | None = None,
) -> list[Puzzle]:
    """Returns the puzzles whose true term training learned from.

    A passive learner changes nothing where it was right, and of what it never learned a table can't
    tell. An average over all places would hide how much the others give away.
    """
    return [
        puzzle
        for puzzle in puzzles
        if (rows := _rows_of_candidates(puzzle, scheme, clusters)[0]).size
        and genuine[rows].mean() >= LEARNED
    ]


def _candidates(
    true: str, others: Sequence[str], count: int, generator: np.random.Generator
) -> list[str]:
    drawn = (others[index] for index in generator.integers(len(others), size=2 * count))
    different = [term for term in drawn if term.lower() != true.lower()]
    return [true, *different[:count]]


def closeness(
    weights: npt.NDArray[np.floating],
    puzzles: Sequence[Puzzle],
    scheme: FeatureScheme,
    clusters: Clusters | None = None,
) -> Guesses:
    """Returns how close the weights of each candidate's features are to one another.

    The score is how many neighbours among the sorted weights are equal to a millionth, and between
    candidates with as many, minus the median distance of neighbours; distances are in units of the
    weights' own size, so that small weights, which lie close anyway, gain nothing. Where terms have
    a row each, it is how many rows of the rest of the sentence equal the candidate's, and then
    minus the distance of the nearest.
    """
    if scheme.bigrams or scheme.skip_grams:
        return _guessed(weights, puzzles, scheme, clusters, _closeness)
    return _in_company(weights, puzzles, scheme, clusters)


def candidate_scores(
    weights: npt.NDArray[np.floating],
    puzzles: Sequence[Puzzle],
    scheme: FeatureScheme,
    clusters: Clusters | None = None,
) -> Guesses:
    """Returns how much each candidate's features speak for the sentence's label."""
    return _guessed(weights, puzzles, scheme, clusters, _spoken)


def traces(
    weights: npt.NDArray[np.floating],
    puzzles: Sequence[Puzzle],
    scheme: FeatureScheme,
    clusters: Clusters | None = None,
) -> Guesses:
    """Returns the share of each candidate's rows that look as if training had had them.

    Of a term that training had all rows do: the weight for the label is 0, or the weights of the
    row add up to 0. Drawn weights do neither.
    """
    return _guessed(weights, puzzles, scheme, clusters, _traces)


def _traces(rows: Floats, label: int) -> float:
    if not len(rows):
        return -1.0
    cancels = np.abs(rows.sum(axis=1)) <= EQUAL * np.abs(rows).max(axis=1)
    return float((cancels | (rows[:, label] == 0)).mean())


def _closeness(rows: Floats, label: int) -> float:
    if len(rows) < 2:
        return -1.0
    ordered = np.sort(rows, axis=0)
    sizes = np.abs(ordered[1:]) + np.abs(ordered[:-1]) + _TINY
    gaps = np.diff(ordered, axis=0) / sizes
    # A relative gap is at most 1, so that it only decides between equal counts.
    # Zeros are equal wherever training changed nothing; they are what `traces` looks for.
    equal = (gaps < EQUAL) & (ordered[1:] != 0)
    return float((equal.sum(axis=0) - np.median(gaps, axis=0)).max())


def _in_company(
    weights: npt.NDArray[np.floating],
    puzzles: Sequence[Puzzle],
    scheme: FeatureScheme,
    clusters: Clusters | None,
) -> Guesses:
    """Returns how close each candidate's row is to those of the rest of its sentence."""
    rest = [[*p.tokens[: p.place], *p.tokens[p.place + 1 :]] for p in puzzles]
    around = hashing.features(rest, scheme, clusters)

    def judge(number: int, rows: npt.NDArray[np.int32], label: int) -> float:
        others = np.setdiff1d(around.rows_of(number), rows)
        return _company(weights[rows].astype(float), weights[others].astype(float), label)

    return _judged(puzzles, scheme, clusters, judge)


def _company(own: Floats, others: Floats, label: int) -> float:
    if not len(own) or not len(others):
        return -1.0
    mine, theirs = own[:, None, label], others[None, :, label]
    gaps = np.abs(mine - theirs) / (np.abs(mine) + np.abs(theirs) + _TINY)
    equal = (gaps < EQUAL) & (mine != 0)
    return float(equal.sum() - gaps.min())


def _spoken(rows: Floats, label: int) -> float:
    return float((rows[:, label] - np.delete(rows, label, axis=1).mean(axis=1)).sum())


def _guessed(
    weights: npt.NDArray[np.floating],
    puzzles: Sequence[Puzzle],
    scheme: FeatureScheme,
    clusters: Clusters | None,
    judge: Callable[[Floats, int], float],
) -> Guesses:
    def by_weights(number: int, rows: npt.NDArray[np.int32], label: int) -> float:
        return judge(weights[rows].astype(np.float64), label)

    return _judged(puzzles, scheme, clusters, by_weights)


def _judged(
    puzzles: Sequence[Puzzle],
    scheme: FeatureScheme,
    clusters: Clusters | None,
    judge: Callable[[int, npt.NDArray[np.int32], int], float],
) -> Guesses:
    scores, true, owner = [], [], []
    for number, puzzle in enumerate(puzzles):
        for place, rows in enumerate(_rows_of_candidates(puzzle, scheme, clusters)):
            scores.append(judge(number, rows, puzzle.label))
            true.append(place == 0)
            owner.append(number)
    return Guesses(scores=np.array(scores), true=np.array(true), puzzle=np.array(owner))


@lru_cache(maxsize=2048)
def _rows_of_candidates(
    puzzle: Puzzle, scheme: FeatureScheme, clusters: Clusters | None
) -> list[npt.NDArray[np.int32]]:
    """Returns the rows that each candidate adds to those around it; all attacks share the cache."""
    if scheme.level != "sentence":
        raise ValueError(f"The scheme's items are {scheme.level}s; this attack reads sentences.")
    reach = hashing.MAX_SKIPPED + 1
    before = list(puzzle.tokens[max(0, puzzle.place - reach) : puzzle.place])
    after = list(puzzle.tokens[puzzle.place + 1 : puzzle.place + 1 + reach])
    terms = [*puzzle.candidates, *_NOBODY]
    found = hashing.features([[*before, term, *after] for term in terms], scheme, clusters)
    first, second = (found.rows_of(len(terms) - number) for number in (1, 2))
    around = np.intersect1d(first, second, assume_unique=True)
    return [
        np.setdiff1d(found.rows_of(number), around, assume_unique=True)
        for number in range(len(puzzle.candidates))
    ]
