"""Two processes over gloo take the step that one would take, and add noise once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from private_simulator import CLIP, DIVISOR, small_model

from hushdoc_training.privacy import same_records
from hushdoc_training.randomness import lattice
from hushdoc_training.randomness.lattice import Lattice

Ranks = list[dict[str, Any]]
Pair = Callable[..., Ranks]


@pytest.fixture(scope="module")
def ranks(in_two_processes: Pair, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    return in_two_processes("distributed_driver", tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    import distributed_driver

    def of_two(**asked: Any) -> Lattice:
        return of_sums(**{**asked, "parts": 2})

    # On the grid of two, whose noise has a table of its own.
    of_sums = lattice.of_sums
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattice, "of_sums", of_two)
        found: dict[str, Any] = distributed_driver.steps(small_model())
    return found


@pytest.mark.parametrize("way", ["plain", "different"])
def test_two_processes_take_the_step_of_one(ranks: Ranks, alone: dict[str, Any], way: str) -> None:
    """With equal coins and noise; also where they began with different weights."""
    for found in ranks:
        weights = found[way]["weights"]
        assert float((weights - alone["weights"]).norm() / alone["weights"].norm()) < 1e-5
        assert found[way]["drawn"] == alone["drawn"] == [6, 0, 1, 9]
        assert found[way]["noisy"] == pytest.approx(alone["noisy"])
    assert torch.equal(ranks[0][way]["weights"], ranks[1][way]["weights"])
    # Each computed a part, and the first alone charged.
    assert [one + two for one, two in zip(*(r[way]["computed"] for r in ranks), strict=True)] == (
        alone["computed"]
    )
    assert max(ranks[1][way]["computed"]) < 9
    assert [found[way]["charged"] for found in ranks] == [[1, 2, 3, 4], []]


def test_every_process_keeps_its_shard_alone(ranks: Ranks) -> None:
    whole = sum(value.numel() for value in small_model().parameters())
    first, second = (found["sharded"]["noisy"] for found in ranks)
    assert first == second
    local = [found["sharded"]["local"] for found in ranks]
    assert sum(local) == whole
    assert max(local) < 0.7 * whole


def test_noise_is_added_once(ranks: Ranks) -> None:
    noise = [found["noise"]["noise"] * DIVISOR / CLIP for found in ranks]
    assert torch.equal(noise[0], noise[1])
    assert float(noise[0].std()) == pytest.approx(3.0, rel=0.03)


def test_processes_share_coins_that_nobody_gave_them(ranks: Ranks) -> None:
    drawn = [found["own coins"]["drawn"] for found in ranks]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 2
    assert torch.equal(ranks[0]["own coins"]["weights"], ranks[1]["own coins"]["weights"])


def test_what_processes_can_not_sum_is_refused_in_all_of_them(ranks: Ranks) -> None:
    for rank, found in enumerate(ranks):
        refusals = found["refusals"]
        assert "`.module`" in refusals["ddp"]
        assert "differ in the records" in refusals["records"]
        expected = "OSError" if rank == 0 else "PrivacyError: The first process could not go on"
        assert refusals["charge"].startswith(expected)
        assert "No space left" in refusals["charge"]
        for name, what in (
            ("version", "the version of hushdoc"),
            ("optimizer", "the optimizer"),
            ("buffer", "the model"),
            ("charges", "whether steps are charged"),
        ):
            assert f"The 2 processes differ in {what}, so" in refusals[name]


def test_a_process_outside_of_the_group_trains_nothing(ranks: Ranks) -> None:
    """It would neither charge a step nor add noise."""
    first, second = (found["refusals"]["outside"] for found in ranks)
    assert first == "not refused"
    assert "Process 1 is not in the group" in second


def test_no_process_claims_what_the_first_one_has_trained_before(ranks: Ranks) -> None:
    for found in ranks:
        assert "what an earlier private training had left (0.bias" in found["trained before"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("swapped", "processes differ in the records"),
        ("touched", "processes differ in the records"),
        ("turned", r"Record \d has the loss .* in the first process and .* in process 1"),
        ("turned, and told", "processes differ in the records"),
        ("unseen", r"'Opaque' \(example\).*Give `fingerprint`"),
        ("same", "not refused"),
        ("same, and told", "not refused"),
        ("dropout", "not refused"),
    ],
)
def test_processes_that_read_other_data_are_refused_in_all(
    ranks: Ranks, name: str, says: str
) -> None:
    """A document at two places of two lists would be clipped twice, in one step."""
    for found in ranks:
        assert re.search(says, found["other data"][name]), found["other data"][name]


def test_what_fails_in_one_process_is_not_waited_for_in_the_others(
    ranks: Ranks,
) -> None:
    first, second = (found["other data"]["gone"] for found in ranks)
    assert "differ in the records" in first
    assert second.startswith("FileNotFoundError")


def test_every_process_draws_masks_of_its_own(ranks: Ranks) -> None:
    first, second = (found["masks"]["drawn"] for found in ranks)
    assert first.shape == second.shape == (4, 5)
    assert not torch.equal(first, second)


def test_a_claim_says_what_it_rests_on_where_examples_only_point(
    ranks: Ranks,
) -> None:
    for found in ranks:
        content, numbers = found["masks"]["assumed"]
        assert set(numbers) == {*content, same_records.ASSUMED}
        assert same_records.ASSUMED not in content
