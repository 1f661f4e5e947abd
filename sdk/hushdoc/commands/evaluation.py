"""The subcommand `evaluate`: scores of a verified artifact on labelled documents."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted
from hushdoc.commands import answering
from hushdoc.commands.answering import shown
from hushdoc.commands.outcomes import FAILURES_SHOWN, PARTIAL
from hushdoc.commands.policy_options import policy_options
from hushdoc.system import atomic_files
from hushdoc.system.progress import reported

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.document import Document
    from hushdoc.evaluation import DocumentResult, Entity, Evaluation
    from hushdoc.labels import LabelledDocument
    from hushdoc.metrics import Score
    from hushdoc.runtime.extraction import Extraction, Failure
    from hushdoc.runtime.hashed.model import HashedCRFModel
    from hushdoc.runtime.kie import KIEModel

    Model = KIEModel | HashedCRFModel

WORST = 5
"""Documents with most mistakes that are listed by default."""

MISTAKES_SHOWN = 6
"""Mistakes of one document that are printed; a web page shows all."""


@dataclass(kw_only=True)
class _Failed:
    """Documents that could not be answered; their fields count as missed."""

    count: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    exit_code: int = 0

    def add(self, options: argparse.Namespace, failure: Failure) -> None:
        """Counts one and reports the first few."""
        self.count += 1
        self.codes[failure.error.code] += 1
        self.exit_code = self.exit_code or failure.error.exit_code
        if self.count <= FAILURES_SHOWN:
            where = shown(failure.document_id)
            message = shown(str(failure.error), limit=2000)
            answering.report(options, f"{failure.error.code}: {where}: {message}")


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc evaluate`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "evaluate",
        help="score a verified artifact on labelled documents",
        description="Checks an artifact against a policy, finds the fields of labelled documents, "
        "and prints precision, recall and F1 by label: at the very words, and by value. The "
        "numbers are exact and about these documents: no guarantee covers them.",
    )
    answering.model_options(parser)
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="file of labelled documents, which `hushdoc data convert` writes of any corpus",
    )
    parser.add_argument(
        "--worst",
        type=int,
        default=WORST,
        metavar="N",
        help=f"documents with most mistakes that are listed (default: {WORST})",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="OUT.html",
        help="write the scores and those documents as a web page, with what is missed and wrong on "
        "their pages",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--workers",
        type=answering.positive,
        default=1,
        metavar="N",
        help="how many documents are answered at the same time (default: 1)",
    )
    parser.mark_expert("--workers")
    parser.mark_output("--html")
    policy_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Scores an artifact and returns the exit code."""
    if options.worst < 0:
        options.refuse_usage("--worst must be at least 0")
    if options.html is not None:
        from hushdoc.viewing import rendition

        rendition.require_pillow()
    count = sum(1 for _ in _read(options))  # so that all can be read
    model: Model = answering.load(options, "KIEModel", "HashedCRFModel")
    evaluation, failed, unsure = _evaluated(options, model, count)
    if options.html is not None:
        from hushdoc.viewing.mistakes import to_html

        title = f"{model.certificate.model} on {options.file.name}"
        atomic_files.write_file(options.html, to_html(evaluation, title=title).encode())
    if options.json:
        _print_json(evaluation, failed, unsure)
    else:
        _print(options, model, evaluation, failed, unsure)
    if not failed.count:
        return 0
    return PARTIAL if failed.count < count else failed.exit_code


def _read(options: argparse.Namespace) -> Iterator[LabelledDocument]:
    from hushdoc import labelled_files

    return labelled_files.read(options.file)


def _evaluated(
    options: argparse.Namespace, model: Model, count: int
) -> tuple[Evaluation, _Failed, int]:
    """Returns the scores, what failed, and how many fields were below the model's threshold."""
    from hushdoc.evaluation import Evaluation
    from hushdoc.runtime.extraction import Failure
    from hushdoc.runtime.streaming import answers

    evaluation, failed, unsure = Evaluation(model.labels.fields, keep=options.worst), _Failed(), 0
    waiting: deque[LabelledDocument] = deque()

    def taken() -> Iterator[Document]:
        for labelled in _read(options):
            waiting.append(labelled)
            yield labelled.document

    with ExitStack() as stack:
        progress = stack.enter_context(reported(count, sys.stderr))
        found: Any = answers(taken(), model.extract, workers=options.workers, on_error="collect")
        for answer in stack.enter_context(closing(found)):
            if isinstance(answer, Failure):
                failed.add(options, answer)
            else:
                unsure += len(answer.below_threshold)
            evaluation.add(waiting.popleft(), _entities(answer))
            progress.count(failed=isinstance(answer, Failure))
    return evaluation, failed, unsure


