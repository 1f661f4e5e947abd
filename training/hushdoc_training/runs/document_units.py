"""Units that are one document, and the weaker one that guarantees for any two of them share.

Recipes differ in how copies of a document count, and say so in what they define their unit as. A
document that has no copies of any kind is one record in all of them and leaves every other as it
was, so a guarantee for any of these units is one for it alone.
"""

from __future__ import annotations

from hushdoc_training import duplicates
from hushdoc_training.privacy.records import UNIT_DEFINITIONS

MAX_QUESTIONS = 64
"""Most questions that are read of one record, a public constant."""

QUESTIONS = f"of its questions at most {MAX_QUESTIONS} are read, chosen by a public hash"

_DOCUMENT = UNIT_DEFINITIONS["document"]
SAME_IMAGES = f"{_DOCUMENT}; {duplicates.SAME_IMAGES}"
ALONE = f"{_DOCUMENT}, where no other has the same words or images of the same files"

_ANY = (
    _DOCUMENT,
    duplicates.defined(_DOCUMENT),
    SAME_IMAGES,
    f"{_DOCUMENT}; {QUESTIONS}",
    duplicates.defined(f"{_DOCUMENT}; {QUESTIONS}"),
    ALONE,
)


_NO_COPY = ", where no other has the same words"


def common(first: str, second: str) -> str | None:
    """Returns the unit that guarantees for both of two units have; None where none is known."""
    if first == second:
        return first
    return alone(first) if alone(first) == alone(second) else None


def alone(unit: str) -> str:
    """Returns the unit of one without copies, for which it is the same how copies count.

    Example:
        >>> alone("one sentence; documents with the same words, in whatever order, count as one")
        'one sentence, where no other has the same words'
    """
    if unit in _ANY:
        return ALONE
    return unit.removesuffix(f"; {duplicates.UNIT}").removesuffix(_NO_COPY) + _NO_COPY
