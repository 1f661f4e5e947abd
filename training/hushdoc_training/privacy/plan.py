"""PrivacyPlan: unit, sampling, clipping, noise and accounting in one object that can't disagree.

The sampler, the optimizer, the progress line and the certificate's guarantee are all made from the
same frozen plan, so a guarantee can't be declared for a mechanism that did not run. What it spends
is computed once, and every claim is made from those numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from hushdoc import arguments
from hushdoc.accounting import calibration, pld, rdp
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled

ACCOUNTANTS = {"pld": pld.epsilon, "rdp": rdp.epsilon}
"""Ways to compute epsilon, both upper bounds. Privacy loss distributions (pld) need about 6 % less
noise for the same epsilon; Renyi accounting (rdp) is the older way."""

PROFILE_DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""Where a guarantee gives epsilon besides its own delta."""

UNIT_DEFINITIONS = {
    "document": "one document with all its pages, however many windows it is cut into",
    "sequence": "one window of tokens; a document has several, and each is protected alone",
    "page": "one page with everything on it; a document has several, and each is protected alone",
    "provider": "everything that came from one provider, all documents together",
    "user": "everything that came from one person, all documents together",
}
"""What a unit means in a certificate; who builds the records sees to it that they are that."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What one mechanism spends by one of ACCOUNTANTS: every epsilon is computed once."""

    mechanism: Mechanism
    accountant: str
    _computed: dict[float, float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def epsilon(self, delta: float) -> float:
        """Returns the epsilon at a delta."""
        if delta not in self._computed:
            self._computed[delta] = ACCOUNTANTS[self.accountant](self.mechanism, delta)
        return self._computed[delta]


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
        _require_positive(
            epsilon=self.epsilon,
            delta=self.delta,
            sampling_rate=self.sampling_rate,
            clipping_norm=self.clipping_norm,
            noise_multiplier=self.noise_multiplier,
        )
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
        return Spending(mechanism=self.mechanism(), accountant=self.accountant)

    def epsilon_after(self, steps: int) -> float:
        """Returns the epsilon that this many steps spend."""
        if steps == self.steps:
            return self.spending.epsilon(self.delta)
        return ACCOUNTANTS[self.accountant](self.mechanism(steps), self.delta)


def _require_positive(**numbers: float) -> None:
    for name, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value!r}; expected a finite number above 0.")
