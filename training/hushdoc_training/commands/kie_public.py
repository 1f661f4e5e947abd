"""`train kie --public` over a list of data sets: all pages by masked words, or their labels."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted
from hushdoc_training.commands import configuration, kie_data, kie_settings
from hushdoc_training.commands.training_options import print_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushdoc.certificate.claim import Claim, PublicData
    from hushdoc.commands.parsing import CommandParser
    from hushdoc.labels import LabelledDocument
    from hushdoc_training.data.set_list import ListedSet
    from hushdoc_training.recipes.kie.public_sets import PublicSet
    from hushdoc_training.recipes.kie.start import Start
    from hushdoc_training.runs.loop import Outcome


def add_options(parser: CommandParser, group: argparse._ArgumentGroup) -> None:
    """Adds the options of a list of data sets."""
    group.add_argument(
        "--without",
        action="append",
        metavar="NAME",
        help="leave this set out of a list, as one that is to be trained on privately later; may "
        "be given again",
    )
    group.add_argument(
        "--unlabelled",
        action="store_true",
        help="of a list: learn words and boxes of all pages by masking some, and no labels; then "
        "learn the labels with --start and --new-labels",
    )
    parser.mark_expert("--without", "--unlabelled")


def is_list(options: argparse.Namespace) -> bool:
    """Returns whether --data names a list of data sets; wrong options with it are a usage error."""
    if not options.data.endswith(".toml"):
        if options.without or options.unlabelled:
            options.refuse_usage("--without and --unlabelled need a list of data sets in --data")
        return False
    if not options.public:
        options.refuse_usage("a list of data sets is for a public start: give --public")
    for name in (
        "documents",
        "labels",
        "label",
        "schema",
        "images",
        "name",
        "test",
        "held_out",
    ):
        if getattr(options, name):
            option = name.replace("_", "-")
            options.refuse_usage(f"--{option} is of one data set; say it in the list")
    for option in ("token-noise", "label-smoothing"):
        if options.unlabelled and option in options.typed:
            options.refuse_usage(f"--{option} is of learning labels; --unlabelled learns none")
    return True


def run(options: argparse.Namespace) -> int:
    """Trains a public start on the list that --data names."""
    from hushdoc_training.data import set_list
    from hushdoc_training.runs import run_folder

    run_folder.require_usable(options.out, resume=options.resume)
    listed = set_list.read(Path(options.data), without=options.without or ())
    outcome = _masked(options, listed) if options.unlabelled else _labelled(options, listed)
    outcome.require_finished()
    print_end(options.out, None)
    return 0


def _masked(options: argparse.Namespace, listed: Sequence[ListedSet]) -> Outcome:
    """Learns the words and boxes of all sets."""
    from hushdoc.labels import LabelSet
    from hushdoc_training.recipes.kie import pretraining
    from hushdoc_training.recipes.kie import start as kie_start

    sets = _read(options, listed)
    labels = None if kie_start.is_checkpoint(options.start) else LabelSet(fields=())
    documents = [labelled for item in sets for labelled in item.documents]
    start = _start(options, labels, documents)
    plain = kie_settings.plain(options, invented=False, documents=len(documents))
    settings = pretraining.MaskedSettings(
        epochs=plain.epochs,
        batch_size=plain.batch_size,
        learning_rate=plain.learning_rate,
        segment_shuffling=plain.segment_shuffling,
        seed=options.seed,
    )
    return pretraining.train_masked(
        start,
        documents,
        settings,
        out=options.out,
        claim=_claim(options, start, sets, {"objective": "masked words and boxes"}),
        resume=options.resume,
        quiet=options.quiet,
        notes=configuration.notes_of(options, settings),
    )


def _labelled(options: argparse.Namespace, listed: Sequence[ListedSet]) -> Outcome:
    """Learns the labels of the sets that have some."""
    from hushdoc.errors import AnnotationError
    from hushdoc_training.recipes.kie import public_sets
    from hushdoc_training.recipes.kie import training as kie

    read = [item for item in listed if not item.unlabelled]
    if not read:
        raise AnnotationError(
            f"All sets of '{options.data}' are unlabelled, so there are no labels to learn. Name "
            "one that has labels, or learn words and boxes with --unlabelled."
        )
    sets = _read(options, read)
    labels, documents = public_sets.labels_of(sets), public_sets.documents_of(sets)
    start = _start(options, labels, documents)
    learned = {item.data.name: list(item.labels.fields) for item in sets}
    settings = kie_settings.plain(options, invented=False, documents=len(documents))
    return kie.train_plain(
        start,
        documents,
        settings,
        out=options.out,
        claim=_claim(options, start, sets, {"objective": "labels", "labels": learned}),
        resume=options.resume,
        quiet=options.quiet,
        notes=configuration.notes_of(options, settings),
        annotated=public_sets.annotated(sets, start.labels),
    )


def _read(options: argparse.Namespace, listed: Sequence[ListedSet]) -> list[PublicSet]:
    """Returns the sets with their documents; a set annotates the labels that occur in it."""
    from hushdoc.labels import LabelSet
    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.data import dataset
    from hushdoc_training.recipes.kie.public_sets import PublicSet

    sets = []
    for item in listed:
        with TaskProgress(f"document of {item.name}", quiet=options.quiet) as progress:
            documents = dataset.read(item.source, seen=progress.show)
        known = LabelSet.from_documents(documents)
        sets.append(
            PublicSet(documents=[*documents] * item.passes, labels=known, data=_data(options, item))
        )
        if not options.quiet:
            print(f"{item.name}: {counted(len(documents), 'document')}", file=sys.stderr)
    return sets


def _data(options: argparse.Namespace, item: ListedSet) -> PublicData:
    from hushdoc.certificate.claim import PublicData

    invented = item.source.is_invented
    return PublicData(
        name=item.name,
        uses=("pretraining", "vocabulary"),
        privacy_status=kie_data.INVENTED
        if invented
        else f"declared public by the trainer; licence: {item.licence}",
        overlap_with_protected="none" if invented else options.public_overlap,
    )


def _start(
    options: argparse.Namespace, labels: Any, documents: Sequence[LabelledDocument]
) -> Start:
    from hushdoc_training.commands import kie_data
    from hushdoc_training.recipes.kie import start as kie_start

    start = kie_start.start_from(
        options.start,
        labels,
        max_tokens=options.max_tokens,
        box_level=options.box_level,
        word_order=options.word_order,
        new_labels=options.new_labels,
        vocabulary=lambda: [
            word.text
            for labelled in documents
            for page in labelled.document.pages
            for word in page.words
        ],
        resumed=options.out if options.resume else None,
        seed=options.seed,
    )
    if kie_start.is_checkpoint(options.start):
        configuration.keep_of_start(options, kie_data.settled(start))
    if start.labels.fields:
        print(kie_data.kept(start))
    return start


def _claim(
    options: argparse.Namespace, start: Start, sets: Sequence[PublicSet], training: dict[str, Any]
) -> Claim:
    from hushdoc_training.privacy import claims
    from hushdoc_training.recipes import starts
    from hushdoc_training.recipes.kie import training as kie

    before = (*starts.history(start), *kie_data.weights_of(start, options))
    data = tuple(item.data for item in sets if item.data not in before)
    return claims.public((*before, *data), training={**kie.described(start), **training})
