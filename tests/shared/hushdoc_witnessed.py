"""What a witness looks at in tests and in `make audit`: small commands, and a start for them."""

from __future__ import annotations

import string
from pathlib import Path

import torch

from hushdoc.labels import LabelSet
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.runtime.questions import VT5_PROMPT, Asking
from hushdoc_training import checkpoint, docvqa_checkpoint
from hushdoc_training.models import layout
from hushdoc_training.models import vt5_start as vt5_starts
from hushdoc_training.models.pointer import pointer_on
from hushdoc_training.privacy import claims
from hushdoc_training.recipes.synthesis import diffusion_start as diffusion_starts

LABELS = LabelSet(fields=("answer", "question"))
WINDOW = 24


def public_start(folder: Path, *, architecture: str = "layoutlm", images: bool = False) -> Path:
    """Writes a checkpoint of a tiny encoder with random weights, which saw no document."""
    classifier, tokenizer_json = _tiny(architecture)
    reads_boxes = classifier.reads_boxes
    checkpoint.save(
        folder / "checkpoint",
        architecture=architecture,
        labels=LABELS,
        preprocessing=Preprocessing(
            max_tokens=WINDOW,
            overlap=WINDOW // 4,
            box_level="word" if reads_boxes else "none",
            cls_id=2,
            sep_id=3,
            pad_id=0,
            image=layout.image_preprocessing(classifier) if images else None,
        ),
        claim=claims.public((), training={}),
        tokenizer_json=tokenizer_json,
        save_weights=classifier.save,
    )
    return folder


def words_start(folder: Path) -> Path:
    """Writes a checkpoint of a tiny BERT, which reads words alone."""
    return public_start(folder, architecture="bert")


def layoutlmv3_start(folder: Path) -> Path:
    """Writes a checkpoint of a tiny LayoutLMv3 that reads no image."""
    return public_start(folder, architecture="layoutlmv3")


def images_start(folder: Path) -> Path:
    """Writes a checkpoint of a tiny LayoutLMv3 that reads the images of pages."""
    return public_start(folder, architecture="layoutlmv3", images=True)


def pointer_start(folder: Path) -> Path:
    """Writes a checkpoint of a tiny pointer with random weights, which saw no document."""
    classifier, tokenizer_json = _tiny()
    docvqa_checkpoint.save(
        folder / "checkpoint",
        asking=Asking(
            kind="pointer",
            max_tokens=WINDOW,
            overlap=2,
            max_question=8,
            cls_id=2,
            sep_id=3,
            pad_id=0,
        ),
        claim=claims.public((), training={}),
        tokenizer_json=tokenizer_json,
        save_weights=pointer_on(classifier).save,
    )
    return folder


def vt5_start(folder: Path) -> Path:
    """Writes a checkpoint of a tiny VT5 with random weights, which saw no document."""
    torch.manual_seed(3)
    tokenizer_json = vt5_starts.tokenizer(list(string.ascii_lowercase) * 2)
    made = vt5_starts.from_nothing(tokenizer_json, size=vt5_starts.TINY)
    docvqa_checkpoint.save(
        folder / "checkpoint",
        asking=Asking(
            kind="vt5",
            prompt=VT5_PROMPT,
            lowercase=True,
            max_tokens=2 * WINDOW,
            overlap=2,
            max_question=30,
            eos_id=made.eos_id,
            pad_id=made.pad_id,
        ),
        claim=claims.public((), training={}),
        tokenizer_json=made.tokenizer_json,
        save_weights=made.model.save,
    )
    return folder


def _tiny(architecture: str = "layoutlm") -> tuple[layout.TokenClassifier, str]:
    """Returns a tiny encoder with random weights, and a tokenizer of letters."""
    torch.manual_seed(3)
    tokenizer_json = layout.wordpiece(list(string.ascii_lowercase) * 2)
    made = layout._class(architecture)
    of_images = {"coordinate_size": 8, "shape_size": 8, "input_size": 16, "patch_size": 8}
    of_images |= {"initializer_range": 0.1}  # so that answers depend on the image
    config = made.config_class(
        vocab_size=100,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=WINDOW + (architecture == layout.READS_IMAGES),
        max_2d_position_embeddings=1024,
        num_labels=len(LABELS.tags),
        pad_token_id=0,
        **(of_images if architecture == layout.READS_IMAGES else {}),
    )
    return layout.TokenClassifier(made(config), architecture), tokenizer_json


def kie(start: Path, *further: str) -> tuple[str, ...]:
    """Returns a command that trains a tiny model in a few steps."""
    few = ("--steps", "2", "--expected-records", "2", "--sampling-rate", "0.3", "--quiet")
    return ("train", "kie", "--start", str(start), "--trained", "encoder", *few, *further)


def docvqa(start: Path, *further: str) -> tuple[str, ...]:
    """Returns a command that trains a tiny pointer or VT5 in a few steps."""
    few = ("--steps", "2", "--expected-records", "2", "--sampling-rate", "0.3", "--quiet")
    how = ("--clipping-norm", "0.01", "--trained", "encoder")
    return ("train", "docvqa", "--start", str(start), *how, *few, *further)


def images(*further: str) -> tuple[str, ...]:
    """Returns a command that trains a small network on images in a few steps."""
    few = ("--steps", "2", "--expected-records", "2", "--sampling-rate", "0.3", "--quiet")
    return ("train", "images", "--clipping-norm", "0.01", *few, *further)


def diffusion_start(folder: Path, *, trained: str = "all") -> Path:
    """Writes a tiny diffusion model with random weights, which saw no page."""
    condition = {"all": "class", "denoisers": "none", "layouts": "layout"}[trained]
    classes = ("a", "b") if condition == "class" else ()
    codec, denoiser = diffusion_starts.built("tiny", condition=condition, classes=classes, seed=3)
    start = diffusion_starts.DiffusionStart(
        codec=codec,
        denoiser=denoiser,
        classes=classes,
        claim=claims.public((), training={}),
        name="tiny",
    )
    diffusion_starts.save(folder / "checkpoint", start)
    return folder


def diffusion(start: Path, *further: str) -> tuple[str, ...]:
    """Returns a command that trains a tiny diffusion model in two steps and draws a page."""
    few = ("--steps", "2", "--expected-records", "2", "--sampling-rate", "0.3", "--quiet")
    drawn = (
        *("--layout-documents", "2", "--pages", "1"),
        *("--sampler", "ddim", "--sampling-steps", "1"),
    )
    how = ("--start", str(start), "--label", "a", "--label", "b", "--multiplicity", "2")
    return ("synthesize", "diffusion", *how, *few, *drawn, *further)


def federated(start: Path, *further: str) -> tuple[str, ...]:
    """Returns a command by which two clients train it in two rounds."""
    few = ("--rounds", "2", "--expected-records", "2", "--sampling-rate", "0.3", "--quiet")
    plan = ("--clients", "2", "--accountant", "rdp", *few, *further)
    return ("federated", "simulate", "--start", str(start), "--trained", "encoder", *plan)


def federated_docvqa(start: Path, *further: str) -> tuple[str, ...]:
    """Returns a command by which two clients train a pointer in two rounds."""
    return federated(start, "--task", "docvqa", *further)
