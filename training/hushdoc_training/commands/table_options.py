"""The options of `train clauses` and `train classifier`, which both make tables of hashed features.

What the two tasks share is declared once; a task adds its own, and says its defaults.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hushdoc.commands.parsing import CommandParser
from hushdoc.errors import OutputExistsError
from hushdoc_training.commands import configuration, synthetic_data
from hushdoc_training.commands.synthesize_diffusion import overlaps
from hushdoc_training.commands.training_options import (
    FIRST_DOCUMENTS,
    add_audit,
    add_budget,
    add_choice,
    add_labels,
    add_name,
    add_number,
    add_out,
    add_overlap,
)

MODES = ("paper-fill", "noisy-fill", "term-dp", "dp-sgd", "none")
_FITTED = ("paper-fill", "noisy-fill", "none")
_MODES_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("min-document-frequency", "algorithm", "iterations", "c"), _FITTED),
    "noise": ("noisy-fill",),
    "top-features-per-label": ("noisy-fill", "none"),
    **dict.fromkeys(("epsilon", "delta", "private-numbers", "audit"), ("term-dp", "dp-sgd")),
    "tuned-on": ("term-dp", "dp-sgd"),
    **dict.fromkeys(("steps", "expected-records", "clipping-norm"), ("dp-sgd",)),
    **dict.fromkeys(("ledger", "documents-changed", "duplicates"), ("dp-sgd",)),
}
"""The modes that use an option, of those that not every mode uses."""
_SCALED = ("public", "public-overlap", "total-learning-rate", "unseen-scale")
"""The options of public text and of batches, which clauses and classifiers have other modes for."""

DP_SGD_LEARNING_RATE = 500.0
"""Default of --total-learning-rate for clauses by DP-SGD."""

MOST = 1e6
"""The largest --noise and --total-learning-rate: no table can hold what more of them make."""

CLASSIFIER_ROWS = 2**18
"""Default of --rows for classifiers."""

CLASSIFIER_STEPS = 8
"""Default of --steps for classifiers by DP-SGD."""


def add_clauses(parser: CommandParser) -> None:
    """Adds the options of `train clauses`."""
    data = _add_data(
        parser,
        data=".jsonl, .jsonl.gz or .conll file, or invented:contract",
        documents="number of documents (default: all, or 400 invented)",
        label="label to learn; may be given again, and others count as none (default: every label "
        "in the data, which default policies refuse)",
        held_out="share of the documents' groups that is scored instead of trained on (default: 0)",
    )
    data.add_argument(
        "--sentences-are-documents",
        action="store_true",
        help="treat every sentence of a CoNLL file as a document, as in collections of tweets; "
        "required where no -DOCSTART- lines separate documents",
    )
    synthetic_data.add_option(data)
    table = _add_table(parser, rows="2097152")
    parser.set_defaults(rows=2**21)
    table.add_argument(
        "--level",
        choices=("sentence", "token"),
        help="what gets a label (default: tokens of tagged files, else sentences)",
    )
    add_number(
        table,
        "--clusters",
        "N",
        0,
        "number of clusters of public word vectors that are features too",
    )
    _add_clause_filling(parser)
    _add_budget(parser, expected_records=300)
    _add_public(
        parser,
        rate=f"750 for noisy-fill, {DP_SGD_LEARNING_RATE:g} for dp-sgd",
        public="for noisy-fill and dp-sgd: file of public contracts, by which rare words are "
        "scaled (default: invented ones and, where MiniLM is installed, frequencies of English "
        "words; for dp-sgd these need --public-overlap none)",
        unseen="0.02 with --public, 0.1 with frequencies of English words, else 0.3",
    )
    parser.mark_expert("--sentences-are-documents", "--clusters")
    parser.earlier = configuration.note_typed


def _add_clause_filling(parser: CommandParser) -> None:
    group = _add_filling(parser, noise="1 for the algorithm batch, else 0.5")
    group.add_argument(
        "--algorithm",
        metavar="NAME",
        help="batch, which learns from tokens alone, scaled by public text; or an algorithm of "
        "CRFsuite, which also learns from pairs of tokens (default: batch for noisy-fill of "
        "sentences, else pa)",
    )
    group.add_argument(
        "--iterations",
        type=int,
        metavar="N",
        help="passes over the documents (default: 24 for batch, else 30)",
    )
    add_number(
        group,
        "--top-features-per-label",
        "N",
        128,
        "for batch: number of words that keep a weight, per label; fewer reveal less",
    )
    group.add_argument(
        "--c",
        type=float,
        default=1.0,
        help="for pa: largest change of the weights by one sentence; less memorises less "
        "(default: 1)",
    )
    parser.mark_expert("--algorithm", "--iterations", "--top-features-per-label", "--c")


def add_classifier(parser: CommandParser) -> None:
    """Adds the options of `train classifier`."""
    _add_data(
        parser,
        data=".jsonl or .jsonl.gz file of texts or of labelled documents, or invented:TYPE+TYPE",
        documents="number of invented documents (default: 300)",
        label="class to learn; may be given again, and documents of other classes are left out "
        "(default: every class in the data, which default policies refuse)",
        held_out="share of the documents, by their ids, that is scored instead of trained on "
        "(default: 0)",
    )
    table = _add_table(parser, rows=str(CLASSIFIER_ROWS))
    add_choice(table, "--model", ("hashed",), "hashed", "type of model")
    table.add_argument(
        "--update",
        type=Path,
        metavar="RELEASED",
        help="for paper-fill, noisy-fill and dp-sgd: run folder of an earlier `train classifier` "
        "with the same classes, whose table is trained further; the certificate covers both",
    )
    _add_filling(parser, noise="0.5")
    _add_budget(parser, expected_records=1000, steps=CLASSIFIER_STEPS)
    _add_public(
        parser,
        rate="a quarter of --expected-records, at most 2500",
        public="for dp-sgd: file of public documents of the same classes, in the format of --data, "
        "by which rare words are scaled (default: the first private step counts how rare words "
        "are in the documents themselves)",
        unseen="0.25; it needs --public",
    )
    parser.mark_expert("--model")
    parser.earlier = configuration.note_typed


def _add_data(
    parser: CommandParser, *, data: str, documents: str, label: str, held_out: str
) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("documents")
    group.add_argument("--data", required=True, help=data)
    group.add_argument("--documents", type=int, metavar="N", help=documents)
    add_labels(group, label)
    group.add_argument("--held-out", type=float, default=0.0, metavar="SHARE", help=held_out)
    add_name(group)
    return group


def _add_table(parser: CommandParser, *, rows: str) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("table and output")
    add_out(group)
    add_choice(group, "--mode", MODES, "noisy-fill", "how the table is protected")
    group.add_argument(
        "--rows", type=int, metavar="N", help=f"number of rows of the table (default: {rows})"
    )
    parser.mark_expert("--rows")
    return group


def _add_filling(parser: CommandParser, *, noise: str) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("modes paper-fill, noisy-fill and none")
    group.add_argument(
        "--noise",
        type=float,
        metavar="SIGMA",
        help="for noisy-fill: standard deviation of the noise, relative to that of the weights "
        f"(default: {noise})",
    )
    group.add_argument(
        "--min-document-frequency",
        type=int,
        metavar="N",
        help="features of fewer documents are dropped (default: 10 for noisy-fill, else 1)",
    )
    parser.mark_expert("--noise", "--min-document-frequency")
    return group


def _add_budget(parser: CommandParser, *, expected_records: int, steps: int = 16) -> None:
    group = parser.add_argument_group("modes term-dp and dp-sgd")
    add_number(group, "--epsilon", "E", 8.0, "privacy budget")
    add_budget(parser, group, steps=steps, clipping_norm=1.0, expected_records=expected_records)
    add_audit(parser, group, default=True, costs="it takes seconds")


def _add_public(parser: CommandParser, *, rate: str, public: str, unseen: str) -> None:
    group = parser.add_argument_group("public text")
    group.add_argument("--public", metavar="FILE", help=public)
    add_overlap(group)
    group.add_argument(
        "--total-learning-rate",
        type=float,
        metavar="RATE",
        help=f"learning rate of a step, times the number of steps (default: {rate})",
    )
    group.add_argument(
        "--unseen-scale",
        type=float,
        metavar="SHARE",
        help="scale of words that hardly any public document has, relative to the rarest others "
        f"(default: {unseen})",
    )
    parser.mark_expert("--total-learning-rate", "--unseen-scale")


def check_clauses(options: argparse.Namespace) -> None:
    """Refuses options of `train clauses` that contradict one another (exit code 2)."""
    if options.synthetic and options.mode not in ("paper-fill", "noisy-fill"):
        options.refuse_usage(
            f"--mode {options.mode} can't be combined with --synthetic, whose guarantee is there "
            "before: choose noisy-fill or paper-fill, which fill rows that were not learned"
        )
    if options.mode in ("dp-sgd", "term-dp") and options.clusters:
        options.refuse_usage(f"--clusters can't be combined with --mode {options.mode}")
    if options.mode == "term-dp" and options.level == "token":
        options.refuse_usage("--mode term-dp needs sentences: many rows see a tag")
    invented = options.data.startswith("invented:")
    if options.documents is not None and options.mode == "dp-sgd" and not invented:
        options.refuse_usage(FIRST_DOCUMENTS)
    if options.iterations is not None and options.iterations < 1:
        options.refuse_usage(f"--iterations is {options.iterations}; it must be at least 1")
    _check(options, dict.fromkeys(_SCALED, ("noisy-fill", "dp-sgd", "none")))
    by_default = options.mode == "noisy-fill" and options.level != "token"
    algorithm = options.algorithm or ("batch" if by_default else "pa")
    for name in (*_SCALED, "top-features-per-label"):
        if name in options.typed and options.mode != "dp-sgd" and algorithm != "batch":
            options.refuse_usage(
                f"--{name} is of what is learned in batches; it needs --mode dp-sgd, or "
                "--algorithm batch, which noisy-fill of sentences has by default"
            )


def check_classifier(options: argparse.Namespace) -> None:
    """Refuses options of `train classifier` that contradict one another (exit code 2)."""
    if options.documents is not None and not options.data.startswith("invented:"):
        options.refuse_usage("--documents is the number of invented ones; a file is read whole")
    if options.public is not None and options.mode != "dp-sgd":
        options.refuse_usage("--public scales what DP-SGD learns; it needs --mode dp-sgd")
    if options.public is None and options.unseen_scale is not None:
        options.refuse_usage("--unseen-scale is of words that public text lacks; it needs --public")
    if options.public is None and options.mode == "dp-sgd" and options.steps < 2:
        options.refuse_usage(
            f"--steps is {options.steps}; it must be at least 2: the first step counts words"
        )
    if options.update is not None:
        if options.mode in ("term-dp", "none"):
            options.refuse_usage(f"--update can't be combined with --mode {options.mode}")
        if options.rows is not None or options.label or options.schema:
            options.refuse_usage("--update keeps the rows and classes of the released table")
    _check(options, dict.fromkeys(_SCALED, ("dp-sgd",)))


def _check(options: argparse.Namespace, scaled: dict[str, tuple[str, ...]]) -> None:
    _refuse_of_other_modes(options, _MODES_OF | scaled)
    if options.documents is not None and options.documents < 1:
        options.refuse_usage(f"--documents is {options.documents}; it must be at least 1")
    if not 0 <= options.held_out < 1:
        options.refuse_usage(f"--held-out is {options.held_out}; it must be from 0 to below 1")
    private = options.mode in ("dp-sgd", "term-dp")
    if options.held_out and private and options.private_numbers == "hidden":
        options.refuse_usage(
            "--held-out shows a score on private documents, which no noise protects: say with "
            "--private-numbers shown-unused that nothing is decided by it, or shown if it is"
        )
    if options.ledger is None and options.documents_changed:
        options.refuse_usage("--documents-changed needs --ledger")
    if options.name is not None and not options.name.strip():
        options.refuse_usage("--name is empty; the certificate names the documents by it")
    if options.unseen_scale is not None and not 0 < options.unseen_scale <= 1:
        options.refuse_usage(
            f"--unseen-scale is {options.unseen_scale}; it must be above 0 and at most 1"
        )
    frequency = options.min_document_frequency
    if frequency is not None and frequency < 1:
        options.refuse_usage(f"--min-document-frequency is {frequency}; it must be at least 1")
    same = options.public is not None and overlaps(options.public, options.data)
    if same and options.public_overlap != "contained":
        options.refuse_usage(
            "--public and --data are the same documents: how rare their words are would scale the "
            "table, without any noise. Name public ones, leave --public out, or say what is so, "
            "--public-overlap contained, which default policies refuse"
        )
    _require_positive(options, "clipping_norm", "epsilon")
    _require_positive(options, "noise", "total_learning_rate", most=MOST)
    if options.delta is not None and not 0 < options.delta < 1:
        options.refuse_usage(f"--delta is {options.delta}; it must be above 0 and below 1")
    if any((options.out / name).exists() for name in ("checkpoint", "run.json")):
        raise OutputExistsError(
            f"The folder '{options.out}' holds a run. Name a new folder with --out: a table is "
            "trained in one go, and no run of it can be continued."
        )


def _refuse_of_other_modes(
    options: argparse.Namespace, modes_of: dict[str, tuple[str, ...]]
) -> None:
    """Refuses options that were typed and that the mode does not use."""
    unused = [
        f"--{name} (of {', '.join(modes)})"
        for name, modes in modes_of.items()
        if name in options.typed and options.mode not in modes
    ]
    if unused:
        default = "" if "mode" in options.typed else ", the default,"
        options.refuse_usage(
            f"--mode {options.mode}{default} does not use {' and '.join(unused)}: choose a --mode "
            "that does, or leave out what is not used"
        )


def _require_positive(
    options: argparse.Namespace, *names: str, most: float = sys.float_info.max
) -> None:
    for name in names:
        value = getattr(options, name)
        if value is not None and not 0 < value <= most:
            flag, limit = name.replace("_", "-"), "" if most > MOST else f" and at most {most:g}"
            options.refuse_usage(f"--{flag} is {value}; it must be a number above 0{limit}")
