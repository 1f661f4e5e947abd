"""What the words come down to, for each adjacency."""

from __future__ import annotations

import math

import pytest

from hushdoc.accounting.mechanism import (
    ADJACENCIES,
    ClusterSampled,
    Composed,
    Gaussian,
    Grouped,
    HashFill,
    Mechanism,
    Parallel,
    PoissonSampled,
    RepeatAndSelect,
    Sequence,
    WithoutReplacement,
)
from hushdoc.accounting.normal_form import (
    NOTHING,
    UNBOUNDED,
    Largest,
    Product,
    PublicMixture,
    Selected,
    Step,
    inverse_square,
    normal_form,
)

NOISE = Gaussian(noise_multiplier=3.0)
SAMPLED = PoissonSampled(sampling_rate=0.2, event=NOISE)
STEP = Step(rate=0.2, noise=3.0)


def batch(size: int, event: Mechanism = NOISE) -> WithoutReplacement:
    return WithoutReplacement(population=10, sample_size=size, event=event)


def test_sampled_noise_is_one_step() -> None:
    found = normal_form(SAMPLED)
    assert isinstance(found, Step)
    assert (found.rate, found.size, found.change, found.exact) == (0.2, 1, "removed", True)
    assert found.noise == pytest.approx(3.0)


def test_gaussians_on_the_full_data_are_one() -> None:
    found = normal_form(Composed(event=Sequence(events=(NOISE, NOISE)), count=8))
    assert isinstance(found, Step)
    assert found.noise == pytest.approx(0.75)


def test_equal_steps_are_counted_together_however_they_are_nested() -> None:
    nested = Sequence(events=(SAMPLED, Composed(event=Sequence(events=(SAMPLED,)), count=4)))
    found = normal_form(nested)
    assert isinstance(found, Product)
    assert [count for _, count in found.terms] == [5.0]


@pytest.mark.parametrize(
    ("adjacency", "noise", "change", "exact"),
    [("replace-one", 3.0, "replaced", True), ("zero-out", 3.0, "removed", True)],
)
def test_a_poisson_sample_of_other_neighbours(
    adjacency: str, noise: float, change: str, exact: bool
) -> None:
    found = normal_form(SAMPLED, adjacency)
    assert isinstance(found, Step)
    assert (found.change, found.exact) == (change, exact)
    assert found.noise == pytest.approx(noise)


def test_a_replaced_record_moves_the_sum_twice_as_far() -> None:
    assert normal_form(NOISE, "replace-one") == Step(rate=1.0, noise=1.5)


@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
def test_batches_of_a_fixed_size(adjacency: str) -> None:
    found = normal_form(batch(4), adjacency)
    assert isinstance(found, Step)
    assert (found.rate, found.change, found.exact) == (0.4, "exchanged", False)
    assert found.noise == pytest.approx(1.5)
    assert normal_form(batch(0), adjacency) == NOTHING
    assert normal_form(batch(10), adjacency) == normal_form(NOISE, adjacency)


def test_batches_of_a_fixed_size_say_nothing_about_added_records() -> None:
    assert normal_form(batch(4)) == UNBOUNDED
    assert normal_form(batch(4, Sequence(events=()))) == NOTHING


def test_a_batch_of_a_batch_is_drawn_at_both_rates() -> None:
    found = normal_form(batch(4, batch(5)), "replace-one")
    assert isinstance(found, Step)
    assert found.rate == pytest.approx(0.2)


def test_what_sampling_cannot_be_shown_to_help_is_counted_in_full() -> None:
    inner = Composed(event=SAMPLED, count=5)
    found = normal_form(PoissonSampled(sampling_rate=0.1, event=inner))
    assert isinstance(found, Product)
    ((step, count),) = found.terms
    assert (step.rate, step.exact, count) == (0.2, False, 5.0)


