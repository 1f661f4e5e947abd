"""TableClassifier: the scores of classes by a table of hashed features.

The weights of all features of a document are added up, page after page; the class with the largest
sum leads, and `class_scoring.confidence` says by how much.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from hushdoc.artifact.artifact import Artifact
from hushdoc.document.document import Document
from hushdoc.errors import ArtifactError
from hushdoc.hashing import segmentation
from hushdoc.runtime.encoding import texts_of
from hushdoc.runtime.extraction import StageClock
from hushdoc.runtime.hashed.class_scoring import KEY, ClassConfidence, confidence, is_classifier
from hushdoc.runtime.hashed.sealed_table import SealedTable
from hushdoc.runtime.label_scores import NOTHING_READ, ClassReading
from hushdoc.runtime.session import Runtime

TASK = "classification"


class TableClassifier:
    """A checked table that classifies whole texts; its labels are in the order of its columns."""

    modality = "text"
    device = "cpu"

    def __init__(self, sealed: SealedTable, rule: ClassConfidence) -> None:
        """Keeps the checked parts."""
        self.labels = sealed.tags
        self.scoring = sealed.scoring
        self._sealed = sealed
        self._rule = rule

    @classmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the classifier of an artifact that was opened, and thereby checked, already."""
        del runtime  # numpy alone adds up rows
        sealed = SealedTable.from_artifact(artifact, device=device, labels_key="labels")
        rule = ClassConfidence.from_dict(sealed.settings.get(KEY))
        if not is_classifier(sealed.tags, sealed.scheme.level, sealed.table.transitions):
            raise ArtifactError(
                "The artifact's task is classification, and this table can't classify: its labels "
                "may change within a text. Export the artifact again.",
                code="BAD_MANIFEST",
            )
        return cls(sealed, rule)

    def read(self, document: Document, *, temperature: float, clock: StageClock) -> ClassReading:
        """Returns how confident the table is of each class, before calibration."""
        sums, size = np.zeros(len(self.labels)), 0
        for text in texts_of(document):
            for block in self._sealed.scored(text, segmentation.sentence_places(text), clock):
                sums += block.scores.sum(axis=0)
                size += block.num_features
        unit = temperature * self._rule.unit(size)
        scores = [confidence(sums, label, unit=unit) for label in range(len(self.labels))]
        return ClassReading(
            raw_scores=np.array(scores),
            coverage=1.0 if size else 0.0,
            warnings=() if size else (NOTHING_READ,),
        )
