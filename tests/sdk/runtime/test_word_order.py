"""Models that read words in reading order, whatever order a document has them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import hushdoc_tiny as tiny
import numpy as np
import pytest
from hushdoc_documents import scrambled

from hushdoc.document.document import Document
from hushdoc.document.page import Word
from hushdoc.errors import ArtifactError
from hushdoc.reading import Source, with_segments
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.embedding import EmbeddingModel
from hushdoc.runtime.extraction import Extraction
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Runtime

ROWS = [
    ("Acme", "Ltd", "1", "High", "Street"),
    ("Date", "of", "issue", "2026-11-21"),
    ("Total", "12.50", "EUR", "due", "now"),
]
LEFT = ("the goods stay ours until", "they are paid in full by", "the buyer whose name stands")
RIGHT = ("all sums are due at once", "and no later than on the", "last day of this month")


def placed(lines: Sequence[tuple[float, float, Sequence[str]]]) -> Document:
    """Returns a page of lines (x, y, words), ten pixels a letter and twenty high."""
    words, boxes = [], []
    for x, y, texts in lines:
        for text in texts:
            words.append(text)
            boxes.append((x, y, x + 10 * len(text), y + 20))
            x += 10 * len(text) + 8
    return Document.from_words(words, boxes, width=1200, height=800, id="page")


def rows() -> Document:
    return placed([(40, 40 + 300 * number, words) for number, words in enumerate(ROWS)])


def columns() -> Document:
    left = [(40, 40 + 30 * number, line.split()) for number, line in enumerate(LEFT)]
    right = [(500, 40 + 30 * number, line.split()) for number, line in enumerate(RIGHT)]
    return placed([*left, *right])


def mapped(answer: Extraction, numbers: Sequence[int]) -> Extraction:
    """Returns the answer with other numbers for its words."""
    fields = tuple(
        replace(field, word_ids=tuple(numbers[index] for index in field.word_ids))
        for field in answer.fields
    )
    return replace(answer, fields=fields)


def kie(out: Path, **change: str) -> KIEModel:
    folder = tiny.resealed(out, settings=tiny.preprocessing(**change))
    return KIEModel.load(folder, policy=tiny.policy(), runtime=Runtime(threads=1))


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> KIEModel:
    return kie(tmp_path_factory.mktemp("reading") / "artifact", word_order="reading")


@pytest.fixture(scope="module")
def given() -> KIEModel:
    return KIEModel.load(tiny.sealed(), policy=tiny.policy(), runtime=Runtime(threads=1))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("asked", [rows(), columns()], ids=["rows", "columns"])
def test_scrambled_words_get_the_same_answer_by_their_own_numbers(
    reading: KIEModel, given: KIEModel, asked: Document, seed: int
) -> None:
    expected = given.extract(asked)  # these pages stand in reading order
    assert len(expected.fields) > 1
    assert any(len(field.word_ids) > 1 for field in expected.fields)
    assert reading.extract(asked) == expected
    moved, numbers = scrambled(asked, seed)
    answer = reading.extract(moved)
    assert mapped(answer, numbers) == expected
    words = moved.pages[0].words
    for field in answer.fields:
        assert field.text == " ".join(words[index].text for index in field.word_ids)


def test_a_model_of_given_words_does_not_sort_them(reading: KIEModel, given: KIEModel) -> None:
    moved, numbers = scrambled(columns())
    as_given = given.extract(moved)
    assert as_given.fields
    assert all(
        field.word_ids == tuple(range(field.word_ids[0], field.word_ids[-1] + 1))
        for field in as_given.fields
    )
    assert mapped(as_given, numbers) != given.extract(columns())
    assert as_given.fields != reading.extract(moved).fields


def test_every_page_has_an_order_of_its_own(reading: KIEModel) -> None:
    first, one = scrambled(rows(), 5)
    second, two = scrambled(columns(), 6)
    empty = replace(first.pages[0], words=())
    straight = replace(rows(), pages=(*rows().pages, empty, *columns().pages))
    moved = replace(straight, pages=(*first.pages, empty, *second.pages))
    found = {
        (field.page, tuple((one, [], two)[field.page][index] for index in field.word_ids))
        for field in reading.extract(moved).fields
    }
    assert found == {(field.page, field.word_ids) for field in reading.extract(straight).fields}
    assert {page for page, _ in found} == {0, 2}


def test_long_pages_are_read_in_windows_of_sorted_words(reading: KIEModel) -> None:
    asked = placed([(40, 10 + 3 * number, ROWS[number % 3]) for number in range(0, 260, 10)])
    moved, numbers = scrambled(asked)
    answer = reading.extract(asked)
    assert len(reading._encoder.encode(asked.pages[0]).ids) > 3 * 64
    assert mapped(reading.extract(moved), numbers) == answer


def test_words_that_were_not_read_are_named_by_their_own_numbers(reading: KIEModel) -> None:
    (page,) = rows().pages
    words = list(page.words)
    words[3] = replace(words[3], text="\u200b")
    words[7] = replace(words[7], text="x" * 90)
    asked = replace(rows(), pages=(replace(page, words=tuple(words)),))
    moved, numbers = scrambled(asked)
    no_token, cut = reading.extract(moved).warnings
    assert f"no token for 1 word ({numbers.index(3)})" in no_token
    assert f"1 word ({numbers.index(7)}) exceed" in cut


def test_segments_stay_with_their_words(tmp_path: Path) -> None:
    model = kie(tmp_path / "artifact", word_order="reading", box_level="segment")
    asked = with_segments(columns())
    moved, numbers = scrambled(asked)
    answer = model.extract(asked)
    assert answer.warnings == ()
    assert mapped(model.extract(moved), numbers) == answer
    bare, numbers = scrambled(columns())
    found = model.extract(bare)
    assert mapped(found, numbers).fields == answer.fields
    assert "lines were found" in found.warnings[0]


def test_an_unknown_order_is_refused(tmp_path: Path) -> None:
    settings = tiny.preprocessing()
    # A frozen dataclass checks what is passed to it, not what a wrong exporter wrote.
    object.__setattr__(settings, "word_order", "by-size")
    folder = tiny.resealed(tmp_path / "artifact", settings=settings)
    with pytest.raises(ArtifactError, match="word_order is 'by-size'"):
        KIEModel.load(folder, policy=tiny.policy())


def test_layout_classifiers_sort_too(tmp_path: Path) -> None:
    tiny_models = pytest.importorskip("hushdoc_tiny_models")
    models = {}
    for order in ("given", "reading"):
        settings = {"overlap": 0, "word_order": order}
        folder = tiny_models.export_classifier(
            tmp_path / order, "layout", tiny.release(), **settings
        )
        models[order] = ClassificationModel.load(folder, policy=tiny.policy())
    source = Source(reader="pdf")
    asked, (moved, _) = replace(rows(), source=source), scrambled(rows())
    expected = models["given"].classify(asked, top_k=3)
    assert models["reading"].classify(replace(moved, source=source), top_k=3) == expected
    assert models["given"].classify(moved, top_k=3).scores != expected.scores
    assert expected.to_dict()["source"] == source.to_dict()


def test_embeddings_sort_too(tmp_path: Path) -> None:
    tiny_models = pytest.importorskip("hushdoc_tiny_models")
    folder = tiny_models.export_encoder(tmp_path / "artifact", overlap=0, word_order="reading")
    model = EmbeddingModel.load(folder, policy=tiny.policy())
    moved, _ = scrambled(rows())
    source = Source(reader="hocr")
    answer = model.embed(replace(moved, source=source))
    assert np.array_equal(answer.vector, model.embed(rows()).vector)
    assert answer.to_dict()["source"] == source.to_dict()
    assert model.embed_texts(["a"]).source is None
    other = Word(text="b", box=rows().pages[0].words[0].box)
    page = replace(rows().pages[0], words=(other, *rows().pages[0].words[1:]))
    changed = model.embed(replace(rows(), pages=(page,)))
    assert not np.array_equal(answer.vector, changed.vector)
