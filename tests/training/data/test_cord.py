"""CORD from invented files in exactly the published format, in folders and in parquet files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hushdoc_damage import at
from mutated_files import survive
from PIL import Image

from hushdoc.errors import (
    AnnotationError,
    BoxError,
    EmptyDocumentError,
    InputError,
    MissingExtraError,
)
from hushdoc.labels import LabelledDocument, tags_from_spans
from hushdoc_training.data import annotated_pages, cord, dataset
from hushdoc_training.data.corpus import Problems

SIZE = (120, 160)


def quad(x0: int, y0: int, x1: int, y1: int) -> dict[str, int]:
    return dict(x1=x0, y1=y0, x2=x1, y2=y0, x3=x1, y3=y1, x4=x0, y4=y1)


def line(category: str, top: int, *texts: str, group: int = 1) -> dict[str, Any]:
    words = [
        {
            "quad": quad(40 * index + 1, top, 40 * index + 38, top + 9),
            "is_key": int(text.isupper() and category.startswith("total")),
            "row_id": 100 + top,
            "text": text,
        }
        for index, text in enumerate(texts)
    ]
    return {"words": words, "category": category, "group_id": group, "sub_group_id": 0}


def receipt() -> dict[str, Any]:
    return {
        "gt_parse": {"menu": {"nm": "Nasi Goreng"}, "total": {"total_price": "45.000"}},
        "meta": {
            "version": "2.0.0",
            "split": "train",
            "image_id": 0,
            "image_size": {"width": SIZE[0], "height": SIZE[1]},
        },
        "valid_line": [
            line("menu.cnt", 10, "2"),
            line("menu.nm", 10, "Nasi", "Goreng"),
            line("menu.sub_nm", 30, "Extra"),
            line("sub_total.subtotal_price", 50, "45.000", group=2),
            line("total.total_price", 70, "TOTAL", "45.000", group=3),
        ],
        "roi": {},
        "repeating_symbol": [[{"quad": quad(0, 60, 99, 64), "text": "-----"}]],
        "dontcare": [[quad(1, 90, 80, 99), quad(1, 100, 80, 109)]],
    }


def write(
    folder: Path, *receipts: dict[str, Any], size: tuple[int, int] | None = SIZE, end: str = ".png"
) -> Path:
    (folder / "json").mkdir(parents=True)
    (folder / "image").mkdir()
    for number, data in enumerate(receipts):
        (folder / "json" / f"receipt_{number:05d}.json").write_text(json.dumps(data))
        if size is not None:
            Image.new("RGB", size).save(folder / "image" / f"receipt_{number:05d}{end}")
    return folder


def read(path: Path) -> tuple[list[LabelledDocument], Problems]:
    problems = Problems()
    return list(cord.read(path, problems)), problems


def values(labelled: LabelledDocument) -> list[tuple[str, str]]:
    (page,) = labelled.document.pages
    tags_from_spans(len(page.words), labelled.spans)
    return [
        (span.label, " ".join(word.text for word in page.words[span.start : span.stop]))
        for span in labelled.spans
    ]


def test_lines_become_fields_and_keys_stay_outside(tmp_path: Path) -> None:
    assert dataset.corpus_of(write(tmp_path, receipt())) is cord.CORPUS
    (labelled,), problems = read(tmp_path)
    assert values(labelled) == [
        ("menu.cnt", "2"),
        ("menu.nm", "Nasi Goreng"),
        ("menu.sub_nm", "Extra"),
        ("sub_total.subtotal_price", "45.000"),
        ("total.total_price", "45.000"),
    ]
    (page,) = labelled.document.pages
    assert (page.width, page.height) == SIZE
    assert page.image == tmp_path / "image" / "receipt_00000.png"
    assert [word.segment for word in page.words] == [0, 1, 1, 2, 3, 4, 4]
    assert page.segment_boxes()[1].to_list() == [1, 10, 78, 19]
    assert labelled.document.id == "receipt_00000"
    assert labelled.document_type == "receipt"
    assert labelled.provider is None
    assert not problems.counts


def test_the_schema_is_that_of_the_paper() -> None:
    assert len(cord.CORPUS.labels.fields) + 1 == 31  # with "other"
    assert sum(cord.CORPUS.documents.values()) == 1000


def test_the_training_split_of_the_root_is_read_and_others_by_their_folder(tmp_path: Path) -> None:
    for split, number in (("train", 2), ("dev", 1), ("test", 3)):
        write(tmp_path / split, *[receipt()] * number, end=".jpg")
    assert dataset.corpus_of(tmp_path) is cord.CORPUS
    for folder, number in ((tmp_path, 2), (tmp_path / "train", 2), (tmp_path / "test", 3)):
        found, _ = read(folder)
        assert [item.document.id for item in found] == [f"receipt_{n:05d}" for n in range(number)]


Edit = Callable[[dict[str, Any]], Any]


def edit(*path: Any, value: Any) -> Edit:
    def apply(data: dict[str, Any]) -> None:
        at(data, path[:-1])[path[-1]] = value

    return apply


WORD = ("valid_line", 1, "words", 1)
TURNED = {"x1": 78, "y1": 10, "x2": 78, "y2": 19, "x3": 41, "y3": 19, "x4": 41, "y4": 10}
ODD: list[tuple[str, Edit, str, tuple[str, str]]] = [
    # Corners in another order, as in a receipt that lies on its side: the box is around them.
    ("turned quad", edit(*WORD, "quad", value=TURNED), "", ("menu.nm", "Nasi Goreng")),
    (
        "quad off the edge",
        edit(*WORD, "quad", value=quad(-7, 10, 38, 19)),
        annotated_pages.CUT,
        ("menu.nm", "Nasi Goreng"),
    ),
    (
        "quad off the page",
        edit(*WORD, "quad", value=quad(500, 10, 540, 19)),
        annotated_pages.OFF,
        ("menu.nm", "Nasi"),
    ),
    ("empty word", edit(*WORD, "text", value=" "), annotated_pages.NO_TEXT, ("menu.nm", "Nasi")),
    ("line of empty words", edit(*WORD[:3], value=[]), cord.EMPTY, ("menu.sub_nm", "Extra")),
    (
        "own label",
        edit("valid_line", 2, "category", value="store.name"),
        annotated_pages.OTHER_LABEL,
        ("store.name", "Extra"),
    ),
    (
        "key alone",
        edit("valid_line", 4, "words", 1, "is_key", value=1),
        cord.KEY_ALONE,
        ("menu.sub_nm", "Extra"),
    ),
]


@pytest.mark.parametrize(
    ("change", "problem", "kept"), [case[1:] for case in ODD], ids=[case[0] for case in ODD]
)
def test_odd_lines_are_read_and_counted(
    tmp_path: Path, change: Edit, problem: str, kept: tuple[str, str]
) -> None:
    data = receipt()
    change(data)
    (labelled,), problems = read(write(tmp_path, data))
    assert kept in values(labelled)
    assert dict(problems.counts).get(problem, 0) == (1 if problem else 0)
    assert set(problems.counts) <= {problem, cord.EMPTY}


def test_a_key_between_values_parts_them(tmp_path: Path) -> None:
    data = receipt()
    data["valid_line"] = [line("total.cashprice", 10, "1.000", "CASH", "Rp")]
    (labelled,), _ = read(write(tmp_path, data))
    assert values(labelled) == [("total.cashprice", "1.000"), ("total.cashprice", "Rp")]


def test_other_lines_have_no_field(tmp_path: Path) -> None:
    data = receipt()
    data["valid_line"][0]["category"] = "other"
    (labelled,), problems = read(write(tmp_path, data))
    assert values(labelled)[0] == ("menu.nm", "Nasi Goreng")
    assert not problems.counts


def test_a_page_on_its_side_is_counted_and_read(tmp_path: Path) -> None:
    data = receipt()
    for number, item in enumerate(data["valid_line"]):
        for index, word in enumerate(item["words"]):
            x0, y0 = 100 - 10 * number, 40 * index + 1
            corners = ((x0 + 9, y0), (x0 + 9, y0 + 37), (x0, y0 + 37), (x0, y0))
            word["quad"] = {
                f"{axis}{corner}": place
                for corner, point in enumerate(corners, start=1)
                for axis, place in zip("xy", point, strict=True)
            }
    (labelled,), problems = read(write(tmp_path, data))
    assert ("menu.nm", "Nasi Goreng") in values(labelled)
    assert labelled.document.pages[0].words[0].box.to_list() == [100, 1, 109, 38]
    assert problems.counts == {cord.TURNED: 1}


@pytest.mark.parametrize(
    ("size", "problem"),
    [(None, annotated_pages.NO_IMAGE), ((160, 120), annotated_pages.OTHER_IMAGE)],
)
def test_images_of_another_size_are_not_used(
    tmp_path: Path, size: tuple[int, int] | None, problem: str
) -> None:
    """As where a photo was turned after its boxes were drawn."""
    (labelled,), problems = read(write(tmp_path, receipt(), size=size))
    assert labelled.document.pages[0].image is None
    assert problems.counts == {problem: 1}


def test_without_a_size_the_image_says_it(tmp_path: Path) -> None:
    data = receipt()
    del data["meta"]["image_size"]
    (labelled,), _ = read(write(tmp_path / "a", data, size=(200, 180)))
    assert (labelled.document.pages[0].width, labelled.document.pages[0].height) == (200, 180)
    with pytest.raises(AnnotationError, match=r"receipt_00000.*missing"):
        read(write(tmp_path / "b", data, size=None))


def test_receipts_without_words_are_left_out(tmp_path: Path) -> None:
    data = {**receipt(), "valid_line": []}
    found, problems = read(write(tmp_path / "a", data, receipt()))
    assert [labelled.document.id for labelled in found] == ["receipt_00001"]
    assert problems.counts == {annotated_pages.NO_WORDS: 1}
    with pytest.raises(EmptyDocumentError, match="No document"):
        read(write(tmp_path / "b", data))


HOSTILE: list[tuple[str, Edit, type[InputError], str]] = [
    ("no lines", lambda data: data.pop("valid_line"), AnnotationError, "valid_line"),
    ("lines an object", edit("valid_line", value={}), AnnotationError, "valid_line"),
    ("category a number", edit("valid_line", 0, "category", value=3), InputError, "category"),
    ("no category", lambda data: data["valid_line"][0].pop("category"), AnnotationError, "categor"),
    ("quad a list", edit(*WORD, "quad", value=[1, 2]), AnnotationError, "TypeError"),
    ("three corners", lambda d: d["valid_line"][1]["words"][1]["quad"].pop("x4"), InputError, "x4"),
    ("quad NaN", edit(*WORD, "quad", "x2", value=float("nan")), BoxError, "finite"),
    ("size a text", edit("meta", "image_size", "width", value="120"), AnnotationError, "pixels"),
    ("size huge", edit("meta", "image_size", "width", value=10**9), InputError, "pixels"),
    ("no meta", lambda data: data.pop("meta"), AnnotationError, "meta"),
]


@pytest.mark.parametrize(
    ("change", "error", "says"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_malformed_annotations_are_named(
    tmp_path: Path, change: Edit, error: type[InputError], says: str
) -> None:
    data = receipt()
    change(data)
    with pytest.raises(error, match=says) as caught:
        read(write(tmp_path, data, size=None))
    assert "receipt_00000" in str(caught.value)


def test_other_files_in_such_folders_are_not_taken_for_it(tmp_path: Path) -> None:
    write(tmp_path, {"shapes": []})
    assert not cord.recognises(tmp_path)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    for path in (tmp_path, tmp_path / "a.txt"):
        assert not cord.recognises(path)
        with pytest.raises(AnnotationError, match="not CORD"):
            read(path)


def test_a_parquet_file_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "train-00000-of-00001.parquet"
    path.write_bytes(b"PAR1")
    assert dataset.corpus_of(path) is cord.CORPUS
    with pytest.raises(MissingExtraError, match=r"hushdoc\[parquet\]"):
        read(path)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def row(folder: Path, data: dict[str, Any] | None = None) -> dict[str, Any]:
    path = folder / "image.png"
    Image.new("RGB", SIZE).save(path)
    image = {"bytes": path.read_bytes(), "path": None}
    return {"image": image, "ground_truth": json.dumps(data or receipt())}


def test_parquet_files_hold_the_same(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    name = tmp_path / "data" / "train-00000-of-00001-b4aaeceff1d90ecb.parquet"
    write_parquet(name, [row(tmp_path)] * 2)
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", [row(tmp_path)] * 3)
    assert dataset.corpus_of(tmp_path) is dataset.corpus_of(name) is cord.CORPUS
    found, problems = read(tmp_path)
    assert [item.document.id for item in found] == [f"{name.stem}-{n:05d}" for n in range(2)]
    (plain,), _ = read(write(tmp_path / "plain", receipt()))
    assert values(found[0]) == values(plain)
    assert found[0].document.pages[0].words == plain.document.pages[0].words
    assert found[0].document.pages[0].image == row(tmp_path)["image"]["bytes"]
    assert not problems.counts


def test_damaged_parquet_files_are_named(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"text": "7"}])
    with pytest.raises(AnnotationError, match=r"no column 'ground_truth', 'image'"):
        read(path)
    path = write_parquet(tmp_path / "a.parquet", [{**row(tmp_path), "ground_truth": "{"}])
    with pytest.raises(AnnotationError, match=r"a\.parquet, row 0"):
        read(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(AnnotationError, match=r"a\.parquet"):
        read(path)


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_read(tmp_path: Path, number: int) -> None:
    folder = write(tmp_path / "set", receipt(), receipt())
    tally = survive(folder, cord.read, number=number, seed=23)
    assert tally.refused["BAD_ANNOTATION"] > number / 10
    assert tally.read > number / 20
    assert tally.problems


@pytest.mark.slow
def test_damaged_bytes_of_parquet_are_refused_or_read(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    write_parquet(tmp_path / "set" / "train.parquet", [row(tmp_path)] * 2)
    tally = survive(tmp_path / "set", cord.read, number=2000, seed=23)
    assert tally.refused["BAD_ANNOTATION"] > 100
    assert tally.read > 100
