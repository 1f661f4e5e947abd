"""Training by several parties: from a roster to a checkpoint with its claim, of any task.

`client_of` and `coordinator_of` make the parties of a roster, wherever they run.
"""

from __future__ import annotations

import copy
import secrets
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from hushdoc.arguments import printable
from hushdoc.certificate import guarantees
from hushdoc.certificate.claim import OVERLAPS, WATCHES_TRAINING, Claim, PublicData
from hushdoc.errors import CheckpointError, HushdocError, InputError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc.signing.keys import PrivateKey
from hushdoc_training import duplicates
from hushdoc_training.federated import claims as federated_claims
from hushdoc_training.federated import evidence
from hushdoc_training.federated.account import Account, Budget
from hushdoc_training.federated.claims import Executed
from hushdoc_training.federated.clear_sum import ClearClient, ClearCoordinator
from hushdoc_training.federated.client import Client, Limits
from hushdoc_training.federated.coordinator import Coordinator, Waits
from hushdoc_training.federated.frames import Frame
from hushdoc_training.federated.plan import (
    FEDAVG,
    FEDAVG_DP,
    IN_THE_CLEAR,
    PROVIDER,
    FederatedPlan,
)
from hushdoc_training.federated.roster import Party, Roster
from hushdoc_training.federated.secure_sum import SumTerms, Terms
from hushdoc_training.federated.sum_client import SumClient
from hushdoc_training.federated.sum_coordinator import SumCoordinator
from hushdoc_training.federated.testimony import OWN
from hushdoc_training.federated.updates import (
    ALONE,
    FeAm,
    FedAvg,
    FedAvgDp,
    LocalTraining,
    ProviderUpdates,
)
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import adapters, whitening
from hushdoc_training.models.whitening import Whitened
from hushdoc_training.privacy import claims, earlier_steps
from hushdoc_training.privacy.trained_tensors import count, load, trained_tensors, weights_of
from hushdoc_training.receipt import Receipt
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.federated_tasks import TASKS, Start, Task, task_of
from hushdoc_training.recipes.federated_updates import ClientUpdate, server_step_of
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.runs import start_weights
from hushdoc_training.runs.account import CHANGED
from hushdoc_training.runs.claim_words import READABLE, READING
from hushdoc_training.runs.receipts import Declared

KEY, LEDGER = "key.pem", "ledger"
"""Files of a party's folder, beside its ROSTER, which in a simulation is beside the folders."""

_CPU = torch.device("cpu")

_PREPARED: weakref.WeakKeyDictionary[torch.nn.Module, tuple[Any, Any]] = weakref.WeakKeyDictionary()
"""What a start's model was prepared for, and the start with a model that is."""

PHASE_SECONDS = 600.0
"""How long one phase of a sum is waited for."""

SIMULATED = (
    "each party runs on a machine of its own and keeps its keys and documents to itself; this run "
    "was a simulation, in which one process held all of them"
)


_OTHER_DIRECTIONS = (
    " Directions of public words, which each party computes, came out otherwise here, as they may "
    "on another processor, or the roster is of a version that did not note them. Such runs need a "
    "new roster whose training has the scaling 'none'."
)

_OF_ALL = ("trained", "rank", "dropout", "read_layers", "scaling", "recipe")
"""Settings that any algorithm reads."""


@dataclass(frozen=True, kw_only=True)
class FederatedSettings:
    """What federated training needs besides its plan, the same at all parties.

    Attributes:
        training: What is trained and at which rate: that of the server's Adam (`feam-dp`), or of
            clients' own DP-Adam (`fedavg-dp`).
        local: Of `fl-provider-dp` and `fedavg`: how a client trains on its own.
    """

    training: PrivateSettings = PrivateSettings()
    local: LocalTraining = LocalTraining()


def numbers_of(start: Start, settings: FederatedSettings, algorithm: str) -> int:
    """Returns how many numbers an update has, as a plan has to say."""
    return count(trained_tensors(_own(start, settings, _CPU).model)) + (algorithm == FEDAVG)


