"""Diffusion: a denoiser of public start is trained on private pages, and draws the released ones.

DP-DocLDM (Saifullah et al. 2025) with DPDM (arXiv 2210.09929): pages become latents by an
autoencoder that saw public pages alone; the denoiser of latents is trained privately, told the
class and the layout of a page; what is released is drawn from noise, for classes in public numbers
and for layouts that no private page has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.errors import AnnotationError, PrivacyError
from hushdoc.synthetic_documents import CHOSEN as CHOSEN_PAGES
from hushdoc.synthetic_documents import SyntheticDocuments
from hushdoc.system import atomic_files
from hushdoc.system.progress import TaskProgress
from hushdoc.viewing.rendition import as_png
from hushdoc_training import drawn_checkpoint, duplicates, inherited_claims
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import diffusion_schedule
from hushdoc_training.models.autoencoder import PageAutoencoder
from hushdoc_training.models.denoiser import ClassDenoisers, Denoiser, LearnedLayouts
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.private_view import PrivateView
from hushdoc_training.recipes.synthesis import (
    denoising,
    diffusion_start,
    page_squares,
    public_images,
)
from hushdoc_training.recipes.synthesis.denoising import PageExample
from hushdoc_training.recipes.synthesis.diffusion_settings import DiffusionSettings
from hushdoc_training.recipes.synthesis.diffusion_start import DiffusionStart
from hushdoc_training.recipes.synthesis.page_squares import Floats
from hushdoc_training.runs import continued, document_units, start_weights
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.claim_words import (
    READABLE,
    READING,
    SYNTHETIC_PAGES,
    UNDECLARED,
    gradient_bound,
)
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.recipe_run import RecipeRun

LAYOUTS_READ = "{}; the layouts of its pages were read, and no protected document again"
LAYOUTS_STEP = "take-layouts-of-synthetic-documents"

CHOSEN = (
    "the number of pages of each class, the sampler and its settings, and the scale of latents "
    "were chosen without looking at the documents"
)
LEARNED = "layouts of classes, learned privately"

BATCH = 16
"""Pages that are drawn together."""

_DRAWN = "drawn"


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """Layouts to draw pages for, of public documents or a sealed set of synthetic ones.

    Attributes:
        name: What a certificate calls them.
        masks: Of each, shape [size, size].
        public: What a certificate says of the documents; None for those of the start or a set.
        files: `public_images.files_of` the documents; none of invented ones, which can't be
            protected ones.
        claim: What the set's certificate claims, which is added up; None of public documents.
    """

    name: str
    masks: Sequence[Floats]
    public: PublicData | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    claim: Claim | None = None

    @classmethod
    def of_set(cls, documents: SyntheticDocuments, size: int, *, overlap: str) -> Layouts:
        """Returns the layouts of a verified set's pages that have words.

        Args:
            documents: The set.
            size: Of a mask.
            overlap: How far what is public in the set's own history, such as MiniLM, may hold the
                documents that are protected here; its certificate speaks of others.

        Raises:
            PrivacyError: The set is of public pages, or its guarantee is for another unit, or for
                nobody who receives it.
        """
        if documents.contents.method == CHOSEN_PAGES:
            raise PrivacyError(
                "The set of the layouts hands on public pages as they are, and they were compared "
                "with the documents that chose them, not with those that are protected here. Give "
                "a set of invented pages, or the public pages themselves."
            )
        claim = inherited_claims.claim_of(
            documents, training={}, releases=(), composition=LAYOUTS_READ, step=LAYOUTS_STEP
        )
        (guarantee,) = continued.one_guarantee(claim)
        if document_units.common(guarantee.unit_definition, document_units.SAME_IMAGES) is None:
            raise PrivacyError(
                f"The set of the layouts protects each {guarantee.unit} "
                f"({guarantee.unit_definition}); expected one document, which is what the pages "
                "here protect. Take a set of `hushdoc synthesize evolution`."
            )
        return cls(
            name=f"synthetic documents '{documents.certificate.model.name}'",
            masks=page_squares.masks_of([one.labelled for one in documents.documents], size),
            claim=inherited_claims.with_overlap(claim, overlap),
        )


def train(
    start: DiffusionStart,  # its denoiser is changed
    documents: Sequence[ImageDocument],
    plan: PrivacyPlan,
    settings: DiffusionSettings,
    *,
    out: Path,
    name: str,  # what the certificate calls the documents
    layouts: Layouts | None = None,  # where the denoiser reads layouts
    labels_from_documents: bool = False,
    hyperparameter_tuning: str = "none",  # on what the settings were chosen
    ledger: Ledger | None = None,
    documents_changed: bool = False,
    resume: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Trains with differential privacy, draws the pages, and writes `out/checkpoint`.

    A killed run is resumed: its steps from the last saved state, its pages from the last drawn. A
    document of a class that is not declared is a record without examples: a refusal would tell of
    it without noise.

    Raises:
        AnnotationError: An image can't be read, or there is no layout with text.
        CheckpointError: There is nothing to resume, or the guarantee of the layouts' set can't be
            added to one of pages.
        EmptyDocumentError: There is no document.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        OutputExistsError: The folder holds something.
        PrivacyError: The start has seen protected documents, a layout is of a protected page, the
            ledger has no room, or the guarantee would not hold.
        ValueError: The plan is not one of whole documents.
    """
    require_fitting(start, plan, settings, layouts)
    page_squares.require_documents(documents)
    used = layouts if start.denoiser.preset.layout else None
    learned = settings.trained == "layouts"
    files = {} if used is None else used.files
    before = None if used is None else used.claim
    chosen = "which set gives the layouts" if before else "the layouts"
    public_images.require_apart(files, documents)
    declared = Declared(
        name=name,
        public_data=(*start.claim.public_data, *public_of(used)),
        training={
            "method": "latent diffusion (DP-DocLDM, DPDM)",
            "start": start.name,
            "layouts": LEARNED if learned else None if used is None else used.name,
            **asdict(settings),
        },
        hyperparameter_tuning=hyperparameter_tuning,
        labels_from_documents=labels_from_documents,
        accesses=claims.unaccounted(name, READING | (public_images.TREATMENTS if files else {})),
        assumes=(
            f"{chosen}{' to begin with' if learned else ''}, {CHOSEN}",
            READABLE,
            *(public_images.ASSUMES if files else ()),
        ),
        releases=("synthetic-records",),
        unit_definition=document_units.SAME_IMAGES,
        contribution_bound=f"{gradient_bound('document', plan.clipping_norm)}; {UNDECLARED}"
        if settings.classes
        else None,
        caveats=(
            duplicates.IMAGES_CAVEAT,
            *((public_images.NOT_AMONG_THEM,) if files else ()),
        ),
        started_from=before,
        what=SYNTHETIC_PAGES,
    )
    terms = Terms(
        declared=declared,
        documents=page_squares.digest(documents),
        title=f"diffusion, in {out}",
        ledger=ledger,
        documents_changed=documents_changed,
    )
    run = RecipeRun(
        out=out,
        plan=plan,
        terms=terms,
        settings={
            "mode": "diffusion",
            **asdict(settings),
            "start": start.name,
            "weights": start_weights.digest(start.both),
            "layouts": "" if used is None else _digest(used.masks),
            "claim": terms.digest(plan),
            "documents": terms.documents,
        },
        resume=resume,
        quiet=quiet,
    )
    run.announce()
    if (ended := run.ended()) is not None:
        return ended
    denoiser, records = prepared(start, documents, settings, used)
    optimizer = adam(denoiser, settings)

    def make(charge: Callable[[int], None]) -> PrivateTraining[PageExample]:
        return denoising.private_training(
            denoiser,
            records,
            plan,
            optimizer,
            multiplicity=settings.multiplicity,
            charge=charge,
            view=PrivateView.of("hidden"),
            backend="one-by-one" if settings.trained == "denoisers" else "book-keeping",
        )

    def save(folder: Path, claim: Claim) -> None:
        read = None if learned else used
        save_pages(folder, claim, start.codec, denoiser, settings, layouts=read, quiet=quiet)

    return run.take(
        make,
        model=denoiser,
        title=f"{start.name}: diffusion",
        unused=(),
        begun=lambda: None,
        before=lambda training, number: None,
        save=save,
    )


