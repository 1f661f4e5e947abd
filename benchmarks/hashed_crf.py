"""How fast a hashed CRF answers, and whether it answers as python-crfsuite does.

    python benchmarks/hashed_crf.py [--quick]

A model is fitted by python-crfsuite to invented text; its attributes are rows of a table. Then both
read text that is new to them, in turn, twenty documents at a time and these three times over; a
ratio is the median of what these turns found:

    parity_mismatches           items whose label differs between python-crfsuite's tagger and our
                                table and Viterbi, with the very weights that crfsuite stored, at
                                the level of sentences and of tokens (goal: 0)
    mismatches_of_file          the same once the weights are rounded as an artifact stores them
    tokens_per_cpu_second_ratio ours / python-crfsuite's, from tokens to labels (sentences; goal: at
                                least 50). Ours reads the table in bytes, the one that load_ms,
                                rss_mb and file_mb are about; ratio_of_float16 is the same in floats
    ratio_to_joined_strings     the same against other, cheaper features
    ratio_to_plain_strings      from a text to labels, at each level, over python-crfsuite at its
                                best: fed plain strings of words, nothing hashed. Both cut the text
                                by the same code (goal: at least 20)
    ratio_to_plain_strings_from_tokens  the same from lists of tokens to labels
    labels_like_plain_strings   the share of items that both label alike, each with its own weights
    decoding_ratio              the same from ready features (ours as rows, crfsuite's as its own
                                ItemSequence) to labels

Which features python-crfsuite is given decides the ratio. In the named figure they are the very
same rows, or the labels could not be compared: a list of strings for each item, made feature by
feature in Python from one MurmurHash3 for each token, as one writes it for a tagger that takes
strings. Whoever may choose the features would rather hash joined strings, one call of MurmurHash3
for each feature and no arithmetic in Python; that is ratio_to_joined_strings. Whoever need not hash
feeds plain strings; that is ratio_to_plain_strings, the fairest of all. decoding_ratio leaves all
of that out.

    load_ms                     loading a verified artifact of 2**21 rows, less hashing its files
                                (goal: at most 15)
    rss_mb                      most memory of a process that loads it and reads a contract, less
                                that of one that imports numpy (goal: at most 60)
    file_mb                     its table, two labels in bytes (goal: at most 4.3)
    privatise_s                 filling a table of 2**21 rows of which a tenth was learned, as
                                published or noisy_fill, whichever takes longer (goal: at most 2)

All times are CPU times of one thread. The last line is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import operator
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crfsuite_peer
import machine
import verify
from crf_arms import (
    DECODING,
    TAGS,
    arms_of,
    as_tokenized,
    chains,
    count_wrong,
    decode_in_turn,
    read_in_turn,
    rounded_table,
    table_of,
    text_arms,
    text_of,
    timed,
)
from invented_clauses import documents, labels_of

ROWS = 2**21
GOALS = {
    "parity_mismatches": (0, 0),
    "tokens_per_cpu_second_ratio": (50, None),
    "ratio_to_plain_strings": (20, None),
    "load_ms": (None, 15),
    "rss_mb": (None, 60),
    "file_mb": (None, 4.3),
    "privatise_s": (None, 2),
}
"""For each figure the least and the most it may be, at every level that it has."""

BLOCK_DOCUMENTS = 20
"""Documents that one reads before the other does."""

TURNS = 3
"""How often each block is read."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is read."""

    train_tokens: int
    tokens: int
    rounds: int


FULL = Scale(train_tokens=300_000, tokens=1_000_000, rounds=15)
QUICK = Scale(train_tokens=20_000, tokens=100_000, rounds=7)