def roster_of(
    plan: FederatedPlan,
    start: Start,
    settings: FederatedSettings,
    *,
    coordinator: Party,
    clients: Sequence[Party],
    public_data: tuple[PublicData, ...] = (),
) -> Roster:
    """Returns the roster of a new run, which its coordinator signs and all parties approve.

    Raises:
        CertificateError: BAD_FIELD, where two parties can't be told apart.
        PrivacyError: The start has seen private documents.
        ValueError: The plan has another number of clients, or of numbers, or a unit that the task
            makes no records of.
    """
    starts.require_public(start)
    starts.require_told(start)
    task_of(start).require_unit(plan)
    _require_scalable(plan, settings)
    numbers = numbers_of(start, settings, plan.algorithm)
    if (plan.clients, plan.numbers) != (len(clients), numbers):
        raise ValueError(
            f"The plan has {plan.clients} clients and updates of {plan.numbers} numbers; there are "
            f"{len(clients)} clients, and {numbers} numbers are sent."
        )
    measured = task_of(start).prepared_by(settings.training)
    told = (*starts.history(start), *public_data, *measured)
    made = Roster(
        run=secrets.token_hex(16),
        plan=plan.to_dict(),
        task=_task(start, settings) | {"public_data": [found.to_dict() for found in told]},
        start=start_digest(start),
        coordinator=coordinator,
        clients=tuple(clients),
    )
    return Roster.from_dict(made.to_dict())


def settings_of(roster: Roster) -> FederatedSettings:
    """Returns the settings that a roster has."""
    return FederatedSettings(
        training=PrivateSettings(**roster.task["training"]),
        local=LocalTraining(**roster.task["local"]),
    )


def require_readable(roster: Roster) -> None:
    """Raises InputError BAD_ROSTER unless this version can read a roster's plan and task."""
    try:
        FederatedPlan.from_dict(roster.plan)
        settings_of(roster)
        TASKS[roster.task["task"]].read(roster.task)
        for found in roster.task.get("public_data", ()):
            PublicData.from_dict(found, "public_data")
    except (AttributeError, HushdocError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"The roster has a plan or task that can't be read ({printable(error)}). Ask the "
            "coordinator for one that `hushdoc federated init` of this version wrote.",
            code="BAD_ROSTER",
        ) from error


def public_data_of(roster: Roster) -> tuple[PublicData, ...]:
    """Returns the public data that a roster's start learned from, or its training measures.

    A CheckpointError refuses the roster of a version that did not say it.
    """
    if "public_data" not in roster.task:
        raise CheckpointError(
            "The roster does not say what public data its start had learned from, which the "
            "certificate has to list: it is of an earlier version. Make a new one with `hushdoc "
            "federated init`."
        )
    return tuple(PublicData.from_dict(found, "public_data") for found in roster.task["public_data"])


def require_start(roster: Roster, start: Start) -> None:
    """Refuses a start that is not the roster's, or knows of data that the roster leaves out.

    Raises:
        CheckpointError: Weights, labels or settings differ, or the roster does not list, or lists
            as less of the protected documents, what the start's own claim says it learned from.
        PrivacyError: The start was trained on protected documents.
    """
    starts.require_public(start)
    _require_listed(starts.history(start), public_data_of(roster))
    settings = settings_of(roster)  # with defaults for what its version did not know
    _require_scalable(FederatedPlan.from_dict(roster.plan), settings)
    found = {"start": start_digest(start), **_task(start, settings)}
    wanted = {"start": roster.start, **roster.task, **asdict(settings)}
    different = sorted(name for name in found if found[name] != wanted.get(name))
    if different:
        raise CheckpointError(
            f"The start '{start.name}' differs from the roster's in: {', '.join(different)}. Give "
            "the model and labels that the roster was made with; its coordinator has them."
            + (_OTHER_DIRECTIONS if "directions" in different else "")
        )


def _require_listed(known: Sequence[PublicData], listed: Sequence[PublicData]) -> None:
    for data in known:
        said = data.overlap_with_protected
        worse = OVERLAPS if said == "unknown" else OVERLAPS[OVERLAPS.index(said) :]
        if not any(replace(data, overlap_with_protected=word) in listed for word in worse):
            raise CheckpointError(
                f"The start has learned from '{printable(data.name)}', overlap {said}, which the "
                "roster does not list, or lists as holding less of the protected documents, so "
                "that the certificate would say too little. Ask the coordinator for another "
                "roster, made by `hushdoc federated init` from this very start."
            )


