"""Storage: invented documents as files, one JSON and one PNG each; one table for both ways.

The JSON holds "format", "version", "kind", "provider", "document" (as Document.to_dict writes it,
its image named without a folder), "spans" and "questions".
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushdoc.arguments import reading_as
from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, InputError
from hushdoc.labels import LabelledDocument, Question, Span, tags_from_spans
from hushdoc.system import atomic_files
from hushdoc_training.invented import drawing, planning
from hushdoc_training.invented.settings import InventedConfig

FORMAT = "hushdoc-invented-document"
VERSION = 1

_DEFAULT = InventedConfig()


def write(
    folder: Path,
    *,
    seed: int,
    count: int,
    start: int = 0,
    config: InventedConfig = _DEFAULT,
    images: bool = True,
    seen: Callable[[int, int], None] = lambda done, total: None,
) -> list[Path]:
    """Writes documents into a new folder and returns the paths of their JSON files.

    Args:
        folder: The folder to write; it must not exist or must be empty.
        seed: Names the stream.
        count: How many documents.
        start: The first one's place in the stream.
        config: What to invent.
        images: Whether to write the image of each page beside its JSON.
        seen: Is told after each document how many are written, of how many.

    Raises:
        OutputExistsError: The folder is not empty.
        OutputWriteError: The disk is full or not writable; no partial folder remains.
    """
    names: list[str] = []
    with atomic_files.new_folder(folder) as beside:
        for index in range(start, start + count):
            plan = planning.plan(seed=seed, index=index, config=config)
            labelled = planning.labelled(plan, config.labels)
            if images:
                image = f"{plan.id}.png"
                (beside / image).write_bytes(png(plan))
                labelled = _with_image(labelled, Path(image))
            names.append(f"{plan.id}.json")
            (beside / names[-1]).write_text(dumps(labelled), encoding="utf-8")
            seen(len(names), count)
    return [folder / name for name in names]


def png(plan: planning.Plan) -> bytes:
    """Returns the page's image as the bytes of a PNG file."""
    stream = io.BytesIO()
    drawing.draw(plan).save(stream, format="PNG")
    return stream.getvalue()


def dumps(document: LabelledDocument) -> str:
    """Returns the document as JSON, with one word, span or question a line."""
    data = document.document.to_dict()
    page = data["pages"][0]
    words = ",\n  ".join(_json(word) for word in page.pop("words"))
    spans = [
        {"page": span.page, "start": span.start, "stop": span.stop, "label": span.label}
        for span in document.spans
    ]
    questions = [
        {
            "text": question.text,
            "answers": list(question.answers),
            "page": question.page,
            "word_ids": list(question.word_ids),
        }
        for question in document.questions
    ]
    return (
        f'{{"format": {_json(FORMAT)}, "version": {VERSION},\n'
        f'"kind": {_json(document.document_type)}, "provider": {_json(document.provider)},\n'
        f'"document": {{"id": {_json(data["id"])}, "pages": [{{{_json(page)[1:-1]}, "words": [\n'
        f"  {words}]}}]}},\n"
        f'"spans": [\n  {_listed(spans)}],\n"questions": [\n  {_listed(questions)}]}}\n'
    )


def read(path: Path) -> LabelledDocument:
    """Returns the document that `write` wrote.

    Raises:
        AnnotationError: The file is missing or is not such a document.
    """
    try:
        with reading_as("JSON of a document", path.name, error=AnnotationError):
            return _parsed(json.loads(path.read_text(encoding="utf-8")), path.parent)
    except InputError as error:
        raise AnnotationError(
            f"'{path}' is not an invented document: {type(error).__name__}: {error} Expected a "
            f"JSON file of format '{FORMAT}', version {VERSION}; write it again with "
            "invented.write()."
        ) from error


def _parsed(data: Any, folder: Path) -> LabelledDocument:
    if data["format"] != FORMAT or data["version"] != VERSION:
        raise AnnotationError(
            f"Its format is '{data['format']}', version {data['version']}, which this reader "
            "does not know."
        )
    document = Document.from_dict(data["document"], folder=folder)
    spans = tuple(
        Span(
            page=int(span["page"]),
            start=int(span["start"]),
            stop=int(span["stop"]),
            label=str(span["label"]),
        )
        for span in data["spans"]
    )
    if any(span.page != 0 for span in spans) or len(document.pages) != 1:
        raise AnnotationError("It has more than one page, or a span on another page than its own.")
    tags_from_spans(document.num_words, spans)
    image = document.pages[0].image
    if isinstance(image, Path) and image.parent != folder:
        raise AnnotationError(f"Its image is '{image}', which does not stand in its own folder.")
    return LabelledDocument(
        document=document,
        spans=spans,
        questions=tuple(_question(question, document) for question in data["questions"]),
        provider=str(data["provider"]),
        document_type=str(data["kind"]),
    )


def _question(data: Any, document: Document) -> Question:
    word_ids = tuple(int(number) for number in data["word_ids"])
    if any(not 0 <= number < document.num_words for number in word_ids):
        raise AnnotationError(
            f"The question '{data['text']}' is answered by words {list(word_ids)} of a page with "
            f"{document.num_words} words."
        )
    return Question(
        text=str(data["text"]),
        answers=tuple(str(answer) for answer in data["answers"]),
        page=int(data["page"]),
        word_ids=word_ids,
    )


def _with_image(labelled: LabelledDocument, image: Path) -> LabelledDocument:
    page = replace(labelled.document.pages[0], image=image)
    return replace(labelled, document=replace(labelled.document, pages=(page,)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _listed(values: list[dict[str, Any]]) -> str:
    return ",\n  ".join(_json(value) for value in values)
