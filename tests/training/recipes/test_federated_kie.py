"""Federated training of forms in one process, from documents to a checkpoint that can be sealed."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_tiny as tiny
import hushdoc_tiny_models as models
import pytest
import torch

from hushdoc.__main__ import main
from hushdoc.certificate.claim import PublicData
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import (
    AnnotationError,
    CheckpointError,
    HushdocError,
    InputError,
    OutputExistsError,
    PrivacyError,
)
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.signing import keys
from hushdoc_training import checkpoint
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.data import providers
from hushdoc_training.federated import account, evidence, testimony
from hushdoc_training.federated import coordinator as coordinators
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.partition import by_provider, equal
from hushdoc_training.federated.plan import FEAM, FEDAVG, FEDAVG_DP, PROVIDER, FederatedPlan
from hushdoc_training.federated.roster import COORDINATOR, Party, Roster
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.models import layout, whitening
from hushdoc_training.privacy import claims, earlier_steps
from hushdoc_training.privacy.trained_tensors import trained_tensors, weights_of
from hushdoc_training.recipes import (
    federated_parties,
    federated_simulation,
    federated_tasks,
    starts,
)
from hushdoc_training.recipes.federated_parties import FederatedSettings
from hushdoc_training.recipes.kie import public_inputs
from hushdoc_training.recipes.kie import start as kie_start
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start
from hushdoc_training.runs import state
from hushdoc_training.runs.claim_words import READABLE, READING

SETTINGS = FederatedSettings(
    training=PrivateSettings(trained="output", learning_rate=0.01),
    local=LocalTraining(learning_rate=0.01),
)
CLIENTS, ROUNDS = 3, 3


@pytest.fixture
def receipts(receipts: list[LabelledDocument]) -> list[LabelledDocument]:
    """A few of those that other tests have: three for each client."""
    return receipts[: 3 * CLIENTS]


@pytest.fixture
def start(receipts: list[LabelledDocument]) -> Start:
    labels = LabelSet(fields=LabelSet.from_documents(receipts).fields)
    return Start(
        model=models.model("layoutlm", labels=labels),
        tokenizer_json=tiny.tokenizer_json(),
        preprocessing=tiny.preprocessing(),
        labels=labels,
        claim=None,
        name="tiny",
    )


def plan_of(start: Start, algorithm: str = FEAM, **change: Any) -> FederatedPlan:
    settings: dict[str, Any] = {
        "algorithm": algorithm,
        "clients": CLIENTS,
        "clients_per_round": CLIENTS,
        "rounds": ROUNDS,
        "sampling_rate": 0.5,
        "clipping_norm": 0.1,
        "expected_records": 100,
        "privacy_unit": "provider" if algorithm == PROVIDER else "document",
        "accountant": "rdp",
        "numbers": federated_parties.numbers_of(start, SETTINGS, algorithm),
        **change,
    }
    if algorithm == FEDAVG:
        settings |= {"sampling_rate": 1.0, "epsilon": None, "delta": None, "noise_multiplier": 0.0}
        return FederatedPlan(**settings)
    return FederatedPlan.calibrated(epsilon=8.0, delta=1e-5, **settings)


def agreed(start: Start) -> tuple[Roster, keys.PrivateKey]:
    """Returns a roster of parties, and its coordinator's key."""
    first, *others = [keys.generate_key() for _ in range(CLIENTS + 1)]
    made = federated_parties.roster_of(
        plan_of(start),
        start,
        SETTINGS,
        coordinator=Party.of(COORDINATOR, first),
        clients=[Party.of(f"client-{place}", key) for place, key in enumerate(others)],
    )
    return made, first


def simulated(
    start: Start, documents: list[LabelledDocument], plan: FederatedPlan, out: Path, **how: Any
) -> Any:
    held = equal(len(documents), plan.clients, seed=0)
    if plan.algorithm == PROVIDER and plan.places == 1:
        held = by_provider([item.provider for item in documents], plan.clients, seed=0)
    shares = federated_simulation.divided(documents, held)
    return federated_simulation.simulate(
        start, shares, plan, SETTINGS, out=out, name="receipts", quiet=True, **how
    )


