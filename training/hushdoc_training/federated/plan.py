"""FederatedPlan: algorithm, clients, sampling, clipping, noise and accounting in one object.

The roster carries it, so every party runs the same one. Its noise is calibrated to the worst of the
adversaries that it names. No network is in it, and a claim is not made of it: that is made of what
ran, which has to be what was planned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

from hushdoc import arguments
from hushdoc.accounting import calibration
from hushdoc.accounting.mechanism import Grouped, Mechanism
from hushdoc.serialization.records import (
    Record,
    integer,
    listed,
    number,
    optional,
    stored,
    word,
)
from hushdoc_training.federated.adversaries import (
    ADVERSARIES,
    INDIVIDUAL,
    RECIPIENT,
    SECURE_SUM,
    Exposure,
)
from hushdoc_training.federated.participation import ALL, PARTICIPATIONS, Participation
from hushdoc_training.federated.secure_sum import ALL_OR_NOTHING, THRESHOLD
from hushdoc_training.federated.shares import Grid, Shares
from hushdoc_training.privacy.plan import not_as_planned, require_norm, require_positive
from hushdoc_training.privacy.records import UNIT_DEFINITIONS
from hushdoc_training.privacy.spending import ACCOUNTANTS, spending_of
from hushdoc_training.receipt import DIFFERENCE, Receipt

FEDAVG, FEDAVG_DP, FEAM, PROVIDER = ALGORITHMS = (
    "fedavg",
    "fedavg-dp",
    "feam-dp",
    "fl-provider-dp",
)
"""Plain averages without privacy; averages of what each client trained by DP-Adam; clipped
gradients whose noise all clients share; clipped updates of providers, the same way."""

SHARING = (FEAM, PROVIDER)
"""Algorithms whose clients share the noise of one sum."""

IN_THE_CLEAR = INDIVIDUAL
MODES = (ALL_OR_NOTHING, THRESHOLD, IN_THE_CLEAR)
"""How updates are added up: by masks that cancel only if all arrive, by masks that survive some
silent clients, or by a server that sees each of them."""

_WORDS = {
    "algorithm": ALGORITHMS,
    "mode": MODES,
    "privacy_unit": tuple(UNIT_DEFINITIONS),
    "accountant": tuple(ACCOUNTANTS),
}
_positive = number(minimum=1e-12)


@dataclass(frozen=True, kw_only=True)
class FederatedPlan(Record):
    """Federated training as it was planned; make one with `calibrated`.

    Rates, rounds and divisor are constants that are chosen without looking at the data.

    Attributes:
        algorithm: One of ALGORITHMS.
        clients: Clients of the roster, K.
        clients_per_round: Those of one round, m.
        rounds: Rounds, T, aborted ones included.
        participation: One of PARTICIPATIONS.
        most_rounds: Of `drawn`: most rounds that one client takes part in; None for the usual.
        local_steps: Of `fedavg-dp`: DP-Adam steps of a client in a round; else 1.
        sampling_rate: Probability of a unit to be in a round, its client's turn included; of
            `fedavg-dp` to be in a client's own step.
        silent: Clients of a round that may stay silent, t.
        colluding: Clients that may collude with one another and with the server, c.
        mode: One of MODES.
        clipping_norm: Largest L2 norm of what one unit adds to a sum; of `fedavg` the scale of the
            grid alone.
        noise_multiplier: Deviation of the noise that has to be left / sensitivity; of `fedavg-dp`
            that of each client's own steps; 0 for `fedavg`.
        expected_records: Divisor of the sum, a public constant.
        privacy_unit: One of UNIT_DEFINITIONS.
        places: Places that one unit may have, at several clients or as several records of one.
        epsilon: The target against each of `against`; None for `fedavg`.
        delta: The probability left outside the bound; None for `fedavg`.
        against: The adversaries that the target holds for.
        accountant: One of ACCOUNTANTS.
        numbers: Length of an update, d.
    """

    algorithm: str = stored(word(ALGORITHMS))
    clients: int = stored(integer(minimum=1))
    clients_per_round: int = stored(integer(minimum=1))
    rounds: int = stored(integer(minimum=1))
    participation: str = stored(word(PARTICIPATIONS), default=ALL)
    most_rounds: int | None = stored(optional(integer(minimum=1)), default=None)
    local_steps: int = stored(integer(minimum=1), default=1)
    sampling_rate: float = stored(number(maximum=1.0))
    silent: int = stored(integer(), default=0)
    colluding: int = stored(integer(), default=0)
    mode: str = stored(word(MODES), default=ALL_OR_NOTHING)
    clipping_norm: float = stored(_positive)
    noise_multiplier: float = stored(number())
    expected_records: int = stored(integer(minimum=1))
    privacy_unit: str = stored(word(tuple(UNIT_DEFINITIONS)))
    places: int = stored(integer(minimum=1), default=1)
    epsilon: float | None = stored(optional(_positive))
    delta: float | None = stored(optional(number(maximum=1.0)))
    against: tuple[str, ...] = stored(listed(word(ADVERSARIES)), default=ADVERSARIES)
    accountant: str = stored(word(tuple(ACCOUNTANTS)), default="pld")
    numbers: int = stored(integer(minimum=1))

    def __post_init__(self) -> None:
        """Refuses a plan that contradicts itself or would not keep its epsilon."""
        for name, allowed in _WORDS.items():
            arguments.choice(getattr(self, name), allowed, what=name)
        for name in ("rounds", "local_steps", "places"):
            arguments.integer(getattr(self, name), what=name)
        require_positive(clipping_norm=self.clipping_norm, sampling_rate=self.sampling_rate)
        require_norm(self.clipping_norm)
        contradiction = self._contradiction()
        if contradiction is not None:
            raise ValueError(f"{contradiction}.")
        if self.algorithm == FEDAVG or self.epsilon == math.inf:
            return
        spent = self.epsilon_against(*self.against)
        if spent > (self.epsilon or 0.0) * (1 + 1e-9):
            raise ValueError(
                f"The plan spends epsilon={spent:.4f} at delta={self.delta:g}, more than its "
                f"target {self.epsilon:g}. Raise the noise multiplier, or let "
                "FederatedPlan.calibrated choose it."
            )

    def _contradiction(self) -> str | None:
        """Returns what is wrong between numbers that are each valid alone, or None."""
        numbers = (self.noise_multiplier > 0, self.epsilon is not None, self.delta is not None)
        if any(numbers) if self.algorithm == FEDAVG else not all(numbers):
            return (
                f"{self.algorithm} has the noise multiplier {self.noise_multiplier}, epsilon "
                f"{self.epsilon} and delta {self.delta}; expected numbers above 0, and for "
                f"{FEDAVG} none"
            )
        if self.delta is not None and not 0 < self.delta < 1:
            return f"delta is {self.delta}; expected more than 0 and less than 1"
        if self.local_steps > 1 and self.algorithm != FEDAVG_DP:
            return f"local_steps is {self.local_steps}; only {FEDAVG_DP} takes steps of its own"
        if self.mode != THRESHOLD and self.silent:
            return f"silent is {self.silent}; only the mode {THRESHOLD} goes on without some"
        if self.mode == THRESHOLD and self.clients_per_round <= 2 * self.silent + self.colluding:
            return (
                f"{self.clients_per_round} clients in a round, {self.silent} silent and "
                f"{self.colluding} colluding; expected more than 2 * silent + colluding in a "
                "round, or those who collude could have two lists of survivors signed"
            )
        named = set(self.against)
        if not named or not named <= set(ADVERSARIES) or len(named) < len(self.against):
            return f"against is {list(self.against)}; expected some of {', '.join(ADVERSARIES)}"
        # Each of them refuses what no run can have.
        self.turns.client_rate(self.sampling_rate)
        _ = self.grid
        return None

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float = 1e-5, **settings: Any) -> Self:
        """Returns the plan with the least noise that keeps (epsilon, delta) against all it names.

        Args:
            epsilon: The target.
            delta: The probability left outside the bound.
            settings: The other attributes, but for the noise multiplier.

        Raises:
            ValueError: An argument is out of range, or no noise keeps the target.
        """
        loose = cls(**settings, epsilon=math.inf, delta=delta, noise_multiplier=1.0)
        shown = loose.exposure

        def seen_by(whom: str, noise: float) -> Mechanism:
            return replace(shown, noise_multiplier=noise).event(whom)

        different = {shown.event(whom): whom for whom in loose.against}.values()
        noise = max(
            calibration.calibrated(
                partial(seen_by, whom), epsilon=epsilon, delta=delta, accountant=loose.accountant
            )
            for whom in different
        )
        return cls(**settings, epsilon=epsilon, delta=delta, noise_multiplier=noise)

    @property
    def turns(self) -> Participation:
        """Who takes part when."""
        return Participation(
            how=self.participation,
            clients=self.clients,
            clients_per_round=self.clients_per_round,
            rounds=self.rounds,
            most_rounds=self.most_rounds,
        )

    @property
    def shares(self) -> Shares:
        """How the noise of a sum is divided."""
        return Shares(clients=self.clients_per_round, silent=self.silent, colluding=self.colluding)

    @property
    def most_unattested(self) -> int:
        """Most clients without a receipt: as many as may add no noise, if others' hides them."""
        return self.colluding if self.algorithm in SHARING and self.mode != IN_THE_CLEAR else 0

    @cached_property
    def grid(self) -> Grid:
        """The grid of sums and noise."""
        shared = self.noise_multiplier if self.algorithm in SHARING else 0.0
        return Grid.of(
            clipping_norm=self.clipping_norm,
            noise_multiplier=shared,
            numbers=self.numbers,
            expected_records=self.expected_records,
            shares=self.shares,
            truncated=self.algorithm == PROVIDER,
        )

    @property
    def lattice_step(self) -> float:
        """What one step of the grid is worth."""
        return self.grid.step

    @property
    def share_width(self) -> float:
        """Standard deviation of each client's noise, in steps."""
        return self.grid.share_width

    @property
    def ring_bits(self) -> int:
        """Bits of the integers in which sums are computed, 32 or 64."""
        return self.grid.ring_bits

    @property
    def client_sampling_rate(self) -> float:
        """Probability of a unit to join what its client computes, where that takes part."""
        if self.algorithm == FEDAVG_DP:
            return self.sampling_rate
        return self.turns.client_rate(self.sampling_rate)

    @property
    def cap(self) -> int:
        """Most rounds that one client takes part in, aborted ones included."""
        return self.turns.cap

    @property
    def planned_records(self) -> float:
        """How many units the plan is made for; the data may hold more or fewer."""
        return self.expected_records / self.sampling_rate

    @property
    def exposure(self) -> Exposure:
        """What the run will show of one unit; a ValueError where it has no noise."""
        if self.algorithm == FEDAVG:
            raise ValueError(f"{FEDAVG} has no noise, so nothing of it can be accounted for.")
        return Exposure(
            participation=self.turns,
            client_rate=self.client_sampling_rate,
            noise_multiplier=self.noise_multiplier,
            shares=self.shares if self.algorithm in SHARING else None,
            local_steps=self.local_steps,
            aggregation=INDIVIDUAL if self.mode == IN_THE_CLEAR else SECURE_SUM,
            places=self.places,
        )

    def mechanism(self, adversary: str = RECIPIENT) -> Mechanism:
        """Returns what all rounds are for one unit, as an adversary sees it."""
        return self.exposure.event(adversary)

    @property
    def own_round(self) -> Mechanism:
        """One round for a client's ledger: as the adversary sees it who faces the least noise.

        That may be one whom the target is not for: a ledger counts what somebody could learn. A
        unit that may have several places is a group.
        """
        # Of one round alone most plans have epsilon 0, whatever the noise: that tells none apart.
        least = self.exposure.one_round(min(ADVERSARIES, key=self.exposure.noise_against))
        return least if self.places == 1 else Grouped(size=self.places, event=least)

    def epsilon_against(self, *whom: str) -> float:
        """Returns the largest epsilon of some adversaries at the plan's delta."""
        return max(_epsilon(self.mechanism(adversary), self) for adversary in whom)

    def require_executed(self, receipt: Receipt) -> None:
        """Raises PrivacyError NOT_AS_PLANNED, with both values, where a client ran otherwise."""
        alone = self.grid.share_multiplier if self.algorithm in SHARING else self.noise_multiplier
        pairs = {
            "noise multiplier of a client's share": (receipt.noise_multiplier, alone),
            "sampling rate of a client": (receipt.sampling_rate, self.client_sampling_rate),
            "clipping norm": (receipt.clipping_norm, self.clipping_norm),
            "number of steps of a client": (receipt.planned_steps, self.cap * self.local_steps),
        }
        for name, (executed, planned) in pairs.items():
            if not math.isclose(executed, planned, rel_tol=DIFFERENCE):
                raise not_as_planned(name, f"{executed:.12g}", f"{planned:.12g}")
        if receipt.privacy_unit not in (None, self.privacy_unit):
            raise not_as_planned("privacy unit", receipt.privacy_unit, self.privacy_unit)


def _epsilon(event: Mechanism, plan: FederatedPlan) -> float:
    return spending_of(event, plan.accountant, "add-remove").epsilon(plan.delta or 0.0)
