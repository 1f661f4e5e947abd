"""Agreement of answers: how far those of a variant are from those of the graphs it was made from.

Both are asked the same invented questions as by an application: windows, search, place and all. The
documents come from our public generator, of the providers that `field_agreement` names.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from hushdoc import labelled_files
from hushdoc.certificate.certificate import Certificate
from hushdoc.errors import CheckpointError, InputError, ParityError
from hushdoc.labels import LabelledDocument
from hushdoc.metrics import nls
from hushdoc.runtime.docvqa import DocVQAModel
from hushdoc.runtime.questions import QuestionEncoder
from hushdoc_export.agreement import Agreement
from hushdoc_export.field_agreement import PROVIDERS, SEED
from hushdoc_export.release import MeasureAll, Sessions
from hushdoc_training import invented

NUM_QUESTIONS = 500

MEANINGFUL_ANLS = 50.0
"""Below this the graph itself can't answer the invented questions, and what is right is no measure
of a variant: then its answers are held against the graph's."""

Texts = list[str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionAgreement:
    """How close a variant's answers are to those of its graph; ANLS is in points of 100."""

    questions: int  # how many were asked
    answer_agreement: float  # ANLS of the variant's answers against the graph's
    anls_graph: float  # against what is right
    anls_variant: float
    max_anls_loss: float

    @property
    def by_truth(self) -> bool:
        """Whether the loss is one against what is right, or against the graph's answers."""
        return self.anls_graph >= MEANINGFUL_ANLS

    @property
    def anls_loss(self) -> float:
        """How many points of ANLS the variant loses; a gain is no loss."""
        if self.by_truth:
            return max(0.0, self.anls_graph - self.anls_variant)
        return 100.0 - self.answer_agreement

    @property
    def distance(self) -> tuple[float, ...]:
        """The loss; of equal losses the disagreement."""
        return self.anls_loss, -self.answer_agreement

    @property
    def _against(self) -> str:
        return "the right answers" if self.by_truth else "the answers of the float32 graph"

    def require(self, variant: str) -> None:
        """Raises ParityError unless the variant loses no more than is allowed."""
        if self.anls_loss <= self.max_anls_loss:
            return
        raise ParityError(
            f"The {variant} variant loses {self.anls_loss:.2f} points of ANLS against "
            f"{self._against} to {self.questions} invented questions; at most "
            f"{self.max_anls_loss:g} is allowed. Export the fp32 variant, or declare the loss that "
            "you accept, which the certificate will report.",
            code="VARIANT_LOSES_TOO_MUCH",
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the certificate's derivation."""
        return {
            "questions": self.questions,
            "answerAgreement": round(self.answer_agreement, 4),
            "anlsGraph": round(self.anls_graph, 4),
            "anlsVariant": round(self.anls_variant, 4),
            "anlsLoss": round(self.anls_loss, 4),
            "anlsLossAgainst": self._against,
            "maxAnlsLoss": self.max_anls_loss,
            "inputs": "invented questions",
        }

    def caveat(self, variant: str) -> str:
        """Returns the sentence about it among the claim's caveats."""
        return (
            f"This is the {variant} variant: its weights were rounded after training. It loses "
            f"{self.anls_loss:.2f} points of ANLS against {self._against} to {self.questions} "
            "invented questions. Measured scores above are those of the weights before rounding."
        )


def of_questions(
    encoder: QuestionEncoder,
    reader: Callable[[Certificate, Sessions], DocVQAModel],
    *,
    max_anls_loss: float,
) -> MeasureAll:
    """Returns what compares variants' answers with their graph's, read as an application would."""

    def measure(
        certificate: Certificate, graphs: Sessions, variants: Sequence[Sessions]
    ) -> list[Agreement]:
        with invented_questions(encoder) as documents:
            reference = answers_of(reader(certificate, graphs), documents)
            return [
                compare(
                    reference,
                    answers_of(reader(certificate, variant), documents),
                    documents,
                    max_anls_loss=max_anls_loss,
                )
                for variant in variants
            ]

    return measure


@contextlib.contextmanager
def invented_questions(encoder: QuestionEncoder) -> Iterator[list[LabelledDocument]]:
    """Gives invented documents with NUM_QUESTIONS questions that a model can read.

    Some have no answer. Images of the pages, where the model reads them, are in files while this is
    open.

    Raises:
        CheckpointError: So many documents have fewer such questions.
    """
    config = invented.InventedConfig(questions="keyed", providers=PROVIDERS)
    chosen: list[LabelledDocument] = []
    left = NUM_QUESTIONS
    for item in invented.documents(seed=SEED, count=NUM_QUESTIONS, config=config):
        read = tuple(asked for asked in item.questions if _is_read(encoder, asked.text))[:left]
        chosen.append(replace(item, questions=read))
        left -= len(read)
        if not left:
            break
    else:
        raise CheckpointError(
            f"The model reads {NUM_QUESTIONS - left} questions of {NUM_QUESTIONS} invented "
            f"documents; expected {NUM_QUESTIONS}, by which its graphs are compared. Train it with "
            "more tokens for a question, or with a tokenizer that knows English words."
        )
    if encoder.asking.image is None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="hushdoc-export-") as scratch:
        files = invented.write(Path(scratch) / "pages", seed=SEED, count=len(chosen), config=config)
        drawn = [labelled_files.read_one(file).document for file in files]
        yield [
            replace(item, document=document) for item, document in zip(chosen, drawn, strict=True)
        ]


def _is_read(encoder: QuestionEncoder, text: str) -> bool:
    try:
        encoder.question(text)
    except InputError:  # too long, or of no token that the model knows
        return False
    return True


def answers_of(model: DocVQAModel, documents: Sequence[LabelledDocument]) -> Texts:
    """Returns what a model answers to every question of each document."""
    return [
        found.text
        for item in documents
        for found in model.ask_all(item.document, [asked.text for asked in item.questions])
    ]


def compare(
    reference: Texts,
    variant: Texts,
    documents: Sequence[LabelledDocument],
    *,
    max_anls_loss: float,
) -> QuestionAgreement:
    """Returns how close a variant's answers are to its graph's, which are the reference."""
    right = [asked.answers for item in documents for asked in item.questions]
    of_graph = [() if text is None else (text,) for text in reference]
    return QuestionAgreement(
        questions=len(right),
        answer_agreement=100 * fmean(map(nls, variant, of_graph)),
        anls_graph=100 * fmean(map(nls, reference, right)),
        anls_variant=100 * fmean(map(nls, variant, right)),
        max_anls_loss=max_anls_loss,
    )
