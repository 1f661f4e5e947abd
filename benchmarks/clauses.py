"""What keeping contracts private costs: clauses found in CUAD, by tables of every mode.

    python benchmarks/clauses.py --data path/to/cuad --work runs/clauses
    python benchmarks/clauses.py --quick

Contracts are split by company. For each of the clause types that most contracts have, a table is
made in every way (`clause_arms.ARMS`) and scored on contracts of other companies, sentence by
sentence; released tables are attacked as well. Where 20newsgroups, wnut17 and sec_filings_ner stand
beside the data, they follow: whole messages, and BIO tags of tokens. Every result is written to
--work as soon as it is known, and not computed again. Without --data, and with --quick in less than
a minute, contracts are invented and figures mean nothing. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import clause_arms
import clause_attacks
import clause_report
import machine
import numpy as np
from clause_arms import SCHEME, Side, Task, Trained

from hushdoc import hashing
from hushdoc.hashing import FeatureScheme, segmentation
from hushdoc.labels import OUTSIDE, spans_from_tags
from hushdoc.runtime.hashed.chains import viterbi
from hushdoc.runtime.hashed.table import HashedTable, item_scores, lookup_scores
from hushdoc_training import labelled_texts as readers
from hushdoc_training.crf import whole_texts
from hushdoc_training.crf.corpus import (
    Corpus,
    is_held_out,
    sentence_corpus,
    split,
    tagged_corpus,
)
from hushdoc_training.crf.filling import NOISY_FILL_DOCUMENTS
from hushdoc_training.crf.frequency import frequent
from hushdoc_training.crf.private_fitting import Settings
from hushdoc_training.crf.term_cost import terms
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import Contract
from hushdoc_training.recipes.hashed import private_runs

HELD_OUT = 0.25
SCORED = "report"
"""Salt of the digests by which companies are scored; `clause_choices` looks at no others."""
RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Frequency ranks of words whose cost is measured; 100 is reported."""

PUBLIC = (
    "contract_nli/dev.json.gz",
    "contract_nli/train_truncated.json.gz",
    "kleister_nda/train/in.tsv.xz",
)
"""Public contracts beside the data: only how often they have a row is used."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work: the full benchmark, or a look that takes a minute."""

    types: int
    rows: int
    puzzles: int
    expected_records: int
    arms: tuple[str, ...]


FULL = Scale(types=12, rows=SCHEME.rows, puzzles=400, expected_records=300, arms=clause_arms.ARMS)
QUICK = Scale(types=1, rows=2**14, puzzles=40, expected_records=100, arms=clause_arms.ARMS)


