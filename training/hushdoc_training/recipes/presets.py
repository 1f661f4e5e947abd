"""Presets: settings that papers used, to reproduce their figures with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PaperSettings:
    """A paper's own settings of private training, for reproducing its figures."""

    sampling_rate: float
    steps: int
    clipping_norm: float
    learning_rate: float
    dropout: float
    max_tokens: int


PRIED_KIE_FUNSD = PaperSettings(
    sampling_rate=1 / 7,
    steps=350,
    clipping_norm=0.1,
    learning_rate=5e-4,
    dropout=0.1,
    max_tokens=128,
)
"""PrIeD-KIE's own settings for FUNSD (appendix H; 50 epochs, full fine-tuning, no decay)."""
