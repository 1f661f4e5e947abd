"""Encoders as they are published, tiny and with random weights, in folders of transformers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.convert_slow_tokenizer import import_protobuf

from hushdoc_training.models import layout

ROBERTA = ("<s>", "<pad>", "</s>", "<unk>")
"""RoBERTa's first special tokens, in the order of their ids; the last of all is <mask>."""

IMAGES = {"coordinate_size": 8, "shape_size": 8, "input_size": 32, "patch_size": 8}


def byte_level(texts: Iterable[str]) -> Tokenizer:
    """Returns a tokenizer as RoBERTa's tokenizer.json has it, which is made for whole texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[*ROBERTA, "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(texts)], trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    return tokenizer


def unigram(pieces: Iterable[str]) -> Tokenizer:
    """Returns a tokenizer as XLM-R's tokenizer.json has it; a piece of "▁" begins a word."""
    scored = [(piece, -float(number)) for number, piece in enumerate(("▁", *pieces), start=1)]
    special = [(name, 0.0) for name in ROBERTA]
    tokenizer = Tokenizer(models.Unigram([*special, *scored, ("<mask>", 0.0)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([*ROBERTA, "<mask>"])
    return tokenizer


def sentencepiece_model(pieces: Iterable[str]) -> bytes:
    """Returns sentencepiece.bpe.model with these pieces, as layoutlmv3-base-chinese has it."""
    made = import_protobuf().ModelProto()  # a second definition of it would be refused
    special = (("<unk>", 2), ("<s>", 3), ("</s>", 3))
    for number, (piece, kind) in enumerate([*special, *((one, 1) for one in ("▁", *pieces))]):
        added = made.pieces.add()
        added.piece, added.score, added.type = piece, -float(max(0, number - 2)), kind
    made.trainer_spec.model_type, made.trainer_spec.unk_id = 1, 0
    return made.SerializeToString()


def publish(folder: Path, architecture: str, tokenizer: Tokenizer | bytes, **settings: Any) -> Path:
    """Writes an encoder with its tokenizer.json, or the content of its SentencePiece model.

    RoBERTa's kind of special tokens is assumed, but for BERT, whose are those of WordPiece.
    """
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 800,
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 130,
        "initializer_range": 0.05,
        "pad_token_id": 0 if architecture in ("bert", "layoutlm") else 1,
    }
    model = layout._class(architecture)
    model(model.config_class(**{**sizes, **settings})).save_pretrained(folder)
    if isinstance(tokenizer, bytes):
        (folder / "sentencepiece.bpe.model").write_bytes(tokenizer)
    else:
        tokenizer.save(str(folder / "tokenizer.json"))
    return folder
