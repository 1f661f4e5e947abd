"""Contracts of political advertisements, which broadcasters file with the FCC, with five fields.

Pages are those of VRDU's ad-buy forms (Wang et al. 2023), fields those of DeepForm (Stray and
Svetlichnaya 2020), brought together into lines of JSON. The provider is the station. A value is
labelled wherever the line says that it stands, and is the answer to a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushdoc.arguments import reading_as, short_repr
from hushdoc.document.document import Document
from hushdoc.document.limits import named_image
from hushdoc.document.page import Page, Word
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet, Question, Span
from hushdoc.reading.drafting import number
from hushdoc_training.data import annotated_pages, json_lines
from hushdoc_training.data.annotated_pages import required
from hushdoc_training.data.corpus import Corpus, Problems, recognising

QUESTIONS = {
    "advertiser": "Who is the advertiser?",
    "contract_num": "What is the contract number?",
    "flight_from": "On which date do the advertisements start?",
    "flight_to": "On which date do the advertisements end?",
    "gross_amount": "What is the gross amount?",
}

NO_PROVIDER = "document without a station"
NOWHERE = "value that stands nowhere on the pages"
TWICE = "place that two values claim, of the first one"

_NAMES = ("train.jsonl.gz", "train.jsonl")


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path is such a file, or a folder that holds one as train.jsonl."""
    head = json_lines.head(_file(path))
    return all(name in head for name in (b'"station"', b'"labels"', b'"pages"'))


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the contracts of a file or folder in its order.

    Raises:
        AnnotationError: A line is not of this format, or two documents have one id.
        EmptyDocumentError: No document has a word.
    """
    file = _file(path)
    yield from annotated_pages.some(
        (_read(entry, where, file.parent, problems) for where, entry in json_lines.read(file)), path
    )


def _file(path: Path) -> Path:
    found = [path / name for name in _NAMES if (path / name).is_file()]
    return found[0] if path.is_dir() and found else path


def _read(
    entry: Mapping[str, Any], where: str, folder: Path, problems: Problems
) -> LabelledDocument | None:
    with reading_as("a contract of advertisements", where, error=AnnotationError):
        name = annotated_pages.name(entry["id"], where=f"id in '{where}'")
        image = named_image(entry.get("image"), folder)
        read = [
            _page(page, image if place == 0 else None, f"{where}, page {place}", problems)
            for place, page in enumerate(required(entry["pages"], list, what="'pages'"))
        ]
        document = annotated_pages.document(
            name, [page for page, _ in read], where=where, problems=problems
        )
        if document is None:
            return None
        values = required(entry["labels"], dict, what="'labels'")
        marked = required(entry["spans"], dict, what="'spans'")
        taken: set[tuple[int, int]] = set()
        spans: list[Span] = []
        questions: list[Question] = []
        for field, text in QUESTIONS.items():
            if not values.get(field):
                continue
            answer = required(values[field], str, what=f"the label {field}")
            stands = [_span(field, place, read) for place in marked.get(field, [])]
            if not stands:
                problems.add(NOWHERE, f"{name}, {field}")
            questions.append(_question(text, answer, stands, document, field))
            for span in stands:
                words = {(span.page, word) for word in range(span.start, span.stop)}
                if words & taken:
                    problems.add(TWICE, f"{name}, {field}")
                else:
                    spans.append(span)
                    taken |= words
        station = entry.get("station")
        if station is None:
            problems.add(NO_PROVIDER, name)
        else:
            station = annotated_pages.name(station, where=f"station in '{where}'")
        return LabelledDocument(
            document=document,
            spans=tuple(sorted(spans)),
            questions=tuple(questions),
            provider=station,
            document_type="ad-buy",
        )


def _page(
    page: Mapping[str, Any], image: Path | None, where: str, problems: Problems
) -> tuple[Page, list[int]]:
    """Returns a page, in pixels of its image if it is there, and each word's place on it, or -1."""
    sides = [number(page[side]) for side in ("width", "height")]
    size = annotated_pages.page_size(*map(round, sides), where=where)
    if image is not None and not image.is_file():
        problems.add(annotated_pages.NO_IMAGE, where)
        image = None
    if image is not None:
        size = annotated_pages.image_size(image, of=where)
    scale = [pixels / points for pixels, points in zip(size, sides, strict=True)] * 2
    words: list[Word] = []
    places: list[int] = []
    for text, *corners in required(page["words"], list, what="'words'"):
        moved = [number(at) * factor for at, factor in zip(corners, scale, strict=True)]
        word = annotated_pages.word(
            text, moved, size=size, segment=None, where=where, problems=problems
        )
        places.append(-1 if word is None else len(words))
        words += [] if word is None else [word]
    return Page(width=size[0], height=size[1], words=tuple(words), image=image), places


def _span(field: str, place: Sequence[Any], read: Sequence[tuple[Page, list[int]]]) -> Span:
    """Returns a place [page, first word, one past the last] as a span of words that are kept."""
    page, start, stop = (required(at, int, what="a place") for at in place)
    if not (0 <= page < len(read) and 0 <= start < stop <= len(read[page][1])):
        raise AnnotationError(
            f"The value {field} stands at {short_repr(place)}, which is no run of words of the "
            "document. Restore the file from the data set."
        )
    kept = [at for at in read[page][1][start:stop] if at >= 0]
    if not kept:
        raise AnnotationError(f"No word of the value {field} is on its page. Restore the file.")
    return Span(page=page, start=kept[0], stop=kept[-1] + 1, label=field)


def _question(
    text: str, answer: str, stands: Sequence[Span], document: Document, key: str
) -> Question:
    if not stands:
        return Question(text=text, answers=(answer,), key=key)
    first = min(stands)
    words = document.pages[first.page].words[first.start : first.stop]
    shown = " ".join(word.text for word in words)
    return Question(
        text=text,
        answers=(answer,) if shown == answer else (answer, shown),
        page=first.page,
        word_ids=tuple(range(first.start, first.stop)),
        key=key,
    )


CORPUS = Corpus(
    name="adbuys",
    title="contracts of political advertisements (VRDU's pages with DeepForm's fields)",
    labels=LabelSet(fields=tuple(QUESTIONS)),
    documents={},
    expected='lines of JSON with "station", "labels", "pages" and "spans"',
    recognises=recognises,
    read=read,
)
