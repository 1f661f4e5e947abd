"""Questions about documents: from labelled documents to a checkpoint with its claim."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hushdoc import arguments
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.errors import AnnotationError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc.runtime.questions import Asking
from hushdoc_training import docvqa_checkpoint, duplicates
from hushdoc_training.federated.central import ProviderTraining
from hushdoc_training.federated.plan import PROVIDER
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import whitening
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.example_losses import ExampleLosses
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.private_steps import PrivateSteps
from hushdoc_training.private_view import PrivateView
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.docvqa import canaries, public_inputs
from hushdoc_training.recipes.docvqa.private import (
    losses_of,
    prepared,
    private_training,
    provider_training,
    trained_part,
)
from hushdoc_training.recipes.docvqa.rows import Example, examples_of, unit_definition
from hushdoc_training.recipes.docvqa.start import Start
from hushdoc_training.recipes.kie import epochs, identity
from hushdoc_training.recipes.kie.records import in_order
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.recipes.kie.training import (
    best_device,
    decay,
    images_of,
    require_documents,
    require_images,
)
from hushdoc_training.recipes.starts import (
    added_to,
    history,
    keep_tokenizer,
    require_carried,
)
from hushdoc_training.runs import claim_words
from hushdoc_training.runs.account import Terms
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.receipts import Declared
from hushdoc_training.runs.recipe_run import RecipeRun
from hushdoc_training.runs.run_folder import Run, keep_notes

PLAIN = ("all", "output")
"""What training without privacy changes: everything, or the reader of a pointer alone."""

LOCAL_SETTINGS = ("trained", "dropout", "recipe")
"""Private settings that FL-PROVIDER-DP has as well; all others are of its local training."""


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
    notes: Mapping[str, str] | None = None,  # texts to keep in `out`, by their names
    trained: str = PLAIN[0],  # one of PLAIN
) -> Outcome:
    """Trains without privacy and writes `out/checkpoint`.

    Where the output alone is trained, nothing drops out, and a pointer encodes each window once.

    Raises:
        PrivacyError: The start has seen protected documents, and the claim does not say so.
        AnnotationError: No question has an answer that can be learned.
    """
    device = device or best_device()
    arguments.choice(trained, PLAIN, what="trained")
    require_readable(documents, start.asking)
    require_carried(start, claim)
    examples = [
        example
        for labelled in in_order(documents, start.asking.of_pages)
        for example in examples_of([labelled], start.encoder, most=len(labelled.questions))
    ]
    if not examples:
        raise AnnotationError(
            "No question has words of its page as its answer, so there is nothing to learn. Give "
            "documents with questions; `hushdoc data show` counts them."
        )
    claimed = hashlib.sha256(claim.to_json()).hexdigest()
    same = _identity(start, documents_digest(documents), claimed)
    same |= images_of(documents, start.asking.image)
    part = {} if trained == PLAIN[0] else {"trained": trained}
    run = Run.open(out, {"mode": "plain", **part, **asdict(settings), **same}, resume=resume)
    keep_tokenizer(out, start)
    keep_notes(out, notes or {})
    torch.manual_seed(settings.seed)
    model, losses = _plain_part(start, trained, device=device)

    def loss(chosen: list[Any], _epoch: int, _step: int) -> torch.Tensor:
        return losses(chosen).mean()

    return epochs.train(
        run,
        examples,
        settings,
        model=model,
        loss=loss,
        save=lambda folder: save(folder, start, claim),
        title=f"{start.name}: training without privacy",
        quiet=quiet,
    )


def _plain_part(
    start: Start, trained: str, *, device: torch.device
) -> tuple[nn.Module, ExampleLosses[Example]]:
    """Returns what is trained without privacy, and its losses."""
    if trained == PLAIN[0]:
        return start.model.to(device).train(), partial(losses_of, start, device=device)
    settings = PrivateSettings(trained=trained)
    prepared(start, settings, device=device)
    return trained_part(start, settings, device=device)


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
    copies: str = "group",  # one of `duplicates.CHOICES`, of the unit "document"
    notes: Mapping[str, str] | None = None,  # texts to keep in `out`, by their names
    num_canaries: int = 0,  # invented providers that bound this run's epsilon from below
    local: LocalTraining | None = None,  # with it the steps are those of FL-PROVIDER-DP
    caveats: tuple[str, ...] = (),  # what a reader of the certificate must know besides
) -> Outcome:
    """Trains with differential privacy and writes `out/checkpoint`.

    A record is everything of one provider or one document, clipped once: its gradient, for DP-Adam
    or DP-SGD, or what local training on it moves, for FL-PROVIDER-DP with one client. Copies of a
    document are one record where documents are protected; under a provider they are in its record
    anyway.

    Raises:
        AnnotationError: Providers are protected, and a document has none.
        PrivacyError: The start has seen private documents, the model can't be trained privately, or
            the ledger has no room for the run.
        InputError: The ledger can't be read, or counts another unit or at another delta.
        CheckpointError: There is nothing to resume.
    """
    device = device or best_device()
    view = PrivateView.of(private_numbers)
    by_document = plan.privacy_unit == "document"
    grouped = by_document and arguments.choice(copies, duplicates.CHOICES, what="copies") == "group"
    require_known(settings, start.asking, local)
    require_readable(documents, start.asking)
    started_from = added_to(start)
    defined = unit_definition(plan.privacy_unit)
    moved = claim_words.change_bound(plan.privacy_unit, plan.clipping_norm)
    declared = Declared(
        name=name,
        public_data=(*history(start), *public_data, *prepared_by(settings)),
        training={**described(start), **_claimed(settings, local)},
        hyperparameter_tuning=hyperparameter_tuning,
        accesses=claims.unaccounted(name, claim_words.READING),
        assumes=(claim_words.READABLE,),
        unit_definition=duplicates.defined(defined) if grouped else defined,
        contribution_bound=None if local is None else moved,
        caveats=((duplicates.CAVEAT,) if grouped else ()) + caveats,
        started_from=started_from,
    )
    terms = Terms(
        declared=declared,
        documents=documents_digest(documents),
        title=f"{start.name}, in {out}",
        ledger=ledger,
        documents_changed=documents_changed,
    )
    found = (
        canaries.of_run(start, num_canaries, resumed_in=out if resume else None)
        if num_canaries
        else None
    )
    begun = replace(start, model=copy.deepcopy(start.model)) if found else start
    run = RecipeRun(
        out=out,
        plan=plan,
        terms=terms,
        settings={
            "mode": "private",
            "private_numbers": private_numbers,
            "copies": copies,
            **({"canaries": num_canaries} if found else {}),
            **({"local": asdict(local)} if local else {}),
            **asdict(settings),
            **_identity(start, terms.documents, terms.digest(plan)),
            **images_of(documents, start.asking.image),
        },
        resume=resume,
        quiet=quiet,
    )
    run.announce()
    if (ended := run.ended()) is not None:
        return ended
    unused = start.unreached()  # no window reaches them, whatever is trained
    read = in_order(documents, start.asking.of_pages)
    if grouped:
        read = distinct(read, told=view.shown)
    if found:
        read = [*read, *found.planted]

    layers: dict[str, Whitened] = {}

    def audited(claim: Claim) -> Claim:
        if not found:
            return claim
        spent = plan.epsilon_after(plan.steps)
        run = found.audited(begun, start.model, claim, device=device, spent=spent, layers=layers)
        return canaries.added_to(claim, run)

    def keep() -> None:
        keep_tokenizer(out, start)
        keep_notes(out, notes or {})
        if found:
            canaries.keep(out, found)

    def make(charge: Callable[[int], None]) -> PrivateTraining[Example] | ProviderTraining[Example]:
        how: dict[str, Any] = {"charge": charge, "device": device, "view": view}
        if local is not None:
            return provider_training(start, read, plan, settings, local, **how)
        made = private_training(start, read, plan, settings, **how)
        layers.update(whitening.whitened(start.model))
        return made

    def before(training: PrivateSteps, number: int) -> None:
        if local is None:
            decay(training.optimizer, settings, number, plan.steps)

    return run.take(
        make,
        model=start.model,
        title=start.name,
        unused=unused,
        begun=keep,
        before=before,
        change=audited,
        save=lambda folder, claim: save(folder, start, claim),
    )


def save(folder: Path, start: Start, claim: Claim) -> None:
    """Writes the start's model, as it is now, as a checkpoint."""
    docvqa_checkpoint.save(
        folder,
        asking=start.asking,
        claim=claim,
        tokenizer_json=start.tokenizer_json,
        save_weights=start.model.to("cpu").save,
    )


