"""Whole texts: each is of one class, which all of its sentences share.

A table labels sentences, one after the other. Where a label may never change from one sentence to
the next (`one_class`), the best labels of a text are one and the same for all of them: that of the
largest sum over all sentences. So a linear classifier of whole texts is a table like any other, and
whatever reads tables reads it. Trained is on texts as single items, which have each row as often as
they have sentences with it: the very sum that decoding makes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from hushdoc.errors import AnnotationError
from hushdoc.hashing import Features, segmentation
from hushdoc.labels import OUTSIDE
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.labelled_texts import ClassifiedText

FORBIDDEN = -1e6
"""Score of a change of label: more than a table's weights could ever outweigh."""

FEATURES = 128
"""About how many rows of a text matter; a constant by which scales are made small."""

LEAST_TEXTS, FLOOR = 3, 0.02
"""Public texts that must have a row for its rarity to be estimated; least scale of such a row."""


def class_corpus(
    texts: Iterable[ClassifiedText], names: Sequence[str], *, wordless: bool = False
) -> Corpus:
    """Returns the sentences of texts, each with the class of its text as label.

    Texts without a word say nothing, and are left out unless `wordless` ones count: where a term is
    protected, the number of texts may not tell that one held nothing else. A class must have a name
    other than "O".
    """
    columns = _columns(names)
    sentences: list[Sequence[str]] = []
    labels: list[int] = []
    ends = [0]
    for text in texts:
        if text.label not in columns:
            continue
        places = segmentation.sentences(text.text)
        found = [segmentation.words(text.text, *place) for place in places]
        if any(found) or wordless:
            found = found or [[]]
            sentences += found
            labels += [columns[text.label]] * len(found)
            ends.append(len(labels))
    return Corpus(
        sentences=tuple(sentences),
        labels=np.array(labels, dtype=np.int64),
        documents=np.array(ends, dtype=np.int64),
        owners=np.arange(len(ends) - 1),
        names=tuple(columns),
        level="sentence",
        wordless=wordless,
    )


def whole(features: Features, corpus: Corpus) -> Features:
    """Returns the features of texts as single items, each row as often as sentences have it.

    Example:
        >>> texts = class_corpus([], ["a", "b"])
        >>> none = Features(indices=np.zeros(0, np.int32), offsets=np.zeros(1, np.int64))
        >>> whole(none, texts).num_items
        0
    """
    return Features(indices=features.indices, offsets=features.offsets[corpus.documents])


def classes(corpus: Corpus) -> npt.NDArray[np.int64]:
    """Returns the number of each text's class."""
    found: npt.NDArray[np.int64] = corpus.labels[corpus.documents[:-1]]
    return found


def tokens(corpus: Corpus) -> list[list[str]]:
    """Returns the tokens of each text of a corpus that `class_corpus` made."""
    ends = corpus.documents.tolist()
    return [
        [token for sentence in corpus.sentences[first:last] for token in sentence]
        for first, last in itertools.pairwise(ends)
    ]


def one_class(names: Sequence[str]) -> npt.NDArray[np.float32]:
    """Returns transitions by which all sentences of a text have one label; they are no secret.

    Example:
        >>> one_class(["distribution", "sea"]).tolist()
        [[0.0, -1000000.0], [-1000000.0, 0.0]]
    """
    made = np.full((len(names), len(names)), FORBIDDEN, dtype=np.float32)
    np.fill_diagonal(made, 0.0)
    return made


def rarity_scales(public: Features, rows: int, *, unseen_scale: float) -> npt.NDArray[np.float64]:
    """Returns scales of rows for DP-SGD from whole public texts alone: how rare each row is there.

    Words that every text has say nothing of its class, and most of every text is such words: where
    rows counted alike, little else would fit under the clipping norm. Rows that hardly any public
    text uses have `unseen_scale` of the largest: 1 where the public texts differ in nature, less
    where what they lack is noise.

    Example:
        >>> texts = Features(indices=np.array([0, 0, 1] * 9, np.int32), offsets=np.arange(0, 28, 3))
        >>> (rarity_scales(texts, 3, unseen_scale=1.0) * FEATURES**0.5).round(2).tolist()
        [0.02, 0.02, 1.0]
    """
    owners = np.repeat(np.arange(public.num_items), np.diff(public.offsets))
    pairs = np.unique(owners * rows + public.indices)
    counts = np.bincount(pairs % rows, minlength=rows)
    rarity = np.log((public.num_items + 1) / (counts + 1))
    known = counts >= LEAST_TEXTS
    largest = max(float(rarity[known].max(initial=0.0)), 1e-9)
    scales = np.where(known, np.maximum(rarity / largest, FLOOR), unseen_scale)
    return np.asarray(scales * FEATURES**-0.5, dtype=np.float64)


def _columns(names: Sequence[str]) -> dict[str, int]:
    for name in names:
        if not name.strip() or name == OUTSIDE:
            raise AnnotationError(
                f"A class of texts is called {name[:40]!a}; expected a name other than "
                f"'{OUTSIDE}', which stands for no label. Rename it in the data."
            )
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
