"""Corpora of questions: SP-DocVQA in two shapes, ad buys, PFL-DocVQA; damaged and hostile files."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from mutated_files import survive
from PIL import Image

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.errors import AnnotationError, InputError, LimitExceededError, OutputExistsError
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import (
    ad_buys,
    annotated_pages,
    dataset,
    imdb_arrays,
    pfl_docvqa,
    providers,
    sp_docvqa,
    sroie,
    values,
)
from hushdoc_training.data.corpus import Problems


def read(module: ModuleType, path: Path) -> tuple[list[LabelledDocument], dict[str, int]]:
    problems = Problems()
    assert dataset.corpus_of(path) is module.CORPUS
    return list(module.read(path, problems)), dict(problems.counts)


def words_of(item: LabelledDocument, number: int) -> str:
    asked = item.questions[number]
    page = item.document.pages[asked.page]
    return " ".join(page.words[place].text for place in asked.word_ids)


def test_answers_stand_whole_where_they_can() -> None:
    words = ["Total:12.50", "112.50", "12.50", "EUR", "(12.50)"]
    assert values.first_place(["12.50 EUR"], words) == (2, 3)
    assert values.first_place(["13", "12.50"], words) == (2,)
    assert values.first_place(["12.50"], words[:2]) == (0,)
    assert values.first_place(["12.50"], words[1:2]) == ()
    assert values.first_place([], words) == ()


def contract(name: str = "a", **changed: Any) -> dict[str, Any]:
    words = [["Advertiser", 10, 10, 60, 20], ["Moon", 70, 10, 99, 20], ["PAC", 101, 10, 120, 20]]
    return {
        "id": name,
        "image": f"images/{name}.png",
        "station": "WXYZ",
        "pages": [
            {"page": 0, "width": 200.0, "height": 100.0, "words": words},
            {"page": 3, "width": 200.0, "height": 100.0, "words": [["$9.50", 10, 10, 60, 20]]},
        ],
        "labels": {"advertiser": "MOON PAC", "gross_amount": "$9.50", "flight_from": "9/9/20"},
        "spans": {"advertiser": [[0, 1, 3]], "gross_amount": [[1, 0, 1]], "flight_from": []},
    } | changed


def ad_buy_files(folder: Path, *entries: dict[str, Any]) -> Path:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines = "\n".join(map(json.dumps, entries or (contract(),))).encode()
    (folder / "train.jsonl.gz").write_bytes(gzip.compress(lines))
    Image.new("L", (400, 200)).save(folder / "images" / "a.png")
    return folder


def test_ad_buys_ask_for_their_fields(tmp_path: Path) -> None:
    (item,), odd = read(ad_buys, ad_buy_files(tmp_path))
    assert (item.provider, item.document_type) == ("WXYZ", "ad-buy")
    assert [(asked.key, asked.answers, asked.page) for asked in item.questions] == [
        ("advertiser", ("MOON PAC", "Moon PAC"), 0),
        ("flight_from", ("9/9/20",), 0),
        ("gross_amount", ("$9.50",), 1),
    ]
    assert [words_of(item, number) for number in range(3)] == ["Moon PAC", "", "$9.50"]
    assert {(span.label, span.page) for span in item.spans} == {
        ("advertiser", 0),
        ("gross_amount", 1),
    }
    assert item.document.pages[0].words[1].box.x0 == 140  # in pixels of the image
    assert item.document.pages[1].words[0].box.x0 == 10
    assert odd == {ad_buys.NOWHERE: 1}
    labelled_files.dumps(item)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"image": "../a.png"}, "not in the folder"),
        ({"spans": {"advertiser": [[0, 1, 9]]}}, "no run of words"),
        ({"spans": {"advertiser": [[0, 1]]}}, "contract of advertisements"),
        ({"labels": {"advertiser": 7}}, "label advertiser is int"),
        ({"station": "a\nb"}, "station"),
        ({"pages": [{"width": 0, "height": 1, "words": []}]}, "integers from 1"),
    ],
)
def test_contracts_that_are_none_are_refused(
    tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        read(ad_buys, ad_buy_files(tmp_path, contract(**changed)))


def test_places_that_two_values_claim_are_of_the_first(tmp_path: Path) -> None:
    both = {"advertiser": [[0, 1, 3]], "gross_amount": [[0, 2, 3]]}
    none = contract("b", station=None)
    found, odd = read(ad_buys, ad_buy_files(tmp_path, contract(spans=both), none))
    assert [span.label for span in found[0].spans] == ["advertiser"]
    assert odd[ad_buys.TWICE] == odd[ad_buys.NO_PROVIDER] == 1
    with pytest.raises(AnnotationError, match="'b' has no provider; expected a name"):
        providers.split(found)


def page_of_questions(folder: Path) -> Path:
    """Writes a page of SP-DocVQA with what OCR read of it, as both are published."""
    (folder / "ocr_results").mkdir(parents=True)
    (folder / "documents").mkdir()
    word = {"boundingBox": [10, 10, 50, 10, 50, 20, 10, 20], "text": "9/9/20", "confidence": "High"}
    line = {"boundingBox": word["boundingBox"], "text": "9/9/20", "words": [word]}
    result = {"page": 1, "width": 100, "height": 100, "unit": "pixel", "lines": [line]}
    ocr = {"status": "Succeeded", "recognitionResults": [result]}
    (folder / "ocr_results" / "x_1.json").write_text(json.dumps(ocr))
    Image.new("L", (100, 100), 255).save(folder / "documents" / "x_1.png")
    asked = [
        {"questionId": 7, "question": "When?", "image": "documents/x_1.png", "docId": 1,
         "answers": ["9/9/20", "9/9/20"], "data_split": "val"},
        {"questionId": 8, "question": "Who?", "image": "documents/x_1.png", "docId": 1,
         "answers": ["Moon"], "data_split": "val"},
        {"questionId": 9, "question": "Why?", "image": "documents/x_1.png", "docId": 1},
    ]  # fmt: skip
    (folder / "val_v1.0.json").write_text(json.dumps({"dataset_name": "docvqa", "data": asked}))
    return folder


def test_published_questions_find_their_words(tmp_path: Path) -> None:
    (item,), odd = read(sp_docvqa, page_of_questions(tmp_path / "set"))
    assert (item.document.id, item.provider) == ("x_1", None)
    assert [(q.question_id, q.answers, q.word_ids) for q in item.questions] == [
        ("7", ("9/9/20",), (0,)),
        ("8", ("Moon",), ()),
    ]
    assert item.document.pages[0].image == tmp_path / "set" / "documents" / "x_1.png"
    assert odd == {annotated_pages.NOWHERE: 1, annotated_pages.NO_ANSWERS: 1}
    labelled_files.dumps(item, folder=tmp_path)


def test_texts_with_questions_are_documents_without_pages(tmp_path: Path) -> None:
    path = tmp_path / "train.json.gz"
    asked = {"id": 3, "question": "When?", "answers": [{"text": "today", "answer_start": -1}]}
    path.write_bytes(gzip.compress(json.dumps([{"context": "due today", "qas": [asked]}]).encode()))
    (item,), odd = read(sp_docvqa, path)
    assert (item.document.text, item.document.pages) == ("due today", ())
    assert item.questions[0].answers == ("today",)
    assert odd == {}


def rows() -> list[dict[str, Any]]:
    """Returns a header and three rows about two images, as PFL-DocVQA's arrays hold them."""
    header = {"creation_time": 1.5, "version": "0.1", "dataset_type": "train", "splits": ["a"]}
    boxes = np.array([[0.1, 0.1, 0.3, 0.2], [0.4, 0.1, 0.6, 0.2]], dtype=np.float32)
    row = {"set_name": "train", "ocr_tokens": ["Total", "9.50"], "ocr_normalized_boxes": boxes}
    asked = [("a_1", "What is the total?", "9.50"), ("a_1", "Who?", "Moon"), ("b_1", "What?", "x")]
    return [
        header,
        *(
            row | {"image_name": image, "question": text, "answers": answer, "question_id": number}
            for number, (image, text, answer) in enumerate(asked)
        ),
    ]


