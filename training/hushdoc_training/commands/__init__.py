"""The subcommands that training adds: `data`, `train`, `federated`, `ledger` and `audit`."""

from __future__ import annotations

from hushdoc.commands.parsing import Subcommands
from hushdoc_training.commands import audit, data, federated, ledger, train


def register(subcommands: Subcommands) -> None:
    """Adds the subcommands; torch and numpy are imported only when one runs."""
    data.register(subcommands)
    train.register(subcommands)
    federated.register(subcommands)
    ledger.register(subcommands)
    audit.register(subcommands)
