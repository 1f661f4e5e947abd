"""What a key-information model answers: fields with text, place and score.

Contract: `to_dict` and `from_dict` are one format, versioned by `SCHEMA_VERSION`. Keys are the
attribute names; a key is never given another meaning.
"""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hushdoc.arguments import is_unicode
from hushdoc.document.page import Box, Page, union
from hushdoc.document.provenance import Source
from hushdoc.errors import HushdocError, InputError, UnsupportedFormatError
from hushdoc.runtime import dataframes
from hushdoc.runtime.scoring import Scoring

if TYPE_CHECKING:
    import pandas

SCHEMA_VERSION = 4

COLUMNS = tuple(dataframes.DTYPES)
"""The columns of `Extraction.to_rows`, in the order a CSV file has them.

What a field does not have is empty. Fields below the threshold come last, with "yes" under
`below_threshold`, which is empty for others. `source` is the document's, as a line for people.
"""

_FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet interprets as the beginning of a formula."""


class Answer(ABC):
    """What a model answers about one document, or why it could not."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""

    def to_json(self, *, indent: int | None = None) -> str:
        """Returns JSON text; without an indent it is one line, fit for a JSONL file."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)
        # A message may name a file by bytes that are no Unicode; in JSON they are escaped.
        return text if is_unicode(text) else json.dumps(json.loads(text), indent=indent)


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One field that a model found: on a page, or in a plain text.

    Attributes:
        label: The field's name.
        text: Its words, joined by spaces; in a plain text the characters there, line ends included.
        score: From 0 to 1: the mean probability of its tags; where the artifact
            declares a calibration, the share of such fields that were right when it was measured.
        box: The smallest box around its words, in page pixels; None in a plain text.
        page: Page number from 0; a plain text is page 0.
        word_ids: Its words in the order of `text`, as indices into the page's words as the caller
            gave them; none in a plain text.
        normalized: The box as (x0, y0, x1, y1), integers from 0 to 1000; None in a plain text.
        start: In a plain text, its first character; None on a page.
        stop: In a plain text, one past its last character; None on a page.
    """

    label: str
    text: str
    score: float
    box: Box | None
    page: int
    word_ids: tuple[int, ...]
    normalized: tuple[int, int, int, int] | None
    start: int | None = None
    stop: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; `start` and `stop` are keys for plain texts only."""
        data = {
            "label": self.label,
            "text": self.text,
            "score": self.score,
            "page": self.page,
            "box": None if self.box is None else self.box.to_list(),
            "normalized": None if self.normalized is None else list(self.normalized),
            "word_ids": list(self.word_ids),
        }
        if self.start is None:
            return data
        return {**data, "start": self.start, "stop": self.stop}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Field:
        """Returns the field that `to_dict` wrote.

        Raises:
            InputError: A key is missing or of the wrong type.
        """
        with parsing("a field", "Field"):
            start, stop = data.get("start"), data.get("stop")
            return cls(
                label=str(data["label"]),
                text=str(data["text"]),
                score=float(data["score"]),
                box=None if data["box"] is None else box_from(data["box"]),
                page=int(data["page"]),
                word_ids=tuple(int(value) for value in data["word_ids"]),
                normalized=None
                if data["normalized"] is None
                else integers_from(data["normalized"]),
                start=None if start is None else int(start),
                stop=None if stop is None else int(stop),
            )


@contextmanager
def parsing(what: str, class_name: str) -> Iterator[None]:
    """Turns what goes wrong with a malformed structure into one InputError."""
    try:
        yield
    except UnsupportedFormatError:
        raise
    except InputError as error:  # of a part
        raise InputError(f"This is not {what}. {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"This is not {what}: {type(error).__name__}: {str(error)[:200]}. Expected what "
            f"{class_name}.to_dict() wrote."
        ) from error


def box_from(values: Iterable[Any]) -> Box:
    """Returns the box of four numbers in JSON."""
    x0, y0, x1, y1 = (float(value) for value in values)
    return Box(x0=x0, y0=y0, x1=x1, y1=y1)


def integers_from(values: Iterable[Any]) -> tuple[int, int, int, int]:
    """Returns four integers in JSON."""
    left, top, right, bottom = (int(value) for value in values)
    return left, top, right, bottom


@dataclass(frozen=True, kw_only=True, slots=True)
class Timings:
    """Where the time of one call went: words to inputs, inside the model, scores to an answer."""

    encoding_seconds: float
    model_seconds: float
    decoding_seconds: float

    @property
    def total_seconds(self) -> float:
        """All of it."""
        return self.encoding_seconds + self.model_seconds + self.decoding_seconds

    def to_dict(self) -> dict[str, float]:
        """Returns plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Timings:
        """Returns the timings that `to_dict` wrote."""
        with parsing("an answer's timings", "Timings"):
            return cls(**{item.name: float(data[item.name]) for item in fields(cls)})