def main() -> int:
    """Runs the comparison and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less than a minute, a tenth the text")
    parser.add_argument("--peak", nargs="*", metavar="PATH", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak is not None:
        return print_peak(options.peak)
    found = compare(QUICK if options.quick else FULL)
    print(json.dumps({**found, "quick": options.quick}))
    return 0


def compare(scale: Scale) -> dict[str, Any]:
    """Returns every figure."""
    levels = {level: compare_level(level, scale) for level in TAGS}
    filled = measure_filling()
    with tempfile.TemporaryDirectory(prefix="hushdoc-crf-") as scratch:
        found = {
            "parity_mismatches": sum(level["mismatches"] for level in levels.values()),
            "tokens_per_cpu_second_ratio": levels["sentence"]["ratio"],
            "ratio_to_plain_strings": {
                name: level["ratio_to_plain_strings"] for name, level in levels.items()
            },
            **measure_artifact(Path(scratch), scale.rounds),
            "privatise_s": max(filled.values()),
        }
    for name, (least, most) in GOALS.items():
        goal = f"at least {least}" if most is None else f"at most {most}"
        print(f"{name}: {found[name]} (goal: {goal})")
    return {
        **found,
        "goals_met": goals_met(found),
        "ratio_to_plain_strings_from_tokens": {
            name: level["ratio_to_plain_strings_from_tokens"] for name, level in levels.items()
        },
        "ratio_to_joined_strings": levels["sentence"]["ratio_to_joined_strings"],
        "decoding_ratio": levels["sentence"]["decoding_ratio"],
        "mismatches_of_file": {
            level: values["mismatches_of_file"] for level, values in levels.items()
        },
        "privatise_seconds": filled,
        "levels": levels,
        "tokens": scale.tokens,
        "rows": ROWS,
        **machine.dated(python=True),
    }


def goals_met(found: Mapping[str, Any]) -> bool:
    """Returns whether every figure is within its goal."""
    return all(
        (least is None or value >= least) and (most is None or value <= most)
        for name, (least, most) in GOALS.items()
        for value in (found[name].values() if isinstance(found[name], dict) else [found[name]])
    )


def compare_level(level: str, scale: Scale) -> dict[str, Any]:
    """Returns speed and agreement of both at one level."""
    from hushdoc.hashing import FeatureScheme

    scheme = FeatureScheme(rows=ROWS, level=level, seed=11)
    with tempfile.TemporaryDirectory(prefix="hushdoc-crf-") as scratch:
        peers = {
            name: crfsuite_peer.fit(training(scale, make, level), Path(scratch) / name)
            for name, make in (
                ("rows", crfsuite_peer.row_strings(scheme)),
                ("joined", crfsuite_peer.joined_strings(scheme)),
                ("plain", plain_training(scheme.level)),
            )
        }
        table = table_of(*crfsuite_peer.stored_weights(Path(scratch) / "rows", TAGS[level], ROWS))
    tables = {
        "exact": table,
        **{dtype: rounded_table(table, dtype, TAGS[level]) for dtype in ("float16", "int8")},
    }
    arms = arms_of(scheme, tables, peers)
    of_text = text_arms(scheme, tables["int8"], peers["plain"])
    for arm in arms.values():  # modules are loaded when they are first needed
        arm([["once"]])
    for text_arm in of_text.values():
        text_arm("Once.")
    seconds: dict[str, list[float]] = {name: [] for name in (*arms, *of_text, *DECODING)}
    num_items = num_alike = 0
    wrong = dict.fromkeys((*tables, "items_in_fields"), 0)
    waiting = (as_tokenized(sentences) for sentences, _ in documents(scale.tokens, seed=2))
    flipped = False
    while block := list(itertools.islice(waiting, BLOCK_DOCUMENTS)):
        for _ in range(TURNS):
            found = read_in_turn(arms, block, seconds, flipped=flipped)
            decode_in_turn(block, scheme, tables["int8"], peers["rows"], seconds, flipped=flipped)
            texts = list(map(text_of, block))
            labels = read_in_turn(of_text, texts, seconds, flipped=flipped)
            flipped = not flipped
        for ours, plain in zip(*labels.values(), strict=True):
            num_items += len(ours)
            num_alike += sum(map(operator.eq, ours, plain))
        for sentences, expected in zip(block, found["peer"], strict=True):
            count_wrong(sentences, scheme, tables, expected, wrong)
    return {
        "ratio": ratio(seconds, "peer", "ours"),
        "ratio_to_joined_strings": ratio(seconds, "joined", "ours"),
        "ratio_to_plain_strings": ratio(seconds, "text_plain", "text_ours"),
        "ratio_to_plain_strings_from_tokens": ratio(seconds, "plain", "ours"),
        "labels_like_plain_strings": round(num_alike / num_items, 5),
        "ratio_of_float16": ratio(seconds, "peer", "ours_float16"),
        "decoding_ratio": ratio(seconds, "peer_decoding", "ours_decoding"),
        "tokens_per_cpu_second": round(TURNS * scale.tokens / sum(seconds["ours"])),
        "mismatches": wrong.pop("exact"),
        "items_in_fields": wrong.pop("items_in_fields"),
        "mismatches_of_file": wrong,
        "cpu_seconds": {name: round(sum(values), 3) for name, values in seconds.items()},
    }


def ratio(seconds: dict[str, list[float]], slow: str, fast: str) -> float:
    """Returns how many times as long one took as the other: the median of all turns."""
    turns = zip(seconds[slow], seconds[fast], strict=True)
    return round(statistics.median(one / other for one, other in turns), 1)


def plain_training(level: str) -> crfsuite_peer.MakeAttributes:
    """Returns what makes plain strings of a document that is still to be lowered."""
    make = crfsuite_peer.plain_strings(level)
    return lambda read: make([[word.lower() for word in words] for words in read])


def training(
    scale: Scale, make: crfsuite_peer.MakeAttributes, level: str
) -> Iterator[tuple[Sequence[Any], list[str]]]:
    """Yields the sequences that the peer's models are fitted to."""
    for sentences, tags in documents(scale.train_tokens, seed=1):
        parts = chains(make(sentences), sentences, level)
        yield from zip(parts, labels_of(sentences, tags, level), strict=True)


