"""Checkpoints of classifiers of images: the folder that training hands to export.

checkpoint.json      format version, task "image-classification", architecture
model.safetensors    weights; the architecture and the number of classes rebuild the rest
classes.json         the classes, in the order of the outputs
preprocessing.json   how images become inputs
claim.json           what training says about privacy; export seals and signs it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hushdoc.certificate.claim import Claim
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_training import checkpoint
from hushdoc_training.checkpoint import damage, read_object

TASK = "image-classification"

_CLASSES = "classes.json"


@dataclass(frozen=True, kw_only=True)
class ImageCheckpoint:
    """What is known about a trained classifier besides its weights.

    Attributes:
        folder: Where it stands.
        architecture: One of `models.image_classifier.ARCHITECTURES`.
        labels: The classes, in the order of the outputs.
        preprocessing: How images become inputs.
        claim: What training says about privacy.
    """

    folder: Path
    architecture: str
    labels: tuple[str, ...]
    preprocessing: ImagePreprocessing
    claim: Claim

    @classmethod
    def load(cls, folder: Path) -> ImageCheckpoint:
        """Reads a checkpoint folder, or the run folder that `hushdoc train images` filled.

        Raises:
            CheckpointError: It is none of this task, incomplete, or damaged.
        """
        folder = checkpoint.folder_of(folder)
        head = checkpoint.read_head(folder, (TASK,))
        with damage(folder):
            return cls(
                folder=folder,
                architecture=str(head["architecture"]),
                labels=tuple(map(str, read_object(folder, _CLASSES)["classes"])),
                preprocessing=ImagePreprocessing.from_dict(
                    read_object(folder, "preprocessing.json")
                ),
                claim=Claim.from_json((folder / "claim.json").read_bytes()),
            )


def holds_images(folder: Path) -> bool:
    """Returns whether a folder, or the checkpoint in it, is of this task."""
    return (checkpoint.folder_of(folder) / _CLASSES).is_file()


def save(
    folder: Path,
    *,
    architecture: str,
    labels: tuple[str, ...],
    preprocessing: ImagePreprocessing,
    claim: Claim,
    save_weights: Callable[[Path], None],  # writes model.safetensors
) -> ImageCheckpoint:
    """Writes a checkpoint where nothing may be yet, whole or not at all."""
    checkpoint.write(
        folder,
        {
            checkpoint.HEAD: {"task": TASK, "architecture": architecture},
            _CLASSES: {"classes": list(labels)},
            "preprocessing.json": preprocessing.to_dict(),
        },
        claim=claim,
        tokenizer_json=None,
        save_weights=save_weights,
    )
    return ImageCheckpoint.load(folder)