def prepared(
    start: DiffusionStart,
    documents: Sequence[ImageDocument],
    settings: DiffusionSettings,
    layouts: Layouts | None,
) -> tuple[Denoiser, Records[PageExample]]:
    """Returns the denoiser, frozen but for what learns, and the documents as it reads them.

    Those of classes that were not declared have no examples.
    """
    codec = start.codec.eval().requires_grad_(False)
    denoiser = _denoiser(start, settings, layouts).eval()
    kept = page_squares.distinct(documents)
    with TaskProgress("document", quiet=True) as progress:
        squares = page_squares.squares_of(
            kept,
            codec.preset.image_size,
            classes={name: number for number, name in enumerate(settings.classes)},
            layout=denoiser.preset.layout,  # not where it learns them
            seen=progress.show,
        )
    examples = [
        own if not settings.classes or one.label in settings.classes else []
        for one, own in zip(kept, page_squares.examples_of(squares, codec), strict=True)
    ]
    return denoiser, Records(examples, unit="document")


def adam(denoiser: Denoiser, settings: DiffusionSettings) -> torch.optim.Adam:
    """Returns what steps all that is not frozen."""
    trained = [value for value in denoiser.parameters() if value.requires_grad]
    return torch.optim.Adam(trained, lr=settings.learning_rate)


