"""Fingerprints of records: whether two processes, or two starts of one run, read the same data.

A fingerprint covers content: numbers, text, bytes, arrays, tensors, pictures, and whatever is made
of those. What an object of another kind holds can't be seen, and taking two of them for alike would
be a guess; the caller then says what stands for a row.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import hashlib
import pathlib
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from hushdoc.errors import PrivacyError

Row = TypeVar("Row")

_SPELLED = (
    *(type(None), bool, int, complex, str, range, slice, enum.Enum),
    *(pathlib.PurePath, uuid.UUID, decimal.Decimal),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
)
"""What `repr` tells all of."""

_DEEPEST = 40


def of_records(
    records: Sequence[Sequence[Row]], fingerprint: Callable[[Row], object] | None = None
) -> str:
    """Returns a digest of all records with their rows, in their order.

    Args:
        records: The rows of each.
        fingerprint: Returns what stands for a row; the row itself by default.

    Raises:
        PrivacyError: A row holds something whose content can't be seen; the message says where.

    Example:
        >>> of_records([[1], [2, 3]]) == of_records([(1,), range(2, 4)])
        True
        >>> of_records([[1], [2, 3]]) == of_records([[2, 3], [1]])
        False
        >>> of_records([[1]], lambda row: "a") == of_records([["a"]])
        True
    """
    whole = hashlib.sha256()
    for number in range(len(records)):
        whole.update(b"record")
        for at, row in enumerate(records[number]):
            told = row if fingerprint is None else fingerprint(row)
            try:
                whole.update(of(told))
            except _UnknownError as unknown:
                raise PrivacyError(
                    f"Row {at} of record {number} holds a {unknown.kind} (row{unknown.where}), "
                    "whose content can't be compared, and whether the data are the same has to be "
                    "known here. Give `fingerprint`, a function that returns what stands for a "
                    "row: numbers, text or tensors; a file's name, size and time, say."
                ) from None
    return whole.hexdigest()


def of(value: object) -> bytes:
    """Returns 32 bytes that differ where contents differ."""
    digest = hashlib.sha256()
    _feed(digest, value, "")
    return digest.digest()


class _UnknownError(Exception):
    def __init__(self, value: object, where: str) -> None:
        super().__init__(where)
        self.kind = f"'{type(value).__name__}'"
        self.where = where


def _feed(digest: Any, value: Any, where: str, depth: int = 0) -> None:
    if depth > _DEEPEST:  # it may hold itself
        raise _UnknownError(value, where)
    if isinstance(value, _SPELLED):
        _put(digest, type(value).__qualname__, repr(value).encode())
    elif isinstance(value, float):
        _put(digest, "float", struct.pack("<d", value))
    elif isinstance(value, bytes | bytearray | memoryview):
        _put(digest, "bytes", bytes(value))
    elif isinstance(value, torch.Tensor):
        _put_tensor(digest, value, where)
    elif _is_array(value):
        _put_array(digest, np.asarray(value), where)
    else:
        _feed_parts(digest, value, where, depth)


def _feed_parts(digest: Any, value: Any, where: str, depth: int) -> None:
    if isinstance(value, Mapping):
        kind, keys = "mapping", sorted(value, key=of)
        parts = [(f"[{key!r}]", pair) for key in keys for pair in (key, value[key])]
    elif isinstance(value, AnySet):
        kind, parts = "set", [("", one) for one in sorted(value, key=of)]
    elif is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__qualname__
        parts = [(f".{field.name}", getattr(value, field.name)) for field in fields(value)]
    elif isinstance(value, Sequence):
        kind, parts = "sequence", [(f"[{at}]", one) for at, one in enumerate(value)]
    else:
        raise _UnknownError(value, where)
    _put(digest, kind, str(len(parts)).encode())
    for name, part in parts:
        _feed(digest, part, where + name, depth + 1)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array_interface__")


def _put_array(digest: Any, array: Any, where: str) -> None:
    if array.dtype.hasobject:
        _feed(digest, array.tolist(), where, 1)
        return
    _put(digest, f"{array.dtype.str}{array.shape}", np.ascontiguousarray(array).tobytes())


def _put_tensor(digest: Any, tensor: torch.Tensor, where: str) -> None:
    try:
        plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        content = plain.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantized, on no device
        raise _UnknownError(tensor, where) from None
    _put(digest, f"{tensor.dtype}{tuple(tensor.shape)}", content)


def _put(digest: Any, kind: str, content: Any) -> None:
    """Adds lengths too, so that no two values run into the same bytes."""
    digest.update(f"{kind}:{len(content)}:".encode())
    digest.update(content)