def imdb(path: Path, content: Any) -> Path:
    np.save(path, np.array(content, dtype=object), allow_pickle=True)
    return path


def converted(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    imdb_arrays.convert(imdb(folder.with_suffix(".npy"), rows()), folder / "imdb_train.jsonl")
    return folder


def test_arrays_become_lines_whose_rows_have_their_providers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = tmp_path / "set", imdb(tmp_path / "imdb_train.npy", rows())
    folder.mkdir()
    assert main(["data", "convert-imdb", str(file), str(folder / "imdb_train.jsonl")]) == 0
    said = capsys.readouterr()
    assert "can run any program" in said.err
    assert "(3 rows)" in said.out
    points = {"client_0": {"Moon & Sons": [1, 2]}, "client_1": {"Sun": [3]}}
    (folder / "data_points.json").write_text(json.dumps(points))
    found, odd = read(pfl_docvqa, folder)
    assert [(item.document.id, item.provider) for item in found] == [
        ("a_1", "Moon & Sons"),
        ("b_1", "Sun"),
    ]
    assert [q.question_id for q in found[0].questions] == ["0", "1"]
    assert words_of(found[0], 0) == "9.50"
    assert found[0].document.pages[0].words[1].box.x0 == pytest.approx(400)
    assert odd == {annotated_pages.NOWHERE: 2}
    assert dataset.read(dataset.Source(location=str(folder / "imdb_train.jsonl"))) == found
    with pytest.raises(OutputExistsError):
        imdb_arrays.convert(file, folder / "imdb_train.jsonl")


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ({"Moon": [1], "Sun": [4]}, "'Sun' the row 4 of 3"),
        ({"Moon": [0]}, "the row 0 of 3"),
        ({"Moon": [1], "Sun": [1]}, "the row 1 to 'Moon' and to 'Sun'"),
        ({"Moon": [True]}, "a row is bool"),
        ({"Moon": 7}, "rows of Moon is int"),
        ([1], "the file is list"),
    ],
)
def test_providers_of_no_rows_are_refused(tmp_path: Path, points: Any, says: str) -> None:
    folder = converted(tmp_path / "set")
    (folder / "data_points.json").write_text(json.dumps(points))
    with pytest.raises(AnnotationError, match=says):
        read(pfl_docvqa, folder)


