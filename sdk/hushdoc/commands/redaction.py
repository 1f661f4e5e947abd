"""The verb `redact`: a document without the fields that a verified artifact finds in it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import printable
from hushdoc.commands import answering
from hushdoc.commands.extraction import load_finder, read_document, reading_options
from hushdoc.commands.passwords import password_from
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from hushdoc.runtime.extraction import Extraction
    from hushdoc.viewing.redaction import Redaction


def register(verbs: Any) -> None:
    """Adds `hushdoc redact`; numpy and onnxruntime are imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "redact",
        help="remove the fields that a verified artifact finds in a document",
        description="Checks an artifact against a policy, finds the fields of a document, and "
        "writes the document without them: its words as JSON, and its pages as images under "
        "black boxes. A model misses fields: look at the result before you give it away.",
    )
    answering.model_options(parser)
    parser.add_argument(
        "document",
        metavar="DOCUMENT",
        help="PDF, image, text, or JSON written by Document.to_dict(); or - for standard input",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="gets document.json and an image of each page; must not exist yet",
    )
    parser.add_argument(
        "--label",
        action="append",
        metavar="NAME",
        help="field that is removed; may be given again (default: all fields)",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="remove fields where they were found alone, not what spells the same elsewhere",
    )
    reading_options(parser)
    policy_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Redacts one document and says what was removed."""
    policy = policy_from(options)
    password = password_from(options)
    from hushdoc.viewing.redaction import redact

    atomic_files.require_free(options.out)
    model = load_finder(options.artifact, policy, options.device, answering.runtime_from(options))
    known = model.labels.fields
    unknown = sorted(set(options.label or ()) - set(known))
    if unknown:
        options.refuse_usage(
            f"the model knows no field {', '.join(printable(name, 200) for name in unknown)}; it "
            f"knows {', '.join(printable(name, 200) for name in known)}"
        )
    document = read_document(
        options.document, format=options.format, ocr=options.ocr, password=password
    )
    answer: Extraction = model.extract(document)
    # What the model is unsure of is removed too: too much is better than too little.
    made = redact(
        document,
        (*answer.fields, *answer.below_threshold),
        labels=options.label,
        repeats=not options.once,
        out=options.out,
    )
    _print(made, answer)
    return 0


def _print(made: Redaction, answer: Extraction) -> None:
    removed = ", ".join(
        f"{printable(label, 200)} ({count})" for label, count in sorted(made.counts.items())
    )
    print(f"{made.folder}: removed {removed or 'nothing: no field was found'}.")
    for warning in answer.warnings:
        print(f"  note: {printable(warning, 2000)}")
    print("  note: A model misses fields. Look at the result before you give it away.")
