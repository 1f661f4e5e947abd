"""The task `docvqa` of `hushdoc train`: models that answer questions about documents."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hushdoc import arguments
from hushdoc.commands.parsing import usage_errors
from hushdoc_training.commands import configuration, kie_data, synthetic_data, training_kinds
from hushdoc_training.commands.data import SOURCE
from hushdoc_training.commands.training_options import (
    FIRST_DOCUMENTS,
    add_budget,
    add_choice,
    add_name,
    add_number,
    add_overlap,
    add_recipe_number,
    add_run,
    ledger_of,
    planned,
    print_end,
    print_plan,
    refuse_private_vocabulary,
    require_installed,
    require_small_delta,
    takes_noise,
    tuned_on,
    warn_of_overlap,
)
from hushdoc_training.recipes.docvqa import presets, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.commands.parsing import Subcommands
    from hushdoc.labels import LabelledDocument
    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.docvqa.start import Start

DESCRIPTION = """Trains a model that answers questions about documents.

  hushdoc train docvqa --data invented:invoice,questions=keyed --public --out runs/public
  hushdoc train docvqa --data path/to/documents --start runs/public --public-overlap none \\
      --epsilon 8 --out runs/private

By default a provider, whoever issued documents, is protected as a whole: everything of one
provider is clipped once. Every document must name its provider. A pointer answers by words on the
page, or by none; a VT5 writes its answer."""


def register(tasks: Subcommands) -> None:
    """Adds `hushdoc train docvqa`."""
    parser = tasks.add_parser(
        "docvqa",
        help="answer questions about documents",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chosen = parser.add_argument_group("configuration")
    configuration.add_option(chosen)
    chosen.add_argument(
        "--preset",
        choices=[*presets.PRESETS],
        metavar="NAME",
        help="a paper's own settings, which options change one by one: "
        f"{', '.join(presets.PRESETS)}",
    )
    data = parser.add_argument_group("documents")
    data.add_argument(
        "--data", required=True, metavar="SOURCE", help=f"{SOURCE}; see docs/data-formats.md"
    )
    data.add_argument(
        "--documents",
        type=int,
        metavar="N",
        help="number of documents (default: all, or 1000 invented)",
    )
    add_name(data)
    add_number(data, "--seed", "N", 0, "seed of invented documents and fresh weights, not of noise")
    model = parser.add_argument_group("model and output")
    add_run(model)
    model.add_argument(
        "--architecture",
        choices=("pointer", "vt5"),
        help="what answers: a pointer by words on the page, a VT5 by writing (default: that of a "
        "run in --start, else pointer)",
    )
    model.add_argument(
        "--start",
        metavar="MODEL",
        help="model to start from: a run of this task; for a pointer minilm, small, a run of "
        "`train kie`, or a transformers folder or hub id; for a VT5 tiny, small, a folder "
        f"or hub id of T5's or of the paper's own weights (default: {settings.told('start')})",
    )
    model.add_argument(
        "--image-encoder",
        metavar="MODEL",
        help="have a VT5 read the images of pages, which every page with words must have: DiT's "
        "folder or hub id, which stays frozen, or tiny (random, for tests); a run and the paper's "
        "weights in --start keep their own",
    )
    add_overlap(model)
    add_recipe_number(
        model,
        "--max-tokens",
        "N",
        int,
        "length of a window, for a VT5 of question and window, in tokens; a run of this task in "
        "--start keeps its own",
        default=settings.told("max_tokens"),
    )
    privacy = parser.add_argument_group("privacy")
    synthetic_data.add_modes(privacy)
    add_choice(
        privacy,
        "--privacy-unit",
        ("provider", "document"),
        "provider",
        "what the guarantee protects: all documents of a provider together, or each document",
    )
    add_recipe_number(
        privacy,
        "--sampling-rate",
        "Q",
        float,
        "probability of each record to be in a step",
        default=settings.told_private("sampling_rate"),
    )
    add_budget(
        parser,
        privacy,
        steps=None,
        clipping_norm=None,
        expected_records=None,
        told=settings.told_private,
    )
    add_number(
        privacy,
        "--canaries",
        "N",
        0,
        "invented providers that take part by coins and bound this run's epsilon from below",
    )
    training = parser.add_argument_group("training")
    training.add_argument(
        "--algorithm",
        choices=settings.ALGORITHMS,
        help="what is clipped and noised of a record: its gradient, for Adam or plain steps, or "
        f"what training on it alone moves (default: {settings.told_private('algorithm')})",
    )
    add_number(training, "--passes", "N", 1, "of fl-provider-dp: over the rows of each record")
    training.add_argument(
        "--trained",
        metavar="WHAT",
        help="which parameters are trained: with privacy as for `train kie` (default: "
        f"{settings.told_private('trained')}), without it all (default) or output",
    )
    training.add_argument(
        "--scaling",
        choices=("none", "public"),
        help="public: with privacy the last layer of a pointer's reader learns alone, in "
        "directions that invented questions vary in, each scaled before clipping and noise "
        "(default: public for a pointer whose --trained nobody gives, else none)",
    )
    add_recipe_number(
        training,
        "--directions",
        "N",
        int,
        "most directions of --scaling public: more can learn more, and noise falls on each",
        default=settings.where_many(16, settings.MANY.directions, settings.MORE.directions),
    )
    add_recipe_number(
        training,
        "--learning-rate",
        "RATE",
        float,
        "step size, the largest of a training; of fl-provider-dp that of AdamW on each record",
        default=f"{settings.told('learning_rate')}; with privacy, of a scaled pointer, by the "
        "plan's noise",
    )
    add_number(training, "--epochs", "N", 1.0, "passes over the rows, without privacy")
    add_recipe_number(
        training,
        "--batch-size",
        "N",
        int,
        "windows (of a VT5 rows) in a batch, without privacy and of fl-provider-dp",
        default=settings.told("batch_size"),
    )
    training.add_argument("--quiet", action="store_true", help="print no progress")
    parser.mark_expert(
        "--seed",
        "--image-encoder",
        "--max-tokens",
        "--trained",
        "--scaling",
        "--directions",
        "--batch-size",
        "--algorithm",
        "--passes",
    )
    parser.earlier = partial(
        configuration.earlier,
        presets={name: preset.settings for name, preset in presets.PRESETS.items()},
    )
    parser.set_defaults(run=run, extra="training", parser=parser)


def run(options: argparse.Namespace) -> int:
    """Trains; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    require_installed()
    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.data import dataset, providers
    from hushdoc_training.recipes.docvqa.start import architecture_of, reads_images
    from hushdoc_training.runs import run_folder

    private = takes_noise(options)
    batches = options.algorithm == settings.PROVIDER
    training_kinds.choose(options, private=("algorithm",), plain=() if batches else ("batch-size",))
    invented = options.data.startswith("invented:")
    if options.canaries < 0:
        options.refuse_usage(f"--canaries is {options.canaries}; it must be 0 or more")
    if options.documents is not None and private and not invented:
        options.refuse_usage(FIRST_DOCUMENTS)
    if options.passes != 1 and options.algorithm != settings.PROVIDER:
        options.refuse_usage("--passes is of private training with --algorithm fl-provider-dp")
    if options.scaling == "public" and options.algorithm == settings.PROVIDER:
        options.refuse_usage("--scaling public is of private training by clipped gradients")
    if options.directions is not None and options.scaling == "none":
        options.refuse_usage("--directions is of private training with --scaling public")
    refuse_private_vocabulary(options, _start(options))
    ledger = ledger_of(options)
    if private:
        settings.complete(options, options.architecture or architecture_of(options.start))
    plan = _plan(options, ledger) if private else None
    run_folder.require_usable(options.out, resume=options.resume)
    source = dataset.Source(
        location=options.data, documents=options.documents, seed=options.seed, labels=None
    )
    hidden = private and options.private_numbers == "hidden"
    images = options.image_encoder is not None or (
        options.start is not None and reads_images(options.start)
    )
    sealed = synthetic_data.opened(options)
    progress = TaskProgress("document", quiet=options.quiet)
    with (
        progress,
        dataset.opened(
            source,
            images=images,
            seen=progress.show,
            report=kie_data.reporter(source, hidden=hidden),
        )
        if sealed is None
        else nullcontext(list(sealed)) as documents,
    ):
        progress.close()
        if not hidden:
            for line in providers.doubts(item.provider for item in documents):
                print(f"warning: {line}", file=sys.stderr)
        _train(options, source, documents, ledger=ledger, plan=plan, sealed=sealed)
    return 0


