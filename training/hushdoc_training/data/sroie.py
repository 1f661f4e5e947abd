"""SROIE (Huang et al. 2019, ICDAR 2019 competition on scanned receipts): receipts with four fields.

Read from ICDAR's own folders, or from one line of JSON for each receipt. Lines of text have boxes;
the values of company, date, address and total are strings without a place, so each is looked for in
the lines, and where it stands is a decision of this reader:

- A value is compared by letters and digits, across lines. A company or address that stands there
  with other characters is taken where it differs least. That is counted, and so is a value that is
  found nowhere: its receipt stays, without that field.
- A date, company or address is labelled wherever it stands.
- A total is labelled on lines that say it is one: "total", but no subtotal and no total of tax,
  items or savings; where there is none on those that say what is due, and else where the amount
  stands last. So an article at the same price is no total, nor is the cash that was given.
- A value of any other name, in data of one's own, is labelled wherever it stands.
- A word that two values claim goes to the first of total, date, company, address and others.

The value of each field, as the competition compares it, is kept as the answer to a question, be it
found in the lines or not; the question's words are those of the first place where it stands. The
provider is the company in lower-case letters and digits.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.arguments import reading_as, short_repr
from hushdoc.document.limits import named_image
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet, Question, Span, spans_from_words
from hushdoc.system import atomic_files
from hushdoc_training.data import annotated_pages, json_lines, totals
from hushdoc_training.data.corpus import COPY, Corpus, Problems, recognising
from hushdoc_training.data.lines import Line, in_reading_order, line, words_of
from hushdoc_training.data.providers import folded
from hushdoc_training.data.values import Characters, comparable

FIELDS = ("total", "date", "company", "address")
"""In the order in which they claim words."""

MIN_OWN = 3
"""Letters and digits of a value of another field that is looked for: less stands anywhere."""

_KEYS_OF_QUESTIONS = {"company": "provider_name", "address": "provider_address"}
"""What our generator calls what these fields hold."""

_FILE = "metadata.jsonl"
_BOXES = re.compile(r"box|.*task1train.*|text\.task1.*test.*")
_KEYS = re.compile(r"key|entities|.*task2train.*|sroie_test_gt_task_3")
_IMAGES = re.compile(r"im(g|ages?)|.*task1train.*|task3.*test.*|sroie_test_images_task_3")
_COPY = re.compile(r"(.+)\(\d+\)")
_IMAGE_FILES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Folders:
    """ICDAR's three folders; in the competition's archives boxes and images share one."""

    boxes: Path
    keys: Path
    images: Path


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path is a folder of SROIE, or lines of JSON in its form."""
    file = _lines_file(path)
    if file is None:
        return _folders(path) is not None
    head = annotated_pages.head(file)
    return all(name in head for name in (b'"entities"', b'"words"', b'"bboxes"'))


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the receipts of a folder or a file, sorted by name.

    Args:
        path: A folder with box/, key/ and img/, or with the competition's folders as they are
            unpacked; a file of JSON lines, or a folder that holds it as metadata.jsonl. A folder
            that has neither, but a `train/` that does, stands for that.
        problems: Counts what was odd in files that were read all the same.

    Raises:
        AnnotationError: Files are missing or not in this format, or two receipts have one name.
        BoxError: A coordinate is not finite.
        EmptyDocumentError: No receipt has a word.
    """
    file = _lines_file(path)
    folders = _folders(path) if file is None else None
    if file is not None:
        found = _from_lines(file, problems)
    elif folders is not None:
        found = _from_folders(folders, problems)
    else:
        raise AnnotationError(
            f"'{path}' is not SROIE: expected {CORPUS.expected}. Name the folder that holds these, "
            "or unpack the data set again."
        )
    yield from annotated_pages.some(found, path)


def _lines_file(path: Path) -> Path | None:
    files = [path] if path.is_file() else [path / _FILE, path / "train" / _FILE]
    return next((file for file in files if file.is_file()), None)


def _folders(path: Path) -> _Folders | None:
    for place in (path, path / "train"):
        boxes, keys, images = (_folder(place, name) for name in (_BOXES, _KEYS, _IMAGES))
        if boxes and keys and images:
            return _Folders(boxes=boxes, keys=keys, images=images)
    return None


def _folder(place: Path, name: re.Pattern[str]) -> Path | None:
    """Returns the first folder of such a name; some archives wrap one in another of its name."""
    if not place.is_dir():
        return None
    for found in sorted(item for item in place.iterdir() if item.is_dir()):
        if name.fullmatch(found.name.lower()):
            inner = [item for item in sorted(found.iterdir()) if item.is_dir()]
            return inner[0] if inner and name.fullmatch(inner[0].name.lower()) else found
    return None


def _from_lines(file: Path, problems: Problems) -> Iterator[LabelledDocument | None]:
    with reading_as("receipts, one line of JSON each", str(file), error=AnnotationError):
        entries = json_lines.by_name(file, _name)
    for name, where, entry in entries:
        with reading_as("a receipt", where, error=AnnotationError):
            found = _from_line(name, where, entry, file.parent, problems)
        yield found


def _name(entry: Mapping[str, Any], where: str) -> str:
    title = entry["key"] if "key" in entry else Path(entry["file_name"]).stem
    return annotated_pages.name(title, where=f"key in '{where}'")


def _from_line(
    name: str, where: str, entry: Mapping[str, Any], folder: Path, problems: Problems
) -> LabelledDocument | None:
    texts, boxes = entry["words"], entry["bboxes"]
    if not isinstance(texts, list) or not isinstance(boxes, list) or len(texts) != len(boxes):
        raise AnnotationError(
            f"'{where}' has no lists 'words' and 'bboxes' of one length; expected a box for each "
            "line of text. Correct the annotation."
        )
    image = named_image(entry["file_name"], folder)
    if "image_size" in entry:
        sides = entry["image_size"]
        size = annotated_pages.page_size(sides["width"], sides["height"], where=where)
    else:
        size = annotated_pages.image_size(folder / str(entry["file_name"]), of=where)
    if image is None or not image.is_file():
        problems.add(annotated_pages.NO_IMAGE, name)
        image = None
    lines = [
        line(text, box, size=size, where=f"{where}, text {number}", problems=problems)
        for number, (text, box) in enumerate(zip(texts, boxes, strict=True))
    ]
    return _labelled(name, lines, entry["entities"], size, image, where, problems)


def _from_folders(folders: _Folders, problems: Problems) -> Iterator[LabelledDocument | None]:
    boxes = _files(folders.boxes, ".csv", ".txt")
    keys = _files(folders.keys, ".json", ".txt")
    images = _files(folders.images, *_IMAGE_FILES)
    if not boxes:
        raise AnnotationError(
            f"'{folders.boxes}' holds no .csv or .txt file; expected one of boxes for each "
            "receipt. Unpack the data set again."
        )
    for name in sorted(keys.keys() - boxes.keys()):
        problems.add("key without boxes, left out", name)
    copies = _copies(sorted(boxes.keys() & keys.keys()), boxes, keys, images)
    for name, path in sorted(boxes.items()):
        if name not in keys:
            problems.add("boxes without a key, left out", name)
        elif name in copies:
            problems.add(COPY, name)
        else:
            with reading_as("a receipt", str(path), error=AnnotationError):
                image = images.get(name, folders.images / f"{name}.jpg")
                found = _from_files(name, path, keys[name], image, problems)
            yield found


def _files(folder: Path, *endings: str) -> dict[str, Path]:
    return {path.stem: path for path in folder.iterdir() if path.suffix.lower() in endings}


def _copies(names: Sequence[str], *kinds: Mapping[str, Path]) -> set[str]:
    """Returns names such as X(1), and X(2) where X is missing, whose files another one has as well.

    Of receipts that are called copies and are the same in all files the first is left, whichever
    others there are: so one receipt more or less is one record more or less.
    """
    stems = [called[1] if (called := _COPY.fullmatch(name)) else name for name in names]
    several = Counter(stems)
    seen: set[tuple[object, ...]] = set()
    found = set()
    for name, stem in zip(names, stems, strict=True):
        if several[stem] > 1:
            files = [kind.get(name) for kind in kinds]
            content = (
                stem,
                *(file and hashlib.sha256(_content(file)).digest() for file in files),
            )
            if content in seen:
                found.add(name)
            seen.add(content)
    return found


def _from_files(
    name: str, boxes: Path, key: Path, image: Path, problems: Problems
) -> LabelledDocument | None:
    size = annotated_pages.image_size(image, of=str(boxes))
    lines = []
    for number, row in enumerate(_text(boxes, problems).split("\n"), start=1):
        if not row.strip():
            continue
        where = f"{boxes}, line {number}"
        *corners, text = row.split(",", 8)
        try:
            numbers: list[object] = [float(corner) for corner in corners]
        except ValueError:
            numbers = []
        if len(numbers) != 8:
            raise AnnotationError(
                f"'{where}' does not begin with eight numbers; expected "
                "x0,y0,x1,y1,x2,y2,x3,y3,text. Restore the file from the data set."
            )
        lines.append(line(text, numbers, size=size, where=where, problems=problems))
    entities = annotated_pages.parsed(_text(key, problems), str(key))
    return _labelled(name, lines, entities, size, image, str(key), problems)


def _text(path: Path, problems: Problems) -> str:
    """Returns a file's text; some transcripts of the competition are not UTF-8."""
    content = _content(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        problems.add("file that is not UTF-8, read as ISO 8859-1", str(path))
        return content.decode("iso-8859-1")


def _content(path: Path) -> bytes:
    with atomic_files.open_file(path) as file:
        return file.read()


def _labelled(
    name: str,
    lines: Sequence[Line | None],
    entities: object,
    size: tuple[int, int],
    image: Path | None,
    where: str,
    problems: Problems,
) -> LabelledDocument | None:
    values = _values(entities, where)
    words = words_of(in_reading_order(lines, size))
    page = Page(width=size[0], height=size[1], words=words, image=image)
    document = annotated_pages.document(name, [page], where=where, problems=problems)
    if document is None:
        return None
    spans: list[Span] = []
    questions = []
    taken: set[int] = set()
    for field in (*FIELDS, *sorted(values.keys() - set(FIELDS))):
        if field not in values:
            problems.add(f"receipt without {field}", name)
            continue
        if field not in FIELDS:
            problems.add(annotated_pages.OTHER_LABEL, f"{name}: {field}")
        places = _places(field, values[field], page, name, problems)
        claimed = {index for place in places for index in place}
        if claimed & taken:
            problems.add("word that two values claim", f"{name}, {field}")
        for place in places:
            spans.extend(spans_from_words(set(place) - taken, label=field))
        taken |= claimed
        questions.append(
            Question(
                text=f"What is the {field}?",
                answers=(values[field],),
                word_ids=tuple(places[0]) if places else (),
                key=_KEYS_OF_QUESTIONS.get(field, field),
            )
        )
    return LabelledDocument(
        document=document,
        spans=tuple(sorted(spans)),
        questions=tuple(questions),
        provider=folded(values.get("company", "")) or None,
        document_type="receipt",
    )


def _values(entities: object, where: str) -> dict[str, str]:
    """Returns the values of a receipt's fields that are not empty."""
    values = annotated_pages.required(entities, dict, what="'entities'")
    for field, value in values.items():
        annotated_pages.name(field, where=f"field's name in '{where}'")
        if not isinstance(value, str):
            raise AnnotationError(
                f"'{where}' gives {short_repr(field)} as {type(value).__name__}; expected a "
                "string. Correct the annotation."
            )
    return {field: value.strip() for field, value in values.items() if value.strip()}


def _places(field: str, value: str, page: Page, name: str, problems: Problems) -> Sequence[range]:
    """Returns the words of each place where a value is labelled."""
    if field == "total":
        places = totals.places(value, page)
        if not places:
            problems.add("value of total that stands in no line", name)
        return places
    if field not in FIELDS and len(comparable(value)) < MIN_OWN:
        problems.add(f"value of {field} that is too short to be looked for", name)
        return []
    characters = Characters([word.text for word in page.words])
    found = characters.places(value)
    best = [place for place in found if place.whole] or [place for place in found if place.apart]
    if best or found:
        return [place.words for place in best or found]
    closest = characters.closest(value) if field in ("company", "address") else None
    if closest is None:
        problems.add(f"value of {field} that stands in no line", name)
        return []
    problems.add(f"value of {field} that stands there with other characters", name)
    return [closest]


CORPUS = Corpus(
    name="sroie",
    title="SROIE, scanned receipts (Huang et al. 2019, ICDAR)",
    labels=LabelSet(fields=FIELDS),
    documents={"train": 626, "test": 347},
    expected=(
        'folders box/, key/ and img/, or lines of JSON with "file_name", "words", "bboxes" and '
        '"entities"'
    ),
    recognises=recognises,
    read=read,
)
