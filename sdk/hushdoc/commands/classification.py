"""The subcommand `classify`: the classes of documents, by a verified artifact."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from hushdoc.commands import answering
from hushdoc.commands.answering import shown
from hushdoc.commands.passwords import password_from

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.runtime.classification import ClassificationModel
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.label_scores import Classification


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc classify`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "classify",
        help="classify documents with a verified artifact",
        description="Checks an artifact against a policy, then classifies documents. A document "
        "that can't be read is reported and the others are still answered (exit code 7).",
    )
    answering.document_options(parser, several=True)
    output = answering.output_options(parser, "jsonl")
    output.add_argument(
        "--top-k",
        type=int,
        default=1,
        metavar="N",
        help="number of classes reported for each document, most probable first (default: 1)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Classifies every document named and returns the exit code."""
    answering.check_documents(options)
    if options.top_k < 1:
        options.refuse_usage("--top-k must be at least 1")
    password = password_from(options)
    model = answering.load(options, "ClassificationModel")
    return answering.answer_each(
        options,
        partial(_answer, model, options, password),
        partial(_write, options=options, model=model),
    )


def _answer(
    model: ClassificationModel, options: argparse.Namespace, password: str | None, source: str
) -> Classification:
    if model.modality == "image" and source != "-" and options.format in ("auto", "pdf", "image"):
        from hushdoc.runtime.images import with_image

        return model.classify(with_image(source, password=password), top_k=options.top_k)
    document = answering.read_document(source, options, password)
    return model.classify(document, top_k=options.top_k)


def _write(
    answers: Iterator[Classification | Failure],
    options: argparse.Namespace,
    model: ClassificationModel,
) -> None:
    if options.json:
        answering.write_json(answers, options)
    elif options.jsonl:
        answering.write_jsonl(answers)
    else:
        for answer in answers:
            _print(answer)
        answering.print_scoring(model)


def _print(answer: Classification | Failure) -> None:
    """Prints an answer for people; no text of a document can steer the terminal."""
    from hushdoc.runtime.label_scores import Classification

    if not isinstance(answer, Classification):
        return
    labels = ", ".join(f"{shown(item.label)} {item.score:.2f}" for item in answer.scores)
    unsure = " (below the threshold)" if answer.below_threshold else ""
    print(f"{shown(answer.document_id)}: {labels}{unsure}", flush=True)
    for warning in answer.warnings:
        print(f"  note: {shown(warning, limit=2000)}", flush=True)
