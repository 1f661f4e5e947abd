"""Labelled documents in a model's order of words: no word, label or tag is lost on the way."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hushdoc.document.document import Document
from hushdoc.labels import LabelledDocument, Question, Span, tags_from_spans
from hushdoc.reading import reading_order
from hushdoc.runtime.encoding import Encoder, Preprocessing, laid_out
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.recipes.kie import records as ordering
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.epochs import shuffled_windows
from hushdoc_training.recipes.kie.records import Window, records_of

READING = Preprocessing(word_order="reading", cls_id=2, sep_id=3, pad_id=0)
GIVEN = replace(READING, word_order="given")


def scrambled(labelled: LabelledDocument, seed: int) -> LabelledDocument:
    """Returns the document with its fields, and the words between them, in another order."""
    (page,) = labelled.document.pages
    inside = {w for span in labelled.spans for w in range(span.start + 1, span.stop)}
    starts = [index for index in range(len(page.words)) if index not in inside]
    blocks = [
        range(start, stop)
        for start, stop in zip(starts, [*starts[1:], len(page.words)], strict=True)
    ]
    random.Random(seed).shuffle(blocks)
    order = [index for block in blocks for index in block]
    moved = {old: new for new, old in enumerate(order)}
    words = tuple(page.words[index] for index in order)
    return replace(
        labelled,
        document=replace(labelled.document, pages=(replace(page, words=words),)),
        spans=tuple(
            replace(span, start=moved[span.start], stop=moved[span.start] + span.stop - span.start)
            for span in labelled.spans
        ),
    )


def tagged(labelled: LabelledDocument) -> set[tuple[str, tuple[float, ...], str]]:
    """Returns every word with its box and its label."""
    (page,) = labelled.document.pages
    tags = tags_from_spans(len(page.words), labelled.spans)
    return {
        (word.text, tuple(word.box.to_list()), tag.partition("-")[2])
        for word, tag in zip(page.words, tags, strict=True)
    }


def test_given_words_stay(receipts: list[LabelledDocument]) -> None:
    assert ordering.in_order(receipts, GIVEN) == receipts


def test_pages_without_segments_have_the_lines_that_run_time_finds(
    receipts: list[LabelledDocument],
) -> None:
    """A model of segments reads boxes of lines of every document, in training as in use."""
    segments = replace(GIVEN, box_level="segment")
    for labelled in receipts:
        (page,) = labelled.document.pages
        bare = replace(page, words=tuple(replace(word, segment=None) for word in page.words))
        document = replace(labelled.document, pages=(bare,))
        (ordered,) = ordering.in_order([replace(labelled, document=document)], segments)
        used, warnings = laid_out(document, segments)
        assert warnings
        assert ordered == replace(labelled, document=used)
        assert ordered.document.pages[0].segment_boxes() != [word.box for word in bare.words]
    assert ordering.in_order(receipts, segments) == receipts


def test_where_windows_are_protected_a_segment_tells_of_no_other_window(
    small_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    """Its box was around all its words, wherever the windows of the page were cut."""
    settings = replace(small_start.preprocessing, box_level="segment", max_tokens=16, overlap=0)
    encoder = Encoder(small_start.tokenizer_json, settings)
    (page,) = receipts[0].document.pages
    one_segment = replace(page, words=tuple(replace(word, segment=0) for word in page.words))

    def boxes(words: int, unit: str) -> list[list[list[int]]]:
        """Returns those of each window of the page's first words."""
        shorter = replace(one_segment, words=one_segment.words[:words])
        document = replace(receipts[0].document, pages=(shorter,))
        labelled = LabelledDocument(document=document, spans=())
        found = records_of([labelled], encoder, small_start.labels, unit=unit)
        return [
            window.page.boxes[window.start : window.stop].tolist()
            for record in found
            for window in record
        ]

    whole = boxes(len(page.words), "sequence")
    assert len(whole) > 3
    for words in range(1, len(page.words)):
        shorter = boxes(words, "sequence")
        assert shorter[:-1] == whole[: len(shorter) - 1]
    assert len({tuple(box) for window in whole for box in window}) == len(whole)
    together = boxes(len(page.words), "document")
    assert len({tuple(box) for window in together for box in window}) == 1


