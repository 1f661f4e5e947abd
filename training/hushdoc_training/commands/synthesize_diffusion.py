"""Methods `pretrain` and `diffusion` of `hushdoc synthesize`: pages that a private model draws."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import counted
from hushdoc.commands.parsing import usage_errors
from hushdoc_training.commands.training_options import (
    add_choice,
    add_name,
    add_number,
    add_overlap,
    add_run,
    add_spending,
    ledger_of,
    planned,
    print_end,
    print_plan,
    require_delta_of_release,
    require_installed,
    tuned_on,
    warn_of_labels,
)

if TYPE_CHECKING:
    from hushdoc.certificate.claim import PublicData
    from hushdoc.commands.parsing import Subcommands
    from hushdoc_training.privacy.plan import PrivacyPlan
    from hushdoc_training.recipes.synthesis.diffusion import Layouts
    from hushdoc_training.recipes.synthesis.diffusion_settings import PromiseSettings
    from hushdoc_training.recipes.synthesis.diffusion_start import DiffusionStart

IMAGES = (
    "folder of images for each class, RVL-CDIP, docmix, labelled documents with images, or "
    "invented:TYPE[+TYPE]"
)
LAYOUTS = "invented:form+invoice+receipt+till-receipt"


def register_pretrain(methods: Subcommands) -> None:
    """Adds `hushdoc synthesize pretrain`."""
    parser = methods.add_parser(
        "pretrain",
        help="train the start of diffusion on public pages",
        description="Trains an autoencoder and a denoiser of page images on public pages, without "
        "privacy, as the start of `hushdoc synthesize diffusion`.",
    )
    data = parser.add_argument_group("documents")
    data.add_argument("--public", required=True, metavar="SOURCE", help=f"public pages: {IMAGES}")
    data.add_argument(
        "--public-name",
        metavar="NAME",
        help="name of the pages in certificates (default: 'public documents', or SOURCE of "
        "invented ones)",
    )
    add_number(data, "--public-documents", "N", 1000, "number of pages to invent, or the most read")
    add_overlap(data)
    made = parser.add_argument_group("what is made")
    add_run(made)
    add_choice(
        made,
        "--size",
        ("tiny", "light", "small", "f4", "f8"),  # diffusion_start.SIZES, whose module loads torch
        "small",
        "tiny: for trials; light, small: to train; f4, f8: of DP-DocLDM, far too slow on a "
        "processor, where all of this runs",
    )
    add_choice(
        made,
        "--condition",
        ("none", "class", "layout", "layout+class"),  # diffusion_start.CONDITIONS
        "layout+class",
        "what the denoiser reads beside a page",
    )
    add_number(made, "--copies", "N", 0, "slightly moved copies of each page to learn from besides")
    add_number(made, "--autoencoder-steps", "N", 600, "steps of the autoencoder")
    add_number(made, "--steps", "N", 2000, "steps of the denoiser")
    add_number(made, "--batch-size", "N", 16, "pages in a step of the denoiser")
    add_number(made, "--crops", "N", 16, "quarters of pages in a step of the autoencoder")
    add_number(made, "--blur", "S", 0.0, "largest blur of layouts, in shares of a page's side")
    add_number(made, "--learning-rate", "R", 5e-4, "step size of Adam")
    add_number(made, "--seed", "N", 0, "seed of weights, order and noise")
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    parser.mark_expert(
        "--copies", "--batch-size", "--crops", "--learning-rate", "--seed", "--public-name"
    )
    parser.set_defaults(run=run_pretrain, extra="training")


def register_diffusion(methods: Subcommands) -> None:
    """Adds `hushdoc synthesize diffusion`."""
    parser = methods.add_parser(
        "diffusion",
        help="draw pages by a diffusion model that was trained privately",
        description="Trains the start of `hushdoc synthesize pretrain` on private pages with "
        "differential privacy, and draws pages from it. All numbers are public constants: choose "
        "them without looking at the documents.",
    )
    data = parser.add_argument_group("documents")
    data.add_argument("--data", required=True, metavar="SOURCE", help=IMAGES)
    data.add_argument(
        "--label", action="append", metavar="NAME", help="a class of the documents; repeat it"
    )
    add_name(data)
    data.add_argument(
        "--start", type=Path, required=True, metavar="DIR", help="what `synthesize pretrain` wrote"
    )
    made = parser.add_argument_group("what is made")
    add_run(made)
    add_number(made, "--pages", "N", 500, "number of pages that are drawn, as many a class")
    made.add_argument(
        "--layouts",
        default=LAYOUTS,
        metavar="SOURCE",
        help="public pages whose layouts the drawn pages have, where the start reads layouts: "
        f"{IMAGES} (default: {LAYOUTS})",
    )
    add_number(made, "--layout-documents", "N", 500, "number of such pages")
    made.add_argument(
        "--layouts-policy",
        type=Path,
        metavar="POLICY",
        help="a policy in TOML that the sealed set of synthetic documents in --layouts has to "
        "satisfy; its guarantee is added up with that of training",
    )
    add_overlap(made)
    add_choice(made, "--sampler", ("ddpm", "ddim"), "ddpm", "how noise is taken away")
    add_number(made, "--sampling-steps", "N", 200, "in how many steps")
    add_number(made, "--guidance", "S", 1.0, "how much the class counts; 1 as it was trained")
    add_number(made, "--seed", "N", 0, "seed of what is drawn, not of the noise of training")
    privacy = parser.add_argument_group("privacy")
    add_number(privacy, "--epsilon", "E", 1.0, "privacy budget")
    add_number(privacy, "--sampling-rate", "Q", 0.1, "probability of a document to join a step")
    add_spending(parser, privacy, steps=400, clipping_norm=0.01, expected_records=50)
    add_number(privacy, "--multiplicity", "K", 4, "draws of noise for each page in a step")
    add_choice(
        privacy,
        "--trained",
        ("all", "denoisers", "layouts"),  # diffusion_settings.TRAINED
        "all",
        "what learns: all of the denoiser, a denoiser for each class, or a layout for each class",
    )
    privacy.add_argument(
        "--learning-rate",
        type=float,
        metavar="R",
        help="step size of Adam (default: 3e-4, and .05 for layouts)",
    )
    promise = parser.add_argument_group("comparison, without privacy")
    promise.add_argument(
        "--method",
        dest="algorithm",
        choices=("dpdm", "dp-promise"),
        default="dpdm",
        help="dpdm: all steps are private; dp-promise: with a first phase that reveals pages, so "
        "that nothing is guaranteed (default: dpdm)",
    )
    promise.add_argument(
        "--for-comparison", action="store_true", help="needed for dp-promise: nothing is protected"
    )
    add_number(promise, "--first-steps", "N", 10, "steps of its first phase")
    add_number(promise, "--first-times", "S", 900, "the first of the 1,000 times that it learns")
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    parser.mark_expert("--learning-rate", "--seed", "--layout-documents")
    parser.mark_expert("--method", "--for-comparison", "--first-steps", "--first-times")
    parser.set_defaults(run=run_diffusion, extra="training")


def run_pretrain(options: argparse.Namespace) -> int:
    """Trains a start; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    require_installed()
    from hushdoc_training.data import image_sets
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.recipes.synthesis import pretraining
    from hushdoc_training.recipes.synthesis.diffusion_settings import PretrainingSettings

    with usage_errors(options):
        settings = PretrainingSettings(
            size=options.size,
            condition=options.condition,
            copies=options.copies,
            autoencoder_steps=options.autoencoder_steps,
            steps=options.steps,
            batch_size=options.batch_size,
            crops=options.crops,
            blur=options.blur,
            learning_rate=options.learning_rate,
            seed=options.seed,
        )
    source = Source(location=options.public, documents=options.public_documents, seed=options.seed)
    with image_sets.opened(source, report=shown) as documents:
        chosen = documents[: options.public_documents]
        outcome = pretraining.pretrain(
            chosen,
            settings,
            out=options.out,
            public=_public(options, options.public, "pretraining", options.public_name),
            classes=tuple(sorted({one.label for one in chosen})),
            resume=options.resume,
            quiet=options.quiet,
        )
    outcome.require_finished()
    print_end(options.out, None)
    return 0