def main() -> int:
    """Runs what is missing and prints the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of CUAD's train.jsonl.gz")
    parser.add_argument("--work", type=Path, help="keep results here, and continue them")
    parser.add_argument("--arms", help="only these, parted by commas")
    parser.add_argument("--tasks", help="only those whose name begins so")
    parser.add_argument("--plot", type=Path, help="draw the cost of words by frequency here")
    parser.add_argument("--no-attacks", action="store_true", help="score tables, attack none")
    parser.add_argument("--quick", action="store_true", help="a minute, figures without meaning")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.no_attacks:
        scale = replace(scale, puzzles=0)
    if options.arms:
        scale = replace(scale, arms=tuple(options.arms.split(",")))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        for name, make in tasks(None if options.quick else options.data, scale):
            if name.startswith(options.tasks or ""):
                run_all(work / name.replace("/", "-"), make, scale)
        more = (*clause_arms.VARIANTS, clause_arms.PRIVATE_INVENTED, *clause_arms.HALVES)
        asked = [arm for arm in more if arm in scale.arms]
        result = clause_report.report(work, (*clause_arms.ARMS, *asked))
        if options.plot:
            clause_report.draw(work, options.plot)
    print(clause_report.markdown(result))
    result |= {
        "quick": options.quick,
        **machine.stamp(began),
    }
    print(json.dumps(result))
    return 0


def run_all(folder: Path, make: Callable[[Path], Task], scale: Scale) -> None:
    """Runs the arms that have no result yet."""
    arms = [arm for arm in scale.arms if arm not in left_out(folder.name)]
    missing = [arm for arm in arms if not (folder / f"{arm}.json").exists()]
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    task = make(folder)
    for arm in missing:
        result = clause_attacks.run(task, arm, score)
        print(f"{folder.name} {arm} F1 {result['f1']:.3f} {result['cpu_seconds']} s", flush=True)
        path = folder / f"{arm}.json"
        path.with_suffix(".new").write_text(json.dumps(result))
        path.with_suffix(".new").replace(path)


def left_out(task: str) -> tuple[str, ...]:
    """Returns the arms that a task does not have.

    A noisy fill of other tasks is one of pairs anyway.
    """
    invented = (clause_arms.INVENTED, clause_arms.PRIVATE_INVENTED)
    without = (clause_arms.PAIRS, *invented, *clause_arms.HALVES)
    return without if task.startswith(clause_report.OTHER) else ()


def tasks(data: Path | None, scale: Scale) -> Iterator[tuple[str, Callable[[Path], Task]]]:
    """Yields the name of each task, and what makes it."""
    if data is None:
        contracts = clause_contracts.contracts(160)
        public = [contract.text for contract in clause_contracts.contracts(40, seed=1)]
    else:
        contracts = readers.read_contracts(data / "train.jsonl.gz")
        public = list(public_texts(data.parent))
    yield from clause_tasks(contracts, public, scale)
    if data is not None:
        yield from other_tasks(data.parent, public)


def clause_tasks(
    contracts: list[Contract], public: Sequence[str], scale: Scale
) -> Iterator[tuple[str, Callable[[Path], Task]]]:
    """Yields a task for each of the clause types that most contracts have."""
    sides = by_company(contracts, HELD_OUT, SCORED)
    halves = (*by_company(sides[0], 0.5, "halves"), sides[1])
    schemes = schemes_of(replace(SCHEME, rows=scale.rows))
    types = frequent_types(contracts, scale.types)

    @cache
    def shared() -> tuple[Side, Side, hashing.Features, dict[int, float]]:
        made = [
            side_of(sentence_corpus(part, types[:1]), schemes, train=part is sides[0])
            for part in sides
        ]
        shares = terms(made[0].tokens, schemes["pairs"]).shares
        by_rank = {rank: float(shares[rank - 1]) for rank in RANKS if rank <= len(shares)}
        return made[0], made[1], public_features(public, schemes["words"]), by_rank

    @cache
    def shared_halves() -> list[Side]:
        asked = {*clause_arms.HALVES} & {*scale.arms}
        some = halves if asked else ()
        return [side_of(sentence_corpus(p, types[:1]), schemes, train=True) for p in some]

    def make(label: str, folder: Path) -> Task:
        train, test, background, word_shares = shared()
        labels = [sentence_corpus(part, [label]).labels for part in sides]
        task = Task(
            names=(OUTSIDE, label),
            train=replace(train, labels=labels[0]),
            test=replace(test, labels=labels[1]),
            schemes=schemes,
            public=background,
            expected_records=scale.expected_records,
            puzzles=scale.puzzles,
            settings=private_runs.CLAUSES,
            folder=folder,
            word_shares=word_shares,
        )
        parts = []
        for number, half in enumerate(shared_halves()):
            own = replace(half, labels=sentence_corpus(halves[number], [label]).labels)
            kept = folder / f"half-{number}"
            kept.mkdir(exist_ok=True)
            parts.append(replace(task, train=own, folder=kept))
        return replace(task, halves=tuple(parts))

    for label in types:
        yield label, partial(make, label)


def frequent_types(contracts: Sequence[Contract], most: int) -> list[str]:
    """Returns the clause types that most contracts have; names and dates are none."""
    counts = Counter(label for contract in contracts for label in {s[0] for s in contract.spans})
    skipped = {"Parties", "Document Name", "Agreement Date", "Effective Date", "Expiration Date"}
    return [label for label, _ in counts.most_common() if label not in skipped][:most]


def by_company(
    contracts: list[Contract], held_out: float, salt: str
) -> tuple[list[Contract], list[Contract]]:
    """Returns two parts; a company's contracts are all in one, which its salted digest decides."""
    sides: dict[bool, list[Contract]] = {False: [], True: []}
    for contract in contracts:
        sides[is_held_out(salt + str(contract.group), held_out)].append(contract)
    return sides[False], sides[True]


