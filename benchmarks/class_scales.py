"""What should scale the words of a private classifier: their own private counts, or public text?

    python benchmarks/class_scales.py --data path/to/20newsgroups
    python benchmarks/class_scales.py --quick

Only messages that `benchmarks/own_data.py` trains on are read. A quarter of them, as a salted
digest of each name says, is scored; the others, and the first of them, are learned from at epsilon
8. Words are scaled in the same way (`private_counts.scales_of`) by how many texts have them among

    counted   these messages, counted with noise by the first step, as `train classifier` does
    exact     these messages, without noise: the most that statistics could bring. No guarantee
    alike     the messages that are scored, without their classes: more alike than any other text
    large     what words at large let expect, by the order of MiniLM's vocabulary
    tweets    public tweets, where wnut17 stands beside the data
    invented  invented forms, invoices and receipts

Epsilon does not cover these looks. The last line is JSON: by number of texts, the share of right
classes, a mean of --repeats.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import clause_arms
import machine
import numpy as np
import own_data

from hushdoc import hashing
from hushdoc.hashing import Features, FeatureScheme
from hushdoc.runtime.hashed.table import HashedTable, item_scores
from hushdoc_training import labelled_texts as readers
from hushdoc_training.commands.classifier import read_messages
from hushdoc_training.commands.table_options import CLASSIFIER_STEPS
from hushdoc_training.crf import private_counts, private_linear, whole_texts, word_ranks
from hushdoc_training.crf.chain import Floats
from hushdoc_training.crf.corpus import Corpus, is_held_out
from hushdoc_training.labelled_texts import Message
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import classifier, private_runs

EPSILON, SCORED = 8.0, 0.25
INVENTED = "invented:form+invoice+receipt"
RAREST = 0.01
"""Words that less than this share of public texts has, of that of the commonest, are all rare."""


def main() -> int:
    """Trains by each kind of scales and prints the JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of 20newsgroups' train.jsonl.gz")
    parser.add_argument("--few", type=int, default=800, help="how many a small collection has")
    parser.add_argument("--repeats", type=int, default=3, help="how often each is trained")
    parser.add_argument("--kinds", nargs="+", help="only these, of the above (default: all)")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    began = time.monotonic()
    data = None if options.quick else options.data
    few, repeats = (options.few, options.repeats) if data else (40, 1)
    scheme = classifier.scheme(2**12 if data is None else 2**18)
    train, test = sides(data)
    publics = {
        "alike": whole_texts.whole(test.features(scheme), test),
        **public_texts(None if data is None else data.parent, scheme),
    }
    right: dict[str, dict[str, float]] = {}
    for size in (len(train.owners), few):
        own = first(train, size)
        found = right.setdefault(str(size), {})
        for name, steps, scales in kinds(own, publics, scheme):
            if name not in (options.kinds or [name]):
                continue
            tried = [accuracy(own, test, scheme, steps, scales) for _ in range(repeats)]
            found[name] = round(fmean(tried), 4)
            print(size, name, [round(one, 4) for one in tried], flush=True)
    print(json.dumps({"right": right, "quick": data is None, **machine.stamp(began)}))
    return 0


def sides(data: Path | None) -> tuple[Corpus, Corpus]:
    """Returns messages to learn from and to score, none of which `own_data` scores."""
    if data is None:
        found = read_messages(INVENTED, 120)
    else:
        found = readers.read_messages(data / "train.jsonl.gz")
    parts: dict[bool, list[Message]] = {False: [], True: []}
    for message in found:
        name = f"{message.label}/{message.name}"
        if not is_held_out(name, own_data.HELD_OUT):
            parts[is_held_out(f"scales{name}", SCORED)].append(message)
    names = sorted({message.label for message in found})
    # Any order but that of the file, where each class stands together.
    learned = [parts[False][n] for n in np.random.default_rng(0).permutation(len(parts[False]))]
    return whole_texts.class_corpus(learned, names), whole_texts.class_corpus(parts[True], names)


def first(corpus: Corpus, size: int) -> Corpus:
    """Returns the first texts of a corpus."""
    ends = corpus.documents[: size + 1]
    return replace(
        corpus,
        sentences=corpus.sentences[: ends[-1]],
        labels=corpus.labels[: ends[-1]],
        documents=ends,
        owners=corpus.owners[:size],
    )


def public_texts(beside: Path | None, scheme: FeatureScheme) -> dict[str, Features]:
    """Returns the features of each public text, by kind of it."""
    words = word_ranks.sentences(word_ranks.minilm_words(), count=10_000, length=100)
    invented = whole_texts.class_corpus(read_messages(INVENTED, 300), INVENTED[9:].split("+"))
    found = {
        "large": hashing.features(words, scheme),
        "invented": whole_texts.whole(invented.features(scheme), invented),
    }
    tweets = None if beside is None else beside / "wnut17" / "wnut17train.conll"
    if tweets is not None and tweets.exists():
        read = readers.read_conll(tweets, sentences_are_documents=True)
        found["tweets"] = hashing.features([one.tokens for one in read], scheme)
    return found


def kinds(
    own: Corpus, publics: dict[str, Features], scheme: FeatureScheme
) -> Iterator[tuple[str, int, Floats | int]]:
    """Yields each kind of scales, and how many steps it leaves: a number of rows is counted."""
    yield "counted", CLASSIFIER_STEPS, scheme.rows
    mine = whole_texts.whole(own.features(scheme), own)
    for name, features in {"exact": mine, **publics}.items():
        shares = texts_with(features, scheme.rows)
        least = RAREST * float(shares.max())
        yield name, CLASSIFIER_STEPS, private_counts.scales_of(shares, least=least)


def texts_with(features: Features, rows: int) -> Floats:
    """Returns which share of the texts has each row."""
    owners = np.repeat(np.arange(features.num_items), np.diff(features.offsets))
    pairs = np.unique(owners * rows + features.indices)
    return np.bincount(pairs % rows, minlength=rows) / max(1, features.num_items)


def accuracy(
    own: Corpus, test: Corpus, scheme: FeatureScheme, steps: int, scales: Floats | int
) -> float:
    """Returns the share of texts that a table trained at EPSILON gives their class."""
    expected = own_data.declared(len(own.owners))
    plan = clause_arms.Plan(
        steps=steps,
        noise_multiplier=clause_arms.noise_multiplier(EPSILON, steps),
        expected_records=expected,
    )
    table = private_linear.fit_private_linear(
        whole_texts.whole(own.features(scheme), own),
        whole_texts.classes(own),
        names=own.names,
        scales=scales,
        plan=plan,
        stream=SecretStream(),
        settings=replace(
            private_runs.CLASSIFIER, total_learning_rate=private_runs.classifier_rate(expected)
        ),
    )
    made = HashedTable(
        weights=table.weights, transitions=table.transitions.astype(np.float64), scale=None
    )
    given = item_scores(whole_texts.whole(test.features(scheme), test), made).argmax(axis=1)
    return float((given == whole_texts.classes(test)).mean())


if __name__ == "__main__":
    raise SystemExit(main())
