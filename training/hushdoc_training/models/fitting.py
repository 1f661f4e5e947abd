"""What must fit a model of transformers: its windows, its tokenizer, and whether it reads boxes."""

from __future__ import annotations

from typing import Any

from hushdoc.document.page import BOX_SCALE
from hushdoc.errors import CheckpointError
from hushdoc_training.models import tokenizer_files

WITHOUT_BOXES = ("bert", "roberta")
"""Architectures that read words alone."""

COUNT_FROM_PADDING = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "layoutlmv3", "lilt"}
)
"""Models that count positions as RoBERTa does: the first comes after the padding's id."""


def longest_window(config: Any) -> int:
    """Returns the most tokens of a window, the special ones included, by a transformers config."""
    if getattr(config, "max_position_embeddings", None) is None:
        raise CheckpointError(
            f"The '{config.model_type}' model's config.json has no max_position_embeddings, the "
            "most tokens that it reads at once, by which texts are cut into windows. Choose a "
            "model of an architecture that has it, such as BERT's or RoBERTa's."
        )
    before = config.pad_token_id + 1 if config.model_type in COUNT_FROM_PADDING else 0
    return int(config.max_position_embeddings) - before


def require_window(config: Any, *, max_tokens: int) -> None:
    """Raises unless a model has a position for each token of a window and each edge of a box."""
    edges = getattr(config, "max_2d_position_embeddings", None)
    if edges is not None and edges <= BOX_SCALE:
        raise CheckpointError(
            f"Boxes have coordinates from 0 to {BOX_SCALE}, and this '{config.model_type}' model "
            f"has embeddings for {edges} (max_2d_position_embeddings). Choose an encoder with at "
            f"least {BOX_SCALE + 1}."
        )
    most = longest_window(config)
    if max_tokens > most:
        raise CheckpointError(
            f"Windows of {max_tokens} tokens do not fit this '{config.model_type}' model, which "
            f"has positions for {most}. Give at most as many with --max-tokens."
        )


def require_boxes(architecture: str, *, box_level: str, word_order: str) -> None:
    """Raises unless boxes are read, and words sorted by them, only where a model reads boxes."""
    reads = architecture not in WITHOUT_BOXES
    if reads == (box_level != "none") and (reads or word_order == "given"):
        return
    raise CheckpointError(
        f"This '{architecture}' model reads {'' if reads else 'no '}boxes, and its preprocessing "
        f"has the box level '{box_level}' and the word order '{word_order}'. Expected 'none' and "
        "'given' for a model of words alone, and a box level for any other; leave --box-level and "
        "--word-order out, or restore the folder."
    )


def require_vocabulary(config: Any, tokenizer_json: str) -> None:
    """Raises unless a model has an embedding for each id of a tokenizer."""
    largest = tokenizer_files.largest_id(tokenizer_json)
    if largest >= config.vocab_size:
        raise CheckpointError(
            f"The tokenizer gives ids up to {largest} and the model has {config.vocab_size} word "
            "embeddings. Restore the tokenizer that the model was trained with."
        )


def require_tokenizer(config: Any, tokenizer_json: str) -> None:
    """Raises unless a model has an embedding for each id, and means the padding's by it."""
    require_vocabulary(config, tokenizer_json)
    padding = tokenizer_files.special_tokens(tokenizer_json).pad_id
    if config.model_type in COUNT_FROM_PADDING and config.pad_token_id != padding:
        raise CheckpointError(
            f"The tokenizer pads with the id {padding} and the model counts its positions from "
            f"ids other than {config.pad_token_id}. Restore the tokenizer that the model was "
            "trained with."
        )
