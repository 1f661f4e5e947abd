"""Settings of training that are not its privacy: rates, passes, what is trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PlainSettings:
    """Training without privacy, for public documents or as a baseline.

    Attributes:
        epochs: Passes over the documents.
        batch_size: Windows in one step.
        learning_rate: Peak of AdamW's rate, after 6 % warm-up and before linear decay.
        segment_shuffling: Share of pages whose segments are put into another order, so that the
            model leans on boxes rather than on the generator's reading order.
        token_noise: Up to this share of a window's tokens is replaced by others of the batch, so
            that the model does not lean on words alone.
        label_smoothing: Probability spread over the other tags; keeps a model that is trained
            further on other documents from being sure of what it gets wrong there.
        seed: Of the order of windows; no secret.
    """

    epochs: float = 1.0
    batch_size: int = 16
    learning_rate: float = 3e-4
    segment_shuffling: float = 0.0
    token_noise: float = 0.0
    label_smoothing: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class PrivateSettings:
    """What private training needs besides its plan.

    Attributes:
        learning_rate: Adam's rate at the start.
        decay: Whether it falls linearly to zero.
        trained: Which parameters are trained and noised, one of layout.TRAINED.
        dropout: Dropout probability while training.
        backend: How gradients are clipped, one of `engine.BACKENDS`; all give the same numbers.
    """

    learning_rate: float = 5e-4
    decay: bool = True
    trained: str = "encoder"
    dropout: float = 0.0
    backend: str = "book-keeping"


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
