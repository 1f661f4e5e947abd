"""What `train clauses` takes on the command line, and what does not go together."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from hushdoc.errors import OutputExistsError

DP_SGD_LEARNING_RATE = 350.0
MODES = ("paper-fill", "noisy-fill", "term-dp", "dp-sgd", "none")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds every option."""
    data = parser.add_argument_group("documents")
    data.add_argument(
        "--data", required=True, help="a .jsonl, .jsonl.gz or .conll file, or invented:contract"
    )
    data.add_argument("--documents", type=int, help="how many (default: all, or 400 invented)")
    data.add_argument(
        "--label",
        action="append",
        help="what to learn; may be given several times (default: every label in the data)",
    )
    data.add_argument(
        "--held-out",
        type=float,
        default=0.0,
        help="share of the documents' groups to score on instead of training (default: 0)",
    )
    data.add_argument(
        "--sentences-are-documents",
        action="store_true",
        help="every sentence of a CoNLL file is a document of its own, as in collections of "
        "tweets; needed where no line with -DOCSTART- says where documents begin",
    )
    data.add_argument("--name", help="what the certificate calls the documents (default: --data)")
    table = parser.add_argument_group("table")
    table.add_argument("--out", type=Path, required=True, help="a new folder for the run")
    table.add_argument("--level", choices=("sentence", "token"), help="what gets a label")
    table.add_argument("--rows", type=int, default=2**21, help="of the table (default: 2097152)")
    table.add_argument(
        "--clusters", type=int, default=0, help="clusters of public word vectors (default: none)"
    )
    release = parser.add_argument_group("release")
    release.add_argument(
        "--mode",
        choices=MODES,
        default="noisy-fill",
        help="how it is released (default: noisy-fill)",
    )
    _add_filled(parser.add_argument_group("paper-fill, noisy-fill and none"))
    noisy = parser.add_argument_group("term-dp and dp-sgd")
    add_budget(noisy, steps=16, expected_records=300)
    scaled = parser.add_argument_group("noisy-fill and dp-sgd")
    scaled.add_argument(
        "--total-learning-rate",
        type=float,
        help="learning rate of a step, times the number of steps (default: 750 of noisy-fill, "
        f"{DP_SGD_LEARNING_RATE:g} of dp-sgd)",
    )
    scaled.add_argument(
        "--public",
        help="public contracts in a file, which say how rare words are (default: invented ones "
        "and, where MiniLM is installed, how rare English words are at large; of dp-sgd that "
        "needs --public-overlap none)",
    )
    add_overlap(scaled)
    scaled.add_argument(
        "--unseen-scale",
        type=float,
        help="weight of words that hardly a public contract has, beside the rarest (default: "
        "0.02 with --public, 0.1 with words at large, else 0.3)",
    )


def _add_filled(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--algorithm",
        help="batch, which learns from tokens alone, scaled by public text; or one of CRFsuite's, "
        "which also learns from pairs of tokens (default: batch for noisy-fill of sentences, else "
        "pa)",
    )
    group.add_argument(
        "--iterations",
        type=int,
        help="passes (default: 30; 24 of batch)",
    )
    group.add_argument(
        "--top-features-per-label",
        type=int,
        default=128,
        help="of batch: words that keep a weight, for each label; fewer tell less (default: 128)",
    )
    group.add_argument(
        "--c",
        type=float,
        default=1.0,
        help="of pa: how far a sentence may move weights; less keeps less of it (default: 1)",
    )
    group.add_argument(
        "--noise", type=float, help="of noisy-fill, in spreads (default: 1 for batch, else 0.5)"
    )
    group.add_argument(
        "--min-document-frequency",
        type=int,
        help="features in fewer documents are dropped (default: 10 for noisy-fill, else 1)",
    )


def add_overlap(group: argparse._ArgumentGroup) -> None:
    """Adds what is known of public documents and protected ones."""
    group.add_argument(
        "--public-overlap",
        choices=("none", "unknown", "partial", "contained"),
        default="unknown",
        help="how far public texts may hold documents that are to be protected (default: unknown)",
    )


