"""Checkpoints: the folder that training hands to export, written whole or not at all.

checkpoint.json      format version, task, architecture, and digests of what was trained
model.safetensors    weights, with config.json beside them (transformers' own layout)
tokenizer.json       Hugging Face tokenizer
labels.json          the fields; tags follow from them
preprocessing.json   windows, boxes, special tokens; images where the model reads them
claim.json           what training says about privacy; export seals and signs it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.certificate.claim import Claim
from hushdoc.errors import ArtifactError, CertificateError, CheckpointError, LabelMismatchError
from hushdoc.labels import LabelSet
from hushdoc.runtime.encoding import Encoder, Preprocessing
from hushdoc.system import atomic_files
from hushdoc_training import claimed_files

FORMAT_VERSION = 1
TASKS = ("kie",)
HEAD = "checkpoint.json"
"""The file that says what a folder is."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What is known about a trained model besides its weights."""

    folder: Path
    task: str
    architecture: str
    labels: LabelSet
    preprocessing: Preprocessing
    claim: Claim
    tokenizer_json: str

    @classmethod
    def load(cls, folder: Path) -> Checkpoint:
        """Reads a checkpoint folder, or the run folder that `hushdoc train` filled."""
        folder = folder_of(folder)
        head = read_head(folder, TASKS)
        with damage(folder):
            labels = LabelSet(fields=tuple(read_object(folder, "labels.json")["fields"]))
            fields = read_object(folder, "preprocessing.json")
            preprocessing = Preprocessing.from_dict(fields, images=True)
            claim = Claim.from_json((folder / "claim.json").read_bytes())
            architecture = str(head["architecture"])
            tokenizer_json = (folder / "tokenizer.json").read_text(encoding="utf-8")
        return cls(
            folder=folder,
            task=str(head["task"]),
            architecture=architecture,
            labels=labels,
            preprocessing=preprocessing,
            claim=claim,
            tokenizer_json=tokenizer_json,
        )

    def encoder(self) -> Encoder:
        """Returns the tokenizer with this checkpoint's preprocessing."""
        return Encoder(self.tokenizer_json, self.preprocessing)

    def require_labels(self, labels: LabelSet) -> None:
        """Raises LabelMismatchError unless these are the checkpoint's labels."""
        missing = sorted(set(labels.fields) - set(self.labels.fields))
        if missing:
            raise LabelMismatchError(
                f"Among the labels to learn are some that the checkpoint '{self.folder}' does not "
                f"know: {', '.join(missing)}. It knows: "
                f"{', '.join(self.labels.fields) or 'none'}. `hushdoc train kie "
                "--new-labels` puts a new output layer on it; or map the labels first."
            )


def save(
    folder: Path,
    *,
    architecture: str,  # one of models.layout.ARCHITECTURES
    labels: LabelSet,
    preprocessing: Preprocessing,  # how words became inputs
    claim: Claim,
    tokenizer_json: str,
    save_weights: Callable[[Path], None],  # writes model.safetensors and config.json
) -> Checkpoint:
    """Writes a checkpoint where nothing may be yet, whole or not at all."""
    write(
        folder,
        {
            HEAD: {"task": "kie", "architecture": architecture},
            "labels.json": {"fields": list(labels.fields)},
            "preprocessing.json": preprocessing.to_dict(),
        },
        claim=claim,
        tokenizer_json=tokenizer_json,
        save_weights=save_weights,
    )
    return Checkpoint.load(folder)


def write(
    folder: Path,
    objects: Mapping[str, Mapping[str, Any]],  # by the names of their files
    *,
    claim: Claim,
    tokenizer_json: str | None,  # None where the model reads no words
    save_weights: Callable[[Path], None],  # writes model.safetensors and config.json
) -> None:
    """Writes the folder of a checkpoint of any task where nothing may be yet, whole or not."""
    with atomic_files.new_folder(folder) as partial:
        save_weights(partial)
        for name, value in objects.items():
            if name != HEAD:
                _write_object(partial / name, value)
        if tokenizer_json is not None:
            (partial / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
        complete(partial, objects[HEAD], claim)


def complete(partial: Path, head: Mapping[str, Any], claim: Claim) -> None:
    """Writes the claim of a checkpoint and, with digests of all it is about, checkpoint.json.

    All else must stand in the folder already.
    """
    (partial / claimed_files.CLAIM).write_bytes(claim.to_json())
    digests = claimed_files.digests(partial)
    head = {"formatVersion": FORMAT_VERSION, **head, claimed_files.KEY: digests}
    _write_object(partial / HEAD, head)


def _write_object(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    path.write_text(text, encoding="utf-8")


def folder_of(folder: Path) -> Path:
    """Returns a checkpoint's folder, also where the run folder around it is given."""
    return folder / "checkpoint" if (folder / "checkpoint").is_dir() else folder


def read_head(folder: Path, tasks: tuple[str, ...]) -> dict[str, Any]:
    """Returns what checkpoint.json says; a CheckpointError unless it is of one of some tasks.

    What the claim is about has to be what was written with it.
    """
    head = read_object(folder, HEAD)
    if head.get("formatVersion") != FORMAT_VERSION or head.get("task") not in tasks:
        own = f"for {head['task']}" if "task" in head else "of no named task"
        raise CheckpointError(
            f"'{folder}' holds a checkpoint of format {head.get('formatVersion')} {own}; expected "
            f"format {FORMAT_VERSION} for {', '.join(tasks)}. Give a checkpoint of that task, "
            "train it again, or use the version that wrote it."
        )
    claimed_files.require_same(folder, head)
    return head


@contextmanager
def damage(folder: Path) -> Iterator[None]:
    """Makes what goes wrong with a checkpoint's files a CheckpointError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OSError, ArtifactError, CertificateError) as error:
        raise CheckpointError(
            f"The checkpoint '{folder}' is damaged: {error}. Train again, or restore it."
        ) from error


def read_object(folder: Path, name: str) -> dict[str, Any]:
    """Returns the object in a JSON file of a checkpoint."""
    try:
        value = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if not folder.exists():
            raise CheckpointError(f"There is no folder '{folder}'. Check the path.") from error
        raise CheckpointError(
            f"'{folder}' has no {name}, so it is not a complete checkpoint. Give the folder that "
            "`hushdoc train` wrote; an interrupted run is continued with --resume."
        ) from error
    except (OSError, RecursionError, ValueError) as error:
        raise CheckpointError(
            f"'{folder / name}' can't be read: {error}. Train again, or restore the folder."
        ) from error
    if not isinstance(value, dict):
        raise CheckpointError(
            f"'{folder / name}' holds {type(value).__name__}, expected an object. Train again, or "
            "restore the folder."
        )
    return value
