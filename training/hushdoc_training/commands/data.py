"""The subcommand `data`: labelled documents brought into one format, and looked at."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.commands.parsing import CommandParser, Subcommands, usage_errors
from hushdoc_training.commands.training_options import seed

if TYPE_CHECKING:
    from hushdoc.labels import LabelledDocument
    from hushdoc.system.progress import Progress
    from hushdoc_training.data.corpus import Problems

DESCRIPTION = """Brings documents of any known corpus into one format, and shows what they hold.

  hushdoc data convert path/to/receipts receipts.jsonl
  hushdoc data show receipts.jsonl --draw look
  hushdoc data convert invented:invoice,questions=keyed,providers=0:400 asked.jsonl --documents 2000
  hushdoc data split asked.jsonl --out split

docs/data-formats.md describes the format, and how the files of each corpus look."""

SOURCE = (
    "folder or file of labelled documents or of a known corpus, or "
    "invented:TYPE[+TYPE][,SETTING=VALUE]"
)
"""What every option takes that names labelled documents."""

_FIRST = (
    "Which documents are the first N depends on the others: one more pushes another one out. "
    "Private training on what was written protects a document there, and not one of the source."
)
_PARTS = (
    "Which documents of a provider are in train.jsonl depends on how many it has: one more moves "
    "up to two others. Protect providers where that file is trained on privately (--privacy-unit "
    "provider, of train docvqa); a guarantee for each document is one of the file, not of the "
    "source."
)

DRAWN = 10
"""How many documents `data show --draw` draws by default."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc data`."""
    parser = subcommands.add_parser(
        "data",
        help="convert labelled documents to one format, and look at them",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    convert = actions.add_parser(
        "convert",
        help="write documents of any known corpus as one labelled file",
        description="Writes the documents of any known corpus as one file of the labelled format. "
        "What was odd in them is counted on standard error.",
    )
    _add_source(convert)
    convert.add_argument(
        "out", type=Path, metavar="OUT", help="new .jsonl file; gzipped where it ends in .gz"
    )
    convert.add_argument(
        "--images",
        action="store_true",
        help="copy the pages' images into a new folder beside OUT, which is called as OUT is with "
        "-images (default: only images in OUT's own folder are named)",
    )
    convert.set_defaults(run=run_convert, extra="training")
    _register_split(actions)
    imdb = actions.add_parser(
        "convert-imdb",
        help="write an imdb_*.npy file of PFL-DocVQA as lines of JSON, without running it",
        description="Writes the records of an imdb_*.npy file as lines of JSON, which the other "
        "commands read. Such a file is a Python pickle: of what it holds, arrays, numbers, texts "
        "and containers alone are read, and a file that names anything else is refused.",
    )
    imdb.add_argument("npy", type=Path, metavar="NPY", help="imdb_*.npy file")
    imdb.add_argument("out", type=Path, metavar="OUT", help="new .jsonl file")
    imdb.set_defaults(run=run_convert_imdb, extra="training")
    show = actions.add_parser(
        "show",
        help="count documents, words, labels and providers, and draw labels on pages",
        description="Counts documents, pages, words, labels and providers, with a value of each "
        "label, and draws the labels on their pages.",
    )
    _add_source(show)
    show.add_argument(
        "--draw",
        type=Path,
        metavar="DIR",
        help=f"new folder for the pages of the first documents ({DRAWN}, or as many as "
        "--documents says) with their labels drawn on them",
    )
    show.set_defaults(run=run_show, extra="training")


def _register_split(actions: Subcommands) -> None:
    parser = actions.add_parser(
        "split",
        help="part documents by provider, to train on some and attack with the others",
        description="Parts documents by provider into files of a new folder: of members, "
        "train.jsonl, valid.jsonl and members.jsonl, of which the last two are not for training; "
        "of all other providers, non-members.jsonl. `hushdoc audit providers` takes the last of "
        "each side as --members and --others. Which part a document is in depends on its own "
        "provider's documents alone.",
    )
    _add_source(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder")
    for name, share, what in (
        ("member-share", 0.5, "providers that are members"),
        ("asked-share", 0.25, "a member's documents that go to members.jsonl"),
        ("valid-share", 0.1, "a member's documents that go to valid.jsonl"),
    ):
        parser.add_argument(
            f"--{name}", type=float, default=share, metavar="S", help=f"share of {what} ({share})"
        )
    parser.add_argument(
        "--split-seed", type=int, default=0, metavar="N", help="seed of the split, no secret (0)"
    )
    parser.add_argument(
        "--images", action="store_true", help="copy the pages' images into the folder"
    )
    parser.set_defaults(run=run_split, extra="training")


def _add_source(parser: CommandParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE)
    parser.add_argument(
        "--documents",
        type=int,
        metavar="N",
        help="read the first N (default: all, or 1000 invented)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed of invented documents (default: 0)"
    )
    parser.add_argument(
        "--schema",
        metavar="FILE",
        help="file of TOML or JSON that names the labels, or the name of a corpus such as sroie; "
        "any other label is refused",
    )


def run_convert(options: argparse.Namespace) -> int:
    """Writes the labelled file."""
    from hushdoc.system import atomic_files
    from hushdoc_training.data import conversion

    atomic_files.require_free(options.out)
    with _opened(options, images=options.images) as (documents, problems):
        summary = conversion.convert(documents, options.out, problems, images=options.images)
    _report(problems, summary.lines())
    if options.documents is not None:
        _note_of_private(options, _FIRST)
    _written(options)
    return 0


def run_split(options: argparse.Namespace) -> int:
    """Writes the parts of a split by provider, each that has a document."""
    from hushdoc.system import atomic_files
    from hushdoc_training.data import conversion, providers

    atomic_files.require_free(options.out)
    shares = options.member_share, options.asked_share, options.valid_share
    with usage_errors(options):
        providers.require_shares(*shares)
    members, asked, valid = shares
    with _opened(options, images=options.images) as (documents, problems):
        found = providers.split(
            list(documents), members=members, asked=asked, valid=valid, seed=options.split_seed
        )
        with atomic_files.new_folder(options.out) as partial:
            for name in ("train", "valid", "members", "non_members"):
                if part := getattr(found, name):
                    file = partial / f"{name.replace('_', '-')}.jsonl"
                    conversion.convert(part, file, problems, images=options.images)
    _report(problems, found.lines())
    _note_of_private(options, _PARTS if options.documents is None else _FIRST)
    _written(options)
    return 0


def _note_of_private(options: argparse.Namespace, note: str) -> None:
    """Says what private training on a file can't promise to documents that it was chosen from."""
    if not options.source.startswith("invented:"):
        print(f"note: {note}", file=sys.stderr)


def _written(options: argparse.Namespace) -> None:
    """Says what was written, and what nobody can tell of it any more."""
    from hushdoc_training.commands import kie_data, training_options
    from hushdoc_training.data.dataset import Source

    print(f"Written: {options.out}")
    corpus = kie_data.corpus(Source(location=options.source))
    if corpus in training_options.LOOKED_AT | training_options.OF_PRESETS:
        whose, how = "Defaults of training", ""
        if corpus in training_options.OF_PRESETS:
            whose = "Settings of papers, which --preset and --suggest take,"
            how = " where you take them"
        print(
            f"note: {whose} were chosen with a look at this corpus, which the file does not name: "
            f"train privately on it with --tuned-on unaccounted{how}.",
            file=sys.stderr,
        )


def run_convert_imdb(options: argparse.Namespace) -> int:
    """Writes the records of a pickled array as lines of JSON."""
    from hushdoc.arguments import counted
    from hushdoc_training.data import imdb_arrays

    print(f"warning: {imdb_arrays.WARNING}.", file=sys.stderr)
    rows = imdb_arrays.convert(options.npy, options.out)
    print(f"Written: {options.out} ({counted(rows, 'row')})")
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Prints what the documents hold, and draws some of them."""
    from hushdoc_training.data.conversion import without_missing
    from hushdoc_training.data.summary import Summary

    summary = Summary()
    with _opened(options, images=options.draw is not None) as (documents, problems):
        counted = map(summary.added, without_missing(documents, problems))
        if options.draw is not None:
            _draw(islice(counted, options.documents or DRAWN), options.draw)
        for _ in counted:
            pass
    _report(problems, summary.lines())
    return 0


@contextmanager
def _opened(
    options: argparse.Namespace, *, images: bool
) -> Iterator[tuple[Iterable[LabelledDocument], Problems]]:
    """Yields the documents as they are read, and what was odd in those that were."""
    from hushdoc.system.progress import TaskProgress, reported
    from hushdoc_training.data import dataset, schema
    from hushdoc_training.data.corpus import Problems

    if options.documents is not None and options.documents < 1:
        options.refuse_usage(f"--documents is {options.documents}; it must be at least 1")
    names = None if options.schema is None else schema.named(options.schema)
    source = dataset.Source(location=options.source, documents=options.documents, seed=options.seed)
    problems = Problems()
    if source.is_invented:
        with (
            TaskProgress("document") as progress,
            dataset.opened(source, images=images, seen=progress.show) as documents,
        ):
            progress.close()
            yield dataset.known(documents, names), problems
        return
    print(f"Reading {dataset.corpus_of(Path(source.location)).title}.", file=sys.stderr)
    with reported(None, sys.stderr) as counting:
        read = _counted(dataset.stream(source, problems), counting)
        yield dataset.known(read, names), problems


def _counted(
    documents: Iterable[LabelledDocument], counting: Progress
) -> Iterator[LabelledDocument]:
    for item in documents:
        counting.count()
        yield item


def _report(problems: Problems, found: Iterable[str]) -> None:
    for line in problems.lines():
        print(line, file=sys.stderr)
    for line in found:
        print(line)


def _draw(documents: Iterable[LabelledDocument], folder: Path) -> None:
    """Draws the pages of documents with their labels into a new folder."""
    from hushdoc.system import atomic_files
    from hushdoc.viewing.overlay import overlay
    from hushdoc_training.data.summary import fields_of

    with atomic_files.new_folder(folder) as partial:
        for number, labelled in enumerate(documents):
            fields = [*fields_of(labelled)]
            for place, page in enumerate(labelled.document.pages):
                drawn = overlay(
                    page,
                    [item for item in fields if item.page == place],
                    labels={item.label for item in fields},
                )
                drawn.save(partial / f"{number:04d}-{place}.png")