class StageClock:
    """The seconds that encoding, the model and decoding take in one call."""

    def __init__(self) -> None:
        """Starts now."""
        self._seconds = {"encoding_seconds": 0.0, "model_seconds": 0.0, "decoding_seconds": 0.0}
        self._last = perf_counter()

    def count(self, stage: Literal["encoding", "model", "decoding"]) -> None:
        """Counts the time since the last call as a stage's."""
        now = perf_counter()
        self._seconds[f"{stage}_seconds"] += now - self._last
        self._last = now

    def timings(self) -> Timings:
        """Returns all of it; what is left is decoding."""
        self.count("decoding")
        return Timings(**self._seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction(Answer):
    """All fields of one document; two answers are equal when all but their timings are.

    Attributes:
        document_id: The document's id.
        fields: By page, then in the order in which the model read the words.
        below_threshold: Fields whose score is below the model's threshold, in the same order, for a
            person to check. None where the artifact declares no threshold.
        coverage: Share of the words that the model read in full, from 0 to 1.
        warnings: What the caller should know about this answer, in words.
        timings: Where the time went.
        source: Where the words came from: the document's own `source`, such as a PDF file's text,
            an OCR engine, or another program's output; None where a caller passed them.
        calibrated_on: The documents that scores were calibrated on; None where scores are the
            model's own, which order fields and are no shares of right answers.
    """

    document_id: str
    fields: tuple[Field, ...]
    coverage: float
    warnings: tuple[str, ...]
    timings: Timings = field(compare=False)
    below_threshold: tuple[Field, ...] = ()
    source: Source | None = None
    calibrated_on: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it back."""
        return {
            "schema_version": SCHEMA_VERSION,
            "document_id": self.document_id,
            "fields": [found.to_dict() for found in self.fields],
            "below_threshold": [found.to_dict() for found in self.below_threshold],
            "calibrated_on": self.calibrated_on,
            "coverage": self.coverage,
            "warnings": list(self.warnings),
            "source": None if self.source is None else self.source.to_dict(),
            "timings": self.timings.to_dict(),
        }

    def to_csv(self, *, header: bool = True, spreadsheet: bool = False) -> str:
        """Returns one line for each field, with the columns `COLUMNS`.

        Args:
            header: Whether the columns' names stand in the first line.
            spreadsheet: Whether a cell that a spreadsheet would run as a formula begins with an
                apostrophe; such cells no longer equal the document's text.
        """
        stream = io.StringIO()
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if header:
            writer.writeheader()
        for row in self.to_rows():
            writer.writerow(
                {name: _inert(value) for name, value in row.items()} if spreadsheet else row
            )
        return stream.getvalue()

    def to_rows(self) -> list[dict[str, str | int | float]]:
        """Returns one flat row for each field, with the keys `COLUMNS`, for CSV files."""
        return [
            {
                "document_id": self.document_id,
                "label": found.label,
                "text": found.text,
                "score": round(found.score, 6),
                "page": found.page,
                **dict(zip(("x0", "y0", "x1", "y1"), _corners(found.box), strict=True)),
                "word_ids": " ".join(str(word) for word in found.word_ids),
                "start": "" if found.start is None else found.start,
                "stop": "" if found.stop is None else found.stop,
                "below_threshold": unsure,
                "source": "" if self.source is None else str(self.source),
            }
            for group, unsure in ((self.fields, ""), (self.below_threshold, "yes"))
            for found in group
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns one row for each field, as `hushdoc.to_pandas` does for many answers."""
        return dataframes.to_pandas([self])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Extraction:
        """Returns the extraction that `to_dict` wrote.

        Raises:
            UnsupportedFormatError: Another version of hushdoc wrote it.
            InputError: A key is missing or of the wrong type.
        """
        with parsing("an extraction", "Extraction"):
            version = data["schema_version"]
            if type(version) is not int or version != SCHEMA_VERSION:
                raise UnsupportedFormatError(
                    f"This extraction has schema version {repr(version)[:40]}; this hushdoc reads "
                    f"{SCHEMA_VERSION}. Read it with the version that wrote it."
                )
            source, calibrated_on = data["source"], data.get("calibrated_on")
            return cls(
                document_id=str(data["document_id"]),
                fields=tuple(Field.from_dict(found) for found in data["fields"]),
                below_threshold=tuple(Field.from_dict(found) for found in data["below_threshold"]),
                coverage=float(data["coverage"]),
                warnings=tuple(str(text) for text in data["warnings"]),
                source=None if source is None else Source.from_dict(source),
                timings=Timings.from_dict(data["timings"]),
                calibrated_on=None if calibrated_on is None else str(calibrated_on),
            )


def _inert(cell: str | int | float) -> str | int | float:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_MARKS) else cell


