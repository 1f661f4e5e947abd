"""Records: what is protected as a whole, each the list of its examples, and what one of them is.

What groups examples into records is all that knows their unit: windows of text look the same
whether one of them is a record or all of a document's are. So the unit goes with the records, from
there to the certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

from hushdoc import arguments
from hushdoc.errors import PrivacyError

Example = TypeVar("Example")
Other = TypeVar("Other")

UNIT_DEFINITIONS = {
    "document": "one document with all its pages, however many windows it is cut into",
    "sequence": "one window of tokens; a document has several, and each is protected alone",
    "page": "one page with everything on it; a document has several, and each is protected alone",
    "provider": "everything that came from one provider, all documents together",
    "user": "everything that came from one person, all documents together",
}
"""What a unit means in a certificate; who builds the records sees to it that they are that."""


class Records(Sequence[Sequence[Example]], Generic[Example]):
    """Records and their unit, one of UNIT_DEFINITIONS.

    Example:
        >>> Records([["a page", "another"], ["a page"]], unit="document")[0]
        ['a page', 'another']
    """

    def __init__(self, records: Sequence[Sequence[Example]], *, unit: str) -> None:
        """Keeps the records as they are; a ValueError where nobody knows the unit."""
        self._records = records
        self._unit = arguments.choice(unit, tuple(UNIT_DEFINITIONS), what="unit")

    @property
    def unit(self) -> str:
        """What one record is."""
        return self._unit

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._records)

    @overload
    def __getitem__(self, at: int) -> Sequence[Example]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Sequence[Example]]: ...
    def __getitem__(self, at: Any) -> Any:
        """Returns the examples of one record."""
        return self._records[at]

    def each(self, change: Callable[[Sequence[Example]], Sequence[Other]]) -> Records[Other]:
        """Returns records of the same unit, each with other examples made of its own."""
        return Records([change(record) for record in self._records], unit=self._unit)


def unit_of(records: object) -> str | None:
    """Returns what one record is, or None where nobody said."""
    return records.unit if isinstance(records, Records) else None


def require_unit(records: object, planned: str) -> None:
    """Raises PrivacyError where records know their unit, and it is not the planned one."""
    unit = unit_of(records)
    if unit not in (None, planned):
        raise PrivacyError(
            f"One of the records is a {unit}, and the plan protects each {planned}. Group the "
            f"examples by {planned}, or plan for the unit '{unit}'."
        )
