"""Draws: which records join a step, charged for good before the first coin is thrown."""

from __future__ import annotations

from collections.abc import Callable

from hushdoc.errors import PrivacyError
from hushdoc_training.metering import Meter
from hushdoc_training.privacy.process_group import Group
from hushdoc_training.randomness.sampling import Uniforms, poisson_sample
from hushdoc_training.randomness.secret_stream import origin_of


class Draws:
    """Draws records step after step, each step once.

    Attributes:
        coins: What is compared with the rate.
        charged: The last step that was charged, finished or not.
    """

    def __init__(
        self,
        *,
        num_records: int,
        rate: float,
        steps: int,
        coins: Uniforms,
        meter: Meter,
        charge: Callable[[int], None] | None,
        group: Group | None = None,
    ) -> None:
        """Begins with nothing charged.

        Args:
            num_records: How many records there are: private.
            rate: Probability of each to join a step.
            steps: Number of the last step.
            coins: Where uniforms come from, the same in all processes.
            meter: Notes what is drawn.
            charge: Writes down step number n for good.
            group: The processes that train together, of which the first charges.
        """
        self._num_records, self._rate, self._steps = num_records, rate, steps
        self._meter, self._charge, self._group = meter, charge, group
        self.coins, self.charged = coins, 0

    def take(self, number: int) -> list[int]:
        """Charges a step and returns the records that join it: private.

        Raises:
            PrivacyError: It was charged before, or is not in the plan.
        """
        if number > self._steps:
            raise PrivacyError(
                f"All {self._steps} steps of the plan are taken. Plan more steps from the start; "
                "a budget is not extended by what it showed."
            )
        if number <= self.charged:
            raise PrivacyError(
                f"Step {number} was asked for, and step {self.charged} is charged. A step is "
                "charged once, in order, and never drawn again.",
                code="NOT_RESERVED",
            )
        if self._charge is not None:
            self._pay(self._charge, number)
        self.charged = number
        self._meter.drawn(self._rate, origin_of(self.coins))
        return poisson_sample(self._num_records, self._rate, self.coins)

    def resume(self, charged: int) -> None:
        """Goes on after a step that was charged; a PrivacyError for fewer than were charged."""
        if not self.charged <= charged <= self._steps:
            raise PrivacyError(
                f"{charged} steps were reported as charged; expected {self.charged} to "
                f"{self._steps}. Resume with the number that the ledger or the log holds."
            )
        self.charged = charged

    def _pay(self, charge: Callable[[int], None], number: int) -> None:
        if self._group is None:
            charge(number)
        else:
            self._group.first_does(lambda: charge(number))
