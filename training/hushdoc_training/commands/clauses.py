"""The task `train clauses`: a table of hashed features from labelled contracts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hushdoc.arguments import counted
from hushdoc.commands.parsing import Subcommands, usage_errors
from hushdoc_training.commands import synthetic_data, table_options, tables, training_options
from hushdoc_training.commands.tables import INVENTED

if TYPE_CHECKING:
    from hushdoc.hashing import Clusters, FeatureScheme
    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc_training.crf.corpus import Corpus
    from hushdoc_training.labelled_texts import Contract, Sentence
    from hushdoc_training.recipes.hashed.public_texts import PublicText
    from hushdoc_training.table_checkpoint import TableCheckpoint

DESCRIPTION = """Trains a table of hashed features that finds clauses or entities in long texts.

  hushdoc train clauses --data contracts.jsonl.gz --label "Governing Law" --out runs/law
  hushdoc train clauses --data invented:contract --mode dp-sgd --epsilon 8 --out runs/private

The data are lines of JSON, one for each document: {"id", "text", "spans": [[label, start, stop],
...]}; or a CoNLL file of tokens and BIO tags, with a line -DOCSTART- before each document; or a
folder that holds one of them; or invented:contract.

How --mode protects what the table was trained on, and the kind of guarantee in its certificate:
  paper-fill  empty rows are filled as in "Hash the Universe", then attacked; "empirical"
  noisy-fill  only frequent words are kept, noise is added to every row, then attacked; "empirical"
  term-dp     each row is learned from its own counts and gets noise; "dp" for single terms
  dp-sgd      DP-SGD; "dp" for whole documents
  none        the table as it was fitted; "none": its empty rows reveal which words there were
The first two have no epsilon. Only `dp-sgd` protects documents."""

Item = TypeVar("Item")

NUM_INVENTED = 400
ALONE = (
    "from invented contracts alone, which lack most words. Give public ones with --public; or, "
    "where MiniLM's package is installed and its sources (Wikipedia, books) hold no protected "
    "document, declare --public-overlap none to add how rare words are at large"
)
SENTENCE = "one sentence of the file, which whoever trained declared to be a document of its own"


def register(tasks: Subcommands) -> None:
    """Adds the task to `hushdoc train`; nothing heavy is imported before it runs."""
    parser = tasks.add_parser(
        "clauses",
        help="find clauses and entities in long texts, with a table of hashed features",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, extra="crf")
    table_options.add_clauses(parser)


def run(options: argparse.Namespace) -> int:
    """Trains; returns 0."""
    table_options.check_clauses(options)
    sealed = synthetic_data.opened(options)
    train, test = _corpora(options, sealed)
    tables.print_read(
        options,
        f"{counted(len(train.records) - 1, 'document')}, "
        f"{counted(len(train.labels), train.level)}, "
        f"{int((train.labels > 0).sum())} with a label",
    )
    scheme = _scheme(options, train.level)
    modes = {"dp-sgd": _private, "term-dp": _by_terms}
    if options.mode in modes:
        table = modes[options.mode](options, train, scheme)
    else:
        table = _filled(options, train, scheme, sealed)
    if len(test.labels):
        from hushdoc_training.recipes.hashed import private_runs

        found = private_runs.score(table, test)
        print(
            f"Held out:   precision {found.precision:.3f}, recall {found.recall:.3f}, F1 "
            f"{found.f1:.3f} on {found.items} {test.level}s with a label"
            f"{training_options.of_invented(options.data, synthetic=sealed is not None)}"
        )
    tables.print_result(options, table)
    return 0


def _corpora(
    options: argparse.Namespace, sealed: SyntheticDocuments | None
) -> tuple[Corpus, Corpus]:
    """Returns what to train on and what to score on."""
    from hushdoc_training import labelled_texts
    from hushdoc_training.crf import corpus
    from hushdoc_training.data import dataset

    location = options.data
    texts: Sequence[Contract]
    if sealed is not None:
        texts = list(map(labelled_texts.contract_of, sealed))
    elif not location.startswith("invented:"):
        dataset.refuse_releases(Path(location))
        path = labelled_texts.find(Path(location))
        if path.suffix in (".conll", ".txt"):
            alone = options.sentences_are_documents
            return _tagged(options, labelled_texts.read_conll(path, sentences_are_documents=alone))
    if sealed is None:
        texts = read_texts(location, options.documents)
    declared = training_options.declared_labels(options)
    names = declared or sorted({label for text in texts for label, _, _ in text.spans})
    texts = tables.distinct(options, texts, lambda text: text.spans)
    make = corpus.token_corpus if options.level == "token" else corpus.sentence_corpus
    train, test = _sides(texts, [text.group for text in texts], options.held_out)
    return tables.with_names(options, make(train, names)), make(test, names)


def _tagged(options: argparse.Namespace, sentences: Sequence[Sentence]) -> tuple[Corpus, Corpus]:
    from hushdoc_training.crf import corpus

    if options.level == "sentence" or options.mode == "term-dp":
        options.refuse_usage("this file has tagged tokens; sentences need texts with spans")
    if options.documents is not None:
        sentences = [s for s in sentences if s.document < options.documents]
    found = {tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"}
    names = training_options.declared_labels(options) or sorted(found)
    sentences = _without_copies(options, sentences)
    train, test = _sides(sentences, _documents_of(sentences), options.held_out)
    made = tables.with_names(options, corpus.tagged_corpus(train, names))
    return made, corpus.tagged_corpus(test, names)


def _sides(
    items: Sequence[Item], names: Sequence[str], held_out: float
) -> tuple[list[Item], list[Item]]:
    """Returns what to train on and what to score on, as each item's own name decides."""
    from hushdoc_training.crf import corpus

    sides: dict[bool, list[Item]] = {False: [], True: []}
    for item, name in zip(items, names, strict=True):
        sides[corpus.is_held_out(name, held_out)].append(item)
    return sides[False], sides[True]


