"""Recipe: how a training of key information extraction is set for about so many documents.

Which one private training takes follows from a number of documents that is declared, never counted:
a number that is counted differs between neighbouring data sets, and so would all that follows.

What decides is how far the noise drowns the sum. With n documents whose clipped gradients agree to
a share s, all steps together move d trained numbers by about n * s of signal for sqrt(d) / mu of
noise, where mu is the budget as a Gaussian's (1.67 for epsilon 8 at delta 1e-5; Dong et al. 2022),
however the budget is divided into steps; where noise multipliers fall below one, as with many small
steps, down to half of that. So few documents train few numbers.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hushdoc import arguments
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings

if TYPE_CHECKING:  # the command line knows recipes where torch is not installed
    from hushdoc_training.models.layout import TokenClassifier

Settings = TypeVar("Settings", PlainSettings, PrivateSettings)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings for a number of documents.

    Attributes:
        name: Its word on the command line.
        documents: The most documents that it is made for; None for any number.
        sampling_rate: Probability of each document to be in a private step.
        steps: Private steps.
        clipping_norm: Largest L2 norm of one document's gradient.
        private: Private training besides.
        plain: Training without privacy.
        reason: Why, in words.
    """

    name: str
    documents: int | None
    sampling_rate: float
    steps: int
    clipping_norm: float
    private: PrivateSettings
    plain: PlainSettings
    reason: str

    @property
    def private_options(self) -> dict[str, Any]:
        """What it sets of a private training, by the names of its options."""
        unsaid = {"backend", "directions", "loss_bound", "noise_distribution", "recipe"}
        own = {name: value for name, value in asdict(self.private).items() if name not in unsaid}
        own |= {name: getattr(self, name) for name in ("sampling_rate", "steps", "clipping_norm")}
        return {name.replace("_", "-"): value for name, value in own.items()}


# Tens and hundreds are what 100 to 400 invented receipts and invoices choose (docs/results.md), by
# a climb that began at settings chosen with a look at SROIE and WildReceipt. Their norm is below
# that of nearly every gradient, so that all documents count alike: where gradients are shorter than
# the norm, its noise drowns them. Where tens ends was set after a score on FUNSD; invented
# documents put it between 150 and 300 from a start that knows their kind, and at 99 from a weak
# one. Where hundreds ends was chosen on a part of SROIE's receipts that are trained on: 1,010
# windows did better by it than by thousands. What thousands and many train follows from the
# arithmetic above.
RECIPES = (
    Recipe(
        name="tens",
        documents=199,
        sampling_rate=0.5,
        steps=100,
        clipping_norm=0.01,
        private=PrivateSettings(learning_rate=2e-2, trained="output"),
        plain=PlainSettings(epochs=20, batch_size=8, learning_rate=2e-4),
        reason="the output layer alone, as noise on more would drown so few documents",
    ),
    Recipe(
        name="hundreds",
        documents=1999,
        sampling_rate=0.5,
        steps=120,
        clipping_norm=0.01,
        private=PrivateSettings(
            learning_rate=2e-1, trained="output", scaling="public", read_layers=3
        ),
        plain=PlainSettings(epochs=15, batch_size=8, learning_rate=2e-4),
        reason="the output layer alone, of up to three layers and whitened by public words, in few "
        "large steps, as noise outweighs them on more",
    ),
    Recipe(
        name="thousands",
        documents=9999,
        sampling_rate=0.1,
        steps=100,
        clipping_norm=0.1,
        private=PrivateSettings(learning_rate=1e-2, trained="biases"),
        plain=PlainSettings(epochs=5, batch_size=16, learning_rate=3e-4),
        reason="biases, norms and output layer, on which so many documents outweigh noise",
    ),
    Recipe(
        name="many",
        documents=None,
        sampling_rate=0.02,
        steps=1000,
        clipping_norm=0.1,
        private=PrivateSettings(learning_rate=5e-4, trained="encoder"),
        plain=PlainSettings(epochs=2, batch_size=16, learning_rate=3e-4),
        reason="all but the word embeddings, which only so many documents can outweigh noise on",
    ),
)
"""All recipes, for few documents first."""

