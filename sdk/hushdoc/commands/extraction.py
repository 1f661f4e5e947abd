"""The subcommand `extract`: finds the fields of documents with a verified artifact."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hushdoc.commands import answering
from hushdoc.commands.answering import shown
from hushdoc.commands.passwords import password_from
from hushdoc.errors import InputError
from hushdoc.system import atomic_files, terminals

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.document import Document
    from hushdoc.runtime.extraction import Extraction, Failure, Field
    from hushdoc.runtime.hashed.model import HashedCRFModel
    from hushdoc.runtime.kie import KIEModel

    Model = KIEModel | HashedCRFModel


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc extract`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "extract",
        help="find the fields of documents with a verified artifact",
        description="Checks an artifact against a policy, then finds the fields of documents. A "
        "document that can't be read is reported and the others are still answered (exit code 7).",
    )
    answering.document_options(parser, several=True)
    output = answering.output_options(parser, "jsonl", "csv")
    output.add_argument(
        "--spreadsheet",
        action="store_true",
        help="with --csv: put an apostrophe before what a spreadsheet would run as a formula",
    )
    output.add_argument(
        "--overlay", type=Path, metavar="OUT.png", help="draw the fields on a page of one document"
    )
    output.add_argument(
        "--page", type=int, metavar="N", help="page that --overlay draws, from 0 (default: 0)"
    )
    output.add_argument(
        "--html", type=Path, metavar="OUT.html", help="show one document beside its fields"
    )
    output.add_argument(
        "--hocr", type=Path, metavar="OUT.hocr", help="write the words and fields of one document"
    )
    parser.mark_expert("--spreadsheet", "--page", "--hocr")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Extracts the fields of every document named and returns the exit code."""
    _check_usage(options)
    password = password_from(options)
    model = answering.load(options, "KIEModel", "HashedCRFModel")
    return answering.answer_each(
        options,
        partial(_answer, model, options, password),
        partial(_write, options=options, model=model),
    )


def _check_usage(options: argparse.Namespace) -> None:
    answering.check_documents(options)
    for name in ("overlay", "html", "hocr"):
        if getattr(options, name) is not None and len(options.documents) != 1:
            options.refuse_usage(f"--{name} shows one document; give exactly one")
    if options.page is not None and options.overlay is None:
        options.refuse_usage("--page selects the page of --overlay; give --overlay too")
    if options.spreadsheet and not options.csv:
        options.refuse_usage("--spreadsheet changes what --csv writes; give --csv too")


def _answer(
    model: Model, options: argparse.Namespace, password: str | None, source: str
) -> Extraction:
    """Returns the fields of a file, and writes the views of them that were asked for."""
    document = answering.read_document(source, options, password)
    answer = model.extract(document)
    if document.source is not None and document.source.ocr is not None:
        note = f"Words were read from images ({document.source}); OCR makes mistakes."
        answer = replace(answer, warnings=(*answer.warnings, note))
    _show(document, answer, model, options)
    return answer


def _show(
    document: Document, answer: Extraction, model: Model, options: argparse.Namespace
) -> None:
    """Writes the views of an answer that were asked for."""
    if options.overlay is not None:
        _draw(document, answer, model, options)
    if options.html is not None:
        from hushdoc.runtime.scoring import in_words
        from hushdoc.viewing.html import to_html

        noted = replace(answer, warnings=(*answer.warnings, in_words(model.scoring)))
        page = to_html(document, noted, labels=model.labels.fields)
        atomic_files.write_file(options.html, page.encode())
    if options.hocr is not None:
        from hushdoc.viewing.hocr import to_hocr

        atomic_files.write_file(options.hocr, to_hocr(document, answer.fields).encode())


def _draw(
    document: Document, answer: Extraction, model: Model, options: argparse.Namespace
) -> None:
    from hushdoc.viewing.fields import PlacedField
    from hushdoc.viewing.overlay import overlay

    number = options.page or 0
    if not 0 <= number < len(document.pages):
        raise InputError(
            f"The document has {len(document.pages)} pages, and --page asks for page {number}. "
            "Count pages from 0."
        )
    # Fields on a page have a box; only those of a plain text, which has no page, have none.
    fields = [found for found in answer.fields if found.page == number]
    image = overlay(
        document.pages[number],
        cast("list[PlacedField]", fields),
        labels=model.labels.fields,
    )
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    atomic_files.write_file(options.overlay, stream.getvalue())


def _write(
    answers: Iterator[Extraction | Failure], options: argparse.Namespace, model: Model
) -> None:
    """Prints answers in the format asked for; all but --json print each as soon as it is known."""
    if options.json:
        answering.write_json(answers, options)
    elif options.jsonl:
        answering.write_jsonl(answers)
    elif options.csv:
        _write_csv(answers, options)
    else:
        for answer in answers:
            text = _table(answer)
            if text:
                print(text, flush=True)
        answering.print_scoring(model)


def _write_csv(answers: Iterator[Extraction | Failure], options: argparse.Namespace) -> None:
    from hushdoc.runtime.extraction import COLUMNS, Extraction

    stream = terminals.for_data(sys.stdout)
    print(",".join(COLUMNS), file=stream)
    for answer in answers:
        if isinstance(answer, Extraction):
            text = answer.to_csv(header=False, spreadsheet=options.spreadsheet)
            print(text, end="", file=stream, flush=True)
            for warning in answer.warnings:
                answering.report(
                    options, f"{shown(answer.document_id)}: {shown(warning, limit=2000)}"
                )


def _table(answer: Extraction | Failure) -> str:
    """Returns an answer for people; what a document says can't steer the terminal."""
    from hushdoc.runtime.extraction import Extraction

    if not isinstance(answer, Extraction):
        return ""
    rows = [
        (shown(found.label), f"{found.score:.2f}", _place(found), shown(found.text))
        for found in answer.fields
    ]
    plain = any(found.box is None for found in answer.fields)
    head = ("field", "score", "characters" if plain else "page", "text")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(3)]
    lines = [
        f"{shown(answer.document_id)}: {len(rows)} field{'s' * (len(rows) != 1)}, "
        f"{answer.coverage:.0%} of the words read, {answer.timings.total_seconds:.2f} s"
    ]
    for label, score, page, text in [head, *rows] if rows else []:
        lines.append(
            f"  {label:<{widths[0]}}  {score:>{widths[1]}}  {page:>{widths[2]}}  {text}".rstrip()
        )
    notes = list(answer.warnings)
    if answer.below_threshold:
        notes.append(
            f"{len(answer.below_threshold)} more found below the threshold; --json has them."
        )
    return "\n".join([*lines, *(f"  note: {shown(warning, limit=2000)}" for warning in notes)])


def _place(found: Field) -> str:
    """Returns the page of a field, or its characters in a plain text."""
    return str(found.page) if found.box is not None else f"{found.start}-{found.stop}"
