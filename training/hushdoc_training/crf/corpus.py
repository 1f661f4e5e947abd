"""Corpus: labelled texts become items with features to fit on.

At the level of sentences an item is a sentence, at the level of tokens a token with a BIO tag;
`text_spans` says which label spans give them.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.errors import AnnotationError, InputError
from hushdoc.hashing import Clusters, Features, FeatureScheme, segmentation
from hushdoc.labels import OUTSIDE
from hushdoc_training import text_spans
from hushdoc_training.crf import frequency
from hushdoc_training.labelled_texts import LabelledText


class TaggedSentence(Protocol):
    """A sentence that others have cut into tokens and tagged."""

    @property
    def tokens(self) -> Sequence[str]:
        """Its words."""

    @property
    def tags(self) -> Sequence[str]:
        """A BIO tag for each."""

    @property
    def document(self) -> int:
        """The number of the document it stands in."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Labelled items of some documents.

    A sequence is labelled as a whole: a document at the level of sentences, a sentence at that of
    tokens. Sequence i has the items from `documents[i]` to `documents[i + 1]`.
    """

    sentences: tuple[Sequence[str], ...]  # the tokens of every sentence, document after document
    labels: npt.NDArray[np.int64]  # the number of each item's label
    documents: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]  # the document that each sequence is part of
    names: tuple[str, ...]  # the labels, OUTSIDE first
    level: str  # "sentence" or "token": what an item is
    names_from_documents: bool = False  # whether the documents say which labels there are
    unit: str = "document"  # what an owner is
    wordless: bool = True  # whether documents without a word count too

    @property
    def records(self) -> npt.NDArray[np.int64]:
        """Where each document begins, in items, and the number of items at the end."""
        begins = np.flatnonzero(np.diff(self.owners)) + 1
        ends: npt.NDArray[np.int64] = self.documents[[0, *begins.tolist(), -1]]
        return ends

    def sentences_of(self, first: int, last: int) -> list[Sequence[str]]:
        """Returns the sentences that hold some items, such as those of a document."""
        if self.level == "sentence":
            return list(self.sentences[first:last])
        start, stop = np.searchsorted(self.documents, [first, last]).tolist()
        return list(self.sentences[start:stop])

    def features(
        self,
        scheme: FeatureScheme,
        clusters: Clusters | None = None,
        *,
        min_document_frequency: int = 1,
    ) -> Features:
        """Returns the rows of every item; an InputError where none is in enough documents."""
        if scheme.level != self.level:
            raise ValueError(f"The items are {self.level}s, the scheme's are {scheme.level}s.")
        if min_document_frequency <= 1:
            return hashing.features(self.sentences, scheme, clusters)
        found = frequency.frequent(
            self.sentences,
            scheme,
            self.records,
            least_records=min_document_frequency,
            clusters=clusters,
        )
        if not len(found.indices):
            raise InputError(
                f"No feature is in {min_document_frequency} documents, as each has to be that is "
                "learned (min_document_frequency). Train on more documents, or ask for fewer.",
                code="TOO_FEW_ROWS",
            )
        return found


def sentence_corpus(texts: Iterable[LabelledText], names: Sequence[str]) -> Corpus:
    """Returns the sentences of texts with the labels that their spans give them.

    Raises:
        AnnotationError: A span is empty or leaves its text.
    """
    columns = _columns((OUTSIDE, *names))
    sentences: list[Sequence[str]] = []
    labels: list[int] = []
    ends = [0]
    for labelled in texts:
        spans = text_spans.spans_of(labelled, columns)
        places = segmentation.sentences(labelled.text)
        sentences += [segmentation.words(labelled.text, *place) for place in places]
        labels += [columns[label] for label in text_spans.sentence_labels(places, spans)]
        ends.append(len(labels))
    return _corpus(sentences, labels, ends, range(len(ends) - 1), columns, "sentence")


def token_corpus(texts: Iterable[LabelledText], names: Sequence[str]) -> Corpus:
    """Returns the tokens of texts with BIO tags; every sentence is a sequence of its own."""
    columns = _columns(bio_names(names))
    sentences: list[Sequence[str]] = []
    labels: list[int] = []
    ends, owners = [0], list[int]()
    for document, labelled in enumerate(texts):
        spans = text_spans.spans_of(labelled, {name: 0 for name in names})
        for start, stop in segmentation.sentences(labelled.text):
            places = segmentation.tokens(labelled.text, start, stop)
            sentences.append([labelled.text[first:last] for first, last in places])
            labels += [columns[tag] for tag in text_spans.token_tags(places, spans)]
            ends.append(len(labels))
            owners.append(document)
    return _corpus(sentences, labels, ends, owners, columns, "token")


def tagged_corpus(tagged: Iterable[TaggedSentence], names: Sequence[str]) -> Corpus:
    """Returns the tokens of sentences that are tagged already; each is a sequence of its own."""
    columns = _columns(bio_names(names))
    sentences: list[Sequence[str]] = []
    labels: list[int] = []
    ends, owners = [0], list[int]()
    for sentence in tagged:
        if len(sentence.tokens) != len(sentence.tags):
            raise AnnotationError(
                f"A sentence has {len(sentence.tokens)} tokens and {len(sentence.tags)} tags; "
                "expected one tag for each token. Correct the file."
            )
        sentences.append(sentence.tokens)
        labels += [columns.get(tag, 0) for tag in _opened(sentence.tags)]
        ends.append(len(labels))
        owners.append(sentence.document)
    return _corpus(sentences, labels, ends, owners, columns, "token")


def bio_names(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the tags that spell labels.

    Example:
        >>> bio_names(["party"])
        ('O', 'B-party', 'I-party')
    """
    return (OUTSIDE, *(f"{prefix}-{name}" for name in names for prefix in "BI"))


