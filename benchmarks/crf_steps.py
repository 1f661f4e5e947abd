"""Where the time goes on the way from a text to labels by a table of hashed features.

    python benchmarks/crf_steps.py [--quick]

Invented contracts are labelled by a table of 2**21 rows in bytes, of which a tenth is filled, one
document after the other. Each step's CPU time, in nanoseconds for each token, is the median over
documents and rounds:

    sentences   cutting the text into sentences
    tokens      cutting these into tokens, and hashing them
    features    hashing features, and ordering those of a sentence
    scores      reading the table, and adding up
    labels      Viterbi

`floor` is what single calls of numpy take for what no way around was found: sorting as many numbers
as there are features, 256 at a time (sentences alone, where each row counts once), reading as many
bytes all over such a table, and lowering the text, looking up what its characters are, and where
they change.

All times are of one thread. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import machine
import numpy as np
from crf_arms import TAGS, text_of, timed
from invented_clauses import documents

from hushdoc import hashing
from hushdoc.hashing import FeatureScheme, segmentation
from hushdoc.runtime.hashed.chains import viterbi
from hushdoc.runtime.hashed.table import ZERO_POINT, HashedTable, lookup_scores

ROWS = 2**21
FILLED = ROWS // 10
SORTED_TOGETHER = 256


def main() -> int:
    """Times every step and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the text, in seconds")
    options = parser.parse_args()
    tokens, rounds = (50_000, 2) if options.quick else (500_000, 5)
    texts = [text_of(sentences) for sentences, _ in documents(tokens, seed=2)]
    levels = {level: steps_of(level, texts, rounds) for level in TAGS}
    for level, spent in levels.items():
        for part, steps in spent.items():
            each = ", ".join(f"{name} {value}" for name, value in steps.items())
            print(f"{level} {part}: {round(sum(steps.values()), 1)} ns for each token ({each})")
    found = {
        "ns_for_each_token": levels,
        "tokens": tokens,
        "rows": ROWS,
        **machine.dated(python=True),
        "numpy": np.__version__,
        "quick": options.quick,
    }
    print(json.dumps(found))
    return 0


def steps_of(level: str, texts: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Returns the nanoseconds of each step, and of the floor, for each token."""
    scheme = FeatureScheme(rows=ROWS, level=level, seed=11)
    table = table_of(len(TAGS[level]))
    spent: dict[str, dict[str, list[float]]] = {
        "steps": defaultdict(list),
        "floor": defaultdict(list),
    }
    label(texts[0], scheme, table, defaultdict(lambda: defaultdict(list)))  # loads what is needed
    for _ in range(rounds):
        for text in texts:
            label(text, scheme, table, spent)
    return {
        part: {name: round(statistics.median(values), 1) for name, values in steps.items()}
        for part, steps in spent.items()
    }


def table_of(labels: int) -> HashedTable:
    """Returns a made-up table, as an artifact holds it: the first label has no column."""
    generator = np.random.default_rng(3)
    weights = np.full((ROWS, labels - 1), ZERO_POINT, np.uint8)
    rows = generator.choice(ROWS, FILLED, replace=False)
    weights[rows] = generator.integers(1, 256, (FILLED, labels - 1))
    scale = np.ones(labels - 1, np.float32)
    return HashedTable(
        weights=weights, scale=scale, transitions=np.zeros((labels, labels)), reference=0
    )


def label(
    text: str,
    scheme: FeatureScheme,
    table: HashedTable,
    spent: Mapping[str, dict[str, list[float]]],
) -> None:
    """Labels one text, and adds what each step took for each of its tokens."""
    places, sentences = timed(lambda: segmentation.sentence_places(text))
    tokens, cut = timed(lambda: hashing.hash_text(text, places, scheme))
    found, hashed = timed(lambda: list(hashing.lookups(tokens, scheme)))
    scores, read = timed(lambda: np.concatenate([lookup_scores(part, table) for part in found]))
    ends = [len(scores)] if scheme.level == "sentence" else np.cumsum(tokens.lengths)
    offsets = np.concatenate([[0], ends])
    _, decoded = timed(lambda: viterbi(scores, offsets, table.transitions))
    steps = {
        "sentences": sentences,
        "tokens": cut,
        "features": hashed,
        "scores": read,
        "labels": decoded,
    }
    for part, times in (("steps", steps), ("floor", floor(text, scheme, found, table))):
        for name, seconds in times.items():
            spent[part][name].append(1e9 * seconds / len(tokens.hashes))


def floor(
    text: str, scheme: FeatureScheme, found: list[Any], table: HashedTable
) -> dict[str, float]:
    """Returns the seconds of the calls without which no way was found."""
    rows = np.concatenate([part.rows.reshape(-1) for part in found])
    numbers = np.random.default_rng(5).permutation(rows)
    column = np.ascontiguousarray(table.weights[:, 0])
    content, classes = text.encode(), bytes(range(256))
    codes = np.frombuffer(content, np.uint8)
    changes = codes[1:] != codes[:-1]
    times = {
        "read": timed(lambda: column.take(rows, mode="clip"))[1],
        "lower": timed(content.lower)[1],
        "classes": timed(lambda: content.translate(classes))[1],
        "edges": 2 * timed(lambda: np.flatnonzero(changes))[1],
    }
    lists = np.resize(numbers, (-(-len(numbers) // SORTED_TOGETHER), SORTED_TOGETHER))
    return times | ({"sort": timed(lists.sort)[1]} if scheme.level == "sentence" else {})


if __name__ == "__main__":
    sys.exit(main())
