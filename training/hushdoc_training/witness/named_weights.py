"""Which tensors of a file a word of `--trained` names, written down a second time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch

_LAYER = re.compile(r"\.encoder\.layer\.(\d+)\.")


def unnamed(word: str, changed: Iterable[str], tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """Returns which of the changed tensors a word does not name."""
    kind, _, number = word.partition(":")
    layers = {name: int(found[1]) for name in tensors if (found := _LAYER.search(name))}
    top = max(layers.values(), default=0) + 1
    named = {
        "all": lambda name: True,
        "encoder": lambda name: "word_embeddings" not in name,
        "top": lambda name: layers.get(name, -1) >= top - int(number),
        "biases": lambda name: tensors[name].dim() == 1,
        "output": lambda name: False,
        "lora": lambda name: name in layers and tensors[name].dim() == 2,
    }[kind]
    return [name for name in changed if not (name.startswith("classifier.") or named(name))]
