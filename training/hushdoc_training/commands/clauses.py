"""The task `train clauses`: a table of hashed features from labelled contracts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.errors import MissingExtraError
from hushdoc_training.commands import clause_options

if TYPE_CHECKING:
    from hushdoc.certificate.claim import DataAccess
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.hashing import Clusters, FeatureScheme
    from hushdoc_training.audit.roc import Attack
    from hushdoc_training.crf.corpus import Corpus
    from hushdoc_training.labelled_texts import Contract, Sentence
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.hashed.public_texts import PublicText
    from hushdoc_training.table_checkpoint import TableCheckpoint

DESCRIPTION = """Learns to find clauses or entities in long texts by a table of hashed features.

  hushdoc train clauses --data contracts.jsonl.gz --label "Governing Law" --out runs/law
  hushdoc train clauses --data invented:contract --mode dp-sgd --epsilon 8 --out runs/private

The data are lines of JSON, one for each document: {"id", "text", "spans": [[label, start, stop],
...]}; or a CoNLL file of tokens and BIO tags, with a line -DOCSTART- before each document; or a
folder that holds one of them; or invented:contract.

What the table may be given away as:
  paper-fill  filled as in "Hash the Universe" and attacked; the certificate says "empirical"
  noisy-fill  frequent words alone, noise on every row, attacked; "empirical"
  term-dp     each row learned from its own counts, noise on every row; "dp" for single terms
  dp-sgd      DP-SGD; "dp" for whole documents
  none        as it was fitted; the certificate says that it promises nothing
