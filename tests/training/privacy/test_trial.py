"""Which examples the self-test tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from private_simulator import begin, make_plan, small_model, squares, training
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import clipping, trial
from hushdoc_training.privacy.trial import require_exact, trial_examples
from hushdoc_training.randomness import dropout_seeds
from hushdoc_training.runs import receipts


def test_examples_come_from_the_first_record_to_the_last() -> None:
    records = [[number, number + 0.5, -1] for number in range(100)]
    found = trial_examples(records)
    assert found[:2] == [0, 0.5]
    assert found[2:4] == [99, 99.5]
    assert len(found) == 12
    assert {int(example) for example in found} == {0, 99, 19, 79, 39, 59}


def test_records_without_examples_are_passed_over() -> None:
    assert trial_examples([[]] * 50 + [["a"]] + [[]] * 70 + [["b"]]) == ["b", "a"]
    assert trial_examples([[]] * 50) == []


def test_the_longest_and_the_shortest_example_come_first() -> None:
    records = [["aaaa"], ["bbb", "bbbb"], ["cccc"], ["cc", "ccccccc"], ["dddd"], ["e"]] * 40
    found = trial_examples(records, length=len)
    assert found[:2] == ["ccccccc", "e"]


@dataclass(frozen=True)
class Window:
    ids: np.ndarray[Any, Any]
    more: dict[str, list[torch.Tensor]]


@pytest.mark.parametrize(
    "make",
    [
        float,
        lambda n: torch.full((3,), n),
        lambda n: np.full((2, 2), n),
        lambda n: (1, [torch.tensor(n)]),
        lambda n: Window(ids=np.array([n]), more={"x": [torch.tensor(n)]}),
    ],
)
def test_examples_that_are_alike_are_tried_once(make: Any) -> None:
    records = [[make(2)], [make(2), make(2)], [make(3)]]
    assert len(trial_examples(records)) == 2


def test_things_that_cannot_be_compared_are_different() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError

    assert len(trial_examples([[Odd()], [Odd()]])) == 2


def ratio_of(model: nn.Module) -> Any:
    # Divided by what all examples of a batch hold: the same for examples that are alike.
    def losses(examples: Any) -> torch.Tensor:
        x = torch.stack(list(examples))
        return model(x).square().sum(1) / x.square().sum() * len(x)

    return losses


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_trial_of_examples_that_are_alike_is_refused(number: int) -> None:
    model, example = small_model(), torch.randn(6)
    trial = [[example.clone()] for _ in range(number)]
    with pytest.raises(PrivacyError, match="only one example that differs"):
        begin(model, losses=ratio_of(model), trial_records=trial)


@pytest.mark.parametrize("trial", [[[0, 1]], [[0], [1]], [[0], [1], [2]]])
def test_a_trial_of_two_examples_finds_what_couples_them(trial: list[list[int]]) -> None:
    model, examples = small_model(), torch.randn(3, 6)
    public = [[examples[index] for index in record] for record in trial]
    with pytest.raises(PrivacyError, match="depends on other examples"):
        begin(model, losses=ratio_of(model), trial_records=public)


def test_a_mean_over_the_longest_example_is_found_though_the_first_examples_are_full() -> None:
    model = nn.Linear(6, 1)
    x, lengths = torch.randn(300, 8, 6), torch.full((300,), 8)
    lengths[17] = 2
    clipper = clipping.BookKeeping(model, clipping_norm=1.0)

    def losses(examples: Any) -> torch.Tensor:
        longest = int(lengths[examples].max())
        mask = (torch.arange(longest) < lengths[examples][:, None]).float()
        return (model(x[examples][:, :longest]).squeeze(-1).square() * mask).mean(1)

    with pytest.raises(PrivacyError, match="longest example"):
        require_exact(
            clipper,
            [[example] for example in range(300)],
            losses,
            tolerance=1e-3,
            length=lambda example: int(lengths[example]),
        )


def test_a_tried_record_that_is_not_finite_is_passed_over() -> None:
    model = small_model()
    records = [[torch.randn(6)] for _ in range(9)]
    records[0] = [torch.full((6,), float("inf"))]
    with training(model, draws=[[0, 1]], records=records, losses=squares(model)) as made:
        assert made.step().nonfinite == 1


def noisy(model: nn.Module, generator: torch.Generator | None = None) -> Any:
    """Returns losses that draw for each example, which can't be compared in other company."""

    def losses(examples: Any) -> torch.Tensor:
        inputs = torch.stack(list(examples))
        return model(inputs + torch.randn(inputs.shape, generator=generator)).square().sum(1)

    return losses


def assumed(**settings: Any) -> tuple[str, ...]:
    plan = make_plan(steps=1)
    with training(small_model(), draws=[], plan=plan, coins=None, noise=None, **settings) as made:
        made.step()
        return receipts.claim_of(made, "pages").guarantees[0].assumes


