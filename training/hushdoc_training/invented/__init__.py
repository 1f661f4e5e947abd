"""Invented documents: an endless stream of public invoices, receipts and forms, keyed by numbers.

Contract: a document is a pure function of (seed, index, config). Nothing here was copied from any
data set; all words come from this package's own lists.
"""

from hushdoc_training.invented.drawing import draw
from hushdoc_training.invented.label_sets import LABEL_SETS
from hushdoc_training.invented.planning import Plan, labelled, plan
from hushdoc_training.invented.settings import (
    DOCUMENT_TYPES,
    FIELD_LABELS,
    FORM_LABELS,
    KNOWN_TYPES,
    LAYOUTS,
    NUM_PROVIDERS,
    NUM_WORDINGS,
    QUESTIONS,
    InventedConfig,
)
from hushdoc_training.invented.storage import write
from hushdoc_training.invented.stream import document, documents, image

__all__ = [
    "DOCUMENT_TYPES",
    "FIELD_LABELS",
    "FORM_LABELS",
    "KNOWN_TYPES",
    "LABEL_SETS",
    "LAYOUTS",
    "NUM_PROVIDERS",
    "NUM_WORDINGS",
    "QUESTIONS",
    "InventedConfig",
    "Plan",
    "document",
    "documents",
    "draw",
    "image",
    "labelled",
    "plan",
    "write",
]
