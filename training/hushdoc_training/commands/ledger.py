"""The subcommand `ledger`: the budget of a data set over all its training runs, without torch."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted, printable
from hushdoc.commands.parsing import CommandParser, Subcommands, usage_errors
from hushdoc.errors import HushdocError
from hushdoc_training.commands.training_options import PRIVATE_DOCUMENTS

if TYPE_CHECKING:
    from hushdoc.accounting.mechanism import Mechanism
    from hushdoc_training.ledger.ledger import Ledger

DESCRIPTION = """Keeps the privacy budget of one data set over all training runs, in one file.

  hushdoc ledger init forms.ledger --data forms --epsilon 8 --delta 1e-5
  hushdoc train kie --data path/to/forms --ledger forms.ledger --epsilon 3 --out runs/first
  hushdoc ledger show forms.ledger

A run reserves its steps before it starts, and does not start if all runs together would pass the
cap. Each step is charged, on the disk, before its noise is drawn, so a crash never takes a charge
back. The certificate of a run then states what all runs spend together, so that its epsilon
includes those that were tried and dropped.

Make one ledger for a data set, before anything is trained on it, and keep its newest copy. It holds
a secret salt and no documents.

An older copy that is put back has forgotten charges, and epsilon comes out too small. Nothing in
the file can show that. So note the head that `show` prints, a count and a digest of all entries,
where no copy of the ledger overwrites the note, and check it with `audit --head`; run folders note
it too, and a run whose folder knows a later head does not go on."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc ledger`; numpy is imported only when it runs."""
    parser = subcommands.add_parser(
        "ledger",
        help="keep one privacy budget over all training runs on the same documents",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    _register_init(actions)
    show = _action(actions, "show", run_show, "print what is spent, reserved and left, by run")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    audit = _action(
        actions,
        "audit",
        run_audit,
        "check the file, every charge, the cap, and run folders against it",
        "Exit code 0: all is well; 4: the file is damaged; 5: a rule is broken.",
    )
    audit.add_argument(
        "--run",
        action="append",
        type=Path,
        default=[],
        metavar="FOLDER",
        dest="folders",
        help="run folder whose charges the ledger must contain; may be given again",
    )
    audit.add_argument(
        "--head",
        action="append",
        default=[],
        metavar="HEAD",
        dest="heads",
        help="head that was noted earlier and that the ledger must contain; may be given again",
    )
    close = _action(
        actions,
        "close",
        run_close,
        "end a run for good and free the steps that it did not take",
        "For a run that was given up. What it charged stays charged. It can't be resumed.",
    )
    close.add_argument("run_id", metavar="RUN", help="its id, as `hushdoc ledger show` lists it")


def _register_init(actions: Subcommands) -> None:
    init = _action(
        actions, "init", run_init, "start the ledger of a data set; never overwrites one"
    )
    init.add_argument(
        "--data",
        default=PRIVATE_DOCUMENTS,
        metavar="NAME",
        help=f"name of the documents in certificates (default: '{PRIVATE_DOCUMENTS}')",
    )
    init.add_argument(
        "--unit",
        choices=("document", "sequence", "provider"),
        default="document",
        help="what the budget protects: documents, windows of tokens, or providers with all their "
        "documents, which keep their provider from run to run (default: document)",
    )
    init.add_argument(
        "--epsilon",
        type=float,
        required=True,
        metavar="E",
        help="cap on the epsilon of all runs together",
    )
    init.add_argument(
        "--delta",
        type=float,
        default=1e-5,
        metavar="D",
        help="delta at which epsilon is counted (default: 1e-5)",
    )


def _action(actions: Subcommands, name: str, run: Any, about: str, more: str = "") -> CommandParser:
    parser = actions.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}. {more}".strip()
    )
    parser.add_argument("ledger", type=Path, metavar="FILE", help="the ledger")
    parser.set_defaults(run=run)
    return parser


