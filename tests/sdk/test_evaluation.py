from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from hushdoc.document.document import Document
from hushdoc.evaluation import Entity, Evaluation, entities_of
from hushdoc.labels import LabelledDocument, Span
from hushdoc.metrics import Score

WORDS = ("Shop", "Ltd", "Total", "9.00", "Cash", "9.00")


def receipt(id: str = "r", *spans: tuple[int, int, str]) -> LabelledDocument:
    boxes = [(10, 20 * index, 60, 20 * index + 10) for index in range(len(WORDS))]
    return LabelledDocument(
        document=Document.from_words(WORDS, boxes, width=100, height=200, id=id),
        spans=tuple(Span(page=0, start=a, stop=b, label=label) for a, b, label in spans),
    )


def found(label: str, *words: int, score: float | None = None) -> Entity:
    text = " ".join(WORDS[word] for word in words)
    return Entity(label=label, page=0, words=frozenset(words), text=text, score=score)


def counted(labelled: LabelledDocument, *fields: Entity) -> Evaluation:
    evaluation = Evaluation(("company", "total"))
    evaluation.add(labelled, fields)
    return evaluation


TRUE = receipt("r", (0, 2, "company"), (3, 4, "total"))


def test_a_value_counts_wherever_it_stands_and_words_where_they_are() -> None:
    evaluation = counted(TRUE, found("company", 0, 1), found("total", 5))
    assert evaluation.at_words.by_label() == {
        "company": Score(found=1, expected=1, correct=1),
        "total": Score(found=1, expected=1, correct=0),
    }
    assert evaluation.by_value.total() == Score(found=2, expected=2, correct=2)
    assert evaluation.all_right == {"at_words": 0, "by_value": 1}
    (worst,) = evaluation.worst
    assert [item.label for item in worst.right] == ["company"]
    assert [sorted(item.words) for item in (*worst.missed, *worst.wrong)] == [[3], [5]]


def test_a_value_of_another_label_or_part_of_one_is_wrong_both_ways() -> None:
    evaluation = counted(TRUE, found("total", 0, 1), found("company", 0))
    assert evaluation.by_value.total().correct == evaluation.at_words.total().correct == 0


def test_the_truth_itself_is_found_without_a_mistake() -> None:
    evaluation = counted(TRUE, *entities_of(TRUE))
    assert evaluation.at_words.total().f1 == evaluation.by_value.total().f1 == 1.0
    assert evaluation.all_right == {"at_words": 1, "by_value": 1}
    assert evaluation.worst == []


def test_labels_of_one_side_alone_are_named() -> None:
    labelled = receipt("r", (3, 4, "total"), (4, 5, "payment"), (5, 6, "payment"))
    evaluation = counted(labelled, found("total", 3), found("company", 0))
    assert evaluation.left_out == {"payment": 2}
    assert evaluation.absent == ["company"]
    assert evaluation.at_words.total() == Score(found=2, expected=1, correct=1)


def test_the_documents_with_most_mistakes_are_kept_first_of_equals_first() -> None:
    evaluation = Evaluation(("company", "total"), keep=3)
    answers: Sequence[tuple[str, tuple[Entity, ...]]] = [
        ("one-a", (found("company", 0, 1),)),
        ("none", tuple(entities_of(TRUE))),
        ("three", (found("total", 2), found("company", 0, 1))),
        ("one-b", (found("company", 0, 1),)),
        ("four", (found("total", 2), found("company", 0))),
    ]
    for name, fields in answers:
        evaluation.add(receipt(name, (0, 2, "company"), (3, 4, "total")), fields)
    assert [(item.document.id, item.mistakes) for item in evaluation.worst] == [
        ("four", 4),
        ("three", 2),
        ("one-a", 1),
    ]
    assert Evaluation(("total",), keep=0).worst == []


def test_scores_are_held_against_the_share_of_right_fields() -> None:
    evaluation = counted(
        TRUE,
        found("company", 0, 1, score=0.95),
        found("total", 3, score=1.0),
        found("total", 5, score=0.95),
        found("total", 2, score=0.1),
    )
    assert [(item.start, item.stop, item.found) for item in evaluation.bins] == [
        (0.1, 0.2, 1),
        (0.9, 1.0, 3),
    ]
    best = evaluation.bins[1]
    assert (best.mean_score, best.right) == (pytest.approx(2.9 / 3), pytest.approx(2 / 3))
    # (1 * |.1 - 0| + 3 * |2.9 / 3 - 2 / 3|) / 4
    assert evaluation.calibration_error == pytest.approx(0.25)
    assert counted(TRUE, found("total", 3)).calibration_error is None


def test_nothing_counted_and_its_json() -> None:
    empty = Evaluation(("total",))
    assert empty.to_dict()["at_words"]["macro_f1"] == 0.0
    made = json.loads(json.dumps(counted(TRUE, found("total", 3, score=0.5)).to_dict()))
    assert made["documents"] == 1
    assert made["at_words"]["labels"]["total"]["f1"] == 1.0
    assert made["at_words"]["micro"]["recall"] == 0.5
    assert made["by_value"]["labels"]["company"]["expected"] == 1
    assert "no guarantee covers" in made["note"]
