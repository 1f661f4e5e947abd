"""Arguments: checks of what callers pass, and text that is safe to print.

Data of a wrong type is an InputError, as a program may have it from anywhere; in a batch it fails
one document. A setting that does not exist is a ValueError.
"""

from __future__ import annotations

import json
import os
import re
import reprlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from hushdoc.errors import HushdocError, InputError, UnsupportedFormatError

T = TypeVar("T")

BACKSLASHES = (
    "In double quotes TOML takes \\ for the beginning of another character: write such a path with "
    "/ or in single quotes"
)
"""What is said of a file of TOML with a path of Windows that is not what it seems."""


_HALVES = re.compile("[\ud800-\udfff]")


def is_unicode(text: str) -> bool:
    """Returns whether a text has no half of a character (surrogate), which UTF-8 can't hold."""
    return text.isascii() or _HALVES.search(text) is None


def as_text(path: str) -> str:
    """Returns a path as Unicode; bytes of a name that are none are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def has_controls(value: object) -> bool:
    """Returns whether a text has control characters but NUL, as a path that was misread may."""
    return isinstance(value, str) and any(0 < ord(one) < 32 or ord(one) == 127 for one in value)


def printable(value: object, limit: int = 4000) -> str:
    """Returns text that can't steer a terminal: control characters, bidi marks etc. are escaped.

    Every foreign text that is printed or put into a message goes through here.
    """
    text = str(value)
    safe = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text[:limit]
    )
    return safe if len(text) <= limit else safe + "..."


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, which gets an s unless there is one of them.

    Example:
        >>> counted(1, "document"), counted(0, "document")
        ('1 document', '0 documents')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def short_repr(value: object, limit: int = 60) -> str:
    """Returns a value as Python writes it, shortened however long or deep it is, and printable."""
    brief = reprlib.Repr()
    brief.maxlevel, brief.maxstring, brief.maxlong, brief.maxother = 3, limit, limit, limit
    try:
        return printable(brief.repr(value))
    except Exception:  # a repr may raise anything; Python writes no very long integer
        return type(value).__name__


def described(value: object) -> str:
    """Returns what a value is, for a message: its type, and the start of a text."""
    name = type(value).__name__
    return f"{name} {short_repr(value)}" if isinstance(value, str) else name


def instance(value: object, cls: type[T], *, what: str, advice: str) -> T:
    """Returns a value that is an instance of a class; else raises InputError with the advice."""
    if isinstance(value, cls):
        return value
    raise InputError(f"{what} is {described(value)}; expected {_called(cls)}. {advice}")


def optional(value: object, cls: type[T], *, what: str, advice: str) -> T | None:
    """Returns None or an instance of a class; else raises InputError."""
    return None if value is None else instance(value, cls, what=what, advice=advice)


def text(value: object, *, what: str) -> str:
    """Returns a string; else raises InputError."""
    return instance(value, str, what=what, advice="Pass a string.")


def path(value: object, *, what: str) -> Path:
    """Returns the path of a file or folder, given as a string or path; else raises InputError."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(found, str):
        return Path(found)
    raise InputError(
        f"{what} is {described(value)}; expected a path: str or pathlib.Path. Name it."
    )


def listed(values: object, *, what: str, of: str) -> tuple[Any, ...]:
    """Returns the items of an iterable but a string, bytes or mapping; else raises InputError."""
    return tuple(each(values, what=what, of=of))


def each(values: object, *, what: str, of: str) -> Iterator[Any]:
    """Returns an iterator over the items of an iterable; else raises InputError."""
    single = isinstance(values, str | bytes | bytearray | memoryview | Mapping)
    with suppress(TypeError):  # what can't be gone through says so, and only when it is asked
        if not single:
            return iter(cast("Iterable[Any]", values))
    raise InputError(
        f"{what} is {described(values)}; expected a list, or another iterable, of {of}. Pass one, "
        "be it of a single item."
    )


def choice(value: object, names: Sequence[str], *, what: str) -> str:
    """Returns one of the given names; else raises ValueError."""
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(
        f"{what} is {short_repr(value)}; expected one of {', '.join(map(repr, names))}."
    )


def integer(value: object, *, what: str, least: int = 1) -> int:
    """Returns an integer (not a boolean) that is at least `least`; else raises ValueError."""
    if type(value) is int and value >= least:
        return value
    raise ValueError(f"{what} is {short_repr(value)}; expected an integer >= {least}.")


def seconds(value: object, *, what: str) -> float:
    """Returns a positive number of seconds that a system can wait; else raises ValueError."""
    if isinstance(value, int | float) and 0 < value < threading.TIMEOUT_MAX:
        return value
    raise ValueError(f"{what} is {short_repr(value)}; expected a positive number of seconds.")


@contextmanager
def expecting(what: str, parts: str) -> Iterator[None]:
    """Turns any failure on an object with parts of a wrong type into one InputError."""
    with _typed(
        lambda failure: f"{what} is not made of what it should be: {failure}. Expected {parts}.",
        InputError,
    ):
        yield


class MalformedError(ValueError):
    """Says in words of ours what of a structure can't be used; a door makes it a typed error."""


@contextmanager
def reading_as(
    form: str, name: str, *, error: type[InputError] = UnsupportedFormatError
) -> Iterator[None]:
    """Turns whatever a reader of a file raises into one typed error: the door of every reader.

    The message names the file, what it was read as, and the kind of failure. The cause is kept.
    """
    with _typed(
        lambda failure: (
            f"'{printable(name, 200)}' can't be read as {form}: {failure}. Pass the output as it "
            "was written, or name its true format."
        ),
        error,
    ):
        yield


@contextmanager
def _typed(message: Callable[[str], str], typed: type[InputError]) -> Iterator[None]:
    """Turns unforeseen failures into a typed one.

    Errors and warnings of ours pass as they are; so does a lack of memory, which says nothing
    about the input, and so do Ctrl-C and its like.
    """
    try:
        yield
    except (HushdocError, UserWarning, MemoryError):
        raise
    except Exception as error:
        raise typed(message(failure_of(error))) from error


def failure_of(error: BaseException) -> str:
    """Returns what kind of failure it was, without words that may be those of a document."""
    if isinstance(error, MalformedError):
        return printable(error, limit=200)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not {error.encoding.upper()} at byte {error.start}"
    if isinstance(error, json.JSONDecodeError):
        place = f"line {error.lineno}, " if error.lineno > 1 else ""
        return f"it is not JSON at {place}column {error.colno}: {error.msg}"
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    if isinstance(key, str) and key.isidentifier() and len(key) <= 40:
        return f"it lacks {key!r}"
    return type(error).__name__


def _called(cls: type) -> str:
    article = "an" if cls.__name__[0] in "AEIOUaeiou" else "a"
    return f"{article} {cls.__name__}"
