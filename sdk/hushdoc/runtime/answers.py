"""What a model answers to a question about a document, with its place, or that there is none.

Contract: as with `hushdoc.runtime.extraction`, the keys of `to_dict` are versioned by
`SCHEMA_VERSION` and never given another meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hushdoc.document.page import Box, union
from hushdoc.document.provenance import Source
from hushdoc.errors import UnsupportedFormatError
from hushdoc.runtime import extraction
from hushdoc.runtime.extraction import Field, Timings, box_from, integers_from, parsing

SCHEMA_VERSION = 1

EVIDENCE = ("words", "matched", "none")


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """An answer that a model read in one window, before calibration.

    `words` are places in the page, in the model's order of words; none for a `text` that was
    written freely. `ended` is whether it has an end, or was cut.
    """

    score: float
    words: range
    text: str | None = None
    ended: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a model reads in one window: candidates, and the probability that it has no answer."""

    candidates: tuple[Candidate, ...]
    null_score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One answer to a question, or that there is none.

    Attributes:
        text: Its words, joined by spaces; None where the document has no answer, or none that
            reaches the artifact's threshold.
        score: From 0 to 1: the probability of the answer in its window; where it is calibrated
            (`Answers.calibrated_on`), of the best answer the share of such answers that were right
            when it was measured. That leaves a share, of which each further candidate has as much
            as its probability has of what the best one's leaves. Without a text that of the best
            candidate, and 0 where there is none.
        page: Page number from 0; None where the answer has no place.
        word_ids: Its words in the order of `text`, as indices into the page's words as the caller
            gave them.
        boxes: The box of each of these words, in page pixels.
        normalized: Each box as (x0, y0, x1, y1), integers from 0 to 1000.
        null_score: The probability that the document has no answer: the least over its windows.
        evidence: "words" where the answer is these words by construction; "matched" where a model
            wrote it freely and these words are the most alike; "none" where it has no place.
    """

    text: str | None
    score: float
    page: int | None = None
    word_ids: tuple[int, ...] = ()
    boxes: tuple[Box, ...] = ()
    normalized: tuple[tuple[int, int, int, int], ...] = ()
    null_score: float
    evidence: str = "none"

    def field(self, label: str) -> Field | None:
        """Returns it as a field of this label, as views take it; None where it has no place."""
        if self.text is None or self.page is None:
            return None
        corners = list(zip(*self.normalized, strict=True))
        return Field(
            label=label,
            text=self.text,
            score=self.score,
            box=union(self.boxes),
            page=self.page,
            word_ids=self.word_ids,
            normalized=(min(corners[0]), min(corners[1]), max(corners[2]), max(corners[3])),
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it back."""
        return {
            "text": self.text,
            "score": self.score,
            "page": self.page,
            "word_ids": list(self.word_ids),
            "boxes": [box.to_list() for box in self.boxes],
            "normalized": [list(box) for box in self.normalized],
            "null_score": self.null_score,
            "evidence": self.evidence,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answer:
        """Returns the answer that `to_dict` wrote.

        Raises:
            InputError: A key is missing or of the wrong type.
        """
        with parsing("an answer to a question", "Answer"):
            if data["evidence"] not in EVIDENCE:
                raise ValueError(f"evidence must be one of {EVIDENCE}")
            return cls(
                text=None if data["text"] is None else str(data["text"]),
                score=float(data["score"]),
                page=None if data["page"] is None else int(data["page"]),
                word_ids=tuple(int(value) for value in data["word_ids"]),
                boxes=tuple(map(box_from, data["boxes"])),
                normalized=tuple(map(integers_from, data["normalized"])),
                null_score=float(data["null_score"]),
                evidence=data["evidence"],
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers(extraction.Answer):
    """What a model answers to one question; equal when all but the timings are.

    Views such as `hushdoc.to_html` take it as they take an `Extraction`: the answer is a field
    whose label is the question.

    Attributes:
        document_id: The document's id.
        question: As it was asked.
        best: The answer, or that there is none.
        candidates: The best answers, each with a text, best first, as many as were asked for; also
            where `best` has no text.
        coverage: Share of the words that the model read in full, from 0 to 1.
        warnings: What the caller should know about this answer, in words.
        timings: Where the time went, of all questions that were asked together.
        source: Where the words came from; None where a caller passed them.
        calibrated_on: The documents that scores were calibrated on; None where scores are the
            model's own, which order answers and are no shares of right ones. They are that also of
            an artifact with a calibration, where none is likelier than the best answer, and of
            a model that writes its answers with `top_k` above 1 or `grounded=False`.
    """

    document_id: str
    question: str
    best: Answer
    candidates: tuple[Answer, ...]
    coverage: float
    warnings: tuple[str, ...]
    timings: Timings = field(compare=False)
    source: Source | None = None
    calibrated_on: str | None = None

    @property
    def text(self) -> str | None:
        """The answer's text, or None."""
        return self.best.text

    @property
    def fields(self) -> tuple[Field, ...]:
        """The answer as a field, if it has a place."""
        found = self.best.field(self.question)
        return () if found is None else (found,)

    @property
    def below_threshold(self) -> tuple[Field, ...]:
        """The best candidate as a field where the answer is that there is none."""
        unsure = self.candidates[:1] if self.text is None else ()
        return tuple(found for item in unsure if (found := item.field(self.question)) is not None)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it back."""
        return {
            "schema_version": SCHEMA_VERSION,
            "document_id": self.document_id,
            "question": self.question,
            "answer": self.best.to_dict(),
            "candidates": [found.to_dict() for found in self.candidates],
            "calibrated_on": self.calibrated_on,
            "coverage": self.coverage,
            "warnings": list(self.warnings),
            "source": None if self.source is None else self.source.to_dict(),
            "timings": self.timings.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Answers:
        """Returns the answers that `to_dict` wrote.

        Raises:
            UnsupportedFormatError: Another version of hushdoc wrote them.
            InputError: A key is missing or of the wrong type.
        """
        with parsing("answers to a question", "Answers"):
            version = data["schema_version"]
            if type(version) is not int or version != SCHEMA_VERSION:
                raise UnsupportedFormatError(
                    f"These answers have schema version {repr(version)[:40]}; this hushdoc reads "
                    f"{SCHEMA_VERSION}. Read them with the version that wrote them."
                )
            source, calibrated_on = data["source"], data["calibrated_on"]
            return cls(
                document_id=str(data["document_id"]),
                question=str(data["question"]),
                best=Answer.from_dict(data["answer"]),
                candidates=tuple(map(Answer.from_dict, data["candidates"])),
                coverage=float(data["coverage"]),
                warnings=tuple(str(text) for text in data["warnings"]),
                source=None if source is None else Source.from_dict(source),
                timings=Timings.from_dict(data["timings"]),
                calibrated_on=None if calibrated_on is None else str(calibrated_on),
            )
