"""Classifiers of images: from documents as images to a checkpoint with its claim."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hushdoc import arguments
from hushdoc.arguments import short_repr
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.document.document import Document
from hushdoc.errors import AnnotationError, CheckpointError, PrivacyError
from hushdoc.labels import LabelSet
from hushdoc.runtime.images import ImagePreprocessing, Pixels, pixels_of_page
from hushdoc_training import duplicates, image_checkpoint
from hushdoc_training.data.image_documents import ImageDocument
from hushdoc_training.data.image_sets import content_digest
from hushdoc_training.image_checkpoint import ImageCheckpoint
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import image_classifier
from hushdoc_training.privacy import claims, earlier_steps
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.private_steps import PrivateSteps
from hushdoc_training.privacy.records import Records
from hushdoc_training.private_view import PrivateView
from hushdoc_training.recipes.images.mixing import mixed
from hushdoc_training.recipes.images.settings import PlainSettings
from hushdoc_training.recipes.kie.epochs import set_rate
from hushdoc_training.recipes.kie.private import optimizer_of
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.training import best_device, decay, require_documents
from hushdoc_training.recipes.starts import added_to, history, require_carried
from hushdoc_training.runs import loop, start_weights
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.claim_words import READABLE, READING, UNDECLARED, gradient_bound
from hushdoc_training.runs.document_units import SAME_IMAGES
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.recipe_run import RecipeRun
from hushdoc_training.runs.run_folder import Run, keep_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

TRAINED = ("all", "output")
"""What private training changes: all parameters, or those of the output layer."""

_TRIAL = (1, 2, 1)
"""Pages of the invented records that the clipper is tested on."""
_MOST_NUMBERS = 2**20
"""Numbers of the images in a physical batch: bounds memory, changes nothing else."""
_MOST_EXAMPLES = 64


@dataclass(frozen=True, kw_only=True)
class Start:
    """A classifier before training.

    Attributes:
        name: What it is called in claims.
        architecture: One of `image_classifier.ARCHITECTURES`.
        model: Its weights; training changes them.
        labels: The classes.
        claim: Of the run that it comes from; None for random weights.
    """

    name: str
    architecture: str
    model: nn.Module
    labels: LabelSet
    claim: Claim | None = None

    @property
    def preprocessing(self) -> ImagePreprocessing:
        """How images become inputs."""
        return image_classifier.known(self.architecture).preprocessing


@dataclass(frozen=True, kw_only=True)
class Example:
    """One page and its class."""

    pixels: Pixels
    target: int


def start_from(
    start: str | None, *, architecture: str | None, labels: LabelSet, seed: int = 0
) -> Start:
    """Returns random weights, or those of a run of this task.

    Args:
        start: The run's folder; None for random weights.
        architecture: The one of random weights; a run has its own.
        labels: The classes; a run of others gets a new output layer.
        seed: Of random weights.

    Raises:
        CheckpointError: The run can't be read, or is of another architecture.
        AnnotationError: There is one class alone.
    """
    if len(labels.fields) < 2:
        raise AnnotationError(
            f"The classes are {short_repr(list(labels.fields))}; at least two are needed. Give "
            "documents of several classes, or name the classes with --label."
        )
    count = len(labels.fields)
    if start is None:
        name = architecture or "small"
        model = image_classifier.build(name, count, seed=seed)
        return Start(name=f"{name}, random", architecture=name, model=model, labels=labels)
    stored = ImageCheckpoint.load(Path(start))
    if architecture not in (None, stored.architecture):
        raise CheckpointError(
            f"'{start}' is a run of the architecture '{stored.architecture}', and --architecture "
            f"asks for '{architecture}'. Leave it out, or start from another run."
        )
    model = image_classifier.load(stored.folder, stored.architecture, len(stored.labels))
    if stored.labels != labels.fields:
        model = image_classifier.with_new_labels(model, stored.architecture, count, seed=seed)
    earlier_steps.read(model, stored.claim)
    return Start(
        name=stored.architecture,
        architecture=stored.architecture,
        model=model,
        labels=labels,
        claim=stored.claim,
    )


def train_plain(
    start: Start,
    documents: Sequence[ImageDocument],
    settings: PlainSettings,
    *,
    out: Path,
    claim: Claim,
    resume: bool = False,
    quiet: bool = False,
    device: torch.device | None = None,
    notes: Mapping[str, str] | None = None,  # texts to keep in `out`, by their names
) -> Outcome:
    """Trains without privacy and writes `out/checkpoint`.

    Raises:
        AnnotationError: A document has a class that is none of the start's.
        PrivacyError: The start has seen protected documents, and the claim does not say so.
    """
    device = device or best_device()
    require_carried(start, claim)
    require_known_classes(start, documents)
    examples = [example for record in _examples(start, documents) for example in record]
    claimed = hashlib.sha256(claim.to_json()).hexdigest()
    same = _identity(start, documents_digest(documents), claimed)
    run = Run.open(out, {"mode": "plain", **asdict(settings), **same}, resume=resume)
    keep_notes(out, notes or {})
    model = start.model.to(device).train()
    optimizer = _plain_optimizer(model, settings)
    per_epoch = math.ceil(len(examples) / settings.batch_size)
    steps = max(1, round(per_epoch * settings.epochs))

    def step(number: int) -> float:
        epoch, at = divmod(number - 1, per_epoch)
        order = np.random.default_rng((settings.seed, epoch)).permutation(len(examples))
        chosen = order[at * settings.batch_size : (at + 1) * settings.batch_size]
        images, targets = _batch([examples[place] for place in chosen])
        torch.manual_seed(settings.seed + number)  # of dropout; no secret
        made, soft = mixed(
            images,
            functional.one_hot(targets, len(start.labels.fields)).float(),
            mixup=settings.mixup,
            cutmix=settings.cutmix,
            generator=np.random.default_rng((settings.seed, epoch, at)),
        )
        share = (number - 1) / steps
        set_rate(optimizer, settings.learning_rate * (1 + math.cos(math.pi * share)) / 2)
        loss = functional.cross_entropy(
            model(pixel_values=made.to(device)).logits, soft.to(device, torch.float32)
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    with _dropping_out(model, settings.dropout):
        return loop.train_without_privacy(
            run,
            steps=steps,
            model=model,
            optimizer=optimizer,
            step=step,
            save=lambda folder: save(folder, start, claim),
            title=f"{start.name}: training without privacy",
            quiet=quiet,
        )


def train_private(
    start: Start,
    documents: Sequence[ImageDocument],
    plan: PrivacyPlan,
    settings: PrivateSettings,
    *,
    out: Path,
    name: str,  # what the certificate calls the documents
    public_data: tuple[PublicData, ...] = (),  # what the start learned from, besides its claim's
    hyperparameter_tuning: str = "none",  # on what the settings were chosen
    ledger: Ledger | None = None,
    documents_changed: bool = False,
    resume: bool = False,
    quiet: bool = False,
    device: torch.device | None = None,
    private_numbers: str = "hidden",  # one of `private_view.MODES`: whether losses are shown
    copies: str = "group",  # one of `duplicates.CHOICES`
    notes: Mapping[str, str] | None = None,  # texts to keep in `out`, by their names
) -> Outcome:
    """Trains with differential privacy and writes `out/checkpoint`.

    A record is one document with all its pages, whose gradient is the mean over them and is clipped
    once. Nothing mixes records. A document whose class is none of the start's is a record without
    examples: a refusal would tell of it without noise.

    Raises:
        EmptyDocumentError: There is no document.
        PrivacyError: The start has seen private documents, the model mixes records, or the ledger
            has no room for the run.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        CheckpointError: There is nothing to resume.
    """
    device = device or best_device()
    view = PrivateView.of(private_numbers)
    grouped = arguments.choice(copies, duplicates.CHOICES, what="copies") == "group"
    require_known(plan, settings)
    require_documents(documents)
    started_from = added_to(start)
    declared = Declared(
        name=name,
        public_data=(*history(start), *public_data),
        training={**described(start), **settings.claimed()},
        hyperparameter_tuning=hyperparameter_tuning,
        labels_from_documents=start.labels.taken_from_documents,
        accesses=claims.unaccounted(name, READING),
        assumes=(READABLE,),
        unit_definition=SAME_IMAGES if grouped else None,
        contribution_bound=f"{gradient_bound('document', plan.clipping_norm)}; {UNDECLARED}",
        caveats=(duplicates.IMAGES_CAVEAT,) if grouped else (),
        started_from=started_from,
    )
    terms = Terms(
        declared=declared,
        documents=documents_digest(documents),
        title=f"{start.name}, in {out}",
        ledger=ledger,
        documents_changed=documents_changed,
    )
    run = RecipeRun(
        out=out,
        plan=plan,
        terms=terms,
        settings={
            "mode": "private",
            "private_numbers": private_numbers,
            "copies": copies,
            **asdict(settings),
            **_identity(start, terms.documents, terms.digest(plan)),
        },
        resume=resume,
        quiet=quiet,
    )
    run.announce()
    if (ended := run.ended()) is not None:
        return ended
    read = distinct(documents) if grouped else documents
    records = Records(_examples(start, read), unit="document")

    def before(training: PrivateSteps, number: int) -> None:
        decay(training.optimizer, settings, number, plan.steps)

    return run.take(
        lambda charge: private_training(
            start, records, plan, settings, charge=charge, device=device, view=view
        ),
        model=start.model,
        title=start.name,
        unused=(),
        begun=lambda: keep_notes(out, notes or {}),
        before=before,
        save=lambda folder, claim: save(folder, start, claim),
    )


def private_training(
    start: Start,
    records: Records[Example],
    plan: PrivacyPlan,
    settings: PrivateSettings,
    *,
    charge: Callable[[int], None] | None = None,
    device: torch.device | None = None,
    view: PrivateView | None = None,
) -> PrivateTraining[Example]:
    """Returns private training of a start, with all that is not to be trained frozen.

    The clipper is tried on invented images, so that no document is read before a step is charged.
    """
    device = device or best_device()
    image_classifier.freeze(start.model, trained=settings.trained)
    model = start.model.to(device).train()
    size = 3 * start.preprocessing.height * start.preprocessing.width
    return PrivateTraining(
        plan,
        model,
        optimizer_of(model, settings, plan),
        records=records,
        losses=partial(losses_of, model, device=device),
        backend=settings.backend,
        clipping=settings.clipping,
        max_examples=max(1, min(_MOST_EXAMPLES, _MOST_NUMBERS // size)),
        trial_records=trial_records(start),
        averaging=settings.averaging,
        noise_distribution=settings.noise_distribution,
        charge=charge,
        view=view,
        loss_bound=settings.loss_bound,
    )


def require_known(plan: PrivacyPlan, settings: PrivateSettings) -> None:
    """Raises PrivacyError for a unit or settings that this training does not have."""
    unknown = {
        "privacy_unit": (plan.privacy_unit, ("document",)),
        "trained": (settings.trained, TRAINED),
        "optimizer": (settings.optimizer, ("adam", "adam-corrected", "sgd")),
        "scaling": (settings.scaling, ("none",)),  # and so no directions
        "read_layers": (settings.read_layers, (1,)),
        "dropout": (settings.dropout, (0.0,)),
    }
    for name, (found, expected) in unknown.items():
        if found not in expected:
            raise PrivacyError(
                f"{name} is '{found}', which private training on images does not have; expected "
                f"one of {', '.join(map(str, expected))}."
            )


def require_known_classes(start: Start, documents: Sequence[ImageDocument]) -> None:
    """Raises unless there are documents, all of the start's classes, where none is protected."""
    require_documents(documents)
    known = start.labels.fields
    if unknown := sorted({one.label for one in documents} - {*known}):
        raise AnnotationError(
            f"Documents are of the classes {short_repr(unknown, 200)}, which are not among "
            f"{short_repr(list(known), 200)}. Name all classes with --label, or leave these "
            "documents out."
        )


