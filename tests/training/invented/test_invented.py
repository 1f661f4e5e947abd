"""The generator of invented documents: same numbers, same bytes; boxes on ink; labels that hold."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hushdoc_processes import in_python
from hypothesis import given, settings
from hypothesis import strategies as st

from hushdoc import labelled_files
from hushdoc.document.document import Document
from hushdoc.errors import OutputExistsError
from hushdoc.labels import LabelledDocument, tags_from_spans
from hushdoc_training import invented
from hushdoc_training.invented import drawing, planning, providers

_CLEAN = {"misspelled": 0.0, "jitter_pixels": 0.0, "skew_degrees": 0.0}
_ALL = [
    (document_type, layout)
    for document_type, layouts in invented.LAYOUTS.items()
    for layout in layouts
]
_DEFAULT = [kind for kind in _ALL if kind[0] in invented.DOCUMENT_TYPES]

_DIGEST = """
import hashlib
from hushdoc import labelled_files
from hushdoc_training.invented import InventedConfig, planning, storage
digest = hashlib.sha256()
for index in range(5):
    made = planning.plan(seed=11, index=index, config=InventedConfig())
    digest.update(labelled_files.dumps(planning.labelled(made, "fields")).encode())
    digest.update(storage.png(made))
print(digest.hexdigest())
"""


def _config(document_type: str, layout: str, **others: object) -> invented.InventedConfig:
    return invented.InventedConfig(document_types=(document_type,), layouts=(layout,), **others)  # type: ignore[arg-type]


def _sample(count: int, **others: object) -> list[LabelledDocument]:
    config = invented.InventedConfig(**others)  # type: ignore[arg-type]
    return list(invented.documents(seed=3, count=count, config=config))


def test_same_numbers_give_the_same_bytes_in_every_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    elsewhere = in_python(_DIGEST, environment={"PYTHONHASHSEED": "77"})
    exec(_DIGEST, {})
    assert capsys.readouterr().out == elsewhere.stdout


def test_access_is_random() -> None:
    streamed = list(invented.documents(seed=5, start=40, count=6))
    alone = [invented.document(seed=5, index=index) for index in reversed(range(40, 46))]
    assert streamed == alone[::-1]


def test_other_numbers_give_other_documents() -> None:
    texts = {" ".join(word.text for word in item.document.pages[0].words) for item in _sample(100)}
    assert len(texts) == 100
    assert invented.document(seed=1, index=0) != invented.document(seed=2, index=0)


def test_labels_never_change_the_page() -> None:
    for index in range(20):
        fields, form = (
            invented.document(seed=9, index=index, config=invented.InventedConfig(labels=labels))
            for labels in ("fields", "form")
        )
        assert fields.document == form.document
        assert fields.questions == form.questions
        assert {span.label for span in fields.spans} <= set(invented.FIELD_LABELS)
        assert {span.label for span in form.spans} <= set(invented.FORM_LABELS)


def test_streaming_is_lazy_and_endless() -> None:
    stream = invented.documents(seed=1)
    first = list(itertools.islice(stream, 3))
    assert [item.document.id[-8:] for item in first] == ["00000000", "00000001", "00000002"]
    assert next(invented.documents(seed=1, start=10**12)).document.num_words > 0


@pytest.mark.parametrize("labels", ["fields", "form"])
@pytest.mark.parametrize(("document_type", "layout"), _ALL)
def test_every_layout_is_reached_and_sound(document_type: str, layout: str, labels: str) -> None:
    for index in range(3):
        config = _config(document_type, layout, labels=labels)
        made = planning.plan(seed=2, index=index, config=config)
        assert (made.document_type, made.layout) == (document_type, layout)
        _check(planning.labelled(made, config.labels))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**70), index=st.integers(0, 2**40))
def test_any_numbers_give_a_sound_document(seed: int, index: int) -> None:
    _check(invented.document(seed=seed, index=index))


def _check(item: LabelledDocument) -> None:
    item.document.check()
    page = item.document.pages[0]
    tags_from_spans(len(page.words), item.spans)
    segments = [word.segment for word in page.words]
    runs = [segment for segment, _ in itertools.groupby(segments)]
    assert len(runs) == len(set(runs)), "the words of a segment are neighbours"
    for span in item.spans:
        inside = set(segments[span.start : span.stop])
        if item.document_type == "till-receipt":  # its segments are lines
            assert inside == set(range(min(inside), max(inside) + 1))
            continue
        assert len(inside) == 1
        assert segments.count(inside.pop()) == span.stop - span.start
    for question in item.questions:
        assert question.word_ids
        assert question.answers[0] == " ".join(
            page.words[place].text for place in question.word_ids
        )
    assert all(word.text and not set(word.text) & set(" \n\t") for word in page.words)


def test_default_layouts_all_occur() -> None:
    config = invented.InventedConfig()
    found = {
        (made.document_type, made.layout)
        for made in (planning.plan(seed=4, index=index, config=config) for index in range(300))
    }
    assert found == set(_DEFAULT)


def test_there_are_enough_questions_and_words() -> None:
    items = _sample(150)
    assert sum(len(item.questions) for item in items) >= 3 * len(items)
    assert np.mean([item.document.num_words for item in items]) > 60
    assert len({question.text for item in items for question in item.questions}) > 300


def test_forms_have_the_mixture_that_forms_have() -> None:
    items = _sample(120, document_types=("form",), labels="form")
    words = {"header": 0, "question": 0, "answer": 0}
    total = sum(item.document.num_words for item in items)
    for item in items:
        for span in item.spans:
            words[span.label] += span.stop - span.start
    assert 0.02 < words["header"] / total < 0.15
    assert 0.15 < words["question"] / total < 0.5
    assert 0.25 < words["answer"] / total < 0.6
    vocabulary = {word.text for item in items for word in item.document.pages[0].words}
    assert len(vocabulary) > 5000


def test_providers_are_many_and_never_share_a_name() -> None:
    names = [providers.provider.__wrapped__(number).name for number in range(1500)]
    names += [providers.provider.__wrapped__(31_999 - number).name for number in range(500)]
    assert len(set(names)) == 2000
    assert len({name.upper() for name in names}) == 2000


def test_documents_keep_to_their_providers() -> None:
    public = _sample(60, providers=(0, 30))
    private = _sample(60, providers=(30, 60))
    known = {item.provider for item in public}
    assert not known & {item.provider for item in private}
    assert known <= {f"provider-{number:05d}" for number in range(30)}
    assert len(known) > 15


def test_a_provider_keeps_its_habits() -> None:
    config = invented.InventedConfig(
        document_types=("invoice",), providers=(12, 13), misspelled=0.0
    )
    made = [planning.plan(seed=1, index=index, config=config) for index in range(12)]
    names = {
        " ".join(
            ink.text
            for ink in item.sheet.inks
            if item.sheet.segments[ink.segment].field == "provider_name"
        ).split("  ")[0]
        for item in made
    }
    assert all(name.upper().startswith(made[0].provider.name.upper()) for name in names)


@pytest.mark.parametrize(("document_type", "layout"), [_DEFAULT[0], *_DEFAULT[5::3]])
def test_ink_lies_inside_the_boxes(document_type: str, layout: str) -> None:
    for index in range(2):
        made = planning.plan(seed=6, index=index, config=_config(document_type, layout, **_CLEAN))
        item = planning.labelled(made, "form")
        made.sheet.marks.clear()  # words alone: lines and bars are ink, but no words
        dark = np.asarray(drawing.draw(made, worn=False).convert("L")) < 160
        page = item.document.pages[0]
        assert dark.shape == (page.height, page.width)
        boxed = np.zeros_like(dark)
        by_segment = {ink.segment: ink.colour for ink in made.sheet.inks}
        for word in page.words:
            box = word.box
            x0, y0, x1, y1 = int(box.x0), int(box.y0), int(box.x1), int(box.y1)
            boxed[y0:y1, x0:x1] = True
            colour = by_segment[made.order[word.segment or 0]]
            if sum(colour) < 300 and word.text.isalnum():
                assert dark[y0:y1, x0:x1].any(), f"no ink in the box of '{word.text}'"
        assert (dark & ~boxed).sum() <= 0.004 * dark.sum()
        if made.scan.loose == 0 and not made.scan.level:
            _check_tight(dark, item)


def _check_tight(dark: np.ndarray, item: LabelledDocument) -> None:
    edges = [
        dark[int(box.y0) - 2 : int(box.y0), int(box.x0) : int(box.x1)].any()
        for box in (word.box for word in item.document.pages[0].words)
    ]
    assert np.mean(edges) < 0.1


def test_images_have_the_stated_size_and_depend_on_numbers_alone() -> None:
    for index in range(6):
        page = invented.document(seed=8, index=index).document.pages[0]
        first, second = (invented.image(seed=8, index=index) for _ in range(2))
        assert first.size == (page.width, page.height)
        assert first.tobytes() == second.tobytes()


def test_turned_pages_turn_their_boxes() -> None:
    still = _config("form", "memo", **_CLEAN)
    turned = _config("form", "memo", **{**_CLEAN, "skew_degrees": 3.0})
    for index in range(12):
        made = planning.plan(seed=6, index=index, config=turned)
        if abs(made.scan.degrees) < 1:
            continue
        dark = np.asarray(drawing.draw(made, worn=False).convert("L")) < 120
        item = planning.labelled(made, "form")
        for word in item.document.pages[0].words:
            box = word.box
            if len(word.text) > 3:
                assert dark[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)].any()
        assert item.document != invented.document(seed=6, index=index, config=still).document
        return
    pytest.fail("no page was turned")


def test_misspelled_words_keep_their_meant_answers() -> None:
    config = invented.InventedConfig(misspelled=0.3)
    answers = [
        question.answers
        for item in invented.documents(seed=1, count=30, config=config)
        for question in item.questions
    ]
    assert any(len(answer) == 2 and answer[0] != answer[1] for answer in answers)


def test_files_round_trip(tmp_path: Path) -> None:
    paths = invented.write(tmp_path / "docs", seed=4, count=5)
    for index, path in enumerate(paths):
        found, made = labelled_files.read_one(path), invented.document(seed=4, index=index)
        image = found.document.pages[0].image
        assert image == path.with_suffix(".png")
        assert image is not None
        assert image.is_file()
        assert labelled_files.dumps(found, folder=path.parent) == path.read_text("utf-8")
        plain = found.document.to_dict()
        plain["pages"][0]["image"] = None
        assert Document.from_dict(plain) == made.document
        assert (found.spans, found.questions) == (made.spans, made.questions)
        assert (found.document_type, found.provider) == (made.document_type, made.provider)
    with pytest.raises(OutputExistsError):
        invented.write(tmp_path / "docs", seed=4, count=1)


def test_files_without_images(tmp_path: Path) -> None:
    (path,) = invented.write(tmp_path / "docs", seed=4, count=1, start=7, images=False)
    assert labelled_files.read_one(path) == invented.document(seed=4, index=7)
    assert list(path.parent.glob("*.png")) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"document_types": ()},
        {"document_types": ("letter",)},
        {"providers": (5, 5)},
        {"providers": (0, invented.NUM_PROVIDERS + 1)},
        {"layouts": ("nowhere",)},
        {"labels": "both"},
        {"misspelled": 0.9},
        {"skew_degrees": 90.0},
    ],
)
def test_a_config_that_cannot_be_met_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        invented.InventedConfig(**wrong)  # type: ignore[arg-type]


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        invented.document(seed=-1, index=0)
