"""Word lists: many short texts written as one, since thousands of quotes are hard to read."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Returns the different words of a text.

    Example:
        >>> words("ash oak ash")
        ('ash', 'oak')
    """
    return tuple(dict.fromkeys(text.split()))


def terms(text: str) -> tuple[str, ...]:
    """Returns the different terms of a text, which commas and line ends part.

    Example:
        >>> terms("red oak, silver fir")
        ('red oak', 'silver fir')
    """
    found = (term.strip() for line in text.split("\n") for term in line.split(","))
    return tuple(dict.fromkeys(term for term in found if term))


def lines(text: str) -> tuple[str, ...]:
    """Returns the different lines of a text that are not blank."""
    found = (line.strip() for line in text.split("\n"))
    return tuple(dict.fromkeys(line for line in found if line))
