"""Runs of a command: quiet, on documents and in folders of the witness, under its entropy."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch

from hushdoc.commands.command_line import main
from hushdoc.errors import PrivacyError
from hushdoc_training.witness.entropy import Entropy, replaced

Spy = contextlib.AbstractContextManager[object]


@dataclass(kw_only=True)
class CommandRuns:
    """Runs one command again and again.

    Attributes:
        command: What runs, without data and folder.
        folder: Where runs and documents stand.
        count: How often it ran.
    """

    command: tuple[str, ...]
    folder: Path
    count: int = 0

    def run(self, data: Path, *, entropy: Callable[[int], bytes], spy: Spy) -> Path:
        """Runs it once and returns the run's folder; a PrivacyError where it fails."""
        self.count += 1
        out = self.folder / f"run-{self.count}"
        # An audit's twin draws too, and is not what is looked at.
        audits = self.command[0] == "train" and self.command[1] not in ("docvqa", "images")
        further = ("--no-audit",) if audits else ()
        arguments = [*self.command, *further, "--data", str(data), "--out", str(out)]
        said = io.StringIO()
        quiet = contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)
        # Two runs that differ in one record are compared to the last bit; a GPU adds in any order.
        on_cpu = mock.patch.object(torch.cuda, "is_available", return_value=False)
        with replaced(entropy), spy, on_cpu, quiet[0], quiet[1]:
            try:
                code = main(arguments)
            except SystemExit as refused:  # wrong usage, which nobody would read
                code = int(refused.code or 0)
        if code:
            raise PrivacyError(
                f"'hushdoc {' '.join(arguments)}' ended with exit code {code}, so there is nothing "
                f"to witness: {said.getvalue().strip()[-800:]}"
            )
        return out


def entropy(seed: int, *keys: bytes) -> Entropy:
    """Returns entropy whose first keys are given."""
    return Entropy(seed, dict(enumerate(keys)))


def own_options(command: Sequence[str], *options: str) -> str | None:
    """Returns the first of some options that a command gives."""
    given = {word.split("=", 1)[0] for word in command}
    return next((option for option in options if option in given), None)
