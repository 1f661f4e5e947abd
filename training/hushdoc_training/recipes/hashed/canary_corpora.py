"""Invented corpora with canaries: texts of one invented word each, of which nobody else has a row.

A canary says its word so often that its gradient is cut to the clipping norm, and all of it falls
on rows of its own. Who looks at these rows sees as much of one text as training ever shows of any.
Rows are not shared, so one training shows all canaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import corpus as corpora
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.invented import clause_contracts

Floats = npt.NDArray[np.float64]

COPIES = 64
"""How often a canary says its word, in a sentence of its own each time."""

DOCUMENTS = 40
"""Invented contracts beside the canaries."""

LABEL, CLASSES = "Governing Law", ("one class", "another")

_TRIED = 3
"""Words for one that is needed: in a small table many share their row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Canaries:
    """Words with the rows that only they have."""

    words: tuple[str, ...]
    rows: tuple[npt.NDArray[np.int32], ...]

    def scores(self, weights: npt.NDArray[np.floating], scales: Floats) -> Floats:
        """Returns how much its rows speak for the last label, each in units of its scale.

        The sum of a canary's rows weighs each as its gradient does, and has the deviation that the
        noise has in one number, so that all canaries can be compared.
        """
        found = np.empty(len(self.rows))
        for number, rows in enumerate(self.rows):
            own = weights[rows].astype(np.float64)
            margins = own[:, -1] - own[:, :-1].mean(axis=1)
            found[number] = margins.sum() / np.linalg.norm(scales[rows])
        return found


def canaries(corpus: Corpus, scheme: FeatureScheme, most: int) -> Canaries:
    """Returns words with rows that neither the corpus nor another word has, as far as there are."""
    names = clause_contracts.names(_TRIED * most, seed=3)
    found = hashing.features([[name] for name in names], scheme)
    counts = np.bincount(corpus.features(scheme).indices, minlength=scheme.rows)
    counts += np.bincount(found.indices, minlength=scheme.rows)
    alone = [(name, found.rows_of(number)) for number, name in enumerate(names)]
    chosen = [(name, rows) for name, rows in alone if (counts[rows] == 1).all()][:most]
    return Canaries(words=tuple(name for name, _ in chosen), rows=tuple(rows for _, rows in chosen))


def contracts(level: str) -> Corpus:
    """Returns invented contracts whose items are sentences or tokens."""
    make = corpora.token_corpus if level == "token" else corpora.sentence_corpus
    return make(clause_contracts.contracts(DOCUMENTS, seed=2), [LABEL])


def classes() -> Corpus:
    """Returns invented texts of two classes that their words do not distinguish."""
    found = corpora.sentence_corpus(clause_contracts.contracts(DOCUMENTS, seed=2), [])
    lengths = np.diff(found.documents)
    return Corpus(
        sentences=found.sentences,
        labels=np.repeat(np.arange(len(lengths)) % 2, lengths),
        documents=found.documents,
        owners=found.owners,
        names=CLASSES,
        level="sentence",
    )


def with_texts(corpus: Corpus, words: Sequence[str], *, whole: bool = False) -> Corpus:
    """Returns the corpus and one text for each word, all of the last label.

    Each sentence is a sequence of its own, so that transitions learn nothing from it, unless a text
    is labelled as a whole.
    """
    added = COPIES * len(words)
    step = COPIES if whole else 1
    ends = np.arange(step, added + 1, step) + len(corpus.labels)
    owners = np.arange(len(words)) + int(corpus.owners[-1]) + 1
    return Corpus(
        sentences=(*corpus.sentences, *([word] for word in words for _ in range(COPIES))),
        labels=np.append(corpus.labels, np.full(added, len(corpus.names) - 1)),
        documents=np.append(corpus.documents, ends),
        owners=np.append(corpus.owners, owners.repeat(COPIES // step)),
        names=corpus.names,
        level=corpus.level,
    )


def with_terms(words: Sequence[str], included: npt.NDArray[np.bool_]) -> Corpus:
    """Returns labelled sentences of one word each, emptied where the word is left out.

    As many sentences without a label say something else; without them no word speaks for one.
    """
    places = len(words) * COPIES
    sentences = [
        [word] if there else []
        for word, there in zip(words, included.tolist(), strict=True)
        for _ in range(COPIES)
    ]
    return Corpus(
        sentences=(*sentences, *[["headings"]] * places),
        labels=np.repeat([1, 0], places),
        documents=np.arange(2 * places + 1),
        owners=np.arange(2 * places),
        names=("O", LABEL),
        level="sentence",
    )
