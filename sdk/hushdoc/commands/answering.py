"""What subcommands that run a model share: its options, loading, opening, printing answers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar, cast

from hushdoc.arguments import counted, printable
from hushdoc.commands.parsing import CommandParser, usage_errors
from hushdoc.commands.passwords import password_from, password_option
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import ENGINES, FORMATS, READERS, ReadingWarning
from hushdoc.errors import InputError

if TYPE_CHECKING:
    from hushdoc.commands.documents import Source
    from hushdoc.document.document import Document
    from hushdoc.runtime.answers import Answers
    from hushdoc.runtime.extraction import Extraction, Field
    from hushdoc.runtime.session import Runtime


Noted = TypeVar("Noted", "Extraction", "Answers")


class Serializable(Protocol):
    """An answer that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""


def artifact_argument(parser: CommandParser) -> None:
    """Adds the artifact."""
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="folder of the artifact")


def model_options(parser: CommandParser) -> None:
    """Adds the artifact, and the machine that runs it; `load` reads them."""
    artifact_argument(parser)
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="processor that runs the model (default: cpu)",
    )
    group.add_argument(
        "--threads", type=int, metavar="N", help="threads of the model (default: all usable cores)"
    )
    group.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="memory that the model may take, such as 400MB (default: no limit)",
    )
    parser.mark_expert("--threads", "--memory-limit")


def document_options(parser: CommandParser) -> None:
    """Adds the options of a model, the documents, how they are read, and the model's policy."""
    model_options(parser)
    parser.add_argument(
        "documents",
        nargs="+",
        metavar="DOCUMENT",
        help="PDF, image, text, or JSON written by Document.to_dict(); a folder of such files; or "
        "- for a list of paths on standard input, one a line or separated by NUL",
    )
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--stdin",
        choices=("auto", "list", "document"),
        default="auto",
        help="what - reads from standard input: a list of paths, or one document; auto takes a "
        "PDF, an image, JSON or markup as a document, anything else as a list (default: auto)",
    )
    group.add_argument(
        "--reader",
        choices=READERS,
        help="where files are read: here, or in a process that no file can stop or crash the "
        "program from (default: process for several documents and --time-limit, else here)",
    )
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="how long a reader process may take for a file, OCR aside (default: 60)",
    )
    group.add_argument(
        "--workers",
        type=positive,
        default=1,
        metavar="N",
        help="how many documents are read and answered at the same time (default: 1)",
    )
    group.add_argument(
        "--ocr",
        choices=ENGINES,
        default="auto",
        help="what reads text from images: auto reads pages without text; rapidocr and tesseract "
        "read every page; none reads no image (default: auto)",
    )
    password_option(group)
    group.add_argument(
        "--format",
        choices=FORMATS,
        default="auto",
        metavar="FORMAT",
        help=f"format of the documents: {', '.join(FORMATS)} (default: auto, by their content)",
    )
    parser.mark_expert("--stdin", "--reader", "--workers", "--format")
    policy_options(parser)


def positive(text: str) -> int:
    """Returns the integer that an option takes, at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def out_option(parser: argparse._ActionsContainer) -> None:
    """Adds --out, the folder of results."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write a result for each document into this folder, which mirrors the folders named, "
        "and failures.jsonl; results that are there already are not made again",
    )


def output_options(parser: CommandParser, *formats: str) -> argparse._ActionsContainer:
    """Adds --json and other formats of answers, of which one may be chosen; returns their group."""
    texts = {
        "json": "print one JSON object, or a list for several documents",
        "jsonl": "print one JSON object a line",
        "csv": "print one row for each field",
    }
    group = parser.add_argument_group("output")
    exclusive = group.add_mutually_exclusive_group()
    for name in ("json", *formats):
        exclusive.add_argument(f"--{name}", action="store_true", help=texts[name])
    return group


def runtime_from(options: argparse.Namespace) -> Runtime:
    """Returns the threads and memory that the options name; a wrong value is a usage error."""
    from hushdoc.runtime.session import Runtime

    with usage_errors(options):
        return Runtime(
            threads="auto" if options.threads is None else int(options.threads),
            memory_limit=options.memory_limit,
        )


