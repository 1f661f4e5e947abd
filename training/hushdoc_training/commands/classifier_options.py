"""What `train classifier` takes on the command line, and what does not go together."""

from __future__ import annotations

import argparse
from pathlib import Path

from hushdoc_training.commands import clause_options

MODES = ("paper-fill", "noisy-fill", "term-dp", "dp-sgd", "none")
ROWS = 2**18


def add(parser: argparse.ArgumentParser) -> None:
    """Adds every option."""
    data = parser.add_argument_group("documents")
    data.add_argument(
        "--data", required=True, help="a .jsonl or .jsonl.gz file, or invented:KIND+KIND"
    )
    data.add_argument("--documents", type=int, help="how many to invent (default: 300)")
    data.add_argument(
        "--label",
        action="append",
        help="a kind to learn; may be given several times, and documents of others are left out "
        "(default: every kind in the data)",
    )
    data.add_argument(
        "--held-out",
        type=float,
        default=0.0,
        help="share of the documents, chosen by their ids, to score on instead of training "
        "(default: 0)",
    )
    data.add_argument("--name", help="what the certificate calls the documents (default: --data)")
    table = parser.add_argument_group("table")
    table.add_argument(
        "--model", choices=("hashed",), default="hashed", help="what learns (default: hashed)"
    )
    table.add_argument("--out", type=Path, required=True, help="a new folder for the run")
    table.add_argument("--rows", type=int, help=f"of the table (default: {ROWS})")
    table.add_argument(
        "--update",
        type=Path,
        metavar="RELEASED",
        help="go on from this table, the run folder of an earlier `train classifier` of the same "
        "kinds; the certificate then speaks of both (paper-fill, noisy-fill, dp-sgd)",
    )
    release = parser.add_argument_group("release")
    release.add_argument(
        "--mode",
        choices=MODES,
        default="noisy-fill",
        help="how it is released (default: noisy-fill)",
    )
    filled = parser.add_argument_group("paper-fill, noisy-fill and none")
    filled.add_argument("--noise", type=float, help="of noisy-fill, in spreads (default: 0.5)")
    filled.add_argument(
        "--min-document-frequency",
        type=int,
        help="words in fewer documents are dropped (default: 10 for noisy-fill, else 1)",
    )
    noisy = parser.add_argument_group("term-dp and dp-sgd")
    clause_options.add_budget(noisy, steps=16, expected_records=1000)
    private = parser.add_argument_group("dp-sgd")
    private.add_argument(
        "--total-learning-rate",
        type=float,
        default=1500.0,
        help="learning rate of a step, times the number of steps (default: 1500)",
    )
    private.add_argument(
        "--public",
        help="public documents of the same kinds in a file like --data, which say how "
        "rare words are; they help a lot (default: invented contracts)",
    )
    clause_options.add_overlap(private)
    private.add_argument(
        "--unseen-scale",
        type=float,
        help="weight of words that hardly a public document has, beside the rarest "
        "(default: 0.25 with --public, else 1)",
    )


def check(options: argparse.Namespace) -> None:
    """Refuses what no run can follow, and what does not go together.

    Raises:
        OutputExistsError: The folder holds a run.
        SystemExit: The options make no run (exit code 2).
    """
    if options.documents is not None and not options.data.startswith("invented:"):
        options.refuse_usage("--documents says how many to invent; a file is read whole")
    if options.public is not None and options.mode != "dp-sgd":
        options.refuse_usage("--public scales what DP-SGD learns; it needs --mode dp-sgd")
    if options.update is not None:
        if options.mode in ("term-dp", "none"):
            options.refuse_usage(f"--update can't be had with --mode {options.mode}")
        if options.rows is not None or options.label is not None:
            options.refuse_usage("--update has the rows and kinds of the released table")
    clause_options.check_shared(options)