def run_diffusion(options: argparse.Namespace) -> int:
    """Trains and draws; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    require_installed()
    from hushdoc_training.commands import kie_data
    from hushdoc_training.data import image_sets
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.recipes import starts
    from hushdoc_training.recipes.synthesis import diffusion, diffusion_start, dp_promise
    from hushdoc_training.recipes.synthesis.diffusion_settings import (
        TRAINED,
        DiffusionSettings,
        PromiseSettings,
    )
    from hushdoc_training.runs import run_folder

    compared = options.algorithm == "dp-promise"
    _require_comparison(options, compared)
    if overlaps(options.layouts, options.data):
        options.refuse_usage(
            "--layouts and --data are the same documents: a drawn page would show where text "
            "stands on a private one, without any noise. Name public pages"
        )
    with usage_errors(options):
        settings = DiffusionSettings(
            classes=tuple(options.label or ()),
            trained=options.trained,
            multiplicity=options.multiplicity,
            learning_rate=options.learning_rate or TRAINED[options.trained],
            pages=options.pages,
            sampler=options.sampler,
            sampling_steps=options.sampling_steps,
            guidance=options.guidance,
            seed=options.seed,
        )
        promise = PromiseSettings(steps=options.first_steps, since=options.first_times)
    ledger = ledger_of(options)
    start = starts.with_overlap(diffusion_start.load(options.start), options.public_overlap)
    if options.layouts_policy is not None and not start.denoiser.preset.layout:
        options.refuse_usage(
            "--layouts-policy is of a start that reads layouts, and this one doesn't"
        )
    classed = bool(start.classes) or settings.trained != "all"
    if classed and not settings.classes:
        warn_of_labels()
    plan, records = planned(options, ledger, sampling_rate=options.sampling_rate)
    require_delta_of_release(plan, records)
    if compared:
        _print_promise(plan, promise, start)
    else:
        print_plan(plan)
    run_folder.require_usable(options.out, resume=options.resume)
    layouts = _layouts(options, start)
    private = Source(location=options.data)
    with image_sets.opened(private, protected=True) as documents:
        taken = classed and not settings.classes
        if taken:
            found = tuple(sorted({one.label for one in documents}))
            settings = DiffusionSettings(**{**vars(settings), "classes": found})
        name = options.name or kie_data.name_of(private, ledger, public=False)
        if compared:
            with usage_errors(options):
                dp_promise.train(
                    start,
                    documents,
                    plan,
                    settings,
                    promise,
                    out=options.out,
                    name=name,
                    layouts=layouts,
                    labels_from_documents=taken,
                    quiet=options.quiet,
                )
            print(f"Checkpoint: {options.out / 'checkpoint'}")
            return 0
        with usage_errors(options):
            outcome = diffusion.train(
                start,
                documents,
                plan,
                settings,
                out=options.out,
                name=name,
                layouts=layouts,
                labels_from_documents=taken,
                hyperparameter_tuning=tuned_on(options, image_sets.corpus_name(private)),
                ledger=ledger,
                documents_changed=options.documents_changed,
                resume=options.resume,
                quiet=options.quiet,
            )
    outcome.require_finished()
    print_end(options.out, ledger)
    return 0


def _require_comparison(options: argparse.Namespace, compared: bool) -> None:
    """Refuses DP-Promise unless it is asked for as what it is."""
    if compared != options.for_comparison:
        options.refuse_usage(
            "--method dp-promise and --for-comparison go together: its first phase reveals pages, "
            "so what it draws has no guarantee and is to be compared, never given away"
        )
    if compared and (options.ledger is not None or options.resume):
        options.refuse_usage(
            "--method dp-promise takes no --ledger, whose account of the documents would be false "
            "after a phase that it can't charge, and no --resume"
        )


def _print_promise(plan: PrivacyPlan, promise: PromiseSettings, start: DiffusionStart) -> None:
    """Prints what DP-Promise will do, and what its paper would claim of it."""
    from hushdoc_training.recipes.synthesis import dp_promise

    preset = start.denoiser.preset
    claimed = dp_promise.papers_epsilon(
        plan, promise, numbers=preset.latent_channels * preset.latent_size**2
    )
    print(
        f"Plan:       DP-Promise, for comparison: {counted(promise.steps, 'step')} without privacy "
        f"on times from {promise.since}, then {counted(plan.steps, 'step')} with noise multiplier "
        f"{plan.noise_multiplier:.4g} on those below\n"
        f"No privacy: the paper's accounting would claim epsilon {claimed:.4g} at delta "
        f"{plan.delta:g}. It does not hold: one gradient of the first phase gives a page back. The "
        "certificate says that nothing is guaranteed",
        flush=True,
    )


def overlaps(location: str, other: str) -> bool:
    """Returns whether one of two places of documents is the other, or in it."""
    if location.startswith("invented:") or other.startswith("invented:"):
        return False
    one, two = Path(location).resolve(), Path(other).resolve()
    return one == two or one in two.parents or two in one.parents


def _layouts(options: argparse.Namespace, start: DiffusionStart) -> Layouts | None:
    """Returns the layouts of public pages or a sealed set, where a start reads layouts."""
    if not start.denoiser.preset.layout:
        return None
    from hushdoc.policy.policy import Policy
    from hushdoc.synthetic_documents import SyntheticDocuments
    from hushdoc_training.data import dataset, image_sets
    from hushdoc_training.recipes.synthesis import page_squares, public_images
    from hushdoc_training.recipes.synthesis.diffusion import Layouts
    from hushdoc_training.synthesis import masks

    size = start.codec.preset.image_size
    if options.layouts_policy is not None:
        policy = Policy.from_toml(options.layouts_policy)
        opened = SyntheticDocuments.open(options.layouts, policy=policy)
        return Layouts.of_set(opened, size, overlap=options.public_overlap)
    source = dataset.Source(location=options.layouts, documents=options.layout_documents)
    files: dict[str, str] = {}
    if source.is_invented:
        found = page_squares.masks_of(dataset.read(source), size)
    else:
        with image_sets.opened(source, report=shown) as documents:
            chosen = documents[: options.layout_documents]
            squares = page_squares.squares_of(chosen, size, classes={}, layout=True)
            files = public_images.files_of(chosen)
        every = [square.mask for own in squares for square in own if square.mask is not None]
        found = [mask for mask in every if masks.has_text(mask)]
    public = _public(options, options.layouts, "layouts")
    return Layouts(name=public.name, masks=found, public=public, files=files)


def _public(
    options: argparse.Namespace, location: str, use: str, name: str | None = None
) -> PublicData:
    """Returns what a claim says of public pages; it names no folder."""
    from hushdoc.certificate.claim import PublicData
    from hushdoc_training.commands import kie_data
    from hushdoc_training.data.dataset import Source

    source = Source(location=location)
    return PublicData(
        name=name or kie_data.name_of(source, None, public=True),
        uses=(use,),
        privacy_status=(
            kie_data.INVENTED if source.is_invented else "declared public by the trainer"
        ),
        overlap_with_protected="none" if source.is_invented else options.public_overlap,
    )


def shown(line: str) -> None:
    """Prints what was found in files of public pages."""
    print(line, file=sys.stderr)
