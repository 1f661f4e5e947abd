"""python-crfsuite as a peer: its attributes, its models, and the weights it stores.

An attribute is a row of the table, written as a string, or a plain string made of words.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing import FeatureScheme

Sentences = list[list[str]]
MakeAttributes = Callable[[Sentences], list[Sequence[str]]]
"""Of a document, the attributes of every item."""


def row_strings(scheme: FeatureScheme) -> MakeAttributes:
    """Returns what makes the attributes that stand for our rows."""
    from hushdoc import hashing

    def make(sentences: Sentences) -> list[Sequence[str]]:
        features = hashing.features(sentences, scheme)
        spelled = [str(row) for row in features.indices.tolist()]
        ends = features.offsets.tolist()
        return [spelled[start:stop] for start, stop in itertools.pairwise(ends)]

    return make


def plain_rows(scheme: FeatureScheme) -> MakeAttributes:
    """Returns what makes the same attributes one by one, by the formula in `hushdoc.hashing`."""
    import mmh3

    def row(first: int, second: int | None, kind: int) -> int:
        mixed = first * 0x9E3779B1
        if second is None:
            mixed ^= kind * 0xC2B2AE3D + scheme.seed
        else:
            turned = second * 0x85EBCA77 & 0xFFFFFFFF
            mixed ^= (turned << 15 | turned >> 17) + kind * 0xC2B2AE3D + scheme.seed
        mixed &= 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
        return (mixed ^ mixed >> 16) * scheme.rows >> 32

    def token(word: str) -> int:
        return mmh3.hash(word, scheme.seed, False)

    return attributes_one_by_one(scheme, token, row)


def joined_strings(scheme: FeatureScheme) -> MakeAttributes:
    """Returns what makes as many attributes as hashes of joined strings."""
    import mmh3

    def row(first: str, second: str | None, kind: int) -> int:
        joined = f"{kind} {first}" if second is None else f"{kind} {first} {second}"
        return mmh3.hash(joined, scheme.seed, False) * scheme.rows >> 32

    return attributes_one_by_one(scheme, str, row)


def plain_strings(level: str) -> MakeAttributes:
    """Returns what makes plain strings of words: the features of our rows, the fastest we know.

    Nothing is hashed, columns of strings are made instead of single ones, and what an item has
    twice stays there twice.
    """
    make_items = _plain_sentence if level == "sentence" else _plain_tokens

    def make(sentences: Sentences) -> list[Sequence[str]]:
        return [item for words in sentences for item in make_items(words)]

    return make


def _plain_sentence(words: list[str]) -> list[list[str]]:
    item = [*words, *map(" ".join, itertools.pairwise(words))]
    for distance in range(2, 6):
        item += map("~".join, zip(words, words[distance:], strict=False))
    return [item]


def _plain_tokens(words: list[str]) -> list[Sequence[str]]:
    columns = [words]
    for distance in range(1, 6):
        none = [""] * min(distance, len(words))
        if distance <= 2:
            columns.append([*none, *[f"-{distance}{word}" for word in words[:-distance]]])
            columns.append([*[f"+{distance}{word}" for word in words[distance:]], *none])
        joiner = " " if distance == 1 else "~"
        pairs = list(map(joiner.join, zip(words, words[distance:], strict=False)))
        columns.append([*[">" + pair for pair in pairs], *none])
        columns.append([*none, *["<" + pair for pair in pairs]])
    items: list[Sequence[str]] = list(zip(*columns, strict=True))
    for place in {*range(len(words))[:5], *range(len(words))[-5:]}:
        items[place] = list(filter(None, items[place]))
    return items


def attributes_one_by_one(
    scheme: FeatureScheme, token: Callable[[str], Any], row: Callable[[Any, Any, int], int]
) -> MakeAttributes:
    """Returns what makes the attributes of items in plain Python.

    Args:
        scheme: What the features are.
        token: What a feature is made of, for each word.
        row: Of one or two of these, and what they are to each other.
    """

    def of_sentence(codes: list[Any]) -> list[set[int]]:
        found = set()
        for place, code in enumerate(codes):
            found.add(row(code, None, 0x100))
            for other in codes[place + 1 : place + 2]:
                found.add(row(code, other, 0x300))
            for other in codes[place + 2 : place + 6]:
                found.add(row(code, other, 0x400))
        return [found]

    def of_tokens(codes: list[Any]) -> list[set[int]]:
        items = []
        for place, code in enumerate(codes):
            found = set()
            for offset in range(-scheme.window, scheme.window + 1):
                if 0 <= place + offset < len(codes):
                    found.add(row(codes[place + offset], None, 0x100 | offset & 0xFF))
            for distance in range(1, 6):
                kind = 0x300 if distance == 1 else 0x400
                if place >= distance:
                    found.add(row(codes[place - distance], code, kind | 1))
                if place + distance < len(codes):
                    found.add(row(code, codes[place + distance], kind))
            items.append(found)
        return items

    make_items = of_sentence if scheme.level == "sentence" else of_tokens

    def make(sentences: Sentences) -> list[Sequence[str]]:
        return [
            list(map(str, sorted(item)))
            for words in sentences
            for item in make_items([token(word.lower()) for word in words])
        ]

    return make


def fit(training: Iterable[tuple[Sequence[Any], Sequence[str]]], path: Path) -> Any:
    """Returns a tagger of python-crfsuite, fitted by the passive-aggressive algorithm.

    Args:
        training: The items of each sequence, and their labels.
        path: Where its model file shall stand.
    """
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="pa", verbose=False)
    for items, labels in training:
        trainer.append(items, labels)
    trainer.set_params({"max_iterations": 10, "feature.possible_transitions": True})
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def tagged(tagger: Any, parts: Sequence[Any]) -> list[str]:
    """Returns python-crfsuite's labels of all items."""
    return [tag for part in parts if len(part) for tag in tagger.tag(part)]


def stored_weights(
    path: Path, tags: Sequence[str], num_rows: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the weights and transitions of a model file, in the double precision it stores.

    python-crfsuite's own dump rounds them to six decimals. The layout is that of crf1d_model.c:
    a header of 48 bytes, then features of 20 bytes: type, source, target, weight.
    """
    import numpy as np
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    info = tagger.info()
    rows = {int(number): int(name) for name, number in info.attributes.items()}
    columns = {int(number): tags.index(name) for name, number in info.labels.items()}
    weights = np.zeros((num_rows, len(tags)))
    transitions = np.zeros((len(tags), len(tags)))
    content = path.read_bytes()
    start = struct.unpack_from("<I", content, 28)[0]
    kind, _, count = struct.unpack_from("<4sII", content, start)
    if content[:4] != b"lCRF" or kind != b"FEAT":
        raise SystemExit(f"{path} is not a model file of CRFsuite as this benchmark knows it.")
    for number in range(count):
        place = start + 12 + 20 * number
        what, source, target, weight = struct.unpack_from("<IIId", content, place)
        if what == 0:
            weights[rows[source], columns[target]] = weight
        else:
            transitions[columns[source], columns[target]] = weight
    return weights, transitions
