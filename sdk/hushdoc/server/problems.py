"""Problems: refusals as `application/problem+json` (RFC 9457), with the library's own codes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from hushdoc.arguments import printable
from hushdoc.errors import (
    ArtifactError,
    CertificateError,
    HushdocError,
    InputError,
    LimitExceededError,
    MissingExtraError,
    ModelClosedError,
    PolicyViolationError,
    TaskMismatchError,
    UnsupportedFormatError,
)

MEDIA_TYPE = "application/problem+json"
MAX_DETAIL = 2000
"""Characters of a message."""

_STATUSES: tuple[tuple[type[HushdocError], HTTPStatus], ...] = (
    (LimitExceededError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (UnsupportedFormatError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (InputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (TaskMismatchError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (MissingExtraError, HTTPStatus.NOT_IMPLEMENTED),
    (ModelClosedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (PolicyViolationError, HTTPStatus.SERVICE_UNAVAILABLE),
    (CertificateError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ArtifactError, HTTPStatus.SERVICE_UNAVAILABLE),
)
_BY_CODE = {
    # A file that a reader process could not read in time may be of any size.
    "READER_TIMEOUT": HTTPStatus.UNPROCESSABLE_ENTITY,
    "READER_CRASHED": HTTPStatus.UNPROCESSABLE_ENTITY,
}


class RequestRefusedError(HushdocError):
    """Says why a server does not answer a request; `status` and `headers` are those of HTTP."""

    default_code = "BAD_REQUEST"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Takes what was found, expected and is to be done, and how HTTP says it."""
        super().__init__(message, code=code)
        self.status = status
        self.headers = dict(headers or {})


def status_of(error: HushdocError) -> HTTPStatus:
    """Returns the status of HTTP that an error stands for."""
    if isinstance(error, RequestRefusedError):
        return error.status
    found = (status for cls, status in _STATUSES if isinstance(error, cls))
    return _BY_CODE.get(error.code) or next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem_of(error: HushdocError) -> dict[str, Any]:
    """Returns an error as the members of a problem; `code` is that of docs/error-codes.md."""
    status = status_of(error)
    return {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "code": error.code,
        "detail": printable(error, limit=MAX_DETAIL),
    }
