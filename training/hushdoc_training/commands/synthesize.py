"""The subcommand `synthesize`: documents like private ones, by private votes or by diffusion."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.commands.parsing import usage_errors
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc_training.commands import kie_data
from hushdoc_training.commands.data import SOURCE
from hushdoc_training.commands.synthesize_diffusion import (
    register_diffusion,
    register_pretrain,
    shown,
)
from hushdoc_training.commands.synthesize_selection import register_selection
from hushdoc_training.commands.training_options import (
    add_choice,
    add_duplicates,
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
    from hushdoc_training.recipes.synthesis.settings import EvolutionSettings
    from hushdoc_training.recipes.synthesis.simulators import PublicPages

DESCRIPTION = """Makes documents that can be given away, like private ones.

  hushdoc synthesize evolution --data path/to/receipts --epsilon 1 --out runs/receipts
  hushdoc export runs/receipts --out receipts-given-away --key private.pem

Each private document votes for the invented ones that resemble it, or for public ones (--public),
and noise is added to the sum. No word of what comes out was read from a private document.

  hushdoc synthesize selection --data path/to/scans --public path/to/public-scans --label memo \\
    --label letter --epsilon 1 --out runs/scans

Private votes choose, for each class, public page images that are like its pages.

  hushdoc synthesize pretrain --public invented:form+receipt --out runs/start
  hushdoc synthesize diffusion --start runs/start --data path/to/scans --label memo \\
    --label letter --epsilon 5 --out runs/scans