def _entities(answer: Extraction | Failure) -> list[Entity]:
    from hushdoc.evaluation import Entity
    from hushdoc.runtime.extraction import Extraction

    if not isinstance(answer, Extraction):
        return []
    return [
        Entity(
            label=found.label,
            page=found.page,
            words=frozenset(found.word_ids),
            text=found.text,
            score=found.score,
        )
        for found in answer.fields
    ]


def _print_json(evaluation: Evaluation, failed: _Failed, unsure: int) -> None:
    answer = {
        **evaluation.to_dict(),
        "failed": dict(sorted(failed.codes.items())),
        "below_threshold": unsure,
        "worst": [_worst(result) for result in evaluation.worst],
    }
    print(json.dumps(answer, indent=2, ensure_ascii=True))


def _worst(result: DocumentResult) -> dict[str, Any]:
    def listed(items: Sequence[Entity]) -> list[dict[str, Any]]:
        return [
            {
                "label": item.label,
                "page": item.page,
                "word_ids": sorted(item.words),
                "text": item.text,
            }
            for item in items
        ]

    return {
        "document_id": result.document.id,
        "right": len(result.right),
        "missed": listed(result.missed),
        "wrong": listed(result.wrong),
    }


def _print(
    options: argparse.Namespace,
    model: Model,
    evaluation: Evaluation,
    failed: _Failed,
    unsure: int,
) -> None:
    from hushdoc.evaluation import NOTE

    print("\n".join(score_lines(evaluation)))
    if unsure:
        print(f"{unsure} more fields are below the model's threshold and don't count as found.")
    if failed.count:
        codes = ", ".join(f"{count} {code}" for code, count in sorted(failed.codes.items()))
        print(
            f"{counted(failed.count, 'document')} failed ({codes}); all their fields count as "
            "missed."
        )
    if evaluation.worst:
        print("\nMost mistakes:")
        for result in evaluation.worst:
            print("\n".join(_mistakes(result)))
    if options.html is not None:
        print(f"\nPages of these documents: {options.html}")
    print()
    answering.print_scoring(model)
    print(f"note: {NOTE}")


def score_lines(evaluation: Evaluation) -> list[str]:
    """Returns scores as a table for people, with what the table leaves out."""
    from hushdoc.metrics import macro_f1

    sides = evaluation.at_words, evaluation.by_value
    words, values = (counts.by_label() for counts in sides)
    head = ("", "fields", *_RATIOS, "values", *_RATIOS)
    rows: list[tuple[str, ...]] = [head]
    for label in sorted(words.keys() | values.keys()):
        rows.append((shown(label, limit=40), *_row(words[label]), *_row(values[label])))
    rows.append(("all, by fields", *(cell for counts in sides for cell in _row(counts.total()))))
    means = [("", "", "", f"{macro_f1(labels):.3f}") for labels in (words, values)]
    rows.append(("all, by labels", *means[0], *means[1]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [*lines, *_remarks(evaluation)]


_RATIOS = ("precision", "recall", "F1")


def _row(score: Score) -> tuple[str, ...]:
    ratios = (score.precision, score.recall, score.f1)
    return str(score.expected), *(f"{ratio:.3f}" for ratio in ratios)


def _remarks(evaluation: Evaluation) -> Iterator[str]:
    """Yields what a table of scores does not say."""
    right = evaluation.all_right
    yield (
        f"{right['at_words']} of {evaluation.documents} documents have no mistake at the words, "
        f"{right['by_value']} none by value."
    )
    if evaluation.left_out:
        names = ", ".join(
            f"{shown(label, limit=40)} ({count})"
            for label, count in sorted(evaluation.left_out.items())
        )
        yield f"Left out, as the model does not know these labels: {names}."
    if evaluation.absent:
        names = ", ".join(shown(label, limit=40) for label in evaluation.absent)
        yield f"Labels of the model that no document has, so that finding them is wrong: {names}."
    error = evaluation.calibration_error
    if error is not None:
        yield f"Scores and shares of right fields differ by {error:.3f} on average."


def _mistakes(result: DocumentResult) -> Iterator[str]:
    yield (
        f"  {shown(result.document.id)}: {len(result.missed)} missed, {len(result.wrong)} wrong, "
        f"{len(result.right)} right"
    )
    items = [
        *(("missed", item) for item in result.missed),
        *(("wrong", item) for item in result.wrong),
    ]
    for what, item in items[:MISTAKES_SHOWN]:
        label = shown(item.label, limit=40)
        yield f"    {what:<6}  page {item.page}  {label}: {shown(item.text, limit=80)}"
    if len(items) > MISTAKES_SHOWN:
        yield f"    ... {len(items) - MISTAKES_SHOWN} more"
