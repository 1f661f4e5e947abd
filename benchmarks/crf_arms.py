"""What benchmarks/hashed_crf.py times: everything that labels the tokens of a document."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import crfsuite_peer
from invented_clauses import Sentences

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hushdoc.hashing import FeatureScheme, Lookup
    from hushdoc.runtime.hashed.table import HashedTable

TAGS = {"sentence": ("O", "RELEVANT"), "token": ("O", "B-party", "I-party")}
DECODING = ("ours_decoding", "peer_decoding")


def as_tokenized(sentences: Sentences) -> Sentences:
    """Returns the same words as strings of their own, as they come out of a text."""
    return [" ".join(words).split(" ") for words in sentences]


def text_of(sentences: Sentences) -> str:
    """Returns a text of these sentences, five to a paragraph."""
    whole = [" ".join(words).capitalize() + "." for words in sentences]
    return "\n\n".join(" ".join(whole[first : first + 5]) for first in range(0, len(whole), 5))


def text_arms(
    scheme: FeatureScheme, table: HashedTable, tagger: Any
) -> dict[str, Callable[[str], Any]]:
    """Returns what labels the items of a text: ours, and python-crfsuite fed plain strings.

    Both cut the text by the same rules and the same code; ours makes no string of a token.
    """
    import numpy as np

    from hushdoc.hashing import segmentation
    from hushdoc.runtime.extraction import StageClock
    from hushdoc.runtime.hashed import chains as linear
    from hushdoc.runtime.hashed.sealed_table import SealedTable

    sealed = SealedTable(
        tags=TAGS[scheme.level],
        scheme=scheme,
        table=table,
        clusters=None,
        scoring=None,
        settings={},
    )
    make = crfsuite_peer.plain_strings(scheme.level)
    tags = np.array(sealed.tags, dtype=object)

    def ours(text: str) -> Any:
        places = segmentation.sentence_places(text)
        blocks = list(sealed.scored(text, places, StageClock()))
        scores = np.concatenate([block.scores for block in blocks])
        lengths = np.concatenate([block.lengths for block in blocks])
        ends = [len(scores)] if scheme.level == "sentence" else np.cumsum(lengths)
        path = linear.viterbi(scores, np.concatenate([[0], ends]), table.transitions)
        return tags.take(path).tolist()

    def plain(text: str) -> list[str]:
        read = words_of(text)
        return crfsuite_peer.tagged(tagger, chains(make(read), read, scheme.level))

    return {"text_ours": ours, "text_plain": plain}


def words_of(text: str) -> Sentences:
    """Returns the lowered tokens of each sentence of a text of ASCII, the fastest we know."""
    import numpy as np

    from hushdoc.hashing import ascii_tokens, segmentation

    places = segmentation.sentence_places(text)
    starts, stops = ascii_tokens.token_spans(text.encode())
    lowered = text.lower()
    words = [lowered[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
    ends = [*np.searchsorted(starts, places[:, 0]).tolist(), len(words)]
    return [words[a:b] for a, b in itertools.pairwise(ends)]


def arms_of(
    scheme: FeatureScheme, tables: dict[str, HashedTable], peers: dict[str, Any]
) -> dict[str, Callable[[Sentences], Any]]:
    """Returns everything that labels the tokens of a document."""
    plain = crfsuite_peer.plain_strings(scheme.level)

    def ours(dtype: str) -> Callable[[Sentences], Any]:
        table = tables[dtype]
        return lambda read: decoded(hashed(read, scheme), read, scheme, table)

    def peer(name: str, make: crfsuite_peer.MakeAttributes) -> Callable[[Sentences], Any]:
        tagger = peers[name]
        return lambda read: crfsuite_peer.tagged(tagger, chains(make(read), read, scheme.level))

    return {
        "ours": ours("int8"),
        "ours_float16": ours("float16"),
        "plain": peer("plain", lambda read: plain([[w.lower() for w in words] for words in read])),
        "joined": peer("joined", crfsuite_peer.joined_strings(scheme)),
        "peer": peer("rows", crfsuite_peer.plain_rows(scheme)),
    }


def read_in_turn(
    arms: dict[str, Callable[[Any], Any]],
    block: Sequence[Any],
    seconds: dict[str, list[float]],
    *,
    flipped: bool,
) -> dict[str, list[Any]]:
    """Returns what each arm answers for each document, and adds its time."""
    found = {}
    for name in reversed(list(arms)) if flipped else arms:
        found[name], took = timed(lambda arm=arms[name]: [arm(read) for read in block])  # type: ignore[misc]
        seconds[name].append(took)
    return found


def decode_in_turn(
    block: Sequence[Sentences],
    scheme: FeatureScheme,
    table: HashedTable,
    tagger: Any,
    seconds: dict[str, list[float]],
    *,
    flipped: bool,
) -> None:
    """Adds the times of labelling items whose features stand ready."""
    import pycrfsuite

    strings = crfsuite_peer.row_strings(scheme)
    features = [hashed(read, scheme) for read in block]
    ready = [
        [pycrfsuite.ItemSequence(part) for part in chains(strings(read), read, scheme.level)]
        for read in block
    ]

    def ours() -> None:
        for found, read in zip(features, block, strict=True):
            decoded(found, read, scheme, table)

    def peer() -> None:
        for parts in ready:
            crfsuite_peer.tagged(tagger, parts)

    turns = list(zip(DECODING, (ours, peer), strict=True))
    for name, action in reversed(turns) if flipped else turns:
        seconds[name].append(timed(action)[1])


def count_wrong(
    sentences: Sentences,
    scheme: FeatureScheme,
    tables: dict[str, HashedTable],
    expected: Sequence[str],
    wrong: dict[str, int],
) -> None:
    """Adds where our labels differ from the peer's."""
    wrong["items_in_fields"] += sum(tag != "O" for tag in expected)
    features = hashed(sentences, scheme)
    for name, table in tables.items():
        path = decoded(features, sentences, scheme, table)
        found = [TAGS[scheme.level][tag] for tag in path]
        wrong[name] += sum(a != b for a, b in zip(found, expected, strict=True))


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """Returns what an action returns, and its CPU time."""
    began = time.process_time()
    result = action()
    return result, time.process_time() - began


