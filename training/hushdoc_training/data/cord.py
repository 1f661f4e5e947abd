"""CORD (Park et al. 2019): receipts, read from the original files of version 1 and 2.

Folders train, dev and test with `json/<id>.json` beside `image/<id>.png`; or parquet files whose
column `ground_truth` holds the same JSON as a string. A line of the annotation is one field and one
segment, and lines keep their order. Words that are the field's key, such as "TOTAL", are outside of
it: what is looked for is the value. Areas marked `dontcare` and repeated symbols have no words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hushdoc.arguments import reading_as
from hushdoc.document.page import Page, Word
from hushdoc.errors import AnnotationError, needs_extra
from hushdoc.labels import LabelledDocument, LabelSet, Span, spans_from_words
from hushdoc.reading.drafting import around
from hushdoc_training.data import annotated_pages
from hushdoc_training.data.corpus import Corpus, Problems, recognising

LABELS = LabelSet(
    fields=(
        "menu.cnt",
        "menu.discountprice",
        "menu.etc",
        "menu.itemsubtotal",
        "menu.nm",
        "menu.num",
        "menu.price",
        "menu.sub_cnt",
        "menu.sub_etc",
        "menu.sub_nm",
        "menu.sub_price",
        "menu.sub_unitprice",
        "menu.unitprice",
        "menu.vatyn",
        "sub_total.discount_price",
        "sub_total.etc",
        "sub_total.othersvc_price",
        "sub_total.service_price",
        "sub_total.subtotal_price",
        "sub_total.tax_price",
        "total.cashprice",
        "total.changeprice",
        "total.creditcardprice",
        "total.emoneyprice",
        "total.menuqty_cnt",
        "total.menutype_cnt",
        "total.total_etc",
        "total.total_price",
        "void_menu.nm",
        "void_menu.price",
    )
)
"""PrIeD-KIE, table 5, as the files spell them; its 31st type, "other", is no field."""

OTHER = "other"
PARQUET = ".parquet"
COLUMNS = ("ground_truth", "image")
KEY_ALONE = "line of keys alone, without a value"
EMPTY = "line without a word, left out"
TURNED = "page whose text is turned, its words kept in their order"

_IMAGES = (".png", ".jpg", ".jpeg")
_BATCH_ROWS = 16
_CORNERS = (("x1", "y1"), ("x2", "y2"), ("x3", "y3"), ("x4", "y4"))


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the receipts of one split, sorted by name.

    A folder holds `json/` or parquet files itself, or else its folder `train` is read; of the
    parquet files those of training, where their names tell.

    Raises:
        MissingExtraError: A parquet file without pyarrow.
    """
    files = _annotations(path)
    if not files:
        raise AnnotationError(
            f"'{path}' has neither a folder 'json' nor a parquet file, so it is not CORD. Give the "
            "folder that holds json/ and image/, or a parquet file."
        )
    found = (
        receipt
        for file in files
        for receipt in (_rows(file, problems) if file.suffix == PARQUET else _file(file, problems))
    )
    yield from annotated_pages.some(found, path)


@recognising
def recognises(path: Path) -> bool:
    """Returns whether a path holds receipts in json/, or is a parquet file, or holds some."""
    files = _annotations(path)[:1]
    return any(
        file.suffix == PARQUET or b'"valid_line"' in annotated_pages.head(file) for file in files
    )


def _annotations(path: Path) -> list[Path]:
    """Returns the JSON or parquet files of a split in the order of their names."""
    if path.is_file():
        return [path] if path.suffix == PARQUET else []
    for folder in (path, path / "train"):
        if (folder / "json").is_dir():
            return sorted((folder / "json").glob("*.json"))
    for folder in (path, path / "data"):
        files = sorted(folder.glob(f"*{PARQUET}"))
        if files:
            return [file for file in files if file.name.startswith("train")] or files
    return []


def _file(annotation: Path, problems: Problems) -> Iterator[LabelledDocument | None]:
    stem, folder = annotation.stem, annotation.parent.parent / "image"
    image = next(filter(Path.is_file, (folder / f"{stem}{end}" for end in _IMAGES)), None)
    with reading_as("an annotation of CORD", str(annotation), error=AnnotationError):
        receipt = _receipt(stem, annotated_pages.load(annotation), image, problems)
    yield receipt


