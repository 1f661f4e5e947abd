"""The options that the tasks of `hushdoc train` share: one declaration for each."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushdoc.commands.parsing import CommandParser


def add_name(group: argparse._ArgumentGroup) -> None:
    """Adds --name."""
    group.add_argument(
        "--name", help="name of the documents in the certificate (default: that of --data)"
    )


def add_out(group: argparse._ArgumentGroup) -> None:
    """Adds --out."""
    group.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="new folder for the run"
    )


def add_overlap(group: argparse._ArgumentGroup) -> None:
    """Adds --public-overlap."""
    group.add_argument(
        "--public-overlap",
        choices=("none", "unknown", "partial", "contained"),
        default="unknown",
        help="how far public data may contain protected documents: published weights, public "
        "documents and their words, unless they are invented (default: unknown, which a default "
        "policy refuses)",
    )


def add_budget(
    parser: CommandParser,
    group: argparse._ArgumentGroup,
    *,
    steps: int,
    clipping_norm: float,
    expected_records: int,
) -> None:
    """Adds all of a private run but --epsilon: delta, steps, clipping, divisor, ledger."""
    group.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="delta of the guarantee (default: that of the ledger, else 1e-5)",
    )
    group.add_argument(
        "--steps",
        type=int,
        default=steps,
        metavar="N",
        help=f"number of private steps (default: {steps})",
    )
    group.add_argument(
        "--expected-records",
        type=int,
        default=expected_records,
        metavar="N",
        help="divisor of the noised sum: about how many records a step has, chosen without "
        f"looking at the data (default: {expected_records})",
    )
    group.add_argument(
        "--clipping-norm",
        type=float,
        default=clipping_norm,
        metavar="C",
        help=f"norm to which the gradient of a record is clipped (default: {clipping_norm:g})",
    )
    group.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="budget of these documents over all runs, from `hushdoc ledger init`; the certificate "
        "then states what all of them spend together",
    )
    group.add_argument(
        "--documents-changed",
        action="store_true",
        help="with --ledger: documents were added, removed or relabelled since its last run; all "
        "runs count for all of them",
    )
    group.add_argument(
        "--tuned-on",
        choices=("none", "public-data", "unaccounted"),
        default="none",
        help="data on which settings were chosen; none: one run, fixed beforehand (default: none)",
    )
    parser.mark_expert("--clipping-norm", "--documents-changed", "--tuned-on")
