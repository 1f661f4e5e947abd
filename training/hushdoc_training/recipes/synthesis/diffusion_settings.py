"""Settings of diffusion: public constants, chosen without looking at the protected documents."""

from __future__ import annotations

from dataclasses import dataclass

from hushdoc import arguments
from hushdoc_training.drawn_checkpoint import MOST_PAGES
from hushdoc_training.models.diffusion_schedule import SAMPLERS, TIMES
from hushdoc_training.recipes.synthesis.diffusion_start import CONDITIONS, SIZES
from hushdoc_training.recipes.synthesis.settings import require_within

TRAINED = {"all": 3e-4, "denoisers": 3e-4, "layouts": 0.05}
"""What learns of the protected pages, with a step size: all weights of the denoiser but those of
the time, those of a denoiser for each class (DP-DocLDM has both), or a layout for each class
alone."""


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings:
    """How a start learns from public pages.

    Attributes:
        size: One of SIZES.
        condition: One of CONDITIONS.
        copies: How many slightly moved copies of each page are learned from besides.
        autoencoder_steps: Steps of the autoencoder, which come first.
        steps: Steps of the denoiser.
        batch_size: Pages in one step of the denoiser.
        crops: Pages in one step of the autoencoder, of each a random quarter.
        blur: Largest blur of layouts, in shares of a page's side: each page is learned from with
            its layout and with one that is blurred by up to this; 0 for sharp ones alone.
        learning_rate: Of Adam.
        seed: Of weights, order and noise; no secret.
    """

    size: str = "small"
    condition: str = "layout+class"
    copies: int = 0
    autoencoder_steps: int = 600
    steps: int = 2_000
    batch_size: int = 16
    crops: int = 16
    blur: float = 0.0
    learning_rate: float = 5e-4
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError where a setting is out of range."""
        arguments.choice(self.size, tuple(SIZES), what="size")
        arguments.choice(self.condition, CONDITIONS, what="condition")
        require_within(self, copies=(0, 100), autoencoder_steps=(1, 10**7), steps=(1, 10**7))
        require_within(self, batch_size=(1, 10**5), crops=(1, 10**5), seed=(0, 2**31 - 1))
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate is {self.learning_rate}; expected 0 to 1.")
        if not 0 <= self.blur <= 1:
            raise ValueError(f"blur is {self.blur}; expected 0 to 1.")


@dataclass(frozen=True, kw_only=True)
class DiffusionSettings:
    """How a start is trained on protected pages, and pages are drawn.

    Attributes:
        classes: Names of the classes, declared public; none where the denoiser reads none.
        trained: One of TRAINED.
        multiplicity: Draws of time and noise for each page in a step.
        learning_rate: Of Adam (DP-DocLDM, section 4.2).
        pages: How many pages are released, as many of each class.
        sampler: One of SAMPLERS.
        sampling_steps: How many times a sampler visits.
        guidance: How much the class counts: 1 as it was trained.
        seed: Keys what is drawn for the release; noise of training has no seed.
    """

    classes: tuple[str, ...] = ()
    trained: str = "all"
    multiplicity: int = 4
    learning_rate: float = 3e-4
    pages: int = 500
    sampler: str = "ddpm"
    sampling_steps: int = 200
    guidance: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError where a setting is out of range."""
        arguments.choice(self.trained, tuple(TRAINED), what="trained")
        arguments.choice(self.sampler, SAMPLERS, what="sampler")
        require_within(self, multiplicity=(1, 1024), pages=(1, MOST_PAGES), seed=(0, 2**31 - 1))
        require_within(self, sampling_steps=(1, TIMES))
        if not 0 < self.learning_rate < 1 or not 0 <= self.guidance <= 100:
            raise ValueError(
                f"learning_rate is {self.learning_rate}, guidance {self.guidance}; expected 0 to 1 "
                "and 0 to 100."
            )
        if self.trained == "denoisers" and self.guidance != 1:
            raise ValueError(
                f"guidance is {self.guidance}, and the denoiser of a class knows nothing without "
                "it; expected 1."
            )
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"classes are {self.classes}; expected no name twice.")


@dataclass(frozen=True, kw_only=True)
class PromiseSettings:
    """The first phase of DP-Promise, which has no privacy.

    Attributes:
        steps: How many steps it takes, at the sampling rate of the private ones.
        since: The first of its times; those below are of the second phase (S of the paper, 900 or
            950 of 1,000).
    """

    steps: int = 10
    since: int = 900

    def __post_init__(self) -> None:
        """Raises ValueError where a setting is out of range."""
        require_within(self, steps=(1, 10**7), since=(1, TIMES - 1))
