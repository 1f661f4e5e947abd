"""What services really answered and what their makers' packages write: every word and box.

`fixtures/README.md` says where each file is from.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hushdoc_captured_answers import lines, load, near, opened, texts

from hushdoc import reading
from hushdoc.errors import BoxError, EmptyDocumentError, InputError, UnsupportedFormatError
from hushdoc.reading.opening import open_document

PIXELS_PER_INCH = 200
SIZE = (1700, 2200)


FORMATS = {
    "azure_cards.json": "azure-read",
    "azure_read.json": "azure-read",
    "docling.json": "docling",
    "docling_sideways.json": "docling",
    "docling_table.json": "docling",
    "doctr_server.json": "doctr",
    "doctr_server_kie.json": "doctr",
    "doctr_server_polygons.json": "doctr",
    "document_ai.json": "document-ai",
    "document_ai_defaults.json": "document-ai",
    "form_recognizer_2.json": "azure-read",
    "textract.json": "textract",
    "textract_sideways.json": "textract",
}
WITHOUT_WORDS = {"azure_word.json": "BAD_BOX", "document_ai_blank.json": "EMPTY_DOCUMENT"}


def test_every_answer_is_recognised(captured: Path) -> None:
    read = {path.name: path for path in captured.iterdir() if path.name not in WITHOUT_WORDS}
    assert {name: str(open_document(path).source) for name, path in read.items()} == FORMATS
    for name, code in WITHOUT_WORDS.items():
        with pytest.raises(InputError) as raised:
            open_document(captured / name)
        assert raised.value.code == code


# Amazon Textract


CELLS = ["Value 1.3.2", "Value 1.3.3", "Value 2.1.1", "Value 2.1.2", "Value 2.1.3"]


def polygons(data: Any) -> list[tuple[float, float, float, float]]:
    """Returns the corners of Textract's words by their polygons, as shares of the page."""
    found = []
    for block in data["Blocks"]:
        if block["BlockType"] == "WORD":
            across = [point["X"] for point in block["Geometry"]["Polygon"]]
            down = [point["Y"] for point in block["Geometry"]["Polygon"]]
            found.append((min(across), min(down), max(across), max(down)))
    return found


@pytest.mark.parametrize("name", ["textract.json", "textract_sideways.json"])
def test_textracts_words_stand_where_its_polygons_do(captured: Path, name: str) -> None:
    data = load(captured / name)
    (page,) = reading.from_textract(data, page_sizes=[SIZE]).pages
    assert (page.width, page.height) == SIZE
    assert lines(page) == CELLS
    assert texts(page) == " ".join(CELLS).split()
    for word, (x0, y0, x1, y1) in zip(page.words, polygons(data), strict=True):
        assert near(word.box, (x0 * SIZE[0], y0 * SIZE[1], x1 * SIZE[0], y1 * SIZE[1]))


def test_textracts_pages_are_turned_only_where_they_lay_sideways(captured: Path) -> None:
    upright, sideways = (
        open_document(captured / name).pages[0]
        for name in ("textract.json", "textract_sideways.json")
    )
    assert near(upright.words[0].box, (219.708, 192.919, 265.703, 203.148))
    assert near(sideways.words[0].box, (846.483, 154.454, 861.022, 187.254))
    for value, number in zip(upright.words[::2], upright.words[1::2], strict=True):
        assert value.box.x1 < number.box.x0
        assert value.box.y0 < number.box.y1
    for value, number in zip(sideways.words[::2], sideways.words[1::2], strict=True):
        assert value.box.y1 < number.box.y0
        assert value.box.x0 < number.box.x1
    assert reading.reading_order(upright) == tuple(range(10))


@pytest.mark.parametrize(
    ("part", "index"),
    [("ExpenseDocuments", "ExpenseIndex"), ("IdentityDocuments", "DocumentIndex")],
)
def test_expenses_and_identity_documents_hold_blocks(captured: Path, part: str, index: str) -> None:
    plain = load(captured / "textract.json")
    data = {"DocumentMetadata": {"Pages": 1}, part: [{index: 1, "Blocks": plain["Blocks"]}]}
    for found in (opened(data), opened([data]), reading.from_textract(data)):
        assert found.pages == reading.from_textract(plain).pages


def _detected(text: str, left: float, top: float) -> dict[str, Any]:
    box = {"Left": left, "Top": top, "Width": 0.2, "Height": 0.05}
    return {"Text": text, "Geometry": {"BoundingBox": box}, "Confidence": 98.0}


def test_expenses_without_blocks_are_read_by_what_was_detected() -> None:
    total = {"LabelDetection": _detected("Total due", 0.1, 0.8)}
    total |= {"ValueDetection": _detected("12.50", 0.5, 0.8), "PageNumber": 2}
    vendor = {"Type": {"Text": "VENDOR_NAME"}, "ValueDetection": _detected("Acme Ltd", 0.1, 0.1)}
    item = {"LineItemExpenseFields": [{"ValueDetection": _detected("Bolts", 0.1, 0.4)}]}
    part = {
        "SummaryFields": [{**vendor, "PageNumber": 1}, total],
        "LineItemGroups": [{"LineItems": [item]}],
    }
    first, second = opened({"ExpenseDocuments": [part]}).pages
    assert [(word.text, word.segment) for word in first.words] == [
        ("Acme", 0),
        ("Ltd", 0),
        ("Bolts", 1),
    ]
    assert [word.text for word in second.words] == ["Total", "due", "12.50"]
    assert near(second.words[2].box, (500, 800, 700, 850))


