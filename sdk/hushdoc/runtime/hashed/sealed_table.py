"""SealedTable: what an artifact of hashed features holds, and its scores of a text's items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hushdoc import hashing
from hushdoc.artifact.artifact import Artifact
from hushdoc.artifact.manifest import TABLE_KEY
from hushdoc.errors import ArtifactError, DeviceUnavailableError
from hushdoc.hashing import Clusters, Features, FeatureScheme, Lookups, segmentation
from hushdoc.labels import OUTSIDE
from hushdoc.runtime.extraction import StageClock
from hushdoc.runtime.hashed.chains import Scores
from hushdoc.runtime.hashed.table import HashedTable, item_scores, read_clusters, read_table
from hushdoc.runtime.model import LABELS_FILE, read_names, unreadable_names
from hushdoc.runtime.scoring import Scoring

FORMAT = "safetensors"
CLUSTERS_FILE = "clusters.safetensors"

BLOCK_CHARACTERS = 1 << 18
"""Text whose tokens are held at once, so that memory does not grow with them."""

Place = tuple[int, int]
"""Where something stands in a text: its first character, and one past its last."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScoredBlock:
    """Neighbouring sentences of a text, their tokens, and their items' scores [items, labels].

    An item is a sentence or a token, as the scheme says; `rows` of the table were added up.
    """

    sentences: Sequence[Place]
    words: Sequence[list[str]]
    scores: Scores
    rows: Features | Lookups


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

    def scored(
        self, text: str, sentences: Sequence[Place], clock: StageClock
    ) -> Iterator[ScoredBlock]:
        """Yields the scores of a text's items, block by block."""
        for block in _blocks(sentences):
            words = [segmentation.words(text, start, stop) for start, stop in block]
            hashed = hashing.lookups if self.scheme.level == "sentence" else hashing.features
            rows = hashed(words, self.scheme, self.clusters)
            clock.count("encoding")
            scores = item_scores(rows, self.table)
            clock.count("model")
            yield ScoredBlock(sentences=block, words=words, scores=scores, rows=rows)


def _blocks(sentences: Sequence[Place]) -> Iterator[Sequence[Place]]:
    """Yields neighbouring sentences that are about as long as a block."""
    first = 0
    for number, (_, stop) in enumerate(sentences):
        if stop - sentences[first][0] >= BLOCK_CHARACTERS or number == len(sentences) - 1:
            yield sentences[first : number + 1]
            first = number + 1
