"""Answers as DataFrames: the columns of the CSV, with types."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from hushdoc_documents import nothing_found

import hushdoc
from hushdoc.document.page import Box
from hushdoc.document.provenance import Source
from hushdoc.errors import InputError, MissingExtraError
from hushdoc.runtime.dataframes import DTYPES
from hushdoc.runtime.extraction import COLUMNS, Extraction, Failure, Field

ON_PAGE = Field(
    label="total",
    text="=12.50",
    score=0.98765432,
    box=Box(x0=1, y0=2, x1=3.5, y1=4),
    page=2,
    word_ids=(3, 4),
    normalized=(1, 2, 3, 4),
)
IN_TEXT = replace(ON_PAGE, box=None, page=0, word_ids=(), normalized=None, start=7, stop=13)


def answer(*fields: Field, unsure: tuple[Field, ...] = ()) -> Extraction:
    source = Source(reader="pdf")
    return replace(nothing_found(), fields=fields, below_threshold=unsure, source=source)


def test_each_field_is_a_row_and_each_column_has_its_type() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = answer(ON_PAGE, unsure=(IN_TEXT,)).to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES
    assert frame["text"].tolist() == ["=12.50", "=12.50"]
    assert frame["below_threshold"].tolist() == [False, True]
    assert frame["score"].tolist() == [0.987654, 0.987654]
    assert frame["x1"].tolist()[0] == 3.5
    assert frame["x1"].isna().tolist() == [False, True]
    assert frame["start"].isna().tolist() == [True, False]
    assert frame["stop"].tolist()[1] == 13
    assert frame["word_ids"].tolist() == ["3 4", ""]


def test_it_holds_what_the_csv_file_holds() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    made = answer(ON_PAGE, unsure=(IN_TEXT,))
    read = pandas.read_csv(io.StringIO(made.to_csv()), dtype=str, keep_default_na=False)
    assert list(read.columns) == list(made.to_pandas().columns)
    assert read["score"].astype(float).tolist() == made.to_pandas()["score"].tolist()
    assert read["page"].astype(int).tolist() == made.to_pandas()["page"].tolist()


def test_many_answers_are_one_frame_and_failures_are_not_dropped() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = hushdoc.to_pandas(iter([answer(ON_PAGE), answer(), answer(IN_TEXT, ON_PAGE)]))
    assert frame["page"].tolist() == [2, 0, 2]
    nothing = hushdoc.to_pandas([])
    assert (len(nothing), list(nothing.columns)) == (0, list(COLUMNS))
    assert {name: str(dtype) for name, dtype in nothing.dtypes.items()} == DTYPES
    failure = Failure(document_id="a", error=InputError("It can't be read."))
    with pytest.raises(InputError, match="Answer 1 is Failure; expected an Extraction"):
        hushdoc.to_pandas([answer(), failure])  # type: ignore[list-item]


def test_without_pandas_the_error_names_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hushdoc\[pandas\]'"):
        answer().to_pandas()
