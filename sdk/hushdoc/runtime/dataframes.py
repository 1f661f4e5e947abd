"""Answers as one pandas DataFrame: the columns of the CSV files, each with a type of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from hushdoc import arguments
from hushdoc.errors import InputError, needs_extra

if TYPE_CHECKING:
    import pandas

DTYPES = {
    "document_id": "string",
    "label": "string",
    "text": "string",
    "score": "float64",
    "page": "int64",
    "x0": "float64",
    "y0": "float64",
    "x1": "float64",
    "y1": "float64",
    "word_ids": "string",
    "start": "Int64",
    "stop": "Int64",
    "below_threshold": "bool",
    "source": "string",
}
"""The columns of `Extraction.to_rows`, in the order of a CSV file, and their types in pandas."""

_MAY_LACK = ("x0", "y0", "x1", "y1", "start", "stop", "source")


class Tabular(Protocol):
    """An answer with one flat row for each field, such as hushdoc.Extraction."""

    def to_rows(self) -> list[dict[str, str | int | float]]:
        """Returns the rows, with the keys of DTYPES."""


def to_pandas(answers: Iterable[Tabular]) -> pandas.DataFrame:
    """Returns the fields of many answers as one DataFrame, one row for each field.

    Args:
        answers: Such as those of `model.extract_many(paths)`.

    Returns:
        The columns of `Extraction.to_csv`. Places that a field does not have are NaN or NA;
        `below_threshold` is a boolean.

    Raises:
        InputError: An answer is a Failure, or no answer with fields.
        MissingExtraError: pandas is not installed.
    """
    with needs_extra("pandas", "pandas"):
        import pandas
    rows: list[dict[str, Any]] = []
    listed = arguments.each(answers, what="What should be answers", of="Extraction")
    for number, answer in enumerate(listed):
        if not hasattr(answer, "to_rows"):
            raise InputError(
                f"Answer {number} is {arguments.described(answer)}; expected an Extraction. A "
                "Failure has no fields: take failures out first, and report them."
            )
        rows += answer.to_rows()
    columns = {
        name: pandas.Series([_cell(name, row[name]) for row in rows], dtype=dtype)
        for name, dtype in DTYPES.items()
    }
    return pandas.DataFrame(columns)


def _cell(column: str, value: Any) -> Any:
    if column == "below_threshold":
        return value != ""
    return None if value == "" and column in _MAY_LACK else value
