"""The subcommand `redact`: documents without the fields that a verified artifact finds in them."""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted
from hushdoc.commands import answering, batches, documents
from hushdoc.commands.answering import shown
from hushdoc.commands.outcomes import Task
from hushdoc.commands.results import FAILURES, JOURNAL, require_usable
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.document import Document
    from hushdoc.runtime.extraction import Extraction
    from hushdoc.viewing.redaction import Redaction

ENDING = ".redacted"
"""Ends the name of the folder of one of several documents."""

BY_OCR = "not read. --ocr rapidocr and --ocr tesseract read images of every page."

KEEP = (
    f"note: Pass on the folders NAME{ENDING} alone. '{JOURNAL}' beside them has digests of the "
    f"documents, which confirm a guess of what was removed, and '{FAILURES}' may quote them."
)

BLACK = "Pages of {} are black, as their images were " + BY_OCR
PARTLY = (
    "The model did not read all words of {}; those stay. A document that is redacted alone says "
    "which."
)
"""What is noted of several documents, with how many there are."""

INSPECT = "note: A model misses fields. Inspect the result before you pass it on."


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc redact`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "redact",
        help="remove the fields that a verified artifact finds in documents",
        description="Checks an artifact against a policy, finds the fields of documents, and "
        "writes each document without them: its words as JSON, and its pages as images under "
        "black boxes. Nothing is written of a document that can't be read, and the others are "
        "still redacted (exit code 7). A model misses fields: inspect the result before you pass "
        "it on.",
    )
    answering.document_options(parser)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="new folder for document.json and an image of each page; of several documents, for a "
        "folder NAME.redacted each, and failures.jsonl; those that are there already are not "
        "made again",
    )
    parser.add_argument(
        "--label",
        action="append",
        metavar="NAME",
        help="field to remove; may be given again (default: all fields)",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="remove fields only where the model found them, not the same text elsewhere",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Redacts every document named and prints what was removed."""
    sources = documents.named(options)
    single = batches.is_single(sources)
    if single:
        atomic_files.require_free(options.out)
    else:
        require_usable(options.out, options.subcommand)
        sources = documents.apart(sources, (ENDING,))
    reading = answering.reading(options, single=single)
    model = answering.load(options, "KIEModel", "HashedCRFModel")
    known = model.labels.fields
    unknown = sorted(set(options.label or ()) - set(known))
    if unknown:
        options.refuse_usage(
            f"the model knows no field {', '.join(map(shown, unknown))}; it knows "
            f"{', '.join(map(shown, known))}"
        )
    if single:
        document = answering.read_document(sources[0], options, reading)
        answer = model.extract(document)
        _print(_redacted(options, options.out, document, answer), answer)
        return 0
    noted: Counter[str] = Counter()
    task = Task(
        model=model,
        read=partial(answering.read_document, options=options, settings=reading),
        ask=model.extract,
        store=partial(_store, options, noted),
        settings=batches.settings(options, "label", "once"),
    )
    exit_code = batches.answer_each(options, sources, task)
    for what, count in noted.items():
        print(f"note: {what.format(counted(count, 'document'))}")
    print(KEEP)
    print(INSPECT)
    return exit_code


def _redacted(
    options: argparse.Namespace, folder: Path, document: Document, answer: Extraction
) -> Redaction:
    from hushdoc.viewing.redaction import redact

    # What the model is unsure of is removed too: too much is better than too little.
    return redact(
        document,
        (*answer.fields, *answer.below_threshold),
        labels=options.label,
        repeats=not options.once,
        out=folder,
    )


def _store(
    options: argparse.Namespace,
    noted: Counter[str],
    target: Path,
    document: Document,
    answer: Extraction,
) -> list[Path]:
    """Writes what is left of one of several documents, and notes what was not read of it."""
    from hushdoc.viewing.redaction import unread_pages

    folder = target.with_name(target.name + ENDING)
    try:
        if folder.is_dir():  # an interrupted run completed it and did not note that
            for path in (folder / "document.json", *folder.glob("page-*.png")):
                path.unlink(missing_ok=True)
        if unread_pages(_redacted(options, folder, document, answer).document):
            noted[BLACK] += 1
        if answer.coverage < 1:
            noted[PARTLY] += 1
        return sorted(folder.iterdir())
    except OSError as error:  # such as a name that is too long; the others can be written
        raise atomic_files.not_written(folder, error) from error


def _print(redaction: Redaction, answer: Extraction) -> None:
    from hushdoc.document.provenance import pages_of
    from hushdoc.viewing.redaction import unread_pages

    removed = ", ".join(
        f"{shown(label)} ({count})" for label, count in sorted(redaction.counts.items())
    )
    print(f"{shown(str(redaction.folder))}: removed {removed or 'nothing: no field was found'}.")
    for warning in answer.warnings:
        print(f"  note: {shown(warning, limit=2000)}")
    unread = unread_pages(redaction.document)
    if unread:
        print(f"  note: Images of {pages_of(unread)} are black, as they were {BY_OCR}")
    print(f"  {INSPECT}")
