"""Linear models over hashed words, whose coefficients are filled like the table of a random field.

scikit-learn's HashingVectorizer and its linear classifiers keep one coefficient for each class and
hash: a table on its side. Filling is bolted on after training ("Hash the Universe", section 3), so
the classifier is any that has `coef_`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import AnnotationError, needs_extra
from hushdoc.hashing import Features
from hushdoc_training.crf.fitting import FittedTable

Fill = Callable[[FittedTable], npt.NDArray[np.float32]]
"""Fills a table: `filling.paper_fill` or `filling.noisy_fill`, with their settings."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearModel:
    """A linear classifier over hashed words, of a column for each class, or one for two classes."""

    classes: tuple[str, ...]
    weights: npt.NDArray[np.float32]  # NaN where nothing was learned, until filled
    intercepts: npt.NDArray[np.float64]  # sums over all documents, which filling leaves as they are

    def predict(self, matrix: Any) -> list[str]:
        """Returns the class of each document."""
        table = np.nan_to_num(self.weights, nan=0.0)
        scores = matrix @ table + self.intercepts
        if scores.shape[1] == 1:
            return [self.classes[int(score > 0)] for score in scores[:, 0]]
        return [self.classes[place] for place in scores.argmax(axis=1).tolist()]

    def table(self) -> FittedTable:
        """Returns the coefficients as a table to fill."""
        columns = self.weights.shape[1]
        return FittedTable(
            weights=self.weights,
            seen=~np.isnan(self.weights),
            transitions=np.zeros((columns, columns), dtype=np.float32),
            labels=self.classes[-columns:],
        )

    def columns(self) -> npt.NDArray[np.float32]:
        """Returns a column for each class, shape [rows, classes].

        The one column of two classes says how much it speaks for the second, half of which is as
        much as half against the first.
        """
        if len(self.classes) != 2:
            return self.weights
        half = self.weights / np.float32(2)
        return np.concatenate([-half, half], axis=1)

    def filled(self, fill: Fill) -> LinearModel:
        """Returns the model with every coefficient filled."""
        return LinearModel(
            classes=self.classes, weights=fill(self.table()), intercepts=self.intercepts
        )


def hashed(texts: Sequence[str], rows: int, *, min_document_frequency: int = 1) -> Any:
    """Returns how often each row's words occur in each text, every text of length 1.

    Words of fewer texts than `min_document_frequency`, which is for texts to train on, are dropped.
    They are counted as words: by rows, a rare one would pass for frequent as soon as others
    share its row.
    """
    with needs_extra("scikit-learn", "crf"):
        from sklearn.feature_extraction.text import HashingVectorizer
    split = HashingVectorizer().build_analyzer()
    found = [split(text) for text in texts]
    counts = Counter(word for words in found for word in set(words))
    kept = [[word for word in words if counts[word] >= min_document_frequency] for words in found]
    vectorizer = HashingVectorizer(
        n_features=rows, alternate_sign=False, analyzer=lambda words: words
    )
    return vectorizer.transform(kept)


def counted(features: Features, rows: int) -> Any:
    """Returns how often each text has each row, every text of length 1."""
    with needs_extra("scikit-learn", "crf"):
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
        from sklearn.preprocessing import normalize
    ones = np.ones(len(features.indices))
    shape = features.num_items, rows
    matrix = csr_matrix((ones, features.indices, features.offsets), shape=shape)
    matrix.sum_duplicates()
    return normalize(matrix)


def fit(matrix: Any, labels: Sequence[str], *, classifier: Any = None) -> LinearModel:
    """Returns a classifier fitted to hashed documents, by default by `support_vectors`.

    Another has scikit-learn's `fit`, `coef_`, `intercept_` and `classes_`.
    """
    if len(set(labels)) < 2 or len(labels) != matrix.shape[0]:
        raise AnnotationError(
            f"{matrix.shape[0]} documents have {len(labels)} labels of {len(set(labels))} classes; "
            "expected one each, of at least two classes. Give documents of another class."
        )
    # What no document has is left out, so that it can't be told from what was not learned.
    columns = np.flatnonzero(np.asarray(matrix.getnnz(axis=0)).ravel())
    model = (classifier or support_vectors()).fit(matrix[:, columns], list(labels))
    return from_sklearn(model, columns, matrix.shape[1])


def amounts(
    matrix: Any,  # what `counted` returned
    numbers: npt.NDArray[np.int64],  # classes: columns, or of one column 0 against and 1 for it
    weights: npt.NDArray[np.float32],  # shape [rows, columns], complete
    *,
    passes: int = 5,
    most: float = 1.0,
) -> npt.NDArray[np.float32]:
    """Returns by how much a passive-aggressive learner changes weights that are there already.

    Where a document keeps its distance of 1 from the border between its class and the others,
    nothing is changed (PA-I of Crammer et al. 2006, one class against the rest, no step above
    `most`). Rows that did not change are NaN.

    Example:
        >>> found = Features(indices=np.array([0], np.int32), offsets=np.array([0, 1]))
        >>> amounts(counted(found, 2), np.array([1]), np.zeros((2, 2), np.float32)).tolist()
        [[-1.0, 1.0], [nan, nan]]
    """
    columns = np.flatnonzero(np.asarray(matrix.getnnz(axis=0)).ravel())
    inner = matrix[:, columns]
    start = weights[columns].astype(np.float64)
    own = start.copy()
    targets = np.where(np.arange(2)[:, None] == np.arange(2), 1.0, -1.0)[:, 1:]
    if weights.shape[1] > 1:
        targets = 2 * np.eye(weights.shape[1]) - 1
    # The order of documents, and no secret.
    order = np.random.default_rng(0)
    for _ in range(passes):
        for document in order.permutation(inner.shape[0]).tolist():
            part = slice(*inner.indptr[document : document + 2])
            rows, values = inner.indices[part], inner.data[part]
            target = targets[numbers[document]]
            step = np.clip(1.0 - target * (values @ own[rows]), 0.0, most)
            if step.any():
                own[rows] += np.outer(values, step * target)
    found = np.full(weights.shape, np.nan, dtype=np.float32)
    changed = (own != start).any(axis=1)
    found[columns[changed]] = (own - start)[changed]
    return found


def from_sklearn(model: Any, columns: npt.NDArray[np.intp], rows: int) -> LinearModel:
    """Returns a fitted scikit-learn classifier as a table."""
    weights = np.full((rows, model.coef_.shape[0]), np.nan, dtype=np.float32)
    weights[columns] = model.coef_.T
    # Nothing was learned about a row of zeros, and one would stand out in a filled table.
    weights[~weights.any(axis=1)] = np.nan
    return LinearModel(
        classes=tuple(str(name) for name in model.classes_),
        weights=weights,
        intercepts=np.asarray(model.intercept_, dtype=np.float64),
    )


@contextmanager
def unconverged() -> Iterator[None]:
    """Lets fits of scikit-learn end unconverged: whoever trains can do nothing about it."""
    with needs_extra("scikit-learn", "crf"):
        from sklearn.exceptions import ConvergenceWarning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def support_vectors(*, intercept: bool = True) -> Any:
    """Returns an unfitted linear support vector machine by stochastic gradients."""
    with needs_extra("scikit-learn", "crf"):
        from sklearn.linear_model import SGDClassifier
    return SGDClassifier(alpha=1e-5, random_state=0, fit_intercept=intercept)
