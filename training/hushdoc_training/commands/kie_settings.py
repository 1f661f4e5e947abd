"""What `train kie` sets: its options of privacy and training, and the recipe that fills them in."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hushdoc import arguments
from hushdoc.commands.parsing import usage_errors
from hushdoc.errors import PrivacyError
from hushdoc_training.commands import configuration, synthetic_data
from hushdoc_training.commands.training_options import (
    add_audit,
    add_budget,
    add_choice,
    add_recipe_number,
    calibrated,
    print_plan,
    require_small_delta,
    small_delta,
    takes_noise,
)
from hushdoc_training.recipes.kie import guidelines, presets, recipe
from hushdoc_training.recipes.kie.settings import PrivateSettings

if TYPE_CHECKING:
    from hushdoc.commands.parsing import CommandParser
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.kie.settings import PlainSettings
    from hushdoc_training.recipes.kie.start import Start


def add_configuration(parser: CommandParser) -> None:
    """Adds where settings come from: a file, a preset or a recipe; and what only prints some."""
    group = parser.add_argument_group("configuration")
    configuration.add_option(group)
    chosen = group.add_mutually_exclusive_group()
    chosen.add_argument(
        "--recipe",
        choices=[each.name for each in recipe.RECIPES],
        help="settings for tens, hundreds, thousands or many documents, which options change one "
        "by one (default: that for --declared-documents; without privacy that for the number of "
        "documents, and with --public one pass)",
    )
    chosen.add_argument(
        "--preset",
        choices=[*presets.PRESETS],
        metavar="NAME",
        help="a paper's own settings, its unit and delta included, which options change one by "
        f"one: {', '.join(presets.PRESETS)}",
    )
    group.add_argument(
        "--declared-documents",
        type=int,
        metavar="N",
        help="about how many documents there are, as you declare it: nothing is counted. It "
        "chooses --recipe, and is the divisor of the noised sum with --sampling-rate (default: "
        f"{recipe.ASSUMED} assumed; the number of invented ones)",
    )
    group.add_argument(
        "--declared-words",
        type=int,
        metavar="N",
        help="with --suggest: about how many words a document has, as you declare it",
    )
    group.add_argument(
        "--suggest",
        action="store_true",
        help="print the guidelines of a paper for --declared-documents of --declared-words, as a "
        "file for --config; then end, without reading a document",
    )
    group.add_argument(
        "--by-guidelines",
        action="store_true",
        help="say that settings are those guidelines, as the file of --suggest does: of the "
        "corpora at which the paper chose them the certificate says so (--tuned-on)",
    )
    group.add_argument(
        "--plan",
        action="store_true",
        help="print the recipe, the noise that it needs and its epsilon by each accountant; then "
        "end, without reading a document",
    )
    parser.earlier = partial(
        configuration.earlier,
        presets={name: preset.settings for name, preset in presets.PRESETS.items()},
    )
    parser.mark_expert("--by-guidelines")
    parser.set_defaults(parser=parser)


def suggest(options: argparse.Namespace) -> None:
    """Prints the guidelines of PrIeD-KIE for what is declared, as a configuration."""
    from hushdoc_training.privacy.plan import require_positive

    if not takes_noise(options):
        options.refuse_usage("--suggest is of private training; leave --public or --not-private")
    for name in ("declared_documents", "declared_words"):
        option = f"--{name.replace('_', '-')}"
        if getattr(options, name) is None:
            options.refuse_usage(f"--suggest needs {option}, as nothing is counted")
        with usage_errors(options):
            arguments.integer(getattr(options, name), what=option)
    documents = options.declared_documents
    delta = small_delta(documents) if options.delta is None else options.delta
    with usage_errors(options):
        require_positive(epsilon=options.epsilon, delta=delta)
    require_small_delta(delta, documents)
    print("# The guidelines of PrIeD-KIE (section 5.2), for what you declared; no data were read.")
    told = {
        "data": options.data,
        "declared-documents": documents,
        "epsilon": options.epsilon,
        "delta": delta,
        "by-guidelines": True,
    }
    for each in (
        guidelines.Suggestion(reason="Yours.", settings=told),
        *guidelines.suggested(documents, options.declared_words),
    ):
        print(f"\n# {each.reason}")
        for name, value in each.settings.items():
            print(configuration.line(name, value))
    sized = recipe.of_size(documents)
    if sized.private.trained != "all":
        print(f"# For so few, --recipe {sized.name} trains {sized.private.trained} alone.")


def add_privacy(parser: CommandParser) -> None:
    """Adds what privacy a training has, and its recipe."""
    group = parser.add_argument_group("privacy")
    synthetic_data.add_modes(group)
    add_budget(parser, group, steps=None, clipping_norm=None, expected_records=None)
    add_audit(parser, group, default=False, costs="with MiniLM it takes minutes")
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
        metavar="WHAT",
        help="which parameters are trained and get noise: all; encoder, all but word embeddings; "
        "top:N, the last N layers and the output layer; biases, with norms and output layer; "
        "output, that layer alone; or lora:R, it and factors of rank R beside the encoder's linear "
        "layers, merged in the end (default: the recipe's)",
    )
    group.add_argument(
        "--read-layers",
        type=int,
        metavar="N",
        help="how many of the encoder's layers the output layer reads, the last among them; 1: "
        "those that it reads in the start (default: the recipe's, or what the start allows)",
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
        "--read-layers",
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
        group, "--learning-rate", "RATE", float, "step size, the largest of a training"
    )
    group.add_argument(
        "--optimizer",
        choices=("adam", "adam-corrected", "adam-public", "sgd"),
        help="with privacy: what steps by noised gradients; adam-corrected takes the noise's part "
        "off the second moments, adam-public measures these on invented documents; all but adam "
        "need a --learning-rate of their own (default: the recipe's)",
    )
    add_recipe_number(group, "--momentum", "M", float, "share of the last step in the next, of sgd")
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
        "--optimizer",
        "--momentum",
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
    if not takes_noise(options):
        if options.plan:
            options.refuse_usage("--plan is of private training; leave --public or --not-private")
        with usage_errors(options):
            plain(options, invented=False, documents=1)
        return None
    from hushdoc_training.data.dataset import NUM_INVENTED

    invented = options.data.startswith("invented:")
    _complete_preset(options)
    with usage_errors(options):
        known = (options.documents or NUM_INVENTED) if invented else None
        chosen = recipe.complete(options, known=known)
        if options.preset is None:
            options.recipe = chosen.recipe.name
        private(options)
    records = max(chosen.documents, options.expected_records / options.sampling_rate)
    if options.delta is None and ledger is None:
        options.delta = small_delta(records)
    made = calibrated(
        options,
        ledger,
        privacy_unit=options.privacy_unit,
        sampling_rate=options.sampling_rate,
        accountant=options.accountant,
    )
    if options.preset is None:
        require_small_delta(
            made.delta, records, otherwise=", or --preset by its name to train as a paper did"
        )
    elif not _is_presets_own(options, made.delta):
        own = ", or leave --preset its own unit, delta and number of records"
        require_small_delta(made.delta, records, otherwise=own)
    print(_chosen_line(options, chosen))
    print_plan(made, compared=options.plan)
    return made


def _complete_preset(options: argparse.Namespace) -> None:
    """Sets what a preset's numbers imply; what it leaves open or can't keep is wrong usage."""
    if options.preset is None:
        return
    if options.sampling_rate is None or options.expected_records is None:
        options.refuse_usage(
            f"--preset {options.preset} leaves batches open: give --sampling-rate and "
            "--expected-records"
        )
    with usage_errors(options):
        if not 0 < options.sampling_rate <= 1:
            raise ValueError(
                f"sampling_rate is {options.sampling_rate!r}; expected more than 0 and at most 1."
            )
        arguments.integer(options.expected_records, what="expected_records")
        if options.steps is None:
            options.steps = round(presets.EPOCHS / options.sampling_rate)
    if options.images and options.privacy_unit == "sequence":
        raise PrivacyError(
            f"--preset {options.preset} protects windows of tokens, and with --images the page of "
            "a window is seen beside all others. Leave --images, or give --privacy-unit document "
            f"and a --delta of at most {small_delta(_declared(options)):.3g}."
        )
    if options.delta is None and options.privacy_unit == "sequence":
        options.delta = 1 / _declared(options)


def _declared(options: argparse.Namespace) -> float:
    """Returns how many records a preset's options declare."""
    return max(options.declared_documents or 0, options.expected_records / options.sampling_rate)


