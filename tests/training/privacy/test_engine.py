"""One door to private training: coupled to its plan, counted, and refusing what it can't keep."""

from __future__ import annotations

import gc
import inspect
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from private_simulator import (
    DIVISOR,
    Scripted,
    Silent,
    clipped_sum,
    example_records,
    flat,
    same_sum,
    small_model,
    squares,
    training,
)
from torch import nn

from hushdoc.accounting import pld
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import ownership
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.privacy.physical import PADDING, by_itself, pack
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.privacy.records import Records
from hushdoc_training.randomness import dropout_seeds
from hushdoc_training.randomness.secret_stream import Floats, SecretStream
from hushdoc_training.runs import receipts

PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=0.3, steps=4, expected_records=4, accountant="rdp"
)


def test_claim_and_mechanism_are_the_plans_own() -> None:
    charged: list[int] = []
    with training(
        small_model(), draws=[], coins=None, noise=None, plan=PLAN, charge=charged.append
    ) as made:
        assert made.epsilon == 0
        steps = list(made)
        assert [step.number for step in steps] == charged == [1, 2, 3, 4]
        assert made.mechanism() == PLAN.mechanism()
        assert made.epsilon == PLAN.epsilon_after(4) <= 8
        with pytest.raises(PrivacyError, match="All 4 steps"):
            made.step()
        claim = receipts.claim_of(made, "pages")
    (guarantee,) = claim.guarantees
    assert guarantee.epsilon == PLAN.epsilon_after(4)
    assert claim.transcripts == {"training": PLAN.mechanism()}
    assert pld.epsilon(claim.transcripts["training"], 1e-5) <= 8
    assert any("self-test" in access.purpose for access in claim.data_accesses)
    assert guarantee.assumes[-1] == dropout_seeds.ASSUMED
    assert not any("processes" in access.purpose for access in claim.data_accesses)
    claim.to_json()


def test_a_self_test_on_public_records_is_no_access() -> None:
    trial = [[torch.ones(6)], [torch.zeros(6), torch.ones(6)]]
    with training(
        small_model(), draws=[], coins=None, noise=None, trial_records=trial, plan=PLAN
    ) as made:
        made.step()
        claim = receipts.claim_of(made, "pages")
    assert not any("self-test" in access.purpose for access in claim.data_accesses)


@pytest.mark.parametrize(
    "known",
    [
        {"noise": SecretStream(key=bytes(32))},
        {"noise": Silent()},
        {"coins": SecretStream(key=bytes(32))},
        {"coins": Scripted([[1]])},
    ],
)
def test_nothing_is_claimed_of_coins_or_noise_that_somebody_knows(known: dict[str, object]) -> None:
    settings = {"coins": None, "noise": None, **known}
    with training(small_model(), draws=[], plan=PLAN, **settings) as made:
        made.step()
        with pytest.raises(PrivacyError, match="somebody knows"):
            receipts.claim_of(made, "pages")


def test_processes_that_add_in_one_pass_can_not_add_fewer_than_one_each() -> None:
    with training(small_model(), draws=[]) as made:
        summing = made._sum
        summing._adding = 4  # as if the model had shards in four processes
        most = summing.at_once * summing.most_added // 4
        assert summing._begin(most) == 1
        with pytest.raises(PrivacyError, match="fewer processes") as refused:
            summing._begin(most + 1)
    assert refused.value.code == "TOO_MANY_RECORDS"


def test_no_argument_fixes_what_is_drawn() -> None:
    arguments = set(inspect.signature(PrivateTraining.__init__).parameters)
    assert not arguments & {"noise", "coins", "key", "seed", "generator", "stream"}


def test_a_step_is_charged_before_a_record_is_read_or_noise_is_drawn() -> None:
    events: list[str] = []
    model = small_model()
    losses = squares(model)

    class Noted(Silent):
        def lattice_noise(self, shape: tuple[int, ...], **law: Any) -> Floats:
            events.append("noise")
            return super().lattice_noise(shape, **law)

    def noted(examples: list[torch.Tensor]) -> torch.Tensor:
        events.append("examples")
        return losses(examples)

    def full(step: int) -> None:
        raise OSError(28, "No space left on device")

    with training(
        model, draws=[[1]], losses=noted, noise=Noted(), charge=lambda _: events.append("charge")
    ) as made:
        events.clear()
        made.step()
    assert events[0] == "charge"
    assert set(events[1:]) == {"examples", "noise"}
    with training(model, draws=[[1]], losses=noted, noise=Noted(), charge=full) as made:
        events.clear()
        before = flat(model)
        with pytest.raises(OSError, match="No space left"):
            made.step()
    assert events == []
    assert torch.equal(before, flat(model))


