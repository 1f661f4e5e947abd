"""What clients compute: central sums to the bit, providers bounded, nothing else in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from private_simulator import (
    CLIP,
    DIVISOR,
    Scripted,
    by_hand,
    example_records,
    make_plan,
    small_model,
    squares,
    training,
)
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.federated import updates
from hushdoc_training.federated.plan import FEAM, PROVIDER, FederatedPlan
from hushdoc_training.federated.server_steps import MeanUpdate, ServerAdam, WeightedMean
from hushdoc_training.federated.updates import (
    ClientPlan,
    FeAm,
    FedAvg,
    FedAvgDp,
    LocalTraining,
    ProviderUpdates,
)
from hushdoc_training.privacy.records import Records
from hushdoc_training.privacy.trained_tensors import count, load, trained_tensors, weights_of
from hushdoc_training.randomness.secret_stream import SecretStream

STEP = 2.0**-24
ROUNDS = [[0, 2, 8], [], [1, 5]]


def weights(model: nn.Module) -> updates.Weights:
    return weights_of(trained_tensors(model))


def client_plan(**changed: Any) -> ClientPlan:
    settings: dict[str, Any] = {
        "privacy_unit": "document",
        "sampling_rate": 0.5,
        "clipping_norm": CLIP,
        "steps": 3,
        "lattice_step": STEP,
        "expected_records": 8,
    }
    return ClientPlan(**{**settings, **changed})


@contextmanager
def client(
    kind: type[Any], model: nn.Module, draws: Sequence[Sequence[int]], **settings: Any
) -> Iterator[Any]:
    """Yields a client that draws what the test says."""
    defaults: dict[str, Any] = {
        "plan": client_plan(),
        "records": Records(example_records(), unit="document"),
        "losses": squares(model),
    }
    if kind is ProviderUpdates:
        defaults["local"] = LocalTraining(learning_rate=0.05, batch_size=2)
    settings = {**defaults, **settings}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "_coins", lambda _: Scripted(draws))
        made = kind(settings.pop("plan"), model, **settings)
    yield made
    if kind is FeAm:
        made.close()


def test_one_client_and_a_server_are_central_training_to_the_bit() -> None:
    central = small_model()
    adam = torch.optim.Adam(central.parameters(), lr=0.01)
    plan = make_plan(steps=3)
    how: dict[str, Any] = {"optimizer": adam, "backend": updates.ALONE}
    with training(central, draws=ROUNDS, plan=plan, **how) as made:
        step = made._lattice.step
        list(made)
    model = small_model()
    now = weights(model)
    server = ServerAdam(len(now), lattice_step=step, divisor=DIVISOR, learning_rate=lambda _: 0.01)
    with client(FeAm, model, ROUNDS, plan=client_plan(lattice_step=step)) as feam:
        for number in (1, 2, 3):
            now = server.apply(now, feam.compute(now, number), number)
    assert np.array_equal(now, weights(central))
    assert not np.array_equal(now, weights(small_model()))


def test_sums_of_several_clients_add_up_to_that_of_one() -> None:
    records = example_records()
    total = np.zeros(count(trained_tensors(small_model())), dtype=np.int64)
    for held, drawn in (((0, 1, 2, 3), [0, 2]), ((4, 5, 6, 7, 8), [4])):
        own = Records([records[index] for index in held], unit="document")
        with client(FeAm, model := small_model(), [drawn], records=own) as one:
            total += one.compute(weights(model), 1)
    expected = by_hand([0, 2, 8], records).numpy()
    assert np.abs(total * STEP - expected).max() < 1e-6


def second_round(kind: type[Any], *, fails: bool) -> np.ndarray:
    """Returns the sum of the second round, after one in which memory may have been short."""
    model = small_model()
    of_examples = squares(model)
    left: list[int] = []

    def short(examples: Sequence[torch.Tensor]) -> torch.Tensor:
        if left and not left.pop():
            raise MemoryError
        return of_examples(examples)

    with client(kind, model, [[0, 2, 8], [1, 5]], losses=short) as made:
        start = weights(model)
        if fails:
            left += [0, 1, 1]
            with pytest.raises(MemoryError):
                made.compute(start, 1)
        else:
            made.compute(start, 1)
        torch.manual_seed(0)
        found: np.ndarray = made.compute(start, 2)
    return found


@pytest.mark.parametrize("kind", [FeAm, ProviderUpdates])
def test_nothing_of_a_round_that_failed_is_in_the_next(kind: type[Any]) -> None:
    found, other = second_round(kind, fails=True), second_round(kind, fails=False)
    np.testing.assert_allclose(found, other, rtol=0, atol=8)  # steps of a grid, as float32 rounds
    assert np.abs(found).max() > 10_000


@pytest.mark.parametrize(("drawn", "at_once"), [(80, 64), (200, 25), (1300, 3)])
def test_of_more_records_than_expected_fewer_are_added_at_once(drawn: int, at_once: int) -> None:
    """So that the error of float32 is what the grid allows for, however many are drawn."""
    model, record = small_model(), example_records()[0][:1]
    of_examples = squares(model)
    passes: list[int] = []
    added: list[int] = []

    def noted(examples: Sequence[torch.Tensor]) -> torch.Tensor:
        passes.append(len(examples))
        added.extend(made._sum._sums._held for made in clients)
        return of_examples(examples)

    many = {"records": Records([record] * drawn, unit="document"), "losses": noted}
    clients: list[FeAm[torch.Tensor]] = []
    with client(FeAm, model, [range(drawn)], trial_records=example_records(), **many) as update:
        clients.append(update)
        passes.clear()
        total = update.compute(weights(model), 1)
    assert (max(passes), sum(passes), max(added)) == (1, drawn, at_once)
    expected = drawn * by_hand([0], [record]).numpy()
    assert np.abs(total * STEP - expected).max() < 1e-6 * drawn


class Pooling(nn.Module):
    """Attention of one query over numbers, of which padding is masked as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(1, 1), nn.Linear(1, 3)

    def forward(self, numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.key(numbers)[..., 0] + (1 - mask) * torch.finfo(mask.dtype).min
        pooled: torch.Tensor = (scores.softmax(1).unsqueeze(2) * self.value(numbers)).sum(1)
        return pooled


def pooling(model: Pooling) -> Any:
    def losses(examples: Sequence[torch.Tensor]) -> torch.Tensor:
        padded = nn.utils.rnn.pad_sequence(list(examples), batch_first=True)
        ones = [torch.ones(len(example)) for example in examples]
        mask = nn.utils.rnn.pad_sequence(ones, batch_first=True)
        return (model(padded.unsqueeze(2), mask) - 1).square().sum(1)

    return losses


@pytest.mark.parametrize("kind", [FeAm, ProviderUpdates])
def test_no_weights_make_a_record_move_others(kind: type[Any]) -> None:
    """By these a score is infinite, but for one record's, and masked ones are the largest left."""
    chosen, sums = np.array([-1e38, 0, 1, 1, 1, 0, 0, 0], dtype=np.float32), []
    alike = [[torch.tensor([5.0, 6.0])] for _ in range(10)]
    records = Records([*alike, [torch.tensor([7.0, 5.0, 0.5])]], unit="document")
    trial = [[torch.randn(2)], [torch.randn(3)]]
    for drawn in (range(10), range(11)):
        torch.manual_seed(1)
        model = Pooling()
        how = {"records": records, "losses": pooling(model), "trial_records": trial}
        with client(kind, model, [drawn], **how) as made:
            sums.append(made.compute(chosen, 1))
    moved = np.linalg.norm(sums[1] - sums[0]) * STEP
    assert 0 < moved <= CLIP + STEP * np.sqrt(len(chosen))


def test_records_that_share_a_pass_are_refused() -> None:
    with (
        pytest.raises(PrivacyError, match="may send any weights"),
        client(FeAm, small_model(), [], backend="book-keeping"),
    ):
        pass
    model = small_model()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    with (
        training(model, draws=[], optimizer=adam) as own,
        pytest.raises(PrivacyError, match="may send any weights"),
    ):
        FedAvgDp(own, steps_per_round=1, weight=1.0, lattice_step=STEP)


@pytest.mark.parametrize("kind", [FeAm, ProviderUpdates])
def test_a_round_is_charged_before_its_coins_and_never_twice(kind: type[Any]) -> None:
    events: list[object] = []

    class Coins(Scripted):
        def uniforms(self, number: int) -> Any:
            events.append("coins")
            return super().uniforms(number)

    def full(number: int) -> None:
        if number == 3:
            raise OSError(28, "No space left on device")
        events.append(number)

    model = small_model()
    with client(kind, model, [], charge=full) as made:
        draws = made._sum._draws if kind is FeAm else made._draws
        draws.coins = Coins([[0], [0]])
        made.compute(weights(model), 2)
        assert events == [2, "coins"]
        for again in (1, 2):
            with pytest.raises(PrivacyError, match="never drawn again"):
                made.compute(weights(model), again)
        with pytest.raises(OSError, match="No space"):
            made.compute(weights(model), 3)
        made.resume(3)
        with pytest.raises(PrivacyError, match="All 3 steps"):
            made.compute(weights(model), 4)
        assert events == [2, "coins"]


@pytest.mark.parametrize("kind", [FeAm, ProviderUpdates])
def test_a_record_moves_a_row_by_the_norm_at_most_and_nobody_by_nothing(kind: type[Any]) -> None:
    drawn = [[0, 3, 8], [0, 3], []]
    for records in (example_records(), [[one * torch.nan for one in r] for r in example_records()]):
        model = small_model()
        own = Records(records, unit="document")
        with client(kind, model, drawn, records=own, trial_records=example_records()[3:6]) as made:
            now = weights(model)
            rows = [made.compute(now, number) for number in (1, 2, 3)]
        assert np.array_equal(weights(model), now)
        assert not rows[2].any()
        assert rows[0].dtype == np.int64
        moved = float(np.linalg.norm(rows[0] - rows[1])) * STEP
        assert moved <= CLIP + (STEP * np.sqrt(made.numbers) if kind is FeAm else 0.0)
        assert (moved > 0.9 * CLIP) == (records[8][0].isfinite().all())


def test_a_providers_change_is_the_same_whoever_else_is_drawn() -> None:
    model = small_model()
    with client(ProviderUpdates, model, [[1, 4, 8], [4], [1, 8]]) as made:
        made._local = LocalTraining(learning_rate=0.01, batch_size=64)  # one order of examples
        rows = [made.compute(weights(model), number) for number in (1, 2, 3)]
    assert np.array_equal(rows[0], rows[1] + rows[2])
    details = made.claim_details("bills")
    assert [access.purpose for access in details.accesses] == [updates.TESTED]


class Remembering(nn.Module):
    """Answers otherwise after it has seen something."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.seen = 0.0

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(examples + self.seen)
        self.seen += float(examples.detach().abs().sum())
        return found


class Counting(nn.Module):
    """Writes what it sees into a buffer that it does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        self.seen += examples.detach().sum()
        found: torch.Tensor = self.layer(examples)
        return found


@pytest.mark.parametrize(
    ("model", "says"), [(Remembering(), "after another provider"), (Counting(), "written to")]
)
def test_what_one_provider_leaves_to_the_next_is_refused(model: nn.Module, says: str) -> None:
    with pytest.raises(PrivacyError, match=says), client(ProviderUpdates, model, []):
        pass


def test_a_client_that_couples_records_is_refused_as_in_central_training() -> None:
    model = small_model()

    def coupled(examples: Sequence[torch.Tensor]) -> torch.Tensor:
        found = squares(model)(examples)
        return found - found.mean()

    with pytest.raises(PrivacyError), client(FeAm, model, [], losses=coupled):
        pass


def test_a_clients_own_private_training_goes_on_from_the_rounds_weights() -> None:
    model, reference = small_model(), small_model()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    draws = [[0], [2, 3], [5], [8]]
    with training(model, draws=draws, optimizer=adam, backend=updates.ALONE) as own:
        update = FedAvgDp(own, steps_per_round=2, weight=1.0, lattice_step=STEP)
        begin = weights(model)
        first = update.compute(begin, 1)
        second = update.compute(begin, 3)
        with pytest.raises(PrivacyError, match="once"):
            update.compute(begin, 3)
        assert own.charged == 4
    expected = []
    for drawn in (draws[:2], draws[2:]):
        load(trained_tensors(reference), begin)
        adam = torch.optim.Adam(reference.parameters(), lr=0.01)
        with training(reference, draws=drawn, optimizer=adam) as one:
            for _ in drawn:
                one.step()
        expected.append(weights(reference).astype(np.float64) - begin)
    assert np.abs(first * STEP - expected[0]).max() <= STEP
    assert np.abs(second * STEP - expected[1]).max() <= STEP
    mean = MeanUpdate(lattice_step=STEP, divisor=2).apply(begin, first + second, 1)
    assert np.allclose(mean, begin + (expected[0] + expected[1]) / 2, atol=1e-6)


def test_fedavg_is_the_mean_by_numbers_of_examples() -> None:
    model = small_model()
    examples = [example for record in example_records() for example in record]
    local = LocalTraining(learning_rate=0.01, batch_size=64)
    begin, server = weights(model), WeightedMean(lattice_step=STEP)

    def client_of(own: Sequence[torch.Tensor]) -> FedAvg[torch.Tensor]:
        return FedAvg(model, examples=own, losses=squares(model), local=local, lattice_step=STEP)

    clients = [client_of(examples[:5]), client_of(examples[5:])]
    assert clients[0].numbers == len(begin) + 1
    rows = [one.compute(begin, 1) for one in clients]
    found = server.apply(begin, rows[0] + rows[1], 1)
    alone = [server.apply(begin, row, 1).astype(np.float64) for row in rows]
    total = len(examples)
    assert np.allclose(found, (5 * alone[0] + (total - 5) * alone[1]) / total, atol=1e-6)
    assert np.array_equal(server.apply(begin, np.zeros(len(begin) + 1, dtype=np.int64), 1), begin)


def federated(**changed: Any) -> FederatedPlan:
    settings: dict[str, Any] = {
        "algorithm": FEAM,
        "clients": 3,
        "clients_per_round": 3,
        "rounds": 3,
        "sampling_rate": 0.5,
        "clipping_norm": CLIP,
        "noise_multiplier": 50.0,
        "expected_records": 4,
        "privacy_unit": "document",
        "epsilon": 8.0,
        "delta": 1e-5,
        "accountant": "rdp",
        "numbers": 53,
    }
    return FederatedPlan(**{**settings, **changed})


@pytest.mark.parametrize(("algorithm", "kind"), [(FEAM, FeAm), (PROVIDER, ProviderUpdates)])
def test_the_noise_of_a_sum_is_that_of_the_plan(algorithm: str, kind: type[Any]) -> None:
    """Three clients' shares add up to it with one of them colluding, and more with all."""
    plan = federated(algorithm=algorithm, colluding=1, rounds=60, epsilon=100.0)
    updates_of_clients = []
    for _ in range(3):
        model = small_model()
        with client(kind, model, [[]] * 60, plan=ClientPlan.of(plan)) as made:
            stream = SecretStream()
            made.meter.divided(plan.expected_records)
            updates_of_clients.append(
                [
                    plan.grid.noised(made.compute(weights(model), number), stream, made.meter)
                    for number in range(1, 61)
                ]
            )
    rows = np.array(updates_of_clients)
    needed = plan.noise_multiplier * plan.grid.sensitivity
    assert float(rows[:2].sum(0).std()) == pytest.approx(needed, rel=0.05)
    assert float(rows.sum(0).std()) == pytest.approx(needed * plan.shares.overhead, rel=0.05)


def test_streams_of_clients_are_the_operating_systems_and_receipts_what_ran() -> None:
    plan, model = federated(), small_model()
    records = Records(example_records(), unit="document")
    feam = FeAm(ClientPlan.of(plan), model, records=records, losses=squares(model))
    feam.meter.divided(plan.expected_records)
    row = plan.grid.noised(feam.compute(weights(model), 1), SecretStream(), feam.meter)
    assert np.abs(row).max() > plan.share_width / 10
    assert {access.treatment for access in feam.claim_details("bills").accesses} == {"not-released"}
    feam.close()
    found = feam.meter.receipt()
    assert found.is_secret
    plan.require_executed(found)
    with pytest.raises(PrivacyError, match="share"):
        federated(noise_multiplier=60.0).require_executed(found)


def test_weights_of_another_model_are_refused() -> None:
    with (
        client(FeAm, small_model(), [[0]]) as made,
        pytest.raises(ValueError, match=r"shape \[3\]; expected \[53\]"),
    ):
        made.compute(np.zeros(3, dtype=np.float32), 1)
    with (
        pytest.raises(ValueError, match="max_examples"),
        client(FeAm, small_model(), [], max_examples=65),
    ):
        pass
