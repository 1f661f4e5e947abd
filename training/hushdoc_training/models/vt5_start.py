"""Where a VT5 starts: T5 and DiT as published, the paper's own weights, or from nothing.

Weights are read from safetensors alone, never from a pickle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import nn

from hushdoc.document.page import BOX_SCALE
from hushdoc.errors import CheckpointError
from hushdoc_training.models import tokenizer_files
from hushdoc_training.models.layout import quiet_transformers
from hushdoc_training.models.vt5 import VT5, VT5Config

TINY = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
SMALL = {"d_model": 128, "d_kv": 32, "d_ff": 384, "num_layers": 3, "num_heads": 4}
SIZES = {"tiny": TINY, "small": SMALL}
"""Sizes of models from nothing: for tests, and for attacks that a processor can run."""

TINY_IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 16,
    "use_absolute_position_embeddings": True,
    "use_mask_token": False,
}
"""Sizes of an image encoder that is random and frozen: for tests of the way that images take."""

_PAD, _END, _UNKNOWN = "<pad>", "</s>", "<unk>"
_WORDS = ("total", "due")
_IMAGE_MODEL = "visual_embedding.image_model."
_REFERENCE = {
    "spatial_embedding.x_position_embeddings.": "boxes.x.",
    "spatial_embedding.y_position_embeddings.": "boxes.y.",
    "spatial_embedding.LayerNorm.": "boxes.norm.",
    "spatial_embedding.spatial_emb_matcher.layers.0.": "boxes.linear.",
    "visual_embedding.visual_emb_matcher.layers.0.": "projection.",
}
"""What the published code calls the parts beside T5."""

_WEIGHTS = "model.safetensors"

_HEADS = ("classifier.", "layernorm.", "lm_head.", "pooler.")
"""What a published image encoder may have behind its last layer, which nobody reads here."""


@dataclass(frozen=True, kw_only=True)
class VT5Start:
    """A model with its tokenizer.

    Attributes:
        model: Its weights, in train mode.
        tokenizer_json: Hugging Face tokenizer.
        pad_id: Token id that fills a batch and that every answer starts from.
        eos_id: Token id that ends a page's words and an answer.
        box_scale: What boxes are divided into: 1000, or 1 for the paper's weights.
    """

    model: VT5
    tokenizer_json: str
    pad_id: int
    eos_id: int
    box_scale: int = BOX_SCALE


def from_nothing(
    tokenizer_json: str,
    *,
    size: Mapping[str, int] = SMALL,
    vision: str | None = None,
) -> VT5Start:
    """Returns a model with fresh weights: word embeddings of deviation 1, as T5 draws them.

    `vision` is its image encoder, as for `pretrained`.
    """
    pad_id, eos_id = _ends(tokenizer_json)
    vocabulary = tokenizer_files.largest_id(tokenizer_json) + 1
    ids = {
        "vocab_size": vocabulary,
        "pad_token_id": pad_id,
        "eos_token_id": eos_id,
        "decoder_start_token_id": pad_id,
    }
    sizes, weights = _image_encoder(vision)
    model = VT5(VT5Config(t5={**size, **ids}, vision=sizes))
    if weights is not None:
        model.vision.load_state_dict(weights)
    return VT5Start(model=model, tokenizer_json=tokenizer_json, pad_id=pad_id, eos_id=eos_id)


def tokenizer(texts: Iterable[str], *, vocab_size: int = 4000) -> str:
    """Returns a lower-casing tokenizer like T5's, learned from texts, which must be public.

    Digits stand alone, so that any number can be written.
    """
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.BPE(unk_token=_UNKNOWN))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="always"),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[_PAD, _END, _UNKNOWN],
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    text: str = made.to_str()
    return text


def pretrained(t5: str, vision: str | None = None) -> VT5Start:
    """Returns a published T5 and DiT with fresh tables for boxes, which add nothing yet.

    `t5` and `vision` are local folders with config.json and model.safetensors, or hub ids; the
    first has a tokenizer too. The image encoder "tiny" is random; without `vision` the model reads
    words and boxes alone.
    """
    from transformers import T5ForConditionalGeneration

    language = _published(T5ForConditionalGeneration, t5)
    with _reading(t5):
        tokenizer_json = tokenizer_files.read(t5)
    sizes, weights = _image_encoder(vision)
    start = _started(language.config, sizes, tokenizer_json)
    start.model.t5.load_state_dict(language.state_dict())
    if weights is not None:
        start.model.vision.load_state_dict(weights)
    nn.init.zeros_(start.model.boxes.linear.weight)
    nn.init.zeros_(start.model.boxes.linear.bias)
    return start


def is_reference(source: str) -> bool:
    """Returns whether a folder's or hub id's weights have the names of the paper's published code.

    What can't be found has none; hub ids are of an organisation.
    """
    from safetensors import safe_open

    if "/" not in source and not Path(source).is_dir():
        return False  # such as "tiny", and T5's own ids
    tokenizer_files.require_source(source)
    try:
        path = tokenizer_files.file_of(source, _WEIGHTS)
    except OSError:
        path = None
    if path is None:
        return False
    with _reading(source), safe_open(path, framework="pt") as weights:
        names: list[str] = list(weights.keys())
    return any(name.startswith((*_REFERENCE, _IMAGE_MODEL)) for name in names)


def reference(source: str) -> VT5Start:
    """Returns the paper's own weights, in the layout of its published code and with DiT-base.

    A folder or hub id holds T5's config.json and tokenizer and one model.safetensors. Boxes
    were cut to 0 and 1 there, so `box_scale` is 1.
    """
    from safetensors.torch import load_file
    from transformers import BeitConfig, BeitModel, T5Config

    with _reading(source):
        if (path := tokenizer_files.file_of(source, _WEIGHTS)) is None:
            raise ValueError(f"it has no {_WEIGHTS}")
        weights = load_file(path)
        sizes: Any = T5Config.from_pretrained(source)
        tokenizer_json = tokenizer_files.read(source)
    image: Any = BeitConfig(**(VT5Config.base().vision or {}))
    start = _started(sizes, _sizes(image), tokenizer_json, box_scale=1)
    parts: dict[str, dict[str, torch.Tensor]] = {"vision": {}, "t5": {}, "rest": {}}
    for name, value in weights.items():
        part, own = _own_name(name)
        parts[part][own] = value
    encoder = _published(
        BeitModel,
        None,
        _HEADS,
        config=image,
        state_dict=parts["vision"],
        add_pooling_layer=False,
    )
    start.model.vision.load_state_dict(encoder.state_dict())
    language = _published(type(start.model.t5), None, config=sizes, state_dict=parts["t5"])
    start.model.t5.load_state_dict(language.state_dict())
    with _reading(source):
        found = start.model.load_state_dict(parts["rest"], strict=False)
        missing = [name for name in found.missing_keys if not name.startswith(("t5.", "vision."))]
        if missing or found.unexpected_keys:
            raise ValueError(f"missing or unknown: {', '.join([*missing, *found.unexpected_keys])}")
    return start


def _image_encoder(source: str | None) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Returns sizes and weights of an image encoder: "tiny" has fresh ones, None has neither."""
    from transformers import BeitModel

    if source is None or source == "tiny":
        return (None if source is None else TINY_IMAGE), None
    found = _published(BeitModel, source, _HEADS, add_pooling_layer=False)
    return _sizes(found.config), found.state_dict()


