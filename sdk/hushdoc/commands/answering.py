"""What verbs that ask a model share: its options, documents one by one, answers as they come."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hushdoc.arguments import printable
from hushdoc.commands.extraction import PARTIAL
from hushdoc.errors import HushdocError

if TYPE_CHECKING:
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.session import Runtime


class Told(Protocol):
    """An answer that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""


Answer = TypeVar("Answer", bound=Told)


def model_options(parser: argparse.ArgumentParser) -> None:
    """Adds which artifact answers and on what machine; `runtime_from` reads the latter."""
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="folder of the artifact")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: cpu)")
    parser.add_argument("--threads", type=int, metavar="N", help="(default: all usable cores)")
    parser.add_argument("--memory-limit", metavar="SIZE", help="such as 400MB (default: none)")


def runtime_from(options: argparse.Namespace) -> Runtime:
    """Returns the threads and memory that the options state; nonsense is a usage error."""
    from hushdoc.runtime.session import Runtime

    try:
        return Runtime(
            threads="auto" if options.threads is None else int(options.threads),
            memory_limit=options.memory_limit,
        )
    except ValueError as error:
        options.refuse_usage(str(error))
        raise


def each(
    sources: Iterable[str],
    answer: Callable[[str], Answer],
    failed: list[HushdocError],
    *,
    verb: str,
) -> Iterator[Answer | Failure]:
    """Yields an answer for each source in order, and reports those that failed.

    Args:
        sources: Names of files, or - for standard input.
        answer: Reads one and asks the model.
        failed: Gets the errors.
        verb: For the messages on standard error.
    """
    from hushdoc.runtime.extraction import Failure

    for source in sources:
        try:
            yield answer(source)
        except HushdocError as error:
            failed.append(error)
            said = f"{error.code}: {printable(source, 200)}: {printable(error, 2000)}"
            print(f"hushdoc {verb}: {said}", file=sys.stderr)
            yield Failure(document_id=source, error=error)


def exit_code(failed: list[HushdocError], total: int) -> int:
    """Returns 0, or PARTIAL where some were answered, or the first error's own code."""
    if not failed:
        return 0
    return PARTIAL if len(failed) < total else failed[0].exit_code


def write_json(answers: Iterable[Told], *, single: bool) -> None:
    """Prints one JSON object, or a list of them.

    Args:
        answers: What to print, once all are known.
        single: Whether there is one, which then stands alone.
    """
    found = [answer.to_dict() for answer in answers]
    print(json.dumps(found[0] if single else found, indent=2, ensure_ascii=True))


def write_jsonl(answers: Iterable[Told]) -> None:
    """Prints one JSON object a line, as soon as it is known."""
    for answer in answers:
        print(json.dumps(answer.to_dict(), ensure_ascii=True), flush=True)
