"""Feature hashing of words: the one language in which tables of weights are trained and read.

Contract: an artifact's table is addressed by these rules, so nothing of them may change without
another `FeatureScheme.version`. A token is hashed by MurmurHash3 (x86, 32 bits) of its UTF-8. The
hash of a feature is

    finalizer(first * 0x9E3779B1 ^ rotl(second * 0x85EBCA77, 15) + template * 0xC2B2AE3D + seed)

in 32 bits, where `first` and `second` are hashes of tokens (or a cluster's number and 0),
`template` says what they are to each other, and the finalizer is MurmurHash3's. Its row is that
hash times the number of rows, divided by 2**32. The sum is taken before the exclusive or.
"""

from __future__ import annotations

from hushdoc.hashing.clusters import Clusters
from hushdoc.hashing.murmur import token_hashes
from hushdoc.hashing.rows import Features, features
from hushdoc.hashing.scheme import (
    LEVELS,
    MAX_CLUSTERS,
    MAX_ROWS,
    MAX_SKIPPED,
    MAX_WINDOW,
    VERSION,
    FeatureScheme,
)
from hushdoc.hashing.table_lookups import Lookup, lookups
from hushdoc.hashing.tokens import TokenHashes, hash_text, hash_words

__all__ = [
    "LEVELS",
    "MAX_CLUSTERS",
    "MAX_ROWS",
    "MAX_SKIPPED",
    "MAX_WINDOW",
    "VERSION",
    "Clusters",
    "FeatureScheme",
    "Features",
    "Lookup",
    "TokenHashes",
    "features",
    "hash_text",
    "hash_words",
    "lookups",
    "token_hashes",
]
