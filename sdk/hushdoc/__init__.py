"""Hushdoc: document models that prove how private their training was.

The names below are the public ones; they are imported when first used, so that `import hushdoc`
costs next to nothing and needs none of the packages that only some of them need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushdoc.artifact import verify
    from hushdoc.certificate import Certificate
    from hushdoc.document import Box, Document, Page, Word
    from hushdoc.errors import (
        ArtifactError,
        BoxError,
        CertificateError,
        DeviceUnavailableError,
        EmptyDocumentError,
        HushdocError,
        InputError,
        LimitExceededError,
        MissingExtraError,
        PolicyViolationError,
        SignatureError,
        TaskMismatchError,
        TelemetryActiveError,
        UnsupportedFormatError,
    )
    from hushdoc.policy import Policy
    from hushdoc.runtime.crf import HashedCRFModel
    from hushdoc.runtime.extraction import Extraction, Failure, Field
    from hushdoc.runtime.kie import KIEModel
    from hushdoc.runtime.loading import load
    from hushdoc.runtime.session import Runtime
    from hushdoc.signing import TrustStore
    from hushdoc.viewing.overlay import overlay

__version__ = "0.1.0"

__all__ = [
    "ArtifactError",
    "Box",
    "BoxError",
    "Certificate",
    "CertificateError",
    "DeviceUnavailableError",
    "Document",
    "EmptyDocumentError",
    "Extraction",
    "Failure",
    "Field",
    "HashedCRFModel",
    "HushdocError",
    "InputError",
    "KIEModel",
    "LimitExceededError",
    "MissingExtraError",
    "Page",
    "Policy",
    "PolicyViolationError",
    "Runtime",
    "SignatureError",
    "TaskMismatchError",
    "TelemetryActiveError",
    "TrustStore",
    "UnsupportedFormatError",
    "Word",
    "load",
    "overlay",
    "verify",
]

_HOMES = {
    "Box": "document",
    "Certificate": "certificate",
    "Document": "document",
    "Extraction": "runtime.extraction",
    "Failure": "runtime.extraction",
    "Field": "runtime.extraction",
    "HashedCRFModel": "runtime.crf",
    "KIEModel": "runtime.kie",
    "Page": "document",
    "Policy": "policy",
    "Runtime": "runtime.session",
    "TrustStore": "signing",
    "Word": "document",
    "load": "runtime.loading",
    "overlay": "viewing.overlay",
    "verify": "artifact",
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
