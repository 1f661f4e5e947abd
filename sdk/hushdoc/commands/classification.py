"""The subcommand `classify`: the classes of documents, by a verified artifact."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hushdoc.commands import answering, batches
from hushdoc.commands.answering import shown
from hushdoc.commands.outcomes import Task

if TYPE_CHECKING:
    from hushdoc.commands.documents import Source
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.document import Document
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
    answering.document_options(parser)
    output = answering.output_options(parser, "jsonl")
    answering.out_option(output)
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
    if options.top_k < 1:
        options.refuse_usage("--top-k must be at least 1")
    sources = batches.prepared(options, (".json",))
    single = batches.is_single(sources)
    reading = answering.reading(options, single=single)
    model: ClassificationModel = answering.load(options, "ClassificationModel")
    task = Task(
        model=model,
        read=partial(_read, model, options, reading),
        ask=partial(model.classify, top_k=options.top_k),
        write=partial(_write, options=options, model=model, single=single),
        store=batches.store_json,
        settings=batches.settings(options, "top_k"),
    )
    return batches.answer_each(options, sources, task)


def _read(
    model: ClassificationModel,
    options: argparse.Namespace,
    reading: Mapping[str, Any],
    source: Source,
) -> Document:
    """Returns a document; images are not read where the model looks at them."""
    if model.modality == "image" and options.format in ("auto", "pdf", "image"):
        from hushdoc.runtime.images import with_image

        return with_image(source if source.content is None else source.content, **reading)
    return answering.read_document(source, options, reading)


def _write(
    answers: Iterator[Classification | Failure],
    options: argparse.Namespace,
    model: ClassificationModel,
    *,
    single: bool,
) -> None:
    if options.json:
        answering.write_json(answers, single=single)
    elif options.jsonl:
        answering.write_jsonl(answers)
    else:
        from hushdoc.runtime.label_scores import Classification

        answered = False
        for answer in answers:
            if isinstance(answer, Classification):
                _print(answer)
                answered = True
        if answered:
            answering.print_scoring(model)


def _print(answer: Classification) -> None:
    """Prints an answer for people; no text of a document can steer the terminal."""
    labels = ", ".join(f"{shown(item.label)} {item.score:.2f}" for item in answer.scores)
    unsure = " (below the threshold)" if answer.below_threshold else ""
    print(f"{shown(answer.document_id)}: {labels}{unsure}", flush=True)
    for warning in answer.warnings:
        print(f"  note: {shown(warning, limit=2000)}", flush=True)
