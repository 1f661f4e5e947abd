"""Agreement: how far the fields of a variant are from those of the graph it was made from.

Both read the same invented documents, as an application would: windows, merging, decoding and all.
No data set is read; the documents come from our public generator, of providers that training on
invented documents does not draw from by itself.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.errors import ParityError
from hushdoc.labels import LabelledDocument, LabelSet, Span, spans_from_words
from hushdoc.runtime.extraction import Extraction
from hushdoc.runtime.kie import KIEModel
from hushdoc_training import invented
from hushdoc_training.metrics import entity_score

NUM_DOCUMENTS = 60
SEED = 20261121
PROVIDERS = (31_000, 32_000)

MAX_F1_LOSS = 0.5
"""Points of F1, of 100, that a variant may lose unasked."""

MEANINGFUL_F1 = 50.0
"""Below this the graph itself can't read the invented documents, and right and wrong say little
about a variant: then its fields are held against the graph's."""

Found = list[list[Span]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How close a variant's fields are to those of its graph.

    F1 is in points of 100; a field counts with its exact words and its label.

    Attributes:
        documents: How many were read.
        fields: How many fields the graph found in them.
        field_agreement: F1 of the variant's fields against the graph's.
        f1_graph: F1 of the graph's fields against the invented labels; None where the model's
            labels are not the generator's.
        f1_variant: The same of the variant's.
    """

    documents: int
    fields: int
    field_agreement: float
    f1_graph: float | None
    f1_variant: float | None

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

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the certificate's derivation."""
        against = "the invented labels" if self.by_labels else "the fields of the float32 graph"
        return {
            "documents": self.documents,
            "fields": self.fields,
            "fieldAgreement": round(self.field_agreement, 4),
            "f1Graph": None if self.f1_graph is None else round(self.f1_graph, 4),
            "f1Variant": None if self.f1_variant is None else round(self.f1_variant, 4),
            "f1Loss": round(self.f1_loss, 4),
            "f1LossAgainst": against,
            "inputs": "invented documents",
        }


def documents(labels: LabelSet, *, count: int = NUM_DOCUMENTS) -> list[LabelledDocument]:
    """Returns invented documents, labelled as a model's labels are if the generator knows them."""
    return list(invented.documents(seed=SEED, count=count, config=_config(labels)))


@contextlib.contextmanager
def asked(
    labels: LabelSet, *, images: bool, count: int = NUM_DOCUMENTS
) -> Iterator[list[LabelledDocument]]:
    """Gives what `documents` returns; images of the pages stand in files as long as it is open.

    Args:
        labels: The model's.
        images: Whether the model reads images.
        count: How many documents.
    """
    if not images:
        yield documents(labels, count=count)
        return
    with tempfile.TemporaryDirectory(prefix="hushdoc-export-") as scratch:
        written = invented.write(
            Path(scratch) / "pages", seed=SEED, count=count, config=_config(labels)
        )
        yield [invented.read(path) for path in written]


def _config(labels: LabelSet) -> invented.InventedConfig:
    form = set(labels.fields) <= set(invented.FORM_LABELS)
    return invented.InventedConfig(
        document_types=("form",) if form else invented.DOCUMENT_TYPES,
        labels="form" if form else "fields",
        providers=PROVIDERS,
    )


def fields_of(model: KIEModel, asked: Sequence[LabelledDocument]) -> Found:
    """Returns the spans that a model finds in each document."""
    return [_spans(model.extract(item.document)) for item in asked]


def compare(
    reference: Found, found: Found, asked: Sequence[LabelledDocument], labels: LabelSet
) -> Agreement:
    """Returns how close a variant's fields are to its graph's.

    Args:
        reference: What the graph found in each document.
        found: What the variant found.
        asked: The documents, with their labels.
        labels: The model's.
    """
    known = set(labels.fields)
    scored = known <= set(invented.FORM_LABELS) or known <= set(invented.FIELD_LABELS)
    gold = [[span for span in item.spans if span.label in known] for item in asked]
    return Agreement(
        documents=len(asked),
        fields=sum(len(spans) for spans in reference),
        field_agreement=_f1(reference, found),
        f1_graph=_f1(gold, reference) if scored else None,
        f1_variant=_f1(gold, found) if scored else None,
    )


def require_agreement(variant: str, agreement: Agreement, *, max_f1_loss: float) -> None:
    """Raises unless a variant loses no more than was allowed.

    Args:
        variant: Its name.
        agreement: What was measured.
        max_f1_loss: Points of F1 it may lose.

    Raises:
        ParityError: VARIANT_LOSES_TOO_MUCH.
    """
    if agreement.f1_loss <= max_f1_loss:
        return
    against = "the invented labels" if agreement.by_labels else "what the float32 graph finds"
    raise ParityError(
        f"The {variant} variant loses {agreement.f1_loss:.2f} points of F1 against {against} on "
        f"{agreement.documents} invented documents; at most {max_f1_loss:g} is allowed. Export "
        "the fp32 variant, or name the loss that you accept: the certificate will state it.",
        code="VARIANT_LOSES_TOO_MUCH",
    )


def _spans(answer: Extraction) -> list[Span]:
    return [
        span
        for field in answer.fields
        for span in spans_from_words(field.word_ids, label=field.label, page=field.page)
    ]


def _f1(expected: Found, found: Found) -> float:
    return 100 * entity_score(zip(expected, found, strict=True)).f1