def other_tasks(data: Path, public: Sequence[str]) -> Iterator[tuple[str, Callable[[Path], Task]]]:
    """Yields a task for each other corpus that stands beside the contracts."""
    for name, make in (
        ("20newsgroups", newsgroups),
        ("wnut17", tweets),
        ("sec_filings_ner", agreements),
    ):
        if (data / name).is_dir():
            yield f"other {name}", partial(make, data / name, public)


def newsgroups(data: Path, public: Sequence[str], folder: Path) -> Task:
    """Returns the task of whole messages: each one item, one sequence and one record."""
    messages = readers.read_messages(data / "train.jsonl.gz")
    names = tuple(sorted({message.label for message in messages}))
    scheme = replace(SCHEME, rows=2**18, bigrams=False, skip_grams=False)
    sides = []
    for part in split(messages, range(len(messages)), held_out=HELD_OUT):
        made = whole_texts.class_corpus(part, names)
        tokens = whole_texts.tokens(made)
        found = hashing.features(tokens, scheme)
        ends = np.arange(len(tokens) + 1)
        sides.append(
            Side(
                tokens=(),
                features={
                    "pairs": found,
                    "words": whole_texts.whole(made.features(scheme), made),
                    **{
                        kind: frequent(tokens, scheme, ends, least_records=NOISY_FILL_DOCUMENTS)
                        for kind in ("frequent", "frequent_pairs")
                    },
                },
                labels=whole_texts.classes(made),
                sequences=ends,
                records=ends,
            )
        )
    return Task(
        names=names,
        train=sides[0],
        test=sides[1],
        schemes={"pairs": scheme, "words": scheme},
        public=hashing.features([segmentation.words(text) for text in public], scheme),
        expected_records=8000,
        puzzles=0,
        settings=Settings(emphasis=1.0, transition_scale=0.0),
        folder=folder,
        noisy_fill="frequent_pairs",
        classes=True,
    )


def tweets(data: Path, public: Sequence[str], folder: Path) -> Task:
    """Returns the task of tagged tweets: each one sequence and one record."""
    parts = [
        readers.read_conll(data / name, sentences_are_documents=True)
        for name in ("wnut17train.conll", "emerging.dev.conll")
    ]
    return tagged(parts, public, folder, expected_records=3000)


def agreements(data: Path, public: Sequence[str], folder: Path) -> Task:
    """Returns the task of tagged loan agreements; five are too few to be records themselves.

    A record is a sentence here, so the guarantee is one for sentences.
    """
    found = readers.read_conll(data / "FIN5.txt")
    last = max(sentence.document for sentence in found)
    parts = [
        [s for s in found if s.document != last],
        [s for s in found if s.document == last],
    ]
    return tagged(parts, public, folder, expected_records=1000)


def tagged(
    parts: Sequence[Sequence[readers.Sentence]],
    public: Sequence[str],
    folder: Path,
    *,
    expected_records: int,
) -> Task:
    """Returns the task of sentences with BIO tags."""
    names = sorted({tag[2:] for part in parts for s in part for tag in s.tags if tag != OUTSIDE})
    schemes = schemes_of(replace(SCHEME, level="token", rows=2**19))
    train, test = (tagged_corpus(part, names) for part in parts)
    return Task(
        names=train.names,
        train=side_of(train, schemes, train=True),
        test=side_of(test, schemes, train=False),
        schemes=schemes,
        public=public_features(public, schemes["words"]),
        expected_records=expected_records,
        puzzles=0,
        settings=Settings(emphasis=4.0),
        folder=folder,
        rarity=4.0,
        staying=1.0,
        unseen_scale=1.0,
        reach=2.0,
        noisy_fill="frequent_pairs",
    )


