"""Checkpoints of images of pages: the folder that diffusion or selection hands to export.

checkpoint.json     format version, task, method
prompts.jsonl       what each page was made from: class, layout and seed, or public page and copy
images/             the PNG file of each page, page-00000.png
model.safetensors   the weights that drew them, if a model did, which are not released
claim.json          what training says about privacy; export seals and signs it
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushdoc.certificate.claim import Claim
from hushdoc.synthetic_documents import DRAWN, MOVED
from hushdoc.system import atomic_files
from hushdoc_training import checkpoint
from hushdoc_training.checkpoint import damage
from hushdoc_training.synthetic_checkpoint import MOST_DOCUMENTS, TASK

VERSION = 1
"""Of how a page follows from a prompt, and a model or public pages."""

MOST_PAGES = MOST_DOCUMENTS

_PROMPTS, _IMAGES = "prompts.jsonl", "images"

KEYS = {DRAWN: {"label", "layout", "seed"}, MOVED: {"label", "page", "copy"}}
"""Of what a page was drawn from, by method."""


@dataclass(frozen=True, kw_only=True)
class DrawnCheckpoint:
    """Images of pages.

    Attributes:
        folder: Where it stands.
        method: DRAWN or MOVED.
        prompts: What each was drawn from, "label", "layout" and "seed"; or, of those that were
            moved, "label", "page" and "copy".
        claim: What training or votes say about privacy.
    """

    folder: Path
    method: str
    prompts: tuple[Mapping[str, Any], ...]
    claim: Claim

    def image(self, number: int) -> bytes:
        """Returns the PNG file of a page."""
        return image_path(self.folder / _IMAGES, number).read_bytes()


def id_of(number: int) -> str:
    """Returns the id of a page's document."""
    return f"page-{number:05d}"


def image_path(folder: Path, number: int) -> Path:
    """Returns where the image of a page stands."""
    return folder / f"{id_of(number)}.png"


def save(
    folder: Path,
    *,
    method: str = DRAWN,
    prompts: Sequence[Mapping[str, Any]],
    images: Path,
    claim: Claim,
    save_weights: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Writes a checkpoint of a folder of images where nothing may be yet, whole or not at all."""
    with atomic_files.new_folder(folder) as partial:
        (partial / _PROMPTS).write_text("".join(json.dumps(one) + "\n" for one in prompts))
        save_weights(partial)
        (partial / _IMAGES).mkdir()
        for number in range(len(prompts)):
            shutil.copyfile(image_path(images, number), image_path(partial / _IMAGES, number))
        checkpoint.complete(partial, {"task": TASK, "method": method}, claim)


def load(folder: Path) -> DrawnCheckpoint:
    """Reads a checkpoint folder, or the run folder around it; a CheckpointError refuses others."""
    folder = checkpoint.folder_of(folder)
    head = checkpoint.read_head(folder, (TASK,))
    with damage(folder):
        lines = (folder / _PROMPTS).read_text(encoding="utf-8").splitlines()
        prompts = tuple(json.loads(line) for line in lines)
        method = head.get("method")
        if method not in KEYS or not 0 < len(prompts) <= MOST_PAGES:
            raise ValueError(f"its method is {method}, of {len(prompts)} pages")
        if any(not isinstance(one, dict) or set(one) != KEYS[method] for one in prompts):
            raise ValueError(f"a prompt has other keys than {', '.join(sorted(KEYS[method]))}")
        for number in range(len(prompts)):
            if not image_path(folder / _IMAGES, number).is_file():
                raise ValueError(f"the image of {id_of(number)} is missing")
        claim = Claim.from_json((folder / "claim.json").read_bytes())
    return DrawnCheckpoint(folder=folder, method=method, prompts=prompts, claim=claim)


def holds_pages(folder: Path) -> bool:
    """Returns whether a folder, or the checkpoint in it, is of images of pages."""
    return (checkpoint.folder_of(folder) / _PROMPTS).is_file()