def test_a_step_that_failed_stays_charged_and_leaves_nothing() -> None:
    model = small_model()
    losses = squares(model)
    broken = False

    def sometimes(examples: list[torch.Tensor]) -> torch.Tensor:
        if broken:
            raise RuntimeError("out of memory")
        return losses(examples)

    with training(model, draws=[[8], [0]], losses=sometimes) as made:
        broken = True
        with pytest.raises(RuntimeError, match="out of memory"):
            made.step()
        broken = False
        assert made.charged == 1
        before = flat(model)
        assert made.step().number == 2
        # Of record 8 nothing was kept.
        moved = (before - flat(model)) * DIVISOR
    assert same_sum(moved, clipped_sum([0]))


class WithBias(nn.Module):
    """Takes a constant beside its examples."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, examples: torch.Tensor, constant: torch.Tensor) -> torch.Tensor:
        return self.layer(examples + constant)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("data parallel", r"\.module"),
        ("left out", "lacks 2.weight"),
        ("foreign", "holds 1 parameters that are not trained"),
        ("lbfgs", "LBFGS"),
        ("accumulated", "leave out"),
        ("constant", r"shape \[6\] for a batch of"),
        ("examples", r"first record is 0 of type int; .*\[\[example\] for example in examples\]"),
        ("generator", "`records` is a generator"),
        ("examples of a trial", "first record is tensor"),
        ("list of losses", r"`losses` returned a list for \d+ examples; .*torch.stack"),
        ("no gradient", r"torch.float32 for \d+ examples that no gradient leads back from"),
        ("integers", "torch.int64"),
    ],
)
def test_what_would_break_the_guarantee_is_refused_by_name(name: str, says: str) -> None:
    model = small_model()
    changed: dict[str, object] = {}
    if name == "data parallel":
        model = nn.DataParallel(model)
    elif name == "left out":
        changed["optimizer"] = torch.optim.SGD(list(model.parameters())[:2], lr=1.0)
    elif name == "foreign":
        foreign = nn.Parameter(torch.ones(2))
        changed["optimizer"] = torch.optim.SGD([*model.parameters(), foreign], lr=1.0)
    elif name == "lbfgs":
        changed["optimizer"] = torch.optim.LBFGS(model.parameters())
    elif name == "accumulated":
        model(torch.ones(1, 6)).sum().backward()
    elif name == "constant":
        model = WithBias()
        changed["losses"] = lambda examples: model(torch.stack(examples), torch.ones(6)).sum(1)
    elif name == "examples":
        changed["records"] = list(range(20))
    elif name == "generator":
        changed["records"] = (record for record in example_records())
    elif name == "examples of a trial":
        changed["trial_records"] = [torch.tensor(1.0), torch.tensor(2.0)]
    elif name == "list of losses":
        changed["losses"] = lambda examples: list(squares(model)(examples))
    elif name == "no gradient":
        changed["losses"] = lambda examples: squares(model)(examples).detach()
    elif name == "integers":
        changed["losses"] = lambda examples: squares(model)(examples).long()
    before = flat(model)
    with pytest.raises(PrivacyError, match=says), training(model, draws=[[1]], **changed) as made:
        made.step()
    assert torch.equal(before, flat(model))
    model.zero_grad()


def test_gradients_and_steps_from_outside_are_refused() -> None:
    model = small_model()
    parameters = list(model.parameters())
    with training(model, draws=[[1], [2]]) as made:
        model(torch.ones(1, 6)).sum().backward()
        with pytest.raises(PrivacyError, match="leave out `loss.backward"):
            made.step()
        before = flat(model)
        with pytest.raises(PrivacyError, match="called directly"):
            made.optimizer.step()
        second = torch.optim.Adam(parameters[:1], lr=1.0)
        with pytest.raises(PrivacyError, match=r"second optimizer \(Adam\).* 1 of .*\(0\.weight\)"):
            second.step()
        whole = torch.optim.SGD([torch.ones(1), *parameters], lr=1.0)
        named = r"holds 4 of .*\(0\.weight, 0\.bias, 2\.weight, \.\.\.\).*Leave them out"
        with pytest.raises(PrivacyError, match=named):
            whole.step()
        assert torch.equal(before, flat(model))
        assert made.charged == 0
        made.optimizer.zero_grad()
        with (
            pytest.raises(PrivacyError, match=r"4 parameters .*\(0\.weight, .*already"),
            training(model, draws=[]),
        ):
            pass
        made.step()
        parameters[0].requires_grad_(False)
        with pytest.raises(PrivacyError, match=r"frozen or unfrozen.*0\.weight"):
            made.step()
        parameters[0].requires_grad_(True)
    # Afterwards the model is anybody's, and other models always were.
    second.step()
    with training(model, draws=[[1]]) as made:
        made.step()


def test_a_training_that_was_dropped_holds_nothing() -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    settings = {"records": example_records(), "losses": squares(model)}
    dropped = PrivateTraining(PLAN, model, optimizer, **settings)
    del dropped
    gc.collect()
    PrivateTraining(PLAN, model, optimizer, **settings).close()
    optimizer.step()


def test_a_step_inside_no_grad_still_learns() -> None:
    model = small_model()
    before = flat(model)
    with training(model, draws=[[8]]) as made, torch.no_grad():
        made.step()
    assert not torch.equal(flat(model), before)


def test_models_that_are_not_trained_privately_are_left_alone() -> None:
    other = small_model(1)
    optimizer = torch.optim.SGD(other.parameters(), lr=1.0)
    with training(small_model(), draws=[]):
        other(torch.ones(1, 6)).sum().backward()
        before = flat(other)
        optimizer.step()
        assert not torch.equal(before, flat(other))
        assert all(optimizer is not owner for owner in ownership._OWNERS.values())


def test_arguments_out_of_range() -> None:
    for wrong in ({"backend": "fast"}, {"max_examples": 0}, {"multiplicity": 0}):
        with pytest.raises(ValueError, match="backend"), training(small_model(), draws=[], **wrong):
            pass
    with training(small_model(), draws=[[1]]) as made:
        made.step()
        for charged in (0, 51):
            with pytest.raises(PrivacyError, match="expected 1 to 50"):
                made.resume(charged)
        made.resume(50)
        assert list(made) == []


def test_a_record_is_cut_alike_however_many_others_are_drawn() -> None:
    """What the parts of a large record are filled up with must not tell of others."""
    model = small_model()
    large, small = (example_records()[number][0] for number in (0, 3))
    of_examples = squares(model)
    parts: list[int] = []

    def noted(examples: Sequence[torch.Tensor]) -> torch.Tensor:
        parts.append(sum(example is large for example in examples))
        return of_examples(examples)

    records = Records([[large] * 40, [large] * 30, *[[small]] * 1300], unit="document")
    settings = {"records": records, "losses": noted, "trial_records": example_records()}
    with training(model, draws=[[0, 1], range(1302)], **settings) as made:
        for _ in range(2):
            parts.clear()
            made.step()
            assert [count for count in parts if count] == [30, 32, 8]


def test_records_of_other_lengths_share_no_pass() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 4, (60, 3, 2), generator=generator).tolist()
    records = [[*map(tuple, some[: 1 + number % 3])] for number, some in enumerate(sizes)]
    records += [[(2, 3)], [(2, 3), (2, 3)], [(2, 3), (1, 3)]]
    packed = pack(records, max_examples=20, length=lambda size: size)
    assert len(packed.batches) < len(records)
    for batch in packed.batches:
        shapes = set()
        for one in by_itself(batch):
            axes = list(zip(*one.examples, strict=True))
            shapes.add(tuple((max(axis), len(set(axis)) == 1) for axis in axes))
        assert len(shapes) == 1


def test_packing_keeps_records_whole_and_loses_no_row() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        sizes = torch.randint(0, 7, (12,), generator=generator).tolist()
        records = [
            [(number, example) for example in range(size)] for number, size in enumerate(sizes)
        ]
        packed = pack(
            records, max_examples=4, multiplicity=1, padded=True, length=lambda example: example[1]
        )
        seen = []
        for batch in packed.batches:
            assert len(batch.examples) == len(batch.records) == len(batch.weights) == 4
            kept = [(r, n, w) for r, n, w in zip(*vars_of(batch), strict=True) if n != PADDING]
            for number in {n for _, n, _ in kept}:
                examples = [example for example, n, _ in kept if n == number]
                assert examples == records[examples[0][0]]
                assert math.isclose(sum(w for _, n, w in kept if n == number), 1.0)
                seen += examples
        for parts in packed.large:
            examples = [
                example
                for part in parts
                for example, n in zip(part.examples, part.records, strict=True)
                if n == 0
            ]
            assert examples == records[examples[0][0]]
            assert math.isclose(sum(sum(part.weights) for part in parts), 1.0)
            seen += examples
        assert sorted(seen) == sorted(example for record in records for example in record)


def vars_of(batch: object) -> tuple[object, object, object]:
    return batch.examples, batch.records, batch.weights  # type: ignore[attr-defined]


def test_threads_take_steps_in_turns() -> None:
    """Or the sum of one step would hold the records of another one, with noise for one."""
    draws = [[0, 1], [1, 2, 3]]
    alone, shared = small_model(), small_model()
    with training(alone, draws=draws) as made:
        expected = [made.step().number, made.step().number]
    with training(shared, draws=draws) as made:
        made.optimizer.register_step_pre_hook(lambda *_: time.sleep(0.1))
        with ThreadPoolExecutor(2) as pool:
            found = [step.number for step in pool.map(lambda _: made.step(), range(2))]
    assert sorted(found) == expected == [1, 2]
    assert torch.equal(flat(shared), flat(alone))
