"""Repeat and select: the best of a random number of private trainings, accounted for.

Papernot, Steinke ("Hyperparameter Tuning with Renyi Differential Privacy", 2022, theorem 2): where
each training is an independent draw of one mechanism, its settings drawn at random from a public
list, and the number of trainings is drawn from a distribution with a known mean, the best one costs
little more than one training, and far less than all of them. Two things it rests on are the
caller's: what is called best is told by what a training releases (weights, losses with noise) and
by public documents alone, never by a number of the private ones without noise; and neither the
other models nor how many there were leave the training site.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hushdoc import arguments
from hushdoc.accounting import rdp
from hushdoc.accounting.mechanism import Mechanism, RepeatAndSelect
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import earlier_steps
from hushdoc_training.privacy.engine import PrivateTraining
from hushdoc_training.private_view import EARLY_END, PrivateView
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.receipt import Receipt

Outcome = TypeVar("Outcome")
Setting = TypeVar("Setting")

DISTRIBUTIONS = ("logarithmic", "geometric")
"""Those of the number of trainings that are never 0; the first costs less and varies more."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """How many trainings there will be.

    Attributes:
        expected_runs: Mean of their number, from 1.
        distribution: One of DISTRIBUTIONS.
    """

    expected_runs: float
    distribution: str = "geometric"

    def __post_init__(self) -> None:
        """Refuses what no number of trainings can follow."""
        arguments.choice(self.distribution, DISTRIBUTIONS, what="distribution")
        if not 1 <= self.expected_runs <= 1e6:
            raise ValueError(f"expected_runs is {self.expected_runs!r}; expected 1 to 1e6.")

    def mechanism(self, training: Mechanism) -> Mechanism:
        """Returns the accounting event of the best of these trainings."""
        return RepeatAndSelect(
            event=training,
            distribution=self.distribution,
            expected_runs=float(self.expected_runs),
        )

    def draw(self, stream: SecretStream) -> int:
        """Returns a number of trainings, from 1."""
        uniform = float(stream.uniforms(1)[0])
        inverse = rdp.log_inverse_gamma(self.distribution, self.expected_runs)
        if inverse == 0:
            return 1
        log_rest = math.log(-math.expm1(-inverse))  # log(1 - gamma)
        if self.distribution == "geometric":
            return 1 + int(math.log(uniform) / log_rest)
        number, left = 1, uniform - math.exp(log_rest) / inverse
        while left > 0 and (part := math.exp((number + 1) * log_rest) / inverse / (number + 1)):
            number, left = number + 1, left - part
        return number


@dataclass(frozen=True, kw_only=True)
class Candidate(Generic[Outcome]):
    """One training that took its steps, what came of it, and how good that is."""

    outcome: Outcome
    score: float  # of what is released and of public documents alone; not a number is the worst
    training: PrivateTraining[Any]


@dataclass(frozen=True, kw_only=True)
class Best(Generic[Outcome]):
    """The best of a random number of trainings; made by `best_of` alone.

    Attributes:
        outcome: What came of it, and the only thing that may be released.
        training: The training.
        selection: How many there could be.
        receipts: What each of them executed.
        views: Who reads un-noised numbers of each, also after the choice.
    """

    outcome: Outcome
    training: PrivateTraining[Any]
    selection: Selection
    receipts: tuple[Receipt, ...]
    views: tuple[PrivateView, ...]

    @property
    def private_reads(self) -> tuple[str, ...]:
        """What un-noised numbers of any of them were read for by now, without a declaration."""
        noted = [receipt.private_reads for receipt in self.receipts]
        noted += [view.unaccounted for view in self.views]
        return tuple(dict.fromkeys(read for reads in noted for read in reads))

    @property
    def assumes(self) -> tuple[str, ...]:
        """What is assumed as such numbers of any of them were read and declared unused."""
        return tuple(dict.fromkeys(one for view in self.views for one in view.assumes))


def best_of(
    selection: Selection,
    settings: Sequence[Setting],
    run: Callable[[Setting], Candidate[Outcome]],
) -> Best[Outcome]:
    """Trains as often as the selection draws, each time with a setting drawn at random.

    Args:
        selection: How many trainings there will be.
        settings: A public list to draw from: learning rates, say. They may not change the plan.
        run: Trains from the start with a setting.

    Raises:
        PrivacyError: Two trainings did not execute the same mechanism for the same unit, one
            executed something else than its plan, or one went on from what another had left
            (TRAINED_BEFORE).
        ValueError: There is no setting.
    """
    if not settings:
        raise ValueError("settings is empty; expected at least one.")
    stream = SecretStream()
    best: Candidate[Outcome] | None = None
    executed: tuple[Mechanism, str | None] | None = None
    made: list[tuple[Receipt, PrivateView]] = []
    for _ in range(selection.draw(stream)):
        found = run(settings[int(stream.choices(1, len(settings))[0])])
        trained = found.training
        trained.is_candidate = True
        trained.require_kept()
        if trained.begun_with:
            raise earlier_steps.refused(trained.begun_with)
        if trained.charged < trained.plan.steps:
            trained.view.note(EARLY_END)
        receipt = trained.receipt
        trained.plan.require_executed(receipt)
        ran = receipt.mechanism(), receipt.privacy_unit
        if executed not in (None, ran):
            raise PrivacyError(
                f"One training executed (mechanism, unit) {ran} and another {executed}; the best "
                "of several is accounted for where all execute the same. Let settings change "
                "neither noise, sampling rate and steps nor what one record is."
            )
        executed = ran
        made.append((receipt, trained.view))
        if best is None or _value(found) > _value(best):
            best = found
    assert best is not None
    return Best(
        outcome=best.outcome,
        training=best.training,
        selection=selection,
        receipts=tuple(receipt for receipt, _ in made),
        views=tuple(view for _, view in made),
    )


def _value(candidate: Candidate[Any]) -> float:
    return -math.inf if math.isnan(candidate.score) else candidate.score
