"""Results are plain frozen data that survive JSON, JSONL and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushdoc.document.page import Box
from hushdoc.document.provenance import Source
from hushdoc.errors import BoxError, InputError, UnsupportedFormatError
from hushdoc.runtime.extraction import COLUMNS, Extraction, Failure, Field, Timings

NUMBERS = st.floats(0, 1000)
FIELDS = st.builds(
    Field,
    label=st.text(min_size=1),
    text=st.text(),
    score=st.floats(0, 1),
    box=st.builds(Box, x0=NUMBERS, y0=NUMBERS, x1=NUMBERS, y1=NUMBERS),
    page=st.integers(0, 9),
    word_ids=st.lists(st.integers(0, 9999)).map(tuple),
    normalized=st.tuples(*[st.integers(0, 1000)] * 4),
)
SECONDS = st.floats(0, 10)
EXTRACTIONS = st.builds(
    Extraction,
    document_id=st.text(),
    fields=st.lists(FIELDS, max_size=3).map(tuple),
    below_threshold=st.lists(FIELDS, max_size=2).map(tuple),
    coverage=st.floats(0, 1),
    warnings=st.lists(st.text(), max_size=2).map(tuple),
    timings=st.builds(
        Timings, encoding_seconds=SECONDS, model_seconds=SECONDS, decoding_seconds=SECONDS
    ),
    source=st.none()
    | st.builds(
        Source,
        reader=st.text(),
        ocr=st.none() | st.text(),
        ocr_pages=st.lists(st.integers(0, 99), max_size=3).map(tuple),
    ),
)

SCAN = Source(reader="pdf", ocr="an engine, 2.0", ocr_pages=(1,))


def example() -> Extraction:
    field = Field(
        label="total",
        text="EUR 71,49",
        score=0.9876543,
        box=Box(x0=1, y0=2, x1=3, y1=4),
        page=0,
        word_ids=(3, 4),
        normalized=(10, 20, 30, 40),
    )
    timings = Timings(encoding_seconds=0.1, model_seconds=0.2, decoding_seconds=0.3)
    return Extraction(
        document_id="a", fields=(field,), coverage=0.5, warnings=("w",), timings=timings
    )


@given(EXTRACTIONS)
def test_extractions_round_trip(extraction: Extraction) -> None:
    line = extraction.to_json()
    assert "\n" not in line
    again = Extraction.from_dict(json.loads(line))
    assert again == extraction
    assert again.timings == extraction.timings
    calibrated = dataclasses.replace(extraction, calibrated_on="public bills")
    assert Extraction.from_dict(calibrated.to_dict()) == calibrated


def test_the_format_is_stable() -> None:
    assert dataclasses.replace(example(), source=SCAN).to_dict() == {
        "schema_version": 4,
        "document_id": "a",
        "fields": [
            {
                "label": "total",
                "text": "EUR 71,49",
                "score": 0.9876543,
                "page": 0,
                "box": [1, 2, 3, 4],
                "normalized": [10, 20, 30, 40],
                "word_ids": [3, 4],
            }
        ],
        "below_threshold": [],
        "calibrated_on": None,
        "coverage": 0.5,
        "warnings": ["w"],
        "source": {"reader": "pdf", "ocr": "an engine, 2.0", "ocr_pages": [1]},
        "timings": {"encoding_seconds": 0.1, "model_seconds": 0.2, "decoding_seconds": 0.3},
    }


def test_rows_fit_a_csv_file() -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS)
    writer.writeheader()
    writer.writerows(example().to_rows())
    (row,) = csv.DictReader(io.StringIO(stream.getvalue()))
    assert row["text"] == "EUR 71,49"
    assert (row["score"], row["word_ids"], row["x1"]) == ("0.987654", "3 4", "3")
    assert row["source"] == ""
    scanned = dataclasses.replace(example(), source=SCAN)
    (row,) = csv.DictReader(io.StringIO(scanned.to_csv()))
    assert row["source"] == "pdf, page 1 by an engine, 2.0"


def test_csv_is_whole_and_can_be_made_safe_for_spreadsheets() -> None:
    texts = ['=HYPERLINK("http://x")', "-5,00", "a\nb", "plain"]
    fields = tuple(dataclasses.replace(example().fields[0], text=text) for text in texts)
    made = dataclasses.replace(example(), fields=fields)
    rows = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert [row["text"] for row in rows] == texts
    assert list(rows[0]) == list(COLUMNS)
    assert made.to_csv(header=False) == made.to_csv().partition("\n")[2]
    safe = list(csv.DictReader(io.StringIO(made.to_csv(spreadsheet=True))))
    assert [row["text"] for row in safe] == [f"'{texts[0]}", "'-5,00", "a\nb", "plain"]
    assert safe[0]["score"] == rows[0]["score"]


def test_results_are_frozen_and_equal_whatever_the_time_they_took() -> None:
    one = example()
    other = dataclasses.replace(
        one, timings=Timings(encoding_seconds=9, model_seconds=9, decoding_seconds=9)
    )
    assert one == other
    assert other.timings.total_seconds == 27
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.coverage = 1.0  # type: ignore[misc]


def test_another_versions_results_are_refused() -> None:
    for version in (3, 5, True, "4"):
        with pytest.raises(UnsupportedFormatError, match="schema version .*; this hushdoc reads 4"):
            Extraction.from_dict({**example().to_dict(), "schema_version": version})


@pytest.mark.parametrize(
    "change",
    [
        {"fields": 3},
        {"fields": [{}]},
        {"coverage": "x"},
        {"timings": None},
        {"source": "pdf"},
        {"source": {"reader": "pdf", "ocr": 5, "ocr_pages": []}},
    ],
)
def test_other_json_is_not_an_extraction(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not an extraction"):
        Extraction.from_dict({**example().to_dict(), **change})


def test_failures_carry_their_code() -> None:
    failure = Failure(document_id="a", error=BoxError("It is bad."))
    assert json.loads(failure.to_json()) == {
        "schema_version": 4,
        "document_id": "a",
        "error": {"code": "BAD_BOX", "message": "It is bad."},
    }
