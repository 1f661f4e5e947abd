"""Lookups: where a table is read to score the items of a text.

The same features as `rows.features` gives, each once for an item, but no more ordered than the sums
of their weights need.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from hushdoc.hashing.clusters import Clusters
from hushdoc.hashing.rows import require_clusters, token_chunks
from hushdoc.hashing.scheme import FeatureScheme
from hushdoc.hashing.tokens import TokenHashes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing.mixing import Hashes
    from hushdoc.hashing.templates import Groups, Lengths, Template

    Flags = npt.NDArray[np.bool_]


class Lookup(NamedTuple):
    """Rows of the table for some items that follow one another.

    Where `starts` and `items` are given, `rows` [features] has the rows of `items[i]` from
    `starts[i]` to the next start. Otherwise it has the shape [templates, at least num_items], a
    column for each item. Rows that are not `present` (same shape) are no feature.
    """

    num_items: int
    num_features: int
    rows: npt.NDArray[np.uint32]
    present: Flags
    starts: npt.NDArray[np.intp] | None
    items: npt.NDArray[np.intp] | None


def lookups(
    tokens: TokenHashes, scheme: FeatureScheme, clusters: Clusters | None = None
) -> Iterator[Lookup]:
    """Yields the features of every sentence, or of every token, in order."""
    require_clusters(scheme, clusters)
    make = _of_sentences if scheme.level == "sentence" else _of_tokens
    for part in token_chunks(tokens, clusters):
        yield make(*part, scheme)


def _of_sentences(
    hashes: Hashes, groups: Groups | None, lengths: Lengths, scheme: FeatureScheme
) -> Lookup:
    import numpy as np

    from hushdoc.hashing.short_lists import MISSING, sorted_rows

    rows, starts, items = sorted_rows(hashes, groups, lengths, scheme)
    present = np.ones(len(rows), dtype=bool)
    np.not_equal(rows[1:], rows[:-1], out=present[1:])
    present[starts[starts < len(rows)]] = True
    present &= rows != MISSING
    return Lookup(
        num_items=len(lengths),
        num_features=int(np.count_nonzero(present)),
        rows=rows,
        present=present,
        starts=starts,
        items=items,
    )


def _of_tokens(
    hashes: Hashes, groups: Groups | None, lengths: Lengths, scheme: FeatureScheme
) -> Lookup:
    import numpy as np

    from hushdoc.hashing import templates

    features = templates.of_tokens(scheme)
    rows = templates.feature_rows(hashes, groups, features, scheme)
    present = templates.present(features, lengths, groups)
    _leave_out_repeated_words(present, hashes, features)
    _leave_out_repeated_rows(present, rows)
    return Lookup(
        num_items=len(hashes),
        num_features=int(np.count_nonzero(present)),
        rows=rows,
        present=present,
        starts=None,
        items=None,
    )


def _leave_out_repeated_words(
    present: Flags, hashes: Hashes, templates: tuple[Template, ...]
) -> None:
    """Leaves out pairs with a word that an item has in a nearer pair of the same kind."""
    total = len(hashes)
    differ: dict[int, Flags] = {}  # from the word at each distance
    for (_, nearer), (line, further) in combinations(zip(present, templates, strict=True), 2):
        if nearer.number != further.number:
            continue
        low, high = sorted((t.first or t.second or 0) for t in (nearer, further))
        first, stop, distance = max(0, -low), total - max(0, high), high - low
        if distance not in differ:
            differ[distance] = hashes[distance:] != hashes[:-distance]
        if first < stop:
            line[first:stop] &= differ[distance][first + low : stop + low]


def _leave_out_repeated_rows(present: Flags, rows: Hashes) -> None:
    """Leaves out rows that an earlier template has for the same item, which happens by chance."""
    import numpy as np

    # Their low halves are compared first. What is not present has the number of its template.
    numbers = np.arange(len(rows), dtype=np.uint16)[:, None]
    halves = rows.astype(np.uint16)
    halves -= numbers
    halves *= present
    halves += numbers
    alike = np.zeros(rows.shape, dtype=bool)
    for distance in range(1, len(rows)):
        alike[distance:] |= halves[distance:] == halves[:-distance]
    items = np.flatnonzero(alike.any(axis=0))
    columns = np.where(present[:, items], rows[:, items], ~numbers.astype(np.int64))
    order = columns.argsort(axis=0, kind="stable")
    ordered = np.take_along_axis(columns, order, axis=0)
    later, item = np.nonzero(ordered[1:] == ordered[:-1])
    present[order[later + 1, item], items[item]] = False
