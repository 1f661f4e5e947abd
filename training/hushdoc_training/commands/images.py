"""The task `images` of `hushdoc train`: classes of documents by the images of their pages."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from hushdoc.commands.parsing import usage_errors
from hushdoc.errors import PrivacyError
from hushdoc_training.commands import configuration, kie_data, synthetic_data, training_kinds
from hushdoc_training.commands.training_options import (
    FIRST_DOCUMENTS,
    add_budget,
    add_choice,
    add_labels,
    add_name,
    add_number,
    add_overlap,
    add_recipe_number,
    add_run,
    declared_labels,
    ledger_of,
    planned,
    print_end,
    print_plan,
    require_installed,
    require_small_delta,
    takes_noise,
    tuned_on,
    warn_of_labels,
    warn_of_overlap,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.commands.parsing import Subcommands
    from hushdoc.labels import LabelSet
    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.data.image_documents import ImageDocument
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.images.settings import PlainSettings

DESCRIPTION = """Trains a classifier of documents that reads the images of their pages.

  hushdoc train images --data path/to/classes --public --out runs/public
  hushdoc train images --data path/to/others --start runs/public --public-overlap none \\
      --epsilon 8 --out runs/private
  hushdoc export runs/private --out model --key release.key
  hushdoc classify model page.png --policy policy.toml

The data are a folder of images for each class, RVL-CDIP, docmix, or documents with images and a
"document_type", such as invented:invoice+receipt. A document with all its pages is protected as a
whole. Without privacy pages are mixed by mixup and CutMix; a mixed page is of two documents, so
private training mixes none."""

ARCHITECTURES = ("small", "linear", "resnet-50", "resnet-50-groups", "convnext-b", "dit-b")
"""Those of `models.image_classifier`, which loads torch."""


def register(tasks: Subcommands) -> None:
    """Adds `hushdoc train images`."""
    parser = tasks.add_parser(
        "images",
        help="classify documents by the images of their pages",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    configuration.add_option(parser.add_argument_group("configuration"))
    data = parser.add_argument_group("documents")
    data.add_argument(
        "--data",
        required=True,
        metavar="SOURCE",
        help="classified images; see docs/data-formats.md",
    )
    data.add_argument(
        "--documents", type=int, metavar="N", help="how many documents to invent (default: 1000)"
    )
    add_name(data)
    add_labels(
        data,
        "name of a class; may be given again (default: those of a run in --start for private "
        "training, else every class in the documents, which default policies refuse of private "
        "ones)",
    )
    add_number(data, "--seed", "N", 0, "seed of invented documents and fresh weights, not of noise")
    model = parser.add_argument_group("model and output")
    add_run(model)
    model.add_argument(
        "--architecture",
        choices=ARCHITECTURES,
        help="which network (default: that of a run in --start, else small)",
    )
    model.add_argument("--start", metavar="RUN", help="run of this task to start from")
    add_overlap(model)
    privacy = parser.add_argument_group("privacy")
    synthetic_data.add_modes(privacy)
    add_number(privacy, "--sampling-rate", "Q", 0.25, "probability of each document in a step")
    add_budget(parser, privacy, steps=100, clipping_norm=1.0, expected_records=100)
    privacy.add_argument(
        "--plan",
        action="store_true",
        help="print the noise that is needed and its epsilon by each accountant; then end, without "
        "reading a document",
    )
    training = parser.add_argument_group("training")
    add_choice(
        training,
        "--trained",
        ("all", "output"),
        "all",
        "with privacy: which parameters are trained, all or those of the output layer",
    )
    add_number(training, "--learning-rate", "RATE", 2e-3, "step size, the largest of a training")
    of_plain = {"default": "the paper's"}
    add_recipe_number(training, "--mixup", "A", float, "of mixup, without privacy", **of_plain)
    add_recipe_number(training, "--cutmix", "A", float, "of CutMix, without privacy", **of_plain)
    add_recipe_number(
        training,
        "--dropout",
        "P",
        float,
        "before the output layer, without privacy",
        **of_plain,
    )
    add_choice(training, "--optimizer", ("adamw", "sgd"), "adamw", "what steps without privacy")
    add_number(training, "--epochs", "N", 20.0, "passes over the pages, without privacy")
    add_number(training, "--batch-size", "N", 32, "pages in a step, without privacy")
    training.add_argument("--quiet", action="store_true", help="print no progress")
    parser.mark_expert("--seed", "--batch-size", "--optimizer", "--mixup", "--cutmix", "--dropout")
    parser.earlier = partial(configuration.earlier, presets={})
    parser.set_defaults(run=run, extra="training", parser=parser)


def run(options: argparse.Namespace) -> int:
    """Trains; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    require_installed()
    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.data import image_sets
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.runs import run_folder

    private = takes_noise(options)
    if options.plan and not private:
        options.refuse_usage("--plan is of private training; leave --public or --not-private")
    if private:
        _refuse_mixing(options)
    training_kinds.choose(
        options,
        private=("trained",),
        plain=("mixup", "cutmix", "dropout", "optimizer", "batch-size"),
    )
    invented = options.data.startswith("invented:")
    if options.documents is not None and not invented:
        options.refuse_usage(FIRST_DOCUMENTS if private else "--documents is of invented documents")
    ledger = ledger_of(options)
    plan = _plan(options, ledger) if private else None
    if options.plan:
        return 0
    run_folder.require_usable(options.out, resume=options.resume)
    source = Source(location=options.data, documents=options.documents, seed=options.seed)
    hidden = private and options.private_numbers == "hidden"
    sealed = synthetic_data.opened(options)
    with (
        TaskProgress("document", quiet=options.quiet) as progress,
        image_sets.opened(
            source,
            seen=progress.show,
            report=_unsaid if hidden else lambda line: print(line, file=sys.stderr),
            protected=private,
        )
        if sealed is None
        else nullcontext(image_sets.of_documents(sealed, options.data)) as documents,
    ):
        progress.close()
        _train(options, source, documents, ledger=ledger, plan=plan, sealed=sealed)
    return 0


