"""The verb `extract`: fields of documents, found by a verified artifact."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hushdoc import files
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.document import Document
from hushdoc.errors import HushdocError, InputError, LimitExceededError, UnsupportedFormatError

if TYPE_CHECKING:
    from hushdoc.runtime.extraction import Extraction, Failure
    from hushdoc.runtime.kie import KIEModel

MAX_DOCUMENT_BYTES = 64 * 2**20
"""A document file is never larger (bytes)."""

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
        help="JSON file written by Document.to_dict(), or - for standard input",
    )
    policy_options(parser)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", action="store_true", help="one JSON object, or a list for several documents"
    )
    forms.add_argument("--jsonl", action="store_true", help="one JSON object a line")
    forms.add_argument("--csv", action="store_true", help="one row for each field")
    parser.add_argument(
        "--overlay", type=Path, metavar="OUT.png", help="draw the fields of one document's page"
    )
    parser.add_argument(
        "--page", type=int, metavar="N", help="the page --overlay draws, from 0 (default: 0)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: cpu)")
    parser.add_argument("--threads", type=int, metavar="N", help="(default: all usable cores)")
    parser.add_argument("--memory-limit", metavar="SIZE", help="such as 400MB (default: none)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Extracts the fields of every document named and returns the exit code."""
    _check_usage(options)
    policy = policy_from(options)
    from hushdoc.runtime.kie import KIEModel
    from hushdoc.runtime.session import Runtime

    try:
        runtime = Runtime(
            threads="auto" if options.threads is None else int(options.threads),
            memory_limit=options.memory_limit,
        )
    except ValueError as error:
        options.refuse_usage(str(error))
    model = KIEModel.load(options.artifact, policy=policy, device=options.device, runtime=runtime)
    failed: list[HushdocError] = []
    _write(_answers(model, options, failed), options)
    if not failed:
        return 0
    return PARTIAL if len(failed) < len(options.documents) else failed[0].exit_code


def _check_usage(options: argparse.Namespace) -> None:
    if options.overlay is not None and len(options.documents) != 1:
        options.refuse_usage("--overlay draws one document; give exactly one")
    if options.page is not None and options.overlay is None:
        options.refuse_usage("--page says which page --overlay draws; give --overlay too")
    if options.documents.count("-") > 1:
        options.refuse_usage("standard input can be read once; give - once")


def _answers(
    model: KIEModel, options: argparse.Namespace, failed: list[HushdocError]
) -> Iterator[Extraction | Failure]:
    """Yields an answer for each document in order and reports those that failed."""
    from hushdoc.runtime.extraction import Failure

    for source in options.documents:
        try:
            document = read_document(source)
            answer = model.extract(document)
            if options.overlay is not None:
                _draw(document, answer, model, options)
        except HushdocError as error:
            failed.append(error)
            print(f"hushdoc extract: {error.code}: {_shown(source)}: {error}", file=sys.stderr)
            yield Failure(document_id=source, error=error)
        else:
            yield answer


def read_document(source: str) -> Document:
    """Returns the document in a JSON file, or on standard input for "-".

    Args:
        source: The file's name; images it names are looked for beside it.

    Raises:
        InputError: The file can't be read or holds no document.
        UnsupportedFormatError: It is not JSON.
        LimitExceededError: It is larger than MAX_DOCUMENT_BYTES.
    """
    try:
        if source == "-":
            content = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        else:
            with Path(source).open("rb") as stream:
                content = stream.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise InputError(f"It can't be read: {error.strerror or error}. Check the path.") from error
    if len(content) > MAX_DOCUMENT_BYTES:
        raise LimitExceededError(
            f"It is larger than {MAX_DOCUMENT_BYTES} bytes. Split it into smaller documents."
        )
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnsupportedFormatError(
            f"It is not JSON: {error}. Expected a file written from Document.to_dict(); images "
            "and PDF files have to be read with OCR first."
        ) from error
    if isinstance(data, dict) and isinstance(data.get("document"), dict):
        data = data["document"]
    if not isinstance(data, dict):
        raise InputError(
            f"It holds {type(data).__name__}, expected an object written from Document.to_dict()."
        )
    document = Document.from_dict(data)
    return document if source == "-" else _with_images(document, Path(source).parent)


def _with_images(document: Document, folder: Path) -> Document:
    pages = tuple(
        page if page.image is None else replace(page, image=folder / page.image)
        for page in document.pages
    )
    return replace(document, pages=pages)


def _draw(
    document: Document, answer: Extraction, model: KIEModel, options: argparse.Namespace
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
    picture = overlay(
        document.pages[number],
        cast("list[PlacedField]", fields),
        labels=model.labels.fields,
    )
    stream = io.BytesIO()
    picture.save(stream, format="PNG")
    files.write_file(options.overlay, stream.getvalue())


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
        _write_csv(answers)
    else:
        for answer in answers:
            text = _table(answer)
            if text:
                print(text, flush=True)


def _write_csv(answers: Iterator[Extraction | Failure]) -> None:
    from hushdoc.runtime.extraction import COLUMNS, Extraction

    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        if isinstance(answer, Extraction):
            writer.writerows(answer.to_rows())
            for warning in answer.warnings:
                print(f"hushdoc extract: {_shown(answer.document_id)}: {warning}", file=sys.stderr)


def _table(answer: Extraction | Failure) -> str:
    """Returns an answer for people; what a document says can't steer the terminal."""
    from hushdoc.runtime.extraction import Extraction

    if not isinstance(answer, Extraction):
        return ""
    rows = [
        (_shown(found.label), f"{found.score:.2f}", str(found.page), _shown(found.text))
        for found in answer.fields
    ]
    head = ("field", "score", "page", "text")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(3)]
    lines = [
        f"{_shown(answer.document_id)}: {len(rows)} field{'s' * (len(rows) != 1)}, "
        f"{answer.coverage:.0%} of the words read, {answer.timings.total_seconds:.2f} s"
    ]
    for label, score, page, text in [head, *rows] if rows else []:
        lines.append(
            f"  {label:<{widths[0]}}  {score:>{widths[1]}}  {page:>{widths[2]}}  {text}".rstrip()
        )
    return "\n".join([*lines, *(f"  note: {_shown(warning)}" for warning in answer.warnings)])


def _shown(text: str) -> str:
    from hushdoc.explanation import printable

    return printable(text, limit=200)
