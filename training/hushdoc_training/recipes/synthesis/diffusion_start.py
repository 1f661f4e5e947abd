"""Starts of private diffusion: an autoencoder and a denoiser that learned from public pages alone.

checkpoint.json      format version, task, sizes, and the classes that the denoiser knows
model.safetensors    weights of both
claim.json           what was read
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from hushdoc.certificate.claim import Claim
from hushdoc.system import atomic_files
from hushdoc_training import checkpoint
from hushdoc_training.checkpoint import damage
from hushdoc_training.models.autoencoder import (
    KL_F4,
    KL_F8,
    KL_LIGHT,
    KL_SMALL,
    KL_TINY,
    AutoencoderPreset,
    PageAutoencoder,
)
from hushdoc_training.models.denoiser import (
    UNET_F4,
    UNET_F8,
    UNET_LIGHT,
    UNET_SMALL,
    UNET_TINY,
    Denoiser,
    DenoiserPreset,
)

TASK = "page-diffusion"

SIZES: dict[str, tuple[AutoencoderPreset, DenoiserPreset]] = {
    "tiny": (KL_TINY, UNET_TINY),
    "light": (KL_LIGHT, UNET_LIGHT),
    "small": (KL_SMALL, UNET_SMALL),
    "f4": (KL_F4, UNET_F4),
    "f8": (KL_F8, UNET_F8),
}
"""Presets by name: for tests, two for processors, and the two of DP-DocLDM."""

CONDITIONS = ("none", "class", "layout", "layout+class")
"""What a denoiser reads beside a latent."""

_WEIGHTS = "model.safetensors"

Preset = TypeVar("Preset", AutoencoderPreset, DenoiserPreset)


@dataclass(frozen=True, kw_only=True)
class DiffusionStart:
    """A diffusion model of pages.

    Attributes:
        codec: Turns pages into latents and back; frozen in private training.
        denoiser: Finds noise in latents.
        classes: The names of the classes that the denoiser knows, in the order of their numbers.
        claim: What is known of what both have learned from.
        name: What certificates call it.
    """

    codec: PageAutoencoder
    denoiser: Denoiser
    classes: tuple[str, ...]
    claim: Claim
    name: str

    @property
    def condition(self) -> str:
        """What the denoiser reads beside a latent, one of CONDITIONS."""
        read = ["layout"] * self.denoiser.preset.layout + ["class"] * bool(self.classes)
        return "+".join(read) or "none"

    @property
    def both(self) -> nn.ModuleDict:
        """Both models as one."""
        return nn.ModuleDict({"codec": self.codec, "denoiser": self.denoiser})


def built(
    size: str, *, condition: str, classes: tuple[str, ...], seed: int
) -> tuple[PageAutoencoder, Denoiser]:
    """Returns models with random weights."""
    kl, unet = SIZES[size]
    torch.manual_seed(seed)
    read = classes if "class" in condition else ()
    preset = replace(unet, layout="layout" in condition)
    return PageAutoencoder(kl), Denoiser(preset, classes=len(read))


def with_classes(start: DiffusionStart, classes: tuple[str, ...], *, seed: int) -> Denoiser:
    """Returns the start's denoiser for other classes: a class of the same name keeps its row.

    The rows of other classes are drawn, as those of a new model are. Without classes it reads every
    latent as the start reads one of no class, whose row is added to the time's.
    """
    torch.manual_seed(seed)
    made = Denoiser(start.denoiser.preset, classes=len(classes))
    weights = {name: value.clone() for name, value in start.denoiser.state_dict().items()}
    table = "inner.class_embedding.weight"
    known = weights.pop(table, None)
    if classes:
        rows = made.state_dict()[table].clone()
        if known is not None:
            rows[len(classes)] = known[len(start.classes)]
            for number, name in enumerate(classes):
                if name in start.classes:
                    rows[number] = known[start.classes.index(name)]
        weights[table] = rows
    elif known is not None:
        weights["inner.time_embedding.linear_2.bias"] += known[-1]
    made.load_state_dict(weights)
    return made


def save(folder: Path, start: DiffusionStart) -> None:
    """Writes a start where nothing may be yet, whole or not at all."""
    with atomic_files.new_folder(folder) as partial:
        weights_of(start.codec, start.denoiser)(partial)
        head = {
            "task": TASK,
            "autoencoder": asdict(start.codec.preset),
            "denoiser": asdict(start.denoiser.preset),
            "classes": list(start.classes),
        }
        checkpoint.complete(partial, head, start.claim)


def weights_of(codec: PageAutoencoder, denoiser: Denoiser) -> Callable[[Path], None]:
    """Returns what writes the weights of both into a folder."""
    both = nn.ModuleDict({"codec": codec, "denoiser": denoiser})
    return lambda folder: save_file(both.state_dict(), folder / _WEIGHTS)


def load(folder: Path) -> DiffusionStart:
    """Reads a start, or the run folder around it; a CheckpointError refuses others."""
    name = folder.resolve().name
    folder = checkpoint.folder_of(folder)
    head = checkpoint.read_head(folder, (TASK,))
    with damage(folder):
        classes = tuple(str(name) for name in head["classes"])
        codec = PageAutoencoder(_preset(AutoencoderPreset, head["autoencoder"]))
        denoiser = Denoiser(_preset(DenoiserPreset, head["denoiser"]), classes=len(classes))
        claim = Claim.from_json((folder / "claim.json").read_bytes())
        made = DiffusionStart(
            codec=codec, denoiser=denoiser, classes=classes, claim=claim, name=name
        )
        try:
            made.both.load_state_dict(load_file(folder / _WEIGHTS))
        except (RuntimeError, SafetensorError) as error:
            raise ValueError(f"'{_WEIGHTS}' does not fit its sizes: {error}") from error
    return made


def _preset(kind: type[Preset], found: Any) -> Preset:
    """Returns a preset of numbers as `save` writes them; a ValueError for anything else."""
    known = {name: type(value) for name, value in asdict(_EXAMPLES[kind]).items()}
    if not isinstance(found, dict) or set(found) != set(known):
        raise ValueError(f"sizes are {sorted(found)}; expected {sorted(known)}")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}
    if any(type(value) is not known[name] for name, value in values.items()):
        raise ValueError("a size is of another type")
    return kind(**values)


_EXAMPLES: dict[type, Any] = {AutoencoderPreset: KL_TINY, DenoiserPreset: UNET_TINY}
