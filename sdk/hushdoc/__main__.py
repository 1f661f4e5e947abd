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
    except KeyboardInterrupt:
        print("hushdoc: interrupted.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