def test_a_row_of_an_item_repeats_no_word_of_its_columns() -> None:
    def field(kind: str, text: str, left: float) -> dict[str, Any]:
        return {"Type": {"Text": kind}, "ValueDetection": _detected(text, left, 0.4)}

    row = field("EXPENSE_ROW", "Bolts 47X 2 2", 0.1)
    fields = [row, field("ITEM", "Bolts", 0.1), field("QUANTITY", "2", 0.5)]
    items = [{"LineItems": [{"LineItemExpenseFields": fields}]}]
    (page,) = opened({"ExpenseDocuments": [{"LineItemGroups": items}]}).pages
    assert [word.text for word in page.words] == ["Bolts", "2", "47X", "2"]
    assert page.words[0].box.x0 < page.words[2].box.x0 < page.words[3].box.x0 < 300


def test_identity_documents_without_blocks_have_no_places() -> None:
    field = {"Type": {"Text": "LAST_NAME"}, "ValueDetection": {"Text": "Doe", "Confidence": 99.0}}
    data = {"IdentityDocuments": [{"DocumentIndex": 1, "IdentityDocumentFields": [field]}]}
    with pytest.raises(UnsupportedFormatError, match="nothing of where on the page"):
        opened(data)


def test_blocks_go_to_their_pages(captured: Path) -> None:
    first, second = load(captured / "textract.json"), load(captured / "textract_sideways.json")
    for number, data in enumerate((first, second), start=1):
        for block in data["Blocks"]:
            block["Page"] = number
    pages = opened({"DocumentMetadata": {"Pages": 2}, "Blocks": second["Blocks"] + first["Blocks"]})
    assert pages.pages == opened(first).pages + (opened(second).pages[1],)


def test_keys_that_say_nothing_may_be_there(captured: Path) -> None:
    data = load(captured / "textract.json")
    for block in data["Blocks"]:
        block.setdefault("Relationships", None)
        block |= {"Page": None, "RowIndex": None, "EntityTypes": None}
    assert opened(data).pages == open_document(captured / "textract.json").pages


def test_jobs_that_are_not_done_are_told(captured: Path) -> None:
    for status in ("IN_PROGRESS", "FAILED"):
        data = {"JobStatus": status, "StatusMessage": "none", "ResponseMetadata": {}}
        with pytest.raises(UnsupportedFormatError, match=f"status is '{status}'"):
            opened(data)
    data = {**load(captured / "textract.json"), "JobStatus": "SUCCEEDED"}
    assert opened(data).num_words == 10


def test_a_response_that_others_follow_is_not_the_whole_answer(captured: Path) -> None:
    data = load(captured / "textract.json")
    first = {**data, "Blocks": data["Blocks"][:8], "NextToken": "7c2e"}
    rest = {**data, "Blocks": data["Blocks"][8:]}
    assert opened([first, rest]).pages == opened(data).pages
    for partial in (first, [first], [rest, first]):
        with pytest.raises(InputError, match="NextToken") as raised:
            opened(partial)
        assert raised.value.code == "BAD_INPUT"


# Microsoft


@pytest.mark.parametrize("name", ["azure_read.json", "azure_cards.json"])
def test_azures_words_spell_what_it_says_the_document_says(captured: Path, name: str) -> None:
    result = load(captured / name)["analyzeResult"]
    document = open_document(captured / name)
    assert [word for page in document.pages for word in texts(page)] == result["content"].split()
    for page, told in zip(document.pages, result["pages"], strict=True):
        assert (page.width, page.height) == SIZE  # 8.5 x 11 inches
        assert lines(page) == [line["content"] for line in told["lines"]]
        for word, piece in zip(page.words, told["words"], strict=True):
            across = [x * PIXELS_PER_INCH for x in piece["polygon"][::2]]
            down = [y * PIXELS_PER_INCH for y in piece["polygon"][1::2]]
            assert near(word.box, (min(across), min(down), max(across), max(down)))


def test_leaning_words_get_the_upright_box_around_them(captured: Path) -> None:
    first, second = open_document(captured / "azure_cards.json").pages  # by 7 and by -17 degrees
    assert first.words[0].text == "JOHN"
    assert near(first.words[0].box, (341.92, 749.56, 554.88, 840.28))
    name = second.words[:3]
    assert [word.text for word in name] == ["Dr.", "Avery", "Smith"]
    for left, right in pairwise(name):  # the line climbs
        assert left.box.x0 < right.box.x0
        assert left.box.y0 > right.box.y0


