"""The task `train clauses`: a table of hashed features from labelled contracts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushdoc_training.crf.corpus import Corpus

DESCRIPTION = """Learns to find clauses or entities in long texts, and fills the table for release.

  hushdoc train clauses --data contracts.jsonl.gz --label "Governing Law" --out runs/law

The data are lines of JSON: {"id", "text", "spans": [[label, start, stop], ...]}, or a CoNLL file of
tokens and BIO tags. Features in few documents are dropped, every row of the table is a genuine one
or the copy of one, and all get noise. That is measured by attacks at best, and never differential
privacy: the certificate says "empirical" or "none", and the default policy refuses both."""


def register(tasks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the task to the verb `train`; nothing heavy is imported before it runs."""
    parser = tasks.add_parser(
        "clauses",
        help="clauses and entities of long texts, by a table of hashed features",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, refuse_usage=parser.error)
    data = parser.add_argument_group("documents")
    data.add_argument("--data", type=Path, required=True, help="a .jsonl, .jsonl.gz or .conll file")
    data.add_argument(
        "--label",
        action="append",
        help="what to learn; may be given several times (default: every label in the data)",
    )
    data.add_argument("--name", help="what the certificate calls the documents (default: --data)")
    table = parser.add_argument_group("table")
    table.add_argument("--out", type=Path, required=True, help="a new folder for the run")
    table.add_argument("--level", choices=("sentence", "token"), help="what gets a label")
    table.add_argument("--rows", type=int, default=2**21, help="of the table (default: 2097152)")
    table.add_argument(
        "--clusters", type=int, default=0, help="clusters of public word vectors (default: none)"
    )
    table.add_argument("--algorithm", default="pa", help="of CRFsuite (default: pa)")
    table.add_argument("--iterations", type=int, default=30, help="passes (default: 30)")
    fill = parser.add_argument_group("release")
    fill.add_argument("--fill", default="hardened", help="hardened, published, gaussian or none")
    fill.add_argument("--noise", type=float, default=1.0, help="of hardened (default: 1 spread)")
    fill.add_argument(
        "--least-documents",
        type=int,
        help="features in fewer documents are dropped (default: 10 for hardened, else 1)",
    )


def run(options: argparse.Namespace) -> int:
    """Trains; returns 0."""
    from hushdoc.hashing import FeatureScheme
    from hushdoc_training.crf import clusters
    from hushdoc_training.recipes import hashed_crf

    corpus = _corpus(options)
    try:
        settings = hashed_crf.CRFSettings(
            algorithm=options.algorithm,
            iterations=options.iterations,
            fill=options.fill,
            noise=options.noise,
            least_documents=options.least_documents,
        )
        scheme = FeatureScheme(rows=options.rows, level=corpus.level, clusters=options.clusters)
    except ValueError as error:
        options.refuse_usage(str(error))
        raise
    trained = hashed_crf.train(
        corpus,
        scheme,
        settings,
        out=options.out,
        name=options.name or options.data.name,
        clusters=clusters.from_minilm(scheme) if scheme.clusters else None,
    )
    print(f"Learned:    {int(trained.fitted.genuine.sum())} of {scheme.rows} rows")
    print(f"Checkpoint: {options.out / 'checkpoint'}")
    return 0


def _corpus(options: argparse.Namespace) -> Corpus:
    from hushdoc_training.crf import corpus
    from hushdoc_training.data import contracts

    if options.data.suffix in (".conll", ".txt"):
        if options.level == "sentence":
            options.refuse_usage("--level sentence needs texts with spans; this file has tokens")
        sentences = contracts.read_conll(options.data)
        names = {tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"}
        return corpus.tagged_corpus(sentences, options.label or sorted(names))
    texts = contracts.read_contracts(options.data)
    names = {label for text in texts for label, _, _ in text.spans}
    make = corpus.token_corpus if options.level == "token" else corpus.sentence_corpus
    return make(texts, options.label or sorted(names))