@dataclass(frozen=True)
class _Document:
    """The sentences of one document of a tagged file."""

    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """Its words."""
        return " ".join(token for sentence in self.sentences for token in sentence.tokens)


def _without_copies(
    options: argparse.Namespace, sentences: Sequence[Sentence]
) -> Sequence[Sentence]:
    """Returns the sentences of one of all documents with the same words."""
    documents: dict[int, list[Sentence]] = {}
    for sentence in sentences:
        documents.setdefault(sentence.document, []).append(sentence)
    whole = [_Document(tuple(found)) for found in documents.values()]
    kept = tables.distinct(options, whole, lambda made: [one.tags for one in made.sentences])
    return [sentence for document in kept for sentence in document.sentences]


def _documents_of(sentences: Sequence[Sentence]) -> list[str]:
    """Returns for each sentence the words of its document, which has no other name."""
    words: dict[int, list[str]] = {}
    for sentence in sentences:
        words.setdefault(sentence.document, []).extend(sentence.tokens)
    names = {document: " ".join(tokens) for document, tokens in words.items()}
    return [names[sentence.document] for sentence in sentences]


def read_texts(location: str, documents: int | None) -> list[Contract]:
    """Returns the contracts of a file or folder, at most so many, or INVENTED ones."""
    from hushdoc.errors import AnnotationError
    from hushdoc_training import labelled_texts
    from hushdoc_training.data import dataset
    from hushdoc_training.invented import clause_contracts

    if location == INVENTED:
        return clause_contracts.contracts(documents or NUM_INVENTED)
    if location.startswith("invented:"):
        raise AnnotationError(
            f"'{location}' is not known; expected '{INVENTED}'. Give that, or a file."
        )
    dataset.refuse_releases(Path(location))
    return labelled_texts.read_contracts(labelled_texts.find(Path(location)))[:documents]


def _scheme(options: argparse.Namespace, level: str) -> FeatureScheme:
    from hushdoc.hashing import FeatureScheme

    # Tokens alone: the fewer features an item has, the less noise reaches its score, and a term
    # has a bounded number of rows.
    pairs = not (options.mode in ("dp-sgd", "term-dp") or _in_batches(options, level))
    with usage_errors(options):
        return FeatureScheme(
            rows=options.rows,
            level=level,
            clusters=options.clusters,
            bigrams=pairs,
            skip_grams=pairs,
        )