No epsilon follows from the first two. Only `dp-sgd` protects documents."""

INVENTED = "invented:contract"
NUM_INVENTED = 400
ALONE = (
    "from invented contracts alone, which lack most words. Give public ones with --public; or, "
    "where MiniLM's package is installed and its sources (Wikipedia, books) hold no protected "
    "document, declare --public-overlap none to add how rare words are at large"
)
SENTENCE = "one sentence of the file, which whoever trained declared to be a document of its own"


def register(tasks: Subcommands) -> None:
    """Adds the task to the verb `train`; nothing heavy is imported before it runs."""
    parser = tasks.add_parser(
        "clauses",
        help="clauses and entities of long texts, by a table of hashed features",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, extra="crf")
    clause_options.add(parser)


def run(options: argparse.Namespace) -> int:
    """Trains; returns 0."""
    clause_options.check(options)
    try:
        import numpy as np  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("numpy", "crf") from error
    train, test = _corpora(options)
    print(
        f"Read:       {len(train.records) - 1} documents, "
        f"{len(train.labels)} {train.level}s, {int((train.labels > 0).sum())} with a label",
        flush=True,
    )
    scheme = _scheme(options, train.level)
    modes = {"dp-sgd": _private, "term-dp": _gaussian}
    table = modes.get(options.mode, _filled)(options, train, scheme)
    if len(test.labels):
        from hushdoc_training.recipes.hashed import private_runs

        found = private_runs.score(table, test)
        print(
            f"Held out:   precision {found.precision:.3f}, recall {found.recall:.3f}, F1 "
            f"{found.f1:.3f} on {found.items} {test.level}s with a label"
        )
    say_what_it_promises(table)
    print(f"Checkpoint: {options.out / 'checkpoint'}")
    return 0


def _corpora(options: argparse.Namespace) -> tuple[Corpus, Corpus]:
    """Returns what to train on and what to score on."""
    from hushdoc_training import labelled_texts
    from hushdoc_training.crf import corpus

    location = options.data
    if not location.startswith("invented:"):
        path = labelled_texts.find(Path(location))
        if path.suffix in (".conll", ".txt"):
            alone = options.sentences_are_documents
            return _tagged(options, labelled_texts.read_conll(path, sentences_are_documents=alone))
    texts: Sequence[Contract] = read_texts(location, options.documents)
    names = options.label or sorted({label for text in texts for label, _, _ in text.spans})
    make = corpus.token_corpus if options.level == "token" else corpus.sentence_corpus
    sides = corpus.split(texts, [text.group for text in texts], held_out=options.held_out)
    train, test = sides if options.held_out else (texts, [])
    return make(train, names), make(test, names)


def _tagged(options: argparse.Namespace, sentences: Sequence[Sentence]) -> tuple[Corpus, Corpus]:
    from hushdoc_training.crf import corpus

    if options.level == "sentence" or options.mode == "term-dp":
        options.refuse_usage("this file has tagged tokens; sentences need texts with spans")
    if options.documents is not None:
        sentences = [s for s in sentences if s.document < options.documents]
    found = {tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"}
    names = options.label or sorted(found)
    owners = [sentence.document for sentence in sentences]
    sides = corpus.split(sentences, owners, held_out=options.held_out)
    train, test = sides if options.held_out else (sentences, [])
    return corpus.tagged_corpus(train, names), corpus.tagged_corpus(test, names)


def read_texts(location: str, documents: int | None) -> list[Contract]:
    """Returns the contracts of a file, or invented ones.

    Args:
        location: A file, a folder that holds one, or INVENTED.
        documents: At most so many.

    Raises:
        AnnotationError: There are none, or they can't be read.
    """
    from hushdoc.errors import AnnotationError
    from hushdoc_training import labelled_texts
    from hushdoc_training.invented import clause_contracts

    if location == INVENTED:
        return clause_contracts.contracts(documents or NUM_INVENTED)
    if location.startswith("invented:"):
        raise AnnotationError(
            f"'{location}' is not known; expected '{INVENTED}'. Give that, or a file."
        )
    return labelled_texts.read_contracts(labelled_texts.find(Path(location)))[:documents]


def _scheme(options: argparse.Namespace, level: str) -> FeatureScheme:
    from hushdoc.hashing import FeatureScheme

    # Tokens alone: the fewer features an item has, the less noise reaches its score, and a term
    # has a bounded number of rows.
    pairs = not (options.mode in ("dp-sgd", "term-dp") or _in_batches(options, level))
    try:
        return FeatureScheme(
            rows=options.rows,
            level=level,
            clusters=options.clusters,
            bigrams=pairs,
            skip_grams=pairs,
        )
    except ValueError as error:
        options.refuse_usage(str(error))
        raise


def _in_batches(options: argparse.Namespace, level: str) -> bool:
    """Returns whether rows are scaled by public text and learned in batches: see `filling`.

    Tags of tokens need the tokens around them, which are pairs.
    """
    if options.algorithm is None:
        return options.mode == "noisy-fill" and level == "sentence"
    return bool(options.algorithm == "batch")


def _filled(options: argparse.Namespace, corpus: Corpus, scheme: FeatureScheme) -> TableCheckpoint:
    from hushdoc_training import table_checkpoint
    from hushdoc_training.crf.clusters import from_minilm
    from hushdoc_training.crf.private_fitting import UNSEEN_SCALE, Settings
    from hushdoc_training.recipes.hashed import crf, table_attacks
    from hushdoc_training.recipes.hashed import settings as table_settings

    batches = _in_batches(options, corpus.level)
    clusters = from_minilm(scheme) if scheme.clusters else None
    public = _public(options, scheme, clusters) if batches else None
    try:
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
    except ValueError as error:
        options.refuse_usage(str(error))
        raise
    trained = crf.train(
        corpus,
        scheme,
        settings,
        out=options.out,
        name=name_of(options),
        clusters=clusters,
        public=None if public is None else public.features,
        public_data=() if public is None else public.data,
        attack=None
        if options.mode == "none"
        else lambda made: table_attacks.audits(made, report=print_attack),
        accesses=scoring(options, name_of(options)),
        caveats=(f"A document is {SENTENCE}.",) if options.sentences_are_documents else (),
        progress=lambda what: print(f"{what} ...", flush=True),
    )
    print(f"Learned:    {int(trained.fitted.genuine.sum())} of {scheme.rows} rows")
    return table_checkpoint.load(options.out)


def print_attack(attack: Attack) -> None:
    """Prints what an attack achieved.

    Args:
        attack: One of those on a finished table.
    """
    print(
        f"Attack:     {attack.method}: AUC {attack.auc:.3f}, true positives {attack.tpr:.3f} at "
        f"{attack.fpr:.4f} false ones",
        flush=True,
    )


def _private(options: argparse.Namespace, corpus: Corpus, scheme: FeatureScheme) -> TableCheckpoint:
    from hushdoc_training.crf.private_fitting import Settings
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.recipes.hashed import private_runs
    from hushdoc_training.recipes.hashed.table_tasks import Clauses

    ledger = None if options.ledger is None else Ledger.open(options.ledger)
    plan = plan_of(options, ledger)
    name = options.name or (ledger.data if ledger is not None else name_of(options))
    return private_runs.protect_documents(
        Clauses(corpus=corpus, scheme=scheme),
        plan,
        public=_public(options, scheme),
        out=options.out,
        name=name,
        settings=Settings(
            total_learning_rate=options.total_learning_rate or clause_options.DP_SGD_LEARNING_RATE
        ),
        hyperparameter_tuning=options.tuned_on,
        unit_definition=SENTENCE if options.sentences_are_documents else None,
        ledger=ledger,
        documents_changed=options.documents_changed,
        accesses=scoring(options, name),
    )


def plan_of(options: argparse.Namespace, ledger: Ledger | None) -> PrivacyPlan:
    """Returns the plan of full batches that options ask for; a wrong number is a usage error.

    Args:
        options: With what `clause_options.add_budget` added.
        ledger: The budget of the documents, whose delta holds where none is given.
    """
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.hashed import private_runs

    delta = options.delta
    if delta is None:
        delta = private_runs.DELTA if ledger is None else ledger.delta
    try:
        return PrivacyPlan.calibrated(
            epsilon=options.epsilon,
            delta=delta,
            sampling_rate=1.0,
            steps=options.steps,
            clipping_norm=options.clipping_norm,
            expected_records=options.expected_records,
        )
    except ValueError as error:
        options.refuse_usage(str(error))
        raise


def _public(
    options: argparse.Namespace, scheme: FeatureScheme, clusters: Clusters | None = None
) -> PublicText:
    """Returns the public sentences that scale the rows, with what is to be said of them."""
    from hushdoc_training.recipes.hashed import public_texts

    if options.public is None:
        # Default policies refuse a promise where it is unknown what a public text holds.
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


def _gaussian(
    options: argparse.Namespace, corpus: Corpus, scheme: FeatureScheme
) -> TableCheckpoint:
    from hushdoc_training.recipes.hashed import private_runs
    from hushdoc_training.recipes.hashed.table_tasks import Clauses

    try:
        return private_runs.protect_terms(
            Clauses(corpus=corpus, scheme=scheme),
            epsilon=options.epsilon,
            delta=private_runs.DELTA if options.delta is None else options.delta,
            out=options.out,
            name=name_of(options),
            accesses=scoring(options, name_of(options)),
        )
    except ValueError as error:
        options.refuse_usage(str(error))
        raise


def say_what_it_promises(table: TableCheckpoint) -> None:
    """Prints the certificate in a line.

    Args:
        table: What was made.
    """
    (guarantee,) = table.claim.guarantees
    stated = f"Certificate: kind {guarantee.kind}, unit {guarantee.unit}"
    if guarantee.epsilon is not None:
        stated += f", epsilon {guarantee.epsilon:.4g}, delta {guarantee.delta:g}"
    why = guarantee.reason or guarantee.condition
    print(stated + (f": {why}" if why else ""))


def scoring(options: argparse.Namespace, name: str) -> tuple[DataAccess, ...]:
    """Returns how documents are read that nothing is learned from.

    Args:
        options: With --held-out.
        name: What the certificate calls the documents.
    """
    from hushdoc.certificate.claim import DataAccess

    why = "score on held-out documents, shown to whoever trained; nothing was learned from them"
    read = (DataAccess(data=name, purpose=why, accounted_in=(), treatment="not-released"),)
    return read if options.held_out else ()


def name_of(options: argparse.Namespace) -> str:
    """Returns what the certificate calls the documents.

    Args:
        options: With --name and --data.
    """
    return str(options.name or Path(options.data).resolve().name)
