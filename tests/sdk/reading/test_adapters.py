"""Other programs' output: every format tells the same page, and bad words are named."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushdoc import reading
from hushdoc.document.document import Document
from hushdoc.errors import (
    BoxError,
    EmptyDocumentError,
    HushdocError,
    InputError,
    LimitExceededError,
    UnsupportedFormatError,
    WordError,
)
from hushdoc.reading import ReadingLimits
from hushdoc.reading.opening import open_document

PAGE = "Hollis Supply Ltd. Invoice INV-2207 Date 2026-03-14 Total due 12.50 EUR"
TEXT = PAGE.split(" ")
LINES = [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3]
SIZE = (800, 480)
BOXES = [
    (60, 57, 144, 83),
    (151, 57, 259, 90),
    (265, 57, 323, 83),
    (60, 159, 171, 183),
    (178, 159, 321, 183),
    (60, 219, 132, 243),
    (139, 219, 317, 243),
    (60, 337, 138, 363),
    (145, 337, 205, 363),
    (212, 339, 299, 363),
    (306, 339, 369, 363),
]
FILES = {
    "azure_document_intelligence.json": "azure-read",
    "azure_form_recognizer_to_dict.json": "azure-read",
    "azure_image_analysis.json": "azure-read",
    "azure_read.json": "azure-read",
    "azure_read_as_dict.json": "azure-read",
    "docling.json": "docling",
    "doctr.hocr": "hocr",
    "doctr.json": "doctr",
    "doctr_kie.json": "doctr",
    "document_ai.json": "document-ai",
    "document_ai_to_dict.json": "document-ai",
    "rapidocr.json": "rapidocr",
    "tesseract.hocr": "hocr",
    "tesseract.tsv": "tesseract-tsv",
}
TEXTRACT = Path("captured", "textract.json")
SEEN = ("rapidocr.json", "tesseract.hocr", "tesseract.tsv")


@pytest.mark.parametrize(("name", "form"), FILES.items())
def test_every_format_tells_the_same_words(fixtures: Path, name: str, form: str) -> None:
    document = open_document(fixtures / name)
    assert document.source == reading.Source(reader=form)
    (page,) = document.pages
    assert [word.text for word in page.words] == TEXT
    if form != "docling":  # its cells are smaller than lines
        assert [word.segment for word in page.words] == LINES
    assert open_document(fixtures / name, format=form) == document


@pytest.mark.parametrize(
    "name", [name for name in FILES if name not in ("docling.json", "rapidocr.json")]
)
def test_every_format_tells_the_same_places(fixtures: Path, name: str) -> None:
    (page,) = open_document(fixtures / name).pages
    # What was drawn, to a thousandth of the page; what Tesseract saw, to a hundredth.
    near = 10 if name in SEEN else 1
    for word, (x0, y0, x1, y1) in zip(page.words, BOXES, strict=True):
        told = word.box.normalized(width=page.width, height=page.height)
        drawn = (x0 * 1000 / SIZE[0], y0 * 1000 / SIZE[1], x1 * 1000 / SIZE[0], y1 * 1000 / SIZE[1])
        assert all(abs(a - b) <= near for a, b in zip(told, drawn, strict=True)), word.text


def test_rapidocrs_lines_are_shared_among_their_words(fixtures: Path) -> None:
    data = json.loads((fixtures / "rapidocr.json").read_text())
    (page,) = reading.from_rapidocr(data, width=800, height=480).pages
    assert (page.width, page.height) == SIZE
    for word, (x0, _, x1, _) in zip(page.words, BOXES, strict=True):
        assert abs(word.box.x0 - x0) < 20
        assert abs(word.box.x1 - x1) < 20


def test_doclings_words_have_the_boxes_of_their_paragraphs_and_cells(fixtures: Path) -> None:
    (page,) = open_document(fixtures / "docling.json").pages
    assert [word.segment for word in page.words] == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert page.words[0].box.to_list() == [60, 57, 323, 90]
    assert page.words[9].box.to_list() == [212, 339, 369, 363]


def test_doclings_pages_have_one_number_each(fixtures: Path) -> None:
    data = json.loads((fixtures / "docling.json").read_text())
    for name in ("01", " 1", "\u0661"):
        twice = {**data, "pages": {**data["pages"], name: data["pages"]["1"]}}
        with pytest.raises(UnsupportedFormatError, match="two of its pages have one number"):
            reading.from_docling(twice)


def test_pages_without_a_size_in_pixels_get_one(fixtures: Path) -> None:
    data = json.loads((fixtures / TEXTRACT).read_text())
    (nominal,) = reading.from_textract(data).pages
    assert open_document(fixtures / TEXTRACT).pages == (nominal,)
    assert (nominal.width, nominal.height) == (1000, 1000)
    (page,) = reading.from_textract(data, page_sizes=[SIZE]).pages
    assert (page.width, page.height) == SIZE
    for share, word in zip(nominal.words, page.words, strict=True):
        x0, y0, x1, y1 = (value / 1000 for value in share.box.to_list())
        across, down = SIZE
        corners = [x0 * across, y0 * down, x1 * across, y1 * down]
        assert word.box.to_list() == pytest.approx(corners)
    # 8 x 4.8 inches.
    assert open_document(fixtures / "azure_read.json").pages[0].width == 1600


def test_answers_in_several_parts_are_one_document(fixtures: Path) -> None:
    data = json.loads((fixtures / TEXTRACT).read_text())
    halves = [{"Blocks": data["Blocks"][:7]}, {"Blocks": data["Blocks"][7:]}]
    assert reading.from_textract(halves) == reading.from_textract(data)
    with pytest.raises(UnsupportedFormatError, match="none of the responses"):
        reading.from_textract(halves[:1])


def with_rich_cell(fixtures: Path, said: str) -> dict[str, Any]:
    """Returns docling's answer about a table in whose last cell it found a picture, too."""
    data: dict[str, Any] = json.loads((fixtures / "docling.json").read_text())
    (table,), texts = data["tables"], data["texts"]
    place = {"l": 212.0, "t": 141.0, "r": 369.0, "b": 117.0, "coord_origin": "BOTTOMLEFT"}
    prov = [{"page_no": 1, "bbox": place, "charspan": [0, len(said)]}]
    data["pictures"] = [{"children": [], "label": "picture", "prov": prov}]
    texts.append({"children": [], "label": "text", "prov": prov, "orig": said, "text": said})
    within = [{"$ref": f"#/texts/{len(texts) - 1}"}, {"$ref": "#/pictures/0"}]
    data["groups"] = [{"children": within, "label": "unspecified", "name": "rich_cell_group_1_1_0"}]
    table["children"] = [{"$ref": "#/groups/0"}]
    table["data"]["table_cells"][1]["ref"] = {"$ref": "#/groups/0"}
    return data


