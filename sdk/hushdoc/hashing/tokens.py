"""TokenHashes: the hashes of a text's tokens, sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushdoc.hashing import segmentation
from hushdoc.hashing.murmur import CHUNK_TOKENS, sentence_hashes, span_hashes
from hushdoc.hashing.scheme import FeatureScheme

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing.characters import Codes
    from hushdoc.hashing.mixing import Hashes
    from hushdoc.hashing.templates import Lengths


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenHashes:
    """The hashes of tokens in their order, and how many tokens each sentence has."""

    hashes: Hashes
    lengths: Lengths


def hash_words(sentences: Sequence[Sequence[str]], scheme: FeatureScheme) -> TokenHashes:
    """Returns the hashes of sentences that were cut into tokens already."""
    import numpy as np

    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    parts = [
        sentence_hashes(sentences[first:last], stop - start, scheme)
        for first, last, start, stop in chunks(lengths, CHUNK_TOKENS)
    ]
    hashes = np.concatenate([np.zeros(0, dtype=np.uint32), *parts])
    return TokenHashes(hashes=hashes, lengths=lengths)


def hash_text(text: str, places: npt.NDArray[np.int64], scheme: FeatureScheme) -> TokenHashes:
    """Returns the hashes of the tokens in some neighbouring sentences of a text.

    They are those of `hash_words` of what `segmentation.words` finds at `places` [sentences, 2].
    Sentences of ASCII are cut and hashed where they stand, without a string for each token.
    """
    import numpy as np

    from hushdoc.hashing import ascii_tokens, characters

    if not len(places):
        return hash_words([], scheme)
    first, last = int(places[0, 0]), int(places[-1, 1])
    text = text[first:last]
    starts, stops = (places - first).T
    codes = characters.codes_of(text)
    others = _not_cut_together(codes, starts, stops, has_foreign=not text.isascii())
    if len(others):
        codes = np.where(codes == characters.FOREIGN, np.uint8(ord(" ")), codes)
        for start, stop in zip(starts[others].tolist(), stops[others].tolist(), strict=True):
            codes[start:stop] = ord(" ")
    content = codes.tobytes()
    spans = ascii_tokens.token_spans(content)
    lengths = _tokens_of_each(starts, others, spans[0], len(content))
    hashes = span_hashes(content, *spans, scheme)
    if not len(others):
        return TokenHashes(hashes=hashes, lengths=lengths)
    own = [
        segmentation.words(text, start, stop)
        for start, stop in zip(starts[others].tolist(), stops[others].tolist(), strict=True)
    ]
    return _merged(TokenHashes(hashes=hashes, lengths=lengths), others, hash_words(own, scheme))


def chunks(lengths: Lengths, most: int) -> list[tuple[int, int, int, int]]:
    """Returns runs of whole sentences: the first, one past the last, and the same of tokens.

    A run has at most `most` tokens, or one sentence.
    """
    import numpy as np

    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    first, found = 0, []
    while first < len(lengths):
        reach = int(np.searchsorted(ends, ends[first] + most, side="right")) - 1
        last = min(len(lengths), max(first + 1, reach))
        found.append((first, last, int(ends[first]), int(ends[last])))
        first = last
    return found


def _not_cut_together(
    codes: Codes, starts: Lengths, stops: Lengths, *, has_foreign: bool
) -> npt.NDArray[np.intp]:
    """Returns the sentences that are not ASCII, or touch the one before."""
    import numpy as np

    from hushdoc.hashing.characters import FOREIGN

    foreign = np.flatnonzero(codes == FOREIGN) if has_foreign else np.zeros(0, dtype=np.intp)
    holding = np.searchsorted(starts, foreign, side="right") - 1
    touching = np.flatnonzero(starts[1:] == stops[:-1]) + 1
    found = np.concatenate([holding, touching])
    return np.unique(found) if len(found) else found


def _tokens_of_each(
    sentences: Lengths, others: npt.NDArray[np.intp], tokens: npt.NDArray[np.intp], size: int
) -> Lengths:
    """Returns how many tokens each sentence has, by where they start; the others have none.

    A sentence begins with its first token.
    """
    import numpy as np

    begins = np.zeros(size, dtype=bool)
    begins[sentences] = True
    first = np.flatnonzero(begins.take(tokens))
    lengths = np.zeros(len(sentences), dtype=np.int64)
    cut = np.ones(len(sentences), dtype=bool)
    cut[others] = False
    lengths[cut] = np.diff(np.concatenate([first, [len(tokens)]]))
    return lengths


def _merged(these: TokenHashes, others: npt.NDArray[np.intp], those: TokenHashes) -> TokenHashes:
    """Returns the tokens of all sentences, of which the others have none among these."""
    import numpy as np

    lengths = these.lengths.copy()
    lengths[others] = those.lengths
    is_other = np.zeros(len(lengths), dtype=bool)
    is_other[others] = True
    place = np.repeat(is_other, lengths)
    hashes = np.empty(len(place), dtype=np.uint32)
    hashes[place], hashes[~place] = those.hashes, these.hashes
    return TokenHashes(hashes=hashes, lengths=lengths)
