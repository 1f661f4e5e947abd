"""Linear models over hashed words, whose coefficients are filled like the table of a random field.

scikit-learn's HashingVectorizer and its linear classifiers keep one coefficient for each class and
hash: a table on its side. Filling is bolted on after training ("Hash the Universe", section 3), so
the classifier is any that has `coef_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.errors import AnnotationError, MissingExtraError
from hushdoc_training.crf.fitting import FittedTable

Fill = Callable[[FittedTable], npt.NDArray[np.float32]]
"""Fills a table: `filling.published` or `filling.hardened`, with their settings."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearModel:
    """A linear classifier over hashed words.

    Attributes:
        classes: The labels, in the order of the columns.
        weights: Shape [rows, classes], or [rows, 1] for two classes; NaN where nothing was
            learned, nowhere once the table is filled.
        intercepts: Shape [classes] or [1]: sums over all documents, which filling leaves as they
            are.
    """

    classes: tuple[str, ...]
    weights: npt.NDArray[np.float32]
    intercepts: npt.NDArray[np.float64]

    def predict(self, matrix: Any) -> list[str]:
        """Returns the class of each document.

        Args:
            matrix: What `hashed` returned.
        """
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

    def filled(self, fill: Fill) -> LinearModel:
        """Returns the model with every coefficient filled.

        Args:
            fill: What to fill it with.
        """
        return LinearModel(
            classes=self.classes, weights=fill(self.table()), intercepts=self.intercepts
        )


def hashed(texts: Sequence[str], rows: int, *, least_documents: int = 1) -> Any:
    """Returns how often each row's words occur in each text, every text of length 1.

    Args:
        texts: Documents.
        rows: Of the table.
        least_documents: Words of fewer texts are dropped, which is for texts to train on. They are
            counted as words: by rows, a rare one would pass for frequent as soon as others share
            its row.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "crf") from error
    split = HashingVectorizer().build_analyzer()
    found = [split(text) for text in texts]
    counts = Counter(word for words in found for word in set(words))
    kept = [[word for word in words if counts[word] >= least_documents] for words in found]
    vectorizer = HashingVectorizer(n_features=rows, alternate_sign=False, analyzer=_as_it_is)
    return vectorizer.transform(kept)


def _as_it_is(words: Sequence[str]) -> Sequence[str]:
    return words


def fit(matrix: Any, labels: Sequence[str], *, classifier: Any = None) -> LinearModel:
    """Returns a classifier that was fitted to hashed documents.

    Args:
        matrix: What `hashed` returned.
        labels: The class of each document.
        classifier: With scikit-learn's `fit`, `coef_`, `intercept_` and `classes_`; by default a
            linear support vector machine by stochastic gradients.

    Raises:
        AnnotationError: All documents have the same label, or there is none.
        MissingExtraError: scikit-learn is not installed.
    """
    if len(set(labels)) < 2 or len(labels) != matrix.shape[0]:
        raise AnnotationError(
            f"{matrix.shape[0]} documents have {len(labels)} labels of {len(set(labels))} kinds; "
            "expected one each, of at least two kinds. Give documents of another kind."
        )
    # What no document has is left out, so that it can't be told from what was not learned.
    columns = np.flatnonzero(np.asarray(matrix.getnnz(axis=0)).ravel())
    model = (classifier or _classifier()).fit(matrix[:, columns], list(labels))
    return from_sklearn(model, columns, matrix.shape[1])


def from_sklearn(model: Any, columns: npt.NDArray[np.intp], rows: int) -> LinearModel:
    """Returns a fitted scikit-learn classifier as a table.

    Args:
        model: With `coef_`, `intercept_` and `classes_`.
        columns: The row of the table that each of its coefficients belongs to.
        rows: Of the table.
    """
    weights = np.full((rows, model.coef_.shape[0]), np.nan, dtype=np.float32)
    weights[columns] = model.coef_.T
    # Nothing was learned about a row of zeros, and one would stand out in a filled table.
    weights[~weights.any(axis=1)] = np.nan
    return LinearModel(
        classes=tuple(str(name) for name in model.classes_),
        weights=weights,
        intercepts=np.asarray(model.intercept_, dtype=np.float64),
    )


def _classifier() -> Any:
    try:
        from sklearn.linear_model import SGDClassifier
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "crf") from error
    return SGDClassifier(alpha=1e-5, random_state=0)