def sealed_by(plan: FederatedPlan, out: Path) -> Any:
    """Returns the claim of a run, which a checker recomputes."""
    claim = Checkpoint.load(out).claim
    assert [found.code for found in reproduce(claim) if found.code is not None] == []
    assert claim.training["federated"]["aborted"] == 0
    return claim


@pytest.mark.parametrize("algorithm", [FEAM, FEDAVG_DP, PROVIDER])
def test_every_private_algorithm_claims_a_guarantee_against_each_adversary(
    algorithm: str, start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    provided = [
        replace(labelled, provider=f"shop {number % 4}") for number, labelled in enumerate(receipts)
    ]
    plan = plan_of(start, algorithm)
    before = weights_of({"": next(iter(start.model.inner.classifier.parameters()))})
    made = simulated(start, provided, plan, tmp_path / "run")
    assert (made.charged, made.interrupted) == (ROUNDS, False)
    claim = sealed_by(plan, tmp_path / "run")
    kinds = {guarantee.adversary: guarantee.kind for guarantee in claim.guarantees}
    assert kinds == {
        "model-recipient": "dp",
        "server": "dp-conditional",
        "co-client": "dp-conditional",
        "network-observer": "dp-conditional",
    }
    for guarantee in claim.guarantees:
        assert guarantee.epsilon is not None
        assert guarantee.unit == plan.privacy_unit
        assert (providers.TOLD in guarantee.unit_definition) == (plan.privacy_unit == "provider")
        assert (guarantee.condition is None) == (guarantee.adversary == "model-recipient")
        assert READABLE in guarantee.assumes
    assert {*READING} <= {access.purpose for access in claim.data_accesses}
    # The plan has noise for the worst of them: a client that knows its own share.
    assert 7.9 < max(guarantee.epsilon or 0 for guarantee in claim.guarantees) <= 8.0001
    assert claim.training["federated"]["receipts"] == CLIENTS
    require_countersignable(claim, tmp_path / "run")
    stored = layout.load(tmp_path / "run" / "checkpoint", "layoutlm")
    after = weights_of({"": next(iter(stored.inner.classifier.parameters()))})
    assert (before != after).any()
    for client in ("client-01", "client-02", "client-03"):
        (run,) = Ledger.open(tmp_path / "run" / client / "ledger").runs()
        assert (run.charged, run.closed, run.step) == (ROUNDS, True, plan.own_round)


def test_the_ledger_of_a_drawn_client_has_room_for_every_round_that_it_may_be_in(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    """A ledger counts rounds as they were drawn, by what a fellow client sees of them."""
    plan = plan_of(start, participation="drawn", clients_per_round=2, accountant="pld")
    assert plan.colluding == 0
    simulated(start, receipts, plan, tmp_path / "run")
    claim = sealed_by(plan, tmp_path / "run")
    assert max(guarantee.epsilon or 0 for guarantee in claim.guarantees) <= 8.0001
    ledger = Ledger.open(tmp_path / "run" / "client-01" / "ledger")
    assert ledger.epsilon > 8
    assert ledger.spent().charged <= ledger.epsilon


def test_without_privacy_it_says_so(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    plan = plan_of(start, FEDAVG)
    simulated(start, receipts, plan, tmp_path / "run")
    claim = sealed_by(plan, tmp_path / "run")
    assert {guarantee.kind for guarantee in claim.guarantees} == {"none"}
    assert not (tmp_path / "run" / "client-01" / "ledger").exists()
    require_countersignable(claim, tmp_path / "run")


@pytest.mark.parametrize("algorithm", [FEAM, FEDAVG])
def test_what_several_parties_have_trained_starts_no_run_with_a_claim_of_its_own(
    algorithm: str,
    start: Start,
    receipts: list[LabelledDocument],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the same process, by the model itself: the start's claim says nothing of these rounds."""
    made: list[Start] = []
    monkeypatch.setattr(federated_simulation, "save", lambda out, model, claim: made.append(model))
    simulated(start, receipts, plan_of(start, algorithm), tmp_path / "run")
    starts.require_told(start)
    with pytest.raises(PrivacyError) as refused:
        starts.require_told(made[0])
    assert refused.value.code == "TRAINED_BEFORE"
    assert bool(earlier_steps.begun_with(made[0].model)) == (algorithm == FEAM)


def require_countersignable(claim: Any, out: Path) -> None:
    """Does what a client does before it signs the certificate of a run."""
    roster = rosters.load(out / "roster.json")
    testified = testimony.kept(out / "coordinator" / testimony.RECEIPTS, roster)
    federated_parties.require_testified(claim, roster, testified)
    for party in roster.clients:
        known = account.journal_of(out / party.name)
        assert known is not None
        evidence.require_own(*known, party.name, roster, testified)
        others = {name: frame for name, frame in testified.items() if name != party.name}
        with pytest.raises(PrivacyError):
            evidence.require_own(*known, party.name, roster, others)


def with_its_certificate(run: Path, model: Path, key: Path) -> None:
    """Seals a toy model with the certificate of a run: no graph is traced."""
    certified = replace(build.certify(), claim=Checkpoint.load(run).claim)
    build.seal(model, keys.load_private_key(key), certified)


def exported(run: Path, model: Path, key: Path) -> None:
    assert main(["export", str(run), "--out", str(model), "--key", str(key)]) == 0


@pytest.mark.parametrize(
    "seal", [with_its_certificate, pytest.param(exported, marks=pytest.mark.slow)]
)
def test_a_run_is_sealed_and_verified(
    seal: Callable[[Path, Path, Path], None],
    start: Start,
    receipts: list[LabelledDocument],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = plan_of(start, accountant="pld", colluding=1)
    simulated(start, receipts, plan, tmp_path / "run")
    assert main(["keygen", "--out", str(tmp_path / "release")]) == 0
    model = str(tmp_path / "model")
    seal(tmp_path / "run", tmp_path / "model", tmp_path / "release.key")
    trust = ["--trust", str(tmp_path / "release.trust.json")]
    limits = ["--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document"]
    assert main(["verify", model, *trust, *limits]) == 0
    assert main(["verify", model, *trust, *limits, "--adversary", "server"]) == 5
    said = ["--roster", str(tmp_path / "run/roster.json")]
    said += ["--receipts", str(tmp_path / "run/coordinator/receipts")]
    capsys.readouterr()
    assert main(["federated", "check", model, *said]) == 0
    assert rosters.load(tmp_path / "run/roster.json").digest in capsys.readouterr().out


def test_an_interrupted_run_goes_on_after_the_round(
    start: Start,
    receipts: list[LabelledDocument],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, out = plan_of(start), tmp_path / "run"
    asked = itertools.count()

    class Pressed:
        def __enter__(self) -> Callable[[], bool]:
            return lambda: next(asked) > 2

        def __exit__(self, *_: object) -> None:
            pass

    with monkeypatch.context() as patched:
        patched.setattr(state, "interrupts", Pressed)
        made = simulated(start, receipts, plan, out)
    assert made.interrupted
    assert 0 < made.charged < ROUNDS
    assert not (out / "checkpoint").exists()
    with pytest.raises(CheckpointError, match="other settings"):
        simulated(start, receipts[1:], plan, out, resume=True)
    pages = replace(public_inputs.DATA, overlap_with_protected="contained")
    with pytest.raises(CheckpointError, match="settings: hyperparameter_tuning, public_data"):
        simulated(
            start,
            receipts,
            plan,
            out,
            public_data=(pages,),
            hyperparameter_tuning="unaccounted",
            resume=True,
        )
    made = simulated(start, receipts, plan, out, resume=True)
    assert (made.charged, made.interrupted) == (ROUNDS, False)
    sealed_by(plan, out)
    (run,) = Ledger.open(out / "client-01" / "ledger").runs()
    assert run.charged == ROUNDS
    with pytest.raises(OutputExistsError):
        simulated(start, receipts, plan, out)


def test_labels_that_were_taken_from_documents_are_not_declared_when_a_run_goes_on(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = plan_of(start), tmp_path / "run"
    taken = replace(start, labels=replace(start.labels, taken_from_documents=True))

    def killed(self: Any, total: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(coordinators.Coordinator, "_stepped", killed)
        with pytest.raises(KeyboardInterrupt):
            simulated(taken, receipts, plan, out)
    with pytest.raises(CheckpointError, match="settings: labels_from_documents"):
        simulated(start, receipts, plan, out, resume=True)
    assert simulated(taken, receipts, plan, out, resume=True).charged == ROUNDS
    (first, *_) = Checkpoint.load(out).claim.guarantees
    assert not first.covers_all_private_accesses


def test_a_killed_run_goes_on_and_its_lost_round_stays_charged(
    start: Start,
    receipts: list[LabelledDocument],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The ledger counts the server too, which sees more than the adversary that was planned for.
    plan = plan_of(start, mode="individual-updates", against=("model-recipient",))
    out = tmp_path / "run"
    stepped = coordinators.Coordinator._stepped

    def killed(self: Any, total: Any) -> None:
        if self.begun == 2:
            raise KeyboardInterrupt
        stepped(self, total)

    with monkeypatch.context() as patched:
        patched.setattr(coordinators.Coordinator, "_stepped", killed)
        with pytest.raises(KeyboardInterrupt):
            simulated(start, receipts, plan, out)
    assert simulated(start, receipts, plan, out, resume=True).charged == ROUNDS
    claim = Checkpoint.load(out).claim
    assert claim.training["federated"]["aborted"] == 1
    (run,) = Ledger.open(out / "client-01" / "ledger").runs()
    assert run.charged == ROUNDS


def test_what_does_not_fit_is_refused_before_a_folder_is_taken(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    nobodys = [replace(labelled, provider=None) for labelled in receipts]
    everywhere = [replace(labelled, provider="One Ltd.") for labelled in receipts]
    provided = plan_of(start, PROVIDER, places=2, clients=3)
    cases: list[tuple[type[Exception], Callable[[], object]]] = [
        (
            AnnotationError,
            lambda: simulated(start, nobodys, plan_of(start, PROVIDER), tmp_path / "run"),
        ),
        (
            ValueError,
            lambda: federated_simulation.simulate(
                start, [receipts], plan_of(start), SETTINGS, out=tmp_path / "run", name="them"
            ),
        ),
        (
            PrivacyError,  # a provider at three clients, which counts as two places
            lambda: simulated(start, everywhere, provided, tmp_path / "run"),
        ),
        (
            HushdocError,
            lambda: simulated(start, receipts[:0], plan_of(start), tmp_path / "run"),
        ),
    ]
    for error, attempt in cases:
        with pytest.raises(error):
            attempt()
        assert not (tmp_path / "run").exists()


def test_a_client_s_ledger_refuses_documents_that_moved_to_another_provider(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    # Of a provider with a document that moved, two records differ in the second run.
    given = [replace(one, provider=f"Shop {number % 4}") for number, one in enumerate(receipts)]
    plan = plan_of(start, PROVIDER)
    simulated(start, given, plan, tmp_path / "run")
    roster = rosters.load(tmp_path / "run" / "roster.json")
    ledger = Ledger.create(
        tmp_path / "ledger", data="receipts", unit="provider", epsilon=100.0, delta=1e-5
    )
    spelled = [replace(one, provider=f"SHOP  {number % 4}") for number, one in enumerate(receipts)]
    for name, documents in (("first", given), ("second", spelled)):
        with federated_parties.account_of(
            tmp_path / name, roster, start, documents, ledger
        ) as account:
            account.reserve()
    moved = [replace(given[0], provider="shop 3"), *given[1:]]
    with (
        federated_parties.account_of(tmp_path / "third", roster, start, moved, ledger) as account,
        pytest.raises(PrivacyError) as refused,
    ):
        account.reserve()
    assert refused.value.code == "RUN_DIFFERS"


def test_an_owner_declares_that_documents_changed_between_two_runs(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    plan = plan_of(start)
    simulated(start, receipts, plan, tmp_path / "run")
    first = rosters.load(tmp_path / "run" / "roster.json")
    ledger = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=100.0, delta=1e-5)
    with federated_parties.account_of(tmp_path / "1", first, start, receipts, ledger) as own:
        own.reserve()
    second = replace(first, run="cd" * 16)
    changed = (tmp_path / "2", second, start, receipts[1:], ledger)
    with (
        federated_parties.account_of(*changed) as own,
        pytest.raises(PrivacyError, match="--documents-changed") as refused,
    ):
        own.reserve()
    assert refused.value.code == "OTHER_DOCUMENTS"
    with federated_parties.account_of(*changed, documents_changed=True) as own:
        own.reserve()
    assert len(ledger.runs()) == 2


def test_copies_are_one_record_where_documents_are_the_unit_alone(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    copy = replace(receipts[0], document=replace(receipts[0].document, id="copy"))
    for unit, kept in (("document", 1), ("sequence", 2), ("provider", 2)):
        plan = replace(plan_of(start), privacy_unit=unit)
        found = federated_parties.one_of_copies([receipts[0], copy], plan, federated_tasks.KIE)
        assert len(found) == kept, unit


def test_a_party_starts_from_the_weights_of_the_roster(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    simulated(start, receipts, plan_of(start), tmp_path / "run")
    roster = rosters.load(tmp_path / "run" / "roster.json")
    federated_parties.require_start(roster, start)
    told = {name: value for name, value in roster.task["training"].items() if name != "read_layers"}
    earlier = replace(roster, task={**roster.task, "training": told})  # of an earlier version
    federated_parties.require_start(earlier, start)
    told = {name: value for name, value in roster.task.items() if name != "public_data"}
    with pytest.raises(CheckpointError, match="does not say what public data"):
        federated_parties.require_start(replace(roster, task=told), start)
    other = replace(start, model=models.model("layoutlm", labels=start.labels))
    next(iter(trained_tensors(other.model).values())).data += 1
    with pytest.raises(CheckpointError, match="differs from the roster's in: start"):
        federated_parties.require_start(roster, other)


@pytest.mark.parametrize(
    "change",
    [
        {"task": {"task": "asking"}},
        {"task": {"labels": None}},
        {"task": {"preprocessing": {"max_tokens": "64"}}},
        {"task": {"training": ["adam"]}},
        {"task": {"training": {"trained": 3}}},
        {"task": {"local": {"passes": "one"}}},
        {"task": {"public_data": 3}},
        {"plan": {"rounds": None}},
    ],
)
def test_a_roster_of_another_shape_is_refused_in_one_sentence(
    start: Start, change: dict[str, dict[str, Any]]
) -> None:
    made, _ = agreed(start)
    federated_parties.require_readable(made)
    changed = {name: {**getattr(made, name), **other} for name, other in change.items()}
    with pytest.raises(InputError, match="has a plan or task that can't be read") as refused:
        federated_parties.require_readable(replace(made, **changed))
    assert refused.value.code == "BAD_ROSTER"


def test_the_coordinator_waits_for_clients_as_long_as_for_a_phase(
    start: Start, tmp_path: Path
) -> None:
    roster, first = agreed(start)
    with federated_parties.coordinator_of(
        roster, first, start, folder=tmp_path / "coordinator", seconds=7.0
    ) as coordinator:
        coordinator.start(100.0)
        assert coordinator.deadline == 107.0


def test_no_ledger_can_count_a_run_without_privacy(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    simulated(start, receipts, plan_of(start, FEDAVG), tmp_path / "run")
    roster = rosters.load(tmp_path / "run" / "roster.json")
    ledger = Ledger.create(tmp_path / "ledger", data="receipts", epsilon=100.0, delta=1e-5)
    for changed in (False, True):
        with pytest.raises(PrivacyError, match="no noise, so that no ledger can count it"):
            federated_parties.account_of(
                tmp_path / "own", roster, start, receipts, ledger, documents_changed=changed
            )
    assert not (tmp_path / "own").exists()


def test_a_party_holds_the_roster_against_what_its_start_says_it_learned_from(start: Start) -> None:
    def data(overlap: str) -> PublicData:
        return PublicData(
            name="receipts of shops",
            uses=("training",),
            privacy_status="published",
            overlap_with_protected=overlap,
        )

    def claimed(overlap: str) -> Start:
        return replace(start, claim=claims.public((data(overlap),), training={}))

    roster, _ = agreed(claimed("partial"))
    for overlap in ("none", "unknown", "partial"):
        federated_parties.require_start(roster, claimed(overlap))
    with pytest.raises(CheckpointError, match="overlap contained, which the roster does not list"):
        federated_parties.require_start(roster, claimed("contained"))
    hiding = replace(roster, task={**roster.task, "public_data": []})
    with pytest.raises(CheckpointError, match="which the roster does not list"):
        federated_parties.require_start(hiding, claimed("none"))
    spent = claims.not_private("receipts", (data("partial"),), training={})
    with pytest.raises(PrivacyError, match="trained on protected documents"):
        federated_parties.require_start(roster, replace(start, claim=spent))


def test_parties_whose_directions_turn_otherwise_take_no_part(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eigenvectors of public words may point the other way on another processor."""
    whitened = FederatedSettings(training=replace(SETTINGS.training, scaling="public"))
    numbers = federated_parties.numbers_of(start, whitened, FEAM)
    plan = plan_of(start, numbers=numbers, rounds=1)
    shares = federated_simulation.divided(receipts, equal(len(receipts), CLIENTS, seed=0))
    federated_simulation.simulate(
        start, shares, plan, whitened, out=tmp_path / "run", name="receipts", quiet=True
    )
    assert public_inputs.DATA in Checkpoint.load(tmp_path / "run").claim.public_data
    roster = rosters.load(tmp_path / "run" / "roster.json")
    federated_parties.require_start(roster, start)
    found = whitening.whitening

    def turned(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        mean, directions = found(*given)
        return mean, -directions

    monkeypatch.setattr(whitening, "whitening", turned)
    elsewhere = replace(start, model=copy.deepcopy(start.model))
    with pytest.raises(CheckpointError, match="differs .* in: directions.*another processor"):
        federated_parties.require_start(roster, elsewhere)


def test_the_command_simulates_and_says_where_a_run_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read = PublicData(
        name="receipts of shops",
        uses=("training",),
        privacy_status="published",
        overlap_with_protected="partial",
    )
    start = checkpoint.save(
        tmp_path / "start",
        architecture="layoutlm",
        labels=tiny.LABELS,
        preprocessing=tiny.preprocessing(),
        claim=claims.public((read,), training={}),
        tokenizer_json=tiny.tokenizer_json(),
        save_weights=models.model("layoutlm").save,
    ).folder
    data = ["--data", "invented:receipt", "--documents", "6", "--label", "total"]
    common = ["--rounds", "2", "--trained", "output", "--accountant", "rdp"]
    common += ["--sampling-rate", "0.5", "--expected-records", "4"]
    model = ["--start", str(start), "--clients", "2", "--quiet", "--out", str(tmp_path / "run")]
    assert main(["federated", "simulate", *data, *common, *model, "--plan"]) == 0
    told = capsys.readouterr().out
    assert "network-observer" in told
    shown = {line.split()[0]: line.split()[1] for line in told.splitlines() if line[:2] == "  "}
    assert shown["all"] == shown["rota"] == shown["drawn"]  # all clients are in every round
    assert not (tmp_path / "run").exists()
    assert main(["federated", "simulate", *data, *common, *model]) == 0
    capsys.readouterr()
    assert main(["federated", "status", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().out
    assert "2 of 2 begun, 0 aborted" in told
    assert "epsilon 8 at delta 1e-05 for each document at up to 1 place, against model" in told
    assert "checkpoint written" in told
    parties = ["--client", "north", "--client", "south", "--start", str(start)]
    folder = str(tmp_path / "acme")
    assert main(["federated", "init", folder, *parties, *common]) == 0
    digest = capsys.readouterr().out.split()[1]
    for name in ("north", "south"):
        assert rosters.load(tmp_path / "acme" / name / "roster.json").digest == digest
    assert (tmp_path / "acme" / "north" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert main(["federated", "status", f"{folder}/coordinator", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["begun"] == 0
    north = keys.load_private_key(tmp_path / "acme" / "north" / "key.pem")
    assert known["keys"]["north"] == keys.key_id(keys.public_key_of(north))
    assert main(["federated", "status", f"{folder}/north"]) == 0
    told = capsys.readouterr().out
    for name in ("coordinator", "north", "south"):
        assert f"party     {name}, key id {known['keys'][name]}" in told
    assert "public    receipts of shops, overlap partial" in told


@pytest.mark.parametrize("clients", [1, 65])
def test_no_roster_is_made_of_a_plan_that_no_secure_sum_can_run(
    clients: int, tmp_path: Path, layoutlmv3_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--start", str(layoutlmv3_folder), "--label", "total", "--trained", "output"]
    given += [word for number in range(clients) for word in ("--client", f"party-{number}")]
    with pytest.raises(SystemExit) as ended:
        main(["federated", "init", str(tmp_path / "acme"), *given])
    assert ended.value.code == 2
    assert f"A round has {clients} clients; expected 2 to 64 for a secure sum." in " ".join(
        capsys.readouterr().err.split()
    )
    assert not (tmp_path / "acme").exists()


UNABLE = {
    "a unit that forms have not": (("--privacy-unit", "provider"), "document or sequence"),
    "a norm whose square vanishes": (("--clipping-norm", "1e-9"), "at least 1e-08"),
}


@pytest.mark.parametrize("plan", UNABLE)
def test_no_roster_is_made_of_a_plan_that_no_party_could_run(
    plan: str, tmp_path: Path, layoutlmv3_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, expected = UNABLE[plan]
    given = ["--start", str(layoutlmv3_folder), "--label", "total", "--trained", "output"]
    given += ["--client", "north", "--client", "south", "--accountant", "rdp", *options]
    with pytest.raises(SystemExit) as ended:
        main(["federated", "init", str(tmp_path / "acme"), *given])
    assert ended.value.code == 2
    assert expected in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "acme").exists()


def test_what_weights_have_seen_goes_from_init_into_the_certificate(
    tmp_path: Path, layoutlmv3_folder: Path
) -> None:
    given = ["--start", str(layoutlmv3_folder), "--label", "total", "--trained", "output"]
    given += ["--client", "north", "--client", "south", "--rounds", "2", "--accountant", "rdp"]
    given += ["--public-overlap", "partial", "--sampling-rate", "0.5", "--expected-records", "4"]
    assert main(["federated", "init", str(tmp_path / "acme"), *given]) == 0
    roster = rosters.load(tmp_path / "acme" / "north" / "roster.json")
    labels = LabelSet(fields=("total",))
    begun = kie_start.start_from(str(layoutlmv3_folder), labels)
    federated_parties.require_start(roster, begun)
    declared = federated_parties.declared_of(roster, begun, name="forms")
    assert [data.overlap_with_protected for data in declared.public_data] == ["partial"]


@pytest.mark.parametrize("how", ["simulate", "client"])
def test_all_of_the_private_documents_are_read(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which N come first depends on the others: one more would push another one out."""
    told = ["--data", str(tmp_path), "--documents", "3"]
    own = {
        "simulate": ["--out", str(tmp_path / "run")],
        "client": [str(tmp_path / "north"), "--approve", "0" * 64, "--ledger", "ledger"],
    }
    with pytest.raises(SystemExit):
        main(["federated", how, *own[how], *told])
    assert "would push another one out" in capsys.readouterr().err


def test_windows_are_not_divided_by_what_one_of_them_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--data", str(tmp_path), "--privacy-unit", "sequence", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit):
        main(["federated", "simulate", *given, "--partition", "dirichlet"])
    assert "a window less may change" in capsys.readouterr().err
