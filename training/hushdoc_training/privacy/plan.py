"""PrivacyPlan: unit, sampling, clipping, noise and accounting in one object that can't disagree.

The sampler, the optimizer and the progress line are all made from the same frozen plan. The
certificate's guarantee is not: it is made from the receipt of what ran, which has to be what was
planned. What a plan spends is computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from hushdoc import arguments
from hushdoc.accounting import calibration
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc.errors import PrivacyError
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.privacy.spending import ACCOUNTANTS, Spending, spending_of
from hushdoc_training.receipt import DIFFERENCE, Receipt

LEAST_NORM = 1e-8
"""Squares of what is near a smaller norm would vanish in float32, and with them the bound."""


@dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """Differentially private training as it was planned; make one with `calibrated`.

    Sampling rate, steps and divisor are constants that the trainer chooses without looking at the
    data, because a number derived from the data's size would differ between neighbouring data
    sets.

    Attributes:
        privacy_unit: One of UNIT_DEFINITIONS: what one record is.
        epsilon: The target, an upper bound of what all steps spend.
        delta: The probability left outside the bound.
        sampling_rate: Probability of each record to join a step.
        steps: How many steps the budget pays for.
        clipping_norm: Largest L2 norm of one record's gradient.
        noise_multiplier: Standard deviation of the noise / clipping_norm.
        expected_records: Divisor of the noised sum, a public constant.
        accountant: One of ACCOUNTANTS: how epsilon is computed, here and in the certificate.
    """

    privacy_unit: str
    epsilon: float
    delta: float
    sampling_rate: float
    steps: int
    clipping_norm: float
    noise_multiplier: float
    expected_records: int
    accountant: str = "pld"

    def __post_init__(self) -> None:
        """Refuses a plan that would not keep its epsilon."""
        arguments.choice(self.privacy_unit, tuple(UNIT_DEFINITIONS), what="privacy_unit")
        arguments.choice(self.accountant, tuple(ACCOUNTANTS), what="accountant")
        require_positive(
            epsilon=self.epsilon,
            delta=self.delta,
            sampling_rate=self.sampling_rate,
            clipping_norm=self.clipping_norm,
            noise_multiplier=self.noise_multiplier,
        )
        require_norm(self.clipping_norm)
        arguments.integer(self.steps, what="steps")
        arguments.integer(self.expected_records, what="expected_records")
        if self.delta >= 1:
            raise ValueError(f"delta is {self.delta!r}; expected less than 1.")
        if self.sampling_rate > 1:
            raise ValueError(f"sampling_rate is {self.sampling_rate!r}; expected at most 1.")
        spent = self.epsilon_after(self.steps)
        if spent > self.epsilon * (1 + 1e-9):
            raise ValueError(
                f"The plan spends epsilon={spent:.4f} at delta={self.delta:g}, more than its "
                f"target {self.epsilon:g}. Raise the noise multiplier, or let "
                "PrivacyPlan.calibrated choose it."
            )

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: float,
        delta: float = 1e-5,
        privacy_unit: str = "document",
        sampling_rate: float,
        steps: int,
        clipping_norm: float = 0.1,
        expected_records: int = 32,
        accountant: str = "pld",
    ) -> PrivacyPlan:
        """Returns the plan with the least noise that keeps (epsilon, delta).

        Raises:
            ValueError: An argument is out of range.
        """
        return cls(
            privacy_unit=privacy_unit,
            epsilon=epsilon,
            delta=delta,
            sampling_rate=sampling_rate,
            steps=steps,
            clipping_norm=clipping_norm,
            noise_multiplier=calibration.noise_multiplier(
                epsilon=epsilon,
                delta=delta,
                sampling_rate=sampling_rate,
                steps=steps,
                accountant=accountant,
            ),
            expected_records=expected_records,
            accountant=accountant,
        )

    @property
    def planned_records(self) -> float:
        """How many records the plan is made for: its divisor over its sampling rate, both public.

        The data may hold more or fewer, and how many is never revealed.
        """
        return self.expected_records / self.sampling_rate

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise in each number of a step's gradient, as it is divided."""
        return self.noise_multiplier * self.clipping_norm / self.expected_records

    @property
    def step(self) -> Mechanism:
        """One step, in the certificate's words."""
        return PoissonSampled(
            sampling_rate=self.sampling_rate,
            event=Gaussian(noise_multiplier=self.noise_multiplier),
        )

    def mechanism(self, steps: int | None = None) -> Mechanism:
        """Returns what ran, in the certificate's words; all planned steps by default."""
        return Composed(event=self.step, count=self.steps if steps is None else steps)

    @cached_property
    def spending(self) -> Spending:
        """What all planned steps spend."""
        return spending_of(self.mechanism(), self.accountant, "add-remove")

    def epsilon_after(self, steps: int) -> float:
        """Returns the epsilon that this many steps spend."""
        if steps == self.steps:
            return self.spending.epsilon(self.delta)
        return ACCOUNTANTS[self.accountant](self.mechanism(steps), self.delta)

    def require_executed(self, receipt: Receipt) -> None:
        """Raises PrivacyError, with both values, where something else ran than was planned."""
        pairs = {
            "noise multiplier": (receipt.noise_multiplier, self.noise_multiplier),
            "sampling rate": (receipt.sampling_rate, self.sampling_rate),
            "clipping norm": (receipt.clipping_norm, self.clipping_norm),
            "divisor": (receipt.divisor, self.expected_records),
            "number of steps": (receipt.planned_steps, self.steps),
        }
        for name, (executed, planned) in pairs.items():
            if not math.isclose(executed, planned, rel_tol=DIFFERENCE):
                raise not_as_planned(name, f"{executed:.12g}", f"{planned:.12g}")
        if receipt.privacy_unit not in (None, self.privacy_unit):
            raise not_as_planned("privacy unit", receipt.privacy_unit, self.privacy_unit)


def require_positive(**numbers: float) -> None:
    """Raises ValueError unless these are finite numbers above 0."""
    for name, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value!r}; expected a finite number above 0.")


def not_as_planned(name: str, executed: object, planned: object) -> PrivacyError:
    """Returns the error for a value that was executed otherwise than planned."""
    return PrivacyError(
        f"The {name} that was executed is {executed}, the plan has {planned}. A claim is made of "
        "what ran: train by the plan, or plan what shall run.",
        code="NOT_AS_PLANNED",
    )


def require_norm(clipping_norm: float) -> None:
    """Raises ValueError unless a clipping norm is large enough for its square in fp32."""
    if not 0 < clipping_norm < float("inf"):
        raise ValueError(f"clipping_norm is {clipping_norm}; it must be positive and finite.")
    if clipping_norm < LEAST_NORM:
        raise ValueError(
            f"clipping_norm is {clipping_norm}; expected at least {LEAST_NORM}: squares of less "
            "vanish in float32. Multiply the losses and the clipping norm by the same constant."
        )