A model of page images that learned from public pages is trained on private ones with differential
privacy, and draws new ones. docs/synthesis.md says more."""


TYPES, LABELS = "form+invoice+receipt+till-receipt", "fields"


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc synthesize`."""
    parser = subcommands.add_parser(
        "synthesize",
        help="make documents that can be given away",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    methods = parser.add_subparsers(title="methods", dest="method", required=True, metavar="METHOD")
    _register_evolution(methods)
    register_selection(methods)
    register_pretrain(methods)
    register_diffusion(methods)
    _register_check(methods)


def _register_evolution(methods: Subcommands) -> None:
    evolution = methods.add_parser(
        "evolution",
        help="steer the generator of invented documents by private votes",
        description="Steers the generator of invented documents by private votes. All numbers are "
        "public constants: choose them without looking at the documents.",
    )
    data = evolution.add_argument_group("documents")
    data.add_argument(
        "--data", required=True, metavar="SOURCE", help=f"{SOURCE}; see docs/data-formats.md"
    )
    add_name(data)
    made = evolution.add_argument_group("what is made")
    add_run(made)
    add_number(made, "--documents", "N", 500, "number of documents that are released")
    add_choice(
        made,
        "--labels",
        ("cord", "docile", "fields", "form", "sroie", "wildreceipt"),
        LABELS,
        "label set of the documents that are made",
    )
    made.add_argument(
        "--types",
        metavar="TYPE[+TYPE]",
        default=TYPES,
        help=f"which document types are invented (default: all: {TYPES})",
    )
    add_number(made, "--seed", "N", 0, "seed of what is invented, not of noise")
    made.add_argument(
        "--public",
        metavar="SOURCE",
        help="public documents of one page with images that are voted for instead of invented "
        "ones; those that are chosen are released, with their labels",
    )
    privacy = evolution.add_argument_group("privacy")
    add_number(privacy, "--epsilon", "E", 1.0, "privacy budget")
    add_choice(
        privacy,
        "--vote",
        ("pages", "factors", "moments"),  # ballots.VOTES, whose module loads numpy
        "moments",
        "what documents vote for: the nearest invented pages, what those were made from, or their "
        "own place, to which the invented pages are fitted; of public pages no factors",
    )
    add_choice(
        privacy,
        "--features",
        # embedding.FEATURES, whose module loads numpy
        ("words", "words+image", "words+minilm", "words+image+minilm"),
        "words",
        "what is looked at of a document to tell what is like it: words and boxes, and besides "
        "page images, for which invented pages have to be drawn, or what MiniLM makes of the words",
    )
    add_number(privacy, "--pool", "N", 600, "number of pages to vote for in a round")
    add_number(privacy, "--nearest", "N", 10, "number of pages that a document votes for")
    add_number(privacy, "--fits", "N", 4, "number of pools that a sum of moments is fitted to")
    privacy.add_argument(
        "--words",
        type=Path,
        metavar="FILE",
        help="public list, a word a line, of words that documents vote for too; goods of released "
        "documents are called by those that stand out of the noise, and by no other",
    )
    add_overlap(privacy)
    add_votes(evolution, privacy, rounds=1, expected_records=500)
    add_duplicates(evolution, privacy)
    evolution.add_argument("--quiet", action="store_true", help="print no progress")
    evolution.mark_expert("--seed", "--pool", "--nearest", "--fits", "--words", "--features")
    evolution.set_defaults(run=run_evolution, extra="training")


def _register_check(methods: Subcommands) -> None:
    check = methods.add_parser(
        "check",
        help="draw a sealed set of documents again and compare",
        description="Verifies a sealed set of synthetic documents, draws every page again from its "
        "specification and compares words, boxes, labels, questions and pixels. Pages that votes "
        "chose among public documents are compared with those, moved images of them moved anew. "
        "Pages that a model drew can't be compared: the model is not in the artifact.",
    )
    check.add_argument("artifact", type=Path, metavar="ARTIFACT", help="the artifact's folder")
    check.add_argument(
        "--words",
        type=Path,
        metavar="FILE",
        help="the public list that words were voted for out of, where the set was made with one",
    )
    check.add_argument(
        "--public",
        metavar="SOURCE",
        help="the public documents that votes chose among, where the set was made of such",
    )
    policy_options(check)
    check.set_defaults(run=run_check, extra="training")


def run_check(options: argparse.Namespace) -> int:
    """Prints how many documents are as their specifications give them."""
    from hushdoc.arguments import counted
    from hushdoc.synthetic_documents import MOVED, SyntheticDocuments
    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.data import dataset, image_sets
    from hushdoc_training.recipes.synthesis import reproduction
    from hushdoc_training.recipes.synthesis.public_words import NO_WORDS, PublicWords

    words = NO_WORDS
    if options.words is not None:
        words = PublicWords.read(options.words, overlap="unknown")
    documents = SyntheticDocuments.open(options.artifact, policy=policy_from(options))
    with TaskProgress("document", quiet=False) as progress:
        if options.public is not None and documents.contents.method == MOVED:
            count = reproduction.num_public(documents)
            source = dataset.Source(location=options.public, documents=count)
            with image_sets.opened(source, report=shown) as pages:
                reproduction.require_moved(documents, pages[:count], seen=progress.show)
        elif options.public is not None:
            public = dataset.read(dataset.Source(location=options.public))
            reproduction.require_public(documents, public, seen=progress.show)
        else:
            reproduction.require_reproduced(documents, words=words, seen=progress.show)
    given = "is a public page" if options.public else "is what its specification gives"
    if options.public and documents.contents.method == MOVED:
        given = "is the public page and copy that it names"
    print(f"{counted(len(documents), 'document')}: each {given}")
    return 0


def run_evolution(options: argparse.Namespace) -> int:
    """Votes; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    require_installed()
    from hushdoc_training.data import dataset
    from hushdoc_training.recipes.synthesis import evolution
    from hushdoc_training.recipes.synthesis.public_words import NO_WORDS, PublicWords
    from hushdoc_training.runs import run_folder

    settings = _settings(options)
    public_pages = _public_pages(options, settings)
    words = NO_WORDS
    if options.words is not None:
        words = PublicWords.read(options.words, overlap=options.public_overlap)
    ledger = ledger_of(options)
    plan, records = planned(options, ledger, sampling_rate=1.0)
    require_delta_of_release(plan, records)
    run_folder.require_usable(options.out, resume=options.resume)
    source = dataset.Source(location=options.data, documents=None, seed=0, labels=None)
    documents = dataset.read(
        source, seen=lambda done, total: None, report=kie_data.reporter(source, hidden=True)
    )
    outcome = evolution.evolve(
        documents,
        plan,
        settings,
        out=options.out,
        name=options.name or kie_data.name_of(source, ledger, public=False),
        hyperparameter_tuning=tuned_on(options, kie_data.corpus(source)),
        ledger=ledger,
        documents_changed=options.documents_changed,
        resume=options.resume,
        quiet=options.quiet,
        copies=options.duplicates,
        words=words,
        public_pages=public_pages,
        public_overlap=options.public_overlap,
    )
    outcome.require_finished()
    print(f"Checkpoint: {options.out / 'checkpoint'}")
    print_head(ledger)
    return 0


def _public_pages(options: argparse.Namespace, settings: EvolutionSettings) -> PublicPages | None:
    """Returns the pages of --public; None where it is not given."""
    if options.public is None:
        return None
    from hushdoc_training.data import dataset
    from hushdoc_training.recipes.synthesis.simulators import PublicPages

    if options.vote == "factors":
        options.refuse_usage("--public goes with --vote pages or moments")
    if options.words is not None or (options.types, options.labels) != (TYPES, LABELS):
        options.refuse_usage("--words, --types and --labels are of invented pages, not --public")
    source = dataset.Source(location=options.public)
    return PublicPages.of(
        dataset.read(source),
        settings,
        name=kie_data.name_of(source, None, public=True),
        overlap=options.public_overlap,
        quiet=options.quiet,
    )


def _settings(options: argparse.Namespace) -> EvolutionSettings:
    from hushdoc_training.recipes.synthesis.settings import EvolutionSettings

    with usage_errors(options):
        return EvolutionSettings(
            vote=options.vote,
            features=options.features,
            pool=options.pool,
            nearest=options.nearest,
            fits=options.fits,
            documents=options.documents,
            labels=options.labels,
            document_types=tuple(options.types.split("+")),
            seed=options.seed,
        )
