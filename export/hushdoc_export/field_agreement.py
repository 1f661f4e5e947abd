"""Agreement of fields: how far those of a variant are from those of the graph it was made from.

Both read the same invented documents as an application would: windows, merging, decoding and all.
No data set is read; the documents come from our public generator, of providers that training on
invented documents does not draw from by itself. That is why export may import the generator, and
nothing else that makes or reads documents: it is a pure function of numbers.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc import labelled_files
from hushdoc.certificate.certificate import Certificate
from hushdoc.errors import ParityError
from hushdoc.labels import LabelledDocument, LabelSet, Span, spans_from_words
from hushdoc.metrics import entity_score
from hushdoc.runtime.kie import KIEModel
from hushdoc.runtime.session import Session
from hushdoc_export.agreement import MAX_F1_LOSS, Agreement, Measure
from hushdoc_training import invented

NUM_DOCUMENTS = 60
SEED = 20261121
PROVIDERS = (31_000, 32_000)

MEANINGFUL_F1 = 50.0
"""Below this the graph itself can't read the invented documents, and its labels are no measure
of a variant: then its fields are held against the graph's."""

DocumentSpans = list[list[Span]]


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldAgreement:
    """How close a variant's fields are to those of its graph.

    F1 is in points of 100; a field counts with its exact words and its label.
    """

    documents: int  # how many were read
    fields: int  # how many the graph found in them
    field_agreement: float  # F1 of the variant's fields against the graph's
    f1_graph: float | None  # against invented labels, None where the model has others
    f1_variant: float | None
    max_f1_loss: float

    @property
    def by_labels(self) -> bool:
        """Whether the loss is one against the invented labels, or against the graph's fields."""
        return self.f1_graph is not None and self.f1_graph >= MEANINGFUL_F1

    @property
    def f1_loss(self) -> float:
        """How many points of F1 the variant loses; a gain is no loss."""
        if self.by_labels and self.f1_graph is not None and self.f1_variant is not None:
            return max(0.0, self.f1_graph - self.f1_variant)
        return 100.0 - self.field_agreement

    @property
    def distance(self) -> tuple[float, ...]:
        """The loss; of equal losses the disagreement."""
        return self.f1_loss, -self.field_agreement

    @property
    def _against(self) -> str:
        return "the invented labels" if self.by_labels else "the fields of the float32 graph"

    def require(self, variant: str) -> None:
        """Raises ParityError unless the variant loses no more than is allowed."""
        if self.f1_loss <= self.max_f1_loss:
            return
        if not self.fields:
            raise ParityError(
                f"The float32 graph finds no field in {self.documents} invented documents, so that "
                f"nothing tells what the {variant} variant loses, and all of it counts as lost. "
                "Export the fp32 variant, or declare a loss of 100 points, which the certificate "
                "will report.",
                code="VARIANT_LOSES_TOO_MUCH",
            )
        raise ParityError(
            f"The {variant} variant loses {self.f1_loss:.2f} points of F1 against {self._against} "
            f"on {self.documents} invented documents; at most {self.max_f1_loss:g} is allowed. "
            "Export the fp32 variant, or declare the loss that you accept, which the certificate "
            "will report.",
            code="VARIANT_LOSES_TOO_MUCH",
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the certificate's derivation."""
        return {
            "documents": self.documents,
            "fields": self.fields,
            "fieldAgreement": round(self.field_agreement, 4),
            "f1Graph": None if self.f1_graph is None else round(self.f1_graph, 4),
            "f1Variant": None if self.f1_variant is None else round(self.f1_variant, 4),
            "f1Loss": round(self.f1_loss, 4),
            "f1LossAgainst": self._against,
            "maxF1Loss": self.max_f1_loss,
            "inputs": "invented documents",
        }

    def caveat(self, variant: str) -> str:
        """Returns the sentence about it among the claim's caveats."""
        if not self.fields:
            return (
                f"This is the {variant} variant: its weights were rounded after training. What it "
                f"loses is not known: the float32 graph finds no field in {self.documents} "
                "invented documents. Measured scores above are those of the weights before "
                "rounding."
            )
        return (
            f"This is the {variant} variant: its weights were rounded after training. On "
            f"{self.documents} invented documents {self.field_agreement:.1f} % (F1) of its fields "
            f"are those of the float32 graph, a loss of {self.f1_loss:.2f} points. Measured scores "
            "above are those of the weights before rounding."
        )


def of_fields(
    labels: LabelSet,
    reader: Callable[[Certificate, Session], KIEModel],
    *,
    images: bool,
    max_f1_loss: float,
) -> Measure:
    """Returns what compares variants' fields with their graph's, read as an application would."""

    def measure(
        certificate: Certificate, graph: Session, variants: Sequence[Session]
    ) -> list[Agreement]:
        with invented_documents(labels, images=images, count=NUM_DOCUMENTS) as documents:
            reference = fields_of(reader(certificate, graph), documents)
            return [
                compare(
                    reference,
                    fields_of(reader(certificate, variant), documents),
                    documents,
                    labels,
                    max_f1_loss=max_f1_loss,
                )
                for variant in variants
            ]

    return measure


@contextlib.contextmanager
def invented_documents(
    labels: LabelSet, *, images: bool = False, count: int
) -> Iterator[list[LabelledDocument]]:
    """Gives invented documents, labelled as a model's labels are if the generator knows them.

    Images of the pages are in files while this is open.
    """
    form = set(labels.fields) <= set(invented.FORM_LABELS)
    config = invented.InventedConfig(
        document_types=("form",) if form else invented.DOCUMENT_TYPES,
        labels="form" if form else "fields",
        providers=PROVIDERS,
    )
    if not images:
        yield list(invented.documents(seed=SEED, count=count, config=config))
        return
    with tempfile.TemporaryDirectory(prefix="hushdoc-export-") as scratch:
        written = invented.write(Path(scratch) / "pages", seed=SEED, count=count, config=config)
        yield [labelled_files.read_one(path) for path in written]


def fields_of(model: KIEModel, documents: Sequence[LabelledDocument]) -> DocumentSpans:
    """Returns the spans that a model finds in each document."""
    return [
        [
            span
            for field in model.extract(item.document).fields
            for span in spans_from_words(field.word_ids, label=field.label, page=field.page)
        ]
        for item in documents
    ]


def compare(
    reference: DocumentSpans,
    variant: DocumentSpans,
    documents: Sequence[LabelledDocument],
    labels: LabelSet,
    *,
    max_f1_loss: float = MAX_F1_LOSS,
) -> FieldAgreement:
    """Returns how close a variant's fields are to its graph's, which are the reference."""
    known = set(labels.fields)
    scored = known <= set(invented.FORM_LABELS) or known <= set(invented.FIELD_LABELS)
    gold = [[span for span in item.spans if span.label in known] for item in documents]
    return FieldAgreement(
        documents=len(documents),
        fields=sum(len(spans) for spans in reference),
        field_agreement=_f1(reference, variant),
        f1_graph=_f1(gold, reference) if scored else None,
        f1_variant=_f1(gold, variant) if scored else None,
        max_f1_loss=max_f1_loss,
    )


def _f1(expected: DocumentSpans, found: DocumentSpans) -> float:
    return 100 * entity_score(zip(expected, found, strict=True)).f1
