"""Terminals: standard streams on which no foreign text can steer one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

Escape = Callable[[str], str]

ERASE = "\x1b[K"
"""Erases the rest of a terminal's line."""


class EscapingStream:
    """A text stream that escapes what is written to it, and is the stream behind it otherwise."""

    def __init__(self, behind: TextIO, escape: Escape) -> None:
        """Takes the stream, and what returns a text that can't steer a terminal."""
        self.behind = behind
        self._escape = escape

    def write(self, text: str) -> int:
        """Writes the escaped text."""
        return self.behind.write(self._escape(text))

    def writelines(self, lines: list[str]) -> None:
        """Writes the escaped lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Returns what the stream behind has."""
        return getattr(self.behind, name)


@contextmanager
def escaping(escape: Escape) -> Iterator[None]:
    """Escapes whatever is written to standard output and standard error until the block ends."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        stream if stream is None else cast("TextIO", EscapingStream(stream, escape))
        for stream in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def steered(stream: TextIO) -> TextIO:
    """Returns the stream on which a line of our own may be written over."""
    return stream.behind if isinstance(stream, EscapingStream) else stream


def show_briefly(text: str) -> None:
    """Shows a line on a terminal until the next takes its place; safe in a signal handler."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), f"\r{text}{ERASE}".encode())


def for_data(stream: TextIO) -> TextIO:
    """Returns the stream for what programs read; a terminal alone shows it escaped."""
    return stream if stream.isatty() else steered(stream)
