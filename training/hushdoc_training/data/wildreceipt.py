"""WildReceipt (Sun et al. 2021, "Spatial Dual-Modality Graph Reasoning"): photos of receipts.

One line of JSON for each photo, in the form of mmocr: boxes with four corners, a text and the
number of one of the 26 classes in `class_list.txt`. Each box with a text is a segment and, where
its class is one of the 24 keys and values, an entity of its own, as the data set classifies boxes:
two boxes with the lines of one address are two entities. "Others" and "Ignore" are no fields; a box
to ignore mostly has no text, and is left out then. Texts have hardly any spaces, so most boxes are
one long word.

Boxes are brought into reading order, since their own is none. The data set does not say who issued
a receipt: the name of a store is one of its fields, as far as it can be read, and so there is no
provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hushdoc.arguments import reading_as, short_repr
from hushdoc.document.limits import named_image
from hushdoc.document.page import Page
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet, Span
from hushdoc_training.data import annotated_pages, json_lines
from hushdoc_training.data.corpus import Corpus, Problems, recognising
from hushdoc_training.data.lines import in_reading_order, line, words_of

CLASSES = (
    "Ignore", "Store_name_value", "Store_name_key", "Store_addr_value", "Store_addr_key",
    "Tel_value", "Tel_key", "Date_value", "Date_key", "Time_value", "Time_key", "Prod_item_value",
    "Prod_item_key", "Prod_quantity_value", "Prod_quantity_key", "Prod_price_value",
    "Prod_price_key", "Subtotal_value", "Subtotal_key", "Tax_value", "Tax_key", "Tips_value",
    "Tips_key", "Total_value", "Total_key", "Others",
)  # fmt: skip
"""The lines of class_list.txt; an annotation gives the number of one, from 0."""

IGNORE, OTHERS = 0, len(CLASSES) - 1

_CLASS_LIST = "class_list.txt"
_FILES = ("train.txt", "test.txt")


def _field(name: str) -> str:
    """Returns a class as PrIeD-KIE's table 5 spells it: prod.item.value, store_name.key."""
    kind, role = name.lower().rsplit("_", 1)
    return f"{kind.replace('prod_', 'prod.')}.{role}"


_LABELS = tuple(None if n in (IGNORE, OTHERS) else _field(c) for n, c in enumerate(CLASSES))


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path is a folder of WildReceipt, or one of its files."""
    file = _file(path)
    if file is None:
        return False
    head = annotated_pages.head(file)
    return head.lstrip().startswith(b"{") and all(
        name in head for name in (b'"annotations"', b'"file_name"', b'"box"', b'"label"')
    )


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the receipts of a file, sorted by the names of their images.

    Args:
        path: A file of JSON lines, or a folder that holds it as train.txt (else test.txt). Its
            class_list.txt, where there is one, is held against the data set's own.
        problems: Counts what was odd in files that were read all the same.

    Raises:
        AnnotationError: Files are missing or not in this format, or two receipts have one name.
        BoxError: A coordinate is not finite.
        EmptyDocumentError: No receipt has a word.
    """
    file = _file(path)
    if file is None:
        raise AnnotationError(
            f"'{path}' is not WildReceipt: expected {CORPUS.expected}. Name the folder that holds "
            "these, or unpack the data set again."
        )
    yield from annotated_pages.some(_documents(file, problems), path)


def _file(path: Path) -> Path | None:
    files = [path] if path.is_file() else [path / name for name in _FILES]
    return next((file for file in files if file.is_file()), None)


def _documents(file: Path, problems: Problems) -> Iterator[LabelledDocument | None]:
    with reading_as("receipts, one line of JSON each", str(file), error=AnnotationError):
        _require_classes(file.parent / _CLASS_LIST)
        entries = json_lines.by_name(file, _name)
    for name, where, entry in entries:
        with reading_as("a receipt", where, error=AnnotationError):
            found = _document(name, where, entry, file.parent, problems)
        yield found


def _require_classes(path: Path) -> None:
    """Refuses a list of other classes: an annotation gives the number of a line in it."""
    if not path.is_file():
        return
    rows = path.read_text(encoding="utf-8-sig").split("\n")
    names = [row.split()[-1] for row in rows if row.strip()]
    if tuple(names) != CLASSES:
        raise AnnotationError(
            f"'{path}' lists other classes than WildReceipt's {len(CLASSES)}, and annotations give "
            "their numbers. Restore the file, or name the labels of your own data in a labelled "
            "file."
        )


def _name(entry: Mapping[str, Any], where: str) -> str:
    """Returns a receipt's name: its image's, with the folders below image_files/ that it is in."""
    path = Path(annotated_pages.name(entry["file_name"], where=f"file_name in '{where}'"))
    parts = path.with_suffix("").parts
    return "-".join(parts[1:] if parts[0] == "image_files" else parts)


def _document(
    name: str, where: str, entry: Mapping[str, Any], folder: Path, problems: Problems
) -> LabelledDocument | None:
    size = annotated_pages.page_size(entry["width"], entry["height"], where=where)
    image = named_image(entry["file_name"], folder)
    if image is None or not image.is_file():
        problems.add(annotated_pages.NO_IMAGE, name)
        image = None
    boxes = annotated_pages.required(entry["annotations"], list, what="'annotations'")
    lines = in_reading_order(
        (
            line(
                item["text"],
                item["box"],
                size=size,
                where=f"{where}, box {number}",
                problems=problems,
                label=_label(item["label"], f"{where}, box {number}"),
            )
            for number, item in enumerate(boxes)
            if item["label"] != IGNORE or item["text"] != ""
        ),
        size,
    )
    words = words_of(lines)
    page = Page(width=size[0], height=size[1], words=words, image=image)
    document = annotated_pages.document(name, [page], where=where, problems=problems)
    if document is None:
        return None
    spans = []
    start = 0
    for segment, found in enumerate(lines):
        stop = start
        while stop < len(words) and words[stop].segment == segment:
            stop += 1
        if found.label is not None:
            spans.append(Span(page=0, start=start, stop=stop, label=found.label))
        start = stop
    return LabelledDocument(document=document, spans=tuple(spans), document_type="receipt")


def _label(number: object, where: str) -> str | None:
    if type(number) is int and 0 <= number < len(CLASSES):
        return _LABELS[number]
    raise AnnotationError(
        f"'{where}' has the class {short_repr(number)}; expected an integer from 0 to "
        f"{len(CLASSES) - 1}, a line of class_list.txt. Correct the annotation."
    )


CORPUS = Corpus(
    name="wildreceipt",
    title="WildReceipt, photos of receipts (Sun et al. 2021)",
    labels=LabelSet(fields=tuple(label for label in _LABELS if label is not None)),
    documents={"train": 1267, "test": 472},
    expected=(
        'train.txt with lines of JSON of "file_name", "height", "width" and "annotations", '
        "class_list.txt and image_files/"
    ),
    recognises=recognises,
    read=read,
)