def is_held_out(name: str, share: float) -> bool:
    """Returns whether a document is scored instead of trained on.

    Its own name, or that of its group, decides: its side does not depend on what other documents
    there are, so that one document more changes one record and no other's side.
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


Labelled = TypeVar("Labelled")


def split(
    items: Sequence[Labelled], groups: Sequence[Hashable], *, held_out: float, seed: int = 0
) -> tuple[list[Labelled], list[Labelled]]:
    """Returns items to train on and items to test on; a group is never on both sides.

    The share `held_out` counts groups, at least one where there are two; `seed` is no secret. Which
    groups are tested depends on all of them, so this is not for documents that are protected.

    Example:
        >>> split("abcd", [1, 1, 2, 3], held_out=0.3)
        (['a', 'b', 'c'], ['d'])
    """
    distinct = list(dict.fromkeys(groups))
    count = min(len(distinct) - 1, max(1, round(held_out * len(distinct))))
    order = np.random.default_rng(seed).permutation(len(distinct))
    tested = {distinct[number] for number in order[: max(0, count)]}
    sides: Mapping[bool, list[Labelled]] = defaultdict(list)
    for item, group in zip(items, groups, strict=True):
        sides[group in tested].append(item)
    return sides[False], sides[True]


def _columns(names: Sequence[str]) -> dict[str, int]:
    if any(not name.removeprefix("B-").removeprefix("I-").strip() for name in names):
        raise AnnotationError(
            f"Of the labels {', '.join(map(repr, names))} one has no name. Name every label."
        )
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _corpus(
    sentences: Sequence[Sequence[str]],
    labels: Sequence[int],
    ends: Sequence[int],
    owners: Sequence[int],
    columns: Mapping[str, int],
    level: str,
) -> Corpus:
    return Corpus(
        sentences=tuple(sentences),
        labels=np.array(labels, dtype=np.int64),
        documents=np.array(ends, dtype=np.int64),
        owners=np.array(owners, dtype=np.int64),
        names=tuple(columns),
        level=level,
    )


def _opened(tags: Sequence[str]) -> Iterator[str]:
    """Yields the tags with a B where a field begins."""
    previous = OUTSIDE
    for tag in tags:
        if tag != OUTSIDE and tag[:2] not in ("B-", "I-"):
            raise AnnotationError(
                f"A token has the tag {tag[:40]!a}; expected O, or B- or I- and a name. Correct it."
            )
        opens = tag.startswith("I-") and previous[2:] != tag[2:]
        yield f"B-{tag[2:]}" if opens else tag
        previous = tag
