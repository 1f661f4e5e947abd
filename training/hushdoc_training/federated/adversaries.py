"""Adversaries: what each of them sees of a federated run, as an event, and in words.

No other module writes these events: plans are calibrated by them, certificates declare them, and
the figures about the papers are computed from them.

    model-recipient     the model after every round: sums of all clients of a round
    co-client           the same, and its own update and noise, and those of clients it talks to
    server              sums as well; single updates where no secure sum hides them
    network-observer    as the server, as if there were no TLS

With a secure sum each of them faces at least the plan's noise while no more than c clients collude.
Whoever sees single updates faces one share of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc_training.federated.participation import Participation
from hushdoc_training.federated.shares import Shares

RECIPIENT, SERVER, CO_CLIENT, OBSERVER = ADVERSARIES = (
    "model-recipient",
    "server",
    "co-client",
    "network-observer",
)
SECURE_SUM, INDIVIDUAL = AGGREGATIONS = ("secure-sum", "individual-updates")


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """What a run shows of one unit: the numbers that all events are made of.

    Attributes:
        participation: Who takes part when.
        client_rate: Probability of a unit to join a step of its client.
        noise_multiplier: Of the noise that has to be left in a sum; without `shares` of the noise
            that each client adds to its own steps.
        shares: How the clients of a round divide the noise; None where each has its own.
        local_steps: Steps of a client in a round.
        aggregation: One of AGGREGATIONS: what reaches the server.
        places: Places that one unit may have.
        server_draws_by_chance: Counts a draw of clients as chance against the server that draws
            them, as the papers do. No claim of a run does.
    """

    participation: Participation
    client_rate: float
    noise_multiplier: float
    shares: Shares | None
    local_steps: int = 1
    aggregation: str = SECURE_SUM
    places: int = 1
    server_draws_by_chance: bool = False

    def event(self, adversary: str, *, listening: int | None = None) -> Mechanism:
        """Returns all rounds as an adversary sees them, in the certificate's words.

        Args:
            adversary: One of ADVERSARIES.
            listening: Clients that work with it; None for as many as the shares allow for, and of a
                co-client for itself at least.
        """
        by_chance = adversary != SERVER or self.server_draws_by_chance
        return self.participation.event(
            self.one_round(adversary, listening=listening), places=self.places, by_chance=by_chance
        )

    def one_round(self, adversary: str, *, listening: int | None = None) -> Mechanism:
        """Returns one round in which the unit's client takes part."""
        left = self.noise_against(adversary, listening=listening)
        noise: Mechanism = Gaussian(noise_multiplier=left)
        step = noise
        if self.client_rate < 1:
            step = PoissonSampled(sampling_rate=self.client_rate, event=noise)
        return step if self.local_steps == 1 else Composed(event=step, count=self.local_steps)

    def noise_against(self, adversary: str, *, listening: int | None = None) -> float:
        """Returns the noise multiplier of what an adversary sees of one round."""
        shares = self.shares
        if shares is None:
            return self.noise_multiplier
        if self.aggregation == INDIVIDUAL and adversary in (SERVER, OBSERVER):
            return self.noise_multiplier * shares.alone
        if listening is None:
            listening = max(shares.colluding, int(adversary == CO_CLIENT))
        return self.noise_multiplier * shares.against(listening)
