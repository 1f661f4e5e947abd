"""The subcommand `redact`: a document without the fields that a verified artifact finds in it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.commands import answering
from hushdoc.commands.answering import shown
from hushdoc.commands.passwords import password_from
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.runtime.extraction import Extraction
    from hushdoc.viewing.redaction import Redaction


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc redact`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "redact",
        help="remove the fields that a verified artifact finds in a document",
        description="Checks an artifact against a policy, finds the fields of a document, and "
        "writes the document without them: its words as JSON, and its pages as images under "
        "black boxes. A model misses fields: inspect the result before you pass it on.",
    )
    answering.document_options(parser, several=False)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="new folder for document.json and an image of each page; must not exist yet",
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
    """Redacts one document and prints what was removed."""
    from hushdoc.viewing.redaction import redact

    atomic_files.require_free(options.out)
    password = password_from(options)
    model = answering.load(options, "KIEModel", "HashedCRFModel")
    known = model.labels.fields
    unknown = sorted(set(options.label or ()) - set(known))
    if unknown:
        options.refuse_usage(
            f"the model knows no field {', '.join(map(shown, unknown))}; it knows "
            f"{', '.join(map(shown, known))}"
        )
    document = answering.read_document(options.document, options, password)
    answer = model.extract(document)
    # What the model is unsure of is removed too: too much is better than too little.
    redaction = redact(
        document,
        (*answer.fields, *answer.below_threshold),
        labels=options.label,
        repeats=not options.once,
        out=options.out,
    )
    _print(redaction, answer)
    return 0


def _print(redaction: Redaction, answer: Extraction) -> None:
    removed = ", ".join(
        f"{shown(label)} ({count})" for label, count in sorted(redaction.counts.items())
    )
    print(f"{shown(str(redaction.folder))}: removed {removed or 'nothing: no field was found'}.")
    for warning in answer.warnings:
        print(f"  note: {shown(warning, limit=2000)}")
    print("  note: A model misses fields. Inspect the result before you pass it on.")
