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
    from hushdoc.hashing.mixing import Hashes, Places

CHUNK_TOKENS = 1 << 15
"""Tokens that are hashed at once, so that memory does not grow with their number."""

_LONGEST_MEAN = 64
"""Bytes of a token, on average, above which hashing them together gains nothing."""

_END = "\0" * 16
"""What is read beyond the last token."""


def token_hashes(tokens: Iterable[str], scheme: FeatureScheme) -> Hashes:
    """Returns the hash of each token; lone surrogates are encoded as if they were characters."""
    import numpy as np

    rest = iter(tokens)
    parts = [np.zeros(0, dtype=np.uint32)]
    while chunk := list(islice(rest, CHUNK_TOKENS)):
        parts.append(_hash_together("\n".join([*chunk, _END]), chunk, len(chunk), scheme))
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def sentence_hashes(
    sentences: Sequence[Sequence[str]], count: int, scheme: FeatureScheme
) -> Hashes:
    """Returns the hashes of the `count` tokens of some sentences, one sentence after the other."""
    if count > 2 * CHUNK_TOKENS:  # one very long sentence
        return token_hashes(chain.from_iterable(sentences), scheme)
    lines = map("\n".join, filter(len, sentences))
    text = "\n".join(chain(lines, (_END,)))
    return _hash_together(text, chain.from_iterable(sentences), count, scheme)


def span_hashes(content: bytes, starts: Places, stops: Places, scheme: FeatureScheme) -> Hashes:
    """Returns the hash of each span of some ASCII text."""
    content = content.lower() if scheme.lowercase else content
    return _hash_spans(content + _END.encode(), starts, stops, scheme)


def _hash_together(text: str, tokens: Iterable[str], count: int, scheme: FeatureScheme) -> Hashes:
    """Returns the hashes of tokens that were joined by line breaks, with _END after them."""
    import numpy as np

    if not count:
        return np.zeros(0, dtype=np.uint32)
    # A line break neither changes how its neighbours are lowered nor is part of another character.
    content = _encoded(text, scheme)
    stops = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord("\n"))
    if len(stops) != count or len(content) > _LONGEST_MEAN * (count + _LONGEST_MEAN):
        return _hash_each([_encoded(token, scheme) for token in tokens], scheme)
    starts = np.concatenate([np.zeros(1, dtype=np.intp), stops[:-1] + 1])
    return _hash_spans(content, starts, stops, scheme)


def _hash_spans(content: bytes, starts: Places, stops: Places, scheme: FeatureScheme) -> Hashes:
    from hushdoc.hashing import mixing

    hashes, long = mixing.hash_spans(content, starts, stops, scheme.seed)
    if len(long):
        parts = [
            content[a:b] for a, b in zip(starts[long].tolist(), stops[long].tolist(), strict=True)
        ]
        hashes[long] = _hash_each(parts, scheme)
    return hashes


def _encoded(text: str, scheme: FeatureScheme) -> bytes:
    lowered = text.lower() if scheme.lowercase else text
    return lowered.encode("utf-8", "surrogatepass")


def _hash_each(encoded: Sequence[bytes], scheme: FeatureScheme) -> Hashes:
    import mmh3
    import numpy as np

    # Never a string: mmh3 takes down the whole process at a lone surrogate.
    hashes = (mmh3.hash(token, scheme.seed, False) for token in encoded)
    return np.fromiter(hashes, dtype=np.uint32, count=len(encoded))
