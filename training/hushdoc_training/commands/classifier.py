"""The task `train classifier`: classes of whole documents, by a table of hashed features."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted, printable
from hushdoc.commands.parsing import Subcommands, usage_errors
from hushdoc.errors import AnnotationError
from hushdoc_training.commands import table_options, tables, training_options

if TYPE_CHECKING:
    from hushdoc.hashing import FeatureScheme
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.crf.corpus import Corpus
    from hushdoc_training.labelled_texts import Message
    from hushdoc_training.recipes.hashed.public_texts import PublicText
    from hushdoc_training.table_checkpoint import TableCheckpoint

DESCRIPTION = """Trains a table of hashed words that classifies whole documents.

  hushdoc train classifier --data messages.jsonl.gz --mode dp-sgd --epsilon 8 \\
      --expected-records 8000 --out runs/private
  hushdoc train classifier --data invented:form+invoice+receipt --mode noisy-fill --out runs/classes
  hushdoc train classifier --data more.jsonl --update runs/classes --out runs/next
  hushdoc export runs/private --out model --key release.key

The data are lines of JSON, one for each document: {"id", "label", "text"}; labelled documents with
pages, whose "document_type" is their class (docs/data-formats.md); a folder that holds such a file;
or invented documents. `hushdoc classify` then answers with the class of a document.

How --mode protects what the table was trained on, and the kind of guarantee in its certificate:
  paper-fill  a linear classifier of scikit-learn, whose empty rows are filled as in "Hash the
              Universe", then attacked; "empirical"
  noisy-fill  only frequent words are kept, noise is added to every row, then attacked; "empirical"
  term-dp     each row is learned from its own counts and gets noise; "dp" for single terms
  dp-sgd      DP-SGD; "dp" for whole documents
  none        the table as it was fitted; "none": its empty rows reveal which words there were
