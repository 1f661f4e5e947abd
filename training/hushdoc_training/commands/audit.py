"""The subcommand `audit`: looks at private training from outside, and attacks its models."""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hushdoc.arguments import printable
from hushdoc.errors import MissingExtraError
from hushdoc_training.commands import docvqa_audits, synthetic_audit

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands

WITNESS = """Runs a training command some times on canary documents of the witness's own, looks at
what its optimizer is given or by how much its table moves, and compares that with the claim that
comes out: the standard deviation of the noise, who is drawn, how far one document moves a sum,
where random numbers come from, the number of steps, and that every number is finite.

  hushdoc audit witness train kie --start runs/public --steps 3 --expected-records 2
  hushdoc audit witness train clauses --mode dp-sgd --steps 3 --expected-records 30
  hushdoc audit witness --json train classifier --mode term-dp
  hushdoc audit witness federated simulate --start runs/public --clients 2 --rounds 2

The command is given without --data, --out and --ledger. Few steps show as much as many; it runs up
to seven times. Exit code 0: all agrees; 5: something differs."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc audit`; nothing heavy is imported before it runs."""
    parser = subcommands.add_parser(
        "audit",
        help="look at what private training does, from outside",
        description="Looks at what private training does, from outside.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    witness = actions.add_parser(
        "witness",
        help="run a training command on canary documents and compare it with its claim",
        description=WITNESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    witness.add_argument("--json", action="store_true", help="print one JSON object")
    witness.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="RUN-COMMAND",
        help="the training command, without `hushdoc`",
    )
    witness.set_defaults(run=run_witness, extra="crf")
    docvqa_audits.register(actions)
    synthetic_audit.register(actions)


def run_witness(options: argparse.Namespace) -> int:
    """Prints what was expected and seen; returns 0, or 5 where something differs."""
    for package in ("torch", "transformers", "opacus"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "crf")
    if not options.command:
        options.refuse_usage("a training command is missing, such as `train kie --start MODEL`")
    from hushdoc_training.witness.witness import witness

    found = witness(options.command)
    if options.json:
        print(json.dumps(found.to_dict(), ensure_ascii=True))
    else:
        for line in found.lines():
            print(printable(line))
        what = "agrees with" if found.agrees else "DIFFERS from"
        print(f"\nWhat was seen in {found.runs} runs {what} the claim.")
    return 0 if found.agrees else 5