def losses_of(
    model: nn.Module, examples: Sequence[Example], *, device: torch.device
) -> torch.Tensor:
    """Returns the cross-entropy of every example, shape [examples]."""
    images, targets = _batch(examples)
    logits = model(pixel_values=images.to(device)).logits
    return functional.cross_entropy(logits, targets.to(device), reduction="none")


def trial_records(start: Start) -> list[list[Example]]:
    """Returns records of invented images, so that a test of the clipper reads no document."""
    generator = np.random.default_rng(0)
    settings = start.preprocessing
    classes = len(start.labels.fields)

    def example() -> Example:
        noise = generator.standard_normal((3, settings.height, settings.width))
        return Example(pixels=noise.astype(np.float32), target=int(generator.integers(classes)))

    return [[example() for _ in range(pages)] for pages in _TRIAL]


def scored(
    start: Start, documents: Sequence[ImageDocument], *, device: torch.device | None = None
) -> float:
    """Returns the share of documents whose class has the highest mean logit over their pages.

    Documents of other classes than the model's are none of them.
    """
    device = device or best_device()
    model = start.model.to(device).eval()
    right = 0
    with torch.inference_mode():
        for record in filter(None, _examples(start, documents)):
            images, targets = _batch(record)
            found = model(pixel_values=images.to(device)).logits.mean(0).argmax()
            right += int(found) == int(targets[0])
    return right / len(documents)