def _own_name(name: str) -> tuple[str, str]:
    """Returns which part a published parameter belongs to, and what it is called there."""
    for old, new in _REFERENCE.items():
        if name.startswith(old):
            return "rest", new + name.removeprefix(old)
    if name.startswith(_IMAGE_MODEL):
        return "vision", name.removeprefix(_IMAGE_MODEL)
    return "t5", name


def _started(
    language: Any,
    vision: Mapping[str, Any] | None,
    tokenizer_json: str,
    *,
    box_scale: int = BOX_SCALE,
) -> VT5Start:
    """Returns a fresh model of published sizes with a tokenizer that fits them."""
    pad_id, eos_id = _ends(tokenizer_json)
    largest = tokenizer_files.largest_id(tokenizer_json)
    expected = (pad_id, eos_id, pad_id)
    found = (language.pad_token_id, language.eos_token_id, language.decoder_start_token_id)
    if found != expected or largest >= language.vocab_size:
        raise CheckpointError(
            f"The model pads, ends and starts an answer by the ids {found} of "
            f"{language.vocab_size}, and its tokenizer by {expected}, with ids up to {largest}. "
            "Restore the tokenizer that the model was trained with."
        )
    shared = ("decoder_start_token_id", "tie_word_embeddings")
    sizes = {**_sizes(language), **{name: getattr(language, name) for name in shared}}
    config = VT5Config(t5=sizes, vision=vision)
    return VT5Start(
        model=VT5(config),
        tokenizer_json=tokenizer_json,
        pad_id=pad_id,
        eos_id=eos_id,
        box_scale=box_scale,
    )


def _sizes(config: Any) -> dict[str, Any]:
    """Returns what a kind of model has settings of its own for."""
    own = (name for name in type(config).__annotations__ if not name.startswith("_"))
    return {name: getattr(config, name) for name in own}


def _published(kind: Any, source: str | None, unread: tuple[str, ...] = (), **settings: Any) -> Any:
    """Returns a model of transformers whose every weight was there, with no other but `unread`."""
    if source is not None:
        tokenizer_files.require_source(source)
    with _reading(source or "the folder"), quiet_transformers():
        model, report = kind.from_pretrained(
            source, use_safetensors=True, output_loading_info=True, **settings
        )
        wrong = sorted(str(key) for key in (*report["missing_keys"], *report["mismatched_keys"]))
        if wrong:
            raise ValueError(f"missing or of another size: {', '.join(wrong[:5])}")
        prefix = f"{kind.base_model_prefix}."
        more = (name.removeprefix(prefix) for name in report["unexpected_keys"])
        if unknown := sorted(name for name in more if not name.startswith(unread)):
            raise ValueError(f"weights of another model beside it: {', '.join(unknown[:5])}")
    return model.float()


@contextmanager
def _reading(source: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise CheckpointError(
            f"'{source}' can't be loaded as a part of VT5: {why}. Give a local folder with "
            "config.json, model.safetensors and tokenizer.json, or a hub id while online; weights "
            "in a pickle (.bin, .pt) are not read, convert them to safetensors first."
        ) from error


def _ends(tokenizer_json: str) -> tuple[int, int]:
    """Returns the ids of padding and end of a tokenizer under which words can be cut apart."""
    made = Tokenizer.from_str(tokenizer_json)
    pad_id, eos_id = made.token_to_id(_PAD), made.token_to_id(_END)
    if pad_id is None or eos_id is None:
        raise CheckpointError(
            f"The tokenizer lacks {_PAD} or {_END}, which fill a batch and end an answer. Restore "
            "T5's tokenizer.json."
        )
    words = [made.encode(word, add_special_tokens=False).ids for word in _WORDS]
    together = made.decode([token for ids in words for token in ids])
    if together != " ".join(_WORDS):
        raise CheckpointError(
            f"The tokenizer reads the words {', '.join(_WORDS)}, each by itself, as "
            f"{together!r}; expected them with a blank between. Restore T5's tokenizer.json, whose "
            'Metaspace has the prepend_scheme "always".'
        )
    return int(pad_id), int(eos_id)
