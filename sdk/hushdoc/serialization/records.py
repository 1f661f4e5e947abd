"""Frozen dataclasses to strict JSON and back: one table of fields for writer and reader.

The fields of a record declare how they are stored:

    @dataclass(frozen=True, kw_only=True)
    class Accountant(Record):
        name: str = stored(word(ACCOUNTANTS))
        error_bound: float | None = stored(optional(number(minimum=0)))

Reading is strict: every key must be there (null where there is nothing), no other key may be, a
boolean is no number, and a closed vocabulary is closed. What fails is a CertificateError.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from typing import Any, Generic, Self, TypeVar

from hushdoc.arguments import printable, short_repr
from hushdoc.errors import CertificateError

T = TypeVar("T")

MAX_TEXT = 4000
"""Characters of one text field."""

MAX_ITEMS = 1000
"""Entries of one list or map."""

TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
"""A time, always in UTC: 2026-11-21T08:00:00Z. Such texts sort by time."""

_UPWARDS = Context(prec=6, rounding=ROUND_CEILING)


@dataclass(frozen=True, kw_only=True)
class Codec(Generic[T]):
    """How one field is read from JSON (value and path) and written to it."""

    read: Callable[[Any, str], T]
    write: Callable[[T], Any]


def stored(codec: Codec[Any], **default: Any) -> Any:
    """Returns a dataclass field that is stored as `codec` says; `default` is for its makers."""
    return dataclasses.field(metadata={"codec": codec}, **default)


@cache
def camel(name: str) -> str:
    """Returns the JSON key of a field: `unit_definition` becomes `unitDefinition`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


class Record:
    """Reading and writing for dataclasses whose fields are `stored`."""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it back."""
        return {key: codec.write(getattr(self, name)) for name, key, codec in _table(type(self))}

    @classmethod
    def from_dict(cls, data: Any, where: str = "") -> Self:
        """Returns what `to_dict` wrote; BAD_FIELD or UNKNOWN_VALUE names the wrong field."""
        where = where or cls.__name__
        table = _table(cls)
        require_keys(data, {key for _, key, _ in table}, where)
        record = cls(
            **{name: codec.read(data[key], f"{where}.{key}") for name, key, codec in table}
        )
        problem = record.problem()
        if problem is not None:
            raise bad_field(where, problem)
        return record

    def problem(self) -> str | None:
        """Returns what is wrong between fields that are each valid alone, or None."""
        return None


def _table(cls: type[Any]) -> list[tuple[str, str, Codec[Any]]]:
    return [
        (field.name, camel(field.name), field.metadata["codec"])
        for field in dataclasses.fields(cls)
    ]


def bad_field(where: str, found: str) -> CertificateError:
    """Returns the error for a field that can't be read; `found` says found and expected."""
    return CertificateError(
        f"{where}: {found}. Ask the issuer for a certificate of this schema.", code="BAD_FIELD"
    )


def require_keys(data: Any, keys: set[str], where: str) -> None:
    """Raises unless `data` is an object with exactly these keys."""
    if not isinstance(data, dict):
        raise bad_field(where, f"found {json_type(data)}, expected an object")
    missing, unknown = sorted(keys - data.keys()), sorted(data.keys() - keys)
    if missing or unknown:
        raise bad_field(where, f"missing keys {missing}, unknown keys {[k[:60] for k in unknown]}")


def require_version(data: Any, version: int, where: str) -> None:
    """Raises unless `data` is an object with this `schemaVersion`: BAD_FIELD or UNKNOWN_VALUE."""
    if not isinstance(data, dict) or "schemaVersion" not in data:
        raise bad_field(where, "found no schemaVersion, expected an object with one")
    found = integer().read(data["schemaVersion"], f"{where}.schemaVersion")
    if found != version:
        raise CertificateError(
            f"{where}: found the schema version {found}, this hushdoc reads {version}. Update "
            "hushdoc, or ask the issuer for that version.",
            code="UNKNOWN_VALUE",
        )


def json_type(value: Any) -> str:
    """Returns the type of a JSON value, or its short repr, for a message."""
    names = {dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(value)) or repr(value)[:80]


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        raise bad_field(where, f"found {json_type(value)}, expected 1 to {MAX_TEXT} characters")
    return value


text: Codec[str] = Codec(read=_text, write=lambda value: value)
"""A text that is not empty."""


def _time(value: Any, where: str) -> str:
    try:
        if re.fullmatch("[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z", value) is None:
            raise ValueError
        datetime.strptime(value, TIME_FORMAT)
    except (TypeError, ValueError):
        raise bad_field(
            where, f"found {json_type(value)}, expected a time such as 2026-11-21T08:00:00Z"
        ) from None
    return str(value)