def _is_presets_own(options: argparse.Namespace, delta: float) -> bool:
    """Returns whether unit and delta are a paper's, of no more records than it had."""
    paper = presets.PRESETS[options.preset].settings
    if options.privacy_unit != paper["privacy-unit"]:
        return False
    own = 1 / _declared(options)
    if "delta" in paper and own * paper["expected-records"] >= paper["sampling-rate"] * (1 - 1e-9):
        own = paper["delta"]
    return delta <= own * (1 + 1e-9)


def require_unit(options: argparse.Namespace, start: Start) -> None:
    """Raises PrivacyError where a preset's records are windows that a start can't be given."""
    if options.preset is None or options.privacy_unit != "sequence":
        return
    length = start.preprocessing.max_tokens
    if length != options.max_tokens:
        raise PrivacyError(
            f"--preset {options.preset} protects windows of {options.max_tokens} tokens, and the "
            f"start cuts windows of {length}. Choose a start of such windows, or say which ones "
            f"you mean with --max-tokens {length}."
        )


def _chosen_line(options: argparse.Namespace, chosen: recipe.Chosen) -> str:
    if options.preset is None:
        other = configuration.set_otherwise(options, chosen.recipe.private_options)
        return f"Recipe:     {chosen.line()}{other}"
    preset = presets.PRESETS[options.preset]
    other = configuration.set_otherwise(options, preset.settings)
    return f"Preset:     {options.preset} ({preset.line()}){other}"


def private(options: argparse.Namespace, start: Start | None = None) -> PrivateSettings:
    """Returns the settings of a private training whose recipe is chosen, as a start allows them."""
    base = recipe.named(options.recipe).private if options.recipe else PrivateSettings()
    if options.optimizer not in (None, base.optimizer) and options.learning_rate is None:
        raise ValueError(
            f"--optimizer is {options.optimizer}, and the recipe's step size is of "
            f"{base.optimizer}; give --learning-rate as well."
        )
    drawn = options.noise_distribution
    suited = recipe.suited(base, options)
    if start is not None and options.read_layers is None:
        suited = recipe.fitting(suited, start.model)
    return replace(
        recipe.with_options(suited, options),
        recipe=options.recipe or options.preset,
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