def _unsaid(line: str) -> None:
    """Says nothing of private documents: how many there are is no less a number than a loss is."""


def _refuse_mixing(options: argparse.Namespace) -> None:
    """Raises PrivacyError where options that were typed mix pages."""
    mixing = [
        name for name in ("mixup", "cutmix") if name in options.typed and getattr(options, name)
    ]
    if mixing:
        raise PrivacyError(
            f"--{' and --'.join(mixing)} would mix two documents into one page, whose gradient "
            "belongs to both, so that neither is protected. Leave them out, or train without "
            "privacy.",
            code="MIXED_RECORDS",
        )


def _plan(options: argparse.Namespace, ledger: Ledger | None) -> PrivacyPlan:
    """Returns the plan, and prints it, with --plan beside other accountants."""
    made, records = planned(options, ledger, sampling_rate=options.sampling_rate)
    require_small_delta(made.delta, records)
    print_plan(made, compared=options.plan)
    return made


def _labels(
    options: argparse.Namespace,
    source: Source,
    documents: Sequence[ImageDocument],
    *,
    private: bool,
) -> LabelSet:
    """Returns the classes to learn."""
    from pathlib import Path

    from hushdoc.labels import LabelSet
    from hushdoc_training.image_checkpoint import ImageCheckpoint

    if declared := declared_labels(options):
        return LabelSet(fields=tuple(declared))
    if private and options.start is not None:
        return LabelSet(fields=ImageCheckpoint.load(Path(options.start)).labels)
    found = tuple({one.label for one in documents})
    if private and not source.is_invented:
        warn_of_labels()
    return LabelSet(fields=found, taken_from_documents=private and not source.is_invented)


def _train(
    options: argparse.Namespace,
    source: Source,
    documents: Sequence[ImageDocument],
    *,
    ledger: Ledger | None,
    plan: PrivacyPlan | None,
    sealed: SyntheticDocuments | None,
) -> None:
    from hushdoc_training.recipes import starts
    from hushdoc_training.recipes.images import training as images
    from hushdoc_training.recipes.kie.settings import PrivateSettings

    start = images.start_from(
        options.start,
        architecture=options.architecture,
        labels=_labels(options, source, documents, private=plan is not None),
        seed=options.seed,
    )
    name = options.name or kie_data.name_of(source, ledger, public=options.public)
    if plan is not None or sealed is not None:
        start = starts.with_overlap(start, options.public_overlap)
    if plan is not None:
        warn_of_overlap(starts.history(start))
        with usage_errors(options):
            private = PrivateSettings(trained=options.trained, learning_rate=options.learning_rate)
        outcome = images.train_private(
            start,
            documents,
            plan,
            private,
            out=options.out,
            name=name,
            hyperparameter_tuning=tuned_on(options),
            ledger=ledger,
            documents_changed=options.documents_changed,
            resume=options.resume,
            quiet=options.quiet,
            private_numbers=options.private_numbers,
            copies=options.duplicates,
            notes=configuration.notes_of(options, plan),
        )
    else:
        plain = _plain(options)
        claim = synthetic_data.claim_without_noise(
            options,
            sealed,
            starts.history(start),
            name=name,
            invented=source.is_invented,
            training=images.described(start),
            before=start.claim,
        )
        outcome = images.train_plain(
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


def _plain(options: argparse.Namespace) -> PlainSettings:
    """Returns the settings without privacy; what nobody gave is the paper's."""
    from hushdoc_training.recipes.images.settings import PlainSettings

    given = {name: getattr(options, name) for name in ("mixup", "cutmix", "dropout")}
    with usage_errors(options):
        return PlainSettings(
            epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            optimizer=options.optimizer,
            seed=options.seed,
            **{name: value for name, value in given.items() if value is not None},
        )
