from __future__ import annotations

import json
import os
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
    HushdocError,
)
from hushdoc.labels import LabelledDocument, tags_from_spans
from hushdoc_training.data import annotated_pages, dataset, form_entities, funsd
from hushdoc_training.data.corpus import Problems

Edit = Callable[[dict[str, Any]], Any]


def entity(label: str, *words: tuple[str, list[int]], linked: bool = True) -> dict[str, Any]:
    read = [{"text": text, "box": box} for text, box in words]
    return {"label": label, "words": read, "linking": [[0, 1]] if linked else []}


def form() -> dict[str, Any]:
    entities = [
        entity("question", ("Date:", [10, 10, 40, 20])),
        entity(
            "answer", ("9", [50, 10, 58, 20]), (" ", [58, 10, 60, 20]), ("May", [60, 10, 90, 20])
        ),
        entity("other", ("page 1", [10, 90, 60, 99]), linked=False),
    ]
    return {"form": [{"id": number, **item} for number, item in enumerate(entities)]}


def write(folder: Path, content: Any, *, image: bool = True) -> Path:
    (folder / "annotations").mkdir(parents=True)
    (folder / "images").mkdir()
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "annotations" / "a.json").write_text(text)
    if image:
        Image.new("L", (100, 100), 255).save(folder / "images" / "a.png")
    return folder


def read(path: Path) -> tuple[list[LabelledDocument], Problems]:
    problems = Problems()
    return list(funsd.read(path, problems)), problems


def test_reads_words_spans_segments_and_questions(tmp_path: Path) -> None:
    (labelled,), problems = read(write(tmp_path / "set", form()))
    assert problems.counts == {annotated_pages.NO_TEXT: 1}
    page = labelled.document.pages[0]
    assert [word.text for word in page.words] == ["Date:", "9", "May", "page 1"]
    assert [word.segment for word in page.words] == [0, 1, 1, 2]
    assert [(span.start, span.stop, span.label) for span in labelled.spans] == [
        (0, 1, "question"),
        (1, 3, "answer"),
    ]
    (question,) = labelled.questions
    assert question.text == "What is the Date?"
    assert question.answers == ("9 May",)
    assert question.word_ids == (1, 2)


def edit(path: tuple[Any, ...], value: Any) -> Edit:
    def apply(data: dict[str, Any]) -> Any:
        at(data, path[:-1])[path[-1]] = value
        return data

    return apply


FIRST_BOX = ("form", 0, "words", 0, "box")
HOSTILE: list[tuple[str, Edit, type[HushdocError], str]] = [
    ("not an object", lambda _: [1], AnnotationError, "no list 'form'"),
    ("broken JSON", lambda _: '{"form": [', AnnotationError, "can't be read"),
    ("label a number", edit(("form", 1, "label"), 7), AnnotationError, "entity 1"),
    ("blank label", edit(("form", 1, "label"), " "), AnnotationError, "entity 1"),
    ("no label", lambda d: (d["form"][0].pop("label"), d)[1], AnnotationError, "None"),
    ("words missing", lambda d: (d["form"][2].pop("words"), d)[1], AnnotationError, "entity 2"),
    ("entity a string", edit(("form", 0), "Date"), AnnotationError, "expected an object"),
    ("box missing", lambda d: (d["form"][0]["words"][0].pop("box"), d)[1], AnnotationError, "box"),
    ("three numbers", edit(FIRST_BOX, [1, 2, 3]), AnnotationError, "malformed"),
    ("a text for a number", edit(FIRST_BOX, ["1", 2, 3, 4]), AnnotationError, "malformed"),
    ("text a number", edit(("form", 0, "words", 0, "text"), 7), AnnotationError, "int"),
    ("links malformed", edit(("form", 0, "linking"), [[0]]), AnnotationError, "links"),
    ("NaN box", edit(FIRST_BOX, [float("nan"), 0, 5, 5]), BoxError, "finite"),
]


@pytest.mark.parametrize(
    ("change", "expected", "says"), [case[1:] for case in HOSTILE], ids=[c[0] for c in HOSTILE]
)
def test_malformed_annotations_are_named(
    tmp_path: Path, change: Edit, expected: type[HushdocError], says: str
) -> None:
    with pytest.raises(expected, match=says) as caught:
        read(write(tmp_path / "set", change(form())))
    assert "a.json" in str(caught.value)