def test_labels_move_with_their_words(receipts: list[LabelledDocument]) -> None:
    for labelled in receipts:
        other = scrambled(labelled, 3)
        assert other != labelled
        (ordered,), (again,) = (ordering.in_order([item], READING) for item in (labelled, other))
        assert ordered.document == again.document
        assert sorted(ordered.spans) == sorted(again.spans)
        assert tagged(ordered) == tagged(labelled)
        words = ordered.document.pages[0].words
        assert reading_order(ordered.document.pages[0]) == tuple(range(len(words)))
        assert ordering.in_order([ordered], READING) == [ordered]


def test_a_field_that_others_tear_apart_becomes_its_parts() -> None:
    document = Document.from_words(
        ["below", "left", "right", "middle"],
        [(10, 50, 60, 70), (10, 10, 60, 30), (130, 10, 180, 30), (70, 10, 120, 30)],
        width=200,
        height=100,
    )
    labelled = LabelledDocument(
        document=document,
        spans=(Span(page=0, start=0, stop=3, label="a"), Span(page=0, start=3, stop=4, label="b")),
        questions=(Question(text="?", answers=("left below",), word_ids=(1, 0)),),
    )
    (ordered,) = ordering.in_order([labelled], READING)
    assert [word.text for word in ordered.document.pages[0].words] == [
        "left", "middle", "right", "below"
    ]  # fmt: skip
    assert ordered.spans == (
        Span(page=0, start=0, stop=1, label="a"),
        Span(page=0, start=2, stop=4, label="a"),
        Span(page=0, start=1, stop=2, label="b"),
    )
    assert ordered.questions[0].word_ids == (0, 3)


@pytest.fixture
def reading_start(small_start: kie_start.Start) -> kie_start.Start:
    return replace(
        small_start, preprocessing=replace(small_start.preprocessing, word_order="reading")
    )


def private_ids(start: kie_start.Start, documents: list[LabelledDocument]) -> list[list[int]]:
    records = records_of(documents, start.encoder, start.labels, unit="sequence")
    return [ids_of(window) for record in records for window in record]


def plain_ids(
    start: kie_start.Start, documents: list[LabelledDocument], *, share: float = 0.0
) -> list[list[int]]:
    generator = np.random.default_rng(0)
    found = shuffled_windows(
        documents, start.encoder, start.labels, share=share, generator=generator
    )
    return [ids_of(window) for window in found]


def ids_of(window: Window) -> list[int]:
    ids: list[int] = window.page.ids[window.start : window.stop].tolist()
    return ids


def test_windows_for_training_hold_sorted_words(
    reading_start: kie_start.Start, small_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    moved = [scrambled(labelled, 7) for labelled in receipts]
    for ids in (private_ids, plain_ids):
        assert ids(reading_start, receipts) == ids(reading_start, moved)
        assert ids(small_start, receipts) != ids(small_start, moved)


def test_sorting_does_not_undo_the_shuffling_of_segments(
    reading_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    assert plain_ids(reading_start, receipts, share=1.0) != plain_ids(reading_start, receipts)


def test_scores_of_an_evaluation_do_not_hang_on_the_order(
    reading_start: kie_start.Start, receipts: list[LabelledDocument]
) -> None:
    moved = [scrambled(labelled, 9) for labelled in receipts[:4]]
    found = [training.evaluate(reading_start, items) for items in (receipts[:4], moved)]
    assert found[0] == found[1]
    assert found[0].found > 0


def test_the_command_writes_the_order_into_the_checkpoint(tmp_path: Path) -> None:
    from hushdoc.__main__ import main

    asked = ["train", "kie", "--data", "invented:receipt", "--documents", "6", "--public"]
    small = ["--start", "small", "--max-tokens", "64", "--epochs", "0.2", "--quiet"]
    for order in ("given", "reading"):
        chosen = ["--word-order", order] if order == "reading" else []
        assert main([*asked, *small, *chosen, "--out", str(tmp_path / order)]) == 0
        stored = Checkpoint.load(tmp_path / order)
        assert stored.preprocessing.word_order == order
        told = json.loads((stored.folder / "preprocessing.json").read_text())
        assert told["word_order"] == order
    # What was trained on it goes on as it was.
    start = kie_start.start_from(str(tmp_path / "reading"), stored.labels, word_order="given")
    assert start.preprocessing.word_order == "reading"