def _in_batches(options: argparse.Namespace, level: str) -> bool:
    """Returns whether rows are scaled by public text and learned in batches: see `filling`.

    Tags of tokens need the tokens around them, which are pairs.
    """
    if options.algorithm is None:
        return options.mode == "noisy-fill" and level == "sentence"
    return bool(options.algorithm == "batch")


def _filled(
    options: argparse.Namespace,
    corpus: Corpus,
    scheme: FeatureScheme,
    sealed: SyntheticDocuments | None,
) -> TableCheckpoint:
    from hushdoc_training import table_checkpoint
    from hushdoc_training.crf.clusters import from_minilm
    from hushdoc_training.crf.private_fitting import UNSEEN_SCALE, Settings
    from hushdoc_training.recipes.hashed import crf, table_attacks
    from hushdoc_training.recipes.hashed import settings as table_settings

    batches = _in_batches(options, corpus.level)
    with usage_errors(options):
        clusters = from_minilm(scheme) if scheme.clusters else None
    public = _public(options, scheme, clusters) if batches else None
    with usage_errors(options):
        settings = table_settings.CRFSettings(
            algorithm="batch" if batches else options.algorithm or "pa",
            iterations=options.iterations,
            c=options.c,
            fill=options.mode,
            noise=options.noise,
            batch=Settings(
                total_learning_rate=options.total_learning_rate
                or table_settings.TOTAL_LEARNING_RATE
            ),
            top_features_per_label=options.top_features_per_label,
            unseen_scale=UNSEEN_SCALE if public is None else public.unseen_scale,
            min_document_frequency=options.min_document_frequency,
        )
    trained = crf.train(
        corpus,
        scheme,
        settings,
        out=options.out,
        name=tables.name_of(options),
        clusters=clusters,
        public=None if public is None else public.features,
        public_data=() if public is None else public.data,
        attack=None
        if options.mode == "none" or sealed is not None
        else lambda made: table_attacks.audits(made, report=tables.attack_printer(options)),
        sealed=sealed,
        accesses=() if sealed is not None else tables.scoring(options, tables.name_of(options)),
        caveats=(f"A document is {SENTENCE}.",) if options.sentences_are_documents else (),
        progress=tables.print_step,
    )
    print(f"Learned:    {int(trained.fitted.genuine.sum())} of {scheme.rows} rows")
    return table_checkpoint.load(options.out)


def _private(options: argparse.Namespace, corpus: Corpus, scheme: FeatureScheme) -> TableCheckpoint:
    from hushdoc_training.crf.private_fitting import Settings
    from hushdoc_training.recipes.hashed.private_runs import CLAUSES
    from hushdoc_training.recipes.hashed.table_tasks import Clauses

    settings = CLAUSES if corpus.level == "sentence" else Settings()
    rate = options.total_learning_rate or table_options.DP_SGD_LEARNING_RATE
    return tables.by_dp_sgd(
        options,
        Clauses(corpus=corpus, scheme=scheme),
        public=_public(options, scheme),
        settings=replace(settings, total_learning_rate=rate),
        unit_definition=SENTENCE if options.sentences_are_documents else None,
    )


def _by_terms(
    options: argparse.Namespace, corpus: Corpus, scheme: FeatureScheme
) -> TableCheckpoint:
    from hushdoc_training.recipes.hashed.table_tasks import Clauses

    return tables.by_term_counts(options, Clauses(corpus=corpus, scheme=scheme))


def _public(
    options: argparse.Namespace, scheme: FeatureScheme, clusters: Clusters | None = None
) -> PublicText:
    """Returns the public sentences that scale the rows, with what the claim declares of them."""
    from hushdoc_training.recipes.hashed import public_texts

    if options.public is None:
        # Default policies refuse a guarantee where it is unknown what a public text contains.
        declared = options.mode != "dp-sgd" or options.public_overlap == "none"
        made = public_texts.without_any(
            scheme,
            words=options.public_overlap if declared else None,
            unseen_scale=options.unseen_scale,
            clusters=clusters,
        )
        if len(made.data) == 1:
            print(f"Scales:     {ALONE}")
        return made
    return public_texts.given(
        read_texts(options.public, None),
        scheme,
        name=Path(options.public).name,
        overlap=options.public_overlap,
        unseen_scale=options.unseen_scale,
        clusters=clusters,
    )
