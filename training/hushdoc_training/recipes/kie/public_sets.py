"""Public data sets for one start: each teaches the labels it annotates, and nothing of the others.

The labels of all of them together are the model's. A word that a set leaves unlabelled is outside
of the fields that this set annotates; it may well be in one that another set annotates, so tags of
other sets take no part in the loss on its documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushdoc.certificate.claim import PublicData
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc_training.recipes.kie.records import BoolArray


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """Documents that are annotated alike.

    Attributes:
        documents: Its documents.
        labels: The fields that it annotates, whether or not a document has each of them.
        data: What a claim says about it.
    """

    documents: Sequence[LabelledDocument]
    labels: LabelSet
    data: PublicData


def labels_of(sets: Sequence[PublicSet]) -> LabelSet:
    """Returns the labels of all sets."""
    return LabelSet(fields=tuple(field for item in sets for field in item.labels.fields))


def documents_of(sets: Sequence[PublicSet]) -> list[LabelledDocument]:
    """Returns the documents of all sets, one set after the other."""
    return [labelled for item in sets for labelled in item.documents]


def annotated(sets: Sequence[PublicSet], labels: LabelSet) -> list[BoolArray]:
    """Returns for each document which of a model's tags its set uses, shape [tags]."""
    masks = []
    for item in sets:
        used = set(item.labels.tags)
        mask = np.asarray([tag in used for tag in labels.tags])
        masks += [mask] * len(item.documents)
    return masks