def _rows(path: Path, problems: Problems) -> Iterator[LabelledDocument | None]:
    """Yields the receipts of a parquet file, named by its name and the number of the row."""
    with needs_extra("pyarrow", "parquet"):
        from pyarrow import parquet
    door = reading_as("a parquet file of CORD", str(path), error=AnnotationError)
    with door, parquet.ParquetFile(path) as file:
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise AnnotationError(
                f"'{path}' has no column {', '.join(map(repr, missing))}; CORD's parquet files "
                f"have {' and '.join(map(repr, COLUMNS))}. Give one of those."
            )
        row = 0
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(COLUMNS)):
            for entry in batch.to_pylist():
                name = f"{path.stem}-{row:05d}"
                data = annotated_pages.parsed(entry["ground_truth"], f"{path}, row {row}")
                image = (entry["image"] or {}).get("bytes")
                if image is not None:
                    image = annotated_pages.required(image, bytes, what="an image")
                yield _receipt(name, data, image, problems)
                row += 1


def _receipt(
    name: str, data: Any, image: Path | bytes | None, problems: Problems
) -> LabelledDocument | None:
    size = _size(data, image, name)
    words: list[Word] = []
    spans: list[Span] = []
    lines = annotated_pages.required(data["valid_line"], list, what="'valid_line'")
    turned = 0
    for number, line in enumerate(lines):
        where = f"{name}, line {number}"
        label = annotated_pages.name(line["category"], where=f"category of '{where}'")
        found, values = _line(line, number, size, where, problems)
        turned += _is_turned(line)
        if not found:
            problems.add(EMPTY, where)
        elif label != OTHER:
            if label not in LABELS.fields:
                problems.add(annotated_pages.OTHER_LABEL, f"{where}: {label}")
            if not values:
                problems.add(KEY_ALONE, where)
            spans.extend(spans_from_words((len(words) + index for index in values), label=label))
        words.extend(found)
    if 2 * turned > len(lines):
        problems.add(TURNED, name)
    used = annotated_pages.fitting_image(image, size, where=name, problems=problems)
    page = Page(width=size[0], height=size[1], words=tuple(words), image=used)
    document = annotated_pages.document(name, [page], where=name, problems=problems)
    if document is None:
        return None
    return LabelledDocument(document=document, spans=tuple(spans), document_type="receipt")


def _size(data: Any, image: Path | bytes | None, name: str) -> tuple[int, int]:
    """Returns the size that the boxes are of: what the annotation says, else the image's."""
    size = data["meta"].get("image_size")
    if size is not None:
        return annotated_pages.page_size(size["width"], size["height"], where=name)
    return annotated_pages.image_size(image, of=name)


def _line(
    line: Mapping[str, Any], segment: int, size: tuple[int, int], where: str, problems: Problems
) -> tuple[list[Word], list[int]]:
    """Returns a line's words, and which of them are the field's value."""
    words: list[Word] = []
    values: list[int] = []
    for index, entry in enumerate(annotated_pages.required(line["words"], list, what="'words'")):
        word = annotated_pages.word(
            entry["text"],
            around([(entry["quad"][x], entry["quad"][y]) for x, y in _CORNERS]),
            size=size,
            segment=segment,
            where=f"{where}, word {index}",
            problems=problems,
        )
        if word is not None:
            if not entry.get("is_key"):
                values.append(len(words))
            words.append(word)
    return words, values


def _is_turned(line: Mapping[str, Any]) -> bool:
    """Returns whether the top edge of a line's first quadrilateral does not run to the right."""
    for entry in line["words"]:
        quad = entry["quad"]
        across, down = quad["x2"] - quad["x1"], quad["y2"] - quad["y1"]
        return bool(across <= abs(down) and (across or down))
    return False


CORPUS = Corpus(
    name="cord",
    title="CORD (Park et al. 2019): receipts from Indonesia",
    labels=LABELS,
    documents={"train": 800, "dev": 100, "test": 100},
    expected="a folder with json/<id>.json and image/<id>.png, or parquet files",
    recognises=recognises,
    read=read,
)