def test_both_interfaces_of_azure_tell_one_page_alike(captured: Path) -> None:
    (new,) = open_document(captured / "azure_read.json").pages
    (old,) = open_document(captured / "form_recognizer_2.json").pages
    assert (old.width, old.height) == (new.width, new.height)
    places = [sorted((word.text, word.box.to_list()) for word in page.words) for page in (old, new)]
    assert places[0] == places[1]
    # The old one told a page row by row, which is also how its boxes are read.
    assert reading.reading_order(old) == tuple(range(34))
    assert [new.words[index].text for index in reading.reading_order(new)] == texts(old)
    assert lines(old)[:4] == [
        "Contoso",
        "Address:",
        "Invoice For: Microsoft",
        "1 Redmond way Suite",
    ]


def test_microsofts_packages_write_what_its_interfaces_answer(
    captured: Path, fixtures: Path
) -> None:
    (whole,) = open_document(captured / "form_recognizer_2.json").pages
    (page,) = open_document(fixtures / "form_recognizer_2_to_dict.json").pages  # of seven lines
    assert 0 < len(page.words) < len(whole.words)
    assert page.words == whole.words[: len(page.words)]
    data = load(fixtures / "form_recognizer_2_to_dict.json")
    assert opened({"form_type": "prebuilt:invoice", "fields": {}, "pages": data}).pages == (page,)
    assert (
        open_document(fixtures / "azure_read.json").pages
        == open_document(fixtures / "azure_read_as_dict.json").pages
    )


def test_files_without_pages_have_no_places(captured: Path) -> None:
    with pytest.raises(BoxError, match=r"size .* is missing.* Document\.from_text"):
        open_document(captured / "azure_word.json")
    data = load(captured / "azure_word.json")
    del data["analyzeResult"]["pages"][0]  # what is left is an image that stood in the file
    (page,) = opened(data).pages
    assert (page.width, page.height, lines(page)) == (884, 384, ["Logo", "Name"])


def test_operations_that_are_not_done_are_told() -> None:
    data = {"status": "running", "createdDateTime": "2022-08-31T17:35:26Z"}
    with pytest.raises(UnsupportedFormatError, match="status is 'running'"):
        opened(data)


def test_older_answers_of_read(captured: Path) -> None:
    result = load(captured / "form_recognizer_2.json")["analyzeResult"]
    data = {"status": "Succeeded", "recognitionResults": result["readResults"]}
    assert opened(data).pages == open_document(captured / "form_recognizer_2.json").pages


# Google Document AI


@pytest.mark.parametrize("name", ["document_ai.json", "document_ai_defaults.json"])
def test_googles_tokens_spell_its_lines(captured: Path, name: str) -> None:
    data = load(captured / name)
    (told,) = data["pages"]
    (page,) = open_document(captured / name).pages
    assert (page.width, page.height) == (1758, 2275)
    segments = lines(page)
    assert len(segments) == len(told["lines"])
    start = 0
    for segment, line in zip(segments, told["lines"], strict=True):
        end = int(line["layout"]["textAnchor"]["textSegments"][0]["endIndex"])
        assert "".join(segment.split()) == "".join(data["text"][start:end].split())
        start = end
    for word, token in zip(page.words, told["tokens"], strict=True):
        points = token["layout"]["boundingPoly"]["vertices"]
        across, down = [point["x"] for point in points], [point["y"] for point in points]
        assert near(word.box, (min(across), min(down), max(across), max(down)), by=0.5)
    assert texts(page)[:9] == [
        "Invoice",
        "DATE",
        ":",
        "01/01/1970",
        "INVOICE",
        ":",
        "NO",
        ".",
        "001",
    ]


def test_a_blank_page_has_no_text_at_all(captured: Path) -> None:
    with pytest.raises(EmptyDocumentError, match="no word"):
        open_document(captured / "document_ai_blank.json")


def test_what_has_no_pages_of_words_is_told() -> None:
    block = {"blockId": "1", "textBlock": {"text": "CHAPTER I", "type": "heading-1"}}
    with pytest.raises(UnsupportedFormatError, match="layout parser"):
        opened({"documentLayout": {"blocks": [block]}, "chunkedDocument": {"chunks": []}})


def test_the_parts_of_a_batch_are_one_document(captured: Path) -> None:
    first = load(captured / "document_ai.json")
    second = load(captured / "document_ai_defaults.json")
    first["shardInfo"] = {"shardCount": "2"}  # JSON leaves the index 0 out
    second["shardInfo"] = {"shardIndex": "1", "shardCount": "2", "textOffset": "435"}
    found = opened([second, first])
    assert [len(page.words) for page in found.pages] == [
        len(data["pages"][0]["tokens"]) for data in (first, second)
    ]
    assert str(found.source) == "document-ai"


def test_pages_without_tokens_are_read_by_their_lines(captured: Path) -> None:
    data = load(captured / "document_ai.json")
    whole = opened(data).pages[0]
    del data["pages"][0]["tokens"]
    (page,) = opened(data).pages
    assert lines(page)[:3] == ["Invoice", "DATE: 01/01/1970", "INVOICE: NO. 001"]
    assert [word.segment for word in page.words[:3]] == [0, 1, 1]
    around = [whole.segment_boxes()[1], page.segment_boxes()[1]]
    assert near(around[0], tuple(around[1].to_list()), by=15)
