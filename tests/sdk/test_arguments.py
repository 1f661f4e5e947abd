"""What was handed in is told by its type, shortly, and whatever it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hushdoc import arguments
from hushdoc.errors import BoxError, InputError


class Shy:
    """An object that can't be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("not now")


class Numbered:
    """A list as Python once made them: by number, without an iterator."""

    def __getitem__(self, number: int) -> int:
        return [3, 4][number]


class BytesPath:
    """A path of bytes, as systems of old had them."""

    def __fspath__(self) -> bytes:
        return b"a"


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(50_000):
        found = [found]
    return found


def test_whatever_it_is_is_shown_in_few_letters() -> None:
    for value in (deep(), 10**9999, Shy(), "x" * 10**6, list(range(10**5))):
        assert len(arguments.short_repr(value)) < 100
        assert len(arguments.described(value)) < 100


def test_texts_do_not_steer_the_terminal() -> None:
    for told in (arguments.described("\x1b[2J"), arguments.short_repr("\x1b[2J")):
        assert "\x1b" not in told
        assert "[2J" in told


def test_an_instance_is_handed_on_and_all_else_is_told() -> None:
    assert arguments.instance(3, int, what="The count", advice="Count.") == 3
    assert arguments.optional(None, int, what="The count", advice="Count.") is None
    for ask in (arguments.instance, arguments.optional):
        with pytest.raises(InputError) as raised:
            ask("3", int, what="The count", advice="Count.")
        assert str(raised.value) == "The count is str '3'; expected an int. Count."
        assert raised.value.code == "BAD_INPUT"


def test_lists_are_gone_through_and_single_things_are_none() -> None:
    for values in ([3, 4], (3, 4), iter([3, 4]), {3: 0, 4: 0}.keys(), Numbered()):
        assert arguments.listed(values, what="They", of="numbers") == (3, 4)
    for values in ("34", b"34", bytearray(b"34"), {3: 4}, 3, None):
        with pytest.raises(InputError, match="expected a list, or another iterable, of numbers"):
            arguments.listed(values, what="They", of="numbers")


def test_a_generator_is_not_emptied_before_it_is_asked() -> None:
    taken = []

    def numbers() -> Iterator[int]:
        taken.append(True)
        yield 3

    found = arguments.each(numbers(), what="They", of="numbers")
    assert taken == []
    assert next(found) == 3


def test_paths_are_texts_or_path_objects() -> None:
    for path in ("a/b", Path("a/b")):
        assert arguments.path(path, what="The file") == Path("a/b")
    for value in (None, 3, b"a/b", BytesPath(), ["a"]):
        with pytest.raises(InputError, match="The file is .*; expected a path"):
            arguments.path(value, what="The file")


@pytest.mark.parametrize("value", [0, -1, True, 1.0, math.nan, "1", None])
def test_numbers_that_count_nothing_are_settings_that_are_none(value: Any) -> None:
    with pytest.raises(ValueError, match="workers is .*; expected an integer >= 1"):
        arguments.integer(value, what="workers")


def test_words_that_are_not_known_are_told_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="level is 'word'; expected one of 'page', 'document'"):
        arguments.choice("word", ("page", "document"), what="level")
    with pytest.raises(ValueError, match="level is "):
        arguments.choice(["page"], ("page", "document"), what="level")


def test_what_goes_wrong_inside_is_one_error_and_ours_pass() -> None:
    for problem in (KeyError("x"), AttributeError("x"), RecursionError("x"), OverflowError("x")):
        said = "The page is not made of .*Expected words"
        with pytest.raises(InputError, match=said), arguments.expecting("The page", "words"):
            raise problem
    with pytest.raises(BoxError), arguments.expecting("The page", "words"):
        raise BoxError("ours")