def _corners(box: Box | None) -> tuple[float | str, ...]:
    return ("",) * 4 if box is None else tuple(box.to_list())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Failure(Answer):
    """A document that could not be read, in its place among the answers to many.

    Attributes:
        document_id: The document's id.
        error: Why.
    """

    document_id: str
    error: HushdocError

    def __eq__(self, other: object) -> bool:
        """Returns whether the document, the error's code and its message are the same."""
        return isinstance(other, Failure) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Returns a hash that equal failures share."""
        return hash((self.document_id, self.error.code))

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "document_id": self.document_id,
            "error": {"code": self.error.code, "message": str(self.error)},
        }


def judged(
    fields: Iterable[Field], scoring: Scoring | None
) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Returns fields with calibrated scores: those that reach the threshold, and the others.

    Where `scoring` is None, scores stay as they are and all fields reach it.
    """
    if scoring is None:
        return tuple(fields), ()
    scored = [replace(item, score=scoring.calibrate(item.score)) for item in fields]
    return (
        tuple(item for item in scored if scoring.accepts(item.score)),
        tuple(item for item in scored if not scoring.accepts(item.score)),
    )


def of_text(text: str, label: str, start: int, stop: int, score: float) -> Field:
    """Returns a field of a plain text."""
    return Field(
        label=label,
        text=text[start:stop],
        score=score,
        box=None,
        page=0,
        word_ids=(),
        normalized=None,
        start=start,
        stop=stop,
    )


def word_ends(page: Page) -> npt.NDArray[np.int64]:
    """Returns where each word and the space behind it end in the text that a page's words make."""
    return np.cumsum([len(word.text) + 1 for word in page.words])


def of_page(
    page: Page,
    number: int,
    ends: npt.NDArray[np.int64],
    label: str,
    start: int,
    stop: int,
    score: float,
) -> Field:
    """Returns a field of the text that a page's words make, joined by single spaces.

    `ends` are its `word_ends`, which all fields of a page share.
    """
    first, last = int(np.searchsorted(ends, start, "right")), int(np.searchsorted(ends, stop))
    return of_words(page, number, label, range(first, last + 1), score)


def of_words(
    page: Page,
    number: int,
    label: str,
    span: range,
    score: float,
    *,
    ids: Sequence[int] | None = None,
) -> Field:
    """Returns a field of neighbouring words; `ids` are the caller's numbers of a page's words."""
    words = page.words[span.start : span.stop]
    box = union(word.box for word in words)
    return Field(
        label=label,
        text=" ".join(word.text for word in words),
        score=score,
        box=box,
        page=number,
        word_ids=tuple(span if ids is None else ids[span.start : span.stop]),
        normalized=box.normalized(width=page.width, height=page.height),
    )
