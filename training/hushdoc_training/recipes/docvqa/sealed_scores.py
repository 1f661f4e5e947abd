"""Answers of a sealed artifact to the questions of labelled documents."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from hushdoc.labels import LabelledDocument
from hushdoc.runtime.docvqa import DocVQAModel
from hushdoc.runtime.questions import Asking
from hushdoc_training.question_scores import QuestionScore


@dataclass(frozen=True, kw_only=True)
class SealedScorer:
    """An artifact's model that is asked all questions of documents; `question_scores.Answering`.

    A model that writes its answers writes freely. An artifact tells no losses.
    """

    model: DocVQAModel

    @classmethod
    def of(cls, model: DocVQAModel) -> Self:
        """Returns one without calibration and threshold: whoever attacks asks for candidates."""
        raw = copy.copy(model)
        raw.asking = replace(model.asking, scores=None)
        return cls(model=raw)

    @property
    def asking(self) -> Asking:
        """How questions and words become inputs."""
        return self.model.asking

    def score(self, documents: Sequence[LabelledDocument]) -> list[QuestionScore]:
        """Returns a score for every question of every document, in their order."""
        return [score for labelled in documents for score in self._scored(labelled)]

    def _scored(self, labelled: LabelledDocument) -> Iterator[QuestionScore]:
        asked = [question.text for question in labelled.questions]
        grounded = not self.model.writes
        answers = self.model.ask_all(labelled.document, asked, grounded=grounded) if asked else ()
        for question, found in zip(labelled.questions, answers, strict=True):
            best = found.best
            yield QuestionScore(
                document_id=labelled.document.id,
                provider=labelled.provider,
                key=question.key,
                text=question.text,
                answers=question.answers,
                prediction=best.text,
                confidence=best.null_score if best.text is None else best.score,
                loss=math.nan,
            )
