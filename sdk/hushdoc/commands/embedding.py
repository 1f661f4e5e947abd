"""The subcommand `embed`: documents as vectors, by a verified artifact."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from hushdoc.commands import answering
from hushdoc.commands.passwords import password_from

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
    answering.document_options(parser, several=True)
    output = answering.output_options(parser)
    output.add_argument(
        "--level",
        choices=("page", "document"),
        default="page",
        help="whether each page gets a vector or each document (default: page)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Embeds every document named and returns the exit code."""
    answering.check_documents(options)
    password = password_from(options)
    model: EmbeddingModel = answering.load(options, "EmbeddingModel")

    def answer(source: str) -> Embedding:
        document = answering.read_document(source, options, password)
        return model.embed(document, level=options.level)

    return answering.answer_each(options, answer, partial(_write, options=options))


def _write(answers: Iterator[Embedding | Failure], options: argparse.Namespace) -> None:
    if options.json:
        answering.write_json(answers, options)
    else:
        answering.write_jsonl(answers)
