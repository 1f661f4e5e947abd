"""Words, boxes and images of annotations: what is odd is put right and counted."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from hushdoc.document.document import Document
from hushdoc.document.page import Word
from hushdoc.errors import (
    AnnotationError,
    BoxError,
    EmptyDocumentError,
    InputError,
    UnsupportedFormatError,
)
from hushdoc.labels import LabelledDocument
from hushdoc_training.data import annotated_pages, dataset, json_lines, sroie
from hushdoc_training.data.corpus import Problems


def read(text: object, corners: list[object]) -> tuple[Word | None, list[str]]:
    problems = Problems()
    word = annotated_pages.word(
        text, corners, size=(100, 50), segment=None, where="a.json, word 3", problems=problems
    )
    return word, list(problems.counts)


@pytest.mark.parametrize(
    ("text", "corners", "expected", "problem"),
    [
        (" Total ", [1, 2, 30, 12], ("Total", [1, 2, 30, 12]), None),
        ("Total", [30, 12, 1, 2], ("Total", [1, 2, 30, 12]), annotated_pages.SWAPPED),
        ("Total", [-5, 2, 30, 12], ("Total", [0, 2, 30, 12]), annotated_pages.CUT),
        ("Total", [60, 40, 130, 61], ("Total", [60, 40, 100, 50]), annotated_pages.CUT),
        ("Total", [101, 2, 130, 12], None, annotated_pages.OFF),
        ("Total", [1, -20, 30, -12], None, annotated_pages.OFF),
        ("Total", [4, 4, 4, 4], ("Total", [4, 4, 4, 4]), None),
        ("", [1, 2, 30, 12], None, annotated_pages.NO_TEXT),
        (" \u3000\n", [1, 2, 30, 12], None, annotated_pages.NO_TEXT),
        ("To\x00t\x9dal", [1, 2, 30, 12], ("Total", [1, 2, 30, 12]), annotated_pages.CONTROL),
        ("\ud83dx", [1, 2, 30, 12], ("x", [1, 2, 30, 12]), annotated_pages.CONTROL),
        ("12 \t50\r\nEUR", [1, 2, 30, 12], ("12 50 EUR", [1, 2, 30, 12]), annotated_pages.BROKEN),
        ("12\xa0345", [1, 2, 30, 12], ("12\xa0345", [1, 2, 30, 12]), None),
    ],
)
def test_what_is_odd_is_put_right_and_counted(
    text: str, corners: list[object], expected: tuple[str, list[float]] | None, problem: str | None
) -> None:
    word, problems = read(text, corners)
    assert (None if word is None else (word.text, word.box.to_list())) == expected
    assert problems == ([] if problem is None else [problem])


@pytest.mark.parametrize(
    ("text", "corners", "error"),
    [
        (7, [1, 2, 3, 4], AnnotationError),
        ("a", [1, 2, 3], AnnotationError),
        ("a", [1, 2, 3, "4"], AnnotationError),
        ("a", [1, 2, 3, True], AnnotationError),
        ("a", [1, 2, 3, 10**400], AnnotationError),
        ("a", None, AnnotationError),
        ("a", [1, 2, 3, math.nan], BoxError),
        ("a", [-math.inf, 2, 3, 4], BoxError),
    ],
)
def test_what_no_corpus_holds_is_refused(
    text: object, corners: list[object], error: type[InputError]
) -> None:
    with pytest.raises(error, match=r"a\.json, word 3"):
        read(text, corners)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 5000 + b"1"])
def test_damaged_json_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(AnnotationError, match=r"a\.json"):
        annotated_pages.load(tmp_path / "a.json")
    with pytest.raises(AnnotationError, match=r"b\.json.*missing"):
        annotated_pages.load(tmp_path / "b.json")


def test_an_image_is_measured_as_it_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    Image.new("RGB", (40, 20)).save(path, exif=exif)
    assert annotated_pages.image_size(path, of="a.json") == (20, 40)
    assert annotated_pages.image_size(path.read_bytes(), of="a.json") == (20, 40)
    problems = Problems()
    for size, used in (((20, 40), path), ((40, 20), None)):
        found = annotated_pages.fitting_image(path, size, where="a.json", problems=problems)
        assert found == used
    assert problems.counts == {annotated_pages.OTHER_IMAGE: 1}


def test_damaged_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"a\.png.*a\.json.*missing"):
        annotated_pages.image_size(tmp_path / "a.png", of="a.json")
    (tmp_path / "a.png").write_bytes(b"\x89PNG no more")
    with pytest.raises(UnsupportedFormatError, match=r"a\.png"):
        annotated_pages.image_size(tmp_path / "a.png", of="a.json")


def test_two_documents_of_one_id_are_refused() -> None:
    document = Document.from_words(["a"], [(1, 1, 2, 2)], width=9, height=9, id="twice")
    labelled = LabelledDocument(document=document, spans=())
    with pytest.raises(AnnotationError, match="twice"):
        list(annotated_pages.some([labelled, None, labelled], Path("corpus")))


@pytest.mark.parametrize("value", ["", " ", 7, None, "a\nb", "\ud800", "a\u2028"])
def test_names_can_be_printed(value: object) -> None:
    with pytest.raises(AnnotationError, match="id in a") as caught:
        annotated_pages.name(value, where="id in a")
    assert str(caught.value).isprintable()


def test_a_corpus_without_words_is_refused() -> None:
    with pytest.raises(EmptyDocumentError, match="corpus"):
        list(annotated_pages.some([None, None], Path("corpus")))


@pytest.mark.parametrize("sides", [(0, 9), (9, -1), (9.5, 9), ("9", 9), (True, 9)])
def test_page_sizes_are_integers(sides: tuple[object, object]) -> None:
    with pytest.raises(AnnotationError, match=r"a\.json"):
        annotated_pages.page_size(*sides, where="a.json")


def of_a_sroie_folder(path: Path) -> None:
    for name in ("box", "key", "img"):
        (path.parent / name).mkdir()
    Image.new("RGB", (9, 9)).save(path.parent / "img/a.jpg")
    (path.parent / "key/a.txt").write_text("{}")
    path.rename(path.parent / "box/a.txt")
    list(sroie.read(path.parent, Problems()))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
@pytest.mark.parametrize("read", [annotated_pages.load, json_lines.content, of_a_sroie_folder])
def test_a_pipe_among_annotations_is_never_waited_for(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    pipe = tmp_path / "a.json"
    os.mkfifo(pipe)
    kept = os.open(pipe, os.O_RDWR)  # a writer that writes nothing
    giving_up = threading.Timer(10, os.close, [kept])
    giving_up.start()
    with pytest.raises(AnnotationError) as caught:
        read(pipe)
    assert giving_up.is_alive()
    giving_up.cancel()
    os.close(kept)
    assert caught.value.code == "BAD_ANNOTATION"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_folder_with_a_pipe_in_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    os.mkfifo(tmp_path / "annotations/a.json")
    os.mkfifo(tmp_path / "b.jsonl")
    for path in (tmp_path, tmp_path / "b.jsonl"):
        with pytest.raises(AnnotationError, match="no reader of documents knows"):
            dataset.corpus_of(path)
