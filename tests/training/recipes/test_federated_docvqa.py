"""Federated training on questions in one process, with providers as the unit."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hushdoc.__main__ import main
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import CheckpointError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.federated import roster as rosters
from hushdoc_training.federated.partition import by_provider, equal
from hushdoc_training.federated.plan import FEAM, FEDAVG, FEDAVG_DP, PROVIDER, FederatedPlan
from hushdoc_training.federated.updates import LocalTraining
from hushdoc_training.invented import stream
from hushdoc_training.invented.settings import InventedConfig
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.trained_tensors import count, trained_tensors, weights_of
from hushdoc_training.recipes import (
    federated_docvqa,
    federated_parties,
    federated_simulation,
)
from hushdoc_training.recipes.docvqa import canaries, public_inputs
from hushdoc_training.recipes.docvqa import start as docvqa_start
from hushdoc_training.recipes.docvqa.settings import ADAM_RATE
from hushdoc_training.recipes.docvqa.start import Start
from hushdoc_training.recipes.docvqa.training import save
from hushdoc_training.recipes.federated_parties import FederatedSettings
from hushdoc_training.recipes.kie.records import in_order
from hushdoc_training.recipes.kie.settings import PrivateSettings

CPU = torch.device("cpu")
KEYED = InventedConfig(document_types=("receipt",), providers=(0, 4), questions="keyed")
SETTINGS = FederatedSettings(
    training=PrivateSettings(trained="output", learning_rate=0.01),
    local=LocalTraining(learning_rate=0.01),
)


@pytest.fixture(scope="module")
def receipts() -> list[LabelledDocument]:
    return list(stream.documents(seed=3, count=8, config=KEYED))


@pytest.fixture(scope="module")
def start(receipts: list[LabelledDocument]) -> Start:
    texts = [word.text for item in receipts for page in item.document.pages for word in page.words]
    return docvqa_start.start_from(
        "small", max_tokens=96, max_question=40, vocabulary=lambda: texts
    )


def plan_of(start: Start, algorithm: str, **change: Any) -> FederatedPlan:
    settings: dict[str, Any] = {
        "algorithm": algorithm,
        "clients": 2,
        "clients_per_round": 2,
        "rounds": 2,
        "sampling_rate": 0.5,
        "clipping_norm": 0.1,
        "expected_records": 2,
        "privacy_unit": "provider",
        "accountant": "rdp",
        "numbers": federated_parties.numbers_of(start, SETTINGS, algorithm),
        **change,
    }
    if algorithm == FEDAVG:
        without = {"sampling_rate": 1.0, "epsilon": None, "delta": None, "noise_multiplier": 0.0}
        return FederatedPlan(**settings | without)
    return FederatedPlan.calibrated(**{"epsilon": 8.0, "delta": 1e-5, **settings})


@pytest.mark.parametrize("algorithm", [FEAM, FEDAVG, FEDAVG_DP, PROVIDER])
def test_parties_train_a_pointer_and_claim_what_holds_for_each_provider(
    algorithm: str, start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    plan, out = plan_of(start, algorithm), tmp_path / "run"
    held = by_provider([item.provider for item in receipts], plan.clients, seed=0)
    shares = federated_simulation.divided(receipts, held)
    before = copy.deepcopy(start.model.state_dict())
    how: dict[str, Any] = {"out": out, "name": "receipts", "quiet": True}
    outcome = federated_simulation.simulate(start, shares, plan, SETTINGS, **how)
    assert (outcome.charged, outcome.interrupted) == (2, False)
    stored = DocVQACheckpoint.load(out)
    assert stored.asking == start.asking
    claim = stored.claim
    assert [found.code for found in reproduce(claim) if found.code is not None] == []
    told = [
        (guarantee.unit, guarantee.epsilon, guarantee.unit_definition)
        for guarantee in claim.guarantees
    ]
    if algorithm == FEDAVG:
        assert {(guarantee.kind, guarantee.epsilon) for guarantee in claim.guarantees} == {
            ("none", None)
        }
    else:
        assert all(
            unit == "provider" and 0 < (epsilon or 0) <= 8 and "of its questions" in definition
            for unit, epsilon, definition in told
        )
    local = algorithm in (FEDAVG, PROVIDER)
    assert ("learning_rate" in claim.training, "local" in claim.training) == (not local, local)
    after = start.room.load(stored.folder).state_dict()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved
    assert all(name.startswith("reader.") for name in moved)
    assert all(torch.equal(value, before[name]) for name, value in start.model.state_dict().items())
    roster = rosters.load(out / "roster.json")
    assert roster.task["task"] == "docvqa"
    federated_parties.require_start(roster, start)
    with pytest.raises(CheckpointError, match="asking"):
        federated_parties.require_start(
            roster, replace(start, asking=replace(start.asking, max_question=30))
        )


def test_clients_read_words_in_the_order_of_the_model(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    """As the artifact will read them: a document is learned from alike however its file has it."""
    reading = replace(start.asking, word_order="reading")
    own = replace(start, model=copy.deepcopy(start.model), asking=reading)
    training = PrivateSettings(trained="biases")
    federated_docvqa.prepared(own, training, device=CPU)
    tensors = trained_tensors(own.model)
    plan = plan_of(start, FEAM, sampling_rate=1.0, numbers=count(tensors))
    begin, sums = weights_of(tensors), []
    for documents in (receipts, [backwards(labelled) for labelled in receipts]):
        update = federated_docvqa.update_of(own, documents, plan, training, device=CPU)
        sums.append(update.compute(begin, 1).astype(np.float64))
        update.close()
    assert np.linalg.norm(sums[1] - sums[0]) < 2e-2 * np.linalg.norm(sums[0])  # bfloat16
    planted = canaries.drawn(own, 3, ["total", "date", "due"]).documents
    assert in_order(planted, reading.of_pages) == list(planted)


def backwards(labelled: LabelledDocument) -> LabelledDocument:
    """Returns a document with the words of its pages from last to first."""
    pages = labelled.document.pages
    turned = tuple(replace(page, words=page.words[::-1]) for page in pages)
    return replace(
        labelled,
        document=replace(labelled.document, pages=turned),
        spans=(),
        questions=tuple(
            replace(
                asked,
                word_ids=tuple(len(pages[asked.page].words) - 1 - word for word in asked.word_ids),
            )
            for asked in labelled.questions
        ),
    )


def test_questions_of_two_clients_add_up_to_those_of_one(
    start: Start, receipts: list[LabelledDocument]
) -> None:
    own = replace(start, model=copy.deepcopy(start.model))
    training = PrivateSettings(trained="biases")
    federated_docvqa.prepared(own, training, device=CPU)
    tensors = trained_tensors(own.model)
    assert not set(own.unreached()) & set(tensors)
    plan = plan_of(start, FEAM, sampling_rate=1.0, numbers=count(tensors))
    held = by_provider([item.provider for item in receipts], 2, seed=0)
    shares = federated_simulation.divided(receipts, held)
    begin, sums = weights_of(tensors), []
    for documents in (receipts, *shares):
        update = federated_docvqa.update_of(own, documents, plan, training, device=CPU)
        sums.append(update.compute(begin, 1).astype(np.float64))
        update.close()
    whole, one, other = sums
    assert np.linalg.norm(one + other - whole) < 2e-2 * np.linalg.norm(whole)  # bfloat16
    assert min(np.linalg.norm(one), np.linalg.norm(other)) > 0


def test_what_does_not_fit_questions_is_refused_before_a_folder_is_taken(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    plan, out = plan_of(start, PROVIDER), tmp_path / "run"
    apart = federated_simulation.divided(receipts, equal(len(receipts), 2, seed=0))
    with pytest.raises(PrivacyError, match="at 2 clients"):
        federated_simulation.simulate(
            start, apart, plan, SETTINGS, out=out, name="receipts", quiet=True
        )
    scaled = {"trained": "biases", "scaling": "public"}
    for setting in (scaled, {"read_layers": 2}, {"averaging": "ema"}):
        unknown = replace(SETTINGS.training, **setting)
        with pytest.raises(PrivacyError, match=next(iter(setting))):
            federated_docvqa.prepared(start, unknown, device=CPU)
    assert not out.exists()


def test_parties_train_a_last_layer_that_public_questions_scale(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    settings = replace(SETTINGS, training=replace(SETTINGS.training, scaling="public"))
    numbers = federated_parties.numbers_of(start, settings, FEAM)
    assert numbers < federated_parties.numbers_of(start, SETTINGS, FEAM)
    plan, out = plan_of(start, FEAM, numbers=numbers), tmp_path / "run"
    held = by_provider([item.provider for item in receipts], plan.clients, seed=0)
    shares = federated_simulation.divided(receipts, held)
    how: dict[str, Any] = {"out": out, "name": "receipts", "quiet": True}
    assert not federated_simulation.simulate(start, shares, plan, settings, **how).interrupted
    stored = DocVQACheckpoint.load(out)
    assert stored.claim.training["scaling"] == "public"
    assert public_inputs.DATA in stored.claim.public_data
    after, before = start.room.load(stored.folder).state_dict(), start.model.state_dict()
    assert {name for name, value in after.items() if not torch.equal(value, before[name])} == {
        "reader.ends.weight",
        "reader.ends.bias",
    }
    roster = rosters.load(out / "roster.json")
    federated_parties.require_start(roster, start)
    moving = replace(roster, plan=plan_of(start, PROVIDER).to_dict())
    with pytest.raises(PrivacyError, match="local training moves"):
        federated_parties.require_start(moving, start)
    turned = replace(roster, task={**roster.task, "directions": "sha256:0"})
    with pytest.raises(CheckpointError, match=r"directions.*another processor"):
        federated_parties.require_start(turned, start)


def test_public_questions_are_read_once_for_all_parties_and_anew_where_weights_changed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, of_documents = list[object](), public_inputs.of_documents
    monkeypatch.setattr(
        public_inputs, "of_documents", lambda *given: read.append(given) or of_documents(*given)
    )
    begun = replace(start, model=copy.deepcopy(start.model))
    settings = replace(SETTINGS, training=replace(SETTINGS.training, scaling="public"))
    one, other = (federated_parties._own(begun, settings, CPU).model for _ in range(2))
    assert len(read) == 1
    assert one is not other is not begun.model
    expected = one.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in other.state_dict().items())
    tensors = trained_tensors(other)
    assert tensors.keys() == trained_tensors(one).keys()
    with torch.no_grad():
        for value in tensors.values():
            value.add_(1)
    again = federated_parties._own(begun, settings, CPU).model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in again.items())
    assert len(read) == 1
    with torch.no_grad():
        next(begun.model.parameters()).add_(1)
    federated_parties._own(begun, settings, CPU)
    assert len(read) == 2


@pytest.mark.parametrize(
    "algorithm",
    [FEAM, *(pytest.param(other, marks=pytest.mark.slow) for other in (FEDAVG_DP, PROVIDER))],
)
def test_canaries_at_all_clients_are_heard_and_bound_what_is_claimed(
    algorithm: str, start: Start, receipts: list[LabelledDocument], tmp_path: Path,
) -> None:  # fmt: skip
    settings = FederatedSettings(
        training=PrivateSettings(trained="all", learning_rate=1e-4),
        local=LocalTraining(learning_rate=1e-3),
    )
    plan = plan_of(
        start, algorithm, rounds=1, epsilon=500.0, sampling_rate=1.0, expected_records=40,
        numbers=federated_parties.numbers_of(start, settings, algorithm),
    )  # fmt: skip
    held = by_provider([item.provider for item in receipts], plan.clients, seed=0)
    shares = federated_simulation.divided(receipts, held)
    out = tmp_path / "run"
    how: dict[str, Any] = {"out": out, "name": "receipts", "quiet": True, "num_canaries": 72}
    federated_simulation.simulate(start, shares, plan, settings, **how)
    claim = DocVQACheckpoint.load(out).claim
    [audit] = claim.audits
    assert (audit.unit, audit.canaries, audit.adversary) == ("provider", 72, "model-recipient")
    assert audit.epsilon_lower is not None
    assert 0.3 < audit.epsilon_lower <= 500
    assert {found.audit_lower_bound for found in claim.guarantees} == {audit.epsilon_lower}
    assert "72 invented canary providers" in claim.caveats[-1]
    coins = json.loads((out / canaries.FILE).read_text())
    assert claim.training["audits"][0]["planted"] == coins.count("1")


def test_canaries_of_what_has_no_epsilon_are_refused(
    start: Start, receipts: list[LabelledDocument], tmp_path: Path
) -> None:
    held = by_provider([item.provider for item in receipts], 2, seed=0)
    shares = federated_simulation.divided(receipts, held)
    with pytest.raises(PrivacyError, match=r"3 canaries.*docvqa by fedavg"):
        federated_simulation.simulate(
            start, shares, plan_of(start, FEDAVG), SETTINGS, out=tmp_path / "run", name="receipts",
            quiet=True, num_canaries=3,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_the_command_trains_a_checkpoint_that_answers_questions(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "start", start, claims.public((), training={}))
    told = [
        *("federated", "simulate", "--task", "docvqa", "--start", str(tmp_path / "start")),
        *("--data", "invented:receipt,providers=0:6,questions=keyed", "--documents", "12"),
        *("--algorithm", PROVIDER, "--partition", "provider", "--clients", "2", "--rounds", "1"),
        *("--trained", "output", "--accountant", "rdp", "--quiet", "--canaries", "6"),
        *("--out", str(tmp_path / "run")),
    ]
    assert main(told) == 0
    stored = DocVQACheckpoint.load(tmp_path / "run")
    assert stored.asking == start.asking
    assert [audit.canaries for audit in stored.claim.audits] == [6]
    for guarantee in stored.claim.guarantees:  # that no run is refused for want of one
        assert any("each client has documents of some provider" in w for w in guarantee.assumes)
    assert "Audit:      epsilon is at least 0 at delta" in capsys.readouterr().out
    plain = tmp_path / "plain"  # the paper's federated row without privacy
    with pytest.raises(SystemExit):
        main([*told, "--algorithm", FEDAVG, "--out", str(plain)])
    assert "an algorithm with privacy" in capsys.readouterr().err
    assert main([*told, "--algorithm", FEDAVG, "--canaries", "0", "--out", str(plain)]) == 0
    assert {found.kind for found in DocVQACheckpoint.load(plain).claim.guarantees} == {"none"}
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*told, "--label", "total"])
    assert "questions have no labels" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*told, "--scaling", "public"])
    assert "which clip gradients" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*told, "--directions", "3"])
    assert "of a scaled layer alone" in capsys.readouterr().err
    scaled = ["--algorithm", FEAM, "--scaling", "public", "--out", str(tmp_path / "scaled")]
    assert main([*told, *scaled, "--directions", "3"]) == 0
    used = DocVQACheckpoint.load(tmp_path / "scaled").claim.training
    assert (used["learning_rate"], used["directions"]) == (ADAM_RATE, 3)
    assert main([*told, "--clients", "9", "--out", str(tmp_path / "few")]) == 3
    said = capsys.readouterr().err
    assert "CLIENT_WITHOUT_PROVIDER" in said
    assert "Some of 9 clients have no provider" in said
    assert not re.search(r"[2-6] providers", said)  # how many there are is not told
    assert not (tmp_path / "few").exists()