def run_init(options: argparse.Namespace) -> int:
    """Writes an empty ledger and returns 0."""
    from hushdoc_training.ledger.ledger import Ledger

    with usage_errors(options):
        ledger = Ledger.create(
            options.ledger,
            data=options.data,
            unit=options.unit,
            epsilon=options.epsilon,
            delta=options.delta,
        )
    print(
        f"{printable(options.ledger)}: all runs on '{ledger.data}' together may spend epsilon "
        f"{ledger.epsilon:g} at delta {ledger.delta:g}, per {ledger.unit}."
    )
    task = "docvqa" if ledger.unit == "provider" else "kie"
    print(f"Train with: hushdoc train {task} ... --ledger {printable(options.ledger)}")
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Prints where the budget stands and returns 0."""
    from hushdoc_training.ledger.ledger import Ledger

    ledger = Ledger.open(options.ledger)
    if options.json:
        print(json.dumps(_standing(ledger), indent=2, ensure_ascii=True, allow_nan=False))
    else:
        _print_standing(ledger)
    return 0


def run_audit(options: argparse.Namespace) -> int:
    """Prints every finding; returns 0, 4 for a damaged file, 5 for a broken rule."""
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.runs import ledger_audit

    try:
        findings = ledger_audit.audit(Ledger.open(options.ledger), options.folders, options.heads)
    except HushdocError as error:
        if error.code != "BAD_LEDGER":
            raise
        print(f"FAIL  {printable(error)}")
        return 4
    for found in findings:
        print(f"{'ok  ' if found.problem is None else 'FAIL'}  {printable(found.text)}")
    problems = {found.problem for found in findings}
    if ledger_audit.DAMAGED in problems:
        return 4
    return 5 if ledger_audit.BROKEN in problems else 0


def run_close(options: argparse.Namespace) -> int:
    """Closes a run and returns 0."""
    from hushdoc_training.ledger.ledger import Ledger

    run = Ledger.open(options.ledger).close(options.run_id, reason="closed by hand")
    print(
        f"Run {printable(run.run_id)} is closed: {counted(run.charged, 'step')} stay charged, "
        f"{run.reserved - run.charged} free again."
    )
    return 0


def _standing(ledger: Ledger) -> dict[str, Any]:
    from hushdoc.accounting import mechanism

    spent = ledger.spent()
    return {
        "data": ledger.data,
        "unit": ledger.unit,
        "adjacency": ledger.adjacency,
        "delta": ledger.delta,
        "epsilonCharged": spent.charged,
        "epsilonReserved": spent.reserved,
        "epsilonAllowed": spent.cap,
        "head": ledger.head(),
        "refutedAudits": list(ledger.refuted()),
        "runs": [
            {
                "run": run.run_id,
                "title": run.title,
                "reservedAt": run.at,
                "closed": run.closed,
                "chargedSteps": run.charged,
                "reservedSteps": run.reserved,
                "step": mechanism.to_dict(run.step),
                "privateNumbersRead": list(run.read),
            }
            for run in ledger.runs()
        ],
    }


def _print_standing(ledger: Ledger) -> None:
    runs, spent = ledger.runs(), ledger.spent()
    charged = sum(run.charged for run in runs)
    waiting = sum(run.counted - run.charged for run in runs)
    print(f"Budget of '{printable(ledger.data)}', per {ledger.unit}, at delta {ledger.delta:g}")
    print(f"  spent     epsilon {spent.charged:<8.4g} {charged} charged steps")
    print(f"  reserved  epsilon {spent.reserved:<8.4g} {waiting} more that open runs may take")
    print(f"  allowed   epsilon {spent.cap:<8.4g} all runs together")
    print(_left(ledger, runs[-1].step if runs else None))
    print(f"  head      {ledger.head()}  (note it elsewhere, for `ledger audit --head`)")
    for refuted in ledger.refuted():
        print(f"  an audit refuted what it tested, which certificates say: {printable(refuted)}")
    for run in runs:
        state = "closed" if run.closed else "open"
        steps = f"{run.charged}/{run.reserved} steps"
        print(
            f"\n{printable(run.run_id)}  {state:<6}  {steps}  {printable(run.at)}  "
            f"{printable(run.title)}"
        )
        print(f"  each step: {_step(run.step)}")
        if run.read:
            print(
                f"  somebody read its {printable(', '.join(run.read))}, un-noised: claims of this "
                "ledger are of unaccounted tuning"
            )


def _left(ledger: Ledger, step: Mechanism | None) -> str:
    if step is None:
        return "  left      everything: no run yet"
    number = ledger.room(step)
    return f"  left      room for about {number} more steps like those of the last run"


def _step(step: Mechanism) -> str:
    from hushdoc.accounting.mechanism import Gaussian, PoissonSampled

    match step:
        case PoissonSampled(sampling_rate=rate, event=Gaussian(noise_multiplier=noise)):
            return f"each record with probability {rate:g}, noise multiplier {noise:.4g}"
        case _:
            return type(step).__name__
