"""The verb `extract`: fields of documents, found by a verified artifact."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hushdoc.arguments import printable
from hushdoc.commands.passwords import password_from, password_option
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.document.document import Document
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import ENGINES, FORMATS, ReadingWarning
from hushdoc.errors import HushdocError, InputError
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from hushdoc.policy.policy import Policy
    from hushdoc.runtime.extraction import Extraction, Failure, Field
    from hushdoc.runtime.hashed.model import HashedCRFModel
    from hushdoc.runtime.kie import KIEModel
    from hushdoc.runtime.session import Runtime

    Model = KIEModel | HashedCRFModel

PARTIAL = 7
"""Exit code when some documents failed and others did not."""


def register(verbs: Any) -> None:
    """Adds `hushdoc extract`; numpy and onnxruntime are imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "extract",
        help="find the fields of documents with a verified artifact",
        description="Checks an artifact against a policy, then finds the fields of documents. A "
        "document that can't be read is reported and the others are still answered (exit code 7).",
    )
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="folder of the artifact")
    parser.add_argument(
        "documents",
        nargs="+",
        metavar="DOCUMENT",
        help="PDF, image, text, or JSON written by Document.to_dict(); or - for standard input",
    )
    reading_options(parser)
    policy_options(parser)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", action="store_true", help="one JSON object, or a list for several documents"
    )
    forms.add_argument("--jsonl", action="store_true", help="one JSON object a line")
    forms.add_argument("--csv", action="store_true", help="one row for each field")
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="with --csv: put an apostrophe before what a spreadsheet would run as a formula",
    )
    parser.add_argument(
        "--overlay", type=Path, metavar="OUT.png", help="draw the fields of one document's page"
    )
    parser.add_argument(
        "--page", type=int, metavar="N", help="the page --overlay draws, from 0 (default: 0)"
    )
    parser.add_argument(
        "--html", type=Path, metavar="OUT.html", help="show one document, its fields beside it"
    )
    parser.add_argument(
        "--hocr", type=Path, metavar="OUT.hocr", help="write one document's words and fields"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: cpu)")
    parser.add_argument("--threads", type=int, metavar="N", help="(default: all usable cores)")
    parser.add_argument("--memory-limit", metavar="SIZE", help="such as 400MB (default: none)")
    parser.set_defaults(run=run)


