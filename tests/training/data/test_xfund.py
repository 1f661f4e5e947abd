"""XFUND from invented files in exactly the published format, in every language."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mutated_files import survive
from PIL import Image

from hushdoc.errors import AnnotationError, EmptyDocumentError, InputError
from hushdoc.labels import LabelledDocument, tags_from_spans
from hushdoc_training.data import annotated_pages, dataset, form_entities, xfund
from hushdoc_training.data.corpus import Problems

KEYS = {
    "de": ("Straße:", "Am Hügel 3"),
    "es": ("Dirección:", "Calle Mayor 3"),
    "fr": ("Prénom :", "Zoé"),
    "it": ("Città:", "Forlì"),
    "ja": ("氏名：", "山田太郎"),
    "pt": ("Endereço:", "Rua São João"),
    "zh": ("姓名：", "王小明"),
}
BLANK = {"box": [0, 0, 0, 0], "text": "", "label": "other", "words": [], "linking": [], "id": 9}


def entity(number: int, label: str, text: str, parts: list[str], top: int) -> dict[str, Any]:
    words = [
        {"box": [10 + 40 * index, top, 40 + 40 * index, top + 20], "text": part}
        for index, part in enumerate(parts)
    ]
    box = [10, top, 40 * len(parts), top + 20]
    linking = [[0, 1]] if label != "other" else []
    return dict(box=box, text=text, label=label, words=words, linking=linking, id=number)


def form(language: str, identity: str) -> dict[str, Any]:
    key, value = KEYS[language]
    cut = list if language in xfund.WITHOUT_SPACES else str.split
    return {
        "id": identity,
        "uid": "0ac15750a098682aa02b51555f7c49ff43adc0436c325548ba8dba560cde4e7e",
        "document": [
            entity(0, "question", key, cut(key), 10),
            entity(1, "answer", value, cut(value), 40),
            entity(2, "other", "§", ["§"], 70),
            BLANK,
        ],
        "img": {"fname": f"{identity}.jpg", "width": 248, "height": 350},
    }


def write(folder: Path, language: str = "de", split: str = "train", **changed: Any) -> Path:
    documents = [form(language, f"{language}_{split}_{number}") for number in (0, 1, 10)]
    data = {"lang": language, "version": "0.1", "split": split, "documents": documents, **changed}
    path = folder / f"{language}.{split}.json"
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path


def read(path: Path) -> tuple[list[LabelledDocument], Problems]:
    problems = Problems()
    return list(xfund.read(path, problems)), problems


@pytest.mark.parametrize("language", xfund.LANGUAGES)
def test_every_language_is_read(language: str, tmp_path: Path) -> None:
    path = write(tmp_path, language)
    assert dataset.corpus_of(path) is xfund.CORPUS
    found, _ = read(path)
    assert [item.document.id for item in found] == [f"{language}_train_{n}" for n in (0, 1, 10)]
    page = found[0].document.pages[0]
    tags_from_spans(len(page.words), found[0].spans)
    key, value = KEYS[language]
    (question,) = found[0].questions
    assert question.text == f"What is the {key.rstrip(' :：')}?"
    assert question.answers == (value,)
    assert [word.text for word in page.words if word.segment == 1] == (
        list(value) if language in ("zh", "ja") else value.split()
    )
    assert [span.label for span in found[0].spans] == ["question", "answer"]


def test_the_schema_is_that_of_the_paper() -> None:
    assert len(xfund.CORPUS.labels.fields) + 1 == 4  # with "other"


def test_images_are_found_beside_the_file_or_in_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "de.train").mkdir()
    Image.new("L", (248, 350)).save(tmp_path / "de_train_0.jpg")
    Image.new("L", (248, 350)).save(tmp_path / "de.train" / "de_train_1.jpg")
    Image.new("L", (350, 248)).save(tmp_path / "de.train" / "de_train_10.jpg")
    found, problems = read(path)
    assert [item.document.pages[0].image for item in found] == [
        tmp_path / "de_train_0.jpg",
        tmp_path / "de.train" / "de_train_1.jpg",
        None,
    ]
    assert problems.counts == {annotated_pages.OTHER_IMAGE: 1, form_entities.EMPTY: 3}


def test_a_folder_gives_the_training_files_of_all_languages(tmp_path: Path) -> None:
    assert not xfund.recognises(tmp_path)
    for language, split in (("zh", "train"), ("de", "train"), ("de", "val")):
        write(tmp_path, language, split)
    assert dataset.corpus_of(tmp_path) is xfund.CORPUS
    found, problems = read(tmp_path)
    assert [item.document.id[:8] for item in found] == ["de_train"] * 3 + ["zh_train"] * 3
    assert problems.counts == {annotated_pages.NO_IMAGE: 6, form_entities.EMPTY: 6}


def test_a_file_of_another_name_is_known_by_its_content(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert xfund.recognises(path.rename(tmp_path / "forms.json"))
    (tmp_path / "other.json").write_text('{"form": []}')
    assert not xfund.recognises(tmp_path / "other.json")
    assert not xfund.recognises(tmp_path / "missing.json")


Edit = Callable[[dict[str, Any]], Any]
ODD: list[tuple[str, Edit, str]] = [
    (
        "box over the edge",
        lambda f: f["document"][1]["words"][0].update(box=[10, 40, 260, 60]),
        annotated_pages.CUT,
    ),
    (
        "negative box",
        lambda f: f["document"][1]["words"][0].update(box=[-3, 40, 26, 60]),
        annotated_pages.CUT,
    ),
    (
        "control character",
        lambda f: f["document"][1]["words"][0].update(text="A\u0085m"),
        annotated_pages.CONTROL,
    ),
    (
        "own label",
        lambda f: f["document"][1].update(label="Betrag"),
        annotated_pages.OTHER_LABEL,
    ),
]


@pytest.mark.parametrize(
    ("change", "problem"), [case[1:] for case in ODD], ids=[case[0] for case in ODD]
)
def test_odd_forms_are_read_and_counted(tmp_path: Path, change: Edit, problem: str) -> None:
    data = form("de", "de_train_0")
    change(data)
    (labelled,), problems = read(write(tmp_path, documents=[data]))
    assert problems.counts[problem] == 1
    assert [word.text for word in labelled.document.pages[0].words][1:] == ["Am", "Hügel", "3", "§"]


HOSTILE: list[tuple[str, Edit, str]] = [
    ("no id", lambda f: f.pop("id"), "id"),
    ("id a list", lambda f: f.update(id=[1]), "name"),
    ("id of a line break", lambda f: f.update(id="a\nb"), "name"),
    ("no image", lambda f: f.pop("img"), "img"),
    ("no width", lambda f: f["img"].pop("width"), "width"),
    ("width a text", lambda f: f["img"].update(width="248"), "pixels"),
    ("file name a number", lambda f: f["img"].update(fname=7), "fname"),
    ("entities an object", lambda f: f.update(document={}), "document"),
    ("no words", lambda f: f["document"][0].pop("words"), "words"),
    ("links", lambda f: f["document"][0].update(linking=[[0]]), "links"),
]


@pytest.mark.parametrize(
    ("change", "says"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_malformed_forms_are_named(tmp_path: Path, change: Edit, says: str) -> None:
    data = form("de", "de_train_0")
    change(data)
    with pytest.raises(InputError, match=says) as caught:
        read(write(tmp_path, documents=[data]))
    assert "de.train.json" in str(caught.value)


def test_names_of_images_reach_no_other_folder(tmp_path: Path) -> None:
    Image.new("L", (248, 350)).save(tmp_path / "secret.jpg")
    (tmp_path / "set").mkdir()
    data = form("de", "de_train_0")
    data["img"]["fname"] = "../secret.jpg"
    (labelled,), _ = read(write(tmp_path / "set", documents=[data]))
    assert labelled.document.pages[0].image is None


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "de.train.json"
    for content, says in (("[]", "no list 'documents'"), ("{", "can't be read")):
        path.write_text(content)
        with pytest.raises(AnnotationError, match=says):
            read(path)
    with pytest.raises(EmptyDocumentError):
        read(write(tmp_path, documents=[]))
    with pytest.raises(AnnotationError, match="not XFUND"):
        read(tmp_path / "missing")


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_read(tmp_path: Path, number: int) -> None:
    write(tmp_path)
    write(tmp_path, "zh")
    tally = survive(tmp_path, xfund.read, number=number, seed=23)
    assert tally.refused["BAD_ANNOTATION"] > number / 10
    assert tally.read > number / 20
    assert tally.problems