def load(options: argparse.Namespace, *classes: str) -> Any:
    """Returns the model of the named artifact, if one of these classes of `hushdoc` runs it."""
    from hushdoc.runtime.loading import CLASSES
    from hushdoc.runtime.model import opened, require_class

    policy, runtime = policy_from(options), runtime_from(options)
    with opened(options.artifact, policy, options.device, runtime, low_memory=False) as artifact:
        model = CLASSES[require_class(artifact.certificate.model, *classes)]
        return model.from_artifact(artifact, device=options.device, runtime=runtime)


def reading(options: argparse.Namespace, *, single: bool) -> dict[str, Any]:
    """Returns how files are opened: arguments of `open_document` and of `with_image`."""
    seconds = options.time_limit
    process = options.reader == "process" or not single or seconds is not None
    reader = options.reader or ("process" if process else "here")
    if seconds is not None and reader == "here":
        options.refuse_usage("--time-limit needs --reader process: here nothing can stop a reader")
    with usage_errors(options):
        limits = ReadingLimits(max_seconds=seconds)
    return {"password": password_from(options), "limits": limits, "reader": reader}


def read_document(
    source: Source, options: argparse.Namespace, settings: Mapping[str, Any]
) -> Document:
    """Returns a document that was named; `settings` are those of `reading`."""
    from hushdoc.reading.opening import open_document

    content = source.path if source.content is None else source.content
    try:
        return open_document(content, format=options.format, ocr=options.ocr, **settings)
    except ReadingWarning as warning:
        raise InputError(f"{warning} Here warnings are errors (-W, PYTHONWARNINGS).") from warning


def with_note_on_ocr(answer: Noted, document: Document) -> Noted:
    """Returns an answer that says so where the document's words were read from images."""
    if document.source is None or document.source.ocr is None:
        return answer
    note = f"Words were read from images ({document.source}); OCR makes mistakes."
    return replace(answer, warnings=(*answer.warnings, note))


def drawn(
    document: Document, fields: Iterable[Field], *, page: int, labels: Collection[str]
) -> bytes:
    """Returns a PNG file of a page with its fields, where there is such a page."""
    from hushdoc.viewing.fields import PlacedField
    from hushdoc.viewing.overlay import overlay
    from hushdoc.viewing.rendition import as_png

    if not 0 <= page < len(document.pages):
        raise InputError(
            f"The document has {counted(len(document.pages), 'page')}, and --page asks for page "
            f"{page}. Count pages from 0."
        )
    # Fields on a page have a box; only those of a plain text, which has no page, have none.
    found = cast("list[PlacedField]", [item for item in fields if item.page == page])
    return as_png(overlay(document.pages[page], found, labels=labels))


def as_json(answer: Serializable) -> str:
    """Returns an answer as indented JSON in ASCII."""
    return json.dumps(answer.to_dict(), indent=2, ensure_ascii=True)


def write_json(answers: Iterable[Serializable], *, single: bool) -> None:
    """Prints the JSON object of a single document, or a list, each object once it is known."""
    separator = "" if single else "[\n"
    for answer in answers:
        text = as_json(answer)
        print(separator, text if single else indent(text, "  "), sep="", end="", flush=True)
        separator = ",\n"
    print("" if single else "\n]")


def write_jsonl(answers: Iterable[Serializable]) -> None:
    """Prints one JSON object a line, as soon as it is known."""
    for answer in answers:
        print(json.dumps(answer.to_dict(), ensure_ascii=True), flush=True)


def print_scoring(model: Any, file: TextIO | None = None) -> None:
    """Prints what the scores above it mean, or those in files."""
    print_score_note(None if model.scoring is None else model.scoring.fitted_on, file)


def print_score_note(calibrated_on: str | None, file: TextIO | None = None) -> None:
    """Prints what scores mean that were calibrated on such documents, or were not."""
    from hushdoc.viewing.fields import score_note

    print(f"note: {score_note(calibrated_on)}", file=file, flush=True)


def report(options: argparse.Namespace, message: str) -> None:
    """Prints a line about one document on standard error."""
    print(f"hushdoc {options.subcommand}: {printable(message)}", file=sys.stderr)


def shown(text: str, *, limit: int = 200) -> str:
    """Returns text that can't steer the terminal."""
    return printable(text, limit=limit)
