"""The subcommand `extract`: finds the fields of documents with a verified artifact."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.commands import answering, batches
from hushdoc.commands.answering import shown
from hushdoc.commands.outcomes import PARTIAL, Task
from hushdoc.system import atomic_files, terminals

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.document import Document
    from hushdoc.runtime.extraction import Extraction, Failure, Field
    from hushdoc.runtime.hashed.model import HashedCRFModel
    from hushdoc.runtime.kie import KIEModel

    Model = KIEModel | HashedCRFModel

VIEWS = {
    "overlay": (".png", "draw the fields on a page of one document"),
    "html": (".html", "show one document beside its fields"),
    "markdown": (".md", "write the fields and text of one document as Markdown"),
    "hocr": (".hocr", "write the words and fields of one document"),
}
"""The option of each view, with the ending of its files and what it does."""

WITHOUT_NOTE = ("csv", "hocr", "overlay")
"""The formats that have scores and no place for what they mean."""

BESIDE = Path()
"""The name of a view's file that --out names."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc extract`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "extract",
        help="find the fields of documents with a verified artifact",
        description="Checks an artifact against a policy, then finds the fields of documents. A "
        "document that can't be read is reported and the others are still answered (exit code 7).",
    )
    answering.document_options(parser)
    output = answering.output_options(parser, "jsonl", "csv")
    answering.out_option(output)
    output.add_argument(
        "--spreadsheet",
        action="store_true",
        help="with --csv: put an apostrophe before what a spreadsheet would run as a formula",
    )
    for name, (ending, text) in VIEWS.items():
        output.add_argument(
            f"--{name}",
            type=Path,
            nargs="?",
            const=BESIDE,
            metavar=f"OUT{ending}",
            help=f"{text}; with --out without a name, for each document",
        )
    output.add_argument(
        "--page", type=int, metavar="N", help="page that --overlay draws, from 0 (default: 0)"
    )
    parser.mark_expert("--spreadsheet", "--page", "--hocr")
    parser.mark_output(*(f"--{name}" for name in VIEWS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Extracts the fields of every document named and returns the exit code."""
    _check_usage(options)
    endings = _endings(options)
    sources = batches.prepared(options, endings.values())
    single = batches.is_single(sources)
    views = [name for name in VIEWS if getattr(options, name) is not None]
    if options.out is None and views and not single:
        options.refuse_usage(f"--{views[0]} shows one document; give exactly one, or --out DIR")
    reading = answering.reading(options, single=single)
    model = answering.load(options, "KIEModel", "HashedCRFModel")
    task = Task(
        model=model,
        read=partial(answering.read_document, options=options, settings=reading),
        ask=partial(_answer, model, options),
        write=partial(_write, options=options, model=model, single=single),
        store=partial(_store, model, options),
        settings=batches.settings(options, *endings, "spreadsheet", "page"),
    )
    code = batches.answer_each(options, sources, task)
    answered = code in (0, PARTIAL)
    if answered and any(map(vars(options).get, WITHOUT_NOTE)) and not _prints_table(options):
        answering.print_scoring(model, sys.stderr)
    return code


def _prints_table(options: argparse.Namespace) -> bool:
    """Returns whether answers are printed for people, with what their scores mean."""
    return options.out is None and not (options.json or options.jsonl or options.csv)


def _check_usage(options: argparse.Namespace) -> None:
    for name in VIEWS:
        path = getattr(options, name)
        if path == BESIDE and options.out is None:
            options.refuse_usage(f"--{name} needs the name of a file, or --out DIR")
        if path not in (None, BESIDE) and options.out is not None:
            options.refuse_usage(f"--{name} takes no name beside --out, which names every result")
    if options.page is not None and options.overlay is None:
        options.refuse_usage("--page selects the page of --overlay; give --overlay too")
    if options.spreadsheet and not options.csv:
        options.refuse_usage("--spreadsheet changes what --csv writes; give --csv too")


def _endings(options: argparse.Namespace) -> dict[str, str]:
    """Returns the options that ask for files of a result, each with the ending of its file."""
    endings = {"json": ".json", "csv": ".csv", **{name: VIEWS[name][0] for name in VIEWS}}
    chosen = {name: end for name, end in endings.items() if getattr(options, name)}
    return chosen or {"json": ".json"}


def _answer(model: Model, options: argparse.Namespace, document: Document) -> Extraction:
    """Returns the fields of a document; without --out also writes the views asked for."""
    answer = answering.with_note_on_ocr(model.extract(document), document)
    for name in VIEWS if options.out is None else ():
        if getattr(options, name) is not None:
            content = _content(name, document, answer, model, options)
            atomic_files.write_file(getattr(options, name), content)
    return answer


def _store(
    model: Model, options: argparse.Namespace, target: Path, document: Document, answer: Extraction
) -> list[Path]:
    """Writes the result of one document in every format asked for."""
    contents = {
        ending: _content(name, document, answer, model, options)
        for name, ending in _endings(options).items()
    }
    return batches.write_files(target, contents)


def _content(
    name: str, document: Document, answer: Extraction, model: Model, options: argparse.Namespace
) -> bytes:
    """Returns an answer in the format that an option asks for."""
    if name == "json":
        return f"{answering.as_json(answer)}\n".encode()
    if name == "csv":
        return answer.to_csv(spreadsheet=options.spreadsheet).encode()
    if name == "overlay":
        labels = model.labels.fields
        return answering.drawn(document, answer.fields, page=options.page or 0, labels=labels)
    if name == "hocr":
        from hushdoc.viewing.hocr import to_hocr

        return to_hocr(document, answer.fields).encode()
    if name == "markdown":
        from hushdoc.viewing.markdown import to_markdown

        return to_markdown(document, answer).encode()
    from hushdoc.viewing.html import to_html

    return to_html(document, answer, labels=model.labels.fields).encode()


def _write(
    answers: Iterator[Extraction | Failure],
    options: argparse.Namespace,
    model: Model,
    *,
    single: bool,
) -> None:
    """Prints answers in the format asked for; all but --json print each as soon as it is known."""
    if options.json:
        answering.write_json(answers, single=single)
    elif options.jsonl:
        answering.write_jsonl(answers)
    elif options.csv:
        _write_csv(answers, options)
    else:
        answered = False
        for answer in answers:
            text = _table(answer)
            if text:
                print(text, flush=True)
                answered = True
        if answered:
            answering.print_scoring(model)


def _write_csv(answers: Iterator[Extraction | Failure], options: argparse.Namespace) -> None:
    from hushdoc.runtime.extraction import COLUMNS, Extraction

    stream = terminals.for_data(sys.stdout)
    print(",".join(COLUMNS), file=stream)
    for answer in answers:
        if isinstance(answer, Extraction):
            text = answer.to_csv(header=False, spreadsheet=options.spreadsheet)
            print(text, end="", file=stream, flush=True)
            for warning in answer.warnings:
                answering.report(
                    options, f"{shown(answer.document_id)}: {shown(warning, limit=2000)}"
                )


def _table(answer: Extraction | Failure) -> str:
    """Returns an answer for people; what a document says can't steer the terminal."""
    from hushdoc.runtime.extraction import Extraction

    if not isinstance(answer, Extraction):
        return ""
    rows = [
        (shown(found.label), f"{found.score:.2f}", _place(found), shown(found.text))
        for found in answer.fields
    ]
    plain = any(found.box is None for found in answer.fields)
    head = ("field", "score", "characters" if plain else "page", "text")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(3)]
    lines = [
        f"{shown(answer.document_id)}: {len(rows)} field{'s' * (len(rows) != 1)}, "
        f"{answer.coverage:.0%} of the words read, {answer.timings.total_seconds:.2f} s"
    ]
    for label, score, page, text in [head, *rows] if rows else []:
        lines.append(
            f"  {label:<{widths[0]}}  {score:>{widths[1]}}  {page:>{widths[2]}}  {text}".rstrip()
        )
    notes = list(answer.warnings)
    if answer.below_threshold:
        notes.append(
            f"{len(answer.below_threshold)} more found below the threshold; --json has them."
        )
    return "\n".join([*lines, *(f"  note: {shown(warning, limit=2000)}" for warning in notes)])


def _place(found: Field) -> str:
    """Returns the page of a field, or its characters in a plain text."""
    return str(found.page) if found.box is not None else f"{found.start}-{found.stop}"
