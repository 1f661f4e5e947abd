"""Notices: hushdoc's own warnings, printed as lines for people who run commands, and errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath
from typing import TextIO

from hushdoc.arguments import printable
from hushdoc.errors import HushdocError
from hushdoc.system import locks

_PACKAGES = frozenset({"hushdoc", "hushdoc_training", "hushdoc_export"})


@contextmanager
def as_lines() -> Iterator[None]:
    """Prints hushdoc's own warnings as one line each, none of them twice, until the block ends.

    Which warnings there are is decided as ever, by `python -W` and PYTHONWARNINGS; those of other
    packages are shown as they were.
    """
    before = warnings.showwarning
    printed: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if file is not None or not _is_ours(category, filename):
            before(message, category, filename, lineno, file, line)
            return
        text = str(message)
        if text not in printed and sys.stderr is not None:
            printed.add(text)
            line = printable(" ".join(text.split()), limit=2000)
            print(f"hushdoc: warning: {line}", file=sys.stderr, flush=True)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder as `locks.locked` does, and says so where another program has to end first."""
    with ExitStack() as held:
        try:
            held.enter_context(locks.locked(folder, wait=False))
        except BlockingIOError:
            if sys.stderr is not None:
                line = f"hushdoc: waiting for another command that changes '{printable(folder)}'"
                print(line, file=sys.stderr, flush=True)
            held.enter_context(locks.locked(folder))
        yield


def out_of_memory(what: str) -> HushdocError:
    """Returns the error in a MemoryError's place."""
    return HushdocError(
        f"{what} takes more memory than this process gets. Raise its limit (ulimit -v, a "
        "container's), take fewer --workers or --threads, or leave out what is so large.",
        code="OUT_OF_MEMORY",
    )


def _is_ours(category: type[Warning], filename: str) -> bool:
    """Returns whether a warning is of a class of ours, or is about a line of ours."""
    if category.__module__.partition(".")[0] in _PACKAGES:
        return True
    homes = (getattr(sys.modules.get(name), "__file__", None) for name in _PACKAGES)
    return issubclass(category, UserWarning) and any(
        home is not None and PurePath(filename).is_relative_to(PurePath(home).parent)
        for home in homes
    )
