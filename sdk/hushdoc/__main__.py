"""The program `hushdoc`; nothing is imported before Ctrl-C would end it with one line."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C or SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code."""
    _open_standard_streams()
    try:
        with _interrupted_by_signals():
            from hushdoc.commands import command_line

            return command_line.main(arguments)
    except KeyboardInterrupt as interrupt:
        say_interrupted(f"hushdoc: interrupted {interrupt}".rstrip())
        return INTERRUPTED


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Has SIGTERM end a command as Ctrl-C does, with nothing left in temporary folders.

    What imports torch then waits for that, which would abort; a second signal does not wait. Those
    that whoever started us ignores or handles are left as they are.
    """
    pressed = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed or not _imports_torch():
            raise KeyboardInterrupt
        pressed = True
        threading.Thread(target=again, args=(number,), daemon=True).start()

    def again(number: int) -> None:
        while _imports_torch():
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    if threading.current_thread() is not threading.main_thread() or (
        not hasattr(signal, "pthread_kill")  # Windows has none
    ):
        yield
        return
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    ours = {number: was for number, was in usual.items() if signal.getsignal(number) == was}
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, was in ours.items():
            signal.signal(number, was)


def _imports_torch() -> bool:
    """Returns whether torch is being imported."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


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
