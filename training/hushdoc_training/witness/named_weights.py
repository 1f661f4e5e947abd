"""Which tensors of a file a word of `--trained` names, written down a second time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch

_LAYER = re.compile(r"coder\.(?:layer|block)\.(\d+)\.")
_TABLES = ("word_embeddings", "t5.shared")
_ALWAYS = ("classifier.", "reader.", "t5.decoder.final_layer_norm.")
"""Output layers, a pointer's reader, and what VT5 trains in the place of one."""


def unnamed(word: str, changed: Iterable[str], tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """Returns which of the changed tensors a word does not name."""
    kind, _, number = word.partition(":")
    layers = {name: int(found[1]) for name in tensors if (found := _LAYER.search(name))}
    top = max(layers.values(), default=0) + 1
    named = {
        "all": lambda name: True,
        "encoder": lambda name: not any(table in name for table in _TABLES),
        "top": lambda name: layers.get(name, -1) >= top - int(number),
        "biases": lambda name: tensors[name].dim() == 1,
        "output": lambda name: False,
        "lora": lambda name: name in layers and tensors[name].dim() == 2,
    }[kind]
    return [name for name in changed if not (name.startswith(_ALWAYS) or named(name))]