def seal(folder: Path, public_key_file: Path) -> Path:
    """Writes an artifact with a made-up table of two labels in bytes, and who signed it."""
    import invented_claims
    import numpy as np

    from hushdoc.hashing import FeatureScheme
    from hushdoc.signing import keys
    from hushdoc_export.release import Release
    from hushdoc_export.table import seal_table
    from hushdoc_training.table_checkpoint import TableCheckpoint

    key = keys.generate_key()
    public_key_file.write_bytes(keys.public_key_of(key))
    table = TableCheckpoint(
        weights=np.random.default_rng(3).standard_normal((ROWS, 2), np.float32),
        transitions=np.eye(2, dtype=np.float32),
        tags=TAGS["sentence"],
        scheme=FeatureScheme(rows=ROWS, level="sentence"),
        claim=invented_claims.claim(epsilon=verify.EPSILON, delta=verify.DELTA),
    )
    release = Release(key=key, name="benchmark", issuer="benchmark")
    return seal_table(folder, table, release, dtype="int8")


def load(folder: Path, public_key_file: Path) -> Any:
    """Returns the model of the artifact, under a policy that recomputes its epsilon."""
    from hushdoc.runtime.hashed.model import HashedCRFModel

    policy = verify.demanding_policy(public_key_file.read_bytes())
    return HashedCRFModel.load(folder, policy=policy)


def measure_artifact(scratch: Path, rounds: int) -> dict[str, float]:
    """Returns what the artifact costs: milliseconds to load, and megabytes."""
    folder, key = seal(scratch / "model", scratch / "key"), scratch / "key"
    seconds: dict[str, list[float]] = {"load": [], "hash": []}
    for _ in range(rounds):
        for name, action in (
            ("load", lambda: load(folder, key)),
            ("hash", lambda: [hashlib.sha256(p.read_bytes()) for p in folder.iterdir()]),
        ):
            began = time.process_time()
            action()
            seconds[name].append(time.process_time() - began)
    spent = {name: statistics.median(values) for name, values in seconds.items()}
    bare = verify.in_fresh_python(__file__, "--peak")
    peak = verify.in_fresh_python(__file__, "--peak", str(folder), str(key))
    return {
        "load_ms": round(1000 * (spent["load"] - spent["hash"]), 2),
        "rss_mb": round(peak - bare, 1),
        "file_mb": round((folder / "table.safetensors").stat().st_size / 1e6, 3),
    }


def measure_filling() -> dict[str, float]:
    """Returns the CPU seconds of filling a table of which every tenth row was learned."""
    import numpy as np

    from hushdoc_training.crf import filling
    from hushdoc_training.crf.fitting import FittedTable
    from hushdoc_training.randomness.secret_stream import SecretStream

    generator = np.random.default_rng(4)
    seen = generator.random(ROWS) < 0.1
    weights = generator.standard_normal((ROWS, 2), np.float32)
    weights[~seen] = np.nan
    learned = FittedTable(
        weights=weights,
        seen=~np.isnan(weights),
        transitions=np.zeros((2, 2), np.float32),
        labels=TAGS["sentence"],
    )
    return {
        fill.__name__: round(timed(lambda fill=fill: fill(learned, stream=SecretStream()))[1], 3)  # type: ignore[misc]
        for fill in (filling.paper_fill, filling.noisy_fill)
    }


def print_peak(paths: Sequence[str]) -> int:
    """Prints the most memory of a process that imports numpy, loads a model and uses it."""
    import numpy as np

    np.zeros(1)
    if paths:
        from hushdoc.document.document import Document

        model = load(Path(paths[0]), Path(paths[1]))
        text = "".join(
            " ".join(words).capitalize() + ". "
            for sentences, _ in documents(60_000, seed=5)
            for words in sentences
        )
        model.extract(Document.from_text(text))
    print(machine.peak_bytes() / 1e6)
    return 0


if __name__ == "__main__":
    sys.exit(main())