def test_the_text_of_a_rich_cell_is_read_once(fixtures: Path) -> None:
    """Docling has it twice: as the cell's, and in an item that the cell refers to."""
    data = with_rich_cell(fixtures, "12.50 EUR")
    (page,) = reading.from_docling(data).pages
    assert [word.text for word in page.words] == TEXT
    assert page.words[9].box.to_list() == [212, 339, 369, 363]
    data["tables"][0]["children"] = []  # then nothing but the cell says it
    assert [word.text for word in reading.from_docling(data).pages[0].words] == TEXT
    other = reading.from_docling(with_rich_cell(fixtures, "x^2")).pages[0].words
    assert [word.text for word in other] == [*TEXT, "x^2"]


def test_references_in_a_circle_end(fixtures: Path) -> None:
    data = json.loads((fixtures / "docling.json").read_text())
    data["texts"][2]["children"] = [{"$ref": "#/texts/0"}, {"$ref": "#/texts/2"}]
    assert [word.text for word in reading.from_docling(data).pages[0].words] == TEXT


@pytest.mark.parametrize(
    "number", ["00", "01", "\u0660", "\uff10", "", "+0", " 0", "0\n", "1" * 10]
)
def test_an_item_is_named_in_one_way(fixtures: Path, number: str) -> None:
    """By ever other spellings of its number one item was read again and again."""
    data = json.loads((fixtures / "docling.json").read_text())
    data["body"]["children"].append({"$ref": f"#/texts/{number}"})
    with pytest.raises(UnsupportedFormatError, match="a reference is malformed"):
        reading.from_docling(data)


