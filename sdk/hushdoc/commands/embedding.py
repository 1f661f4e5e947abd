"""The subcommand `embed`: documents as vectors, by a verified artifact."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from hushdoc.commands import answering, batches
from hushdoc.commands.outcomes import Task

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.runtime.embedding import EmbeddingModel
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.vectors import Embedding


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc embed`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "embed",
        help="turn documents into vectors with a verified artifact",
        description="Checks an artifact against a policy, then prints the vectors of documents, "
        "one JSON object a line. A document that can't be read is reported and the others are "
        "still answered (exit code 7).",
    )
    answering.document_options(parser)
    output = answering.output_options(parser, "jsonl")
    answering.out_option(output)
    output.add_argument(
        "--level",
        choices=("page", "document"),
        default="page",
        help="whether each page gets a vector or each document (default: page)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Embeds every document named and returns the exit code."""
    sources = batches.prepared(options, (".json",))
    single = batches.is_single(sources)
    reading = answering.reading(options, single=single)
    model: EmbeddingModel = answering.load(options, "EmbeddingModel")
    task = Task(
        model=model,
        read=partial(answering.read_document, options=options, settings=reading),
        ask=partial(model.embed, level=options.level),
        write=partial(_write, options=options, single=single),
        store=batches.store_json,
        settings=batches.settings(options, "level"),
    )
    return batches.answer_each(options, sources, task)


def _write(
    answers: Iterator[Embedding | Failure], options: argparse.Namespace, *, single: bool
) -> None:
    if options.json:
        answering.write_json(answers, single=single)
    else:
        answering.write_jsonl(answers)