def _start(options: argparse.Namespace) -> str:
    """Returns the model to start from."""
    return options.start or settings.DEFAULTS[options.architecture or "pointer"].start


def _plan(options: argparse.Namespace, ledger: Ledger | None) -> PrivacyPlan:
    """Returns the plan, and prints it with the preset."""
    made, records = planned(
        options, ledger, sampling_rate=options.sampling_rate, privacy_unit=options.privacy_unit
    )
    require_small_delta(made.delta, records)
    if options.preset is not None:
        preset = presets.PRESETS[options.preset]
        other = configuration.set_otherwise(options, preset.settings)
        print(f"Preset:     {options.preset} ({preset.line()}){other}")
    print_plan(made)
    return made


def _complete(options: argparse.Namespace, start: Start, plan: PrivacyPlan | None) -> None:
    """Sets what nobody gave: the start's own length of windows, and the defaults of its kind."""
    from hushdoc_training.recipes.docvqa import training as docvqa

    configuration.keep_of_start(options, {"max-tokens": start.asking.max_tokens})
    defaults = settings.DEFAULTS[start.asking.kind]
    if options.trained is None:
        options.trained = docvqa.PLAIN[0]
    if options.batch_size is None:
        options.batch_size = defaults.batch_size
    if options.learning_rate is None:
        options.learning_rate = (
            defaults.learning_rate
            if plan is None
            else settings.private_rate(
                plan,
                algorithm=options.algorithm,
                scaling=options.scaling,
                many=settings.scaled_for(options.expected_records, options.epsilon)
                != settings.SCALED,
            )
        )


