"""Feature templates: which tokens they are made of, and the rows of the table that they name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hushdoc.hashing.mixing import Hashes, finalize
from hushdoc.hashing.scheme import MAX_SKIPPED, MAX_WINDOW, FeatureScheme

MARGIN = max(MAX_WINDOW, MAX_SKIPPED + 1)
"""Tokens between an item and the furthest token of its features, at most."""

Groups = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int64]

# What the tokens of a feature are to each other. Offsets (0 is the item itself, -1 the token
# before it) are added in 8 bits; pairs are told apart by the side on which the item stands.
_TOKEN, _CLUSTER, _BIGRAM, _SKIP_GRAM = 0x100, 0x200, 0x300, 0x400
_ITEM_IS_SECOND = 1


class Template(NamedTuple):
    """A feature template: which tokens it is made of, by their distance from the item's token."""

    number: int
    first: int
    second: int | None = None
    of_clusters: bool = False


@cache
def of_sentences(scheme: FeatureScheme) -> tuple[Template, ...]:
    """Returns the features of a sentence, each at the last of its tokens."""
    templates = [
        Template(_TOKEN, 0),
        *([Template(_CLUSTER, 0, None, True)] if scheme.clusters else []),
    ]
    return (*templates, *(Template(number, -distance, 0) for distance, number in _pairs(scheme)))


@cache
def of_tokens(scheme: FeatureScheme) -> tuple[Template, ...]:
    """Returns the features of a token."""
    templates = []
    for offset in range(-scheme.window, scheme.window + 1):
        templates += [Template(_TOKEN | offset & 0xFF, offset)]
        templates += (
            [Template(_CLUSTER | offset & 0xFF, offset, None, True)] if scheme.clusters else []
        )
    for distance, number in _pairs(scheme):
        templates += [
            Template(number, 0, distance),
            Template(number | _ITEM_IS_SECOND, -distance, 0),
        ]
    return tuple(templates)


def _pairs(scheme: FeatureScheme) -> list[tuple[int, int]]:
    """Returns the distance and template of each pair of tokens that is a feature."""
    pairs = [(1, _BIGRAM)] if scheme.bigrams else []
    if scheme.skip_grams:
        pairs += [(distance, _SKIP_GRAM) for distance in range(2, MAX_SKIPPED + 2)]
    return pairs


def feature_rows(
    hashes: Hashes, groups: Groups | None, templates: Sequence[Template], scheme: FeatureScheme
) -> Hashes:
    """Returns the row of the table of every feature, shape [templates, tokens + MARGIN].

    A token's group is its cluster, -1 for none. The margin, and tokens without a feature of the
    template, are undefined until `clear`.
    """
    total = len(hashes)
    out = np.empty((len(templates), total + MARGIN), dtype=np.uint32)
    firsts = hashes * np.uint32(0x9E3779B1)
    clusters = None if groups is None else groups.astype(np.uint32) * np.uint32(0x9E3779B1)
    seconds = hashes * np.uint32(0x85EBCA77)
    between = np.empty_like(out[0])
    turned = between[:total]
    np.right_shift(seconds, np.uint32(17), out=turned)
    seconds <<= np.uint32(15)
    seconds |= turned
    for line, template in zip(out, templates, strict=True):
        constant = np.uint32((template.number * 0xC2B2AE3D + scheme.seed) & 0xFFFFFFFF)
        if template.second is None:
            here, there = _shifted(total, template.first)
            source = clusters if template.of_clusters and clusters is not None else firsts
            np.bitwise_xor(source[there], constant, out=line[here])
        else:
            # One of the two is the item's own token.
            first, second = _shifted(total, template.second - template.first)
            mixed = line[second if template.second == 0 else first]
            np.add(seconds[second], constant, out=mixed)
            mixed ^= firsts[first]
        finalize(line, between)
        rows_of(line, scheme)
    return out


def rows_of(hashes: Hashes, scheme: FeatureScheme) -> None:
    """Makes hashes rows in their place: their share of the 32 bits, so rows may be any number."""
    if scheme.rows & (scheme.rows - 1) == 0:
        hashes >>= np.uint32(33 - scheme.rows.bit_length())
    else:
        hashes[:] = hashes.astype(np.uint64) * np.uint64(scheme.rows) >> np.uint64(32)


def clear(
    rows: npt.NDArray[Any], templates: Sequence[Template], lengths: Lengths, groups: Groups | None
) -> Any:
    """Writes the largest number where a token has no feature of a template, and returns it.

    `rows` has shape [templates, tokens + MARGIN]; `lengths` are the tokens of each sentence.
    """
    missing = rows.dtype.type(np.iinfo(rows.dtype).max)
    rows |= (~present(templates, lengths, groups)).astype(rows.dtype) * missing
    return missing


def clear_sentences(
    rows: npt.NDArray[Any], templates: Sequence[Template], lengths: Lengths, groups: Groups | None
) -> None:
    """Does what `clear` does for the templates of sentences, whose pairs end at their token."""
    missing = rows.dtype.type(np.iinfo(rows.dtype).max)
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    rows[:, total:] = missing
    # Of a pair so far apart, the first tokens of a sentence are no second ones.
    first = [starts[lengths > place] + place for place in range(MARGIN)]
    for line, template in zip(rows, templates, strict=True):
        if template.of_clusters and groups is not None:
            line[:total][groups < 0] = missing
        elif template.first:
            line[np.concatenate(first[: -template.first])] = missing


def num_features(
    templates: Sequence[Template], lengths: Lengths, groups: Groups | None
) -> npt.NDArray[np.int64]:
    """Returns how many features each sentence has; one that it has twice counts twice."""
    found = np.zeros(len(lengths), dtype=np.int64)
    for template in templates:
        if template.of_clusters and groups is not None:
            known = np.concatenate([[0], np.cumsum(groups >= 0)])
            stops = np.cumsum(lengths)
            found += known[stops] - known[stops - lengths]
        else:
            found += np.maximum(lengths + template.first, 0)
    return found


def present(
    templates: Sequence[Template], lengths: Lengths, groups: Groups | None
) -> npt.NDArray[np.bool_]:
    """Returns where tokens have a feature of each template, shape [templates, tokens + MARGIN]."""
    stops = np.cumsum(lengths)
    total = int(stops[-1]) if len(stops) else 0
    goes_on = np.ones(total + MARGIN + 1, dtype=bool)  # whether a token follows the one before
    goes_on[stops] = False
    goes_on[total:] = False
    together = [np.ones(total, dtype=bool)]  # with the token at each distance
    for distance in range(1, MARGIN + 1):
        together.append(together[-1] & goes_on[distance : distance + total])
    found = np.zeros((len(templates), total + MARGIN), dtype=bool)
    for line, template in zip(found, templates, strict=True):
        offset = template.first or template.second or 0
        here, there = _shifted(total, offset)
        line[here] = together[abs(offset)][min(here.start, there.start) :][: here.stop - here.start]
        if template.of_clusters and groups is not None:
            line[here] &= groups[there] >= 0
    return found


def _shifted(total: int, offset: int) -> tuple[slice, slice]:
    """Returns the items that have a token at an offset, and those tokens."""
    reach = max(0, total - abs(offset))
    start = max(0, -offset)
    return slice(start, start + reach), slice(start + offset, start + offset + reach)
