"""What subcommands that run a model share: its options, reading documents, writing answers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hushdoc.arguments import printable
from hushdoc.commands.parsing import CommandParser, usage_errors
from hushdoc.commands.passwords import password_option
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.document.limits import ReadingLimits
from hushdoc.document.provenance import ENGINES, FORMATS, ReadingWarning
from hushdoc.errors import HushdocError, InputError

if TYPE_CHECKING:
    from hushdoc.document.document import Document
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.session import Runtime

PARTIAL = 7
"""Exit code when some documents failed and others did not."""


class Serializable(Protocol):
    """An answer that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""


Answer = TypeVar("Answer", bound=Serializable)


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


def document_options(parser: CommandParser, *, several: bool) -> None:
    """Adds the options of a model, the documents, how they are read, and the model's policy."""
    model_options(parser)
    parser.add_argument(
        "documents" if several else "document",
        nargs="+" if several else None,
        metavar="DOCUMENT",
        help="PDF, image, text, or JSON written by Document.to_dict(); or - for standard input",
    )
    group = parser.add_argument_group("reading")
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
    parser.mark_expert("--format")
    policy_options(parser)


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


def read_document(
    source: str, options: argparse.Namespace, password: str | None = None
) -> Document:
    """Returns the document in a file, or on standard input for "-"; warnings may be errors."""
    from hushdoc.reading.opening import open_document

    limits = ReadingLimits()
    content = source if source != "-" else sys.stdin.buffer.read(limits.max_bytes + 1)
    try:
        return open_document(
            content, format=options.format, ocr=options.ocr, password=password, limits=limits
        )
    except ReadingWarning as warning:
        raise InputError(f"{warning} Here warnings are errors (-W, PYTHONWARNINGS).") from warning


def check_documents(options: argparse.Namespace) -> None:
    """Refuses what is no list of documents: standard input can be read once."""
    if options.documents.count("-") > 1:
        options.refuse_usage("standard input can be read once; give - once")


def answer_each(
    options: argparse.Namespace,
    answer: Callable[[str], Answer],
    write: Callable[[Iterator[Answer | Failure]], None],
) -> int:
    """Writes all answers, reports the documents that failed, and returns the exit code."""
    from hushdoc.runtime.extraction import Failure

    failed: list[HushdocError] = []

    def answers() -> Iterator[Answer | Failure]:
        for source in options.documents:
            try:
                found = answer(source)
            except HushdocError as error:
                failed.append(error)
                report(options, f"{error.code}: {shown(source)}: {shown(str(error), limit=2000)}")
                yield Failure(document_id=source, error=error)
            else:
                yield found

    write(answers())
    if not failed:
        return 0
    return PARTIAL if len(failed) < len(options.documents) else failed[0].exit_code


def write_json(answers: Iterable[Serializable], options: argparse.Namespace) -> None:
    """Prints the one JSON object of a single document, or a list of them, once all are known."""
    found = [answer.to_dict() for answer in answers]
    shown_value = found[0] if len(options.documents) == 1 else found
    print(json.dumps(shown_value, indent=2, ensure_ascii=True))


def write_jsonl(answers: Iterable[Serializable]) -> None:
    """Prints one JSON object a line, as soon as it is known."""
    for answer in answers:
        print(json.dumps(answer.to_dict(), ensure_ascii=True), flush=True)


def print_scoring(model: Any) -> None:
    """Prints what the scores above it mean."""
    from hushdoc.runtime.scoring import in_words

    print(f"note: {shown(in_words(model.scoring))}", flush=True)


def report(options: argparse.Namespace, message: str) -> None:
    """Prints a line about one document on standard error."""
    print(f"hushdoc {options.subcommand}: {printable(message)}", file=sys.stderr)


def shown(text: str, *, limit: int = 200) -> str:
    """Returns text that can't steer the terminal."""
    return printable(text, limit=limit)
