"""All parties of a federated training in one process: for trying plans, and for measuring."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import torch

from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Composed
from hushdoc.certificate.claim import PublicData
from hushdoc.errors import PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc.signing import keys
from hushdoc.signing.keys import PrivateKey
from hushdoc.system.progress import TaskProgress
from hushdoc_training.data import providers
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.client import Client, Limits
from hushdoc_training.federated.coordinator import Coordinator
from hushdoc_training.federated.in_process import InProcess
from hushdoc_training.federated.partition import Partition
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.federated.roster import COORDINATOR, Party, Roster
from hushdoc_training.federated.standing import ROSTER
from hushdoc_training.federated.transport import drive
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.docvqa import canaries
from hushdoc_training.recipes.docvqa.canaries import Canaries
from hushdoc_training.recipes.docvqa.start import Start as DocVQAStart
from hushdoc_training.recipes.federated_parties import (
    KEY,
    LEDGER,
    FederatedSettings,
    account_of,
    claim_of,
    client_of,
    coordinator_of,
    declared_of,
    one_of_copies,
    roster_of,
    save,
    start_digest,
    trained,
    update_under,
    whitened,
)
from hushdoc_training.recipes.federated_tasks import Start, task_of
from hushdoc_training.recipes.kie.training import best_device
from hushdoc_training.runs import state
from hushdoc_training.runs.loop import Outcome
from hushdoc_training.runs.run_folder import CHECKPOINT, Run


def divided(
    documents: Sequence[LabelledDocument], partition: Partition
) -> list[list[LabelledDocument]]:
    """Returns the documents of each client of a partition."""
    return [[documents[index] for index in share] for share in partition]


def simulate(
    start: Start,
    shares: Sequence[Sequence[LabelledDocument]],
    plan: FederatedPlan,
    settings: FederatedSettings,
    *,
    out: Path,
    name: str,
    public_data: tuple[PublicData, ...] = (),
    hyperparameter_tuning: str = "none",
    caveats: tuple[str, ...] = (),
    assumes: tuple[str, ...] = (),
    resume: bool = False,
    quiet: bool = False,
    device: torch.device | None = None,
    num_canaries: int = 0,
) -> Outcome:
    """Runs all parties of a federated training in one process, and writes `out/checkpoint`.

    Ctrl-C ends the round under way; a resumed run goes on with the next one.

    Args:
        start: What all start from.
        shares: The documents of each client; where a document is the unit, one of those with the
            same words is read.
        plan: What is run.
        settings: What the plan does not say.
        out: A new folder: a folder for each party, with its key, ledger and state.
        name: What the certificate calls the documents.
        public_data: What the start learned from, besides its claim's.
        hyperparameter_tuning: On what the settings were chosen.
        caveats: What a reader of the certificate must know besides.
        assumes: What must be true of the shares besides.
        resume: Goes on with the run in `out`.
        quiet: Shows no progress.
        device: Where is computed.
        num_canaries: Invented providers, divided among the clients, that take part by coins and
            bound the epsilon of this run from below; of questions alone.

    Raises:
        CheckpointError: The coins of the run in `out` are not there.
        FederatedRunError: The run can't go on; it can be resumed.
        InputError: Canaries are asked for, and the model reads images.
        PrivacyError: The guarantee would not hold, or canaries have none to bound.
        ValueError: The plan has another number of clients.
    """
    device, task = device or best_device(), task_of(start)
    if len(shares) != plan.clients:
        raise ValueError(f"There are {len(shares)} shares; the plan has {plan.clients} clients.")
    starts.require_public(start)
    everything = [labelled for share in shares for labelled in share]
    task.readable(everything, start)
    kept = {id(labelled) for labelled in one_of_copies(everything, plan, task)}
    names = tuple(f"client-{number + 1:02d}" for number in range(plan.clients))
    held = {
        client: [labelled for labelled in share if id(labelled) in kept]
        for client, share in zip(names, shares, strict=True)
    }
    found: Canaries | None = None
    if num_canaries:
        if not isinstance(start, DocVQAStart) or plan.epsilon is None:
            raise PrivacyError(
                f"{num_canaries} canaries are to bound an epsilon of {task.word} by "
                f"{plan.algorithm}; expected docvqa, as they are asked questions, by an algorithm "
                "with privacy. Leave them out."
            )
        found = canaries.of_run(start, num_canaries, resumed_in=out if resume else None)
        for number in found.included.nonzero()[0]:  # each where it is whatever others' coins are
            held[names[number % plan.clients]].append(found.documents[number])
    # What refuses to train does so before a folder is taken and a round is reserved.
    _require_places(held.values(), plan)
    updates = {
        client: update_under(plan, settings, start, documents, device=device)
        for client, documents in held.items()
    }
    same = {
        "mode": "federated",
        "start": start_digest(start),
        "plan": plan.to_dict(),
        **({"canaries": num_canaries} if found else {}),
        **asdict(settings),
        "documents": {
            client: task.digest(documents, unit=plan.privacy_unit)
            for client, documents in held.items()
        },
        "name": name,
        "public_data": [found.to_dict() for found in (*starts.history(start), *public_data)],
        "hyperparameter_tuning": hyperparameter_tuning,
        "caveats": list(caveats),
        **({"labels_from_documents": True} if task.labels_from_documents(start) else {}),
    }
    run = Run.open(out, same, resume=resume)
    if run.is_finished:
        return Outcome(charged=plan.rounds, interrupted=False)
    if found:
        canaries.keep(out, found)
    roster, party_keys = _parties(out, plan, start, settings, names, public_data)
    with ExitStack() as parties:
        clients = {
            client: client_of(
                roster,
                party_keys[client],
                updates[client],
                account=parties.enter_context(
                    account_of(
                        out / client, roster, start, documents, _ledger(out / client, plan, name)
                    )
                ),
                limits=Limits(max_epsilon=None, min_clients=1),
            )
            for client, documents in held.items()
        }
        for one in clients.values():
            parties.callback(one.leave)
        coordinator = parties.enter_context(
            coordinator_of(roster, party_keys[COORDINATOR], start, folder=out / COORDINATOR)
        )
        _drive(coordinator, clients, plan, quiet=quiet)
        if coordinator.phase == "paused":
            return Outcome(charged=coordinator.begun, interrupted=True)
        declared = declared_of(
            roster,
            start,
            name=name,
            hyperparameter_tuning=hyperparameter_tuning,
            caveats=caveats,
            assumes=assumes,
        )
        claim = claim_of(roster, coordinator, declared, simulated=True)
        model = trained(roster, coordinator, start)
        if found and isinstance(start, DocVQAStart):
            layers = whitened(start, settings, device)
            audited = found.audited(start, model.model, claim, device=device, layers=layers)
            claim = canaries.added_to(claim, audited)
        save(out / CHECKPOINT, model, claim)
    return Outcome(charged=coordinator.begun, interrupted=False)


def _require_places(shares: Iterable[Sequence[LabelledDocument]], plan: FederatedPlan) -> None:
    """Raises PrivacyError where a provider is at more clients than the plan counts for one."""
    if plan.privacy_unit != "provider":
        return
    places = Counter(
        name for share in shares for name in {providers.name_of(labelled) for labelled in share}
    )
    most = max(places.values(), default=0)
    if most > plan.places:
        raise PrivacyError(
            f"Documents of one provider are at {most} clients, and the plan counts {plan.places} "
            "places of a provider. Divide documents by provider (--partition provider), or plan "
            "for as many places (--places)."
        )


def _drive(
    coordinator: Coordinator, clients: Mapping[str, Client], plan: FederatedPlan, *, quiet: bool
) -> None:
    shown = 0

    def show(run: Coordinator) -> None:
        nonlocal shown
        if len(run.attempts) > shown:
            shown = len(run.attempts)
            progress.show(run.attempts[-1].round, plan.rounds, _missing(run))
        for name, client in clients.items():
            for told in client.news():
                warnings.warn(f"{name}: {told}", stacklevel=2)

    with (
        state.interrupts() as interrupted,
        TaskProgress("round", begun=coordinator.begun, quiet=quiet) as progress,
    ):
        drive(
            coordinator,
            InProcess(clients),
            seen=show,
            stop=interrupted,
        )


def _missing(coordinator: Coordinator) -> str:
    """Returns what a line of progress says of clients that did not answer."""
    if not coordinator.attempts or not coordinator.attempts[-1].missing:
        return ""
    return f"  without {', '.join(coordinator.attempts[-1].missing)}"


def _parties(
    out: Path,
    plan: FederatedPlan,
    start: Start,
    settings: FederatedSettings,
    names: Sequence[str],
    public_data: tuple[PublicData, ...],
) -> tuple[Roster, dict[str, PrivateKey]]:
    """Returns the roster in a simulation's folder and the keys of all, made where missing."""
    found: dict[str, PrivateKey] = {}
    for name in (COORDINATOR, *names):
        path = out / name / KEY
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            keys.write_private_key(keys.generate_key(), path)
        found[name] = keys.load_private_key(path)
    if not (out / ROSTER).exists():
        clients = [Party.of(name, found[name]) for name in names]
        coordinator = Party.of(COORDINATOR, found[COORDINATOR])
        made = roster_of(
            plan,
            start,
            settings,
            coordinator=coordinator,
            clients=clients,
            public_data=public_data,
        )
        rosters.save(out / ROSTER, made, found[COORDINATOR])
    return rosters.load(out / ROSTER), found


def _ledger(folder: Path, plan: FederatedPlan, name: str) -> Ledger | None:
    """Returns a simulated client's ledger, which has room for this run alone."""
    if plan.epsilon is None or plan.delta is None:
        return None
    path = folder / LEDGER
    if path.exists():
        return Ledger.open(path)
    # It counts every adversary, also those whom the plan's target is not for, and the rounds that
    # a client was in without the chance that it was not drawn.
    rounds = Composed(event=plan.own_round, count=plan.cap)
    needed = pld.epsilon(rounds, plan.delta) * (1 + 1e-6)
    return Ledger.create(
        path,
        data=name,
        unit=plan.privacy_unit,
        epsilon=max(plan.epsilon, needed),
        delta=plan.delta,
    )
