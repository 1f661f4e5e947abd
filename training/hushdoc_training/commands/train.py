"""The subcommand `train`, and its task `kie`; torch is imported only when it runs."""

from __future__ import annotations

import argparse
import math
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hushdoc.errors import MissingExtraError
from hushdoc_training.commands import classifier, clauses, kie_data
from hushdoc_training.commands.training_options import (
    FIRST_DOCUMENTS,
    add_audit,
    add_budget,
    add_choice,
    add_labels,
    add_name,
    add_number,
    add_out,
    add_overlap,
    calibrated,
    print_head,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.commands.parsing import CommandParser, Subcommands
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan

DESCRIPTION = """Trains a model that finds fields in documents, privately unless told otherwise.

  hushdoc train kie --data invented:form --public --out runs/public
  hushdoc train kie --data path/to/forms --start runs/public --epsilon 8 --out runs/private
  hushdoc export runs/private --out model --key release.key

All windows of a document are one record: it is clipped once, and epsilon holds for the whole
document. Sampling rate, steps and divisor are yours to choose without looking at the data; noise
is calibrated to the target. Ctrl-C finishes the step and saves; go on with --resume.

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
    _data_options(parser)
    _model_options(parser)
    _privacy_options(parser)
    _training_options(parser)
    parser.set_defaults(run=run, extra="training")
    clauses.register(tasks)
    classifier.register(tasks)


def _data_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("documents")
    group.add_argument(
        "--data", required=True, help="FUNSD folder, XFUND file, or invented:TYPE[+TYPE]"
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
    parser.mark_expert("--labels", "--seed")


def _model_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("model and output")
    add_out(group)
    group.add_argument(
        "--resume", action="store_true", help="continue the interrupted run in --out"
    )
    group.add_argument(
        "--start",
        default="minilm",
        metavar="MODEL",
        help="model to start from: minilm, small, a run folder, or a transformers folder or hub id "
        "of LayoutLM, LayoutLMv3 or LiLT (default: minilm)",
    )
    add_overlap(group)
    group.add_argument(
        "--new-labels",
        action="store_true",
        help="use a fresh output layer if the labels differ from those of --start",
    )
    add_number(group, "--max-tokens", "N", 128, "length of a window in tokens")
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
        "whether the model reads the boxes of words or of segments",
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


def _privacy_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("privacy")
    mode = group.add_mutually_exclusive_group()
    mode.add_argument(
        "--public", action="store_true", help="train without privacy: the documents are public"
    )
    mode.add_argument(
        "--not-private",
        action="store_true",
        help="train on private documents without privacy; the certificate says so",
    )
    add_number(mode, "--epsilon", "E", 8.0, "privacy budget")
    add_budget(parser, group, steps=200, clipping_norm=0.1, expected_records=32)
    add_audit(parser, group, default=False, costs="with MiniLM it takes 2 minutes")
    add_number(group, "--sampling-rate", "Q", 0.2, "probability of each record to be in a step")
    add_choice(
        group,
        "--privacy-unit",
        ("document", "sequence"),
        "document",
        "what the guarantee protects: whole documents, or windows of tokens",
    )
    add_choice(
        group,
        "--accountant",
        ("pld", "rdp"),
        "pld",
        "how noise is calibrated: by privacy loss distributions, or by Renyi accounting, which "
        "needs more noise",
    )
    add_choice(
        group,
        "--trained",
        ("all", "encoder", "biases", "output"),
        "encoder",
        "which parameters are trained and get noise: all; all but word embeddings; biases, norms "
        "and output layer; or the output layer alone, for a hundred documents",
    )
    add_choice(
        group,
        "--backend",
        ("book-keeping", "opacus", "one-by-one"),
        "book-keeping",
        "how gradients are clipped, all with the same result: in one backward pass; by Opacus' "
        "hooks, which know fewer layers; by one pass for each record",
    )
    add_choice(
        group,
        "--noise-distribution",
        ("auto", "discrete-gaussian", "gaussian"),
        "auto",
        "what is drawn on the grid of sums: a discrete Gaussian in integers, exact also in its "
        "tails; or a rounded one computed in float64, which takes a fifth of the time; auto draws "
        "the first up to a million trained numbers",
    )
    group.add_argument(
        "--noisy-loss",
        type=float,
        metavar="BOUND",
        help="show each step's mean loss with noise, inside the budget; losses above BOUND, a "
        "number chosen without looking at the documents, count as that much",
    )
    parser.mark_expert(
        "--noisy-loss",
        "--privacy-unit",
        "--accountant",
        "--trained",
        "--backend",
        "--noise-distribution",
    )


def _training_options(parser: CommandParser) -> None:
    group = parser.add_argument_group("training")
    group.add_argument(
        "--learning-rate",
        type=float,
        metavar="RATE",
        help="step size of the optimiser (default: 5e-4 with privacy, 3e-4 without)",
    )
    add_number(group, "--epochs", "N", 1.0, "passes over the documents, without privacy")
    add_number(group, "--batch-size", "N", 16, "windows in a batch, without privacy")
    group.add_argument("--quiet", action="store_true", help="print no progress")
    parser.mark_expert("--learning-rate", "--epochs", "--batch-size")


def run(options: argparse.Namespace) -> int:
    """Trains; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    for package in ("torch", "transformers", "opacus"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "training")
    if options.images and options.start in ("minilm", "small"):
        options.refuse_usage(f"--images needs a LayoutLMv3; --start {options.start} is none")
    public = options.public or options.not_private or options.data.startswith("invented:")
    if options.documents is not None and not public:
        options.refuse_usage(FIRST_DOCUMENTS)
    if options.audit and (options.public or options.not_private):
        options.refuse_usage("--audit is of private training; leave --public or --not-private")
    bound = options.noisy_loss
    if bound is not None and (options.public or options.not_private or not 0 < bound < math.inf):
        options.refuse_usage(
            f"--noisy-loss is {bound}; it must be a number above 0, and needs private training"
        )
    ledger = _ledger(options)
    plan = None if options.public or options.not_private else _plan(options, ledger)

    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.data import dataset
    from hushdoc_training.recipes.kie import start

    source = dataset.Source(
        location=options.data,
        documents=options.documents,
        seed=options.seed,
        labels=options.labels,
    )
    images = options.images or start.reads_images(options.start)
    progress = TaskProgress("document", quiet=options.quiet)
    with progress, dataset.opened(source, images=images, seen=progress.show) as documents:
        progress.close()
        return _train(options, source, documents, ledger=ledger, plan=plan)


def _train(
    options: argparse.Namespace,
    source: Source,
    documents: Sequence[LabelledDocument],
    *,
    ledger: Ledger | None,
    plan: PrivacyPlan | None,
) -> int:
    from hushdoc_training.privacy import claims
    from hushdoc_training.recipes.kie import settings
    from hushdoc_training.recipes.kie import start as kie_start
    from hushdoc_training.recipes.kie import training as kie
    from hushdoc_training.runs import loop

    public_texts = source.is_invented or options.public
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
    name = options.name or kie_data.name_of(source, ledger, public=options.public)
    weights = kie_data.weights_of(start, options)
    if plan is not None:
        private = settings.PrivateSettings(
            learning_rate=options.learning_rate or 5e-4,
            trained=options.trained,
            backend=options.backend,
            noise_distribution=(
                None if options.noise_distribution == "auto" else options.noise_distribution
            ),
            loss_bound=options.noisy_loss,
        )
        outcome = kie.train_private(
            start,
            documents,
            plan,
            private,
            out=options.out,
            name=name,
            public_data=weights,
            hyperparameter_tuning=options.tuned_on,
            ledger=ledger,
            documents_changed=options.documents_changed,
            resume=options.resume,
            quiet=options.quiet,
            private_numbers=options.private_numbers,
            copies=options.duplicates,
            audited=options.audit,
        )
    else:
        plain = settings.PlainSettings(
            epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate or 3e-4,
            segment_shuffling=0.3 if source.is_invented else 0.0,
            token_noise=0.2 if options.public else 0.0,
            label_smoothing=0.1 if options.public else 0.0,
            seed=options.seed,
        )
        history = (*kie.history(start), *weights)
        training = kie.described(start)
        claim = (
            claims.public(
                (*history, kie_data.public_data(name, source.is_invented, options)),
                training=training,
            )
            if options.public
            else claims.not_private(name, history, training=training)
        )
        outcome = kie.train_plain(
            start,
            documents,
            plain,
            out=options.out,
            claim=claim,
            resume=options.resume,
            quiet=options.quiet,
        )
    if outcome.interrupted:
        raise loop.interrupted_after(outcome.charged)
    print(f"Checkpoint: {options.out / 'checkpoint'}")
    print(f"Plot:       {options.out / 'training.png'}")
    print_head(ledger)
    return 0


def _ledger(options: argparse.Namespace) -> Ledger | None:
    """Returns the ledger that the options name; one without privacy is a usage error."""
    if options.ledger is None:
        if options.documents_changed:
            options.refuse_usage("--documents-changed needs --ledger")
        return None
    if options.public or options.not_private:
        options.refuse_usage("--ledger counts private training; leave --public or --not-private")
    from hushdoc_training.ledger.ledger import Ledger

    return Ledger.open(options.ledger)


def _plan(options: argparse.Namespace, ledger: Ledger | None) -> PrivacyPlan:
    return calibrated(
        options,
        ledger,
        privacy_unit=options.privacy_unit,
        sampling_rate=options.sampling_rate,
        accountant=options.accountant,
    )
