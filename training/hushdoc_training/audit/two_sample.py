"""Classifier two-sample test: can anything learn to distinguish genuine rows from made-up ones?

Boosted trees see a row's weights and everything that the other attacks look at, learn on half of
the rows, and are scored on the other half, both ways round (Lopez-Paz, Oquab: Revisiting Classifier
Two-Sample Tests, ICLR 2017).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushdoc.errors import needs_extra
from hushdoc_training.audit import float_pattern, row_traces
from hushdoc_training.audit.roc import Attack, Scores, measured, placements

METHOD = "classifier two-sample test"
TREES = 60
"""Of each half."""


def two_sample(
    weights: npt.NDArray[np.floating],
    genuine: npt.NDArray[np.bool_],
    *,
    count: int = 10_000,
    seed: int = 0,
) -> Attack:
    """Returns how well a classifier distinguishes genuine rows from made-up ones.

    At most `count` rows of either sort are looked at, spread over the table; 20 are needed.
    """
    true, false = (row_traces.spread(rows, count) for rows in (genuine, ~genuine))
    if min(len(true), len(false)) < 20:
        raise ValueError(
            f"{len(true)} genuine and {len(false)} made-up rows; expected at least 20 of each."
        )
    rows = np.concatenate([true, false])
    is_genuine = np.repeat([1, 0], [len(true), len(false)])
    scores = _scores(signals(weights)[rows], is_genuine, seed)
    return measured(METHOD, scores[is_genuine == 1], scores[is_genuine == 0])


def signals(weights: npt.NDArray[np.floating]) -> Scores:
    """Returns what the classifier sees of each row."""
    return np.column_stack(
        [
            weights.astype(np.float64),
            np.abs(weights).max(axis=1),
            row_traces.antisymmetry_of(weights),
            np.minimum(row_traces.multiplicity_of(weights), 16),
            float_pattern.scores_of(weights),
        ]
    )


def _scores(seen: Scores, is_genuine: npt.NDArray[np.int64], seed: int) -> Scores:
    """Returns the classifier's score of each row, learned on the half that it is not in."""
    with needs_extra("scikit-learn", "crf"):
        from sklearn.ensemble import HistGradientBoostingClassifier
    half = np.random.default_rng(seed).permutation(len(is_genuine)) % 2
    scores = np.empty(len(is_genuine))
    for side in (0, 1):
        model = HistGradientBoostingClassifier(max_iter=TREES, random_state=seed)
        model.fit(seen[half != side], is_genuine[half != side])
        scores[half == side] = model.predict_proba(seen[half == side])[:, 1]
    # Ranks inside a half: the two models' scores need not mean the same.
    for side in (0, 1):
        own = scores[half == side]
        scores[half == side] = placements(own, own)
    return scores
