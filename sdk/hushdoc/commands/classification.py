"""The verb `classify`: kinds of documents, told apart by a verified artifact."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import printable
from hushdoc.commands import answering
from hushdoc.commands.extraction import read_document, reading_options
from hushdoc.commands.passwords import password_from
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.errors import HushdocError

if TYPE_CHECKING:
    from hushdoc.runtime.classification import ClassificationModel
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.label_scores import Classification


def register(verbs: Any) -> None:
    """Adds `hushdoc classify`; numpy and onnxruntime are imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "classify",
        help="classify documents with a verified artifact",
        description="Checks an artifact against a policy, then prints the class of each document. "
        "A document that can't be read is reported, the others are still answered (exit code 7).",
    )
    answering.model_options(parser)
    parser.add_argument(
        "documents",
        nargs="+",
        metavar="DOCUMENT",
        help="PDF, image, text, or JSON written by Document.to_dict(); or - for standard input",
    )
    parser.add_argument(
        "--top-k",
        type=int,
        default=1,
        metavar="N",
        help="how many labels are shown, best first (default: 1)",
    )
    reading_options(parser)
    policy_options(parser)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", action="store_true", help="one JSON object, or a list for several documents"
    )
    forms.add_argument("--jsonl", action="store_true", help="one JSON object a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Classifies every document named and returns the exit code."""
    if options.documents.count("-") > 1:
        options.refuse_usage("standard input can be read once; give - once")
    if options.top_k < 1:
        options.refuse_usage("--top-k is at least 1")
    policy = policy_from(options)
    password = password_from(options)
    from hushdoc.runtime.classification import ClassificationModel

    model = ClassificationModel.load(
        options.artifact,
        policy=policy,
        device=options.device,
        runtime=answering.runtime_from(options),
    )
    failed: list[HushdocError] = []
    answers = answering.each(
        options.documents, partial(_answer, model, options, password), failed, verb="classify"
    )
    if options.json:
        answering.write_json(answers, single=len(options.documents) == 1)
    elif options.jsonl:
        answering.write_jsonl(answers)
    else:
        for answer in answers:
            _print(answer)
    return answering.exit_code(failed, len(options.documents))


def _answer(
    model: ClassificationModel, options: argparse.Namespace, password: str | None, source: str
) -> Classification:
    if model.modality == "image" and source != "-" and options.format in ("auto", "pdf", "image"):
        from hushdoc.runtime.images import with_image

        return model.classify(with_image(source, password=password), top_k=options.top_k)
    document = read_document(source, format=options.format, ocr=options.ocr, password=password)
    return model.classify(document, top_k=options.top_k)


def _print(answer: Classification | Failure) -> None:
    """Prints an answer for people; what a document says can't steer the terminal."""
    from hushdoc.runtime.label_scores import Classification

    if not isinstance(answer, Classification):
        return
    told = ", ".join(f"{printable(item.label, 200)} {item.score:.2f}" for item in answer.scores)
    unsure = " (below the threshold)" if answer.below_threshold else ""
    print(f"{printable(answer.document_id, 200)}: {told}{unsure}", flush=True)
    for warning in answer.warnings:
        print(f"  note: {printable(warning, 2000)}", flush=True)
