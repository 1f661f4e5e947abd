"""The subcommands that training adds to the command line: `train` and `ledger`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hushdoc_training.commands import ledger, train

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands


def register(subcommands: Subcommands) -> None:
    """Adds the subcommands; torch and numpy are imported only when one runs."""
    train.register(subcommands)
    ledger.register(subcommands)
