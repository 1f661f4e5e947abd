"""Key information extraction: from labelled documents to a checkpoint with its claim."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hushdoc import arguments, metrics
from hushdoc.certificate.claim import Claim, DataAccess, PublicData
from hushdoc.errors import AnnotationError, EmptyDocumentError
from hushdoc.evaluation import Evaluation, entities_of
from hushdoc.labels import LabelledDocument, Span, tags_of_pages
from hushdoc.runtime.images import ImagePreprocessing, pixels_of_page
from hushdoc_training import checkpoint, duplicates
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import whitening
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.private_view import HELD_OUT, TESTED, PrivateView
from hushdoc_training.recipes.kie import audits, epochs, public_inputs, public_moments
from hushdoc_training.recipes.kie.audits import Audited
from hushdoc_training.recipes.kie.epochs import shuffled_windows, with_token_noise
from hushdoc_training.recipes.kie.identity import cut, documents_digest, identity, images_digest
from hushdoc_training.recipes.kie.private import prepare, private_training, unreached
from hushdoc_training.recipes.kie.records import (
    BoolArray,
    Window,
    collate,
    in_order,
    known_labels,
    loss_of,
    predict,
    without_copies,
)
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.recipes.kie.start import Start
from hushdoc_training.recipes.starts import (
    added_to,
    history,
    keep_tokenizer,
    require_carried,
)
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.claim_words import READABLE, READING
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.recipe_run import RecipeRun
from hushdoc_training.runs.run_folder import Run, keep_notes


def train_plain(
    start: Start,  # its model is changed
    documents: Sequence[LabelledDocument],
    settings: PlainSettings,
    *,
    out: Path,
    claim: Claim,  # `claims.public` or `claims.not_private`
    resume: bool = False,
    quiet: bool = False,
    device: torch.device | None = None,
    annotated: Sequence[BoolArray] | None = None,  # the tags that each document's data set uses
    notes: Mapping[str, str] | None = None,  # texts to keep in `out`, by their names
) -> Outcome:
    """Trains without privacy and writes `out/checkpoint`.

    A start that has seen protected documents is a PrivacyError, unless it has no privacy to lose
    and the claim goes on from its own, as `continued.without_privacy` makes it.
    """
    device = device or best_device()
    require_readable(documents, start)
    require_carried(start, claim)
    # Refuses what could not be certified before an hour is spent on it.
    claimed = hashlib.sha256(claim.to_json()).hexdigest()
    windows = shuffled_windows(
        known_labels(documents, start.labels, warned=True),
        start.encoder,
        start.labels,
        share=settings.segment_shuffling,
        generator=np.random.default_rng(settings.seed),
        annotated=annotated,
    )
    same = identity(start, documents_digest(documents), claimed) | images_of(
        documents, start.preprocessing.image
    )
    if annotated is not None:
        same["annotated"] = hashlib.sha256(np.stack(annotated).tobytes()).hexdigest()
    run = Run.open(out, {"mode": "plain", **asdict(settings), **same}, resume=resume)
    keep_tokenizer(run.folder, start)
    keep_notes(run.folder, notes or {})
    torch.manual_seed(settings.seed)
    model = start.model.to(device).train()

    def loss(parts: list[Window], _epoch: int, _step: int) -> torch.Tensor:
        batch = collate(start.encoder, parts)
        if settings.token_noise:
            batch = with_token_noise(batch, settings.token_noise)
        return loss_of(model, batch, device=device, label_smoothing=settings.label_smoothing)

    return epochs.train(
        run,
        windows,
        settings,
        model=model,
        loss=loss,
        save=lambda folder: save(folder, start, claim),
        title=f"{start.name}: training without privacy",
        quiet=quiet,
    )


def train_private(
    start: Start,
    documents: Sequence[LabelledDocument],
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
    copies: str = "group",  # one of `duplicates.CHOICES`: what becomes of copies of a document
    audited: bool = False,  # whether a twin on invented documents is audited first
    scored: tuple[str, ...] = (),  # scores that will be shown, in the words of `private_view`
    caveats: tuple[str, ...] = (),  # what the certificate says besides
    notes: Mapping[str, str] | None = None,  # texts to keep in `out`, by their names
) -> Outcome:
    """Trains with differential privacy (DP-Adam or DP-SGD) and writes `out/checkpoint`.

    The start, whose model is changed, must not have seen private documents. The run starts only if
    the ledger has room, and its claim then states what all runs of the ledger spend together.
    Documents are changed where some were added, removed or relabelled since the ledger's last run.
    A resumed run has fresh noise and the old charge.

    Raises:
        PrivacyError: The start has seen private documents, the model can't be trained privately,
            the ledger has no room for the run, or the audit refutes what its twin claims.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        CheckpointError: There is nothing to resume, or what a run without a ledger has spent is
            lost.
    """
    device = device or best_device()
    view = PrivateView.of(private_numbers)
    for what in scored:
        view.note(what)
    by_document = plan.privacy_unit == "document"
    grouped = by_document and arguments.choice(copies, duplicates.CHOICES, what="copies") == "group"
    require_readable(documents, start)
    started_from = added_to(start)
    claimed_settings = {**described(start), **settings.claimed()}
    declared = Declared(
        name=name,
        public_data=(*history(start), *public_data, *prepared_by(settings)),
        training=claimed_settings,
        hyperparameter_tuning=hyperparameter_tuning,
        labels_from_documents=start.labels.taken_from_documents,
        accesses=claims.unaccounted(name, READING),
        assumes=(READABLE,),
        unit_definition=duplicates.defined(UNIT_DEFINITIONS[plan.privacy_unit])
        if grouped
        else None,
        caveats=((duplicates.CAVEAT,) if grouped else ()) + caveats,
        started_from=started_from,
    )
    terms = Terms(
        declared=declared,
        documents=documents_digest(documents),
        title=f"{start.name}, in {out}",
        cut=cut(start, plan.privacy_unit),
        ledger=ledger,
        documents_changed=documents_changed,
    )
    same = identity(start, terms.documents, terms.digest(plan)) | images_of(
        documents, start.preprocessing.image
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
            **same,
            **({"scored": list(scored)} if scored else {}),
        },
        resume=resume,
        quiet=quiet,
    )
    run.announce()
    if (ended := run.ended()) is not None:
        return ended
    found = None
    if audited:
        found = _audited(start, plan, settings, device)
        terms.require_unrefuted(found.run)
    unused = unreached(start)
    read = known_labels(documents, start.labels, warned=view.shown)

    def begun() -> None:
        keep_tokenizer(out, start)
        keep_notes(out, notes or {})

    return run.take(
        lambda charge: private_training(
            start,
            without_copies(read, told=view.shown) if grouped else read,
            plan,
            settings,
            charge=charge,
            device=device,
            view=view,
        ),
        model=start.model,
        title=start.name,
        unused=unused,
        begun=begun,
        before=lambda training, number: decay(training.optimizer, settings, number, plan.steps),
        accesses=_scoring(name, scored),
        change=lambda claim: claim if found is None else found.added_to(claim),
        save=lambda folder, claim: save(folder, start, claim),
    )


def _audited(
    start: Start, plan: PrivacyPlan, settings: PrivateSettings, device: torch.device
) -> Audited:
    """Audits `train_private` itself, as a twin."""

    def recipe(
        begin: Start, documents: Sequence[LabelledDocument], twin: PrivacyPlan, out: Path
    ) -> None:
        made = train_private(
            begin,
            documents,
            twin,
            settings,
            out=out,
            name="invented documents",
            quiet=True,
            device=device,
            copies="keep",  # two canaries may be of the same word
        )
        if made.interrupted:
            raise KeyboardInterrupt

    begun = replace(start, model=copy.deepcopy(start.model))
    prepare(begun, settings, device=device)
    layers = whitening.whitened(begun.model)
    return audits.audit(start, plan, recipe, device=device, layers=layers)


def _scoring(name: str, scored: Sequence[str]) -> tuple[DataAccess, ...]:
    """Returns the accesses to private documents that scores take."""
    purposes = {
        HELD_OUT: f"{HELD_OUT}, shown to whoever trained; nothing was learned from them",
        TESTED: "comparison with documents of a test file, whose copies are left out of its score, "
        "shown to whoever trained; nothing was learned from it",
    }
    return tuple(
        DataAccess(data=name, purpose=purposes[what], accounted_in=(), treatment="not-released")
        for what in scored
    )


def prepared_by(settings: PrivateSettings) -> tuple[PublicData, ...]:
    """Returns the public data that settings measure something on before the first step."""
    inputs = (public_inputs.DATA,) if settings.scaling == "public" else ()
    return (*inputs, public_moments.DATA) if settings.optimizer == "adam-public" else inputs


def described(start: Start) -> dict[str, Any]:
    """Returns what a claim says about the model that training started from, before it is saved.

    Which labels a new output layer knew before follows from the names of both sets alone.
    """
    description: dict[str, Any] = {"start": start.name, "architecture": start.model.architecture}
    if start.kept_labels is not None:
        description["kept_labels"] = list(start.kept_labels)
    return description if start.preprocessing.image is None else {**description, "images": True}


def evaluate(
    start: Start, documents: Sequence[LabelledDocument], *, device: torch.device | None = None
) -> metrics.Score:
    """Returns the entity-level score of the start's model on documents, as it reads their words."""
    ordered, found = _found(start, documents, device)
    return metrics.entity_score(
        (labelled.spans, spans) for labelled, spans in zip(ordered, found, strict=True)
    )


