"""The witness: finds who knows a command, and lets it run the command and testify.

A recipe joins by one module with a `testify`, and one line in WITNESSES. What is compared is what
was seen from outside and the claim that came out, never a plan or a receipt.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from hushdoc.arguments import printable
from hushdoc.commands.command_line import build_parser
from hushdoc.errors import InputError
from hushdoc_training.witness import (
    federated_witness,
    forms_witness,
    images_witness,
    providers_witness,
    questions_witness,
    tables_witness,
    terms_witness,
    votes_witness,
)
from hushdoc_training.witness.command_runs import CommandRuns, own_options
from hushdoc_training.witness.findings import Finding, Witnessed

Testify = Callable[[argparse.Namespace, CommandRuns], list[Finding]]

OWN = (
    *("--data", "--documents", "--out", "--ledger", "--resume", "--held-out", "--test"),
    *("--test-copies", "--test-providers", "--public-test"),
    "--canaries",
    *("--partition", "--participation", "--clients-per-round", "--plan"),
)
"""Options that the witness gives itself, or that make a run one it can't compare."""

FEDERATED = "federated"
EVOLUTION, SELECTION, DIFFUSION = SYNTHESES = ("evolution", "selection", "diffusion")

WITNESSES: dict[tuple[str, str], Testify] = {
    ("kie", ""): forms_witness.testify,
    ("docvqa", ""): questions_witness.testify,
    ("images", ""): images_witness.testify,
    ("clauses", "dp-sgd"): tables_witness.clauses,
    ("classifier", "dp-sgd"): tables_witness.classifier,
    ("clauses", "term-dp"): terms_witness.clauses,
    ("classifier", "term-dp"): terms_witness.classifier,
    (FEDERATED, "feam-dp"): federated_witness.testify,
    (FEDERATED, "fedavg-dp"): federated_witness.testify,
    (FEDERATED, "fl-provider-dp"): providers_witness.providers,
    (FEDERATED, "fl-provider-dp --task docvqa"): questions_witness.providers,
    (FEDERATED, "feam-dp --task docvqa"): questions_witness.clients,
    (FEDERATED, "fedavg-dp --task docvqa"): questions_witness.clients,
    (EVOLUTION, ""): votes_witness.testify,
    (SELECTION, ""): votes_witness.selection,
    (DIFFUSION, ""): images_witness.diffusion,
}
"""Who testifies of a task of `hushdoc train` in a mode, or of parties by an algorithm."""


def witness(command: Sequence[str]) -> Witnessed:
    """Runs a training command some times on canary documents and returns what was found.

    Args:
        command: Its words without `hushdoc`, without data and folder.

    Raises:
        InputError: The command, or its configuration, gives what the witness gives, or nobody knows
            how to witness it.
        PrivacyError: The command failed, or its claim is none that can be compared.
    """
    words = tuple(command[1:] if list(command[:1]) == ["hushdoc"] else command)
    if (given := own_options(words, *OWN)) is not None:
        raise InputError(
            f"The command gives {given}; the witness trains on documents of its own, in folders of "
            "its own, without a ledger. Leave it out."
        )
    with tempfile.TemporaryDirectory(prefix="hushdoc-witness-") as scratch:
        runs = CommandRuns(command=words, folder=Path(scratch))
        options = build_parser().parse_args([*words, "--data", scratch, "--out", f"{scratch}/out"])
        if (given := _configured(options)) is not None:
            raise InputError(
                f"The configuration '{printable(options.config)}' gives {given}; the witness "
                "trains on documents of its own, in folders of its own, without a ledger. Take it "
                "out of a copy of the file."
            )
        key = (getattr(options, "task", ""), getattr(options, "mode", ""))
        if getattr(options, "action", "") == "simulate":
            asked = "" if options.task == "kie" else f" --task {options.task}"
            key = (FEDERATED, f"{options.algorithm}{asked}")
        if (method := getattr(options, "method", "")) in SYNTHESES:
            key = (method, "")
        if key not in WITNESSES:
            raise InputError(
                f"Nobody knows how to witness '{' '.join(words)}'; expected one of "
                f"{', '.join(_spelled(*known) for known in WITNESSES)}."
            )
        found = WITNESSES[key](options, runs)
    return Witnessed(command=words, runs=runs.count, findings=tuple(found))


def _configured(options: argparse.Namespace) -> str | None:
    """Returns the first of the witness's own options that a configuration sets, if there is one."""
    if getattr(options, "config", None) is None:
        return None
    values = {name: name[2:].replace("-", "_") for name in OWN if name not in ("--data", "--out")}
    return next(
        (
            name
            for name, value in values.items()
            if getattr(options, value, None) != options.parser.get_default(value)
        ),
        None,
    )


def _spelled(task: str, mode: str) -> str:
    if task == FEDERATED:
        return f"federated simulate --algorithm {mode}"
    if task in SYNTHESES:
        return f"synthesize {task}"
    return f"train {task}" + (f" --mode {mode}" if mode else "")