@pytest.mark.parametrize("backend", ["book-keeping", "opacus", "one-by-one"])
def test_a_claim_says_that_the_self_test_ran_on_other_losses(backend: str) -> None:
    model = small_model()
    settings = {"backend": backend, "trial_losses": squares(model)}
    plan = make_plan(steps=1)
    with training(
        model, draws=[], plan=plan, coins=None, noise=None, losses=noisy(model), **settings
    ) as made:
        made.step()
        claim = receipts.claim_of(made, "pages")
    assert claim.guarantees[0].assumes[-2:] == (dropout_seeds.ASSUMED, trial.ASSUMED)
    claim.to_json()
    assert trial.ASSUMED not in assumed(backend=backend)


def test_a_claim_says_that_losses_with_a_generator_of_their_own_were_not_compared() -> None:
    model = small_model()
    own = torch.Generator().manual_seed(0)
    with training(
        model,
        draws=[],
        plan=make_plan(steps=1),
        coins=None,
        noise=None,
        losses=noisy(model, own),
        trial_losses=squares(model),
    ) as made:
        made.step()
        (guarantee,) = receipts.claim_of(made, "pages").guarantees
    assert guarantee.assumes[-2:] == (trial.ASSUMED, trial.UNSEEN)


def coupling(plain: Any, total: Any) -> Any:
    """Returns losses that are divided by what all examples of a batch come to."""

    def losses(examples: Any) -> torch.Tensor:
        each = plain(examples)
        return each / total(each)

    return losses


def test_losses_trained_with_that_couple_examples_are_found_beside_sound_ones() -> None:
    model = small_model()
    # A gradient leads from every loss to every example.
    coupled = coupling(noisy(model), torch.sum)
    with pytest.raises(PrivacyError, match="is off by"):
        begin(model, losses=coupled, trial_losses=squares(model))


def test_losses_trained_with_that_couple_examples_without_a_gradient_rest_on_the_claim() -> None:
    model = small_model()
    coupled = coupling(noisy(model), lambda each: each.detach().sum())
    with training(model, draws=[], losses=coupled, trial_losses=squares(model)) as made:
        assert trial.ASSUMED in made.claim_details("pages").assumes


def test_a_wrong_clipper_is_found_on_the_losses_trained_with_alone() -> None:
    class Flipping(nn.Module):
        """Moves examples on request: the same way in every batch, so nothing sees it move."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.flips = nn.Linear(6, 3), False

        def forward(self, examples: torch.Tensor) -> torch.Tensor:
            return self.first(examples.flip(0)).flip(0) if self.flips else self.first(examples)

    model = Flipping()

    def flipped(examples: Any) -> torch.Tensor:
        model.flips = True
        try:
            return noisy(model)(examples)
        finally:
            model.flips = False

    begin(model, losses=noisy(model), trial_losses=squares(model))
    with pytest.raises(PrivacyError, match=r"first\.(weight|bias)"):
        begin(model, losses=flipped, trial_losses=squares(model))


def test_what_the_losses_trained_with_do_not_reach_is_left_out() -> None:
    class Twofold(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.more = nn.Linear(6, 3), nn.Linear(6, 3)

        def forward(self, examples: torch.Tensor, *, both: bool = False) -> torch.Tensor:
            return self.used(examples) + self.more(examples) if both else self.used(examples)

    model = Twofold()

    def both(examples: Any) -> torch.Tensor:
        return model(torch.stack(list(examples)), both=True).square().sum(1)

    with (
        pytest.warns(UserWarning, match=r"more\.bias, more\.weight"),
        training(model, draws=[], losses=noisy(model), trial_losses=both) as made,
    ):
        assert set(made.untrained_parameters) == {"more.weight", "more.bias"}


@pytest.mark.parametrize(("lengths", "refused"), [((4, 4, 4), False), ((2, 4, 3), True)])
def test_an_order_that_is_made_in_python_rests_on_the_trial_examples(
    lengths: tuple[int, ...], refused: bool
) -> None:
    """Longest first, as packed sequences want it: examples of one length stay where they are."""

    class Sorting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, examples: torch.Tensor, filled: torch.Tensor) -> torch.Tensor:
            order = sorted(range(len(examples)), key=lambda at: -int(filled[at]))
            found = self.layer(torch.stack([examples[at] for at in order]))
            return torch.stack([found[order.index(at)] for at in range(len(examples))])

    model = Sorting()

    def losses(examples: Any) -> torch.Tensor:
        filled = torch.tensor([int((example != 0).sum()) for example in examples])
        return model(torch.stack(list(examples)), filled).square().sum(1)

    examples = [(torch.arange(4) < n) * (1.0 + torch.rand(4)) for n in lengths]
    settings = {"losses": losses, "trial_records": [[example] for example in examples]}
    if refused:
        with pytest.raises(PrivacyError, match=r"layer\.(weight|bias)"):
            begin(model, **settings)
    else:
        begin(model, **settings)
