"""FUNSD (Jaume et al. 2019) and XFUND (Xu et al. 2022), read from the original files.

FUNSD: `annotations/<id>.json` beside `images/<id>.png`. XFUND: one `<language>.<split>.json` with
a list of documents. Both list entities with words, boxes, labels and links; words keep the order
of the annotation, each entity is one segment, and the label "other" becomes no field, as in the
LayoutLM papers. A link from a question to an answer becomes a question about the document.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hushdoc.arguments import failure_of, reading_as, short_repr
from hushdoc.document.document import Document
from hushdoc.document.page import Box, Page, Word
from hushdoc.errors import AnnotationError, BoxError, EmptyDocumentError
from hushdoc.labels import LabelledDocument, LabelSet, Question, Span

LABELS = LabelSet(fields=("answer", "header", "question"))
OTHER = "other"


def read(path: Path) -> Iterator[LabelledDocument]:
    """Yields the documents of a FUNSD folder or an XFUND file, sorted by name.

    A folder has `annotations/`, or holds one that does as `training_data/` or `testing_data/`.
    """
    if path.is_file():
        with reading_as("an XFUND file", str(path), error=AnnotationError):
            found = list(_read_xfund(path))
        yield from found
        return
    for folder in (path, path / "training_data", path / "testing_data"):
        if (folder / "annotations").is_dir():
            break
    else:
        raise AnnotationError(
            f"'{path}' has no folder 'annotations', so it is not a FUNSD data set. Give the folder "
            "that holds annotations/ and images/, or an XFUND .json file."
        )
    names = sorted((folder / "annotations").glob("*.json"))
    if not names:
        raise AnnotationError(
            f"'{folder / 'annotations'}' holds no .json file; expected one for each form. Unpack "
            "the data set again."
        )
    for name in names:
        with reading_as("an annotation of FUNSD", str(name), error=AnnotationError):
            form = _read_form(name, folder / "images" / f"{name.stem}.png")
        yield form


def _read_form(annotation: Path, image: Path) -> LabelledDocument:
    form = _json(annotation)
    if not isinstance(form, dict) or not isinstance(form.get("form"), list):
        raise AnnotationError(
            f"'{annotation}' has no list 'form'; expected FUNSD's "
            '{"form": [{"box", "text", "label", "words", "linking", "id"}]}. '
            "Restore the file from the data set."
        )
    width, height = _image_size(image, annotation)
    return _document(annotation.stem, form["form"], width, height, image, str(annotation))


def _read_xfund(path: Path) -> Iterator[LabelledDocument]:
    data = _json(path)
    if not isinstance(data, dict) or not isinstance(data.get("documents"), list):
        raise AnnotationError(
            f"'{path}' has no list 'documents'; expected an XFUND file such as de.train.json. "
            "For FUNSD give the folder that holds annotations/."
        )
    for number, entry in enumerate(data["documents"]):
        where = f"{path}, document {number}"
        try:
            name = str(entry["id"])
            width, height = int(entry["img"]["width"]), int(entry["img"]["height"])
            items = list(entry["document"])
            image = path.parent / str(entry["img"].get("fname", f"{name}.jpg"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise AnnotationError(
                f"'{where}' lacks id, img or document ({failure_of(error)}). Restore "
                "the file from the data set."
            ) from error
        yield _document(name, items, width, height, image if image.is_file() else None, where)


def _document(
    name: str, items: list[Any], width: int, height: int, image: Path | None, where: str
) -> LabelledDocument:
    words: list[Word] = []
    spans: list[Span] = []
    ranges: dict[int, tuple[str, int, int]] = {}
    links: list[tuple[int, int]] = []
    for number, item in enumerate(items):
        place = f"{where}, entity {number}"
        label, found, identity = _entity(item, place)
        start = len(words)
        for index, entry in enumerate(found):
            word = _word(entry, number, width, height, f"{place}, word {index}")
            if word is not None:
                words.append(word)
        if len(words) == start:
            continue  # FUNSD marks some blank areas: an entity without any text
        if label != OTHER:
            spans.append(Span(page=0, start=start, stop=len(words), label=label))
        ranges[identity] = (label, start, len(words))
        links.extend(_links(item, place))
    if not words:
        raise EmptyDocumentError(
            f"'{where}' has no word; at least one is needed. Remove the form from the data set or "
            "restore its annotation."
        )
    page = Page(width=width, height=height, words=tuple(words), image=image)
    document = Document(id=name, pages=(page,))
    document.check()
    return LabelledDocument(
        document=document,
        spans=tuple(spans),
        questions=_questions(words, ranges, links),
        document_type="form",
    )


def _entity(item: Any, place: str) -> tuple[str, list[Any], int]:
    if not isinstance(item, Mapping):
        raise AnnotationError(f"'{place}' is {type(item).__name__}, expected an object.")
    label = item.get("label")
    if label not in (*LABELS.fields, OTHER):
        raise AnnotationError(
            f"'{place}' has the label {short_repr(label)}; expected one of "
            f"{', '.join((*LABELS.fields, OTHER))}. Correct the annotation."
        )
    words = item.get("words")
    if not isinstance(words, list):
        raise AnnotationError(
            f"'{place}' has no list 'words'; expected [{{'text', 'box'}}]. Correct the annotation."
        )
    identity = item.get("id", -1)
    return str(label), words, identity if isinstance(identity, int) else -1


def _word(entry: Any, segment: int, width: int, height: int, place: str) -> Word | None:
    try:
        text = entry["text"]
        x0, y0, x1, y1 = (float(value) for value in entry["box"])
    except (KeyError, TypeError, ValueError) as error:
        raise AnnotationError(
            f"'{place}' is malformed ({failure_of(error)}); expected "
            "{'text', 'box': [x0, y0, x1, y1]}. Correct the annotation."
        ) from error
    if not isinstance(text, str):
        raise AnnotationError(f"'{place}' has a text that is {type(text).__name__}, not a string.")
    box = Box(x0=x0, y0=y0, x1=x1, y1=y1)
    problem = box.problem(width=width, height=height)
    if problem is not None:
        raise BoxError(
            f"The box {short_repr(entry['box'])} of '{place}' {problem}. Expected "
            "0 <= x0 <= x1 <= width and 0 <= y0 <= y1 <= height in pixels; correct the annotation."
        )
    return Word(text=text.strip(), box=box, segment=segment) if text.strip() else None


def _links(item: Mapping[str, Any], place: str) -> list[tuple[int, int]]:
    links = item.get("linking", [])
    if not isinstance(links, list) or any(
        not isinstance(pair, list) or len(pair) != 2 or any(type(end) is not int for end in pair)
        for pair in links
    ):
        raise AnnotationError(
            f"'{place}' has malformed links {short_repr(links)}; expected [[from, to], ...] "
            "with entity ids. Correct the annotation."
        )
    return [(pair[0], pair[1]) for pair in links]


def _questions(
    words: list[Word], ranges: Mapping[int, tuple[str, int, int]], links: list[tuple[int, int]]
) -> tuple[Question, ...]:
    answers: dict[int, list[int]] = {}
    for source, target in dict.fromkeys(links):
        pair = (ranges.get(source), ranges.get(target))
        if pair[0] and pair[1] and (pair[0][0], pair[1][0]) == ("question", "answer"):
            answers.setdefault(source, []).append(target)
    questions = []
    for source, targets in answers.items():
        _, start, stop = ranges[source]
        key = " ".join(word.text for word in words[start:stop]).rstrip(" :")
        parts = [ranges[target] for target in targets]
        questions.append(
            Question(
                text=f"What is the {key}?",
                answers=tuple(" ".join(w.text for w in words[a:b]) for _, a, b in parts),
                word_ids=tuple(index for _, a, b in parts for index in range(a, b)),
            )
        )
    return tuple(questions)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise AnnotationError(f"The annotation '{path}' is missing. Restore the file.") from error
    except (OSError, ValueError) as error:
        raise AnnotationError(
            f"The annotation '{path}' can't be read: {error}. Expected UTF-8 JSON; restore it."
        ) from error


def _image_size(image: Path, annotation: Path) -> tuple[int, int]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(image) as opened:
            width, height = opened.size
    except FileNotFoundError as error:
        raise AnnotationError(
            f"The image '{image}' of '{annotation}' is missing; boxes are in its pixels, so its "
            "size is needed. Restore the file."
        ) from error
    except (OSError, UnidentifiedImageError) as error:
        raise AnnotationError(
            f"The image '{image}' of '{annotation}' can't be read: {error}. Restore the file."
        ) from error
    if not (math.isfinite(width) and width > 0 and height > 0):
        raise AnnotationError(f"The image '{image}' has no area ({width} x {height} pixels).")
    return width, height
