"""Agreement: how far a variant's answers are from those of the model it was made from.

Models that find fields are compared by their fields (`field_agreement`), those that answer
questions by their answers (`question_agreement`); of all others the answers to the probes are
compared by their cosines, of classifiers those of class scores. No data set is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hushdoc.certificate.certificate import Certificate
from hushdoc.errors import ParityError
from hushdoc.runtime.decoding import softmax
from hushdoc.runtime.session import Session
from hushdoc_export.probes import Inputs, Traceable

MAX_F1_LOSS = 0.5
"""Points of F1, of 100, that a variant may lose unless more is accepted by name."""

MAX_ANLS_LOSS = 1.0
"""Points of ANLS, of 100, that a variant may lose unless more is accepted by name."""

MIN_COSINE = 0.98
"""Mean cosine that a variant keeps unless less is accepted by name."""


class Agreement(Protocol):
    """How close a variant is to what it was made from."""

    @property
    def distance(self) -> tuple[float, ...]:
        """Less is closer."""

    def require(self, variant: str) -> None:
        """Raises ParityError with the code VARIANT_LOSES_TOO_MUCH unless it is close enough."""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the certificate's derivation."""

    def caveat(self, variant: str) -> str:
        """Returns the sentence about it among the claim's caveats."""


Measure = Callable[[Certificate, Session, Sequence[Session]], list[Agreement]]
"""From a certificate, a graph and some variants of it to the agreement of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CosineAgreement:
    """How close a variant's answers are to the model's, as cosines."""

    answers: int  # how many were compared; those for each token of a text are averaged first
    mean: float
    least: float
    min_mean: float  # what the mean must not fall below

    @property
    def distance(self) -> tuple[float, ...]:
        """By how much the mean falls short of 1."""
        return (1 - self.mean,)

    def require(self, variant: str) -> None:
        """Raises ParityError unless the mean is large enough."""
        if self.mean >= self.min_mean:  # written so that NaN fails
            return
        raise ParityError(
            f"The {variant} variant answers with a mean cosine of {self.mean:.4f} to the model's "
            f"answers on invented inputs; at least {self.min_mean:g} is required. Export the fp32 "
            "variant, or declare what you accept, which the certificate will report.",
            code="VARIANT_LOSES_TOO_MUCH",
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the certificate's derivation."""
        return {
            "answers": self.answers,
            "meanCosine": round(self.mean, 6),
            "leastCosine": round(self.least, 6),
            "minMeanCosine": self.min_mean,
            "inputs": "invented",
        }

    def caveat(self, variant: str) -> str:
        """Returns the sentence about it among the claim's caveats."""
        return (
            f"This is the {variant} variant: its weights were rounded after training. On invented "
            f"inputs its answers have a mean cosine of {self.mean:.4f} to those of the model."
        )


def of_answers(traceable: Traceable, *, min_mean: float) -> Measure:
    """Returns what measures the cosines between variants' answers and the model's."""

    def measure(
        certificate: Certificate, graph: Session, variants: Sequence[Session]
    ) -> list[Agreement]:
        return [_cosines(traceable, variant, min_mean) for variant in variants]

    return measure


def _cosines(traceable: Traceable, variant: Session, min_mean: float) -> CosineAgreement:
    cosines: list[float] = []
    for probe in traceable.probes:
        answers = [traceable.answer(probe), variant.run(probe)[0]]
        expected, rounded = (_per_row(traceable, probe, answer) for answer in answers)
        lengths = np.linalg.norm(expected, axis=1) * np.linalg.norm(rounded, axis=1)
        cosines += ((expected * rounded).sum(axis=1) / np.maximum(lengths, 1e-12)).tolist()
    return CosineAgreement(
        answers=len(cosines),
        mean=float(np.mean(cosines)),
        least=float(np.min(cosines)),
        min_mean=min_mean,
    )


def _per_row(traceable: Traceable, probe: Inputs, answer: Any) -> Any:
    """Returns one vector for each row of a probe, the mean over its tokens where it has some.

    What is added to all logits of a row says nothing about its class.
    """
    answer = softmax(answer) if traceable.logits else answer
    if traceable.per_token:
        mask = probe["attention_mask"][..., None]
        answer = (answer * mask).sum(axis=1) / mask.sum(axis=1)
    return answer.astype(np.float64)