def chains(items: Sequence[Any], sentences: Sentences, level: str) -> list[Sequence[Any]]:
    """Returns the items of each sequence: a document of sentences, or a sentence of tokens."""
    if level == "sentence":
        return [items]
    ends = list(itertools.accumulate(map(len, sentences), initial=0))
    return [items[start:stop] for start, stop in itertools.pairwise(ends)]


def hashed(sentences: Sentences, scheme: FeatureScheme) -> list[Lookup]:
    """Returns the rows of the table as a model looks them up."""
    from hushdoc import hashing

    return list(hashing.lookups(hashing.hash_words(sentences, scheme), scheme))


def decoded(
    features: Sequence[Lookup], sentences: Sentences, scheme: FeatureScheme, table: HashedTable
) -> npt.NDArray[np.int64]:
    """Returns our labels of all items."""
    import numpy as np

    from hushdoc.runtime.hashed import chains as linear
    from hushdoc.runtime.hashed import table as hashed_table

    scores = np.concatenate([hashed_table.lookup_scores(found, table) for found in features])
    lengths = [len(sentences)] if scheme.level == "sentence" else list(map(len, sentences))
    offsets = np.cumsum([0, *lengths])
    return linear.viterbi(scores, offsets, table.transitions)


def table_of(weights: Any, transitions: Any) -> HashedTable:
    """Returns a table of these parts."""
    from hushdoc.runtime.hashed.table import HashedTable

    return HashedTable(weights=weights, transitions=transitions)


def rounded_table(table: HashedTable, dtype: str, tags: Sequence[str]) -> HashedTable:
    """Returns the table as an artifact stores it; rows that were not filled stay zero."""
    import numpy as np

    from hushdoc.runtime.hashed.table import ZERO_POINT, HashedTable
    from hushdoc_export.table import differences, rounded

    filled = np.asarray(table.weights.any(axis=1))
    lean, reference = differences(table.weights[filled].astype(np.float32), tags)
    made = rounded(lean, dtype)
    zero = 0 if made.scale is None else ZERO_POINT
    weights = np.full((len(filled), lean.shape[1]), zero, made.weights.dtype)
    weights[filled] = made.weights
    return HashedTable(
        weights=weights,
        scale=made.scale,
        transitions=table.transitions.astype(np.float32).astype(float),
        reference=reference,
    )