def _require_scalable(plan: FederatedPlan, settings: FederatedSettings) -> None:
    if settings.training.scaling != "none" and plan.algorithm in (PROVIDER, FEDAVG):
        raise PrivacyError(
            f"scaling is '{settings.training.scaling}', which is of training by clipped gradients; "
            f"{plan.algorithm} sums what local training moves. Leave it out."
        )


def start_digest(start: Start) -> str:
    """Returns the digest of all weights of a start, trained or not, and of its tokenizer."""
    return f"sha256:{start_weights.digest(start.model, after=start.tokenizer_json.encode())}"


def client_sum(
    roster: Roster, name: str, *, seconds: float, last_round: int = -1
) -> SumClient | ClearClient:
    """Returns what hides a client's vectors on their way into the sum, as the plan says."""
    terms = _terms(roster, seconds)
    if isinstance(terms, SumTerms):
        return SumClient(terms, name, last_round=last_round)
    return ClearClient(terms, name)


def coordinator_sum(roster: Roster, *, seconds: float) -> SumCoordinator | ClearCoordinator:
    """Returns what adds vectors up, as the plan says."""
    terms = _terms(roster, seconds)
    return SumCoordinator(terms) if isinstance(terms, SumTerms) else ClearCoordinator(terms)


def update_of(
    roster: Roster, start: Start, documents: Sequence[LabelledDocument], *, device: torch.device
) -> ClientUpdate[Any]:
    """Returns what a client computes of its documents; the start's model is left as it is.

    Raises:
        AnnotationError: Providers are protected, and a document names none.
        PrivacyError: The guarantee would not hold.
    """
    return update_under(
        FederatedPlan.from_dict(roster.plan), settings_of(roster), start, documents, device=device
    )


def client_of(
    roster: Roster,
    key: PrivateKey,
    update: ClientUpdate[Any],
    *,
    account: Account,
    limits: Limits | None = None,
    seconds: float = PHASE_SECONDS,
) -> Client:
    """Returns a client of a roster, which goes on where its account stands."""
    own_receipt = None
    if isinstance(update, FedAvgDp):
        own = update

        def own_receipt() -> Receipt:
            return own.receipt

    made = Client(
        roster,
        key,
        account=account,
        update=update,
        summing=client_sum(
            roster,
            roster.party_of(key).name,
            seconds=seconds,
            last_round=account.next_round - 1,
        ),
        meter=update.meter if isinstance(update, FeAm | ProviderUpdates) else None,
        receipt=own_receipt,
        checks=None if isinstance(update, FedAvg) else update.claim_details(OWN),
        limits=limits,
    )
    if account.taken:
        if isinstance(update, FedAvgDp):
            update.resume(account.taken, account.receipt)
        elif not isinstance(update, FedAvg):
            update.resume(account.taken)
    return made


def account_of(
    folder: Path,
    roster: Roster,
    start: Start,
    documents: Sequence[LabelledDocument],
    ledger: Ledger | None,
    *,
    documents_changed: bool = False,
) -> Account:
    """Returns a client's account, whose rounds `client_of` reserves in its ledger.

    With `documents_changed` the ledger counts for these documents as well, and all runs for all.
    """
    task, plan = task_of(start), FederatedPlan.from_dict(roster.plan)
    budget = None
    if ledger is not None:
        _require_fit(ledger, plan)
        digest = task.digest(documents, unit=plan.privacy_unit)
        if documents_changed:
            ledger.admit(digest, reason=CHANGED)
        budget = Budget(
            ledger=ledger,
            documents=digest,
            step=plan.own_round,
            cut=task.cut(start, plan.privacy_unit),
        )
    elif plan.algorithm != FEDAVG:
        raise PrivacyError(
            "A client of private training charges a ledger of its own, and none was given. Make "
            "one for these documents with `hushdoc ledger init`."
        )
    return Account(folder, roster, rounds=plan.cap, budget=budget)


