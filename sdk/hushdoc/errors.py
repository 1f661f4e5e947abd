"""Every error that hushdoc raises on purpose.

    HushdocError                    code, exit_code; the message says found, expected, what to do
    +-- InputError                  (exit 3) what the caller passed
    |   +-- BoxError                a box that is NaN, swapped, empty of meaning or off its page
    |   +-- WordError               a word that is empty, no text, or holds control characters
    |   +-- EmptyDocumentError      nothing to read
    |   +-- EncryptedDocumentError  a file that opens only with a password
    |   +-- OCRRequiredError        an image of text where OCR was forbidden
    |   +-- AnnotationError         labels that are missing, malformed or do not fit the document
    |   +-- UnsupportedFormatError  a file that is not what its reader reads
    |   +-- LimitExceededError      larger than a limit allows
    |   +-- FrameError              a message of a federated run that does not fit; it is dropped
    +-- ArtifactError               (exit 4) a folder that is not a sound artifact
    +-- CertificateError            (exit 4) a certificate that is missing, malformed or forged
    |   +-- SignatureError          no signature that the trust store accepts
    +-- PolicyViolationError        (exit 5) a sound certificate that the policy refuses; .report
    +-- TaskMismatchError           (exit 4) another task's artifact
    +-- CheckpointError             (exit 4) a checkpoint that is damaged or does not fit
    |   +-- LabelMismatchError      its labels are not the data's labels
    +-- OutputExistsError           (exit 3) a second run into the same folder
    +-- OutputWriteError            (exit 6) disk full or not writable; nothing half-written stays
    +-- PrivacyError                (exit 5) training that could not keep its guarantee
    +-- FederatedRunError           (exit 6) a federated run that can't go on; it can be resumed
    +-- ParityError                 (exit 6) the exported graph does not answer like the checkpoint
    +-- MissingExtraError           (exit 6) an optional package is missing; prints the pip line
    +-- OCRError                    (exit 6) OCR whose program is missing, failed or took too long
    +-- ModelClosedError            (exit 6) a model that was asked after `close`
    +-- DeviceUnavailableError      (exit 6) an explicit device that is not there
    +-- TelemetryActiveError        (exit 6) the host imported onnxruntime with telemetry on

ValueError and TypeError are left for a caller's wrong argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class HushdocError(Exception):
    """Base of all errors; `code` is stable API, the message is for people."""

    default_code = "ERROR"
    exit_code = 6

    def __init__(self, message: str, *, code: str | None = None) -> None:
        """Takes what was found, expected and is to be done; `code` defaults to the class's own."""
        super().__init__(message)
        self.code = code or self.default_code

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles message and attributes, whatever arguments a subclass's `__init__` takes."""
        return _rebuilt, (type(self), self.args), self.__dict__


def _rebuilt(cls: type[HushdocError], args: tuple[Any, ...]) -> HushdocError:
    return cls.__new__(cls, *args)


class InputError(HushdocError):
    """Says that what the caller passed can't be used."""

    default_code = "BAD_INPUT"
    exit_code = 3


class BoxError(InputError):
    """Says which box is NaN, swapped or outside its page."""

    default_code = "BAD_BOX"


class EmptyDocumentError(InputError):
    """Says that a document has no page or no word."""

    default_code = "EMPTY_DOCUMENT"


class WordError(InputError):
    """Says which word is empty, no text, or holds characters that no page shows."""

    default_code = "BAD_WORD"


class EncryptedDocumentError(InputError):
    """Says that a file opens only with a password."""

    default_code = "ENCRYPTED_DOCUMENT"


class OCRRequiredError(InputError):
    """Says that a document is an image of text and OCR was forbidden."""

    default_code = "OCR_REQUIRED"


class AnnotationError(InputError):
    """Says that labels are missing, malformed or do not fit their document."""

    default_code = "BAD_ANNOTATION"


class UnsupportedFormatError(InputError):
    """Says that a file is not in a format its reader reads."""

    default_code = "UNSUPPORTED_FORMAT"


class LimitExceededError(InputError):
    """Says that something is larger than a limit allows."""

    default_code = "LIMIT_EXCEEDED"


class FrameError(InputError):
    """Says why a message of a federated run was dropped; nothing changed by it."""

    default_code = "BAD_FRAME"


class OutputExistsError(InputError):
    """Says that a folder already holds another run's results."""

    default_code = "OUTPUT_EXISTS"


class ArtifactError(HushdocError):
    """Says why a folder is not a sound artifact."""

    default_code = "BAD_ARTIFACT"
    exit_code = 4


class CertificateError(HushdocError):
    """Says why a certificate can't be trusted."""

    default_code = "BAD_STATEMENT"
    exit_code = 4


class SignatureError(CertificateError):
    """Says that no signature is one the trust store accepts."""

    default_code = "NO_TRUSTED_SIGNATURE"


class PolicyViolationError(HushdocError):
    """Says that the policy refuses a sound certificate; `report` lists every rule."""

    default_code = "POLICY_VIOLATION"
    exit_code = 5

    def __init__(self, message: str, *, report: Any, code: str | None = None) -> None:
        """Takes the whole PolicyReport, and as `code` that of the first rule that failed."""
        super().__init__(message, code=code)
        self.report = report


class TaskMismatchError(HushdocError):
    """Says that the artifact was built for another task."""

    default_code = "TASK_MISMATCH"
    exit_code = 4


class CheckpointError(HushdocError):
    """Says why a checkpoint can't be used."""

    default_code = "BAD_CHECKPOINT"
    exit_code = 4


class LabelMismatchError(CheckpointError):
    """Says how a checkpoint's labels differ from the data's."""

    default_code = "LABEL_MISMATCH"


class OutputWriteError(HushdocError):
    """Says that a result could not be written; nothing half-written stays."""

    default_code = "OUTPUT_NOT_WRITTEN"


class PrivacyError(HushdocError):
    """Says why training would not keep its guarantee."""

    default_code = "GUARANTEE_NOT_KEPT"
    exit_code = 5


class FederatedRunError(HushdocError):
    """Says why a federated run can't go on now; what was saved stays, and it can be resumed."""

    default_code = "FEDERATED_RUN_STOPPED"


class ParityError(HushdocError):
    """Says how far an exported graph is from its checkpoint."""

    default_code = "PARITY"


class MissingExtraError(HushdocError):
    """Says which optional package is missing and how to install it."""

    default_code = "MISSING_EXTRA"

    def __init__(self, package: str, extra: str) -> None:
        """Takes the import name that was not found, and the extra of hushdoc that brings it."""
        self.package, self.extra = package, extra
        super().__init__(
            f"The package '{package}' is not installed, and this step needs it. "
            f"Install it with: pip install 'hushdoc[{extra}]'."
        )


@contextmanager
def needs_extra(package: str, extra: str) -> Iterator[None]:
    """Turns an ImportError of the block into the error that names the extra."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(package, extra) from error


class OCRError(HushdocError):
    """Says why a page could not be read by OCR."""

    default_code = "OCR_FAILED"


class ModelClosedError(HushdocError):
    """Says that a model was asked after it was closed."""

    default_code = "MODEL_CLOSED"


class DeviceUnavailableError(HushdocError):
    """Says that an explicitly named device is not there."""

    default_code = "DEVICE_UNAVAILABLE"


class TelemetryActiveError(HushdocError):
    """Says that onnxruntime was imported with its telemetry on."""

    default_code = "TELEMETRY_ACTIVE"
