"""Answers of a model to the questions of labelled documents, for results and attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hushdoc import metrics
from hushdoc.labels import LabelledDocument


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionScore:
    """A model's answer to one question, in eval mode.

    Attributes:
        document_id: Of the document that it is asked about.
        provider: Who issued the document.
        key: What the question asks for, where that is known.
        text: The question.
        answers: What is right; empty where the document has no answer.
        prediction: What the model answers; None for no answer.
        confidence: Product of the probabilities of the prediction's tokens, without the end token;
            of a model that points, of both ends.
        loss: Mean cross-entropy over the first answer's tokens, or over both ends: that of no
            answer where the page has none of the answers. Of several windows, the least. NaN of an
            artifact, which tells none.
    """

    document_id: str
    provider: str | None
    key: str | None
    text: str
    answers: tuple[str, ...]
    prediction: str | None
    confidence: float
    loss: float

    @property
    def exact_match(self) -> float:
        """1 where the prediction is right, else 0."""
        return metrics.exact_match(self.prediction, self.answers)

    @property
    def nls(self) -> float:
        """Normalised Levenshtein similarity to the closest answer."""
        return metrics.nls(self.prediction, self.answers)


class Answering(Protocol):
    """A trained model with its tokenizer, ready to be asked."""

    def score(self, documents: Sequence[LabelledDocument]) -> list[QuestionScore]:
        """Returns a score for every question of every document, in their order.

        In eval mode, without gradients; what else is asked beside a question changes nothing. A
        question of any text is answered, also one that names nothing.
        """
        ...