def coordinator_of(
    roster: Roster,
    key: PrivateKey,
    start: Start,
    *,
    folder: Path,
    seconds: float = PHASE_SECONDS,
) -> Coordinator:
    """Returns the coordinator of a roster, which goes on where its folder stands.

    It waits `seconds` for clients, and for each phase of a sum as long.
    """
    plan, settings = FederatedPlan.from_dict(roster.plan), settings_of(roster)
    return Coordinator(
        roster,
        key,
        folder=folder,
        weights=weights_of(trained_tensors(_own(start, settings, _CPU).model)),
        step=server_step_of(plan, settings.training),
        summing=coordinator_sum(roster, seconds=seconds),
        waits=Waits(clients=seconds),
    )


def claim_of(
    roster: Roster,
    coordinator: Coordinator,
    declared: Declared,
    *,
    simulated: bool = False,
) -> Claim:
    """Returns the claim of a run that has ended, with a guarantee against each adversary.

    Of a `simulated` run, in which nobody but one process was there, guarantees against those who
    watch training hold on the condition that there are such parties.
    """
    made = federated_claims.claim(
        FederatedPlan.from_dict(roster.plan),
        Executed.testified(
            coordinator.testified,
            took_part=coordinator.took_part,
            begun=coordinator.begun,
            aborted=len(coordinator.aborted),
            roster=roster.digest,
        ),
        declared,
    )
    if not simulated:
        return made
    return replace(
        made,
        guarantees=tuple(
            guarantees.conditional(guarantee, SIMULATED)
            if guarantee.kind == "dp" and guarantee.adversary in WATCHES_TRAINING
            else guarantee
            for guarantee in made.guarantees
        ),
    )


def trained(roster: Roster, coordinator: Coordinator, start: Start) -> Start:
    """Returns a copy of the start with the weights that a run has come to."""
    own = _own(start, settings_of(roster), _CPU)
    private = FederatedPlan.from_dict(roster.plan).algorithm != FEDAVG
    moved = earlier_steps.Moved(dict(own.model.named_parameters()), private=private)
    with adapters.merging(own.model):
        load(trained_tensors(own.model), coordinator.weights)
    moved.end(dict(own.model.named_parameters()))  # the start's own claim tells nothing of them
    return own


def save(folder: Path, model: Start, claim: Claim) -> None:
    """Writes a trained model as a checkpoint."""
    task_of(model).save(folder, model, claim)


def declared_of(
    roster: Roster,
    start: Start,
    *,
    name: str,
    hyperparameter_tuning: str = "none",
    caveats: tuple[str, ...] = (),
    assumes: tuple[str, ...] = (),
) -> Declared:
    """Returns what the claim of a run says besides what was executed."""
    task, grouped = task_of(start), _groups(FederatedPlan.from_dict(roster.plan))
    return Declared(
        name=name,
        public_data=public_data_of(roster),
        training={**task.described(start), **trained_by(roster)},
        hyperparameter_tuning=hyperparameter_tuning,
        labels_from_documents=task.labels_from_documents(start),
        accesses=claims.unaccounted(name, READING),
        assumes=(READABLE, *assumes),
        unit_definition=unit_definition(roster),
        caveats=((duplicates.CAVEAT,) if grouped else ()) + caveats,
    )


def trained_by(roster: Roster) -> dict[str, Any]:
    """Returns the settings that claims of a roster's run name."""
    return _used(settings_of(roster), FederatedPlan.from_dict(roster.plan).algorithm)


def require_testified(claim: Claim, roster: Roster, testified: Mapping[str, Frame]) -> None:
    """Raises as `evidence.require` unless a claim says what clients and the roster say."""
    evidence.require(
        claim,
        roster,
        testified,
        unit_definition(roster),
        public_data_of(roster),
        reads=READING,
        assumes=(READABLE,),
        settings=trained_by(roster),
    )


def unit_definition(roster: Roster) -> str:
    """Returns what one protected unit is in a roster's task."""
    plan = FederatedPlan.from_dict(roster.plan)
    definition = TASKS[roster.task["task"]].definition(plan.privacy_unit)
    return duplicates.defined(definition) if _groups(plan) else definition


def _groups(plan: FederatedPlan) -> bool:
    """Returns whether documents of the same words are one record.

    A document of a provider would be in training or not as another provider has it too, and a
    window less may make two documents the same, so that all windows of one are left out.
    """
    return plan.privacy_unit == "document"