def described(start: Start) -> dict[str, Any]:
    """Returns what a claim says about the model that training started from."""
    return {
        "start": start.name,
        "architecture": start.asking.kind,
        "encoder": start.model.architecture,
        **({} if start.asking.image is None else {"images": True}),
    }


def require_readable(documents: Sequence[LabelledDocument], asking: Asking) -> None:
    """Raises unless all can be read, so that no step is charged before one can't."""
    require_documents(documents)
    for labelled in documents:
        labelled.document.check()
        for question in labelled.questions:
            pages = labelled.document.pages
            words = len(pages[question.page].words) if 0 <= question.page < len(pages) else 0
            if not all(0 <= word < words for word in question.word_ids):
                raise AnnotationError(
                    f"Document {arguments.short_repr(labelled.document.id)}: the question "
                    f"{arguments.short_repr(question.text)} is answered by words "
                    f"{arguments.short_repr(question.word_ids)} of page {question.page}, which has "
                    f"{words} words. Correct the question, or leave it out."
                )
    require_images(documents, asking.image)


def require_known(
    settings: PrivateSettings, asking: Asking, local: LocalTraining | None = None
) -> None:
    """Raises PrivacyError for settings that this training does not have."""
    if local is not None:
        default = asdict(PrivateSettings())
        changed = [
            name
            for name, value in asdict(settings).items()
            if name not in LOCAL_SETTINGS and value != default[name]
        ]
        if changed:
            raise PrivacyError(
                f"{', '.join(changed)} are of training by noised gradients, and {PROVIDER} steps "
                "by what local training moves. Leave them out, or set its local training."
            )
        return
    scaled = settings.scaling == "public"
    unknown = {
        "optimizer": (settings.optimizer == "adam-public", "another optimizer"),
        "scaling": (scaled and asking.kind != "pointer", "'none'"),
        "trained": (scaled and settings.trained != "output", "'output' with the scaling 'public'"),
        "read_layers": (settings.read_layers > 1, "1"),
    }
    for name, (lacking, expected) in unknown.items():
        if lacking:
            raise PrivacyError(
                f"{name} is '{getattr(settings, name)}', which training a {asking.kind} on "
                f"questions does not have; expected {expected}. Leave it out."
            )