def save_pages(
    folder: Path,
    claim: Claim,
    codec: PageAutoencoder,
    denoiser: Denoiser,
    settings: DiffusionSettings,
    *,
    layouts: Layouts | None,
    quiet: bool,
) -> None:
    """Draws the pages, beside the checkpoint that it writes of them."""
    images, prompts = folder.parent / _DRAWN, prompts_of(settings, layouts)
    draw(codec, denoiser, prompts, settings, layouts=layouts, folder=images, quiet=quiet)
    weights = diffusion_start.weights_of(codec, denoiser)
    drawn_checkpoint.save(folder, prompts=prompts, images=images, claim=claim, save_weights=weights)


def prompts_of(settings: DiffusionSettings, layouts: Layouts | None) -> list[Mapping[str, Any]]:
    """Returns what each page is drawn from: classes by turns, layouts in a public random order."""
    rng = np.random.default_rng(settings.seed)
    made: list[Mapping[str, Any]] = []
    for number in range(settings.pages):
        label = settings.classes[number % len(settings.classes)] if settings.classes else None
        layout = None if layouts is None else int(rng.integers(len(layouts.masks)))
        made.append({"label": label, "layout": layout, "seed": settings.seed * 10**6 + number})
    return made


def draw(
    codec: PageAutoencoder,
    denoiser: Denoiser,
    prompts: Sequence[Mapping[str, Any]],
    settings: DiffusionSettings,
    *,
    layouts: Layouts | None,
    folder: Path,
    quiet: bool,
) -> None:
    """Draws pages into a folder, batch by batch; those that are there are not drawn again."""
    folder.mkdir(exist_ok=True)
    codec.eval(), denoiser.eval()
    with TaskProgress("page", quiet=quiet) as progress:
        for first in range(0, len(prompts), BATCH):
            places = range(first, min(first + BATCH, len(prompts)))
            if not all(drawn_checkpoint.image_path(folder, at).is_file() for at in places):
                chosen = [prompts[at] for at in places]
                for at, image in zip(
                    places, _images(codec, denoiser, chosen, settings, layouts), strict=True
                ):
                    atomic_files.write_file(drawn_checkpoint.image_path(folder, at), image)
            progress.show(places[-1] + 1, len(prompts))


