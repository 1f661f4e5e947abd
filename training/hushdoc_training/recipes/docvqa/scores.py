"""Answers of a pointer to the questions of labelled documents, read as at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelledDocument, Question
from hushdoc.runtime import pointing
from hushdoc.runtime.encoding import EncodedPage
from hushdoc.runtime.session import Array
from hushdoc_training.question_scores import QuestionScore
from hushdoc_training.recipes.docvqa.rows import Row, windows_of
from hushdoc_training.recipes.docvqa.start import Start
from hushdoc_training.recipes.kie.records import in_order

BATCH_SIZE = 16
"""Most windows that are computed together."""


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A pointer that is asked all questions of documents; `question_scores.Answering`."""

    start: Start
    device: torch.device

    def __post_init__(self) -> None:
        """Refuses models that do not point."""
        if self.start.asking.kind != "pointer":
            raise CheckpointError(
                f"The start '{self.start.name}' is a {self.start.asking.kind}, and only answers of "
                "pointers can be scored. Give a run of a pointer."
            )

    def score(self, documents: Sequence[LabelledDocument]) -> list[QuestionScore]:
        """Returns a score for every question of every document, in their order."""
        model, encoder = self.start.model.to(self.device), self.start.encoder
        was_training = model.training
        model.eval()
        found = []
        with torch.inference_mode():
            for labelled in in_order(documents, self.start.asking.of_pages):
                pages = [encoder.page(page) for page in labelled.document.pages]
                found += [self._scored(labelled, asked, pages) for asked in labelled.questions]
        model.train(was_training)
        return found

    def _scored(
        self, labelled: LabelledDocument, asked: Question, pages: Sequence[EncodedPage]
    ) -> QuestionScore:
        encoder, asking = self.start.encoder, self.start.asking
        windows = windows_of(asked, encoder.question(asked.text), pages, encoder)
        null, best, text = 1.0, -1.0, None
        losses = []
        held = any(row.answered for _, row in windows)
        for (page, row), scores in zip(windows, self._scores(windows), strict=True):
            first = encoder.first_token(row.asked)
            choices = [0, *range(first, first + row.stop - row.start)]
            reading = pointing.spans(
                scores[choices], row.asked, max_answer=asking.max_answer, count=1
            )
            null = min(null, reading.null_score)
            for candidate in reading.candidates:
                if candidate.score > best:
                    words = labelled.document.pages[page].words
                    best = candidate.score
                    text = " ".join(words[word].text for word in candidate.words)
            if row.answered == held:
                logs = torch.from_numpy(scores[choices]).double().log_softmax(0).numpy()
                ends = np.where(row.target > 0, row.target - first + 1, 0)
                losses.append(-float(logs[ends, [0, 1]].mean()))
        if null > best:
            text = None
        return QuestionScore(
            document_id=labelled.document.id,
            provider=labelled.provider,
            key=asked.key,
            text=asked.text,
            answers=asked.answers,
            prediction=text,
            confidence=null if text is None else best,
            loss=min(losses, default=0.0),
        )

    def _scores(self, windows: Sequence[tuple[int, Row]]) -> list[Array]:
        """Returns the scores of each window's tokens, shape [tokens of the row, 2]."""
        made: list[Array] = []
        for at in range(0, len(windows), BATCH_SIZE):
            rows = [row.asked for _, row in windows[at : at + BATCH_SIZE]]
            batch = self.start.encoder.batch(rows)
            inputs = {name: torch.from_numpy(value) for name, value in batch.items()}
            scores = self.start.model(**{name: x.to(self.device) for name, x in inputs.items()})
            made.extend(scores.float().cpu().numpy())
        return made