def prepared_by(settings: PrivateSettings) -> tuple[PublicData, ...]:
    """Returns the public data that settings measure something on before the first step."""
    return (public_inputs.DATA,) if settings.scaling == "public" else ()


def _claimed(settings: PrivateSettings, local: LocalTraining | None) -> dict[str, Any]:
    """Returns what a claim says of settings."""
    claimed = settings.claimed()
    if local is None:
        return claimed
    kept = {name: value for name, value in claimed.items() if name in {*LOCAL_SETTINGS, "rank"}}
    return {**kept, "algorithm": f"{PROVIDER}, one client", "local_training": asdict(local)}


def distinct(documents: Sequence[LabelledDocument], *, told: bool) -> list[LabelledDocument]:
    """Returns one of all documents with the same words; see `duplicates`."""
    return duplicates.distinct(documents, texts=_texts, content=_content, told=told)


def documents_digest(documents: Sequence[LabelledDocument]) -> str:
    """Returns a digest of all that training reads, whatever the order of the documents.

    It answers whether a guessed document is among them, so it stays with the trainer.
    """
    return duplicates.digest_of(
        json.dumps([labelled.document.id, labelled.provider]).encode() + _content(labelled)
        for labelled in documents
    )


def _content(labelled: LabelledDocument) -> bytes:
    """Returns all that training reads of a document, and neither its id nor its provider."""
    asked = [
        [question.text, list(question.answers), question.page, list(question.word_ids)]
        for question in labelled.questions
    ]
    return identity.content(labelled) + json.dumps(asked).encode()


def _texts(labelled: LabelledDocument) -> list[str]:
    return [word.text for page in labelled.document.pages for word in page.words]


def _identity(start: Start, documents: str, claim: str) -> dict[str, Any]:
    """Returns what a resumed run must share with the run that began; `claim` is a digest."""
    return {**starts.identity(start, documents, claim), "asking": start.asking.to_dict()}