def _images(
    codec: PageAutoencoder,
    denoiser: Denoiser,
    prompts: Sequence[Mapping[str, Any]],
    settings: DiffusionSettings,
    layouts: Layouts | None,
) -> list[bytes]:
    """Returns the PNG files of some prompts."""
    known = {name: number for number, name in enumerate(settings.classes)}
    masks = None
    if layouts is not None:
        masks = page_squares.encoded(codec, [layouts.masks[one["layout"]] for one in prompts])
    latents = diffusion_schedule.sample(
        denoiser,
        layouts=masks,
        labels=torch.tensor([known[one["label"]] for one in prompts]) if known else None,
        generators=[torch.Generator().manual_seed(one["seed"]) for one in prompts],
        sampler=settings.sampler,
        steps=settings.sampling_steps,
        guidance=settings.guidance,
    )
    made = []
    for square in codec.decode(latents).mean(1):
        shades = ((square + 1) * 127.5).round().to(torch.uint8).numpy()
        made.append(as_png(Image.fromarray(shades)))
    return made


def _denoiser(
    start: DiffusionStart, settings: DiffusionSettings, layouts: Layouts | None
) -> Denoiser:
    """Returns what is trained: all weights but the time's, or the layout of each class alone."""
    made: Denoiser
    if settings.trained == "layouts":
        assert layouts is not None  # require_fitting
        first = page_squares.encoded(start.codec, layouts.masks).mean(0)
        return LearnedLayouts(start.denoiser, classes=len(settings.classes), first=first)
    if settings.trained == "denoisers":
        unclassed = diffusion_start.with_classes(start, (), seed=settings.seed)
        made = ClassDenoisers(unclassed, classes=len(settings.classes))
    else:
        made = diffusion_start.with_classes(start, settings.classes, seed=settings.seed)
    made.freeze_time()
    return made


def require_fitting(
    start: DiffusionStart,
    plan: PrivacyPlan,
    settings: DiffusionSettings,
    layouts: Layouts | None,
) -> None:
    """Raises unless a start, a plan of documents, classes and layouts belong together."""
    if start.claim.protected_data:
        raise PrivacyError(
            f"The start '{start.name}' was itself trained on protected documents, and what several "
            "trainings spend is not yet added up. Start from one of `synthesize pretrain`."
        )
    if plan.privacy_unit != "document":
        raise ValueError(f"The plan has the unit '{plan.privacy_unit}'; expected 'document'.")
    if settings.trained == "layouts":
        if start.classes or not start.denoiser.preset.layout or not settings.classes:
            raise ValueError(
                "A layout is learned for each class, by a start that reads layouts and no classes, "
                f"and this one reads {start.condition}; {len(settings.classes)} classes are "
                "declared. Declare the classes, and give a start of --condition layout."
            )
    elif settings.trained == "denoisers":
        if not settings.classes:
            raise ValueError(
                "A denoiser is trained for each class, and no classes are declared. Declare them."
            )
        if len(settings.classes) > denoising.MOST_DENOISERS:
            raise ValueError(
                f"There are {len(settings.classes)} classes; expected at most "
                f"{denoising.MOST_DENOISERS} for a denoiser each. Declare fewer, or train all of "
                "one that reads classes."
            )
    elif bool(settings.classes) != bool(start.classes):
        raise ValueError(
            f"The start was trained {'with' if start.classes else 'without'} classes, and "
            f"{len(settings.classes)} are declared. Give the classes of the documents, or a start "
            "that reads none."
        )
    if start.denoiser.preset.layout and (layouts is None or not layouts.masks):
        raise AnnotationError(
            "The start reads layouts, and no layout with text is given to draw pages for. Give "
            "documents whose pages have text."
        )


def public_of(layouts: Layouts | None) -> tuple[PublicData, ...]:
    """Returns what a claim says of the documents that layouts are of."""
    return () if layouts is None or layouts.public is None else (layouts.public,)


def _digest(masks: Sequence[Floats]) -> str:
    return hashlib.sha256(np.stack(masks).tobytes()).hexdigest()
