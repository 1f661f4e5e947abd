"""Document points: where a document stands that votes, or is voted for, by the chosen features.

It is `synthesis.embedding`, with the mean of MiniLM's states over a document's words where that is
asked for: a public network (Wang et al. 2020) that is fitted to no document here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from hushdoc.certificate.claim import PublicData
from hushdoc.document.document import Document
from hushdoc.labels import LabelSet
from hushdoc_training.synthesis import embedding

Floats = npt.NDArray[np.float64]

MINILM = "all-MiniLM-L6-v2"

_WIDTH, _MOST = 384, 256
"""Numbers of its states, and tokens that are read at once."""


def point(document: Document, features: str) -> Floats:
    """Returns the point of a document, of a norm of at most 1; one at 0 or NaN votes for nothing.

    A MissingExtraError says where MiniLM is not installed.
    """
    found = embedding.embed(document, features=features)
    return embedding.with_meaning(found, _minilm()(document)) if reads_minilm(features) else found


def size(features: str) -> int:
    """Returns how many numbers a point has."""
    return embedding.size_of(features) + (_WIDTH if reads_minilm(features) else 0)


def reads_minilm(features: str) -> bool:
    """Returns whether MiniLM is among the features."""
    return "minilm" in features.split("+")


def public_data(features: str, overlap: str) -> tuple[PublicData, ...]:
    """Returns what a claim says of MiniLM, where it is read."""
    if not reads_minilm(features):
        return ()
    data = PublicData(
        name=MINILM,
        uses=("points of documents",),
        privacy_status="published weights; what they were trained on is their publisher's word",
        overlap_with_protected=overlap,
    )
    return (data,)


@cache
def _minilm() -> Callable[[Document], Floats]:
    """Returns the mean of the states of all tokens, read in parts; 0 where there is no word."""
    import torch
    from tokenizers import Tokenizer

    from hushdoc_training.models import layout

    model, tokenizer_json, _ = layout.minilm(LabelSet(fields=()), boxes=False)
    tokenizer, model = Tokenizer.from_str(tokenizer_json), model.eval()

    def mean(document: Document) -> Floats:
        text = " ".join(word.text for page in document.pages for word in page.words)
        if not text.strip():
            return np.zeros(_WIDTH)
        parts = torch.tensor(tokenizer.encode(text).ids).split(_MOST)
        with torch.inference_mode():
            states = [
                model.hidden(
                    part[None], torch.zeros(1, len(part), 4).long(), torch.ones(1, len(part))
                )
                for part in parts
            ]
        found: Floats = torch.cat([each[0] for each in states]).mean(0).double().numpy()
        return found

    return mean