def test_an_image_of_two_providers_is_refused(tmp_path: Path) -> None:
    """With one of them less its page would move to the other's record: two records change."""
    folder = converted(tmp_path / "set")
    _, odd = read(pfl_docvqa, folder)
    assert odd[pfl_docvqa.NO_PROVIDER] == 2
    points = folder / "data_points.json"
    points.write_text(json.dumps({"Moon": [1, 3], "Sun": [2]}))
    with pytest.raises(AnnotationError, match="'Sun', and another row of its image is of 'Moon'"):
        read(pfl_docvqa, folder)
    points.write_text(json.dumps({"Moon": [3], "MOON.": [2]}))
    found, odd = read(pfl_docvqa, folder)
    assert [item.provider for item in found] == ["MOON.", "Moon"]
    assert pfl_docvqa.NO_PROVIDER not in odd


@pytest.mark.parametrize(
    ("protocol", "module"), [(3, "numpy.core.multiarray"), (3, "numpy._core.multiarray"), (4, "")]
)
def test_numbers_and_arrays_of_numpy_are_read(tmp_path: Path, protocol: int, module: str) -> None:
    """Old and new files: NumPy 2 has moved what arrays are made with."""
    given = rows()
    given[1]["ocr_normalized_boxes"] = [np.array([0.1, 0.1, 0.3, 0.2]), (0, 0, np.float32(0.5), 1)]
    given[2]["ocr_tokens"] = np.array(["Total", "9.50"])
    content = pickle.dumps(np.array(given, dtype=object), protocol=protocol)
    if module:
        own = np.zeros(1).__reduce__()[0].__module__
        content = content.replace(f"{own}\n".encode(), f"{module}\n".encode())
        assert f"{module}\n".encode() in content
    path = _raw(content)(tmp_path / "a.npy")
    imdb_arrays.convert(path, tmp_path / "a.jsonl")
    first, second = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()][
        1:3
    ]
    assert first["ocr_normalized_boxes"] == [[0.1, 0.1, 0.3, 0.2], [0.0, 0.0, 0.5, 1.0]]
    assert second["ocr_tokens"] == ["Total", "9.50"]


