"""The command line: verbs of the SDK, and those that the upper floors plug in."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

import hushdoc
from hushdoc.commands import (
    benchmarking,
    certificates,
    classification,
    doctor,
    embedding,
    extraction,
    inspection,
    keys,
    notices,
    redaction,
    signing,
    trust,
)
from hushdoc.errors import HushdocError, OutputWriteError

EXIT_CODES = """exit codes:
  0 done   2 wrong usage   3 input   4 artifact or certificate   5 refused by the policy
  6 run time   7 some documents failed   130 interrupted, can be resumed"""


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser with every installed verb."""
    parser = argparse.ArgumentParser(
        prog="hushdoc",
        description="Private document models: train, certify, export, verify, run.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hushdoc {hushdoc.__version__}")
    verbs = parser.add_subparsers(title="verbs", dest="verb", required=True, metavar="VERB")
    for plugged in sorted(entry_points(group="hushdoc.commands"), key=lambda entry: entry.name):
        plugged.load()(verbs)
    for room in (keys, trust, signing, inspection, certificates):
        room.register(verbs)
    for room in (extraction, classification, embedding, redaction, doctor, benchmarking):
        room.register(verbs)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a letter gets it spelled out, never a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = build_parser().parse_args(arguments)
    try:
        with notices.as_lines():
            exit_code = int(options.run(options))
        sys.stdout.flush()
        return exit_code
    except HushdocError as error:
        print(f"hushdoc {options.verb}: {error.code}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        return 0
    except OSError as error:
        # What a verb reads and writes it names itself; what is left is the terminal or its pipe.
        print(f"hushdoc {options.verb}: OUTPUT_NOT_WRITTEN: {error}", file=sys.stderr)
        return OutputWriteError.exit_code


if __name__ == "__main__":
    sys.exit(main())
