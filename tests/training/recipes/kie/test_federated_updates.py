"""What parties of a federated training of forms compute: central training, split between them."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from private_simulator import CLIP, Silent, known_streams, make_plan

from hushdoc.errors import AnnotationError, PrivacyError
from hushdoc.labels import LabelledDocument
from hushdoc_training.federated.plan import FEAM, FEDAVG, FEDAVG_DP, PROVIDER, FederatedPlan
from hushdoc_training.federated.updates import FedAvgDp, LocalTraining
from hushdoc_training.privacy.trained_tensors import count, trained_tensors, weights_of
from hushdoc_training.recipes import federated_kie, federated_updates
from hushdoc_training.recipes.kie import private
from hushdoc_training.recipes.kie.settings import PrivateSettings
from hushdoc_training.recipes.kie.start import Start

CPU = torch.device("cpu")
SETTINGS = PrivateSettings(trained="output", learning_rate=0.01)


def own(start: Start) -> Start:
    """Returns a party's own start."""
    made = replace(start, model=copy.deepcopy(start.model))
    federated_kie.prepared(made, SETTINGS, device=CPU)
    return made


def plan_for(start: Start, algorithm: str, **changed: Any) -> FederatedPlan:
    settings: dict[str, Any] = {
        "algorithm": algorithm,
        "clients": 2,
        "clients_per_round": 2,
        "rounds": 2,
        "sampling_rate": 1.0,
        "clipping_norm": CLIP,
        "expected_records": 4,
        "privacy_unit": "provider" if algorithm == PROVIDER else "document",
        "accountant": "rdp",
        "numbers": count(trained_tensors(start.model)) + (algorithm == FEDAVG),
    } | changed
    if algorithm == FEDAVG:
        return FederatedPlan(**settings, noise_multiplier=0.0, epsilon=None, delta=None)
    return FederatedPlan.calibrated(epsilon=8.0, delta=1e-5, **settings)


def test_documents_of_two_clients_add_up_to_central_training(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    parties = [own(small_start), own(small_start)]
    plan, central = plan_for(parties[0], FEAM), replace(SETTINGS)
    begin = weights_of(trained_tensors(parties[0].model))
    total = np.zeros(plan.numbers, dtype=np.int64)
    charged: list[int] = []
    for start, documents in zip(parties, (receipts[:3], receipts[3:5]), strict=True):
        update = federated_kie.update_of(
            start, documents, plan, SETTINGS, device=CPU, charge=charged.append
        )
        total += update.compute(begin, 1)
        assert [access.purpose for access in update.claim_details("forms").accesses] == []
        update.close()
    assert charged == [1, 1]
    whole = replace(small_start, model=copy.deepcopy(small_start.model))
    train = partial(private.private_training, charge=lambda step: None, device=CPU)
    every = make_plan(sampling_rate=1.0, steps=1, expected_records=1)
    with (
        known_streams(noise=Silent()),
        train(whole, receipts[:5], every, central) as training,
    ):
        training.step()
        moments = [value["exp_avg"].flatten() for value in training.optimizer.state.values()]
    expected = torch.cat(moments).numpy() / 0.1
    found = total * plan.lattice_step
    assert np.linalg.norm(found - expected) < 2e-2 * np.linalg.norm(expected)  # bfloat16
    after = federated_updates.server_step_of(plan, SETTINGS).apply(begin, total, 1)
    assert np.abs(after - begin).max() == pytest.approx(SETTINGS.learning_rate, rel=1e-3)


def test_all_documents_of_a_provider_are_one_record(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    start = own(small_start)
    plan = plan_for(start, PROVIDER)
    named = [
        replace(item, provider=name)
        for item, name in zip(receipts, ("Ann Ltd.", "Bo", "ann ltd", "Bo"), strict=False)
    ]
    assert len(federated_kie.providers_of(start, named)) == 2
    update = federated_kie.update_of(
        start, named, plan, SETTINGS, device=CPU, local=LocalTraining(learning_rate=0.05)
    )
    row = update.compute(weights_of(trained_tensors(start.model)), 1) * plan.lattice_step
    assert 0.5 * CLIP < np.linalg.norm(row) <= 2 * CLIP
    nobody = [replace(receipts[0], provider=None)]
    with pytest.raises(AnnotationError, match='Give every document its "provider"'):
        federated_kie.update_of(start, nobody, plan, SETTINGS, device=CPU)


def test_clients_that_train_on_their_own_are_averaged(
    small_start: Start, receipts: list[LabelledDocument]
) -> None:
    start = own(small_start)
    begin = weights_of(trained_tensors(start.model))
    for algorithm, steps in ((FEDAVG, 1), (FEDAVG_DP, 2)):
        plan = plan_for(start, algorithm, local_steps=steps)
        update = federated_kie.update_of(start, receipts[:4], plan, SETTINGS, device=CPU)
        total = update.compute(begin, 1) + update.compute(begin, 2)
        after = federated_updates.server_step_of(plan, SETTINGS).apply(begin, total, 1)
        moved = np.abs(after - begin).max()
        assert 0 < moved <= 2 * steps * SETTINGS.learning_rate
    assert isinstance(update, FedAvgDp)
    plan.require_executed(update.receipt)


def test_what_only_central_training_has_is_refused(small_start: Start) -> None:
    start = replace(small_start, model=copy.deepcopy(small_start.model))
    for name, value in (("optimizer", "sgd"), ("averaging", "ema"), ("loss_bound", 4.0)):
        settings = replace(SETTINGS, **{name: value})
        with pytest.raises(PrivacyError, match=name):
            federated_kie.prepared(start, settings, device=CPU)
    plan = plan_for(own(small_start), FEAM, privacy_unit="user")
    with pytest.raises(ValueError, match="privacy_unit is 'user'"):
        federated_kie.update_of(start, [], plan, SETTINGS, device=CPU)
    plan = plan_for(own(small_start), FEDAVG)
    with pytest.raises(ValueError, match="no budget"):
        federated_updates.own_plan(plan)
