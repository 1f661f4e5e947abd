"""What `train kie` sets: its options of privacy and training, and the recipe that fills them in."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from hushdoc.commands.parsing import usage_errors
from hushdoc_training.commands.training_options import (
    add_audit,
    add_budget,
    add_choice,
    add_number,
    add_recipe_number,
    calibrated,
)
from hushdoc_training.recipes.kie import recipe

if TYPE_CHECKING:
    from hushdoc.commands.parsing import CommandParser
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings


def add_privacy(parser: CommandParser) -> None:
    """Adds what privacy a training has, and its recipe."""
    group = parser.add_argument_group("privacy")
    mode = group.add_mutually_exclusive_group()
    mode.add_argument(
        "--public", action="store_true", help="train without privacy: the documents are public"
    )
    mode.add_argument(
        "--not-private",
        action="store_true",
        help="train on private documents without privacy; the certificate says so",
    )
    add_number(mode, "--epsilon", "E", 8.0, "privacy budget")
    group.add_argument(
        "--declared-documents",
        type=int,
        metavar="N",
        help="about how many documents there are, as you declare it: nothing is counted. It "
        "chooses --recipe, and is the divisor of the noised sum with --sampling-rate (default: "
        f"{recipe.ASSUMED} assumed; the number of invented ones)",
    )
    group.add_argument(
        "--recipe",
        choices=[each.name for each in recipe.RECIPES],
        help="settings for tens, hundreds, thousands or many documents, which options change one "
        "by one (default: that for --declared-documents; without privacy that for the number of "
        "documents, and with --public one pass)",
    )
    group.add_argument(
        "--plan",
        action="store_true",
        help="print the recipe, and the noise that it needs; then end, without reading a document",
    )
    add_budget(parser, group, steps=None, clipping_norm=None, expected_records=None)
    add_audit(parser, group, default=False, costs="with MiniLM it takes 2 minutes")
    add_recipe_number(
        group, "--sampling-rate", "Q", float, "probability of each record to be in a step"
    )
    add_choice(
        group,
        "--privacy-unit",
        ("document", "sequence"),
        "document",
        "what the guarantee protects: whole documents, or windows of tokens",
    )
    add_choice(
        group,
        "--accountant",
        ("pld", "rdp"),
        "pld",
        "how noise is calibrated: by privacy loss distributions, or by Renyi accounting, which "
        "needs more noise",
    )
    group.add_argument(
        "--trained",
        choices=("all", "encoder", "biases", "output"),
        help="which parameters are trained and get noise: all; all but word embeddings; biases, "
        "norms and output layer; or the output layer alone (default: the recipe's)",
    )
    group.add_argument(
        "--scaling",
        choices=("none", "public"),
        help="whether the output layer learns in directions that words of invented documents vary "
        "in alike, each of them scaled before clipping and noise (default: the recipe's)",
    )
    group.add_argument(
        "--clipping",
        choices=("flat", "automatic", "layerwise"),
        help="how gradients are bounded by --clipping-norm: each is cut where it is longer; scaled "
        "to somewhat less, however short it is; or each parameter has a share of the norm "
        "(default: the recipe's)",
    )
    group.add_argument(
        "--averaging",
        choices=("none", "ema", "half"),
        help="which weights are released: those of the last step; their exponential average over "
        "the steps; or the mean of the last half of them (default: the recipe's)",
    )
    add_choice(
        group,
        "--backend",
        ("book-keeping", "opacus", "one-by-one"),
        "book-keeping",
        "how gradients are clipped, all with the same result: in one backward pass; by Opacus' "
        "hooks, which know fewer layers; by one pass for each record",
    )
    add_choice(
        group,
        "--noise-distribution",
        ("auto", "discrete-gaussian", "gaussian"),
        "auto",
        "what is drawn on the grid of sums: a discrete Gaussian in integers, exact also in its "
        "tails; or a rounded one computed in float64, which takes a fifth of the time; auto draws "
        "the first up to a million trained numbers",
    )
    group.add_argument(
        "--noisy-loss",
        type=float,
        metavar="BOUND",
        help="show each step's mean loss with noise, inside the budget; losses above BOUND, a "
        "number chosen without looking at the documents, count as that much",
    )
    parser.mark_expert(
        "--noisy-loss",
        "--privacy-unit",
        "--accountant",
        "--trained",
        "--scaling",
        "--clipping",
        "--averaging",
        "--backend",
        "--noise-distribution",
    )


def add_training(parser: CommandParser) -> None:
    """Adds the settings of training by the names that `recipes.kie.settings` has for them."""
    group = parser.add_argument_group("training")
    add_recipe_number(
        group, "--learning-rate", "RATE", float, "step size of Adam, the largest of a training"
    )
    group.add_argument(
        "--decay",
        action=argparse.BooleanOptionalAction,
        help="with privacy: whether the step size goes down to zero (default: the recipe's)",
    )
    add_recipe_number(group, "--dropout", "P", float, "probability of dropout, with privacy")
    add_recipe_number(group, "--epochs", "N", float, "passes over the documents, without privacy")
    add_recipe_number(group, "--batch-size", "N", int, "windows in a batch, without privacy")
    add_recipe_number(
        group,
        "--segment-shuffling",
        "SHARE",
        float,
        "share of pages whose segments are put into another order, without privacy",
        default=f"{recipe.SHUFFLED:g} of invented documents, else 0",
    )
    add_recipe_number(
        group,
        "--token-noise",
        "SHARE",
        float,
        "up to this share of a window's tokens becomes others, without privacy",
        default=f"{recipe.PUBLIC.token_noise:g} with --public, else 0",
    )
    add_recipe_number(
        group,
        "--label-smoothing",
        "P",
        float,
        "probability that is spread over the other tags, without privacy",
        default=f"{recipe.PUBLIC.label_smoothing:g} with --public, else 0",
    )
    group.add_argument("--quiet", action="store_true", help="print no progress")
    parser.mark_expert(
        "--learning-rate",
        "--decay",
        "--dropout",
        "--epochs",
        "--batch-size",
        "--segment-shuffling",
        "--token-noise",
        "--label-smoothing",
    )


def plan(options: argparse.Namespace, ledger: Ledger | None) -> PrivacyPlan | None:
    """Returns the plan of a private training, whose options its recipe completes, and prints both.

    None without privacy. Wrong settings are usage errors, before a document is read.
    """
    if options.public or options.not_private:
        if options.plan:
            options.refuse_usage("--plan is of private training; leave --public or --not-private")
        with usage_errors(options):
            plain(options, invented=False, documents=1)
        return None
    from hushdoc_training.data.dataset import NUM_INVENTED

    invented = options.data.startswith("invented:")
    with usage_errors(options):
        known = (options.documents or NUM_INVENTED) if invented else None
        chosen = recipe.complete(options, known=known)
        options.recipe = chosen.recipe.name
        private(options)
    made = calibrated(
        options,
        ledger,
        privacy_unit=options.privacy_unit,
        sampling_rate=options.sampling_rate,
        accountant=options.accountant,
    )
    print(f"Recipe:     {chosen.line()}")
    print(
        f"Plan:       {made.steps} steps of about {made.expected_records} records (sampling rate "
        f"{made.sampling_rate:g}), noise multiplier {made.noise_multiplier:.4g}; epsilon "
        f"{made.epsilon:g} at delta {made.delta:g} for each {made.privacy_unit}",
        flush=True,
    )
    return made


def private(options: argparse.Namespace) -> PrivateSettings:
    """Returns the settings of a private training whose recipe is chosen."""
    base = recipe.named(options.recipe).private
    drawn = options.noise_distribution
    return replace(
        recipe.with_options(base, options),
        loss_bound=options.noisy_loss,
        noise_distribution=None if drawn == "auto" else drawn,
    )


def plain(options: argparse.Namespace, *, invented: bool, documents: int) -> PlainSettings:
    """Returns the settings of training without privacy: the number of documents is no secret."""
    base = recipe.PUBLIC if options.public else recipe.PLAIN
    if options.recipe is not None or not options.public:
        sized = recipe.named(options.recipe) if options.recipe else recipe.of_size(documents)
        base = replace(
            base,
            epochs=sized.plain.epochs,
            batch_size=sized.plain.batch_size,
            learning_rate=sized.plain.learning_rate,
        )
    if invented:
        base = replace(base, segment_shuffling=recipe.SHUFFLED)
    return recipe.with_options(base, options)
