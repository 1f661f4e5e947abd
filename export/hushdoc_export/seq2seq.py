"""The three graphs of a VT5, which `hushdoc.runtime.writing` describes: traced, and held to it.

Of forced tokens the graphs give the model's logits; freely they write the tokens that transformers'
own search writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hushdoc.errors import ParityError
from hushdoc.runtime.encoding import PIXELS
from hushdoc.runtime.generation import AHEAD
from hushdoc.runtime.session import Array, Session
from hushdoc.runtime.writing import DECODER, ENCODER, VISION
from hushdoc_export import attention, graph
from hushdoc_export.graph import BATCH, Free
from hushdoc_export.parity import EXPORT_AGAIN, TOLERANCE

if TYPE_CHECKING:
    from hushdoc_training.models.vt5 import VT5

MAX_PAST = 4096
"""Longest past of a decoder's graph, in tokens."""

_ROWS, _TOKENS, _PAST, _AHEAD, _KEYS = 2, 12, 3, 5, 14


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the model to trace: its inputs by their names, in order, and its outputs."""

    model: Any
    example: Mapping[str, Any]
    free: Mapping[str, Mapping[int, Free]]
    outputs: tuple[str, ...]
    by_head: Any = None  # settings of the model whose attention is traced head by head

    def traced(self, *, fused: bool) -> Any:
        """Returns the onnx.ModelProto; see `graph.trace`, which raises."""
        chosen = self.by_head
        with nullcontext() if chosen is None else attention.computed_by_head(chosen):
            return graph.trace(
                self.model, self.example, free=self.free, outputs=self.outputs, fused=fused
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
            by_head=model.vision.config,
        )
        example["visual"], free["visual"] = visual, rows
    made[ENCODER] = Part(
        model=seq2seq_parts.Encoder(model),
        example=example,
        free=free,
        outputs=("encoder_mask", *cross),
        by_head=t5.encoder.config,
    )
    keys = Free(name="keys", minimum=2, maximum=max_tokens + num_visual)
    heads, width = t5.config.num_heads, t5.config.d_kv
    # Keys lie as a single token's scores are computed from them.
    lying = {"key": (_ROWS, heads, width, _KEYS), "value": (_ROWS, heads, _KEYS, width)}
    shapes = {name: lying[name.rpartition(".")[2]] for name in cross}
    made[DECODER] = Part(
        model=seq2seq_parts.Decoder(model),
        example={
            "tokens": torch.ones(_ROWS, _AHEAD, dtype=torch.int64),
            "encoder_mask": torch.ones(_ROWS, _KEYS, dtype=torch.int64),
            **{name: torch.zeros(_ROWS, heads, _PAST, width) for name in past},
            **{name: torch.zeros(*shapes[name]) for name in cross},
        },
        free={
            "tokens": {0: BATCH, 1: Free(name="tokens", minimum=1, maximum=MAX_PAST)},
            "encoder_mask": {0: BATCH, 1: keys},
            **{n: {0: BATCH, 2: Free(name="past", minimum=0, maximum=MAX_PAST)} for n in past},
            **{n: {0: BATCH, shapes[n].index(_KEYS): keys} for n in cross},
        },
        outputs=("logits", *present),
    )
    return made


def logits(
    sessions: Mapping[str, Session], inputs: Mapping[str, Array], tokens: Sequence[Sequence[int]]
) -> Array:
    """Returns the graphs' logits behind each of the forced tokens, [rows, tokens, vocabulary].

    `inputs` are the model's, with `pixel_values` where it reads images; `tokens` begin with what an
    answer begins with. The decoder is given by turns one of them and as many as it ever is at once.
    """
    given = dict(inputs)
    if VISION in sessions:
        (given["visual"],) = sessions[VISION].run({PIXELS: given.pop(PIXELS)})
    mask, *cross = sessions[ENCODER].run(given)
    shapes = sessions[DECODER].inputs
    names = [name for name in shapes if name.startswith("past.")]
    rows, heads, _, width = cross[1].shape
    remembered = [np.zeros((rows, heads, 0, width), dtype=np.float32) for _ in names]
    fixed = {
        "encoder_mask": mask,
        **dict(zip(list(sessions[ENCODER].outputs)[1:], cross, strict=True)),
    }
    found = []
    given_tokens = np.asarray(tokens, dtype=np.int64)
    turns = [place for place in range(1, given_tokens.shape[1]) if place % (AHEAD + 2) < 2]
    for some in np.split(given_tokens, turns, axis=1):
        past = dict(zip(names, remembered, strict=True))
        answered, *remembered = sessions[DECODER].run({"tokens": some, **past, **fixed})
        found.append(answered)
    return np.concatenate(found, axis=1)


def compare(
    model: VT5,
    sessions: Mapping[str, Session],
    inputs: Mapping[str, Array],
    targets: Array,
    *,
    tolerance: float | None = TOLERANCE,
) -> float:
    """Returns the largest difference between graphs and model over forced tokens, by its scale.

    Raises:
        ParityError: They differ by more than a tolerance, or an answer is not finite.
    """
    expected = _forced(model, inputs, targets)
    start = np.full((len(targets), 1), model.t5.config.decoder_start_token_id)
    before = np.concatenate([start, targets[:, :-1]], axis=1)
    # What stands behind an answer's end is padding to the model.
    forced = np.where(before < 0, model.t5.config.pad_token_id, before)
    found = logits(sessions, inputs, forced.tolist())
    difference = float(np.abs(found - expected).max()) / _scale(expected)
    limit = float(np.finfo(np.float32).max) if tolerance is None else tolerance
    if not difference <= limit:  # written so that NaN fails
        raise ParityError(
            f"For {len(targets)} rows of forced tokens the graphs of VT5 and the model differ by "
            f"{difference:.3g}; at most {limit:g} is rounding. {EXPORT_AGAIN}"
        )
    return difference


def generated(model: VT5, inputs: Mapping[str, Array], *, max_answer: int) -> list[int]:
    """Returns the tokens that transformers' greedy search writes for one row, without their end."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    given = {name: torch.from_numpy(value) for name, value in inputs.items()}
    with torch.no_grad():
        pixels = given.pop(PIXELS, None)
        visual = None if pixels is None else model.visual(pixels)
        states, mask = model.encode(**given, visual=visual)
        tokens = model.t5.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            max_new_tokens=max_answer,
            do_sample=False,
            num_beams=1,
        )
    _, *found = tokens[0].tolist()
    end = model.t5.config.eos_token_id
    return found[: found.index(end)] if end in found else found


