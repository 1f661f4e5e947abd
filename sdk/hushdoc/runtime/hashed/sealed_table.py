"""SealedTable: what an artifact of hashed features holds, and its scores of a text's items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hushdoc import hashing
from hushdoc.artifact.artifact import Artifact
from hushdoc.artifact.manifest import TABLE_KEY
from hushdoc.errors import ArtifactError, DeviceUnavailableError
from hushdoc.hashing import Clusters, FeatureScheme, segmentation
from hushdoc.labels import OUTSIDE
from hushdoc.runtime.extraction import StageClock
from hushdoc.runtime.hashed.chains import Scores
from hushdoc.runtime.hashed.table import HashedTable, lookup_scores, read_clusters, read_table
from hushdoc.runtime.model import LABELS_FILE, read_names, unreadable_names
from hushdoc.runtime.scoring import Scoring

FORMAT = "safetensors"
CLUSTERS_FILE = "clusters.safetensors"

BLOCK_CHARACTERS = 1 << 18
"""Text whose tokens are held at once, so that memory does not grow with them."""

Places = npt.NDArray[np.int64]
"""Where things stand in a text [things, 2]: their first characters, and one past their last."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoredBlock:
    """Neighbouring sentences of a text, and the scores of their items [items, labels].

    An item is a sentence or a token, as the scheme says. `places` [sentences, 2] are the sentences'
    characters, `lengths` [sentences] their tokens; `num_features` rows of the table were added up.
    """

    places: Places
    lengths: npt.NDArray[np.int64]
    scores: Scores
    num_features: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SealedTable:
    """A checked table and what its rows (`scheme`) and columns (`tags`, in their order) mean.

    `clusters` are public clusters of words; `settings` is the manifest's preprocessing.
    """

    tags: tuple[str, ...]
    scheme: FeatureScheme
    table: HashedTable
    clusters: Clusters | None
    scoring: Scoring | None
    settings: dict[str, Any]

    @classmethod
    def from_artifact(cls, artifact: Artifact, *, device: str, labels_key: str) -> Self:
        """Returns the table of an artifact that was opened, and thereby checked, already.

        `labels_key` is the key of the labels' file that names the columns.
        """
        if device != "cpu":
            raise DeviceUnavailableError(
                f"The device is '{device}'; a table of hashed features runs on the cpu only. Leave "
                "the device out."
            )
        settings = artifact.manifest["preprocessing"]
        scheme = FeatureScheme.from_dict(settings.get("features") or {})
        if settings.get("segmentation") != segmentation.VERSION:
            raise ArtifactError(
                f"The artifact was made with rules {settings.get('segmentation')!r} for sentences "
                f"and tokens; this version has {segmentation.VERSION}. Export it again.",
                code="BAD_MANIFEST",
            )
        tags = read_names(artifact, labels_key)
        if scheme.level == "token" and not all(
            tag == OUTSIDE or tag.startswith(("B-", "I-")) for tag in tags
        ):
            problem = ValueError("tags of tokens are O, B-name or I-name")
            raise unreadable_names(problem, labels_key)
        shape = settings[TABLE_KEY]
        entry = artifact.view(artifact.certificate.model.entry)
        table = read_table(entry, shape["tensor"], shape.get("reference"))
        if (len(table.weights), len(table.transitions)) != (scheme.rows, len(tags)):
            raise ArtifactError(
                f"The table has {len(table.weights)} rows for {len(table.transitions)} labels, the "
                f"features need {scheme.rows} rows and {LABELS_FILE} has {len(tags)} labels. "
                "Export it again."
            )
        clusters = artifact.view(CLUSTERS_FILE) if scheme.clusters else None
        return cls(
            tags=tags,
            scheme=scheme,
            table=table,
            clusters=None if clusters is None else read_clusters(clusters, scheme),
            scoring=Scoring.from_dict(settings["scores"]) if "scores" in settings else None,
            settings=settings,
        )

    def scored(self, text: str, sentences: Places, clock: StageClock) -> Iterator[ScoredBlock]:
        """Yields the scores of a text's items, block by block."""
        for places in _blocks(sentences):
            tokens = hashing.hash_text(text, places, self.scheme)
            parts: list[Scores] = []
            num_features = 0
            for found in hashing.lookups(tokens, self.scheme, self.clusters):
                clock.count("encoding")
                parts.append(lookup_scores(found, self.table))
                num_features += found.num_features
                clock.count("model")
            yield ScoredBlock(
                places=places,
                lengths=tokens.lengths,
                scores=np.concatenate(parts),
                num_features=num_features,
            )


def _blocks(sentences: Places) -> Iterator[Places]:
    """Yields neighbouring sentences that are about as long as a block."""
    first = 0
    while first < len(sentences):
        reach = sentences[first, 0] + BLOCK_CHARACTERS
        stop = int(np.searchsorted(sentences[:, 1], reach)) + 1
        yield sentences[first:stop]
        first = stop
