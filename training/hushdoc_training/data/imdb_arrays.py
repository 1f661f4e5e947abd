"""Files imdb_*.npy of PFL-DocVQA and its like: NumPy arrays of Python objects, which are pickles.

A pickle can name any function of any module and have it called when it is loaded, so that whoever
wrote the file would run programs here. This module loads them with an unpickler for which no name
exists but the few that NumPy's arrays and numbers are made with, and each of these stands for a
class of this module that only keeps what it is given: nothing of NumPy is called with what the file
says before it was looked at. Whatever else a file names is refused (UNSAFE_FILE).
"""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from hushdoc.arguments import MalformedError, printable, reading_as, short_repr
from hushdoc.errors import AnnotationError, LimitExceededError
from hushdoc.system import atomic_files
from hushdoc_training.data.pfl_docvqa import HEADER

WARNING = (
    "an .npy file of objects is a Python pickle, which can run any program where it is opened with "
    "allow_pickle=True. It is read here as arrays, numbers, texts and containers alone; what names "
    "anything else is refused. Take it from nobody whom you would not trust with the documents"
)

MAX_BYTES = 8 * 2**30
MAX_ROWS = 10_000_000
MAX_WORDS = 100_000
"""Words of one row."""

_PLAIN = re.compile(r"[<>=|]?([bif][1248]|U[1-9][0-9]{0,5})")
_KEYS = (
    "question_id",
    "question",
    "answers",
    "answer",
    "image_name",
    "set_name",
    "provider",
    "document",
)


def convert(path: Path, out: Path) -> int:
    """Writes the rows of an array of objects as lines of JSON, its header first; returns how many.

    Raises:
        AnnotationError: The file is no array of records; with code UNSAFE_FILE, it names a class
            or function that such arrays don't need, and nothing was called.
        LimitExceededError: It is larger than MAX_BYTES, MAX_ROWS or MAX_WORDS.
        OutputExistsError: OUT is there already.
        OutputWriteError: The disk is full or not writable. Nothing half-written stays.
    """
    atomic_files.require_free(out)
    if not path.is_file():
        raise AnnotationError(f"'{printable(path)}' is no file. Name an imdb_*.npy file.")
    with reading_as("an array of PFL-DocVQA", str(path), error=AnnotationError):
        rows = _rows(path)
    with atomic_files.new_file(out) as stream:
        for number, row in enumerate(rows):
            with reading_as("a row of PFL-DocVQA", f"{path}, row {number}", error=AnnotationError):
                line = {HEADER: _header(row)} if number == 0 else _record(row)
                text = json.dumps(line, ensure_ascii=False, allow_nan=False)
            stream.write(f"{text}\n".encode())
    return len(rows) - 1


class _Type:
    """What a file says is numpy.dtype: kept as it is written."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code
        self.order = "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def plain(self) -> np.dtype[Any]:
        """Returns a type of numbers or texts; MalformedError for any other."""
        code = self.code if isinstance(self.code, str) else "?"
        order = self.order if self.order in ("<", ">") else ""
        if not _PLAIN.fullmatch(code):
            raise MalformedError(f"an array is of {short_repr(self.code)}, not of numbers or texts")
        return np.dtype(order + code.lstrip("<>=|"))


class _Array:
    """What a file says is numpy.ndarray: its shape, type and content, not looked at yet."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def listed(self) -> list[Any]:
        """Returns the array's rows as lists, of numbers or, in one dimension, of objects."""
        _, shape, kind, fortran, content = self.state
        sizes = [size for size in shape if type(size) is int and size >= 0]
        if len(sizes) != len(shape) or not isinstance(kind, _Type):
            raise MalformedError("an array has no shape or no type")
        if 0 in sizes[1:] and sizes[0]:  # any number of empty lists, out of no content
            raise MalformedError(f"an array of shape {short_repr(sizes)} has empty rows")
        if kind.code in ("O", "O8") and isinstance(content, list):
            if sizes != [len(content)]:
                raise MalformedError(f"an array of shape {short_repr(sizes)} has other content")
            return content
        if not isinstance(content, bytes):
            raise MalformedError("an array's content is no bytes")
        values = np.frombuffer(content, dtype=kind.plain())
        if values.size != math.prod(sizes):
            raise MalformedError(f"an array of shape {short_repr(sizes)} has {values.size} numbers")
        found: list[Any] = values.reshape(sizes, order="F" if fortran else "C").tolist()
        return found


