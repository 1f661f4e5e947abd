"""The verbs that training adds to the command line: `train` and `ledger`."""

from __future__ import annotations

import argparse

from hushdoc_training.commands.ledger import register as register_ledger
from hushdoc_training.commands.train import register as register_train


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verbs; torch and numpy are imported only when one runs."""
    register_train(verbs)
    register_ledger(verbs)