def test_texts_without_a_page_have_no_place(fixtures: Path) -> None:
    data = json.loads((fixtures / "docling.json").read_text())
    data["texts"][1]["prov"] = []
    with pytest.raises(BoxError, match="'Invoice INV-2207'.* has no place"):
        reading.from_docling(data)


def textract(**change: Any) -> Any:
    box = {"Left": 0.1, "Top": 0.1, "Width": 0.2, "Height": 0.1}
    good = {"BlockType": "WORD", "Id": "a", "Text": "good", "Geometry": {"BoundingBox": box}}
    return reading.from_textract({"Blocks": [good, {**copy.deepcopy(good), "Id": "b", **change}]})


def tsv(**change: Any) -> Any:
    names = "level page_num block_num par_num line_num word_num left top width height conf text"
    cells = "5 1 1 1 1 1 10 10 20 10 90 good"
    base = dict(zip(names.split(" "), cells.split(" "), strict=True))
    page = {**base, "level": 1, "left": 0, "top": 0, "width": 100, "height": 100, "text": ""}
    rows = [page, base, {**base, **change}]
    text = "\n".join("\t".join(str(row[name]) for name in names.split()) for row in rows)
    return reading.from_tesseract_tsv("\t".join(names.split()) + "\n" + text)


def hocr(title: str = "bbox 10 10 30 20", text: str = "bad") -> Any:
    return reading.from_hocr(
        "<div class='ocr_page' title='bbox 0 0 100 100'>"
        "<span class='ocrx_word' title='bbox 10 10 30 20'>good</span>"
        f"<span class='ocrx_word' title='{title}'>{text}</span></div>"
    )


def azure(**change: Any) -> Any:
    good = {"content": "good", "polygon": [10, 10, 30, 10, 30, 20, 10, 20]}
    page = {"pageNumber": 1, "width": 100, "height": 100, "unit": "pixel"}
    return reading.from_azure_read({"pages": [{**page, "words": [good, {**good, **change}]}]})


def box_of(left: Any, top: Any, width: Any, height: Any) -> dict[str, Any]:
    box = {"Left": left, "Top": top, "Width": width, "Height": height}
    return {"Geometry": {"BoundingBox": box}}


@pytest.mark.parametrize(
    "make",
    [
        lambda: textract(**box_of(math.nan, 0, 0.1, 0.1)),
        lambda: textract(**box_of(0.5, 0.5, -0.1, 0.1)),
        lambda: textract(**box_of(-0.5, 0.5, 0.1, 0.1)),
        lambda: textract(**box_of(0.9, 0.5, 0.5, 0.1)),
        lambda: textract(**box_of("0.9", 0.5, "0.5", 0.1)),
        lambda: textract(**box_of(10**400, 0, 0, 0)),
        lambda: textract(Geometry=None),
        lambda: textract(Geometry={"Polygon": []}),
        lambda: tsv(left="nan"),
        lambda: tsv(left="x"),
        lambda: tsv(left=-50),
        lambda: tsv(width=-5),
        lambda: tsv(left=500),
        lambda: hocr(title="bbox 10 10 30"),
        lambda: hocr(title="bbox 10 10 30 y"),
        lambda: hocr(title="bbox nan 10 30 20"),
        lambda: hocr(title="bbox 30 10 10 20"),
        lambda: hocr(title="bbox -30 10 10 20"),
        lambda: hocr(title="bbox 10 10 300 20"),
        lambda: hocr(title="x_wconf 90"),
        lambda: azure(polygon=[math.inf, 0, 1, 1]),
        lambda: azure(polygon=[500, 0, 600, 9]),
        lambda: azure(polygon=None),
        lambda: azure(polygon=[math.nan, 1, 5, 5, 6, 6]),
        lambda: azure(polygon=[-50, 1, 5, 5, 6, 6]),
    ],
)
def test_bad_boxes_are_named_and_the_next_call_is_fine(make: Callable[[], Any]) -> None:
    with pytest.raises(BoxError, match=r"word 1 |Row 4 ") as raised:
        make()
    assert raised.value.code == "BAD_BOX"
    assert hocr().num_words == textract().num_words == tsv().num_words == azure().num_words == 2


