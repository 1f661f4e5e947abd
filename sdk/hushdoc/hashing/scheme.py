"""FeatureScheme: what the features of an item are, as an artifact's manifest declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hushdoc.errors import ArtifactError

LEVELS = ("sentence", "token")
VERSION = 1

MAX_SKIPPED = 4
"""Tokens between the two of a skip-gram: 4-skip-2-grams, of which 0 skipped is the bigram."""

MAX_WINDOW = 8
MAX_ROWS = 2**31 - 1
MAX_CLUSTERS = 2**16


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureScheme:
    """What the features of an item are and their rows in the table.

    At the level of sentences an item is a sentence; its features are its tokens, their clusters and
    its pairs of tokens. At the level of tokens an item is a token; its features are the tokens (and
    clusters) around it with their offsets, and the pairs it is one of.

    Attributes:
        rows: Rows of the table, at least 2; any number, not only powers of two.
        level: "sentence" or "token".
        bigrams: Whether neighbouring tokens make a feature.
        skip_grams: Whether pairs with 1 to 4 tokens between them do, whatever their distance.
        clusters: How many clusters of words there are; 0 for none.
        lowercase: Whether tokens are lowered before they are hashed.
        window: Level of tokens only: how many tokens on each side are features.
        seed: Of the token hashes and of all features, 32 bits.
        version: Of the contract in `hushdoc.hashing`.
    """

    rows: int = 2**21
    level: str = "sentence"
    bigrams: bool = True
    skip_grams: bool = True
    clusters: int = 0
    lowercase: bool = True
    window: int = 2
    seed: int = 0
    version: int = VERSION

    def __post_init__(self) -> None:
        """Refuses what no table can be addressed by."""
        for name, lowest, highest in (
            ("rows", 2, MAX_ROWS),
            ("clusters", 0, MAX_CLUSTERS),
            ("window", 0, MAX_WINDOW),
            ("seed", 0, 2**32 - 1),
            ("version", VERSION, VERSION),
        ):
            value = getattr(self, name)
            if type(value) is not int or not lowest <= value <= highest:
                raise ValueError(
                    f"{name} is {value!r}; expected an integer from {lowest} to {highest}."
                )
        if self.level not in LEVELS:
            raise ValueError(f"level is {self.level!r}; expected one of {', '.join(LEVELS)}.")
        for name in ("bigrams", "skip_grams", "lowercase"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected True or False.")

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for the manifest."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeatureScheme:
        """Returns the scheme that a manifest holds; ArtifactError for an unsound one."""
        try:
            if set(data) != set(cls.__slots__):
                raise KeyError(", ".join(sorted(set(data) ^ set(cls.__slots__))))
            return cls(**data)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"The scheme of hashed features can't be read: {type(error).__name__}: {error}. "
                "Export the artifact again with this version of hushdoc.",
                code="BAD_MANIFEST",
            ) from error