def reading_options(parser: argparse.ArgumentParser) -> None:
    """Adds how documents are read to a verb's options."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="auto",
        metavar="FORMAT",
        help=f"what the documents are: {', '.join(FORMATS)} (default: auto, told by the content)",
    )
    parser.add_argument(
        "--ocr",
        choices=ENGINES,
        default="auto",
        help="what reads the text from images: auto reads pages without text; rapidocr and "
        "tesseract read every page; none reads no image (default: auto)",
    )
    password_option(parser)


def run(options: argparse.Namespace) -> int:
    """Extracts the fields of every document named and returns the exit code."""
    _check_usage(options)
    policy = policy_from(options)
    password = password_from(options)
    from hushdoc.runtime.session import Runtime

    try:
        runtime = Runtime(
            threads="auto" if options.threads is None else int(options.threads),
            memory_limit=options.memory_limit,
        )
    except ValueError as error:
        options.refuse_usage(str(error))
    model = load_finder(options.artifact, policy, options.device, runtime)
    failed: list[HushdocError] = []
    _write(_answers(model, options, password, failed), options)
    if not failed:
        return 0
    return PARTIAL if len(failed) < len(options.documents) else failed[0].exit_code


def load_finder(artifact: Path, policy: Policy, device: str, runtime: Runtime) -> Model:
    """Returns the model for fields that an artifact holds, a graph or a table."""
    from hushdoc.runtime.hashed.model import HashedCRFModel
    from hushdoc.runtime.kie import KIEModel
    from hushdoc.runtime.model import opened, require_class

    with opened(artifact, policy, device, runtime, low_memory=False) as checked:
        name = require_class(checked.certificate.model, "KIEModel", "HashedCRFModel")
        model = KIEModel if name == "KIEModel" else HashedCRFModel
        return model.from_artifact(checked, device=device, runtime=runtime)


def _check_usage(options: argparse.Namespace) -> None:
    for name in ("overlay", "html", "hocr"):
        if getattr(options, name) is not None and len(options.documents) != 1:
            options.refuse_usage(f"--{name} shows one document; give exactly one")
    if options.page is not None and options.overlay is None:
        options.refuse_usage("--page says which page --overlay draws; give --overlay too")
    if options.spreadsheet and not options.csv:
        options.refuse_usage("--spreadsheet says how --csv writes; give --csv too")
    if options.documents.count("-") > 1:
        options.refuse_usage("standard input can be read once; give - once")


def _answers(
    model: Model, options: argparse.Namespace, password: str | None, failed: list[HushdocError]
) -> Iterator[Extraction | Failure]:
    """Yields an answer for each document in order and reports those that failed."""
    from hushdoc.runtime.extraction import Failure

    for source in options.documents:
        try:
            document = read_document(
                source, format=options.format, ocr=options.ocr, password=password
            )
            answer = _answer(document, model)
            _show(document, answer, model, options)
        except HushdocError as error:
            failed.append(error)
            said = f"{error.code}: {printable(source, 200)}: {printable(error, 2000)}"
            print(f"hushdoc extract: {said}", file=sys.stderr)
            yield Failure(document_id=source, error=error)
        else:
            yield answer


def _answer(document: Document, model: Model) -> Extraction:
    """Returns the fields, with a note where the words come from images."""
    answer = model.extract(document)
    if document.source is None or document.source.ocr is None:
        return answer
    note = f"Words were read from images ({document.source}); OCR makes mistakes."
    return replace(answer, warnings=(*answer.warnings, note))


def read_document(
    source: str, *, format: str = "auto", ocr: str = "auto", password: str | None = None
) -> Document:
    """Returns the document in a file, or on standard input for "-".

    Args:
        source: The file's name; images that a JSON file names must stand beside it.
        format: As `open_document` takes it.
        ocr: Likewise.
        password: Likewise.

    Raises:
        InputError: The file can't be read or holds no document, or there is a warning about it
            and warnings are errors (python -W error, PYTHONWARNINGS).
        LimitExceededError: It is larger than what is read.
        MissingExtraError: A package that its format needs is not installed.
    """
    from hushdoc.reading.opening import open_document

    limits = ReadingLimits()
    named = source if source != "-" else sys.stdin.buffer.read(limits.max_bytes + 1)
    try:
        return open_document(named, format=format, ocr=ocr, password=password, limits=limits)
    except ReadingWarning as warning:
        raise InputError(f"{warning} Here warnings are errors (-W, PYTHONWARNINGS).") from warning


def _show(
    document: Document, answer: Extraction, model: Model, options: argparse.Namespace
) -> None:
    """Writes the files that were asked for."""
    if options.overlay is not None:
        _draw(document, answer, model, options)
    if options.html is not None:
        from hushdoc.viewing.html import to_html

        shown = to_html(document, answer, labels=model.labels.fields)
        atomic_files.write_file(options.html, shown.encode())
    if options.hocr is not None:
        from hushdoc.viewing.hocr import to_hocr

        atomic_files.write_file(options.hocr, to_hocr(document, answer.fields).encode())


def _draw(
    document: Document, answer: Extraction, model: Model, options: argparse.Namespace
) -> None:
    from hushdoc.viewing.overlay import PlacedField, overlay

    number = options.page or 0
    if not 0 <= number < len(document.pages):
        raise InputError(
            f"It has {len(document.pages)} pages and --page asks for page {number}; pages are "
            "counted from 0."
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


def _write(answers: Iterator[Extraction | Failure], options: argparse.Namespace) -> None:
    """Prints answers in the form asked for; all but --json print each as soon as it is known."""
    if options.json:
        found = [answer.to_dict() for answer in answers]
        shown = found[0] if len(options.documents) == 1 else found
        print(json.dumps(shown, indent=2, ensure_ascii=True))
    elif options.jsonl:
        for answer in answers:
            print(json.dumps(answer.to_dict(), ensure_ascii=True), flush=True)
    elif options.csv:
        _write_csv(answers, spreadsheet=options.spreadsheet)
    else:
        for answer in answers:
            text = _table(answer)
            if text:
                print(text, flush=True)


def _write_csv(answers: Iterator[Extraction | Failure], *, spreadsheet: bool) -> None:
    from hushdoc.runtime.extraction import COLUMNS, Extraction

    print(",".join(COLUMNS))
    for answer in answers:
        if isinstance(answer, Extraction):
            print(answer.to_csv(header=False, spreadsheet=spreadsheet), end="", flush=True)
            for warning in answer.warnings:
                said = f"{printable(answer.document_id, 200)}: {printable(warning, 2000)}"
                print(f"hushdoc extract: {said}", file=sys.stderr)


def _table(answer: Extraction | Failure) -> str:
    """Returns an answer for people; what a document says can't steer the terminal."""
    from hushdoc.runtime.extraction import Extraction

    if not isinstance(answer, Extraction):
        return ""
    rows = [
        (
            printable(found.label, 200),
            f"{found.score:.2f}",
            _place(found),
            printable(found.text, 200),
        )
        for found in answer.fields
    ]
    plain = any(found.box is None for found in answer.fields)
    head = ("field", "score", "characters" if plain else "page", "text")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(3)]
    lines = [
        f"{printable(answer.document_id, 200)}: {len(rows)} field{'s' * (len(rows) != 1)}, "
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
    return "\n".join([*lines, *(f"  note: {printable(warning, 2000)}" for warning in notes)])


def _place(found: Field) -> str:
    """Returns the page of a field, or its characters in a plain text."""
    return str(found.page) if found.box is not None else f"{found.start}-{found.stop}"