def _train(
    options: argparse.Namespace,
    source: Source,
    documents: Sequence[LabelledDocument],
    *,
    ledger: Ledger | None,
    plan: PrivacyPlan | None,
    sealed: SyntheticDocuments | None,
) -> None:
    from hushdoc_training.federated.updates import LocalTraining
    from hushdoc_training.recipes import starts
    from hushdoc_training.recipes.docvqa import training as docvqa
    from hushdoc_training.recipes.docvqa.start import start_from
    from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings

    public_texts = source.is_invented or options.public or sealed is not None
    start = start_from(
        _start(options),
        architecture=options.architecture,
        max_tokens=options.max_tokens,
        image_encoder=options.image_encoder,
        vocabulary=lambda: (
            [
                text
                for labelled in documents
                for text in (
                    *(word.text for page in labelled.document.pages for word in page.words),
                    *(question.text for question in labelled.questions),
                )
            ]
            if public_texts
            else []
        ),
        resumed=options.out if options.resume else None,
        seed=options.seed,
    )
    _complete(options, start, plan)
    name = options.name or kie_data.name_of(source, ledger, public=options.public)
    weights = kie_data.published_weights(start.name, start.claim, options)
    if options.image_encoder is not None:
        weights += kie_data.published_weights(
            options.image_encoder, start.claim, options, uses=("pretraining",)
        )
    if plan is not None or sealed is not None:
        start = starts.with_overlap(start, options.public_overlap)
    if plan is not None:
        warn_of_overlap((*starts.history(start), *weights))
        local = None
        with usage_errors(options):
            private = PrivateSettings(trained=options.trained, recipe=options.preset)
            if options.algorithm == settings.PROVIDER:
                local = LocalTraining(
                    passes=options.passes,
                    batch_size=options.batch_size,
                    learning_rate=options.learning_rate,
                )
            else:
                private = replace(
                    private,
                    learning_rate=options.learning_rate,
                    scaling=options.scaling,
                    directions=options.directions,
                    optimizer="sgd" if options.algorithm == "dp-sgd" else "adam",
                    decay=options.algorithm != "dp-sgd",
                )
        outcome = docvqa.train_private(
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
            num_canaries=options.canaries,
            local=local,
            caveats=(
                *kie_data.kinship(source, name, start.claim),
                *kie_data.own_vocabulary(start.name, start.claim),
            ),
            notes=configuration.notes_of(options, plan),
        )
    else:
        with usage_errors(options):
            plain = PlainSettings(
                epochs=options.epochs,
                batch_size=options.batch_size,
                learning_rate=options.learning_rate,
                seed=options.seed,
            )
            arguments.choice(options.trained, docvqa.PLAIN, what="--trained without privacy")
        claim = synthetic_data.claim_without_noise(
            options,
            sealed,
            (*starts.history(start), *weights),
            name=name,
            invented=source.is_invented,
            training=docvqa.described(start),
            before=start.claim,
        )
        outcome = docvqa.train_plain(
            start,
            documents,
            plain,
            out=options.out,
            claim=claim,
            resume=options.resume,
            quiet=options.quiet,
            notes=configuration.notes_of(options),
            trained=options.trained,
        )
    outcome.require_finished()
    print_end(options.out, ledger)
