"""Probes: invented inputs that a torch model is traced with, and that its graph must answer alike.

Their shapes catch what exporters get wrong: a batch of one, sequences that are shorter and longer
than the traced example, rows that end in padding, and the longest window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc.document.page import BOX_SCALE
from hushdoc.errors import CheckpointError
from hushdoc.runtime.encoding import PIXELS, Preprocessing
from hushdoc.runtime.images import ImagePreprocessing
from hushdoc_export import graph

SHAPES = ((2, 12), (1, 3), (5, 2), (3, 33))
"""(batch, sequence); the longest window is added. The first is traced: exporters freeze dimensions
of size 1."""

Answer = npt.NDArray[np.float32]
Inputs = Mapping[str, npt.NDArray[Any]]

_SEED = 20261121


@dataclass(frozen=True, kw_only=True, eq=False)
class Traceable:
    """A torch model with what is needed to trace it and to compare the graph with it.

    Its forward takes the inputs by name, in their order, and answers with one tensor. The first
    probe is also what is traced, so no free dimension of it may be of size 1. Tokens outside
    `attention_mask` mean nothing.
    """

    model: Any
    free: Mapping[str, Mapping[int, graph.Free]]  # by input: sizes that may change
    output: str  # what the answer is called
    probes: tuple[Inputs, ...]
    per_token: bool = False  # whether the answer has a row for each token
    logits: bool = True  # whether its last axis are logits, of which the largest decides

    def traced(self, *, fused: bool = True) -> Any:
        """Returns the onnx.ModelProto of the model; see `graph.trace`, which raises."""
        torch = graph.require_packages()
        example = {
            name: torch.from_numpy(np.ascontiguousarray(value))
            for name, value in self.probes[0].items()
        }
        return graph.trace(self.model, example, free=self.free, outputs=(self.output,), fused=fused)

    def answer(self, probe: Inputs) -> Answer:
        """Returns what the torch model answers; a CheckpointError if it can't read the probe."""
        import torch

        try:
            with torch.no_grad():
                inputs = {name: torch.from_numpy(value) for name, value in probe.items()}
                answer: Answer = self.model(**inputs).float().numpy()
        except (IndexError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"The model fails on inputs of the shapes {shapes_of(probe)}: "
                f"{str(error).rstrip('.')}. Its preprocessing declares "
                "inputs of that size; declare what the model can read."
            ) from error
        return answer


def shapes_of(probe: Inputs) -> dict[str, list[int]]:
    """Returns the shape of each input, for messages."""
    return {name: list(value.shape) for name, value in probe.items()}


def of_text(
    model: Any,
    preprocessing: Preprocessing,
    *,
    vocab_size: int,
    output: str,
    boxes: bool = False,
    per_token: bool = False,
    logits: bool = True,
) -> Traceable:
    """Returns a model of tokens with its probes, their ids below `vocab_size`.

    Images are among the inputs if it reads such, boxes if it is said to.
    """
    axes = {0: graph.BATCH, 1: graph.sequence(preprocessing.max_tokens)}
    names = ("input_ids", "bbox", "attention_mask") if boxes else ("input_ids", "attention_mask")
    images = {} if preprocessing.image is None else {PIXELS: {0: graph.BATCH}}
    return Traceable(
        model=model,
        free={**dict.fromkeys(names, axes), **images},
        output=output,
        probes=tuple(_texts(preprocessing, vocab_size=vocab_size, boxes=boxes)),
        per_token=per_token,
        logits=logits,
    )


def of_images(model: Any, settings: ImagePreprocessing, *, output: str) -> Traceable:
    """Returns a classifier of images with its probes: several, alone, of noise, black and white."""
    generator = np.random.default_rng(_SEED)
    noise = _noise(2, settings, generator)
    black_and_white = np.stack([np.zeros_like(noise[0]), np.ones_like(noise[0]), noise[0]])
    return Traceable(
        model=model,
        free={PIXELS: {0: graph.BATCH}},
        output=output,
        probes=tuple(
            {PIXELS: _normalised(colours, settings)}
            for colours in (noise, noise[:1], black_and_white)
        ),
    )


def _texts(settings: Preprocessing, *, vocab_size: int, boxes: bool) -> Iterator[Inputs]:
    generator = np.random.default_rng(_SEED)
    longest = settings.max_tokens
    shapes = ((rows, min(length, longest)) for rows, length in (*SHAPES, (1, longest)))
    for rows, length in dict.fromkeys(shapes):
        mask = np.ones((rows, length), dtype=np.int64)
        for row in range(1, rows):
            mask[row, int(generator.integers(1, length + 1)) :] = 0
        ids = generator.integers(0, vocab_size, size=(rows, length), dtype=np.int64)
        ids[:, 0] = settings.cls_id
        probe = {"input_ids": np.where(mask == 1, ids, settings.pad_id)}
        if boxes:
            size = (rows, length, 2, 2)
            corners = generator.integers(0, BOX_SCALE + 1, size=size, dtype=np.int64)
            places = np.sort(corners, axis=2).reshape(rows, length, 4)
            places[:, 0] = 0
            probe["bbox"] = places * mask[..., None]
        probe["attention_mask"] = mask
        if settings.image is not None:
            probe[PIXELS] = _normalised(_noise(rows, settings.image, generator), settings.image)
        yield probe


def _noise(count: int, settings: ImagePreprocessing, generator: np.random.Generator) -> Answer:
    return generator.random((count, 3, settings.height, settings.width), dtype=np.float32)


def _normalised(colours: Answer, settings: ImagePreprocessing) -> Answer:
    mean, std = (
        np.asarray(values, dtype=np.float32)[:, None, None]
        for values in (settings.mean, settings.std)
    )
    return (colours - mean) / std
