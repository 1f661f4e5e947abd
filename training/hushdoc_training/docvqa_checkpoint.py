"""Checkpoints of models that answer questions: the folder that training hands to export.

checkpoint.json      format version, task "docvqa", architecture
model.safetensors    weights, with config.json beside them
tokenizer.json       Hugging Face tokenizer
asking.json          how questions and words become inputs
claim.json           what training says about privacy; export seals and signs it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hushdoc.certificate.claim import Claim
from hushdoc.runtime.questions import Asking, QuestionEncoder
from hushdoc_training import checkpoint
from hushdoc_training.checkpoint import damage, read_object

TASK = "docvqa"


@dataclass(frozen=True, kw_only=True)
class DocVQACheckpoint:
    """What is known about a trained model besides its weights.

    Attributes:
        folder: Where it stands.
        asking: How questions and words become inputs, and which kind of model reads them.
        claim: What training says about privacy.
        tokenizer_json: Hugging Face tokenizer.
    """

    folder: Path
    asking: Asking
    claim: Claim
    tokenizer_json: str

    @classmethod
    def load(cls, folder: Path) -> DocVQACheckpoint:
        """Reads a checkpoint folder, or the run folder that `hushdoc train docvqa` filled.

        Raises:
            CheckpointError: It is none of this task, incomplete, or damaged.
        """
        folder = checkpoint.folder_of(folder)
        head = checkpoint.read_head(folder, (TASK,))
        with damage(folder):
            asking = Asking.from_dict(read_object(folder, "asking.json"))
            if asking.kind != head["architecture"]:
                raise ValueError(f"it is of a {head['architecture']}, and asked as a {asking.kind}")
            return cls(
                folder=folder,
                asking=asking,
                claim=Claim.from_json((folder / "claim.json").read_bytes()),
                tokenizer_json=(folder / "tokenizer.json").read_text(encoding="utf-8"),
            )

    @property
    def architecture(self) -> str:
        """Which kind of model it is: "pointer" or "vt5"."""
        return self.asking.kind

    def encoder(self) -> QuestionEncoder:
        """Returns the tokenizer with this checkpoint's settings."""
        return QuestionEncoder(self.tokenizer_json, self.asking)


def holds_questions(folder: Path) -> bool:
    """Returns whether a folder, or the checkpoint in it, is of this task."""
    place = checkpoint.folder_of(folder)
    return (place / "asking.json").is_file()


def save(
    folder: Path,
    *,
    asking: Asking,
    claim: Claim,
    tokenizer_json: str,
    save_weights: Callable[[Path], None],  # writes model.safetensors and config.json
) -> DocVQACheckpoint:
    """Writes a checkpoint where nothing may be yet, whole or not at all."""
    checkpoint.write(
        folder,
        {
            checkpoint.HEAD: {"task": TASK, "architecture": asking.kind},
            "asking.json": asking.to_dict(),
        },
        claim=claim,
        tokenizer_json=tokenizer_json,
        save_weights=save_weights,
    )
    return DocVQACheckpoint.load(folder)
