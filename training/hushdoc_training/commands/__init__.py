"""The subcommands of training: `data`, `train`, `synthesize`, `federated`, `ledger`, `audit`."""

from __future__ import annotations

from hushdoc.commands.parsing import Subcommands
from hushdoc_training.commands import audit, data, federated, ledger, synthesize, train


def register(subcommands: Subcommands) -> None:
    """Adds the subcommands; torch and numpy are imported only when one runs."""
    data.register(subcommands)
    train.register(subcommands)
    synthesize.register(subcommands)
    federated.register(subcommands)
    ledger.register(subcommands)
    audit.register(subcommands)