def _scalar(kind: Any, content: Any = None) -> Any:
    if not isinstance(kind, _Type) or not isinstance(content, bytes):
        raise MalformedError("a number of NumPy has no type or no content")
    (value,) = np.frombuffer(content, dtype=kind.plain()).tolist()
    return value


_KNOWN: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Array,
    **{
        (module, name): made
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
        for name, made in (("_reconstruct", lambda *_: _Array()), ("scalar", _scalar))
    },
}


class _Unpickler(pickle.Unpickler):
    """An unpickler for which nothing exists but stand-ins for NumPy's arrays and numbers."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns the stand-in of a name; AnnotationError for every other."""
        known = _KNOWN.get((module, name))
        if known is None:
            raise AnnotationError(
                f"The file names {short_repr(f'{module}.{name}')}, which an array of records does "
                "not need: a pickle has such names called. Nothing was called. Don't open this "
                "file with another program; ask where it comes from.",
                code="UNSAFE_FILE",
            )
        return known

    def persistent_load(self, pid: Any) -> Any:
        """Refuses objects that stand elsewhere."""
        raise MalformedError("it refers to an object outside of the file")


def _rows(path: Path) -> list[Any]:
    if path.stat().st_size > MAX_BYTES:
        raise LimitExceededError(f"'{printable(path)}' has more than {MAX_BYTES} bytes. Split it.")
    with path.open("rb") as file:
        _require_objects(file)
        try:
            found = _Unpickler(file).load()
        except MemoryError:
            raise LimitExceededError(
                f"'{printable(path)}' asks for more memory than there is."
            ) from None
    rows = found.listed() if isinstance(found, _Array) else found
    if not isinstance(rows, list) or not 1 < len(rows) <= MAX_ROWS:
        raise MalformedError("it is no list of a header and rows")
    return rows


def _require_objects(file: BinaryIO) -> None:
    """Reads the file's head; MalformedError unless it is of a list of objects."""
    version = npy.read_magic(file)
    reader = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if reader is None:
        raise MalformedError(f"its version is {version}")
    shape, _, kind = reader(file)
    if kind != np.dtype(object) or len(shape) != 1:
        raise MalformedError(f"it is of {kind} and {len(shape)} dimensions, not a list of records")


def _header(row: Any) -> dict[str, Any]:
    """Returns what a header says in texts and numbers."""
    items = row.items() if isinstance(row, dict) else ()
    return {str(key): value for key, value in items if type(value) in (str, int, float, bool)}


def _record(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise MalformedError(f"it is {type(row).__name__}, not a record")
    found: dict[str, Any] = {}
    for key in _KEYS:
        value = row.get(key)
        listed = isinstance(value, list) and all(type(one) is str for one in value)
        if value is None:
            continue
        if not listed and type(value) not in (str, int):
            raise MalformedError(f"its {key} is {type(value).__name__}")
        found[key] = value
    words, boxes = (_list(row[key], key) for key in ("ocr_tokens", "ocr_normalized_boxes"))
    if not all(type(word) is str for word in words):
        raise MalformedError("its ocr_tokens are no texts")
    found["ocr_tokens"] = words
    found["ocr_normalized_boxes"] = [_box(box) for box in boxes]
    return found


def _list(value: Any, key: str) -> list[Any]:
    found = value.listed() if isinstance(value, _Array) else value
    if not isinstance(found, list):
        raise MalformedError(f"its {key} is {type(found).__name__}, not a list")
    if len(found) > MAX_WORDS:
        raise LimitExceededError(f"A row has more than {MAX_WORDS} words.")
    return found


def _box(value: Any) -> list[float]:
    box = value.listed() if isinstance(value, _Array) else value
    if not isinstance(box, list | tuple) or len(box) != 4:
        raise MalformedError("a box is no four numbers")
    if not all(type(side) in (int, float) and math.isfinite(side) for side in box):
        raise MalformedError("a box is no four numbers")
    return [float(side) for side in box]
