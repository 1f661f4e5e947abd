"""Uploads: what a request's body holds, within limits, and never on a disk."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import LimitExceededError
from hushdoc.server.limits import Limits
from hushdoc.server.problems import RequestRefusedError
from hushdoc.server.work import ClientGoneError

MULTIPART = "multipart/form-data"
RAW = (
    "application/pdf",
    "application/json",
    "application/xml",
    "application/octet-stream",
    "text/plain",
    "text/html",
    "text/xml",
    "image/png",
    "image/jpeg",
    "image/tiff",
    "image/webp",
    "image/bmp",
    "image/gif",
)
"""Content types of one document. What it is, its content says, as everywhere in hushdoc."""

_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{1,70}")
"""RFC 2046, section 5.1.1."""

MAX_FIELDS = 200
MAX_FIELD_BYTES = 100_000
NAMELESS = "document"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """One file of a request, by the name that the client gave it."""

    name: str
    content: bytes


class _InMemory(MultiPartParser):
    """Keeps files in memory; Starlette's own writes those above a megabyte to a disk."""

    spool_max_size = 2**62
    max_file_size = 2**62  # what earlier releases of Starlette call it
    ended = False

    def on_end(self) -> None:
        """Notes that the form's last boundary was there, which Starlette asks of no form."""
        self.ended = True


async def received(
    request: Request, limits: Limits, count: Callable[[int], None]
) -> tuple[list[Upload], dict[str, list[str]]]:
    """Returns the files of a request and its form's fields, within size and time.

    Raises:
        RequestRefusedError: Its content type, its form or its time.
        LimitExceededError: It is larger than the limits allow (REQUEST_TOO_LARGE).
        ClientGoneError: The client hung up.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != MULTIPART and kind not in RAW:
        raise RequestRefusedError(
            f"The content type is {short_repr(kind)}; expected {MULTIPART} with one or several "
            f"files, or one document as {', '.join(RAW)}.",
            code="UNSUPPORTED_MEDIA_TYPE",
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        )
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.max_body_bytes:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.upload_seconds):
            if kind == MULTIPART:
                return await _form(request, limits, count)
            content = b"".join([chunk async for chunk in _bounded(request, limits, count)])
            return [Upload(name=NAMELESS, content=content)], {}
    except TimeoutError as error:
        raise RequestRefusedError(
            f"The request was not there after {limits.upload_seconds:g} seconds. Send it faster, "
            "or in parts.",
            code="UPLOAD_TIMEOUT",
            status=HTTPStatus.REQUEST_TIMEOUT,
        ) from error
    except ClientDisconnect as error:
        raise ClientGoneError from error


async def _bounded(
    request: Request, limits: Limits, count: Callable[[int], None]
) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limits.max_body_bytes:
            raise _too_large(limits)
        count(len(chunk))
        yield chunk


async def _form(
    request: Request, limits: Limits, count: Callable[[int], None]
) -> tuple[list[Upload], dict[str, list[str]]]:
    parser = _InMemory(
        _content_type(request),
        _bounded(request, limits, count),
        max_files=limits.max_files,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    uploads: list[Upload] = []
    fields: dict[str, list[str]] = {}
    try:
        form = await parser.parse()
        if not parser.ended:
            raise MultiPartException("It is cut off before its last boundary.")
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                own = printable(_from_bytes(value.filename or NAMELESS), 200)
                uploads.append(Upload(name=own, content=await value.read()))
                await value.close()
            else:
                fields.setdefault(_from_bytes(name), []).append(_from_bytes(value))
    except MultiPartException as error:
        raise _bad_form(printable(error.message, 200), limits) from error
    except UnicodeDecodeError as error:
        raise _bad_form("A name or a field is not UTF-8.", limits) from error
    if not uploads:
        raise RequestRefusedError(
            "The form holds no file. Give at least one part a file name.", code="BAD_FORM"
        )
    return uploads, fields


def _content_type(request: Request) -> Headers:
    """Returns the header that the parser of forms reads; Latin-1 keeps every byte as it is."""
    _, given = parse_options_header(request.headers["content-type"])
    boundary = given.get(b"boundary", b"").decode("latin-1")
    if not _BOUNDARY.fullmatch(boundary):
        raise RequestRefusedError(
            f"The boundary of the form is {short_repr(boundary)}; expected 1 to 70 characters as "
            f"in RFC 2046. Send {MULTIPART}; boundary=...",
            code="BAD_FORM",
        )
    return Headers({"content-type": f'{MULTIPART}; boundary="{boundary}"; charset=latin-1'})


def _from_bytes(text: str) -> str:
    """Returns the UTF-8 that was read as Latin-1: a client's own charset could take hours."""
    return text.encode("latin-1").decode("utf-8")


def _bad_form(why: str, limits: Limits) -> RequestRefusedError:
    return RequestRefusedError(
        f"The form can't be read: {why} Send {MULTIPART} in UTF-8 with up to {limits.max_files} "
        "files.",
        code="BAD_FORM",
    )


def options(
    request: Request, fields: Mapping[str, Sequence[str]], allowed: Mapping[str, str]
) -> dict[str, list[str]]:
    """Returns what query and form say, of these names alone."""
    query = request.query_params
    found = {name: query.getlist(name) for name in query} | {n: list(v) for n, v in fields.items()}
    unknown = sorted(found.keys() - allowed.keys())
    if unknown:
        raise RequestRefusedError(
            f"The request names {', '.join(map(short_repr, unknown))}; expected "
            f"{', '.join(allowed) or 'no option'}.",
            code="UNKNOWN_OPTION",
        )
    both = sorted(query.keys() & fields.keys())
    if both:
        raise RequestRefusedError(
            f"{short_repr(both[0])} stands in the query and in the form. Give it in one of them.",
            code="UNKNOWN_OPTION",
        )
    return found


def _too_large(limits: Limits) -> LimitExceededError:
    return LimitExceededError(
        f"The request is larger than {limits.max_body_bytes} bytes. Send fewer pages at once.",
        code="REQUEST_TOO_LARGE",
    )
