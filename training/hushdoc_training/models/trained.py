"""Which of a model's parameters private training changes, in a word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

WORDS = ("all", "encoder", "top:N", "biases", "output", "lora:R")
"""All parameters; all but the word embeddings, the largest table, of which a record touches a few
rows while noise falls on every one; the last N layers and the output layer; biases, norms and
output layer (BitFit, Ben Zaken et al. 2022; with privacy, Bu et al. 2022); the output layer alone;
or it and a product of two factors of rank R beside every linear layer of the encoder (LoRA, Hu et
al. 2022), which is added to that layer's weights in the end."""

_NUMBERED = re.compile(r"(top|lora):([1-9][0-9]{0,4})")


@dataclass(frozen=True)
class Trained:
    """What is trained: a word's kind, and the number behind it (layers or rank), 0 without one."""

    kind: str
    number: int = 0

    @classmethod
    def of(cls, word: str) -> Self:
        """Reads a word; a ValueError says which there are."""
        if word in WORDS and ":" not in word:
            return cls(word)
        if found := _NUMBERED.fullmatch(word):
            return cls(found[1], int(found[2]))
        raise ValueError(
            f"trained is '{word}'; expected one of {', '.join(WORDS)}, with a whole number of "
            "layers N or rank R."
        )
