"""What docling and docTR write, their servers and packages too: every word and box.

`fixtures/README.md` says where each file is from.
"""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
from hushdoc_captured_answers import lines, load, near, opened, texts

from hushdoc import reading
from hushdoc.reading.opening import open_document

# docling


SENTENCE = (
    "Docling bundles PDF document conversion to JSON and Markdown in an easy self contained package"
)


def test_doclings_boxes_count_from_the_bottom(captured: Path) -> None:
    (page,) = open_document(captured / "docling.json").pages
    assert (page.width, page.height) == (595, 842)
    assert texts(page) == SENTENCE.split()
    assert near(page.words[0].box, (69.66, 77.01, 504.70, 152.92))
    (sideways,) = open_document(captured / "docling_sideways.json").pages
    assert (sideways.width, sideways.height) == (842, 595)
    assert texts(sideways) == SENTENCE.split()
    assert lines(sideways)[1] == "package"
    # It runs down the page, and its second line stands right of the first.
    first, second = sideways.words[0].box, sideways.words[-1].box
    assert near(first, (77.11, 89.09, 124.92, 523.14))
    assert near(second, (131.22, 440.86, 152.21, 520.90))


def test_doclings_cells_lie_in_their_table(captured: Path) -> None:
    data = load(captured / "docling_table.json")
    (page,) = open_document(captured / "docling_table.json").pages
    (table,) = data["tables"]
    place = table["prov"][0]["bbox"]  # from the bottom, while those of cells are from the top
    cells = [cell["text"] for cell in table["data"]["table_cells"]]
    found = lines(page)
    assert found[3 : 3 + len(cells)] == cells
    for word in page.words:
        if word.segment is not None and 3 <= word.segment < 3 + len(cells):
            assert place["l"] <= word.box.x0 < word.box.x1 <= place["r"]
            assert 792 - place["t"] <= word.box.y0 < word.box.y1 <= 792 - place["b"]
    assert found[0].startswith("Optimized Table Tokenization")
    assert found[-2].startswith("Table 1. ")
    assert found[-1] == "5.2 Quantitative Results"
    caption = next(word.box for word in page.words if word.text == "HPO")
    assert caption.y1 < 792 - place["t"]  # it stands above its table


def test_doclings_server_wraps_its_document(fixtures: Path) -> None:
    data = load(fixtures / "docling.json")
    plain = open_document(fixtures / "docling.json")
    answer = {"document": {"filename": "page.png", "json_content": data}, "status": "success"}
    assert opened(answer) == plain.__class__(id="document", pages=plain.pages, source=plain.source)


def test_a_paragraphs_parts_begin_where_docling_says(fixtures: Path) -> None:
    data = load(fixtures / "docling.json")
    item = data["texts"][0]
    place = item["prov"][0]
    item |= {
        "orig": "1. First part and the rest",
        "text": "First part and the rest",
        "marker": "1.",
    }
    # The first range was counted with the marker: it reaches into the second.
    item["prov"] = [
        {**place, "charspan": [0, 13]},
        {**place, "page_no": 2, "charspan": [11, 23]},
    ]
    data["pages"]["2"] = {"size": {"width": 800.0, "height": 480.0}, "page_no": 2}
    first, second = opened(data).pages
    assert texts(first)[:2] == ["First", "part"]
    assert texts(first)[2] == "Invoice"
    assert texts(second) == ["and", "the", "rest"]
    # Ranges that don't follow one another are another text's: all of it is at the first place.
    item["prov"] += [{**place, "charspan": [5, 9]}]
    assert texts(opened(data).pages[0])[:6] == [*item["text"].split(), "Invoice"]
    assert not opened(data).pages[1].words


def test_pairs_of_a_form_are_read_once(fixtures: Path) -> None:
    data = load(fixtures / "docling.json")
    place = data["texts"][0]["prov"][0]
    cells = [
        {"label": "key", "cell_id": 0, "text": "Terms", "orig": "Terms", "prov": place},
        {"label": "value", "cell_id": 1, "text": "net 30", "orig": "net 30", "prov": place},
        {
            "label": "value",
            "cell_id": 2,
            "text": "Ltd.",
            "orig": "",
            "item_ref": {"$ref": "#/texts/0"},
        },
    ]
    item = {"self_ref": "#/form_items/0", "label": "form", "prov": [], "graph": {"cells": cells}}
    data["form_items"] = [item]
    data["body"]["children"].append({"$ref": "#/form_items/0"})
    plain = open_document(fixtures / "docling.json").pages[0]
    (page,) = opened(data).pages
    assert texts(page) == [*texts(plain), "Terms", "net", "30"]


# docTR


def test_doctrs_server_answers_with_flat_boxes(captured: Path) -> None:
    (page,) = open_document(captured / "doctr_server.json").pages
    assert (page.width, page.height) == (1654, 2339)
    assert lines(page) == ["Hello world!"]
    assert near(page.words[0].box, (1235.868, 420.289, 1368.351, 484.246))
    assert near(page.words[1].box, (1352.361, 418.005, 1505.401, 486.530))


def test_doctrs_polygons_get_the_upright_box_around_them(captured: Path) -> None:
    (page,) = open_document(captured / "doctr_server_polygons.json").pages
    assert lines(page) == ["Hello world!"]
    assert near(page.words[0].box, (1235.105, 419.577, 1357.693, 475.821))
    assert near(page.words[1].box, (1356.930, 424.857, 1498.549, 472.825))


def test_doctrs_kie_predictions_are_put_in_order(captured: Path, fixtures: Path) -> None:
    data = load(captured / "doctr_server_kie.json")
    assert [item["value"] for item in data[0]["predictions"][0]["items"]] == ["world!", "Hello"]
    (page,) = opened(data).pages
    assert lines(page) == ["Hello world!"]
    exported = load(fixtures / "doctr_kie.json")["pages"][0]["predictions"]
    assert list(exported) == ["words", "total"]
    assert open_document(fixtures / "doctr_kie.json").pages == (
        open_document(fixtures / "doctr.json").pages
    )


def test_an_export_need_not_be_json(fixtures: Path) -> None:
    data = load(fixtures / "doctr.json")
    plain = reading.from_doctr(data)
    arrays = copy.deepcopy(data)
    for block in arrays["pages"][0]["blocks"]:
        for line in block["lines"]:
            for word in line["words"]:
                word["geometry"] = np.array(word["geometry"])
    assert reading.from_doctr(arrays) == plain
    assert reading.from_doctr(data["pages"][0]) == plain
    assert opened(data["pages"][0]).pages == plain.pages
