"""FL-PROVIDER-DP with one client: steps by hand, the noise, what is refused, and a killed run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from private_simulator import (
    CLIP,
    DIVISOR,
    Scripted,
    Silent,
    example_records,
    flat,
    make_plan,
    small_model,
    squares,
)
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.federated import central
from hushdoc_training.federated.central import ProviderTraining
from hushdoc_training.federated.updates import LocalTraining, ProviderUpdates
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.privacy.records import Records
from hushdoc_training.runs import receipts
from hushdoc_training.runs.private_run import PrivateRun

LOCAL = LocalTraining(passes=2, batch_size=64, learning_rate=0.05)
"""Whole batches, so that no order of examples is drawn."""

PLAN = make_plan(steps=3, noise_multiplier=2.0, epsilon=100.0, privacy_unit="provider")


@contextmanager
def training(
    model: nn.Module,
    draws: Sequence[Sequence[int]] | None = None,
    *,
    silent: bool = False,
    **changed: Any,
) -> Iterator[ProviderTraining[torch.Tensor]]:
    settings: dict[str, Any] = {
        "plan": PLAN,
        "records": Records(example_records(), unit="provider"),
        "losses": squares(model),
        "local": LOCAL,
    }
    settings |= changed
    with pytest.MonkeyPatch.context() as patch:
        if draws is not None:
            patch.setattr(ProviderUpdates, "_coins", lambda _: Scripted(draws))
        if silent:
            patch.setattr(central, "SecretStream", Silent)
        made = ProviderTraining(settings.pop("plan"), model, **settings)
    with made:
        yield made


def changes(model: nn.Module, drawn: Sequence[int]) -> torch.Tensor:
    """Returns the sum of clipped changes by torch alone; the model stays as it is."""
    start, total = flat(model), torch.zeros_like(flat(model))
    for index in drawn:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.0)
        for _ in range(2):
            optimizer.zero_grad()
            squares(model)(example_records()[index]).mean().backward()
            optimizer.step()
        moved = flat(model) - start
        total += moved * min(1.0, CLIP / float(moved.norm()))
        nn.utils.vector_to_parameters(start.clone(), model.parameters())
    optimizer.zero_grad()
    return total


def test_a_later_training_knows_what_it_has_moved() -> None:
    model = small_model()
    with training(model) as run:
        run.step()
    assert [*dict(earlier_steps.begun_with(model))] == sorted(dict(model.named_parameters()))


def test_a_step_adds_the_mean_of_clipped_changes() -> None:
    model, expected = small_model(), flat(small_model())
    with training(model, [[0, 2, 7], [], [4]], silent=True) as made:
        for drawn in ([0, 2, 7], [], [4]):
            if drawn:
                other = small_model()
                nn.utils.vector_to_parameters(expected.clone(), other.parameters())
                expected = expected + changes(other, drawn) / DIVISOR
            made.step()
            torch.testing.assert_close(flat(model), expected, rtol=0, atol=CLIP * 1e-4)
    with pytest.raises(PrivacyError, match="All 3 steps"):
        made.step()


def test_noise_is_that_of_the_plan_where_nobody_is_drawn() -> None:
    model = small_model()
    plan = make_plan(steps=60, noise_multiplier=2.0, epsilon=1e4, privacy_unit="provider")
    with training(model, [[]] * 60, plan=plan) as made:
        moves = []
        for _ in range(60):
            before = flat(model)
            made.step()
            moves.append((flat(model) - before) * DIVISOR)
    found = torch.cat(moves)  # 3180 numbers: deviations of 1.3 % of the standard deviation
    assert float(found.std()) == pytest.approx(2.0 * CLIP, rel=0.065)
    plan.require_executed(made.receipt)
    assert made.receipt.noise_multiplier >= 2.0
    assert made.receipt.privacy_unit == "provider"
    assert made.receipt.divisor == DIVISOR


def test_no_record_moves_a_sum_by_more_than_the_norm() -> None:
    ends = []
    for drawn in ([0, 8], [0]):
        model = small_model()
        with training(model, [drawn], silent=True) as made:
            made.step()
        ends.append(flat(model))
    # Weights are float32: each is rounded once.
    assert float((ends[0] - ends[1]).norm()) * DIVISOR <= CLIP * (1 + 1e-4)


def test_whoever_else_moves_a_weight_is_refused() -> None:
    model = small_model()
    with training(model) as made:
        made.step()
        with torch.no_grad():
            next(model.parameters()).add_(1e-3)
        with pytest.raises(PrivacyError, match="last private step"):
            made.step()
        with pytest.raises(PrivacyError, match="last private step"):
            made.claim_details("bills")


def test_a_killed_run_goes_on_at_the_old_charge_with_one_receipt(tmp_path: Path) -> None:
    def part(*, resume: bool, until: int = 9) -> ProviderTraining[torch.Tensor]:
        run = PrivateRun.open(tmp_path / "run", PLAN, resume=resume)

        def stop(number: int) -> None:
            if number == until:
                raise KeyboardInterrupt

        with training(small_model(), charge=run.charge) as made:
            run.train(made, save_every=0, seen=lambda step: stop(step.number))
        return made

    with pytest.raises(KeyboardInterrupt):
        part(resume=False, until=2)  # step 2 is charged and lost
    made = part(resume=True)
    assert (made.charged, made.receipt.steps, made.receipt.invocations) == (3, 2, 2)
    again = part(resume=True)  # nothing is left to take
    assert np.array_equal(flat(again.model).numpy(), flat(made.model).numpy())
    claim = receipts.claim(again.receipt, receipts.Declared(name="bills"), delta=PLAN.delta)
    assert claim.guarantees[0].unit == "provider"
