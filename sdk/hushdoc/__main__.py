"""The program `hushdoc`; nothing is imported before Ctrl-C would end it with one line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code."""
    try:
        from hushdoc.commands import command_line

        return command_line.main(arguments)
    except KeyboardInterrupt as interrupt:
        say_interrupted(f"hushdoc: interrupted {interrupt}".rstrip())
        return INTERRUPTED


def say_interrupted(line: str) -> None:
    """Prints one line, on a terminal in place of the progress or "^C" that stands there."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    print("\r\x1b[K" * terminal + f"{line}.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