def require_same_tokens(
    model: VT5, inputs: Mapping[str, Array], expected: Sequence[int], found: Sequence[int]
) -> None:
    """Raises ParityError where a search of our own wrote other tokens for a row than the model's.

    Neither has an end. Where the model's logits of both next tokens are equal but for rounding,
    either may follow.
    """
    if list(expected) == list(found):
        return
    end = model.t5.config.eos_token_id
    both = [*expected, end], [*found, end]
    place = next(at for at, pair in enumerate(zip(*both, strict=False)) if pair[0] != pair[1])
    own = _forced(model, inputs, np.asarray([both[0][: place + 1]]))[0, place]
    short = float(own.max() - own[both[1][place]]) / _scale(own)
    if short > TOLERANCE:
        raise ParityError(
            f"The graphs of VT5 write the tokens {list(found)} where transformers writes "
            f"{list(expected)}. {EXPORT_AGAIN}"
        )


def _forced(model: VT5, inputs: Mapping[str, Array], targets: Array) -> Array:
    """Returns the model's logits before each token of answers, [rows, tokens, vocabulary]."""
    import torch

    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
    with torch.no_grad():
        found: Array = model(**tensors, targets=torch.from_numpy(targets)).numpy()
    return found


def _scale(logits: Array) -> float:
    return max(1.0, float(np.abs(logits).max()))


def _names(kind: str, layers: int) -> list[str]:
    return [f"{kind}.{layer}.{what}" for layer in range(layers) for what in ("key", "value")]
