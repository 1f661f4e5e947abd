"""The subcommand `ask`: answers to questions about documents, by a verified artifact."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.commands import answering, batches
from hushdoc.commands.answering import shown
from hushdoc.commands.outcomes import Task
from hushdoc.system import atomic_files

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.document import Document
    from hushdoc.document.provenance import Source
    from hushdoc.runtime.answers import Answers
    from hushdoc.runtime.docvqa import DocVQAModel
    from hushdoc.runtime.extraction import Failure


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The answers to all questions about one document."""

    answers: tuple[Answers, ...]

    @property
    def source(self) -> Source | None:
        """Where the words came from."""
        return self.answers[0].source

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON: of a single question its answers, else a list of them."""
        found = [answer.to_dict() for answer in self.answers]
        if len(found) == 1:
            return found[0]
        return {"document_id": self.answers[0].document_id, "answers": found}


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc ask`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "ask",
        help="ask documents questions with a verified artifact",
        description="Checks an artifact against a policy, then answers questions about documents, "
        "each with its place on the page, or says that there is no answer. A document that can't "
        "be read is reported and the others are still answered (exit code 7).",
    )
    answering.document_options(parser)
    parser.add_argument(
        "-q",
        "--question",
        dest="questions",
        action="append",
        required=True,
        metavar="QUESTION",
        help="question that every document is asked; may be given again",
    )
    output = answering.output_options(parser, "jsonl")
    answering.out_option(output)
    output.add_argument(
        "--top-k",
        type=answering.positive,
        default=1,
        metavar="N",
        help="number of candidates reported for each question, best first (default: 1)",
    )
    output.add_argument(
        "--free",
        action="store_true",
        help="let a model that writes its answers write what does not stand on the page",
    )
    output.add_argument(
        "--overlay",
        type=Path,
        metavar="OUT.png",
        help="draw the answers on a page of one document",
    )
    output.add_argument(
        "--page",
        type=int,
        metavar="N",
        help="page that --overlay draws, from 0 (default: that of the first answer)",
    )
    parser.mark_expert("--page")
    parser.mark_output("--overlay")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Asks every document named and returns the exit code."""
    if options.page is not None and options.overlay is None:
        options.refuse_usage("--page selects the page of --overlay; give --overlay too")
    if options.overlay is not None and options.out is not None:
        options.refuse_usage("--overlay draws one document, and --out stores answers; give one")
    sources = batches.prepared(options, (".json",))
    single = batches.is_single(sources)
    if options.overlay is not None and not single:
        options.refuse_usage("--overlay shows one document; give exactly one")
    reading = answering.reading(options, single=single)
    model: DocVQAModel = answering.load(options, "DocVQAModel")
    if options.free and not model.writes:
        options.refuse_usage("--free applies to models that write their answers; this one points")
    for question in options.questions:  # before a document is opened, of which there may be many
        model.ask_many((), question)
    task = Task(
        model=model,
        read=partial(answering.read_document, options=options, settings=reading),
        ask=partial(_ask, model, options),
        write=partial(_write, options=options, single=single),
        store=batches.store_json,
        settings=batches.settings(options, "questions", "top_k", "free", "overlay", "page"),
    )
    return batches.answer_each(options, sources, task)


def _ask(model: DocVQAModel, options: argparse.Namespace, document: Document) -> Asked:
    """Returns the answers of a document; with --overlay they are drawn too."""
    found = model.ask_all(
        document, options.questions, top_k=options.top_k, grounded=not options.free
    )
    asked = Asked(answers=tuple(answering.with_note_on_ocr(one, document) for one in found))
    if options.overlay is not None:
        fields = [item for answer in asked.answers for item in answer.fields]
        number = options.page
        if number is None:
            number = fields[0].page if fields else 0
        image = answering.drawn(document, fields, page=number, labels=options.questions)
        atomic_files.write_file(options.overlay, image)
    return asked


def _write(
    asked: Iterator[Asked | Failure],
    options: argparse.Namespace,
    *,
    single: bool,
) -> None:
    if options.json:
        answering.write_json(asked, single=single)
    elif options.jsonl:
        answering.write_jsonl(asked)
    else:
        several, scales = options.top_k > 1, dict[str | None, None]()
        for item in asked:
            if isinstance(item, Asked):
                _print(item, several=several)
                scored = (one for one in item.answers if several or one.text is not None)
                scales |= {one.calibrated_on: None for one in scored}
        for calibrated_on in scales:
            answering.print_score_note(calibrated_on)


def _print(asked: Asked, *, several: bool) -> None:
    """Prints answers for people; no text of a document or question can steer the terminal."""
    first = asked.answers[0]
    print(
        f"{shown(first.document_id)}: {first.coverage:.0%} of the words read, "
        f"{first.timings.total_seconds:.2f} s"
    )
    for answer in asked.answers:
        print(f"  {shown(answer.question)}")
        if answer.text is None:
            print(f"    no answer (none: {answer.best.null_score:.2f})")
        for item in answer.candidates if several else (answer.best,):
            if item.text is not None:
                place = "no place" if item.page is None else f"page {item.page}"
                place += ", much the same words" if item.evidence == "matched" else ""
                print(f"    {shown(item.text)}  {item.score:.2f}  {place}")
    for warning, questions in _notes(asked.answers).items():
        named = ", ".join(f'"{shown(question)}"' for question in questions)
        about = "" if len(questions) == len(asked.answers) else f" on {named}"
        print(f"  note{about}: {shown(warning, limit=2000)}")
    print(end="", flush=True)


def _notes(answers: Iterable[Answers]) -> dict[str, list[str]]:
    """Returns each warning once, with the questions that it belongs to."""
    found: dict[str, list[str]] = {}
    for answer in answers:
        for warning in dict.fromkeys(answer.warnings):
            found.setdefault(warning, []).append(answer.question)
    return found