class Program:
    """An object whose pickle has a function called when it is loaded."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.called = (function, arguments)

    def __reduce__(self) -> Any:
        return self.called


def test_what_names_a_program_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    calls: list[Program] = [
        Program(os.system, f"touch {mark}"),
        Program(os.mkdir, str(mark)),
        Program(eval, f"open({str(mark)!r}, 'w')"),
        Program(getattr, "a", "upper"),
        Program(np.load, str(mark), None, True),
        Program(np.frombuffer, b"12345678"),
    ]
    for number, call in enumerate(calls):
        path = imdb(tmp_path / f"{number}.npy", [{}, call])
        with pytest.raises(
            AnnotationError, match="which an array of records does not need"
        ) as told:
            imdb_arrays.convert(path, tmp_path / "out.jsonl")
        assert told.value.code == "UNSAFE_FILE"
    assert not mark.exists()
    assert not (tmp_path / "out.jsonl").exists()


def _raw(content: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        head = imdb(path, [0, 0]).read_bytes()[:128]
        path.write_bytes(head + content)
        return path

    return write


def _empty_rows(path: Path) -> Path:
    """Returns a file whose array has a hundred million rows of no number."""
    row = {**rows()[1], "ocr_normalized_boxes": np.zeros((3, 0))}
    content = pickle.dumps(np.array([{}, row], dtype=object), protocol=3)
    assert content.count(b"K\x03K\x00") == 1
    many = content.replace(b"K\x03K\x00", b"J" + (10**8).to_bytes(4, "little") + b"K\x00")
    return _raw(many)(path)


MALFORMED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "dotted name": (_raw(b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93."), "dtype.__init__"),
    "numbers": (lambda path: (np.save(path, np.zeros(3)), path)[1], "float64 and 1 dimensions"),
    "two dimensions": (lambda path: imdb(path, [[{}, {}], [{}, {}]]), "2 dimensions"),
    "one row": (lambda path: imdb(path, [{}]), "no list of a header and rows"),
    "no pickle": (_raw(b"hello"), "can't be read as an array"),
    "cut": (_raw(pickle.dumps(np.array(rows(), dtype=object))[:-40]), "can't be read as an array"),
    "persistent": (_raw(b"\x80\x04\x8c\x01aQ."), "outside of the file"),
    "endless": (_raw(b"\x80\x04]\x94h\x00a."), "no list of a header and rows"),
    "empty rows": (_empty_rows, "row 1.*100000000, 0. has empty rows"),
    "not a record": (lambda path: imdb(path, [{}, "x"]), "row 1.*it is str, not a record"),
    "no words": (lambda path: imdb(path, [{}, {"question": "?"}]), "row 1"),
    "tokens": (
        lambda path: imdb(path, [{}, rows()[1] | {"ocr_tokens": [1, 2]}]),
        "ocr_tokens are no texts",
    ),
    "boxes": (
        lambda path: imdb(path, [{}, rows()[1] | {"ocr_normalized_boxes": [[1, 2, 3]]}]),
        "no four numbers",
    ),
    "not finite": (
        lambda path: imdb(
            path, [{}, rows()[1] | {"ocr_normalized_boxes": np.full((2, 4), np.nan)}]
        ),
        "no four numbers",
    ),
    "answers": (
        lambda path: imdb(path, [{}, rows()[1] | {"answers": {"a": 1}}]),
        "answers is dict",
    ),
    "times": (
        lambda path: imdb(
            path, [{}, rows()[1] | {"ocr_normalized_boxes": np.array(["2020"], "M8[D]")}]
        ),
        "not of numbers",
    ),
}


@pytest.mark.parametrize(("write", "says"), MALFORMED.values(), ids=MALFORMED)
def test_arrays_that_are_none_are_refused(
    tmp_path: Path, write: Callable[[Path], Path], says: str
) -> None:
    with pytest.raises(AnnotationError, match=says) as told:
        imdb_arrays.convert(write(tmp_path / "a.npy"), tmp_path / "out.jsonl")
    assert len(str(told.value)) < 1000
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_arrays_beyond_the_limits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = imdb(tmp_path / "a.npy", rows())
    for name, value in (("MAX_WORDS", 1), ("MAX_BYTES", 100)):
        monkeypatch.setattr(imdb_arrays, name, value)
        with pytest.raises(LimitExceededError):
            imdb_arrays.convert(path, tmp_path / "out.jsonl")


@pytest.mark.parametrize("corpus", ["adbuys", "pfldocvqa", "spdocvqa"])
def test_damaged_files_are_refused_or_sound(tmp_path: Path, corpus: str) -> None:
    folder = tmp_path / "set"
    if corpus == "adbuys":
        folder.mkdir()
        (folder / "train.jsonl").write_text(json.dumps(contract()))
        tally = survive(folder, ad_buys.read, number=60, seed=1)
    elif corpus == "pfldocvqa":
        converted(folder)
        (folder / "data_points.json").write_text(json.dumps({"Moon": [1, 2], "Sun": [3]}))
        tally = survive(folder, pfl_docvqa.read, number=60, seed=1)
    else:
        tally = survive(page_of_questions(folder), sp_docvqa.read, number=60, seed=1)
    assert tally.refused
    assert tally.read


def test_receipts_ask_by_the_keys_of_invented_ones(tmp_path: Path) -> None:
    entry = {
        "file_name": "images/a.jpg",
        "key": "a",
        "image_size": {"width": 100, "height": 100},
        "words": ["MOON STORES", "TOTAL 9.50", "CASH 9.50"],
        "bboxes": [[1, y, 90, y + 9] for y in (10, 30, 50)],
        "entities": {"company": "MOON STORES", "total": "9.50"},
    }
    (tmp_path / "metadata.jsonl").write_text(json.dumps(entry))
    (item,), _ = read(sroie, tmp_path)
    assert {asked.key: words_of(item, n) for n, asked in enumerate(item.questions)} == {
        "provider_name": "MOON STORES",
        "total": "9.50",
    }
    assert item.provider == "moonstores"
