"""Answers without training, by the benchmark that the docs quote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hushdoc.document.document import Document

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_labels_stand_before_right_of_or_above_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_nearest

    words = ["Date:", "1/2/20", "Total", "due", "9.50", "EUR", "Buyer", "Ann", "Lee", "Cash", "8"]
    boxes = [(10, 10, 40, 20), (45, 10, 80, 20), (10, 30, 40, 40), (43, 30, 60, 40),
             (150, 31, 180, 41), (183, 31, 199, 41), (10, 60, 40, 70), (10, 72, 30, 82),
             (33, 72, 50, 82), (100, 100, 130, 110), (133, 100, 140, 110)]  # fmt: skip
    for segments in (None, [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5]):
        document = Document.from_words(words, boxes, width=200, height=200, segments=segments)
        found = list(docvqa_nearest.labels(document.pages[0]))
        pairs = [("Date", "1/2/20"), ("Total due", "9.50 EUR"), ("Buyer", "Ann Lee"), ("Cash", "8")]
        assert set(pairs) <= set(found)
        assert not any(label in ("9.50 EUR", "8", "1/2/20") for label, _ in found)


@pytest.mark.slow
def test_the_quick_run_answers_more_than_chance(run: Any) -> None:
    result, _ = run("docvqa", "--quick")
    assert result["sets"].keys() == {"invented", "other_wordings", "forms"}
    for found in result["sets"].values():
        scores = found["nearest_label"]
        assert 0 < scores["answerable"] < scores["questions"]
        assert scores["anls"] < scores["anls_answerable"]
        assert scores["anls_answerable"] > 0.25
    invented = result["sets"]["invented"]["nearest_label"]
    assert result["anls_nearest_label_answerable"] == invented["anls_answerable"]
