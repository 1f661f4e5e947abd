"""Duplicates: documents that are there several times, under several ids, become one record.

A guarantee for "one document" says little to whoever stands behind three copies of one. So copies
are put together before training, in such a way that the guarantee can still be proven.

**Who belongs together** is told by a key that is computed from a document alone: the digest of its
words, all in lower case, without punctuation, whatever their order. Documents of one key are one
record. Nothing else would do: where A and C become one record because B, which resembles both, is
there (connected components, clustering), adding B merges two records and moves the sum by up to
three clipping norms, and the noise is made for one. With a key, adding or removing all documents of
one key adds or removes one record and leaves every other as it was, so the sum moves by at most one
clipping norm, and with the probability at which a record is drawn, as accounted.

**What the record is**: the one document of the key whose content has the smallest digest; the
others are not read. So an exact copy more or less changes nothing at all. One more of several
*different* documents with the same words (another scan, other labels) may replace the record by
another, which is as much as removing one unit and adding one; the unit that the claim defines is
all documents of one key, and it says so.

**Near copies** that differ in a word have different keys and stay several records, for the reason
above. The claim says in general that such copies are protected less. Where numbers are shown, and
the claim says so (`private_view.COUNTS`), they are counted by MinHash (Broder 1997) for a warning;
elsewhere nothing is said of copies, whose number is one about private documents. Time is linear in
the number of words.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hushdoc.arguments import counted
from hushdoc.viewing.normalised_text import MAX_ACCENTS, in_parts

Item = TypeVar("Item")

CHOICES = ("group", "keep")
"""Whether documents of the same words become one record, or each stays one of its own."""

UNIT = "documents with the same words, in whatever order, count as one"
CAVEAT = (
    "Documents whose words are the same (their order, case and punctuation aside) counted as one, "
    "of which one was read; one of several that differ otherwise, alone, is protected as two "
    "documents are. Copies that differ in a word counted as several documents: whoever is behind "
    "k of them is protected as k documents are, which is far less."
)

SAME_IMAGES = "documents of the same images count as one"
IMAGES_CAVEAT = (
    "Documents whose images are the same files counted as one, of which one was read; one of "
    "several that differ otherwise, as by their class, alone, is protected as two documents are. "
    "Copies that differ in a byte, other scans of a page say, counted as several documents: "
    "whoever is behind k of them is protected as k documents are, which is far less."
)

SIMILAR = 0.8
"""Share of equal entries of two signatures from which documents are called near copies."""

_BANDS, _ROWS = 16, 6
_SHINGLE = 3  # words
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.random.default_rng(1997).integers(1, 2**63, (2, _BANDS * _ROWS), dtype=np.uint64)
_MIX[0] |= np.uint64(1)


def words_of(texts: Iterable[str]) -> list[str]:
    """Returns the words that a key is made of: letters and digits, and signs on or below them.

    Vowels of many scripts are such signs, and words that differ in a vowel are different words.

    Example:
        >>> words_of(["Total:", "12.50 EUR", "TOTAL"])
        ['total', '12', '50', 'eur', 'total']
        >>> words_of(["\u0930\u093e\u091c"]) == words_of(["\u0930\u094b\u091c"])
        False
    """
    text = _composed(" ".join(texts)).casefold().replace("_", " ")
    text = text.replace("i\u0307", "i")  # of the Turkish capital, which has its dot apart
    signs = "" if text.isascii() else "".join(sorted(filter(_is_sign, set(text))))
    return re.findall(rf"\w[\w{signs}]*", text)


def _composed(text: str) -> str:
    """Returns a text in NFKC; of more than 30 signs on a letter each 30 are ordered apart.

    To order them takes the square of their number, and no script has as many.
    """
    signs = re.escape("".join(filter(unicodedata.combining, set(text))))
    if not signs or re.search(f"[{signs}]{{{MAX_ACCENTS + 1}}}", text) is None:
        return unicodedata.normalize("NFKC", text)
    return "".join(unicodedata.normalize("NFKC", part) for part in in_parts(text))


def _is_sign(character: str) -> bool:
    """Returns whether a character is a part of the letter before it, and says which it is."""
    is_mark = unicodedata.category(character)[0] == "M"
    return is_mark and "VARIATION SELECTOR" not in unicodedata.name(character, "")


def key_of(words: Sequence[str]) -> bytes:
    """Returns what documents with the same words have in common, and no others."""
    return hashlib.sha256(" ".join(sorted(words)).encode("utf-8", "surrogatepass")).digest()


def digest_of(contents: Iterable[bytes]) -> str:
    """Returns a digest of all contents, whatever their order."""
    each = sorted(hashlib.sha256(content).digest() for content in contents)
    return hashlib.sha256(b"".join(each)).hexdigest()


def distinct(
    items: Sequence[Item],
    *,
    texts: Callable[[Item], Iterable[str]],
    content: Callable[[Item], bytes],
    told: bool,
) -> list[Item]:
    """Returns one document of each key, in the order of the documents.

    Args:
        items: Documents.
        texts: The texts of one; a document without a word has a key of its own content.
        content: All that training reads of one, and not its id.
        told: Whether a warning may tell how many copies there are.
    """
    best: dict[bytes, tuple[bytes, int]] = {}
    words = []
    for place, item in enumerate(items):
        found = words_of(texts(item))
        digest = hashlib.sha256(content(item)).digest()
        key = key_of(found) if found else digest
        best[key] = min(best.get(key, (digest, place)), (digest, place))
        words.append(found)
    kept = sorted(place for _, place in best.values())
    if told:
        _warn(len(items) - len(kept), near_copies([words[place] for place in kept]))
    return [items[place] for place in kept]


def defined(unit: str) -> str:
    """Returns what one unit is where one document of each key was read.

    Example:
        >>> defined("one document")
        'one document; documents with the same words, in whatever order, count as one'
    """
    return f"{unit}; {UNIT}"


def near_copies(documents: Sequence[Sequence[str]]) -> int:
    """Returns how many documents resemble an earlier one in nearly all runs of three words."""
    if len(documents) < 2:
        return 0
    signatures = np.stack([_signature(words) for words in documents])
    near = np.zeros(len(documents), dtype=np.bool_)
    for band in range(_BANDS):
        first: dict[bytes, int] = {}
        part = signatures[:, band * _ROWS : (band + 1) * _ROWS]
        for place, row in enumerate(part):
            other = first.setdefault(row.tobytes(), place)
            near[place] |= other != place and _alike(signatures[other], signatures[place])
    return int(near.sum())


def look_alikes(asked: Sequence[Sequence[str]], among: Sequence[Sequence[str]]) -> list[int | None]:
    """Returns for each document, given by its words, one of `among` that it is nearly a copy of.

    Signatures are compared by one byte of each entry (b-bit minwise hashing, Li and Koenig 2010),
    and only where a band of them agrees. Documents without words resemble none.
    """
    found: list[int | None] = [None] * len(asked)
    if not asked or not among:
        return found
    left, right = (np.stack([_signature(words) for words in side]) for side in (asked, among))
    near, far = left.astype(np.uint8), right.astype(np.uint8)
    _, firsts = np.unique(right, axis=0, return_index=True)  # of equal ones the first
    candidates = [int(place) for place in np.sort(firsts) if among[place]]
    for band in range(_BANDS):
        part = slice(band * _ROWS, (band + 1) * _ROWS)
        places: dict[bytes, list[int]] = {}
        for place in candidates:
            places.setdefault(right[place, part].tobytes(), []).append(place)
        for number, words in enumerate(asked):
            if words and found[number] is None:
                close = places.get(left[number, part].tobytes(), [])
                found[number] = _first_alike(near[number], far, close)
    return found


def _first_alike(
    signature: npt.NDArray[np.uint8], others: npt.NDArray[np.uint8], places: Sequence[int]
) -> int | None:
    for at in range(0, len(places), 256):
        chosen = places[at : at + 256]
        alike = (others[chosen] == signature).mean(axis=1) >= SIMILAR
        if alike.any():
            return chosen[int(alike.argmax())]
    return None


def _alike(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> bool:
    return float((left == right).mean()) >= SIMILAR


def _signature(words: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Returns the smallest of each of many hashes over a document's shingles."""
    codes = np.array([zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words] or [0])
    codes = codes.astype(np.uint64)
    size = max(1, len(codes) - _SHINGLE + 1)
    shingles = np.zeros(size, dtype=np.uint64)
    for start in range(min(_SHINGLE, len(codes))):
        shingles = shingles * _PRIME + codes[start : start + size]
    shingles ^= shingles >> np.uint64(29)
    smallest = np.full(_MIX.shape[1], np.iinfo(np.uint64).max, dtype=np.uint64)
    for part in np.array_split(np.unique(shingles), 1 + size // 4096):
        smallest = np.minimum(smallest, (part[:, None] * _MIX[0] + _MIX[1]).min(0))
    return smallest


def _warn(copies: int, near: int) -> None:
    if copies:
        warnings.warn(
            f"Left out, with the same words as others: {counted(copies, 'document')}. Each set of "
            "them is one record (--duplicates group).",
            stacklevel=3,
        )
    if near:
        warnings.warn(
            f"Nearly the same as others: {counted(near, 'document')}. Each counts as a document, "
            "and whoever is behind k of them is protected far less; leave copies out.",
            stacklevel=3,
        )
