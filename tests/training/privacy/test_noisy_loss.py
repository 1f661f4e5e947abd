"""A loss with noise is part of each step's one Gaussian mechanism, and costs nothing besides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from private_simulator import (
    CLIP,
    DIVISOR,
    Silent,
    example_records,
    flat,
    small_model,
    squares,
    training,
)

from hushdoc_training.privacy.noisy_loss import GRADIENT, LOSS, PURPOSE, NoisyLoss
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.runs import receipts
from hushdoc_training.runs.private_run import PrivateRun
from hushdoc_training.runs.step_log import read_log

BOUND = 2.0
PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=0.3, steps=4, expected_records=4, accountant="rdp"
)
alone = partial(NoisyLoss, clipping_norm=CLIP, expected_records=DIVISOR)


def joint(drawn: Sequence[int], bound: float = BOUND) -> torch.Tensor:
    """Returns what a step over these records sums: gradients, and losses beside them."""
    model = small_model()
    before = flat(model)
    with training(model, draws=[drawn], loss_bound=bound) as made:
        noisy = made.step().noisy_loss
    assert noisy is not None
    number = noisy * DIVISOR / bound * LOSS * CLIP
    return torch.cat([(before - flat(model)) * DIVISOR, torch.tensor([number])])


def test_without_noise_it_is_the_mean_of_losses_up_to_the_bound() -> None:
    losses = squares(small_model())
    each = [float(losses(record).mean().detach()) for record in example_records()]
    assert min(each) < BOUND < max(each)
    with training(small_model(), draws=[[0, 3, 8], []], loss_bound=BOUND) as made:
        found = [step.noisy_loss for step in (made.step(), made.step())]
        assert made.view.unaccounted == ()
    expected = sum(min(each[number], BOUND) for number in (0, 3, 8)) / DIVISOR
    assert found == [pytest.approx(expected, rel=1e-3), 0.0]


@pytest.mark.parametrize("record", range(9))
def test_a_record_moves_gradients_and_losses_together_by_at_most_the_clipping_norm(
    record: int,
) -> None:
    others = [number for number in range(9) if number % 2 and number != record]
    moved = float((joint([*others, record]) - joint(others)).norm())
    assert 0 < moved <= CLIP * (1 + 1e-4)


def test_the_largest_record_moves_them_by_exactly_that() -> None:
    """Its gradient is clipped and its loss is above the bound: nothing is given away."""
    assert float(joint([8], bound=0.1).norm()) == pytest.approx(CLIP, rel=1e-3)


def test_both_releases_together_are_the_mechanism_that_the_plan_accounts_for() -> None:
    """Gaussian releases of one draw: the inverse squares of their multipliers add up."""
    noise = 1.7 * CLIP  # on every number of the sum
    gradient, loss = noise / (GRADIENT * CLIP), noise / (LOSS * CLIP)
    assert (gradient**-2 + loss**-2) ** -0.5 == pytest.approx(1.7, rel=1e-12)


def test_its_noise_is_what_the_docstring_says() -> None:
    grid = lattice.of_sums(clipping_norm=CLIP, noise_multiplier=1.5, numbers=54)
    release, stream = alone(bound=BOUND), SecretStream()
    found = [
        release.released([], grid, stream, Group.current(None), torch.device("cpu"))
        for _ in range(4000)
    ]
    std = grid.deviation / CLIP * BOUND / (LOSS * DIVISOR)
    assert std == pytest.approx(1.5 * BOUND / (LOSS * DIVISOR), rel=0.01)
    assert np.std(found) == pytest.approx(std, rel=0.07)  # six standard errors
    assert abs(np.mean(found)) < 6 * std / math.sqrt(4000)


def test_losses_at_the_edges() -> None:
    release = alone(bound=BOUND)
    full = LOSS * CLIP
    assert release.clipped_sum([math.inf, 2.0, 2.1]) == pytest.approx(3 * full)
    assert release.clipped_sum([math.nan, -math.inf, -1.0, 0.0]) == 0
    assert release.clipped_sum([1.0]) == pytest.approx(full / 2)
    assert alone(bound=None).released([1.0], None, None, None, None) is None  # type: ignore[arg-type]
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="loss_bound"):
            alone(bound=wrong)


def test_it_costs_no_epsilon_and_is_listed(tmp_path: Path) -> None:
    run = PrivateRun.open(tmp_path / "run", PLAN)
    settings = {"draws": [], "coins": None, "noise": None, "plan": PLAN, "charge": run.charge}
    with training(small_model(), loss_bound=BOUND, **settings) as made:  # type: ignore[arg-type]
        report = run.report(title="", quiet=True)
        run.train(made, seen=report.show_step)
        report.close()
        claim = receipts.claim_of(made, "pages")
    (guarantee,) = claim.guarantees
    assert guarantee.epsilon == PLAN.epsilon_after(4)
    assert guarantee.hyperparameter_tuning == "none"
    assert made.receipt.clipping_norm == pytest.approx(PLAN.clipping_norm)
    (access,) = [found for found in claim.data_accesses if found.purpose == PURPOSE]
    assert (access.treatment, access.accounted_in) == ("accounted", ("training",))
    log = read_log(tmp_path / "run" / "steps.jsonl")
    assert sum("noisy loss" in entry for entry in log) == 4
    assert not any("loss" in entry for entry in log)


def test_a_stream_that_tests_know_is_not_the_one_that_training_draws_from() -> None:
    with training(small_model(), draws=[], coins=None, noise=Silent(), loss_bound=BOUND) as made:
        made.step()
        assert not made.receipt.is_secret
