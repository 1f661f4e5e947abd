"""The command line: the subcommands of the SDK, and those that the upper floors plug in."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

import hushdoc
from hushdoc.arguments import printable
from hushdoc.commands import (
    asking,
    benchmarking,
    certificates,
    classification,
    completion,
    doctor,
    embedding,
    evaluation,
    extraction,
    extras,
    inspection,
    keys,
    notices,
    redaction,
    sample,
    serving,
    signing,
    trust,
)
from hushdoc.commands.parsing import CommandParser
from hushdoc.errors import HushdocError, InputError, OutputWriteError
from hushdoc.system import terminals

SECTIONS = {
    "try": ("sample",),
    "train": ("data", "train", "synthesize", "federated", "ledger", "audit", "export"),
    "check and sign": ("keygen", "sign", "trust", "inspect", "verify", "certificate"),
    "use": ("extract", "ask", "classify", "embed", "redact", "evaluate", "serve"),
    "this machine": ("doctor", "bench", "completion"),
}
"""The journey of a model, by which --help orders the subcommands."""

MAX_LINE = 10_000
"""Characters of an error's line; one names many rules or files at the most."""

EXIT_CODES = """exit codes:
  0 done   2 wrong usage   3 input   4 artifact or certificate   5 refused by the policy
  6 run time   7 some documents failed   130 interrupted, can be resumed"""


def build_parser() -> CommandParser:
    """Returns the parser with every installed subcommand."""
    parser = CommandParser(
        prog="hushdoc",
        sections=SECTIONS,
        description="Private document models: train, certify, export, verify, run.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hushdoc {hushdoc.__version__}")
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    for plugged in sorted(entry_points(group="hushdoc.commands"), key=lambda entry: entry.name):
        plugged.load()(subcommands)
    for module in (keys, trust, signing, inspection, certificates):
        module.register(subcommands)
    sample.register(subcommands)
    for module in (
        extraction,
        asking,
        classification,
        embedding,
        redaction,
        evaluation,
        serving,
        doctor,
        benchmarking,
    ):
        module.register(subcommands)
    completion.register(subcommands, parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code; errors become a line on standard error."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a character gets it escaped, never a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with terminals.escaping(_harmless):
        return _run(build_parser().parse_args(arguments))


def _harmless(text: str) -> str:
    """Returns lines that can't steer a terminal, whatever name, key or label is in them."""
    return "\n".join(printable(line, limit=len(line)) for line in text.split("\n"))


def _run(options: argparse.Namespace) -> int:
    """Runs the subcommand that was asked for."""
    exit_code = OutputWriteError.exit_code  # until the subcommand has come to its end
    try:
        _require_current_folder()
        with notices.as_lines(), extras.required(getattr(options, "extra", None)):
            exit_code = int(options.run(options))
        sys.stdout.flush()
        return exit_code
    except HushdocError as error:
        _refuse(options, error.code, error)
        return error.exit_code
    except MemoryError:
        ended = notices.out_of_memory("What was asked for")
        _refuse(options, ended.code, ended)
        return ended.exit_code
    except BrokenPipeError:
        # Whoever read has had enough, which makes no refusal an acceptance.
        return exit_code
    except OSError as error:
        # Subcommands name the files they read and write; what is left is the terminal or its pipe.
        _refuse(options, OutputWriteError.default_code, error)
        return OutputWriteError.exit_code


def _require_current_folder() -> None:
    """Raises InputError where it was deleted: libraries that look there would end the process."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InputError(
            "The current folder was deleted. Change to one that exists, and run the command again."
        ) from error


def _refuse(options: argparse.Namespace, code: str, error: Exception) -> None:
    """Prints the one line of an error, also where a name in it has several."""
    line = printable(error, limit=MAX_LINE)
    print(f"hushdoc {options.subcommand}: {code}: {line}", file=sys.stderr)
