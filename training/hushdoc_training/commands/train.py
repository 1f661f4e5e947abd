"""The subcommand `train`, and its task `kie`; torch is imported only when it runs."""

from __future__ import annotations

import argparse
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

from hushdoc_training.commands import (
    classifier,
    clauses,
    configuration,
    docvqa,
    images,
    kie_data,
    kie_public,
    kie_scores,
    kie_settings,
    synthetic_data,
    training_kinds,
)
from hushdoc_training.commands.data import SOURCE
from hushdoc_training.commands.training_options import (
    FIRST_DOCUMENTS,
    add_choice,
    add_labels,
    add_max_tokens,
    add_name,
    add_number,
    add_overlap,
    add_run,
    ledger_of,
    print_end,
    refuse_private_vocabulary,
    require_installed,
    takes_noise,
    tuned_on,
    warn_of_overlap,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.commands.parsing import CommandParser, Subcommands
    from hushdoc.labels import LabelledDocument
    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan

DESCRIPTION = """Trains a model that finds fields in documents, privately unless told otherwise.

  hushdoc train kie --data invented:form --public --out runs/public
  hushdoc train kie --data path/to/forms --start runs/public --public-overlap none \\
      --declared-documents 500 --epsilon 8 --out runs/private
  hushdoc export runs/private --out model --key release.key

All windows of a document are one record: it is clipped once, and epsilon holds for the whole
document. Declare about how many documents there are, for nothing is counted, and a recipe sets the
rest; noise is calibrated to the target. Ctrl-C finishes the step and saves; go on with --resume.

With --ledger, all runs on the same documents share one budget: see `hushdoc ledger --help`."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc train` with its tasks."""
    train = subcommands.add_parser(
        "train",
        help="train a document model with differential privacy",
        description="Trains a document model, privately unless told otherwise. See "
        "`hushdoc train TASK --help`.",
    )
    tasks = train.add_subparsers(title="tasks", dest="task", required=True, metavar="TASK")
    parser = tasks.add_parser(
        "kie",
        help="find fields of invoices, receipts and forms (key information extraction)",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kie_settings.add_configuration(parser)
    _data_options(parser)
    _model_options(parser)
    kie_settings.add_privacy(parser)
    kie_settings.add_training(parser)
    parser.set_defaults(run=run, extra="training")
    clauses.register(tasks)
    classifier.register(tasks)
    docvqa.register(tasks)
    images.register(tasks)


def _data_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("documents")
    group.add_argument(
        "--data",
        required=True,
        metavar="SOURCE",
        help=f"{SOURCE}; see docs/data-formats.md; with --public also a list of many, FILE.toml",
    )
    group.add_argument(
        "--documents",
        type=int,
        metavar="N",
        help="number of documents (default: all, or 1000 invented)",
    )
    add_name(group)
    add_labels(
        group,
        "name of a field; may be given again, and other labels of the documents count as outside "
        "of all fields (default: those of a checkpoint in --start, else every label in the "
        "documents, which default policies refuse of private ones)",
    )
    group.add_argument(
        "--labels",
        choices=("form", "fields", "cord", "docile", "sroie", "wildreceipt"),
        help="labels of invented documents: header, question and answer; named fields such as "
        "date and total; or those of a published corpus (default: form where there are forms among "
        "them, else fields)",
    )
    add_number(
        group,
        "--seed",
        "N",
        0,
        "seed of invented documents and of fresh weights, never of privacy noise",
    )
    kie_scores.add_options(parser, group)
    kie_public.add_options(parser, group)
    parser.mark_expert("--labels", "--seed")


def _model_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("model and output")
    add_run(group)
    group.add_argument(
        "--start",
        default="minilm",
        metavar="MODEL",
        help="model to start from: minilm, small, a run folder, or a transformers folder or hub id "
        "of LayoutLM, LayoutLMv3 or LiLT; of words alone minilm-text, BERT or RoBERTa (default: "
        "minilm)",
    )
    add_overlap(group)
    group.add_argument(
        "--new-labels",
        action="store_true",
        help="put a new output layer on --start: labels that it knows keep their weights, others "
        "begin afresh",
    )
    add_max_tokens(group)
    group.add_argument(
        "--images",
        action="store_true",
        help="read the image of each page beside its words: LayoutLMv3 only, and every document "
        "must have images; implied by a run in --start that reads them",
    )
    add_choice(
        group,
        "--box-level",
        ("word", "segment"),
        "word",
        "whether the model reads the boxes of words or of segments, if it reads boxes; a run in "
        "--start keeps its own",
    )
    add_choice(
        group,
        "--word-order",
        ("given", "reading"),
        "given",
        "reading: sort the words of each page by their boxes, in training and in use; a run in "
        "--start keeps its own order",
    )
    parser.mark_expert("--new-labels", "--max-tokens", "--images", "--box-level", "--word-order")


def run(options: argparse.Namespace) -> int:
    """Trains; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    if options.suggest:
        kie_settings.suggest(options)
        return 0
    require_installed()
    if options.images and options.start in ("minilm", "minilm-text", "small"):
        options.refuse_usage(f"--images needs a LayoutLMv3; --start {options.start} is none")
    training_kinds.choose(
        options,
        private=("trained", "optimizer", "momentum", "decay", "dropout", "by-guidelines"),
        plain=("batch-size",),
    )
    noise = takes_noise(options)
    invented = options.data.startswith("invented:")
    refuse_private_vocabulary(options, options.start)
    if options.documents is not None and noise and not invented:
        options.refuse_usage(FIRST_DOCUMENTS)
    bound = options.noisy_loss
    if bound is not None and not 0 < bound < math.inf:
        options.refuse_usage(f"--noisy-loss is {bound}; it must be a number above 0")
    kie_scores.check(options)
    listed = kie_public.is_list(options)
    ledger = ledger_of(options)
    plan = kie_settings.plan(options, ledger)
    if options.plan:
        return 0
    if listed:
        return kie_public.run(options)

    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.data import dataset
    from hushdoc_training.recipes.kie import start
    from hushdoc_training.runs import run_folder

    run_folder.require_usable(options.out, resume=options.resume)
    source = dataset.Source(
        location=options.data,
        documents=options.documents,
        seed=options.seed,
        labels=options.labels,
    )
    images = options.images or start.reads_images(options.start)
    progress = TaskProgress("document", quiet=options.quiet)
    schema = kie_data.schema_of(options)
    hidden = plan is not None and options.private_numbers == "hidden"
    sealed = synthetic_data.opened(options)
    with (
        progress,
        dataset.opened(
            source,
            images=images,
            schema=schema if plan is None else None,
            seen=progress.show,
            report=kie_data.reporter(source, hidden=hidden),
            windows=plan is not None and plan.privacy_unit == "sequence",
        )
        if sealed is None
        else nullcontext(list(dataset.known(sealed, schema))) as documents,
    ):
        progress.close()
        with kie_scores.sides(options, documents, images=images) as sides:
            _train(options, source, sides.train, ledger=ledger, plan=plan, sealed=sealed)
            kie_scores.show(options, sides)
    return 0


def _train(
    options: argparse.Namespace,
    source: Source,
    documents: Sequence[LabelledDocument],
    *,
    ledger: Ledger | None,
    plan: PrivacyPlan | None,
    sealed: SyntheticDocuments | None,
) -> None:
    from hushdoc_training.recipes import starts
    from hushdoc_training.recipes.kie import start as kie_start
    from hushdoc_training.recipes.kie import training as kie

    made_up = source.is_invented or sealed is not None
    public_texts = made_up or options.public
    start = kie_start.start_from(
        options.start,
        kie_data.labels_of(options, source, documents, private=plan is not None),
        max_tokens=options.max_tokens,
        box_level=options.box_level,
        images=options.images,
        word_order=options.word_order,
        new_labels=options.new_labels,
        vocabulary=lambda: (
            [
                word.text
                for labelled in documents
                for page in labelled.document.pages
                for word in page.words
            ]
            if public_texts
            else []
        ),
        resumed=options.out if options.resume else None,
        seed=options.seed,
    )
    if plan is not None:
        kie_settings.require_unit(options, start)
    kie_scores.check_start(options, start.claim)
    if kie_start.is_checkpoint(options.start):
        configuration.keep_of_start(options, kie_data.settled(start))
    print(kie_data.kept(start))
    name = options.name or kie_data.name_of(source, ledger, public=options.public)
    weights = kie_data.weights_of(start, options)
    if plan is not None or sealed is not None:
        start = starts.with_overlap(start, options.public_overlap)
    if plan is not None:
        warn_of_overlap((*starts.history(start), *weights))
        private = kie_settings.private(options, start)
        outcome = kie.train_private(
            start,
            documents,
            plan,
            private,
            out=options.out,
            name=name,
            public_data=weights,
            hyperparameter_tuning=tuned_on(options, kie_data.corpus(source)),
            ledger=ledger,
            documents_changed=options.documents_changed,
            resume=options.resume,
            quiet=options.quiet,
            private_numbers=options.private_numbers,
            copies=options.duplicates,
            audited=options.audit,
            scored=kie_scores.private_scores(options),
            caveats=(
                *kie_data.kinship(source, name, start.claim),
                *kie_data.own_vocabulary(start.name, start.claim),
            ),
            notes=configuration.notes_of(options, plan, private),
        )
    else:
        claim = synthetic_data.claim_without_noise(
            options,
            sealed,
            (*starts.history(start), *weights),
            name=name,
            invented=source.is_invented,
            training=kie.described(start),
            before=start.claim,
        )
        plain = kie_settings.plain(options, invented=made_up, documents=len(documents))
        outcome = kie.train_plain(
            start,
            documents,
            plain,
            out=options.out,
            claim=claim,
            resume=options.resume,
            quiet=options.quiet,
            notes=configuration.notes_of(options, plain),
        )
    outcome.require_finished()
    print_end(options.out, ledger)
