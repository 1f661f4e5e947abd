"""Public texts: what scales the rows of a table, and what the certificate says of it.

Contracts that somebody declares public are best. Without any, invented contracts are taken
and, where their overlap is declared and MiniLM's package is installed, how rare English words
are at large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushdoc import hashing
from hushdoc.certificate.claim import PublicData
from hushdoc.errors import MissingExtraError
from hushdoc.hashing import Clusters, Features, FeatureScheme
from hushdoc_training.crf import corpus, private_fitting, word_ranks
from hushdoc_training.invented import clause_contracts
from hushdoc_training.labelled_texts import LabelledText

INVENTED = "invented:contract"
UNSEEN_IN_WORDS, UNSEEN_IN_INVENTED = 0.1, 0.3
"""Scales of rows that words at large do not use, and that invented contracts alone do not."""


COUNTED = "how many documents have each row, counted with noise by the first step"
"""What scales rows where no public text does: `crf.private_counts`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicText:
    """Public sentences that scale the rows of a table."""

    features: Features  # of each, by the table's scheme
    data: tuple[PublicData, ...]  # what the certificate says of them
    unseen_scale: float = private_fitting.UNSEEN_SCALE
    counted: bool = False  # whether private counts scale the rows instead; of whole texts alone

    @property
    def reported(self) -> dict[str, float | str]:
        """What the certificate says of the scales, beside `data`."""
        return {"scales": COUNTED} if self.counted else {"unseen_scale": self.unseen_scale}


def given(
    texts: Sequence[LabelledText],
    scheme: FeatureScheme,
    *,
    name: str,
    overlap: str,
    unseen_scale: float | None = None,
    clusters: Clusters | None = None,
) -> PublicText:
    """Returns texts that somebody declares public, each a document; labels are not looked at.

    `overlap` says how far they may hold protected documents.
    """
    found = corpus.sentence_corpus(texts, []).sentences
    return PublicText(
        features=hashing.features(found, scheme, clusters),
        unseen_scale=private_fitting.UNSEEN_SCALE if unseen_scale is None else unseen_scale,
        data=(scales_from(name, "declared public by the trainer", overlap),),
    )


def without_any(
    scheme: FeatureScheme,
    *,
    words: str | None,
    unseen_scale: float | None = None,
    clusters: Clusters | None = None,
) -> PublicText:
    """Returns invented contracts, with words at large where MiniLM's package is installed.

    `words` says how far the texts that MiniLM's vocabulary comes from may hold protected documents;
    None leaves words at large out.
    """
    # Of another seed than documents of invented:contract, which stand for protected ones.
    texts = clause_contracts.contracts(400, seed=1)
    found = [*corpus.sentence_corpus(texts, []).sentences]
    data = [scales_from(INVENTED, "invented by a generator", "none")]
    usual = UNSEEN_IN_INVENTED
    ranked = [] if words is None else _ranked()
    if ranked:
        found += word_ranks.sentences(ranked)
        usual = UNSEEN_IN_WORDS
        data.append(scales_from(word_ranks.NAME, "public", str(words)))
    return PublicText(
        features=hashing.features(found, scheme, clusters),
        unseen_scale=usual if unseen_scale is None else unseen_scale,
        data=tuple(data),
    )


def counted() -> PublicText:
    """Returns no text at all: the first private step counts how rare each row is."""
    nothing = Features(indices=np.zeros(0, np.int32), offsets=np.zeros(1, np.int64))
    return PublicText(features=nothing, data=(), unseen_scale=1.0, counted=True)


def scales_from(name: str, status: str, overlap: str) -> PublicData:
    """Returns what the certificate says of a public text by which rows are scaled."""
    return PublicData(
        name=name,
        uses=("scales of rows",),
        privacy_status=status,
        overlap_with_protected=overlap,
    )


def _ranked() -> list[str]:
    try:
        return word_ranks.minilm_words()
    except MissingExtraError:
        return []
