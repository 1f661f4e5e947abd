"""The program `hushdoc`; nothing is imported before Ctrl-C would end it with one line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code."""
    _open_standard_streams()
    try:
        from hushdoc.commands import command_line

        return command_line.main(arguments)
    except KeyboardInterrupt as interrupt:
        say_interrupted(f"hushdoc: interrupted {interrupt}".rstrip())
        return INTERRUPTED


def _open_standard_streams() -> None:
    """Puts the null device in the place of standard streams that were closed at the start.

    In their order, so that each gets its own descriptor, which no file of ours gets and processes
    that we start inherit.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def say_interrupted(line: str) -> None:
    """Prints one line, on a terminal in place of the progress or "^C" that stands there."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    print("\r\x1b[K" * terminal + f"{line}.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
