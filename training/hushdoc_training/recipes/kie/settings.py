"""Settings of training that are not its privacy: rates, passes, what is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hushdoc import arguments
from hushdoc_training.models.trained import Trained

OPTIMIZERS = ("adam", "adam-corrected", "adam-public", "sgd")
"""What private training steps by: DP-Adam; the same with second moments that are corrected for the
noise, or measured on invented documents (`noisy_adam`); or DP-SGD, with momentum or without."""

SCALINGS = ("none", "public")
"""Whether the output layer learns in directions that words of invented documents vary in alike."""


@dataclass(frozen=True, kw_only=True)
class PlainSettings:
    """Training without privacy, for public documents or as a baseline.

    Segments are shuffled so that the model leans on boxes rather than on the generator's reading
    order, tokens replaced so that it does not lean on words alone. Label smoothing keeps a model
    that is trained further on other documents from being sure of what it gets wrong there.
    """

    epochs: float = 1.0  # passes over the documents
    batch_size: int = 16  # windows in one step
    learning_rate: float = 3e-4  # peak of AdamW's, after 6 % warm-up and before linear decay
    segment_shuffling: float = 0.0  # share of pages whose segments are put into another order
    token_noise: float = 0.0  # up to this share of a window's tokens becomes others of the batch
    label_smoothing: float = 0.0  # probability spread over the other tags
    seed: int = 0  # of the order of windows; no secret

    def __post_init__(self) -> None:
        """Refuses numbers that nothing can be trained with."""
        arguments.integer(self.batch_size, what="batch_size")
        _require_positive("epochs", self.epochs)
        _require_positive("learning_rate", self.learning_rate)
        _require_share("segment_shuffling", self.segment_shuffling, most=1)
        _require_share("token_noise", self.token_noise, most=1)
        _require_share("label_smoothing", self.label_smoothing)


@dataclass(frozen=True, kw_only=True)
class PrivateSettings:
    """What private training needs besides its plan."""

    learning_rate: float = 5e-4  # the optimizer's at the start
    decay: bool = True  # linearly to zero
    optimizer: str = "adam"  # one of OPTIMIZERS, of noised gradients
    momentum: float = 0.0  # of SGD
    trained: str = "encoder"  # which parameters are trained and noised, one of `trained.WORDS`
    dropout: float = 0.0  # probability while training
    read_layers: int = 1  # of the encoder, that the output layer reads; 1 for those of the start
    scaling: str = "none"  # whether the output layer is whitened by public words, one of SCALINGS
    directions: int | None = None  # most that a scaled layer learns in; None: the task's own number
    clipping: str = "flat"  # how gradients are bounded, one of `contract.CLIPPINGS`
    averaging: str = "none"  # which average of the weights is released, one of `averaging.AVERAGES`
    backend: str = "book-keeping"  # one of `engine.BACKENDS`; all give the same numbers
    loss_bound: float | None = None  # releases losses up to this with noise; see `noisy_loss`
    noise_distribution: str | None = None  # one of `lattice.DISTRIBUTIONS`; None: by how many train
    recipe: str | None = None  # the recipe or preset that they are of, for people

    def __post_init__(self) -> None:
        """Refuses numbers that nothing can be trained with."""
        _require_positive("learning_rate", self.learning_rate)
        _require_share("dropout", self.dropout)
        arguments.choice(self.scaling, SCALINGS, what="scaling")
        if type(self.read_layers) is not int or self.read_layers < 1:
            raise ValueError(f"read_layers is {self.read_layers!r}; expected 1 or more.")
        if self.directions is not None and (
            type(self.directions) is not int or self.directions < 1 or self.scaling == "none"
        ):
            raise ValueError(
                f"directions is {self.directions!r} with the scaling '{self.scaling}'; expected 1 "
                "or more, of a scaled layer alone."
            )
        _require_share("momentum", self.momentum)
        arguments.choice(self.optimizer, OPTIMIZERS, what="optimizer")
        Trained.of(self.trained)
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(
                f"momentum is {self.momentum:g} with the optimizer '{self.optimizer}', which has "
                "its own; leave it out, or choose 'sgd'."
            )

    def claimed(self) -> dict[str, Any]:
        """Returns what a claim says of them, the rank of LoRA under its own name besides.

        Nothing is said of read layers that are the start's, nor of directions as many as the task
        has, so that claims of earlier versions stay what they are.
        """
        trained, told = Trained.of(self.trained), asdict(self)
        if self.read_layers == 1:
            del told["read_layers"]
        if self.directions is None:
            del told["directions"]
        return told | ({"rank": trained.number} if trained.kind == "lora" else {})


MOST = 3.4e38
"""Largest number of float32, as weights are."""


def _require_positive(name: str, value: float) -> None:
    if not 0 < value <= MOST:
        raise ValueError(f"{name} is {value!r}; expected a number above 0 and at most {MOST:g}.")


def _require_share(name: str, value: float, *, most: float = 0.99) -> None:
    if not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r}; expected a share from 0 to {most:g}.")