def distinct(documents: Sequence[ImageDocument]) -> list[ImageDocument]:
    """Returns one document of each content: of copies that whose name comes first."""
    kept: dict[str, ImageDocument] = {}
    for one in sorted(documents, key=lambda document: document.id):
        kept.setdefault(content_digest(one), one)
    return list(kept.values())


def documents_digest(documents: Sequence[ImageDocument]) -> str:
    """Returns a digest of names, classes and images, whatever the order of the documents.

    It answers whether a guessed document is among them, so it stays with the trainer.
    """
    each = sorted(json.dumps([one.id, one.label, content_digest(one)]) for one in documents)
    return hashlib.sha256("\n".join(each).encode()).hexdigest()


def described(start: Start) -> dict[str, Any]:
    """Returns what a claim says about the model that training started from."""
    return {"start": start.name, "architecture": start.architecture}


def save(folder: Path, start: Start, claim: Claim) -> None:
    """Writes the start's model, as it is now, as a checkpoint."""
    image_checkpoint.save(
        folder,
        architecture=start.architecture,
        labels=start.labels.fields,
        preprocessing=start.preprocessing,
        claim=claim,
        save_weights=lambda place: image_classifier.save(start.model.to("cpu"), place),
    )


def _examples(start: Start, documents: Sequence[ImageDocument]) -> list[list[Example]]:
    """Returns the pages of every document as the model reads them; none of an unknown class."""
    places = {label: place for place, label in enumerate(start.labels.fields)}
    return [
        [
            Example(
                pixels=pixels_of_page(
                    Document(id=one.id, pages=one.pages), number, start.preprocessing
                ),
                target=places[one.label],
            )
            for number in range(len(one.pages) if one.label in places else 0)
        ]
        for one in documents
    ]


def _batch(examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.from_numpy(np.stack([example.pixels for example in examples]))
    return images, torch.tensor([example.target for example in examples])


def _plain_optimizer(model: nn.Module, settings: PlainSettings) -> torch.optim.Optimizer:
    parameters, rate = list(model.parameters()), settings.learning_rate
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=1e-4)
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)


@contextmanager
def _dropping_out(model: nn.Module, probability: float) -> Iterator[None]:
    """Drops out what the output layer reads, inside the block."""
    layer = model.get_submodule("classifier")

    def dropped(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (functional.dropout(inputs[0], probability, training=module.training), *inputs[1:])

    handle = layer.register_forward_pre_hook(dropped)
    try:
        yield
    finally:
        handle.remove()


def _identity(start: Start, documents: str, claim: str) -> dict[str, Any]:
    """Returns what a resumed run must share with the run that began; the last two are digests."""
    return {
        **described(start),
        "classes": list(start.labels.fields),
        "weights": start_weights.digest(start.model),
        "documents": documents,
        "claim": claim,
    }
