"""The verb `embed`: documents as vectors, by a verified artifact."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from hushdoc.commands import answering
from hushdoc.commands.extraction import read_document, reading_options
from hushdoc.commands.passwords import password_from
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.errors import HushdocError

if TYPE_CHECKING:
    from hushdoc.runtime.embedding import EmbeddingModel
    from hushdoc.runtime.vectors import Embedding


def register(verbs: Any) -> None:
    """Adds `hushdoc embed`; numpy and onnxruntime are imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "embed",
        help="turn documents into vectors with a verified artifact",
        description="Checks an artifact against a policy, then prints the vectors of documents, "
        "one JSON object a line. A document that can't be read is reported and the others are "
        "still answered (exit code 7).",
    )
    answering.model_options(parser)
    parser.add_argument(
        "documents",
        nargs="+",
        metavar="DOCUMENT",
        help="PDF, image, text, or JSON written by Document.to_dict(); or - for standard input",
    )
    parser.add_argument(
        "--level",
        choices=("page", "document"),
        default="page",
        help="what gets a vector (default: page)",
    )
    reading_options(parser)
    policy_options(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="one indented JSON object, or a list for several documents",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Embeds every document named and returns the exit code."""
    if options.documents.count("-") > 1:
        options.refuse_usage("standard input can be read once; give - once")
    policy = policy_from(options)
    password = password_from(options)
    from hushdoc.runtime.embedding import EmbeddingModel

    model = EmbeddingModel.load(
        options.artifact,
        policy=policy,
        device=options.device,
        runtime=answering.runtime_from(options),
    )
    failed: list[HushdocError] = []
    answers = answering.each(
        options.documents, partial(_answer, model, options, password), failed, verb="embed"
    )
    if options.json:
        answering.write_json(answers, single=len(options.documents) == 1)
    else:
        answering.write_jsonl(answers)
    return answering.exit_code(failed, len(options.documents))


def _answer(
    model: EmbeddingModel, options: argparse.Namespace, password: str | None, source: str
) -> Embedding:
    document = read_document(source, format=options.format, ocr=options.ocr, password=password)
    return model.embed(document, level=options.level)
