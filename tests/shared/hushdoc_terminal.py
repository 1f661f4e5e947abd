"""Programs on a terminal of their own, where Ctrl-C can be typed."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

LINE = "Interrupted. What is done is kept, and the same command goes on from here."
"""What a demo says after Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    printed: str

    @property
    def lines(self) -> list[str]:
        """The lines as a terminal shows them: what was written over is gone."""
        shown = self.printed.replace("\r\n", "\n").split("\n")
        return [line.rsplit("\r", 1)[-1].replace("\x1b[K", "") for line in shown]


def on_terminal(
    *command: str | Path, cwd: Path, until: str | None = None, limit: float = 280
) -> Ended:
    """Runs a command on a terminal of its own; types Ctrl-C once it has printed a text."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "200"}
    process = subprocess.Popen(
        list(map(str, command)), cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment, start_new_session=True, preexec_fn=_take_terminal,
    )  # fmt: skip
    os.close(theirs)
    printed, end = b"", time.monotonic() + limit
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 1)[0]:
                try:
                    printed += os.read(ours, 65536)
                except OSError:  # the terminal has no reader and no writer any more
                    break
            if until is not None and re.search(until.encode(), printed):
                os.write(ours, b"\x03")
                until = None
        return Ended(code=process.wait(30), printed=printed.decode())
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _take_terminal() -> None:
    """Makes standard input the terminal whose Ctrl-C reaches this process."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def require_stopped(ended: Ended) -> None:
    """Requires one line after Ctrl-C, and exit code 130."""
    assert ended.code == 130, ended.printed[-2000:]
    assert ended.lines[-2:] == [LINE, ""], ended.printed[-2000:]
    assert "Traceback" not in ended.printed
