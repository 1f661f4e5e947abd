"""Invented contracts as lists of words: clauses and parties among words of Zipf's frequencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FILLER = (
    "the of to and in shall party agreement any this by for be such or as with not other all its "
    "which from on may each under upon date notice"
)
CLAUSE = "governed construed laws jurisdiction courts without regard conflict principles"

DOCUMENT_SENTENCES = 1000

Sentences = list[list[str]]


def documents(tokens: int, *, seed: int) -> Iterator[tuple[Sentences, list[list[str]]]]:
    """Yields invented documents with the tag of every token, until there are enough tokens."""
    import numpy as np

    generator = np.random.default_rng(seed)
    vocabulary = FILLER.split() + [f"word{number}" for number in range(30_000)]
    made = 0
    while made < tokens:
        sentences: Sentences = []
        tags: list[list[str]] = []
        while len(sentences) < DOCUMENT_SENTENCES and made < tokens:
            words, marks = invented_sentence(generator, vocabulary)
            words, marks = words[: tokens - made], marks[: tokens - made]
            sentences.append(words)
            tags.append(marks)
            made += len(words)
        yield sentences, tags


def invented_sentence(
    generator: np.random.Generator, vocabulary: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns words with Zipf's frequencies, now and then a clause or a party among them."""
    length = int(generator.integers(5, 45))
    drawn = (generator.zipf(1.25, length) - 1) % len(vocabulary)
    words = [vocabulary[number] for number in drawn]
    tags = ["O"] * length
    if generator.random() < 0.1:
        for _ in range(5):
            words[int(generator.integers(length))] = str(generator.choice(CLAUSE.split()))
    if generator.random() < 0.3:
        place = int(generator.integers(length - 3))
        words[place : place + 3] = ["Acme", vocabulary[int(generator.integers(500))], "Inc"]
        tags[place : place + 3] = ["B-party", "I-party", "I-party"]
    return words, tags


def labels_of(sentences: Sentences, tags: list[list[str]], level: str) -> list[list[str]]:
    """Returns the labels of each sequence: one for each sentence, or for each token."""
    if level == "token":
        return tags
    relevant = [len({*CLAUSE.split()} & {*words}) >= 2 for words in sentences]
    return [["RELEVANT" if found else "O" for found in relevant]]
