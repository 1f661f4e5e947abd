"""Method `selection` of `hushdoc synthesize`: public page images that private votes choose."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hushdoc.commands.parsing import usage_errors
from hushdoc_training.commands.synthesize_diffusion import IMAGES, overlaps, shown
from hushdoc_training.commands.training_options import (
    add_name,
    add_number,
    add_overlap,
    add_run,
    add_votes,
    ledger_of,
    planned,
    print_head,
    require_delta_of_release,
    require_installed,
    tuned_on,
)

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands


def register_selection(methods: Subcommands) -> None:
    """Adds `hushdoc synthesize selection`."""
    parser = methods.add_parser(
        "selection",
        help="choose public page images for each class by private votes",
        description="Chooses, for each class of private pages, public page images and moved copies "
        "of them whose mean is near the noisy mean of the class. They are pages of whatever kinds "
        "are public, and teach a classifier what tells the classes apart. All numbers are public "
        "constants: choose them without looking at the documents.",
    )
    data = parser.add_argument_group("documents")
    data.add_argument("--data", required=True, metavar="SOURCE", help=IMAGES)
    data.add_argument(
        "--label",
        action="append",
        required=True,
        metavar="NAME",
        help="a class of the documents, declared public; repeat it",
    )
    add_name(data)
    data.add_argument(
        "--public", required=True, metavar="SOURCE", help=f"public pages to choose among: {IMAGES}"
    )
    add_number(data, "--public-documents", "N", 2000, "number of pages to invent, or the most read")
    add_overlap(data)
    made = parser.add_argument_group("what is made")
    add_run(made)
    add_number(made, "--pages", "N", 1000, "number of pages that are released, as many a class")
    add_number(made, "--copies", "N", 4, "moved copies of each public page to choose among besides")
    add_number(made, "--side", "N", 256, "pixels across a released page and down")
    add_number(made, "--seed", "N", 0, "seed of how copies are moved, not of noise")
    privacy = parser.add_argument_group("privacy")
    add_number(privacy, "--epsilon", "E", 1.0, "privacy budget")
    add_votes(parser, privacy, rounds=1, expected_records=500)
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    parser.mark_expert("--copies", "--side", "--seed", "--public-documents")
    parser.set_defaults(run=run_selection, extra="training")


def run_selection(options: argparse.Namespace) -> int:
    """Votes; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    require_installed()
    from hushdoc_training.commands import kie_data
    from hushdoc_training.data import image_sets
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.recipes.synthesis import selection
    from hushdoc_training.runs import run_folder

    if overlaps(options.public, options.data):
        options.refuse_usage(
            "--public and --data are the same documents: private pages would be released as they "
            "are. Name public pages"
        )
    with usage_errors(options):
        settings = selection.SelectionSettings(
            classes=tuple(options.label),
            pages=options.pages,
            copies=options.copies,
            side=options.side,
            seed=options.seed,
        )
    ledger = ledger_of(options)
    plan, records = planned(options, ledger, sampling_rate=1.0)
    require_delta_of_release(plan, records)
    run_folder.require_usable(options.out, resume=options.resume)
    private = Source(location=options.data)
    offered = Source(location=options.public, documents=options.public_documents)
    with (
        image_sets.opened(offered, report=shown) as public,
        image_sets.opened(private, protected=True) as documents,
        usage_errors(options),
    ):
        outcome = selection.select(
            documents,
            selection.PublicImages(
                documents=public[: options.public_documents],
                name=kie_data.name_of(offered, None, public=True),
                overlap="none" if offered.is_invented else options.public_overlap,
                **({"privacy_status": kie_data.INVENTED} if offered.is_invented else {}),
                invented=offered.is_invented,
            ),
            plan,
            settings,
            out=options.out,
            name=options.name or kie_data.name_of(private, ledger, public=False),
            hyperparameter_tuning=tuned_on(options, image_sets.corpus_name(private)),
            ledger=ledger,
            documents_changed=options.documents_changed,
            resume=options.resume,
            quiet=options.quiet,
        )
    outcome.require_finished()
    print(f"Checkpoint: {options.out / 'checkpoint'}")
    print_head(ledger)
    return 0
