"""DocILE from invented files in exactly the published format, and its one published document."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mutated_files import survive

from hushdoc.errors import AnnotationError, BoxError, EmptyDocumentError, InputError
from hushdoc.labels import LabelledDocument, tags_from_spans
from hushdoc.reading import page_image
from hushdoc_training.data import annotated_pages, dataset, docile
from hushdoc_training.data.corpus import Problems

NAME = "516f2d61ea404b30a9192a72"
WIDTH, HEIGHT = 1000, 2000


def word(text: str, x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    loose = [[max(0.0, x0 - 0.01), y0 - 0.005], [min(1.0, x1 + 0.01), y1 + 0.005]]
    return {
        "value": text,
        "confidence": 0.98,
        "geometry": loose,
        "snapped_geometry": [[x0, y0], [x1, y1]],
    }


def ocr_page(number: int, *lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "page_idx": number,
        "dimensions": [1616, 808],
        "orientation": {"value": None, "confidence": None},
        "language": {"value": None, "confidence": None},
        "blocks": [
            {
                "geometry": [[0.0, 0.0], [1.0, 1.0]],
                "lines": [
                    {"geometry": [[0.0, 0.0], [1.0, 1.0]], "words": words} for words in lines
                ],
                "artefacts": [],
            }
        ],
    }


def ocr() -> dict[str, Any]:
    return {
        "pages": [
            ocr_page(
                0,
                [word("Ocean", 0.1, 0.1, 0.2, 0.12), word("Stores", 0.22, 0.1, 0.3, 0.12)],
                [word("1", 0.1, 0.13, 0.12, 0.15), word("Quay", 0.13, 0.13, 0.2, 0.15)],
                [word("No.", 0.6, 0.1, 0.66, 0.12), word("4711", 0.7, 0.1, 0.8, 0.12)],
            ),
            ocr_page(1, [word("Due", 0.1, 0.5, 0.2, 0.52), word("99.50", 0.7, 0.5, 0.8, 0.52)]),
        ]
    }


def field(kind: str, x0: float, y0: float, x1: float, y1: float, page: int = 0) -> dict[str, Any]:
    return {"bbox": [x0, y0, x1, y1], "fieldtype": kind, "page": page, "text": "as annotated"}


def annotation() -> dict[str, Any]:
    item = {**field("line_item_code", 0.69, 0.09, 0.81, 0.13), "line_item_id": 1}
    return {
        "field_extractions": [
            field("amount_due", 0.69, 0.49, 0.81, 0.53, page=1),
            field("vendor_name", 0.09, 0.09, 0.31, 0.125),
            field("vendor_address", 0.09, 0.09, 0.31, 0.16),
            field("document_id", 0.69, 0.095, 0.81, 0.125),
        ],
        "line_item_extractions": [item],
        "line_item_headers": [],
        "metadata": {
            "cluster_id": 554,
            "currency": "usd",
            "document_type": "tax_invoice",
            "language": "eng",
            "original_filename": "nkvc0055",
            "page_count": 2,
            "page_sizes_at_200dpi": [[WIDTH, HEIGHT], [WIDTH, HEIGHT]],
            "page_to_table_grid": {},
            "source": "ucsf",
        },
    }


def write(
    folder: Path,
    names: tuple[str, ...] = (NAME,),
    *,
    labels: Any = None,
    words: Any = None,
    listing: str = "train.json",
    pdf: bool = True,
) -> Path:
    for part in ("annotations", "ocr", "pdfs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "annotations" / f"{name}.json").write_text(
            json.dumps(annotation() if labels is None else labels)
        )
        (folder / "ocr" / f"{name}.json").write_text(json.dumps(ocr() if words is None else words))
        if pdf:
            (folder / "pdfs" / f"{name}.pdf").write_bytes(b"%PDF-1.4")
    (folder / listing).write_text(json.dumps(names))
    return folder


def read(path: Path) -> tuple[list[LabelledDocument], Problems]:
    problems = Problems()
    return list(docile.read(path, problems)), problems


def values(labelled: LabelledDocument) -> list[tuple[int, str, str]]:
    found = []
    for number, page in enumerate(labelled.document.pages):
        spans = [span for span in labelled.spans if span.page == number]
        tags_from_spans(len(page.words), spans)
        for span in spans:
            words = page.words[span.start : span.stop]
            found.append((number, span.label, " ".join(word.text for word in words)))
    return found


def test_fields_become_spans_of_words(tmp_path: Path) -> None:
    assert dataset.corpus_of(write(tmp_path)) is docile.CORPUS
    (labelled,), problems = read(tmp_path)
    assert values(labelled) == [
        (0, "vendor_name", "Ocean Stores"),
        (0, "vendor_address", "1 Quay"),
        (0, "document_id", "4711"),
        (1, "amount_due", "99.50"),
    ]
    assert problems.counts == {docile.SHARED: 2}  # the name within the address
    assert labelled.document.id == NAME
    assert labelled.provider is None
    assert labelled.document_type == "tax_invoice"
    pages = labelled.document.pages
    assert [(page.width, page.height, page.frame) for page in pages] == [
        (WIDTH, HEIGHT, 0),
        (WIDTH, HEIGHT, 1),
    ]
    assert {page.image for page in pages} == {tmp_path / "pdfs" / f"{NAME}.pdf"}
    assert [word.segment for word in pages[0].words] == [0, 0, 1, 1, 2, 2]
    assert pages[0].words[0].box.to_list() == pytest.approx([100, 200, 200, 240])  # snapped


def test_the_schema_is_that_of_the_paper() -> None:
    assert len(docile.CORPUS.labels.fields) + 1 == 37  # with "other"
    assert docile.CORPUS.documents == {"train": 5180, "val": 500, "test": 1000}


def test_words_that_were_not_snapped_have_docTRs_own_boxes(tmp_path: Path) -> None:  # noqa: N802
    words = ocr()
    del words["pages"][0]["blocks"][0]["lines"][0]["words"][0]["snapped_geometry"]
    (labelled,), _ = read(write(tmp_path, words=words))
    box = labelled.document.pages[0].words[0].box.to_list()
    assert box == pytest.approx([90, 190, 210, 250])


def test_half_of_a_word_must_lie_in_a_field(tmp_path: Path) -> None:
    for edge, claimed in ((0.761, True), (0.749, False)):
        labels = annotation()
        labels["field_extractions"] = [field("document_id", 0.69, 0.095, edge, 0.125)]
        (labelled,), problems = read(write(tmp_path, labels=labels))
        assert bool(labelled.spans) == claimed
        assert problems.counts == ({} if claimed else {docile.NO_FIELD_WORDS: 1})


def test_equal_claims_go_by_the_alphabet_whatever_the_order(tmp_path: Path) -> None:
    pair = [
        field("payment_reference", 0.69, 0.095, 0.81, 0.125),
        field("document_id", 0.68, 0.095, 0.82, 0.125),
    ]
    for fields in (pair, pair[::-1]):
        labels = {**annotation(), "field_extractions": fields}
        (labelled,), problems = read(write(tmp_path, labels=labels))
        assert values(labelled) == [(0, "document_id", "4711")]
        assert problems.counts == {docile.SHARED: 1, docile.TAKEN: 1}


def test_a_field_around_others_words_is_several_spans(tmp_path: Path) -> None:
    labels = annotation()
    labels["field_extractions"] = [
        field("payment_terms", 0.09, 0.09, 0.81, 0.16),
        field("vendor_name", 0.21, 0.09, 0.31, 0.125),
    ]
    (labelled,), _ = read(write(tmp_path, labels=labels))
    assert values(labelled) == [
        (0, "payment_terms", "Ocean"),
        (0, "vendor_name", "Stores"),
        (0, "payment_terms", "1 Quay No. 4711"),
    ]


Edit = Callable[[dict[str, Any], dict[str, Any]], Any]


def first_word(words: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = words["pages"][0]["blocks"][0]["lines"][0]["words"][0]
    return found


ODD: list[tuple[str, Edit, str]] = [
    ("empty word", lambda _, o: first_word(o).update(value=" "), annotated_pages.NO_TEXT),
    (
        "swapped geometry",
        lambda _, o: first_word(o).update(snapped_geometry=[[0.2, 0.12], [0.1, 0.1]]),
        annotated_pages.SWAPPED,
    ),
    (
        "over the edge",
        lambda _, o: first_word(o).update(snapped_geometry=[[-0.1, 0.1], [0.2, 0.12]]),
        annotated_pages.CUT,
    ),
    (
        "off the page",
        lambda _, o: first_word(o).update(snapped_geometry=[[1.1, 0.1], [1.2, 0.12]]),
        annotated_pages.OFF,
    ),
    ("page", lambda a, _: a["field_extractions"][0].update(page=7), docile.NO_PAGE),
    ("page", lambda a, _: a["field_extractions"][0].update(page=-1), docile.NO_PAGE),
    (
        "box",
        lambda a, _: a["field_extractions"][0].update(bbox=[0.9, 0.9, 0.1, 2.5]),
        docile.NO_FIELD_WORDS,
    ),
    (
        "own label",
        lambda a, _: a["field_extractions"][0].update(fieldtype="discount"),
        annotated_pages.OTHER_LABEL,
    ),
    ("blank page", lambda _, o: o["pages"][1].update(blocks=[]), docile.NO_FIELD_WORDS),
]


@pytest.mark.parametrize(
    ("change", "problem"), [case[1:] for case in ODD], ids=[case[0] for case in ODD]
)
def test_odd_files_are_read_and_counted(tmp_path: Path, change: Edit, problem: str) -> None:
    labels, words = annotation(), ocr()
    change(labels, words)
    (labelled,), problems = read(write(tmp_path, labels=labels, words=words))
    assert problems.counts[problem] == 1
    assert (0, "document_id", "4711") in values(labelled)


def test_documents_without_words_or_files_are_counted(tmp_path: Path) -> None:
    blank = {"pages": [ocr_page(0), ocr_page(1)]}
    write(tmp_path, ("a",), words=blank)
    with pytest.raises(EmptyDocumentError, match="No document"):
        read(tmp_path)
    write(tmp_path, ("b",), pdf=False)
    (tmp_path / "train.json").write_text(json.dumps(["b", "a", "b"]))
    (labelled,), problems = read(tmp_path)
    assert labelled.document.pages[0].image is None
    assert problems.counts[annotated_pages.NO_WORDS] == 1
    assert problems.counts[annotated_pages.NO_IMAGE] == 1
    assert problems.counts[docile.TWICE] == 1


def test_a_split_is_named_by_its_list(tmp_path: Path) -> None:
    write(tmp_path, ("b", "a"), listing="val.json")
    assert [item.document.id for item in read(tmp_path)[0]] == ["a", "b"]
    write(tmp_path, ("c",), listing="dev.json")
    with pytest.raises(AnnotationError, match=r"dev\.json, val\.json"):
        read(tmp_path)
    write(tmp_path, ("d",), listing="train.json")
    assert [item.document.id for item in read(tmp_path)[0]] == ["d"]
    assert dataset.corpus_of(tmp_path / "val.json") is docile.CORPUS
    assert [item.document.id for item in read(tmp_path / "val.json")[0]] == ["a", "b"]


HOSTILE: list[tuple[str, Edit, type[InputError], str]] = [
    ("labels unpublished", lambda a, _: a.pop("field_extractions"), AnnotationError, "published"),
    ("no metadata", lambda a, _: a.pop("metadata"), AnnotationError, "metadata"),
    ("no sizes", lambda a, _: a["metadata"].pop("page_sizes_at_200dpi"), AnnotationError, "200dpi"),
    ("one size", lambda a, _: a["metadata"]["page_sizes_at_200dpi"].pop(), InputError, "2 pages"),
    (
        "size zero",
        lambda a, _: a["metadata"].update(page_sizes_at_200dpi=[[0, 9], [9, 9]]),
        AnnotationError,
        "pixels",
    ),
    ("box", lambda a, _: a["field_extractions"][1].pop("bbox"), AnnotationError, "bbox"),
    ("page a text", lambda a, _: a["field_extractions"][1].update(page="0"), InputError, "page"),
    ("no pages", lambda _, o: o.pop("pages"), AnnotationError, "pages"),
    ("no value", lambda _, o: first_word(o).pop("value"), AnnotationError, "value"),
    (
        "NaN",
        lambda _, o: first_word(o).update(snapped_geometry=[[0.1, float("nan")], [0.2, 0.3]]),
        BoxError,
        "finite",
    ),
]


@pytest.mark.parametrize(
    ("change", "error", "says"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_malformed_files_are_named(
    tmp_path: Path, change: Edit, error: type[InputError], says: str
) -> None:
    labels, words = annotation(), ocr()
    change(labels, words)
    with pytest.raises(error, match=says) as caught:
        read(write(tmp_path, labels=labels, words=words))
    assert NAME in str(caught.value)


@pytest.mark.parametrize("listed", ['["../../etc/passwd"]', "[7]", '{"a": 1}', '["a\\u0000"]', "["])
def test_lists_name_files_of_their_folders_alone(tmp_path: Path, listed: str) -> None:
    write(tmp_path)
    (tmp_path / "train.json").write_text(listed)
    with pytest.raises(InputError, match=r"train\.json"):
        read(tmp_path)


def test_other_folders_are_not_taken_for_it(tmp_path: Path) -> None:
    assert not docile.recognises(tmp_path)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "images").mkdir()
    assert not docile.recognises(tmp_path)
    with pytest.raises(AnnotationError, match="list of ids"):
        read(tmp_path)


def test_the_published_document() -> None:
    path = os.environ.get("HUSHDOC_DOCILE", "")
    if not Path(path).is_dir() or not path:
        pytest.skip("set HUSHDOC_DOCILE to the sample folder of DocILE's code")
    (labelled,), problems = read(Path(path))
    (page,) = labelled.document.pages
    assert labelled.document.id == NAME
    assert (page.width, page.height, len(page.words)) == (1692, 2245, 256)
    found = {label: text for _, label, text in values(labelled)}
    assert found["vendor_name"] == "PHILIP MORRIS INCORPORATED"
    assert found["customer_billing_name"] == "Philip Morris Valued Customer"
    assert found["amount_total_gross"] == "4,759.20"
    # Ten of eleven fields: the reference is the number of the document.
    assert len(found) == 10
    assert problems.counts == {docile.SHARED: 5, docile.TAKEN: 1}
    pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed")
    image = page_image(page)
    assert image is not None
    assert image.size == (page.width, page.height)


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_read(tmp_path: Path, number: int) -> None:
    folder = write(tmp_path / "set", ("a", "b"))
    tally = survive(folder, docile.read, number=number, seed=23)
    assert tally.refused["BAD_ANNOTATION"] > number / 10
    assert tally.read > number / 20
    assert tally.problems