The first two have no epsilon. Only `dp-sgd` protects documents."""

NUM_INVENTED = 300


def register(tasks: Subcommands) -> None:
    """Adds the task to `hushdoc train`; nothing heavy is imported before it runs."""
    parser = tasks.add_parser(
        "classifier",
        help="classify whole documents, with a table of hashed words",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, extra="crf")
    table_options.add_classifier(parser)


def run(options: argparse.Namespace) -> int:
    """Trains; returns 0."""
    table_options.check_classifier(options)
    from hushdoc_training import inherited_claims
    from hushdoc_training.recipes.hashed import classifier, private_runs, updates
    from hushdoc_training.recipes.hashed.table_tasks import WholeTexts

    before = None if options.update is None else updates.released(options.update)
    if before is not None and options.mode == "dp-sgd":
        before = replace(
            before, claim=inherited_claims.with_overlap(before.claim, options.public_overlap)
        )
        training_options.warn_of_overlap(before.claim.public_data)
    with usage_errors(options):
        own = classifier.scheme(
            table_options.CLASSIFIER_ROWS if options.rows is None else options.rows
        )
    own = own if before is None else before.scheme
    train, test = _corpora(options, () if before is None else before.tags)
    tables.print_read(options, counted(len(train.owners), "document"))
    print(f"Classes:    {', '.join(map(printable, train.names))}", flush=True)
    if options.mode == "term-dp":
        table = tables.by_term_counts(options, WholeTexts(corpus=train, scheme=own))
    elif options.mode == "dp-sgd":
        table = tables.by_dp_sgd(
            options,
            WholeTexts(corpus=train, scheme=own, released=before),
            public=_public(options, own),
            settings=replace(
                private_runs.CLASSIFIER,
                total_learning_rate=options.total_learning_rate
                or private_runs.classifier_rate(options.expected_records),
            ),
        )
    else:
        table = _filled(options, train, own, before)
    if len(test.owners):
        found = classifier.score(table, test)
        print(
            f"Held out:   {found.right:.3f} of {found.texts} documents are classified "
            f"correctly; the most frequent class for all would be correct for "
            f"{found.commonest:.3f}{training_options.of_invented(options.data)}"
        )
    tables.print_result(options, table)
    return 0


def _corpora(options: argparse.Namespace, known: tuple[str, ...]) -> tuple[Corpus, Corpus]:
    """Returns what to train on and what to score on, of the known classes if there are some."""
    from hushdoc_training.crf import corpus, whole_texts

    found = read_messages(options.data, options.documents or NUM_INVENTED)
    declared = training_options.declared_labels(options)
    if declared:
        found = [message for message in found if message.label in declared]
    found = [*tables.distinct(options, found, lambda message: message.label)]
    sides: dict[bool, list[Message]] = {False: [], True: []}
    for message in found:
        sides[corpus.is_held_out(f"{message.label}/{message.name}", options.held_out)].append(
            message
        )
    train, test = sides[False], sides[True]
    names = known or declared or sorted({message.label for message in train})
    strange = sorted({message.label for message in found} - {*names}) if known else []
    if strange:
        _refuse_or_warn(options, strange[0], known)
    learned = whole_texts.class_corpus(train, names, wordless=options.mode == "term-dp")
    made = tables.with_names(options, learned, known)
    return made, whole_texts.class_corpus(test, names)


def _refuse_or_warn(options: argparse.Namespace, strange: str, known: tuple[str, ...]) -> None:
    """Refuses a class that the released table does not know.

    Where documents are protected, neither whether training starts nor what it prints may tell of
    one of them, unless numbers about them are shown.
    """
    problem = f"Documents are of the class '{strange}'; the released table knows {', '.join(known)}"
    if options.mode != "dp-sgd":
        raise AnnotationError(f"{problem}. Leave them out, or train a new table.")
    if tables.is_told(options):
        warnings.warn(f"{problem}. They are left out.", stacklevel=2)


def read_messages(location: str, invented: int) -> list[Message]:
    """Returns the documents of a file or folder, or invented ones, labelled by their class."""
    from hushdoc_training import labelled_texts
    from hushdoc_training.data import dataset, labelled

    source = dataset.Source(location=location, documents=invented)
    if source.is_invented:
        return [_message(str(number), one) for number, one in enumerate(dataset.read(source))]
    if labelled.recognises(Path(location)):
        every = dataset.read(dataset.Source(location=location))
        return [_message(one.document.id, one) for one in every]
    dataset.refuse_releases(Path(location))
    path = labelled_texts.find(Path(location))
    found = labelled_texts.read_messages(path)
    labelled_texts.require_distinct(found, path)
    return found


def _message(name: str, labelled: LabelledDocument) -> Message:
    """Returns the words of a document with pages, a line for each page, and its type as class."""
    from hushdoc_training.labelled_texts import Message

    if labelled.document_type is None:
        raise AnnotationError(
            f"Document '{printable(name)}' has no \"document_type\", which is the class that it is "
            "of. Give every document one, or leave it out of the file."
        )
    lines = (" ".join(word.text for word in page.words) for page in labelled.document.pages)
    return Message(name=name, label=labelled.document_type, text="\n".join(lines))


def _filled(
    options: argparse.Namespace,
    corpus: Corpus,
    own: FeatureScheme,
    before: TableCheckpoint | None,
) -> TableCheckpoint:
    from hushdoc_training.recipes.hashed import classifier, updates
    from hushdoc_training.recipes.hashed.settings import CRFSettings

    settings = CRFSettings(
        fill=options.mode,
        noise=options.noise,
        min_document_frequency=options.min_document_frequency,
    )
    return classifier.train_filled(
        corpus,
        own,
        settings if before is None else updates.as_update(settings),
        released=before,
        out=options.out,
        name=tables.name_of(options),
        accesses=tables.scoring(options, tables.name_of(options)),
        report=tables.attack_printer(options),
        progress=tables.print_step,
    )


def _public(options: argparse.Namespace, own: FeatureScheme) -> PublicText:
    """Returns the public texts that scale the rows, with what the claim declares of them."""
    from hushdoc_training.crf import whole_texts
    from hushdoc_training.recipes.hashed.public_texts import PublicText, counted, scales_from

    if options.public is None:
        return counted()
    found = read_messages(options.public, NUM_INVENTED)
    texts = whole_texts.class_corpus(found, sorted({message.label for message in found}))
    made = options.public.startswith("invented:")
    name = options.public if made else Path(options.public).name
    status = "invented by a generator" if made else "declared public by the trainer"
    return PublicText(
        features=whole_texts.whole(texts.features(own), texts),
        unseen_scale=0.25 if options.unseen_scale is None else options.unseen_scale,
        data=(scales_from(name, status, options.public_overlap),),
    )
