"""Tasks that parties can train together: what a roster, a client and a claim say of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hushdoc.certificate.claim import PublicData
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.runtime.questions import Asking
from hushdoc_training.federated.plan import PROVIDER, FederatedPlan
from hushdoc_training.recipes import federated_docvqa, federated_kie
from hushdoc_training.recipes.docvqa import rows
from hushdoc_training.recipes.docvqa import training as docvqa
from hushdoc_training.recipes.docvqa.start import Start as DocVQAStart
from hushdoc_training.recipes.federated_updates import ClientUpdate
from hushdoc_training.recipes.kie import private as kie_private
from hushdoc_training.recipes.kie import training as kie
from hushdoc_training.recipes.kie.identity import cut, documents_digest
from hushdoc_training.recipes.kie.records import known_labels, without_copies
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start as KieStart

Start = KieStart | DocVQAStart
Documents = Sequence[LabelledDocument]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What differs between tasks; a start is one of its own.

    Attributes:
        word: Its name on the command line and in a roster.
        units: Privacy units that records are made of, but for fl-provider-dp, which has providers.
        told: What a roster says of a start besides.
        read: Reads that again; raises where it says less, or something else.
        described: What a claim says of a start.
        prepared_by: The public data that settings measure something on before the first round.
        labels_from_documents: Whether protected documents gave a start its labels.
        prepared: Makes a party's model ready: frozen but for what is trained.
        update_of: What a client computes of its documents.
        readable: Raises unless all documents can be read.
        known: Documents as a start reads them.
        distinct: One of all documents with the same words.
        digest: Of all that training reads, for the trainer alone.
        definition: What one unit is, in a certificate.
        cut: How documents become the records of a unit, where these are parts of them.
        save: Writes a start's model as a checkpoint.
    """

    word: str
    units: tuple[str, ...]
    told: Callable[[Any], Mapping[str, Any]]
    read: Callable[[Mapping[str, Any]], object]
    described: Callable[[Any], Mapping[str, Any]]
    prepared_by: Callable[[PrivateSettings], tuple[PublicData, ...]]
    labels_from_documents: Callable[[Any], bool]
    prepared: Callable[..., None]
    update_of: Callable[..., ClientUpdate[Any]]
    readable: Callable[[Documents, Any], None]
    known: Callable[[Documents, Any], Documents]
    distinct: Callable[[Documents], list[LabelledDocument]]
    digest: Callable[..., str]
    definition: Callable[[str], str]
    cut: Callable[[Any, str], str]
    save: Callable[..., None]

    def require_unit(self, plan: FederatedPlan) -> None:
        """Raises ValueError where no records are made of a plan's unit."""
        units = ("provider",) if plan.algorithm == PROVIDER else self.units
        if plan.privacy_unit not in units:
            raise ValueError(
                f"privacy_unit is '{plan.privacy_unit}'; expected {' or '.join(units)}, of which "
                f"{plan.algorithm} makes records of {self.word}."
            )


KIE = Task(
    word="kie",
    units=kie_private.UNITS,
    told=lambda start: {
        "architecture": start.model.architecture,
        "labels": list(start.labels.fields),
        "preprocessing": start.preprocessing.to_dict(),
    },
    read=lambda told: (
        LabelSet(fields=tuple(told["labels"])),
        Preprocessing.from_dict(told["preprocessing"], images=True),
    ),
    described=kie.described,
    prepared_by=kie.prepared_by,
    labels_from_documents=lambda start: start.labels.taken_from_documents,
    prepared=federated_kie.prepared,
    update_of=federated_kie.update_of,
    readable=kie.require_readable,
    known=lambda documents, start: known_labels(documents, start.labels, warned=False),
    distinct=partial(without_copies, told=False),
    digest=documents_digest,
    definition=federated_kie.unit_definition,
    cut=cut,
    save=kie.save,
)

DOCVQA = Task(
    word="docvqa",
    units=rows.UNITS,
    told=lambda start: {
        "architecture": start.asking.kind,
        "encoder": start.model.architecture,
        "asking": start.asking.to_dict(),
    },
    read=lambda told: Asking.from_dict(told["asking"]),
    described=docvqa.described,
    prepared_by=docvqa.prepared_by,
    labels_from_documents=lambda start: False,
    prepared=federated_docvqa.prepared,
    update_of=federated_docvqa.update_of,
    readable=lambda documents, start: docvqa.require_readable(documents, start.asking),
    known=lambda documents, start: documents,
    distinct=partial(docvqa.distinct, told=False),
    digest=lambda documents, *, unit: docvqa.documents_digest(documents),
    definition=rows.unit_definition,
    cut=lambda start, unit: "",
    save=docvqa.save,
)

TASKS = {task.word: task for task in (KIE, DOCVQA)}


def task_of(start: Start) -> Task:
    """Returns the task of a start."""
    return DOCVQA if isinstance(start, DocVQAStart) else KIE
