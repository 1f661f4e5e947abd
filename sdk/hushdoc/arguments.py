"""Arguments: what a caller handed in where something else was expected, told in one form.

Data of a wrong type is an InputError, as a program may have got it from anywhere; where it answers
for many documents it is one of them that failed. A setting that is none is a ValueError.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from hushdoc.errors import InputError

Kind = TypeVar("Kind")


def printable(value: object, limit: int = 4000) -> str:
    r"""Returns text that can't steer a terminal: control characters, bidi marks etc. are escaped.

    Every text of somebody else's that is printed or put into a message goes through here.

    Args:
        value: A text, or what is printed as `str` writes it, such as a path or an error.
        limit: Longest answer; the rest is cut.

    Example:
        >>> printable("safe" + chr(0x202E) + "evas" + chr(27) + "[2J")
        'safe\\u202eevas\\x1b[2J'
    """
    text = str(value)
    safe = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text[:limit]
    )
    return safe if len(text) <= limit else safe + "..."


def short_repr(value: object, limit: int = 60) -> str:
    """Returns a value as Python writes it, shortened however long or deep it is, and printable.

    Example:
        >>> short_repr([0.5, "a"]), short_repr(list(range(99)))
        ("[0.5, 'a']", '[0, 1, 2, 3, 4, 5, ...]')
    """
    brief = reprlib.Repr()
    brief.maxlevel, brief.maxstring, brief.maxlong, brief.maxother = 3, limit, limit, limit
    try:
        return printable(brief.repr(value))
    except Exception:  # whatever a foreign object or a number of very many digits raises
        return type(value).__name__


def described(value: object) -> str:
    """Returns what a value is, for a message: its type, and the start of a text.

    Example:
        >>> described(None), described(b"%PDF"), described("invoice.pdf")
        ('NoneType', 'bytes', "str 'invoice.pdf'")
    """
    name = type(value).__name__
    return f"{name} {short_repr(value)}" if isinstance(value, str) else name


def instance(value: object, kind: type[Kind], *, what: str, advice: str) -> Kind:
    """Returns a value that is an instance of a class.

    Args:
        value: What was handed in.
        kind: What it should be.
        what: How the message calls it, such as "The certificate".
        advice: What to do, a sentence.

    Raises:
        InputError: It is none.
    """
    if isinstance(value, kind):
        return value
    raise InputError(f"{what} is {described(value)}; expected {_called(kind)}. {advice}")


def optional(value: object, kind: type[Kind], *, what: str, advice: str) -> Kind | None:
    """Returns None, or a value that is an instance of a class.

    Raises:
        InputError: It is neither.
    """
    return None if value is None else instance(value, kind, what=what, advice=advice)


def text(value: object, *, what: str) -> str:
    """Returns a text.

    Raises:
        InputError: It is none.
    """
    return instance(value, str, what=what, advice="Pass a string.")


def place(value: object, *, what: str) -> Path:
    """Returns the path of a file or folder.

    Args:
        value: A text or a path object.
        what: How the message calls it.

    Raises:
        InputError: It is neither.

    Example:
        >>> place("model", what="The artifact's folder").name
        'model'
    """
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(found, str):
        return Path(found)
    raise InputError(
        f"{what} is {described(value)}; expected a path: str or pathlib.Path. Name it."
    )


def listed(values: object, *, what: str, of: str) -> tuple[Any, ...]:
    """Returns what a list, or anything else that can be gone through, holds.

    Args:
        values: A single text, bytes or an object of JSON are no list of anything.
        what: How the message calls it.
        of: What it should hold, such as "words".

    Raises:
        InputError: It can't be gone through.

    Example:
        >>> listed(["Total", "12.50"], what="words", of="words")
        ('Total', '12.50')
    """
    return tuple(each(values, what=what, of=of))


def each(values: object, *, what: str, of: str) -> Iterator[Any]:
    """Returns an iterator over what a list, or anything else that can be gone through, holds.

    Raises:
        InputError: It can't be gone through.
    """
    single = isinstance(values, str | bytes | bytearray | memoryview | Mapping)
    with suppress(TypeError):  # what can't be gone through says so, and only when it is asked
        if not single:
            return iter(cast("Iterable[Any]", values))
    raise InputError(
        f"{what} is {described(values)}; expected a list, or another iterable, of {of}. Pass one, "
        "be it of a single item."
    )


def choice(value: object, names: Sequence[str], *, what: str) -> str:
    """Returns one of some names.

    Raises:
        ValueError: It is none of them.

    Example:
        >>> choice("page", ("page", "document"), what="level")
        'page'
    """
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(
        f"{what} is {short_repr(value)}; expected one of {', '.join(map(repr, names))}."
    )


def whole(value: object, *, what: str, least: int = 1) -> int:
    """Returns an integer that is not below a bound; a boolean is none.

    Raises:
        ValueError: It is none, or below.

    Example:
        >>> whole(2, what="workers")
        2
    """
    if type(value) is int and value >= least:
        return value
    raise ValueError(f"{what} is {short_repr(value)}; expected an integer >= {least}.")


@contextmanager
def made_of(what: str, parts: str) -> Iterator[None]:
    """Turns what goes wrong with an object whose parts are of other types into one InputError.

    Args:
        what: How the message calls the object.
        parts: What it is made of, and how to make one, for the message.
    """
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(
            f"{what} is not made of what it should be: {type(error).__name__}: "
            f"{str(error)[:200]}. Expected {parts}."
        ) from error


def _called(kind: type) -> str:
    article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
    return f"{article} {kind.__name__}"