time: Codec[str] = Codec(read=_time, write=lambda value: value)
"""A time in UTC in TIME_FORMAT."""


def matching(pattern: str, expected: str) -> Codec[str]:
    """Returns the codec of an ASCII text that matches a pattern as a whole; `expected` names it."""
    compiled = re.compile(pattern, re.ASCII)

    def read(value: Any, where: str) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise bad_field(where, f"found {json_type(value)}, expected {expected}")
        return value

    return Codec(read=read, write=lambda value: value)


sha256 = matching("sha256:[0-9a-f]{64}", "sha256: and 64 hexadecimal digits")
"""The digest of some content."""


def word(vocabulary: tuple[str, ...]) -> Codec[str]:
    """Returns the codec of one word out of a closed vocabulary, compared exactly."""

    def read(value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise bad_field(where, f"found {json_type(value)}, expected a word")
        if value not in vocabulary:
            raise CertificateError(
                f"{where}: {short_repr(value)} is not one of {', '.join(vocabulary)}. "
                "A newer hushdoc may know it; it is never guessed.",
                code="UNKNOWN_VALUE",
            )
        return value

    return Codec(read=read, write=lambda value: value)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise bad_field(where, f"found {json_type(value)}, expected true or false")
    return value


flag: Codec[bool] = Codec(read=_flag, write=lambda value: value)
"""True or false."""


def integer(*, minimum: int = 0) -> Codec[int]:
    """Returns the codec of an integer."""

    def read(value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise bad_field(where, f"found {json_type(value)}, expected an integer from {minimum}")
        return value

    return Codec(read=read, write=lambda value: value)


def number(
    *, minimum: float = 0.0, maximum: float = math.inf, rounded_up: bool = False
) -> Codec[float]:
    """Returns the codec of a finite number; `rounded_up` only ever weakens a guarantee."""

    def read(value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise bad_field(where, f"found {json_type(value)}, expected a number")
        if not (math.isfinite(value) and minimum <= value <= maximum):
            raise bad_field(where, f"found {value!r}, expected {minimum:g} to {maximum:g}")
        return float(value)

    return Codec(read=read, write=upwards if rounded_up else lambda value: value)


def upwards(value: float) -> float:
    """Returns the smallest number of six digits that is not below `value`."""
    if not math.isfinite(value):
        raise ValueError(f"The number to write is {value}; JSON holds finite numbers only.")
    return float(_UPWARDS.create_decimal(Decimal(repr(float(value)))))


def optional(codec: Codec[T]) -> Codec[T | None]:
    """Returns the codec that stores None as null."""
    return Codec(
        read=lambda value, where: None if value is None else codec.read(value, where),
        write=lambda value: None if value is None else codec.write(value),
    )


def listed(codec: Codec[T], *, maximum: int = MAX_ITEMS) -> Codec[tuple[T, ...]]:
    """Returns the codec of a list of up to `maximum` such values."""

    def read(value: Any, where: str) -> tuple[T, ...]:
        if not isinstance(value, list) or len(value) > maximum:
            raise bad_field(where, f"found {json_type(value)}, expected up to {maximum} entries")
        return tuple(codec.read(item, f"{where}[{index}]") for index, item in enumerate(value))

    return Codec(read=read, write=lambda values: [codec.write(value) for value in values])


def keyed(codec: Codec[T], *, maximum: int = MAX_ITEMS) -> Codec[Mapping[str, T]]:
    """Returns the codec of an object of up to `maximum` free keys."""

    def read(value: Any, where: str) -> dict[str, T]:
        if not isinstance(value, dict) or len(value) > maximum:
            found = json_type(value)
            raise bad_field(where, f"found {found}, expected an object of up to {maximum} keys")
        return {
            _text(key, where): codec.read(item, f"{where}.{printable(key, limit=60)}")
            for key, item in value.items()
        }

    return Codec(
        read=read, write=lambda values: {key: codec.write(item) for key, item in values.items()}
    )


def pair(first: Codec[float], second: Codec[float]) -> Codec[tuple[float, float]]:
    """Returns the codec of a list of exactly two numbers."""

    def read(value: Any, where: str) -> tuple[float, float]:
        if not isinstance(value, list) or len(value) != 2:
            raise bad_field(where, f"found {json_type(value)}, expected two numbers")
        return first.read(value[0], where), second.read(value[1], where)

    return Codec(read=read, write=lambda both: [first.write(both[0]), second.write(both[1])])


R = TypeVar("R", bound=Record)


def record(cls: type[R]) -> Codec[R]:
    """Returns the codec of a record inside another."""
    return Codec(read=cls.from_dict, write=lambda value: value.to_dict())


anything: Codec[Any] = Codec(read=lambda value, where: value, write=lambda value: value)
"""Any JSON value; for notes that no check reads."""
