"""MurmurHash3 (x86, 32 bits) of many tokens at once.

Joined to one text, tokens are hashed four bytes at a time, all of them together. Nothing is kept
between calls: no memory of which words were ever read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from hushdoc.hashing.scheme import FeatureScheme

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint32]

CHUNK_TOKENS = 1 << 15
"""Tokens that are hashed at once, so that memory does not grow with their number."""

_LONGEST_MEAN = 64
"""Bytes of a token, on average, above which hashing them together gains nothing."""

_ROUNDS = 5
"""Blocks of four bytes; longer tokens are rare enough to be hashed one by one."""


def token_hashes(tokens: Iterable[str], scheme: FeatureScheme) -> Hashes:
    """Returns the hash of each token.

    Lone surrogates, which no UTF-8 has, are spelled as if they were characters.

    Args:
        tokens: Any strings.
        scheme: Says whether they are lowered, and the seed.

    Example:
        >>> [int(value) for value in token_hashes(["hello", "Hello"], FeatureScheme(seed=0))]
        [613153351, 613153351]
    """
    import numpy as np

    rest = iter(tokens)
    parts = [np.zeros(0, dtype=np.uint32)]
    while chunk := list(islice(rest, CHUNK_TOKENS)):
        parts.append(_hash_together("\n".join(chunk), chunk, len(chunk), scheme))
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def sentence_hashes(
    sentences: Sequence[Sequence[str]], count: int, scheme: FeatureScheme
) -> Hashes:
    """Returns the hash of each token of some sentences, one sentence after the other.

    Args:
        sentences: The tokens of each.
        count: How many tokens there are.
        scheme: Says whether they are lowered, and the seed.
    """
    if count > 2 * CHUNK_TOKENS:  # one very long sentence
        return token_hashes(chain.from_iterable(sentences), scheme)
    text = "\n".join(["\n".join(tokens) for tokens in sentences if len(tokens)])
    return _hash_together(text, chain.from_iterable(sentences), count, scheme)


def _hash_together(text: str, tokens: Iterable[str], count: int, scheme: FeatureScheme) -> Hashes:
    """Returns the hashes of tokens that were joined by line breaks."""
    import numpy as np

    if not count:
        return np.zeros(0, dtype=np.uint32)
    # A line break neither changes how its neighbours are lowered nor is part of another character.
    content = _spelled(text + "\n\0\0\0", scheme)
    letters = np.frombuffer(content, dtype=np.uint8)
    stops = np.flatnonzero(letters == ord("\n"))
    if len(stops) != count or len(content) > _LONGEST_MEAN * (count + _LONGEST_MEAN):
        return _hash_each([_spelled(token, scheme) for token in tokens], scheme)
    starts = np.concatenate([np.zeros(1, dtype=stops.dtype), stops[:-1] + 1])
    lengths = stops - starts
    words = _words(content)
    hashes = np.full(count, scheme.seed, dtype=np.uint32)
    _mix_blocks(hashes, words, starts, lengths >> 2)
    left = lengths & 3
    last = words.take(starts + (lengths - left), mode="clip")
    last &= np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32).take(left)
    hashes ^= _scrambled(last)
    hashes ^= lengths.astype(np.uint32)
    finalize(hashes)
    long = np.flatnonzero(lengths >= 4 * (_ROUNDS + 1)).tolist()
    if long:
        parts = [content[starts[place] : stops[place]] for place in long]
        hashes[long] = _hash_each(parts, scheme)
    return hashes


def _spelled(text: str, scheme: FeatureScheme) -> bytes:
    lowered = text.lower() if scheme.lowercase else text
    return lowered.encode("utf-8", "surrogatepass")


def _hash_each(spelled: Sequence[bytes], scheme: FeatureScheme) -> Hashes:
    import mmh3
    import numpy as np

    # Never a string: mmh3 takes down the whole process at a lone surrogate.
    hashes = (mmh3.hash(token, scheme.seed, False) for token in spelled)
    return np.fromiter(hashes, dtype=np.uint32, count=len(spelled))


def _words(content: bytes) -> Hashes:
    """Returns the four bytes that begin at each byte but the last three, as one number."""
    import numpy as np

    words = np.empty(len(content) - 3, dtype=np.uint32)
    for start in range(4):
        part = words[start::4]
        part[:] = np.frombuffer(content, dtype="<u4", count=len(part), offset=start)
    return words


def _mix_blocks(
    hashes: Hashes, words: Hashes, starts: npt.NDArray[np.intp], blocks: npt.NDArray[np.intp]
) -> None:
    """Mixes every whole block of four bytes into the hash of its token, up to _ROUNDS of them."""
    import numpy as np

    tokens = np.flatnonzero(blocks)
    places, left = starts.take(tokens), blocks.take(tokens)
    for done in range(1, _ROUNDS + 1):
        mixed = _scrambled(words.take(places))
        mixed ^= hashes.take(tokens)
        mixed = _turned(mixed, 13)
        mixed *= np.uint32(5)
        mixed += np.uint32(0xE6546B64)
        hashes[tokens] = mixed
        more = np.flatnonzero(left > done)
        if not len(more):
            return
        tokens, left = tokens.take(more), left.take(more)
        places = places.take(more) + 4


def _scrambled(block: Hashes) -> Hashes:
    import numpy as np

    block *= np.uint32(0xCC9E2D51)
    block = _turned(block, 15)
    block *= np.uint32(0x1B873593)
    return block


def _turned(values: Hashes, bits: int) -> Hashes:
    import numpy as np

    low = values >> np.uint32(32 - bits)
    values <<= np.uint32(bits)
    values |= low
    return values


def finalize(hashes: Hashes) -> None:
    """Spreads every bit over all others, in place: MurmurHash3's finalizer.

    Args:
        hashes: What shall be spread.
    """
    import numpy as np

    shifted = np.empty_like(hashes)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        np.right_shift(hashes, np.uint32(shift), out=shifted)
        hashes ^= shifted
        hashes *= np.uint32(factor)
    np.right_shift(hashes, np.uint32(16), out=shifted)
    hashes ^= shifted
