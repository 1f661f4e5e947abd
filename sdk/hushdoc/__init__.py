"""Hushdoc: document models that prove how private their training was.

The names below are the public ones; they are imported when first used, so that `import hushdoc`
costs next to nothing and needs none of the packages that only some of them need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hushdoc.version import __version__ as __version__

if TYPE_CHECKING:
    from hushdoc.artifact.artifact import verify
    from hushdoc.certificate.certificate import Certificate
    from hushdoc.document.document import Document
    from hushdoc.document.limits import ReadingLimits
    from hushdoc.document.page import Box, Page, Word
    from hushdoc.errors import (
        ArtifactError,
        BoxError,
        CertificateError,
        DeviceUnavailableError,
        EmptyDocumentError,
        EncryptedDocumentError,
        HushdocError,
        InputError,
        LimitExceededError,
        MissingExtraError,
        ModelClosedError,
        OCRError,
        OCRRequiredError,
        PolicyViolationError,
        SignatureError,
        TaskMismatchError,
        TelemetryActiveError,
        UnsupportedFormatError,
        WordError,
    )
    from hushdoc.explanation.narrative import explain
    from hushdoc.policy.policy import Policy
    from hushdoc.reading.opening import open_document
    from hushdoc.runtime.answers import Answer, Answers
    from hushdoc.runtime.classification import ClassificationModel
    from hushdoc.runtime.dataframes import to_pandas
    from hushdoc.runtime.docvqa import DocVQAModel
    from hushdoc.runtime.embedding import EmbeddingModel
    from hushdoc.runtime.extraction import Extraction, Failure, Field
    from hushdoc.runtime.hashed.model import HashedCRFModel
    from hushdoc.runtime.kie import KIEModel
    from hushdoc.runtime.label_scores import Classification, LabelScore
    from hushdoc.runtime.loading import load
    from hushdoc.runtime.session import Runtime
    from hushdoc.runtime.vectors import Embedding
    from hushdoc.signing.trust_store import TrustStore
    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc.viewing.hocr import to_hocr
    from hushdoc.viewing.html import to_html
    from hushdoc.viewing.markdown import to_markdown
    from hushdoc.viewing.overlay import overlay
    from hushdoc.viewing.redaction import Redaction, redact

__all__ = [
    "Answer",
    "Answers",
    "ArtifactError",
    "Box",
    "BoxError",
    "Certificate",
    "CertificateError",
    "Classification",
    "ClassificationModel",
    "DeviceUnavailableError",
    "DocVQAModel",
    "Document",
    "Embedding",
    "EmbeddingModel",
    "EmptyDocumentError",
    "EncryptedDocumentError",
    "Extraction",
    "Failure",
    "Field",
    "HashedCRFModel",
    "HushdocError",
    "InputError",
    "KIEModel",
    "LabelScore",
    "LimitExceededError",
    "MissingExtraError",
    "ModelClosedError",
    "OCRError",
    "OCRRequiredError",
    "Page",
    "Policy",
    "PolicyViolationError",
    "ReadingLimits",
    "Redaction",
    "Runtime",
    "SignatureError",
    "SyntheticDocuments",
    "TaskMismatchError",
    "TelemetryActiveError",
    "TrustStore",
    "UnsupportedFormatError",
    "Word",
    "WordError",
    "explain",
    "load",
    "open_document",
    "overlay",
    "redact",
    "to_hocr",
    "to_html",
    "to_markdown",
    "to_pandas",
    "verify",
]

_HOMES = {
    "Answer": "runtime.answers",
    "Answers": "runtime.answers",
    "Box": "document.page",
    "Certificate": "certificate.certificate",
    "Classification": "runtime.label_scores",
    "ClassificationModel": "runtime.classification",
    "DocVQAModel": "runtime.docvqa",
    "Document": "document.document",
    "Embedding": "runtime.vectors",
    "EmbeddingModel": "runtime.embedding",
    "Extraction": "runtime.extraction",
    "Failure": "runtime.extraction",
    "Field": "runtime.extraction",
    "HashedCRFModel": "runtime.hashed.model",
    "KIEModel": "runtime.kie",
    "LabelScore": "runtime.label_scores",
    "Page": "document.page",
    "Policy": "policy.policy",
    "ReadingLimits": "document.limits",
    "Redaction": "viewing.redaction",
    "Runtime": "runtime.session",
    "SyntheticDocuments": "synthetic_documents",
    "TrustStore": "signing.trust_store",
    "Word": "document.page",
    "explain": "explanation.narrative",
    "load": "runtime.loading",
    "open_document": "reading.opening",
    "overlay": "viewing.overlay",
    "redact": "viewing.redaction",
    "to_hocr": "viewing.hocr",
    "to_html": "viewing.html",
    "to_markdown": "viewing.markdown",
    "to_pandas": "runtime.dataframes",
    "verify": "artifact.artifact",
}
"""The module of each public name that is not an error."""


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'hushdoc' has no attribute {name!r}")
    value = getattr(import_module(f"hushdoc.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Lists the public names, imported already or not."""
    return sorted({*globals(), *__all__})