def evaluation_of(start: Start, documents: Sequence[LabelledDocument]) -> Evaluation:
    """Returns the scores of the start's model by label and value, on documents as it reads them.

    Labels that it does not know are left out.
    """
    evaluation = Evaluation(start.labels.fields, keep=0)
    for labelled, spans in zip(*_found(start, documents), strict=True):
        evaluation.add(labelled, entities_of(replace(labelled, spans=tuple(spans))))
    return evaluation


def _found(
    start: Start, documents: Sequence[LabelledDocument], device: torch.device | None = None
) -> tuple[list[LabelledDocument], list[list[Span]]]:
    device = device or best_device()
    ordered = in_order(documents, start.preprocessing)
    model = start.model.to(device)
    return ordered, predict(model, start.encoder, start.labels, ordered, device=device)


def best_device() -> torch.device:
    """Returns the GPU if there is one, the CPU otherwise."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def decay(
    optimizer: torch.optim.Optimizer, settings: PrivateSettings, number: int, steps: int
) -> None:
    """Sets the step size of a private step, where it goes down to zero."""
    if settings.decay:
        epochs.set_rate(optimizer, settings.learning_rate * (1 - (number - 1) / steps))


def save(folder: Path, start: Start, claim: Claim) -> None:
    """Writes the start's model, as it is now, as a checkpoint.

    The labels that its output layer knew before stand in every claim. They follow from what a
    resumed run must share, so digests of claims need not have them, and earlier runs go on.
    """
    known = {"kept_labels": list(start.known_labels)}
    claim = replace(claim, training={**claim.training, **known})
    checkpoint.save(
        folder,
        architecture=start.model.architecture,
        labels=start.labels,
        preprocessing=start.preprocessing,
        claim=claim,
        tokenizer_json=start.tokenizer_json,
        save_weights=start.model.to("cpu").save,
    )


def images_of(
    documents: Sequence[LabelledDocument], settings: ImagePreprocessing | None
) -> dict[str, str]:
    """Returns what a resumed run must share besides, where the model reads images."""
    return {} if settings is None else {"images": images_digest(documents)}


def require_images(
    documents: Sequence[LabelledDocument], settings: ImagePreprocessing | None
) -> None:
    """Raises unless each page with words has an image, where the model reads images."""
    if settings is None:
        return
    for labelled in documents:
        for number, page in enumerate(labelled.document.pages):
            if page.words:
                pixels_of_page(labelled.document, number, settings)


def require_documents(documents: Sequence[object]) -> None:
    """Raises unless there is a document."""
    if not documents:
        raise EmptyDocumentError(
            "There is no document to train on; at least one is needed. Check the data path."
        )


def require_readable(documents: Sequence[LabelledDocument], start: Start) -> None:
    """Raises unless all can be read, so that no step is charged before one can't."""
    require_documents(documents)
    for labelled in documents:
        labelled.document.check()
        try:
            tags_of_pages(labelled)
        except AnnotationError as error:
            name = arguments.short_repr(labelled.document.id)
            raise AnnotationError(f"Document {name}: {error}") from error
    require_images(documents, start.preprocessing.image)
