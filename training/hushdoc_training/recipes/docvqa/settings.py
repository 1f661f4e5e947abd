"""Settings: what training on questions does where nobody says otherwise, by architecture.

A pointer's are those that were seen to learn on invented providers (docs/results.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What an architecture starts from, how much it reads at once, and how it learns."""

    start: str
    max_tokens: int  # of a window, of VT5 with its question
    batch_size: int  # windows, of VT5 rows, in a step without privacy
    trained: str = "biases"  # with privacy
    learning_rate: float = 3e-4


DEFAULTS: Mapping[str, Defaults] = {
    "pointer": Defaults(start="minilm", max_tokens=384, batch_size=4),
    "vt5": Defaults(start="small", max_tokens=256, batch_size=16),
}


def told(name: str) -> str:
    """Returns the default of a setting in words: of a pointer, and of a VT5 where it differs."""
    pointer, vt5 = (getattr(DEFAULTS[kind], name) for kind in ("pointer", "vt5"))
    return f"{pointer}" if pointer == vt5 else f"{pointer}, of a VT5 {vt5}"