RATES = {("output", "public"): 2e-1, ("output", "none"): 3e-2, ("biases", "none"): 1e-2}
OTHER_RATE = 5e-4
"""Rates of Adam by what is trained and scaled, where a recipe's own does not suit."""

PUBLIC = PlainSettings(epochs=1, token_noise=0.2, label_smoothing=0.1)
"""Training on public documents that private training goes on from."""

PLAIN = PlainSettings()
"""Training without privacy on the documents that count."""

SHUFFLED = 0.3
"""Share of invented documents whose segments are put into another order."""

ASSUMED = 160
"""How many documents are assumed where nobody declares a number."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The recipe of a private training, and the number of documents that it was chosen for."""

    recipe: Recipe
    documents: int
    is_assumed: bool

    def line(self) -> str:
        """Returns which recipe it is and why, for people."""
        how = "assumed; say --declared-documents" if self.is_assumed else "declared"
        size = arguments.counted(self.documents, "document")
        return f"{self.recipe.name}, for {size} ({how}): {self.recipe.reason}"


def of_size(documents: int) -> Recipe:
    """Returns the recipe for a number of documents."""
    return next(r for r in RECIPES if r.documents is None or documents <= r.documents)


def named(name: str) -> Recipe:
    """Returns the recipe of a name."""
    return next(recipe for recipe in RECIPES if recipe.name == name)


def complete(options: argparse.Namespace, *, known: int | None = None) -> Chosen:
    """Chooses a recipe, and sets the options of a private run that nobody gave; ValueErrors.

    `known` is how many documents there are where that is no secret. A declared divisor over the
    sampling rate is a declaration, too.
    """
    if options.declared_documents is not None:
        arguments.integer(options.declared_documents, what="--declared-documents")
    declared = options.declared_documents or known
    recipe = _recipe(options, declared)
    if options.sampling_rate is None:
        options.sampling_rate = recipe.sampling_rate
    documents = declared or ASSUMED
    if options.expected_records is None:
        options.expected_records = max(1, round(documents * options.sampling_rate))
    elif declared is None:
        documents = declared = round(options.expected_records / options.sampling_rate)
    for name in ("steps", "clipping_norm"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(recipe, name))
    return Chosen(recipe=recipe, documents=documents, is_assumed=declared is None)


def _recipe(options: argparse.Namespace, declared: int | None) -> Recipe:
    if options.recipe is not None:
        return named(options.recipe)
    expected, rate = options.expected_records, options.sampling_rate
    if declared is None and expected is not None:
        planned = (expected / (rate or recipe.sampling_rate) for recipe in RECIPES)
        pairs = zip(RECIPES, planned, strict=True)
        return next(r for r, size in pairs if r.documents is None or size <= r.documents)
    return of_size(declared or ASSUMED)


def suited(settings: PrivateSettings, options: argparse.Namespace) -> PrivateSettings:
    """Returns settings whose rate suits what options train or scale otherwise; ValueErrors."""
    trained = options.trained or settings.trained
    scaling = options.scaling or (settings.scaling if trained == settings.trained else "none")
    if (trained, scaling) == (settings.trained, settings.scaling):
        return settings
    rate = RATES.get((trained, scaling), OTHER_RATE)
    return replace(settings, trained=trained, scaling=scaling, learning_rate=rate, read_layers=1)


def fitting(settings: PrivateSettings, model: TokenClassifier) -> PrivateSettings:
    """Returns settings that read no more layers than the output layer of a start can read."""
    from hushdoc_training.models import layout

    return replace(settings, read_layers=min(settings.read_layers, layout.most_read(model)))


def with_options(settings: Settings, options: argparse.Namespace) -> Settings:
    """Returns settings with those that options of the same names give; ValueErrors."""
    told: dict[str, Any] = {
        field.name: getattr(options, field.name)
        for field in fields(settings)
        if getattr(options, field.name, None) is not None
    }
    return replace(settings, **told)
