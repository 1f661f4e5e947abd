"""Settings of evolution: public constants, chosen without looking at the protected documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushdoc import arguments
from hushdoc_training.invented.label_sets import LABEL_SETS
from hushdoc_training.invented.settings import KNOWN_TYPES
from hushdoc_training.invented.specification import FACTORS
from hushdoc_training.synthesis.ballots import VOTES
from hushdoc_training.synthesis.embedding import FEATURES
from hushdoc_training.synthetic_checkpoint import MOST_DOCUMENTS

_SHARES = {
    "document_type": 0.2,
    "layout": 0.12,
    "locale": 0.25,
    "date_style": 0.12,
    "amounts": 0.04,
    "typeface": 0.02,
    "items": 0.06,
    "wear": 0.02,
}
"""Share of a vote's squared norm that each factor has; the habits share what is left."""

MOST_POOL, MOST_FITS = 20_000, 32


@dataclass(frozen=True, kw_only=True)
class EvolutionSettings:
    """How private votes steer the generator.

    Attributes:
        vote: One of `ballots.VOTES`.
        features: One of `embedding.FEATURES`: what is looked at of a document; images of invented
            pages have to be drawn for it, which takes a tenth of a second each.
        pool: How many public documents are voted for in a round.
        nearest: For how many of them a document votes.
        fits: To how many pools one after the other a noisy sum of `moments` is fitted.
        documents: How many documents are released.
        labels: One of `label_sets.LABEL_SETS`: how they are labelled.
        document_types: Which types are invented, of KNOWN_TYPES.
        seed: Keys what is invented; noise has no seed.

    Example:
        >>> EvolutionSettings().vote
        'moments'
    """

    vote: str = "moments"
    features: str = "words"
    pool: int = 600
    nearest: int = 10
    fits: int = 4
    documents: int = 500
    labels: str = "fields"
    document_types: tuple[str, ...] = KNOWN_TYPES
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError where nothing could be voted for."""
        arguments.choice(self.vote, VOTES, what="vote")
        arguments.choice(self.features, FEATURES, what="features")
        arguments.choice(self.labels, tuple(LABEL_SETS), what="labels")
        require_within(self, pool=(1, MOST_POOL), nearest=(1, self.pool), fits=(1, MOST_FITS))
        require_within(self, documents=(1, MOST_DOCUMENTS), seed=(0, 2**31 - 1))
        if not self.document_types or not set(self.document_types) <= set(KNOWN_TYPES):
            raise ValueError(
                f"document_types is {self.document_types!r}; expected some of "
                f"{', '.join(KNOWN_TYPES)}."
            )


def require_within(settings: object, **ranges: tuple[int, int]) -> None:
    """Raises ValueError where a setting is no integer of its range."""
    for name, (least, most) in ranges.items():
        value = getattr(settings, name)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{name} is {value!r}; expected {least} to {most}.")


def prior(settings: EvolutionSettings) -> dict[str, list[float]]:
    """Returns how probable the values of factors are before anybody voted."""
    return {"document_type": [float(kind in settings.document_types) for kind in KNOWN_TYPES]}


def weights_of_factors() -> npt.NDArray[np.float64]:
    """Returns the share of each factor in a vote's squared norm, in the order of FACTORS."""
    rest = (1 - sum(_SHARES.values())) / (len(FACTORS) - len(_SHARES))
    return np.array([_SHARES.get(name, rest) for name in FACTORS])
