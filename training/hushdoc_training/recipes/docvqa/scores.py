"""Answers of a model to the questions of labelled documents, each window read as at run time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hushdoc.document.page import Word
from hushdoc.labels import LabelledDocument, Question
from hushdoc.runtime import pointing
from hushdoc.runtime.encoding import IntArray
from hushdoc.runtime.images import Pixels
from hushdoc.runtime.questions import Asking, QuestionRow, by_window
from hushdoc.runtime.session import Array
from hushdoc_training.models.pointer import Pointer
from hushdoc_training.question_scores import QuestionScore
from hushdoc_training.recipes.docvqa.private import batch_of
from hushdoc_training.recipes.docvqa.rows import Example, Pages, Row, windows_of
from hushdoc_training.recipes.docvqa.start import Start
from hushdoc_training.recipes.kie.records import in_order

BATCH_SIZE = 16
"""Most windows that are computed together."""


class _Asked(NamedTuple):
    """A question with all windows of its document, each with the number of its page."""

    labelled: LabelledDocument
    question: Question
    windows: Sequence[tuple[int, Row]]


class _Reading(NamedTuple):
    """What a model says of one window; `text` is empty for no answer."""

    text: str
    confidence: float  # of `text`, unless it is empty
    null: float  # the probability that there is no answer; 0 where VT5 wrote one
    loss: float


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A pointer or VT5 that is asked all questions of documents; `question_scores.Answering`.

    VT5 writes what it likes, greedily: nothing has to stand on the page.

    Attributes:
        start: The model with its tokenizer.
        device: Where it is computed.
        longest: Tokens that a VT5 writes at most, 0 where losses alone are asked for; None: as
            many as it may.
    """

    start: Start
    device: torch.device
    longest: int | None = None

    @property
    def asking(self) -> Asking:
        """How questions and words become inputs."""
        return self.start.asking

    def score(self, documents: Sequence[LabelledDocument]) -> list[QuestionScore]:
        """Returns a score for every question of every document, in their order."""
        model = self.start.model.to(self.device)
        was_training = model.training
        model.eval()
        found: list[QuestionScore] = []
        asked: list[_Asked] = []
        with torch.inference_mode():
            for labelled in in_order(documents, self.start.asking.of_pages):
                asked += self._asked(labelled)
                if sum(len(each.windows) for each in asked) >= BATCH_SIZE:
                    found += self._scored(asked)
                    asked = []
            found += self._scored(asked)
        model.train(was_training)
        return found

    def _asked(self, labelled: LabelledDocument) -> Iterator[_Asked]:
        encoder = self.start.encoder
        pages = Pages.of(labelled.document, encoder)
        for question in labelled.questions:
            ids = encoder.question(question.text)
            yield _Asked(labelled, question, windows_of(question, ids, pages, encoder))

    def _scored(self, asked: Sequence[_Asked]) -> list[QuestionScore]:
        rows = [
            (each.labelled.document.pages[page].words, row)
            for each in asked
            for page, row in each.windows
        ]
        readings = iter(
            [
                reading
                for at in range(0, len(rows), BATCH_SIZE)
                for reading in self._read(rows[at : at + BATCH_SIZE])
            ]
        )
        return [_score(each, [next(readings) for _ in each.windows]) for each in asked]

    def _read(self, rows: Sequence[tuple[Sequence[Word], Row]]) -> list[_Reading]:
        encoder, model = self.start.encoder, self.start.model
        asked = [row.asked for _, row in rows]
        if isinstance(model, Pointer):
            return [
                self._pointed(words, row, scores)
                for (words, row), scores in zip(rows, self._scores(model, asked), strict=True)
            ]
        examples = [Example(rows=(row,)) for _, row in rows]
        inputs, targets = batch_of(self.start, examples, device=self.device)
        longest = self.asking.max_answer if self.longest is None else self.longest
        said = model.answer(inputs, targets, max_answer=longest)
        texts = [encoder.text(tokens) for tokens in said.tokens]
        nulls = [0.0 if text else null for text, null in zip(texts, said.empty, strict=True)]
        each = zip(texts, said.confidence, nulls, said.losses, strict=True)
        return [_Reading(*reading) for reading in each]

    def _scores(self, model: Pointer, asked: Sequence[QuestionRow]) -> list[Array]:
        """Returns the scores of each row's choices, each window encoded once."""
        together = by_window(asked, lambda row: row)
        scores = model(**self._on_device(self.start.encoder.pointed(together)))
        found = {
            row: of_window[: 1 + row.stop - row.start, place]
            for rows, of_window in zip(together, scores.float().cpu().numpy(), strict=True)
            for place, row in enumerate(rows)
        }
        return [found[row] for row in asked]

    def _on_device(self, batch: Mapping[str, IntArray | Pixels]) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(value).to(self.device) for name, value in batch.items()}

    def _pointed(self, words: Sequence[Word], row: Row, scores: Array) -> _Reading:
        """Returns what the scores of a row's choices say, shape [1 + tokens of the window, 2]."""
        most = self.start.asking.max_answer
        found = pointing.spans(scores, row.asked, max_answer=most, count=1)
        logs = torch.from_numpy(scores).double().log_softmax(0).numpy()
        best = found.candidates[0] if found.candidates else None
        return _Reading(
            text="" if best is None else " ".join(words[at].text for at in best.words),
            confidence=0.0 if best is None else best.score,
            null=found.null_score,
            loss=-float(logs[row.target, [0, 1]].mean()),
        )


def _score(asked: _Asked, readings: Sequence[_Reading]) -> QuestionScore:
    """Returns the surest window's answer, or none where each window is surer of that."""
    null = min((each.null for each in readings), default=1.0)
    held = any(row.answered for _, row in asked.windows)
    said = [each for each in readings if each.text]
    best = max(said, key=lambda each: each.confidence, default=None)
    if best is not None and best.confidence < null:
        best = None
    losses = [
        each.loss
        for (_, row), each in zip(asked.windows, readings, strict=True)
        if row.answered == held
    ]
    return QuestionScore(
        document_id=asked.labelled.document.id,
        provider=asked.labelled.provider,
        key=asked.question.key,
        text=asked.question.text,
        answers=asked.question.answers,
        prediction=None if best is None else best.text,
        confidence=null if best is None else best.confidence,
        loss=min(losses, default=0.0),
    )