def add_budget(group: argparse._ArgumentGroup, *, steps: int, expected_records: int) -> None:
    """Adds what a promise is made of, and how DP-SGD spends it.

    Args:
        group: Where the options stand.
        steps: Default of --steps.
        expected_records: Default of --expected-records.
    """
    group.add_argument("--epsilon", type=float, default=8.0, help="budget (default: 8)")
    group.add_argument("--delta", type=float, help="(default: the ledger's, else 1e-5)")
    group.add_argument(
        "--steps", type=int, default=steps, help=f"of dp-sgd: full batches (default: {steps})"
    )
    group.add_argument("--clipping-norm", type=float, default=1.0, help="(default: 1)")
    group.add_argument(
        "--expected-records",
        type=int,
        default=expected_records,
        help="divisor of the noised sum: about how many documents there are, set by hand "
        f"(default: {expected_records})",
    )
    group.add_argument(
        "--tuned-on",
        choices=("none", "public-data", "unaccounted"),
        default="none",
        help="on what the settings were chosen; 'none' is one run, fixed beforehand",
    )
    group.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="of dp-sgd: budget of these documents over all runs, from `hushdoc ledger init`",
    )
    group.add_argument(
        "--documents-changed",
        action="store_true",
        help="documents were added, removed or relabelled since the ledger's last run",
    )


def check(options: argparse.Namespace) -> None:
    """Refuses what no run can follow, and what does not go together.

    Raises:
        OutputExistsError: The folder holds a run.
        SystemExit: The options make no run (exit code 2).
    """
    if options.mode in ("dp-sgd", "term-dp") and options.clusters:
        options.refuse_usage(f"--clusters can't be had with --mode {options.mode}")
    if options.mode == "term-dp" and options.level == "token":
        options.refuse_usage("--mode term-dp needs sentences: a tag is seen by many rows")
    if options.iterations is not None and options.iterations < 1:
        options.refuse_usage(f"--iterations is {options.iterations}; it must be at least 1")
    scaled = options.mode == "dp-sgd" or options.algorithm == "batch"
    if (
        options.public is not None
        and not scaled
        and (options.mode != "noisy-fill" or options.algorithm is not None)
    ):
        options.refuse_usage(
            "--public scales what is learned in batches; it needs --mode dp-sgd, or --mode "
            "noisy-fill without another --algorithm than batch"
        )
    check_shared(options)


def check_shared(options: argparse.Namespace) -> None:
    """Refuses what no table can be made from, whatever it is to find.

    Raises:
        OutputExistsError: The folder holds a run.
        SystemExit: The options make no run (exit code 2).
    """
    if not 0 <= options.held_out < 1:
        options.refuse_usage(f"--held-out is {options.held_out}; it must be from 0 to below 1")
    if options.documents is not None and options.documents < 1:
        options.refuse_usage(f"--documents is {options.documents}; it must be at least 1")
    if options.ledger is None and options.documents_changed:
        options.refuse_usage("--documents-changed says something to a --ledger; none is given")
    if options.ledger is not None and options.mode != "dp-sgd":
        options.refuse_usage("--ledger counts documents; it needs --mode dp-sgd")
    if options.name is not None and not options.name.strip():
        options.refuse_usage("--name is empty; the certificate calls the documents by it")
    if options.unseen_scale is not None and not 0 < options.unseen_scale <= 1:
        options.refuse_usage(
            f"--unseen-scale is {options.unseen_scale}; it must be above 0 and at most 1"
        )
    require_positive(options, "noise", "total_learning_rate", "clipping_norm", "epsilon")
    if options.delta is not None and not 0 < options.delta < 1:
        options.refuse_usage(f"--delta is {options.delta}; it must be above 0 and below 1")
    if any((options.out / name).exists() for name in ("checkpoint", "run.json")):
        raise OutputExistsError(
            f"The folder '{options.out}' holds a run. Name a new folder with --out: a table is "
            "learned in one go, and no run of it is continued."
        )


def require_positive(options: argparse.Namespace, *names: str) -> None:
    """Refuses numbers that are given and not above 0.

    Raises:
        SystemExit: One of them is not (exit code 2).
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            flag = name.replace("_", "-")
            options.refuse_usage(f"--{flag} is {value}; it must be a number above 0")