ODD: list[tuple[str, Edit, str]] = [
    ("box outside", edit(FIRST_BOX, [10, 10, 101, 20]), annotated_pages.CUT),
    ("negative box", edit(FIRST_BOX, [-1, 10, 40, 20]), annotated_pages.CUT),
    ("box off the page", edit(FIRST_BOX, [110, 10, 140, 20]), annotated_pages.OFF),
    ("swapped box", edit(FIRST_BOX, [40, 10, 10, 20]), annotated_pages.SWAPPED),
    ("own label", edit(("form", 1, "label"), "total"), annotated_pages.OTHER_LABEL),
    ("blank entity", edit(("form", 2, "words"), []), form_entities.EMPTY),
    ("lost link", edit(("form", 2, "linking"), [[2, 7]]), form_entities.LOST_LINK),
    ("same id", edit(("form", 2, "id"), 0), form_entities.SAME_ID),
]


@pytest.mark.parametrize(
    ("change", "problem"), [case[1:] for case in ODD], ids=[case[0] for case in ODD]
)
def test_odd_annotations_are_read_and_counted(tmp_path: Path, change: Edit, problem: str) -> None:
    (labelled,), problems = read(write(tmp_path / "set", change(form())))
    assert problems.counts[problem] == 1
    page = labelled.document.pages[0]
    assert "May" in [word.text for word in page.words]
    tags_from_spans(len(page.words), labelled.spans)


def test_labels_of_ones_own_are_kept(tmp_path: Path) -> None:
    change = edit(("form", 1, "label"), "total")
    (labelled,), _ = read(write(tmp_path / "set", change(form())))
    assert [span.label for span in labelled.spans] == ["question", "total"]


def test_forms_without_words_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", {"form": []})
    with pytest.raises(EmptyDocumentError, match="No document"):
        read(folder)
    (folder / "annotations" / "b.json").write_text(json.dumps(form()))
    Image.new("L", (100, 100), 255).save(folder / "images" / "b.png")
    (labelled,), problems = read(folder)
    assert labelled.document.id == "b"
    assert problems.counts[annotated_pages.NO_WORDS] == 1


def test_the_training_forms_of_the_root_are_read(tmp_path: Path) -> None:
    write(tmp_path / "training_data", form())
    write(tmp_path / "testing_data", {"form": []})
    assert dataset.corpus_of(tmp_path) is funsd.CORPUS
    assert len(read(tmp_path)[0]) == 1
    assert not funsd.recognises(tmp_path / "training_data" / "images")
    assert not funsd.recognises(write(tmp_path / "other", {"shapes": []}))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="not a FUNSD data set"):
        read(tmp_path)
    with pytest.raises(AnnotationError, match=r"a\.png"):
        read(write(tmp_path / "set", form(), image=False))
    (tmp_path / "empty" / "annotations").mkdir(parents=True)
    with pytest.raises(AnnotationError, match=r"no \.json file"):
        read(tmp_path / "empty")


def test_real_forms_have_their_published_counts() -> None:
    path = Path(os.environ.get("HUSHDOC_FUNSD", ""))
    if not os.environ.get("HUSHDOC_FUNSD") or not path.is_dir():
        pytest.skip("set HUSHDOC_FUNSD to the folder of FUNSD's training forms")
    forms, problems = read(path)
    assert len(forms) == 149
    for labelled in forms:
        page = labelled.document.pages[0]
        tags_from_spans(len(page.words), labelled.spans)
    labels = [span.label for labelled in forms for span in labelled.spans]
    # Published: 3,266 questions, 2,802 answers, 441 headers; some entities hold no text at all.
    assert 3200 <= labels.count("question") <= 3266
    assert 2500 <= labels.count("answer") <= 2802
    assert 430 <= labels.count("header") <= 441
    # Boxes are sound in all of them; blank areas were annotated too.
    assert set(problems.counts) == {
        annotated_pages.NO_TEXT,
        form_entities.EMPTY,
        form_entities.LOST_LINK,
    }


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_read(tmp_path: Path, number: int) -> None:
    folder = write(tmp_path / "set", form())
    tally = survive(folder, funsd.read, number=number, seed=23)
    assert tally.refused["BAD_ANNOTATION"] > number / 10
    assert tally.read > number / 20
    assert tally.problems
