"""Participation: which clients take part in which round, and the event that a unit's sums are.

Who takes part is public in each of the three ways, so it hides nothing by itself. `all`: every
client in every round, and each unit on its own coin there, which is secret. `rota`: a schedule that
follows from the run's random name, in which every client has its turn equally often, so no bad luck
has to be paid for. `drawn`: the coordinator draws clients anew in each round, as the papers do. The
draw is chance for everybody but the coordinator, who may have chosen: against it what counts is how
often a client takes part at most, which each client counts by itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushdoc import arguments
from hushdoc.accounting import mechanism as words
from hushdoc.accounting.mechanism import ClusterSampled, Composed, Grouped, Mechanism
from hushdoc.errors import PrivacyError
from hushdoc_training.randomness.secret_stream import SecretStream

ALL, ROTA, DRAWN = PARTICIPATIONS = ("all", "rota", "drawn")

_BEYOND = 1e-3
"""Probability that an honest draw would pass the usual cap of some client in a whole run."""


@dataclass(frozen=True, kw_only=True)
class Participation:
    """How often which clients take part.

    Attributes:
        how: One of PARTICIPATIONS.
        clients: All clients of the roster, K.
        clients_per_round: Those of one round, m.
        rounds: Rounds of the run, T, aborted ones included.
        most_rounds: Of `drawn`: most rounds that one client takes part in; it refuses more. None
            for a number that an honest draw passes in one run of a thousand.
    """

    how: str
    clients: int
    clients_per_round: int
    rounds: int
    most_rounds: int | None = None

    def __post_init__(self) -> None:
        """Refuses numbers that contradict one another."""
        arguments.choice(self.how, PARTICIPATIONS, what="participation")
        for name in ("clients", "clients_per_round", "rounds"):
            arguments.integer(getattr(self, name), what=name)
        if self.clients_per_round > self.clients:
            raise ValueError(
                f"clients_per_round is {self.clients_per_round}; expected at most the "
                f"{self.clients} clients."
            )
        if self.how == ALL and self.clients_per_round < self.clients:
            raise ValueError(
                f"All {self.clients} clients take part in every round, and clients_per_round is "
                f"{self.clients_per_round}. Choose '{ROTA}' for fewer in a round."
            )
        if self.most_rounds is not None:
            arguments.integer(self.most_rounds, what="most_rounds")
            if self.how != DRAWN or self.most_rounds > self.rounds:
                raise ValueError(
                    f"most_rounds is {self.most_rounds}; expected at most the {self.rounds} rounds "
                    f"of a run, and only where clients are '{DRAWN}'."
                )

    @property
    def share(self) -> float:
        """The part of the clients that take part in a round, C."""
        return self.clients_per_round / self.clients

    @property
    def cap(self) -> int:
        """Most rounds that one client takes part in, aborted ones included; it counts them."""
        if self.how == ALL or self.share == 1:
            return self.rounds
        if self.how == ROTA:
            return -(-self.rounds * self.clients_per_round // self.clients)
        return self.most_rounds or _usual_cap(self.rounds, self.share, self.clients)

    def client_rate(self, sampling_rate: float) -> float:
        """Returns the rate at which a client draws its units where all in all it is this one.

        Raises:
            ValueError: A unit can't be drawn so often by clients that take part so rarely.
        """
        rate = sampling_rate / self.share
        if not 0 < rate <= 1 + 1e-12:
            raise ValueError(
                f"A sampling rate of {sampling_rate:g} per round where {self.share:g} of the "
                f"clients take part means {rate:g} inside a client; expected more than 0 and at "
                "most 1."
            )
        return min(rate, 1.0)

    def event(self, step: Mechanism, *, places: int = 1, by_chance: bool = True) -> Mechanism:
        """Returns what all rounds do to a unit, in the certificate's words.

        A unit at several places (clients, or records of one) moves each sum once for each place
        whose client takes part. Without sampling, rounds that places do not share cost less than
        those that they share: the squares of how many meet add up to at most `places` squared times
        the cap. With sampling no such theorem is known, so every round in which one of them takes
        part counts as one in which all do.

        Args:
            step: One round in which the unit's client takes part.
            places: Places that one unit may have.
            by_chance: Whether the adversary has no hand in who is drawn.
        """
        if self.how == DRAWN and by_chance:
            in_one = ClusterSampled(sampling_rate=self.share, event=step)
            found = Composed(event=in_one, count=self.rounds)
        else:
            count = self.cap
            if places > 1 and words.is_amplified(step):
                count = min(self.rounds, places * count)
            found = Composed(event=step, count=count)
        return found if places == 1 else Grouped(size=places, event=found)

    def schedule(self, round_number: int, run: str) -> tuple[int, ...]:
        """Returns the clients (from 0) of a round (from 0), where a schedule says so.

        Args:
            round_number: From 0, less than `rounds`.
            run: The run's random name, which the rota follows from.

        Raises:
            ValueError: The round is out of range, or clients are drawn.
        """
        if not 0 <= round_number < self.rounds:
            raise ValueError(f"round is {round_number}; expected 0 to {self.rounds - 1}.")
        if self.how == DRAWN:
            raise ValueError("Clients are drawn anew in every round; there is no schedule.")
        if self.how == ALL:
            return tuple(range(self.clients))
        order = sorted(range(self.clients), key=lambda client: _place(run, client))
        first = round_number * self.clients_per_round
        turns = range(first, first + self.clients_per_round)
        return tuple(sorted(order[turn % self.clients] for turn in turns))

    def takes_part(self, client: int, round_number: int, run: str) -> bool:
        """Returns whether a schedule has a client (from 0) in a round (from 0)."""
        return client in self.schedule(round_number, run)

    def draw(self, stream: SecretStream) -> tuple[int, ...]:
        """Returns the clients (from 0) of a round, each set of them as likely as any other."""
        order = np.argsort(stream.uniforms(self.clients))
        return tuple(sorted(order[: self.clients_per_round].tolist()))

    def require(self, announced: Sequence[int], round_number: int, run: str) -> None:
        """Raises PrivacyError NOT_AS_PLANNED unless these may be the clients of a round."""
        found, expected = sorted(announced), f"{self.clients_per_round} of {self.clients}"
        fits = 0 <= round_number < self.rounds
        if not fits:
            expected = f"no round but 0 to {self.rounds - 1}"
        elif self.how == DRAWN:
            among = set(announced) & set(range(self.clients))
            fits = found == sorted(among) and len(among) == self.clients_per_round
        else:
            scheduled = list(self.schedule(round_number, run))
            fits, expected = found == scheduled, str(scheduled)
        if not fits:
            raise PrivacyError(
                f"The coordinator says that the clients of round {round_number} are "
                f"{arguments.short_repr(list(announced))}; expected {expected}. Nothing was sent; "
                "ask the coordinator which roster it runs.",
                code="NOT_AS_PLANNED",
            )


def _place(run: str, client: int) -> bytes:
    return hashlib.sha256(f"{run} {client}".encode()).digest()


def _usual_cap(rounds: int, share: float, clients: int) -> int:
    """The least number of rounds that some client passes with probability _BEYOND at most."""
    beyond, number = 0.0, rounds
    while number > 1:
        ways = math.lgamma(rounds + 1) - math.lgamma(number + 1) - math.lgamma(rounds - number + 1)
        log = ways + number * math.log(share) + (rounds - number) * math.log1p(-share)
        beyond += math.exp(log)
        if clients * beyond > _BEYOND:
            return number
        number -= 1
    return 1
