"""Physical batches: what one draw of records becomes where not all of it fits into memory at once.

A record is never divided between two batches, because it is clipped once; one that is larger than
a batch goes alone, in parts. How records are grouped changes nothing but rounding: those that share
a batch have the same lengths, so that what fills an example up is told by its own record. There are
weights by which what fills up counts (attention scores below those of a masked token), and no
self-test at the start's weights shows what later ones do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hushdoc.errors import PrivacyError

Example = TypeVar("Example")

Length = int | tuple[int, ...]
"""Of an example: a size of what it becomes in a batch, or several, as many for each example."""

PADDING = -1
"""Number of no record: the example is there for the batch's shape alone."""


@dataclass(frozen=True, kw_only=True)
class PhysicalBatch(Generic[Example]):
    """Whole records, or a part of one that is larger than a batch.

    Each example has its record in this batch, from 0, or PADDING, and its share in its record's
    loss; the shares of a record add up to 1.
    """

    examples: tuple[Example, ...]
    records: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Packed(Generic[Example]):
    """One draw: batches of whole records, and records larger than a batch, each in parts."""

    batches: tuple[PhysicalBatch[Example], ...]
    large: tuple[tuple[PhysicalBatch[Example], ...], ...]


def require_examples(records: Sequence[Any]) -> None:
    """Raises PrivacyError unless the first record, and so each of them, is a list of examples."""
    try:
        first = records[0] if len(records) else ()
    except (TypeError, KeyError) as error:
        raise PrivacyError(
            f"`records` is a {type(records).__name__} ({error}); expected a sequence of records, "
            "each the list of its examples."
        ) from error
    if isinstance(first, str | bytes) or not hasattr(first, "__len__") or _is_scalar(first):
        raise PrivacyError(
            f"The first record is {first!r:.60} of type {type(first).__name__}; expected the list "
            "of its examples. Where every example is a record of its own, give "
            "`[[example] for example in examples]`."
        )


def pack(
    records: Sequence[Sequence[Example]],
    *,
    max_examples: int,
    max_records: int | None = None,
    multiplicity: int = 1,
    length: Callable[[Example], Length] | None = None,
    padded: bool = False,
) -> Packed[Example]:
    """Returns records as physical batches, without records that have no example and no gradient.

    Repeated `multiplicity` times, an example has the average over its repetitions as one gradient,
    clipped once. Only records of the same `length` share batches: their longest examples are equal,
    and in both or in neither are all examples as long as these.

    Example:
        >>> packed = pack(["ab", "", "cdefg", "h"], max_examples=3, padded=True)
        >>> [(batch.examples, batch.records, batch.weights) for batch in packed.batches]
        [(('a', 'b', 'h'), (0, 0, 1), (0.5, 0.5, 1.0))]
        >>> [["".join(part.examples) for part in record] for record in packed.large]
        [['cde', 'fgg']]
        >>> packed = pack([[3], [5], [3], [3, 2]], max_examples=9, length=lambda example: example)
        >>> [batch.examples for batch in packed.batches]
        [(3, 2), (3, 3), (5,)]
    """
    repeated = [[example for example in record for _ in range(multiplicity)] for record in records]
    small = [record for record in repeated if 0 < len(record) <= max_examples]
    large = [record for record in repeated if len(record) > max_examples]
    alike: dict[tuple[tuple[int, bool], ...], list[list[Example]]] = {}
    for record in small:
        alike.setdefault(_shape(record, length), []).append(record)
    fill = max_examples if padded else 0
    return Packed(
        batches=tuple(
            _batch(group, fill)
            for _, some in sorted(alike.items())
            for group in _groups(some, max_examples, max_records or max_examples)
        ),
        large=tuple(_parts(record, max_examples, fill) for record in large),
    )


def by_itself(batch: PhysicalBatch[Example]) -> list[PhysicalBatch[Example]]:
    """Returns a batch for each record, with its examples alone.

    Example:
        >>> batch = pack(["ab", "c"], max_examples=3).batches[0]
        >>> [(one.examples, one.records, one.weights) for one in by_itself(batch)]
        [(('a', 'b'), (0, 0), (0.5, 0.5)), (('c',), (0,), (1.0,))]
    """
    places: dict[int, list[int]] = {}
    for place, record in enumerate(batch.records):
        if record != PADDING:
            places.setdefault(record, []).append(place)
    return [
        PhysicalBatch(
            examples=tuple(batch.examples[place] for place in own),
            records=(0,) * len(own),
            weights=tuple(batch.weights[place] for place in own),
        )
        for own in places.values()
    ]


def _is_scalar(value: Any) -> bool:
    """Whether an array or a tensor has no axis: it has a length that can't be asked for."""
    return getattr(value, "shape", None) == ()


def _shape(
    record: Sequence[Example], length: Callable[[Example], Length] | None
) -> tuple[tuple[int, bool], ...]:
    """Returns of each size the largest, and whether all are as large: what decides on padding."""
    if length is None:
        return ()
    found = [size if isinstance(size, tuple) else (size,) for size in map(length, record)]
    return tuple((max(sizes), len(set(sizes)) == 1) for sizes in zip(*found, strict=True))


def _groups(
    records: Sequence[Sequence[Example]], max_examples: int, max_records: int
) -> list[list[Sequence[Example]]]:
    groups: list[list[Sequence[Example]]] = []
    left = 0
    for record in records:
        if len(record) > left or len(groups[-1]) == max_records:
            groups.append([])
            left = max_examples
        groups[-1].append(record)
        left -= len(record)
    return groups


def _batch(group: Sequence[Sequence[Example]], fill: int) -> PhysicalBatch[Example]:
    examples = [example for record in group for example in record]
    numbers = [number for number, record in enumerate(group) for _ in record]
    weights = [1 / len(record) for record in group for _ in record]
    return _filled(examples, numbers, weights, fill)


def _parts(
    record: Sequence[Example], max_examples: int, fill: int
) -> tuple[PhysicalBatch[Example], ...]:
    return tuple(
        _filled(part, [0] * len(part), [1 / len(record)] * len(part), fill)
        for part in (record[at : at + max_examples] for at in range(0, len(record), max_examples))
    )


def _filled(
    examples: Sequence[Example], numbers: list[int], weights: list[float], fill: int
) -> PhysicalBatch[Example]:
    missing = max(0, fill - len(examples))
    return PhysicalBatch(
        examples=(*examples, *[examples[-1]] * missing),
        records=(*numbers, *[PADDING] * missing),
        weights=(*weights, *[0.0] * missing),
    )