def schemes_of(scheme: FeatureScheme) -> dict[str, FeatureScheme]:
    """Returns the paper's features, and tokens alone, which bring less noise to a score."""
    return {"pairs": scheme, "words": replace(scheme, bigrams=False, skip_grams=False)}


def side_of(corpus: Corpus, schemes: dict[str, FeatureScheme], *, train: bool) -> Side:
    """Returns a corpus with its features; documents are both sequences and records."""
    found = {name: corpus.features(scheme) for name, scheme in schemes.items()}
    if train:
        for kind in ("frequent", "frequent_pairs"):
            found[kind] = frequent(
                corpus.sentences,
                schemes[clause_arms.scheme_of(kind)],
                corpus.documents,
                least_records=NOISY_FILL_DOCUMENTS,
            )
    return Side(
        tokens=corpus.sentences if corpus.level == "sentence" else (),
        features=found,
        labels=corpus.labels,
        sequences=corpus.documents,
        records=corpus.documents,
    )


def public_texts(data: Path) -> Iterator[str]:
    """Yields public contracts that stand beside the data."""
    csv.field_size_limit(sys.maxsize)
    for path in (data / name for name in PUBLIC if (data / name).exists()):
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8") as file:
                yield from (document["text"] for document in json.load(file)["documents"])
        else:
            with lzma.open(path, "rt", encoding="utf-8") as file:
                rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
                yield from (row[-1].replace("\\n", "\n") for row in rows)


def public_features(texts: Sequence[str], scheme: FeatureScheme) -> hashing.Features:
    """Returns the features of every sentence of public texts."""
    sentences = [
        segmentation.words(text, *place) for text in texts for place in segmentation.sentences(text)
    ]
    return hashing.features(sentences, scheme)


def score(task: Task, trained: Trained) -> dict[str, Any]:
    """Returns precision, recall and F1 of what the runtime decodes on the held-out side."""
    table = HashedTable(
        weights=trained.weights.astype(np.float32),
        transitions=trained.transitions.astype(np.float64),
        scale=None,
    )
    began = time.process_time()
    if task.test.tokens:
        scheme = task.schemes[trained.kind]
        parts = hashing.lookups(hashing.hash_words(task.test.tokens, scheme), scheme)
        scores = np.concatenate([lookup_scores(part, table) for part in parts])
    else:
        scores = item_scores(task.test.features[trained.kind], table)
    path = viterbi(scores, task.test.sequences, table.transitions)
    seconds = time.process_time() - began
    if task.schemes["words"].level == "token":
        true, found = (set(entities(task, labels)) for labels in (task.test.labels, path))
        hits, num_true, num_found = len(true & found), len(true), len(found)
    else:
        outside = task.names.index(OUTSIDE) if OUTSIDE in task.names else -1
        inside = task.test.labels != outside
        hits = int((inside & (path == task.test.labels)).sum())
        num_true, num_found = int(inside.sum()), int((path != outside).sum())
    return {
        "precision": hits / max(1, num_found),
        "recall": hits / max(1, num_true),
        "f1": 2 * hits / max(1, num_found + num_true),
        "num_true": num_true,
        # A file leaves one label's column out.
        "table_bytes_int8": len(trained.weights) * max(1, trained.weights.shape[1] - 1),
        "tokens_per_cpu_second": round(sum(map(len, task.test.tokens)) / seconds),
    }


def entities(task: Task, labels: np.ndarray[Any, Any]) -> Iterator[tuple[int, int, str]]:
    """Yields first token, one past the last and label of every field that tags mark."""
    ends = task.test.sequences
    for first, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        for span in spans_from_tags([task.names[label] for label in labels[first:stop]]):
            yield first + span.start, first + span.stop, span.label


if __name__ == "__main__":
    sys.exit(main())
