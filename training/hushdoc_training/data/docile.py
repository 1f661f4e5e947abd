"""DocILE (Simsa et al. 2023): business documents, read from the original files.

A split is a list of ids such as `train.json`; `annotations/<id>.json` holds the fields' boxes and
`ocr/<id>.json` the words, as docTR exports them, in shares of the page; `pdfs/<id>.pdf` is drawn
where images are asked for. Words keep docTR's order, each line of it is a segment, and boxes are
those snapped to the text. As in DocILE's baselines a word is a field's where half of its area lies
in the field's box. Line items are no fields of PrIeD-KIE and stay unlabelled.

No document has a provider: the metadata hold none. Their `cluster_id` numbers layouts, of which one
provider may have many and several providers one; and `vendor_name` is a text that is spelled and
read in many ways, so that one provider's documents would pass for those of several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.arguments import MalformedError, reading_as
from hushdoc.document.page import Box, Page
from hushdoc.errors import AnnotationError
from hushdoc.labels import LabelledDocument, LabelSet, Span, spans_from_words
from hushdoc.reading.drafting import number
from hushdoc_training.data import annotated_pages
from hushdoc_training.data.corpus import Corpus, Problems

LABELS = LabelSet(
    fields=(
        "account_num",
        "amount_due",
        "amount_paid",
        "amount_total_gross",
        "amount_total_net",
        "amount_total_tax",
        "bank_num",
        "bic",
        "currency_code_amount_due",
        "customer_billing_address",
        "customer_billing_name",
        "customer_delivery_address",
        "customer_delivery_name",
        "customer_id",
        "customer_order_id",
        "customer_other_address",
        "customer_other_name",
        "customer_registration_id",
        "customer_tax_id",
        "date_due",
        "date_issue",
        "document_id",
        "iban",
        "order_id",
        "payment_reference",
        "payment_terms",
        "tax_detail_gross",
        "tax_detail_net",
        "tax_detail_rate",
        "tax_detail_tax",
        "vendor_address",
        "vendor_email",
        "vendor_name",
        "vendor_order_id",
        "vendor_registration_id",
        "vendor_tax_id",
    )
)
"""PrIeD-KIE, table 5, as the files spell them; its 37th type, "other", is no field."""

OVERLAP = 0.5
"""A field claims a word of which this share of the area lies in its box (DocILE's baselines)."""

TWICE = "id listed twice, read once"
NO_PAGE = "field on a page that the document does not have"
NO_FIELD_WORDS = "field without a word"
SHARED = "word that two fields claim"
TAKEN = "field whose words are all another field's"


def read(path: Path, problems: Problems) -> Iterator[LabelledDocument]:
    """Yields the documents of a split, sorted by id.

    The path is a list of ids, or the folder of one: `train.json`, or else the only list there.
    """
    listing = _listing(path)
    with reading_as("a list of DocILE's ids", str(listing), error=AnnotationError):
        listed = Counter(_ids(listing))
    for identity in sorted(identity for identity, count in listed.items() if count > 1):
        problems.add(TWICE, identity)
    found = (_document(listing.parent, identity, problems) for identity in sorted(listed))
    yield from annotated_pages.some(found, path)


def recognises(path: Path) -> bool:
    """Returns whether a path is a folder of annotations beside OCR, or a list of ids in one."""
    folder = path.parent if path.is_file() and path.suffix == ".json" else path
    return (folder / "annotations").is_dir() and (folder / "ocr").is_dir()


def _listing(path: Path) -> Path:
    if path.is_file():
        return path
    lists = sorted(path.glob("*.json"))
    named = [file for file in lists if file.name == "train.json"] or lists
    if len(named) == 1:
        return named[0]
    found = f"several: {', '.join(file.name for file in lists[:8])}" if lists else "none"
    raise AnnotationError(
        f"'{path}' should hold one list of ids, or train.json; found {found}. Give the list to "
        "read, such as val.json."
    )


def _ids(listing: Path) -> list[str]:
    """Returns the ids of a split; each is the name of a file, and never of a folder."""
    entries = annotated_pages.required(annotated_pages.load(listing), list, what="it")
    ids = [annotated_pages.name(entry, where=f"id in '{listing.name}'") for entry in entries]
    for identity in ids:
        if identity != Path(identity).name:
            raise MalformedError("an id names a folder")
    return ids


@dataclass(frozen=True, kw_only=True, slots=True)
class _Field:
    """A field, and the words of its page that it claims."""

    label: str
    words: tuple[int, ...]
    where: str


def _document(folder: Path, identity: str, problems: Problems) -> LabelledDocument | None:
    annotation = folder / "annotations" / f"{identity}.json"
    with reading_as("an annotation of DocILE", str(annotation), error=AnnotationError):
        data = annotated_pages.load(annotation)
        if "field_extractions" not in data:
            raise AnnotationError(
                f"'{annotation}' has no 'field_extractions': the labels of this split are not "
                "published. Read the list train.json or val.json."
            )
        metadata = data["metadata"]
        sizes = annotated_pages.required(
            metadata["page_sizes_at_200dpi"], list, what="'page_sizes_at_200dpi'"
        )
        kind = metadata.get("document_type")
        if kind is not None:
            kind = annotated_pages.name(kind, where=f"document_type of '{identity}'")
        fields = annotated_pages.required(
            data["field_extractions"], list, what="'field_extractions'"
        )
    ocr = folder / "ocr" / f"{identity}.json"
    file = folder / "pdfs" / f"{identity}.pdf"
    image = file if file.is_file() else None
    if image is None:
        problems.add(annotated_pages.NO_IMAGE, identity)
    with reading_as("an OCR file of DocILE", str(ocr), error=AnnotationError):
        read = annotated_pages.required(annotated_pages.load(ocr)["pages"], list, what="'pages'")
        if len(read) != len(sizes):
            raise MalformedError(f"it has {len(read)} pages, the annotation {len(sizes)}")
        pages = [
            _page(words, size, number, image, f"{identity}, page {number}", problems)
            for number, (words, size) in enumerate(zip(read, sizes, strict=True))
        ]
    with reading_as("an annotation of DocILE", str(annotation), error=AnnotationError):
        spans = tuple(_spans(fields, pages, identity, problems))
    document = annotated_pages.document(identity, pages, where=identity, problems=problems)
    if document is None:
        return None
    return LabelledDocument(document=document, spans=spans, document_type=kind)


def _page(
    data: Mapping[str, Any],
    sides: Any,
    frame: int,
    image: Path | None,
    where: str,
    problems: Problems,
) -> Page:
    width, height = sides
    size = annotated_pages.page_size(width, height, where=where)
    words = []
    lines = (line for block in data["blocks"] for line in block["lines"])
    for segment, line in enumerate(lines):
        for index, entry in enumerate(line["words"]):
            word = annotated_pages.word(
                entry["value"],
                _corners(entry, size),
                size=size,
                segment=segment,
                where=f"{where}, line {segment}, word {index}",
                problems=problems,
            )
            if word is not None:
                words.append(word)
    return Page(width=size[0], height=size[1], words=tuple(words), image=image, frame=frame)


def _corners(entry: Mapping[str, Any], size: tuple[int, int]) -> list[float]:
    (x0, y0), (x1, y1) = entry.get("snapped_geometry") or entry["geometry"]
    return _in_pixels((x0, y0, x1, y1), size)


def _in_pixels(shares: Any, size: tuple[int, int]) -> list[float]:
    return [number(share) * size[axis % 2] for axis, share in enumerate(shares)]


def _spans(
    fields: list[Any], pages: list[Page], identity: str, problems: Problems
) -> Iterator[Span]:
    """Yields the spans of all fields.

    Of two fields that claim a word, as a name and the address around it, the one with fewer words
    gets it; of two with the same number the one whose label comes first in the alphabet.
    """
    by_page: dict[int, list[_Field]] = {}
    for index, entry in enumerate(fields):
        where = f"{identity}, field {index}"
        page = annotated_pages.required(entry["page"], int, what="a field's page")
        if not 0 <= page < len(pages):
            problems.add(NO_PAGE, where)
            continue
        by_page.setdefault(page, []).append(_field(entry, pages[page], where, problems))
    for page, found in sorted(by_page.items()):
        taken: set[int] = set()
        spans: list[Span] = []
        for field in sorted(found, key=lambda field: (len(field.words), field.label)):
            left = [word for word in field.words if word not in taken]
            for word in sorted(taken.intersection(field.words)):
                problems.add(SHARED, f"{field.where}, word {word}")
            if not left:
                problems.add(TAKEN if field.words else NO_FIELD_WORDS, field.where)
            taken.update(left)
            spans.extend(spans_from_words(left, label=field.label, page=page))
        yield from sorted(spans)


def _field(entry: Mapping[str, Any], page: Page, where: str, problems: Problems) -> _Field:
    label = annotated_pages.name(entry["fieldtype"], where=f"fieldtype of '{where}'")
    if label not in LABELS.fields:
        problems.add(annotated_pages.OTHER_LABEL, f"{where}: {label}")
    x0, y0, x1, y1 = _in_pixels(entry["bbox"], (page.width, page.height))
    box = Box(x0=min(x0, x1), y0=min(y0, y1), x1=max(x0, x1), y1=max(y0, y1))
    words = (index for index, word in enumerate(page.words) if _share(word.box, box) >= OVERLAP)
    return _Field(label=label, words=tuple(words), where=where)


def _share(word: Box, field: Box) -> float:
    """Returns which share of a word's area lies in a field; of a word without area, all or none."""
    across = _inside(word.x0, word.x1, field.x0, field.x1)
    down = _inside(word.y0, word.y1, field.y0, field.y1)
    return across * down


def _inside(low: float, high: float, start: float, stop: float) -> float:
    """Returns which share of one range lies in another; of a single point, all or none."""
    if high <= low:
        return float(start <= low <= stop)
    return max(0.0, min(high, stop) - max(low, start)) / (high - low)


CORPUS = Corpus(
    name="docile",
    title="DocILE (Simsa et al. 2023): invoices and other business documents",
    labels=LABELS,
    documents={"train": 5180, "val": 500, "test": 1000},
    expected="a folder with annotations/, ocr/ and a list of ids such as train.json, or the list",
    recognises=recognises,
    read=read,
)