def _used(settings: FederatedSettings, algorithm: str) -> dict[str, Any]:
    """Returns the settings that an algorithm reads: nobody steps by what is not listed."""
    told = settings.training.claimed()
    if algorithm in (PROVIDER, FEDAVG):
        kept = {name: told[name] for name in _OF_ALL if name in told}
        return {**kept, "local": asdict(settings.local)}
    return told | {"backend": ALONE} | ({"decay": False} if algorithm == FEDAVG_DP else {})


def one_of_copies(
    documents: Sequence[LabelledDocument], plan: FederatedPlan, task: Task
) -> list[LabelledDocument]:
    """Returns one of all documents with the same words, where a document is the unit; else all."""
    return task.distinct(documents) if _groups(plan) else list(documents)


def _require_fit(ledger: Ledger, plan: FederatedPlan) -> None:
    if plan.delta is None:
        raise PrivacyError(
            f"{plan.algorithm} adds no noise, so that no ledger can count it; the documents are "
            f"spent whatever '{ledger.path}' says. Leave the ledger out, or take no part."
        )
    if (ledger.unit, ledger.delta) != (plan.privacy_unit, plan.delta):
        raise PrivacyError(
            f"The ledger '{ledger.path}' counts for each {ledger.unit} at delta {ledger.delta:g}, "
            f"the plan protects each {plan.privacy_unit} at delta {plan.delta:g}. Give a ledger "
            "that was made for this unit and delta."
        )


def _terms(roster: Roster, seconds: float) -> Terms:
    plan = FederatedPlan.from_dict(roster.plan)
    common: dict[str, Any] = {
        "run": roster.run,
        "roster": roster.digest,
        "silent": plan.silent,
        "numbers": plan.numbers,
        "seconds": seconds,
    }
    if plan.mode == IN_THE_CLEAR:
        return Terms(**common)
    return SumTerms(
        **common,
        keys=roster.public_keys,
        mode=plan.mode,
        clients_per_round=plan.clients_per_round,
        colluding=plan.colluding,
        rounds=plan.rounds,
        ring_bits=plan.ring_bits,
    )


def _task(start: Start, settings: FederatedSettings) -> dict[str, Any]:
    """Returns what a roster says of model, labels and settings.

    Directions that a layer learns in are computed by each party. They turn by a rounding, and
    changes along others must not be added up.
    """
    task = task_of(start)
    told = {"task": task.word, **task.told(start), **asdict(settings)}
    if settings.training.scaling != "none":
        told["directions"] = start_weights.digest(_own(start, settings, _CPU).model)
    return told


def _own(start: Start, settings: FederatedSettings, device: torch.device) -> Start:
    """Returns a party's own copy of the start, frozen but for what is trained.

    It is prepared once for a start, which may read public documents.
    """
    begun: Any = start  # of one of several kinds, each with a model of its own
    key = (start_digest(start), settings.training, device)
    known, own = _PREPARED.get(start.model, (None, begun))
    if known != key or not _is_alike(own, begun):
        own = replace(begun, model=copy.deepcopy(start.model))
        task_of(own).prepared(own, settings.training, device=device)
        _PREPARED[start.model] = key, own
    return replace(own, model=copy.deepcopy(own.model))


def whitened(
    start: Start, settings: FederatedSettings, device: torch.device
) -> dict[str, Whitened]:
    """Returns what parties have beside the layers that learn whitened, by the layers' names."""
    return whitening.whitened(_own(start, settings, device).model)


def _is_alike(one: Any, other: Any) -> bool:
    """Returns whether two starts are of the same parts, whatever their models."""
    names = [found.name for found in fields(one) if found.name != "model"]
    return all(getattr(one, name) is getattr(other, name) for name in names)


def update_under(
    plan: FederatedPlan,
    settings: FederatedSettings,
    start: Start,
    documents: Sequence[LabelledDocument],
    *,
    device: torch.device,
) -> ClientUpdate[Any]:
    """Returns what a client of a plan computes, whatever its roster; see `update_of`."""
    task = task_of(start)
    return task.update_of(
        _own(start, settings, device),
        one_of_copies(task.known(documents, start), plan, task),
        plan,
        settings.training,
        device=device,
        local=settings.local,
    )
