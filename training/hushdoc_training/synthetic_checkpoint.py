"""Checkpoints of synthetic documents: the folder that votes hand to export.

checkpoint.json         format version, task, method, the label set of the documents
specifications.jsonl    a specification a line; pages are drawn from them where they are exported
claim.json              what the votes say about privacy; export seals and signs it
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hushdoc.certificate.claim import Claim
from hushdoc.errors import AnnotationError
from hushdoc.system import atomic_files
from hushdoc_training import checkpoint
from hushdoc_training.checkpoint import damage
from hushdoc_training.invented.label_sets import LABEL_SETS
from hushdoc_training.invented.specification import Specification

TASK = "synthetic-documents"
METHOD = "evolution"

MOST_DOCUMENTS = 5_000
"""A set is never larger: the headers of its shards fit into what is read of an artifact's."""

_SPECIFICATIONS = "specifications.jsonl"


@dataclass(frozen=True, kw_only=True)
class SyntheticCheckpoint:
    """Specifications that private votes led to.

    Attributes:
        specifications: One a document, none twice.
        labels: The label set that the documents are labelled by.
        claim: What the votes say about privacy.
    """

    specifications: tuple[Specification, ...]
    labels: str
    claim: Claim


def save(folder: Path, made: SyntheticCheckpoint) -> None:
    """Writes a checkpoint where nothing may be yet, whole or not at all."""
    with atomic_files.new_folder(folder) as partial:
        lines = [json.dumps(one.to_dict()) + "\n" for one in made.specifications]
        (partial / _SPECIFICATIONS).write_text("".join(lines))
        head = {"task": TASK, "method": METHOD, "labels": made.labels}
        checkpoint.complete(partial, head, made.claim)


def load(folder: Path) -> SyntheticCheckpoint:
    """Reads a checkpoint folder, or the run folder around it; a CheckpointError refuses others."""
    folder = checkpoint.folder_of(folder)
    head = checkpoint.read_head(folder, (TASK,))
    with damage(folder):
        try:
            lines = (folder / _SPECIFICATIONS).read_text(encoding="utf-8").splitlines()
            specifications = tuple(Specification.from_dict(json.loads(line)) for line in lines)
        except AnnotationError as error:
            raise ValueError(str(error)) from error
        require_distinct(specifications)
        if head.get("method") != METHOD or head.get("labels") not in LABEL_SETS:
            raise ValueError(f"its method is {head.get('method')}, its labels {head.get('labels')}")
        return SyntheticCheckpoint(
            specifications=specifications,
            labels=head["labels"],
            claim=Claim.from_json((folder / "claim.json").read_bytes()),
        )


def holds_documents(folder: Path) -> bool:
    """Returns whether a folder, or the checkpoint in it, is of synthetic documents."""
    return (checkpoint.folder_of(folder) / _SPECIFICATIONS).is_file()


def require_distinct(specifications: Sequence[Specification]) -> None:
    """Raises ValueError unless there are some, not too many, and none has another's id."""
    names = {one.id for one in specifications}
    if not 0 < len(names) == len(specifications) <= MOST_DOCUMENTS:
        raise ValueError(
            f"it has {len(specifications)} specifications with {len(names)} ids; expected 1 to "
            f"{MOST_DOCUMENTS}, each with its own"
        )
