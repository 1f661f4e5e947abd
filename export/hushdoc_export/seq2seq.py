"""The three graphs of a VT5: one of images, an encoder, and a decoder that takes a token at a time.

vision    pixel_values -> visual
encoder   input_ids, bbox, attention_mask, visual -> encoder_mask, cross.{i}.key, cross.{i}.value
decoder   token, encoder_mask, past.{i}.key|value, cross.{i}.key|value
          -> logits, present.{i}.key|value

The encoder makes the keys and values of the decoder's attention to it once, and no hidden state
leaves it. A past of length 0 begins an answer, so that one decoder serves for all tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushdoc.errors import ParityError
from hushdoc.runtime.session import Array, Session
from hushdoc_export import graph
from hushdoc_export.graph import BATCH, Free
from hushdoc_export.parity import TOLERANCE

if TYPE_CHECKING:
    from hushdoc_training.models.vt5 import VT5

VISION, ENCODER, DECODER = "vision", "encoder", "decoder"

MAX_PAST = 4096
"""Longest past of a decoder's graph, in tokens."""

_ROWS, _TOKENS, _PAST, _KEYS = 2, 12, 3, 14


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the model to trace: its inputs by their names, in order, and its outputs."""

    model: Any
    example: Mapping[str, Any]
    free: Mapping[str, Mapping[int, Free]]
    outputs: tuple[str, ...]

    def traced(self) -> Any:
        """Returns the onnx.ModelProto; see `graph.trace`, which raises."""
        return graph.trace(
            self.model, self.example, free=self.free, outputs=self.outputs, fused=False
        )


def parts(model: VT5, *, max_tokens: int) -> dict[str, Part]:
    """Returns what is to be traced, by names; VISION only where the model reads images.

    Args:
        model: In eval mode. From here on its attention is computed in several steps.
        max_tokens: Most tokens of a row, its visual ones not counted.
    """
    torch = graph.require_packages()
    from hushdoc_export import seq2seq_parts

    t5, layers = model.t5, len(model.t5.decoder.block)
    for config in (t5.config, t5.encoder.config, t5.decoder.config):
        config._attn_implementation = "eager"
    cross, past, present = (_names(kind, layers) for kind in ("cross", "past", "present"))
    words, rows = (_ROWS, _TOKENS), {0: BATCH}
    across = {0: BATCH, 1: graph.sequence(max_tokens)}
    example = {
        # Tensors of their own: what is one object is one input to the exporter.
        "input_ids": torch.ones(words, dtype=torch.int64),
        "bbox": torch.zeros(*words, 4, dtype=torch.int64),
        "attention_mask": torch.ones(words, dtype=torch.int64),
    }
    free: dict[str, Mapping[int, Free]] = dict.fromkeys(example, across)
    made: dict[str, Part] = {}
    num_visual = 0
    if model.vision is not None:
        model.vision.config._attn_implementation = "eager"
        side = model.vision.config.image_size
        pixels = torch.zeros(_ROWS, 3, side, side)
        visual = model.visual(pixels)
        num_visual = visual.shape[1]
        made[VISION] = Part(
            model=seq2seq_parts.Vision(model),
            example={"pixel_values": pixels},
            free={"pixel_values": rows},
            outputs=("visual",),
        )
        example["visual"], free["visual"] = visual, rows
    made[ENCODER] = Part(
        model=seq2seq_parts.Encoder(model),
        example=example,
        free=free,
        outputs=("encoder_mask", *cross),
    )
    keys = Free(name="keys", minimum=2, maximum=max_tokens + num_visual)
    heads, width = t5.config.num_heads, t5.config.d_kv
    made[DECODER] = Part(
        model=seq2seq_parts.Decoder(model),
        example={
            "token": torch.ones(_ROWS, 1, dtype=torch.int64),
            "encoder_mask": torch.ones(_ROWS, _KEYS, dtype=torch.int64),
            **{name: torch.zeros(_ROWS, heads, _PAST, width) for name in past},
            **{name: torch.zeros(_ROWS, heads, _KEYS, width) for name in cross},
        },
        free={
            "token": rows,
            "encoder_mask": {0: BATCH, 1: keys},
            **{n: {0: BATCH, 2: Free(name="past", minimum=0, maximum=MAX_PAST)} for n in past},
            **{n: {0: BATCH, 2: keys} for n in cross},
        },
        outputs=("logits", *present),
    )
    return made


def logits(
    sessions: Mapping[str, Session], inputs: Mapping[str, Array], tokens: Sequence[Sequence[int]]
) -> Array:
    """Returns the graphs' logits behind each of the forced tokens, [rows, tokens, vocabulary].

    `inputs` are the model's, with `pixel_values` where it reads images; `tokens` begin with what an
    answer begins with.
    """
    given = dict(inputs)
    if VISION in sessions:
        (given["visual"],) = sessions[VISION].run({"pixel_values": given.pop("pixel_values")})
    mask, *cross = sessions[ENCODER].run(given)
    shapes = sessions[DECODER].inputs
    names = [name for name in shapes if name.startswith("past.")]
    rows, heads, _, width = cross[0].shape
    remembered = [np.zeros((rows, heads, 0, width), dtype=np.float32) for _ in names]
    fixed = {
        "encoder_mask": mask,
        **dict(zip(list(sessions[ENCODER].outputs)[1:], cross, strict=True)),
    }
    found = []
    for column in np.asarray(tokens, dtype=np.int64).T:
        past = dict(zip(names, remembered, strict=True))
        answered, *remembered = sessions[DECODER].run({"token": column[:, None], **past, **fixed})
        found.append(answered)
    return np.stack(found, axis=1)


def compare(
    model: VT5,
    sessions: Mapping[str, Session],
    inputs: Mapping[str, Array],
    targets: Array,
) -> float:
    """Returns the largest difference between graphs and model over forced tokens, by its scale.

    Raises:
        ParityError: They differ by more than rounding, or an answer is not finite.
    """
    import torch

    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
    with torch.no_grad():
        expected = model(**tensors, targets=torch.from_numpy(targets)).numpy()
    start = np.full((len(targets), 1), model.t5.config.decoder_start_token_id)
    before = np.concatenate([start, targets[:, :-1]], axis=1)
    # What stands behind an answer's end is padding to the model.
    forced = np.where(before < 0, model.t5.config.pad_token_id, before)
    found = logits(sessions, inputs, forced.tolist())
    scale = max(1.0, float(np.abs(expected).max()))
    difference = float(np.abs(found - expected).max()) / scale
    if not difference <= TOLERANCE:  # written so that NaN fails
        raise ParityError(
            f"For {len(targets)} rows of forced tokens the graphs of VT5 and the model differ by "
            f"{difference:.3g}; at most {TOLERANCE:g} is rounding. Nothing was written; export "
            "again with the versions in constraints.txt."
        )
    return difference


def _names(kind: str, layers: int) -> list[str]:
    return [f"{kind}.{layer}.{what}" for layer in range(layers) for what in ("key", "value")]