@pytest.mark.parametrize("make", [textract, azure])
@pytest.mark.parametrize("text", ["a\x00b", "\x1b[2J", "\ud800", 7, None, ["a"]])
def test_words_that_are_none_are_named(make: Callable[..., Any], text: Any) -> None:
    with pytest.raises(WordError, match="word 1 ") as raised:
        make(Text=text, content=text)
    assert raised.value.code == "BAD_WORD"
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("make", [textract, azure])
def test_words_of_a_megabyte_are_refused_by_their_number(make: Callable[..., Any]) -> None:
    with pytest.raises(LimitExceededError, match="word 1 .* has 1000000 characters") as raised:
        make(Text="x" * 10**6, content="x" * 10**6)
    assert len(str(raised.value)) < 500
    with pytest.raises(LimitExceededError, match="word 1 "):
        hocr(text="x" * 10**6)


@pytest.mark.parametrize("text", ["", " ", "\u2003 ", "\u00a0"])
def test_blanks_with_a_box_say_nothing_and_are_left_out(text: str) -> None:
    for document in (textract(Text=text), azure(content=text), tsv(text=text), hocr(text=text)):
        assert [word.text for word in document.pages[0].words] == ["good"]


def test_boxes_a_little_off_the_page_are_cut_at_its_edge() -> None:
    left, _ = textract(**box_of(-0.004, 0.5, 0.1, 0.1)), None
    assert left.pages[0].words[1].box.x0 == 0
    assert textract(**box_of(0.9, 0.5, 0.105, 0.1)).pages[0].words[1].box.x1 == 1000


ADAPTERS = [
    reading.from_azure_read,
    reading.from_docling,
    reading.from_doctr,
    reading.from_document_ai,
    reading.from_rapidocr,
    reading.from_textract,
]


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        [1],
        [None],
        [{}],
        7,
        None,
        "text",
        {"pages": 3},
        {"pages": [None]},
        {"pages": {}},
        {"Blocks": [{}]},
        {"analyzeResult": 3},
        {"readResults": [{"width": 5}]},
        {"text": "a", "pages": [{"tokens": [{}]}]},
        {"schema_name": "DoclingDocument", "pages": {"x": 1}},
        {"schema_name": "DoclingDocument", "pages": {}, "body": {"children": [{"$ref": "#/a"}]}},
    ],
)
def test_other_structures_are_told(adapter: Callable[..., Document], data: Any) -> None:
    with pytest.raises(InputError) as raised:
        adapter(data)
    assert raised.value.code in ("UNSUPPORTED_FORMAT", "EMPTY_DOCUMENT", "BAD_WORD")


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "8", None, True, 10**400])
def test_pages_without_a_size_are_refused(fixtures: Path, value: Any) -> None:
    data = json.loads((fixtures / "azure_read.json").read_text())
    data["analyzeResult"]["readResults"][0]["width"] = value
    with pytest.raises(InputError, match="side of"):
        reading.from_azure_read(data)


def test_limits_hold_for_what_programs_write(fixtures: Path) -> None:
    path = fixtures / "doctr.json"
    with pytest.raises(LimitExceededError, match="more than 5 words"):
        open_document(path, limits=ReadingLimits(max_words=5))
    with pytest.raises(LimitExceededError, match="a word has 6 at most"):
        open_document(path, limits=ReadingLimits(max_word_characters=6))
    data = json.loads(path.read_text())
    data["pages"] *= 4
    with pytest.raises(LimitExceededError, match="more than 3 pages"):
        reading.from_doctr(data, limits=ReadingLimits(max_pages=3))
    with pytest.raises(LimitExceededError, match="pages"):
        reading.from_textract(
            {"Blocks": [{"BlockType": "PAGE", "Id": "p", "Page": 999_999}]},
        )


def test_a_page_without_words_is_empty() -> None:
    with pytest.raises(EmptyDocumentError):
        reading.from_hocr("<div class='ocr_page' title='bbox 0 0 9 9'></div>")
    with pytest.raises(EmptyDocumentError):
        reading.from_rapidocr([])


@pytest.mark.parametrize(("name", "form"), [*FILES.items(), (str(TEXTRACT), "textract")])
def test_errors_leave_no_state(fixtures: Path, name: str, form: str) -> None:
    before = open_document(fixtures / name)
    content = (fixtures / name).read_bytes()
    with pytest.raises(HushdocError):
        open_document(content[: len(content) // 2].rstrip(b"\n")[:40], format=form)
    assert open_document(fixtures / name) == before
