"""Strict JSON: whatever two parsers could read differently is refused.

Certificates, envelopes and trust stores rest on this contract. Refused are duplicate keys,
NaN and Infinity, numbers that a double can't represent (1e400, 1e-400, integers past 2**53), a byte
order mark, anything but UTF-8, lone surrogates, and texts that are too long or too deep.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

from hushdoc.arguments import is_unicode, short_repr
from hushdoc.errors import CertificateError, HushdocError, InputError
from hushdoc.system import atomic_files

MAX_BYTES = 256 * 1024
"""A certificate, a trust store or a manifest is never larger (bytes)."""

MAX_DEPTH = 32
"""Lists and objects inside one another."""

MAX_INTEGER = 2**53 - 1
"""Above this, readers that keep numbers as doubles see another number."""

_STRINGS = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+"?+[^"\[\]{}]*+)++', re.DOTALL)
"""Strings and what is between them but brackets. The last string may lack its end, and no byte is
looked at twice (possessive quantifiers), so that the time grows with the length alone."""

_BRACKETS = b"[{]}"
_NO_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_STEPS = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")
"""What each bracket does to the depth, as signed bytes."""


def loads(
    content: bytes,
    *,
    what: str,
    code: str = "BAD_STATEMENT",
    error: type[HushdocError] = CertificateError,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """Returns the value of a JSON text about `what`, or raises `error` with `code`.

    One of more than `max_bytes` that a certificate needs is CERT_TOO_LARGE.
    """

    def refuse(found: str) -> HushdocError:
        return error(f"{what} {found}. Ask its issuer for a sound copy.", code=code)

    if len(content) > max_bytes:
        raise error(
            f"{what} has {len(content)} bytes; at most {max_bytes} are read. Refused unread.",
            code="CERT_TOO_LARGE" if issubclass(error, CertificateError) else code,
        )
    if content.startswith(b"\xef\xbb\xbf"):
        raise refuse("starts with a byte order mark, expected plain UTF-8")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise refuse(f"is not UTF-8 at byte {problem.start}") from None
    if _depth(content) > MAX_DEPTH:
        raise refuse(f"is deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _object(pairs, refuse),
            parse_float=lambda number: _float(number, refuse),
            parse_int=lambda number: _integer(number, refuse),
            parse_constant=lambda word: _constant(word, refuse),
        )
    except json.JSONDecodeError as problem:
        raise refuse(
            f"is not JSON at line {problem.lineno}, column {problem.colno}: {problem.msg}"
        ) from None
    except RecursionError:
        raise refuse(f"is deeper than {MAX_DEPTH} levels") from None
    _require_scalars(value, refuse)
    return value


def read_file(
    path: Path,
    *,
    what: str,
    code: str,
    error: type[HushdocError] = InputError,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """Returns the value of a JSON file; `error` where it can't be read or parsed."""
    try:
        content = atomic_files.read_file(path, max_bytes=max_bytes)
    except OSError as problem:
        found = problem.strerror or problem
        raise error(
            f"{what} {short_repr(str(path), limit=200)} can't be read: {found}. Check the path.",
            code=code,
        ) from problem
    return loads(content, what=f"{what} '{path}'", code=code, error=error, max_bytes=max_bytes)


def dumps(value: Any) -> bytes:
    """Returns canonical JSON: sorted keys, no whitespace, ASCII; ValueError for NaN or infinity."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


_Refuse = Callable[[str], HushdocError]


def _depth(content: bytes) -> int:
    """Lists and objects inside one another, as far as the text is JSON; linear in any text."""
    steps = _STRINGS.sub(b"", content).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _object(pairs: list[tuple[str, Any]], refuse: _Refuse) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise refuse(f"names the key {key[:60]!r} twice in one object")
        found[key] = value
    return found


def _float(number: str, refuse: _Refuse) -> float:
    value = float(number)
    mantissa = re.split("[eE]", number)[0]
    if math.isinf(value) or (value == 0 and re.search("[1-9]", mantissa)):
        raise refuse(f"holds the number {number[:40]}, which a double can't represent")
    return value


def _integer(number: str, refuse: _Refuse) -> int:
    if len(number) > 17 or abs(int(number)) > MAX_INTEGER:
        raise refuse(f"holds the integer {number[:40]}, beyond 2**53 - 1")
    return int(number)


def _constant(word: str, refuse: _Refuse) -> float:
    raise refuse(f"holds {word}, which is not a JSON number")


def _require_scalars(value: Any, refuse: _Refuse) -> None:
    """Refuses strings with a lone surrogate: other readers replace or drop it."""
    if isinstance(value, str):
        if not is_unicode(value):
            raise refuse("holds a lone surrogate")
    elif isinstance(value, list):
        for item in value:
            _require_scalars(item, refuse)
    elif isinstance(value, dict):
        for key, item in value.items():
            _require_scalars(key, refuse)
            _require_scalars(item, refuse)