def test_a_group_enters_each_sample_several_times() -> None:
    found = normal_form(Grouped(size=2, event=Grouped(size=3, event=SAMPLED)))
    assert isinstance(found, Step)
    assert (found.size, found.rate) == (6, 0.2)
    assert normal_form(Grouped(size=4, event=NOISE)) == Step(rate=1.0, noise=0.75)


def test_a_group_may_be_in_many_clusters_and_parts() -> None:
    cluster = ClusterSampled(sampling_rate=0.5, event=NOISE)
    assert normal_form(Grouped(size=2, event=cluster)) == Step(rate=1.0, noise=1.5, exact=False)
    parts = Parallel(events=(SAMPLED, Composed(event=SAMPLED, count=2)))
    found = normal_form(Grouped(size=2, event=parts))
    assert isinstance(found, Product)
    assert [count for _, count in found.terms] == [3.0]


def test_a_cluster_takes_part_by_public_public_mixture() -> None:
    cluster = ClusterSampled(sampling_rate=0.3, event=NOISE)
    assert normal_form(cluster) == PublicMixture(rate=0.3, event=Step(rate=1.0, noise=3.0))
    assert normal_form(cluster, "replace-one") == PublicMixture(
        rate=0.6, event=Step(rate=1.0, noise=1.5, exact=False)
    )
    always = ClusterSampled(sampling_rate=1.0, event=NOISE)
    assert normal_form(always) == normal_form(NOISE)
    assert normal_form(ClusterSampled(sampling_rate=0.0, event=NOISE)) == NOTHING


def test_of_disjoint_parts_the_largest_counts() -> None:
    assert normal_form(Parallel(events=(NOISE, NOISE))) == normal_form(NOISE)
    found = normal_form(Parallel(events=(NOISE, Composed(event=NOISE, count=4))))
    assert found == Largest(events=(Step(rate=1.0, noise=3.0), Step(rate=1.0, noise=1.5)))
    assert normal_form(Parallel(events=(NOISE, SAMPLED)), "replace-one") == UNBOUNDED
    assert normal_form(Parallel(events=()), "replace-one") == NOTHING


def test_the_best_of_one_run_is_that_run() -> None:
    once = RepeatAndSelect(event=NOISE, distribution="geometric", expected_runs=1.0)
    assert normal_form(once) == normal_form(NOISE)
    drawn = RepeatAndSelect(event=NOISE, distribution="poisson", expected_runs=1.0)
    assert isinstance(normal_form(drawn), Selected)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_one_unbounded_event_spoils_everything(adjacency: str) -> None:
    fill = HashFill(rows=2, columns=2)
    for event in (
        Sequence(events=(NOISE, fill)),
        ClusterSampled(sampling_rate=0.1, event=fill),
        Parallel(events=(NOISE, fill)),
        Grouped(size=2, event=fill),
        PoissonSampled(sampling_rate=0.1, event=fill),
        RepeatAndSelect(event=fill, distribution="geometric", expected_runs=3.0),
    ):
        assert normal_form(event, adjacency) == UNBOUNDED


def test_a_term_that_may_be_everywhere_is_bounded_only_by_reading_nothing() -> None:
    assert normal_form(NOISE, "all-occurrences-of-one-term") == UNBOUNDED
    assert normal_form(Composed(event=NOISE, count=0), "all-occurrences-of-one-term") == NOTHING


def test_an_unknown_adjacency_is_refused() -> None:
    with pytest.raises(ValueError, match="adjacency is 'swap'"):
        normal_form(NOISE, "swap")


def test_counts_and_groups_beyond_doubles_cost_no_less() -> None:
    endless = normal_form(Composed(event=SAMPLED, count=10**400))
    assert isinstance(endless, Product)
    assert endless.terms[0][1] == math.inf
    assert normal_form(Grouped(size=10**400, event=NOISE)) == UNBOUNDED


def test_inverse_squares_keep_their_sign() -> None:
    assert inverse_square(2.0) == 0.25
    assert inverse_square(0.0) == inverse_square(1e-200) == math.inf
    assert inverse_square(1e300) > 0
