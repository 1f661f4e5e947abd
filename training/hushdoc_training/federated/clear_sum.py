"""Sums in the clear: the coordinator sees each client's vector, and some may stay silent.

It hides nothing from the coordinator, and a plan that adds up so says `individual-updates`. Both
sides have the methods of secure sums, so that clients and coordinator of a run know neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushdoc.errors import PrivacyError
from hushdoc_training.federated.frames import OPEN, VECTOR, Frame
from hushdoc_training.federated.roster import COORDINATOR
from hushdoc_training.federated.secure_sum import (
    Aborted,
    Opening,
    Place,
    Terms,
    require_length,
    unexpected,
)
from hushdoc_training.federated.sum_client import CONTRIBUTION
from hushdoc_training.randomness.integer_noise import Integers

_BYTES = 8  # of a number


class ClearClient:
    """A client's side: its vector as it is, once a round.

    Attributes:
        place: The round that is open.
        members: Its clients.
    """

    def __init__(self, terms: Terms, name: str) -> None:
        """Takes part under a name of the roster; no round is open yet."""
        self._terms, self._name = terms, name
        self._last_round = -1
        self.place: Place | None = None
        self.members: tuple[str, ...] = ()

    @property
    def awaited(self) -> str:
        """CONTRIBUTION in a round that is open, OPEN between rounds."""
        return OPEN if self.place is None else CONTRIBUTION

    def receive(self, frame: Frame, now: float) -> list[Frame]:
        """Opens a round; FrameError for anything else, which has no place here."""
        del now
        if frame.phase != OPEN or frame.round <= self._last_round or frame.sender != COORDINATOR:
            raise unexpected(frame, self.awaited)
        self.members = Opening.decoded(frame.payload).members
        self.place = Place(round=frame.round, attempt=frame.attempt)
        self._last_round = frame.round
        return []

    def contribute(self, values: Integers) -> list[Frame]:
        """Returns one frame with the vector; PrivacyError NOT_AWAITED where none is due."""
        if self.place is None:
            raise PrivacyError(
                "A vector is to be sent while no round is open. Each round has one.",
                code="NOT_AWAITED",
            )
        place, self.place = self.place, None
        payload = np.ascontiguousarray(values, dtype="<i8").tobytes()
        return [self._terms.frame(place, VECTOR, self._name, COORDINATOR, payload)]

    def tick(self, now: float) -> None:
        """Does nothing: no round has secrets here."""

    def close(self) -> None:
        """Ends the round that is open."""
        self.place = None

    def leave(self) -> None:
        """Ends the run for this client: there is nothing secret to erase."""
        self.close()


class ClearCoordinator:
    """The coordinator's side: adds up what comes in time.

    Attributes:
        total: The sum of the last round, int64, shape [numbers]; None until there is one.
        survivors: Whose vectors are in it.
        aborted: Why there is none.
        deadline: When a round goes on without those who have not answered; None between rounds.
    """

    def __init__(self, terms: Terms) -> None:
        """Begins without a round."""
        self._terms = terms
        self._place: Place | None = None
        self._last_round = -1
        self._members: tuple[str, ...] = ()
        self._sum = np.zeros(terms.numbers, dtype=np.int64)
        self._arrived: set[str] = set()
        self._lost: set[str] = set()
        self.total: Integers | None = None
        self.survivors: tuple[str, ...] = ()
        self.aborted: Aborted | None = None
        self.deadline: float | None = None

    @property
    def awaited(self) -> str:
        """VECTOR in a round, OPEN between rounds."""
        return OPEN if self._place is None else VECTOR

    @property
    def missing(self) -> tuple[str, ...]:
        """Whose vector is waited for."""
        return tuple(name for name in self._members if name not in self._arrived)

    def open(self, round: int, attempt: int, members: Sequence[str], now: float) -> list[Frame]:
        """Returns what opens a round; a ValueError for one that was begun before."""
        if round <= self._last_round:
            raise ValueError(f"Round {round} was begun before; expected a later one.")
        place = self._place = Place(round=round, attempt=attempt)
        self._last_round, self._members = round, tuple(sorted(set(members)))
        self._arrived, self._lost = set(), set()
        self._sum[:] = 0
        self.total, self.survivors, self.aborted = None, (), None
        self.deadline = now + self._terms.seconds
        opening = Opening(members=self._members, agreed=True).encoded()
        return [
            self._terms.frame(place, OPEN, COORDINATOR, name, opening) for name in self._members
        ]

    def receive(self, frame: Frame, now: float) -> list[Frame]:
        """Adds a vector; FrameError where it is late, doubled or of another length."""
        del now
        place = Place(round=frame.round, attempt=frame.attempt)
        if (place, frame.phase) != (self._place, VECTOR) or frame.sender not in self.missing:
            raise unexpected(frame, self.awaited)
        require_length(frame, _BYTES * self._terms.numbers)
        self._sum += np.frombuffer(frame.payload, dtype="<i8")
        self._arrived.add(frame.sender)
        return self._go_on()

    def lost(self, name: str, now: float) -> list[Frame]:
        """Goes on without a client that says no more in this round."""
        del now
        self._lost.add(name)
        return self._go_on()

    def tick(self, now: float) -> list[Frame]:
        """Goes on without those who have not answered in time."""
        if self.deadline is not None and now > self.deadline:
            self._lost.update(self.missing)
        return self._go_on()

    def _go_on(self) -> list[Frame]:
        if self._place is None:
            return []
        missing, waited_for = self.missing, set(self.missing) - self._lost
        if len(missing) - len(waited_for) > self._terms.silent:
            self.aborted = Aborted(
                code="TOO_FEW_CLIENTS",
                reason=f"{len(self._arrived)} of {len(self._members)} clients sent a vector",
                clients=missing,
            )
        elif not waited_for:
            self.total, self.survivors = self._sum.copy(), tuple(sorted(self._arrived))
        if self.total is not None or self.aborted is not None:
            self._place = self.deadline = None
        return []
