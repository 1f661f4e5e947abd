"""Two-views server: asks one round of a secure sum for two sums that differ by one client.

It attacks the code that runs. A lying coordinator runs two honest ones beside one another. One
adds up all clients; the other never gets the first client's vector, and lists the rest as
survivors. Clients are shown both lists. If both sums came out, their difference would be the first
client's vector, with the noise of one share. Clients that sign one list in a round leave at most
one sum, and whoever has that guesses by it.

Each number of an update is a unit of its own, which half of them have in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hushdoc.errors import FrameError, PrivacyError
from hushdoc_training.audit import roc
from hushdoc_training.audit.roc import Attack
from hushdoc_training.federated import frames
from hushdoc_training.federated.frames import REVEAL, SURVIVORS, VECTOR, Frame
from hushdoc_training.federated.plan import FederatedPlan
from hushdoc_training.federated.secure_sum import SumTerms
from hushdoc_training.federated.sum_client import CONTRIBUTION, SumClient
from hushdoc_training.federated.sum_coordinator import SumCoordinator
from hushdoc_training.metering import Meter
from hushdoc_training.randomness.integer_noise import Integers
from hushdoc_training.randomness.secret_stream import SecretStream

METHOD = "two-views server"

_COORDINATOR = "coordinator"
_SECONDS = 1.0
_NUMBER = 0

Views = tuple[int, ...]
"""Some of both views: 0 is that of all clients, 1 that without the first."""

Shown = Callable[[int], Views]
"""Which views' lists a client is shown, by its number, in their order."""

STRATEGIES: Mapping[str, Shown] = {
    "one view": lambda number: (0,),
    "both views": lambda number: (0, 1),
    "half of the clients each": lambda number: (number % 2,),
}


def attack(plan: FederatedPlan, shown: Shown, *, fpr: float = 0.01) -> Attack:
    """Returns how well units of one client are told by what a two-views server gets of a round.

    Args:
        plan: In the mode `threshold`; a round in which all of its clients take part.
        shown: Which lists of survivors clients are shown.
        fpr: Largest rate of false positives at which true ones are counted.
    """
    stream, grid = SecretStream(), plan.grid
    meter = Meter(planned_steps=1, privacy_unit=plan.privacy_unit)
    inside = stream.uniforms(plan.numbers) <= 0.5
    moved = round(plan.clipping_norm / grid.step)
    sent = [
        grid.noised(np.where(inside & (number == 0), moved, 0), stream, meter)
        for number in range(plan.clients_per_round)
    ]
    whole, rest = sums(plan, sent, shown)
    if whole is not None and rest is not None:
        scores = (whole - rest).astype(np.float64)
    elif whole is not None:
        scores = whole.astype(np.float64)
    else:
        scores = stream.uniforms(plan.numbers)  # nothing of the first client: guess
    return roc.measured(METHOD, scores[inside], scores[~inside], unit=plan.privacy_unit, fpr=fpr)


def sums(
    plan: FederatedPlan, sent: list[Integers], shown: Shown
) -> tuple[Integers | None, Integers | None]:
    """Returns the sum of all clients' integers and that of all but the first, where they come."""
    server = _Liar(plan, sent, shown)
    server.run()
    whole, rest = (view.total for view in server.views)
    return whole, rest


class _Liar:
    """The parties of one round, and a coordinator with two views of it."""

    def __init__(self, plan: FederatedPlan, sent: list[Integers], shown: Shown) -> None:
        names = [f"client-{number:02}" for number in range(plan.clients_per_round)]
        self._keys = {name: Ed25519PrivateKey.generate() for name in (_COORDINATOR, *names)}
        self._terms = SumTerms(
            run="00" * 16,
            roster="00" * 32,
            keys={name: key.public_key() for name, key in self._keys.items()},
            mode=plan.mode,
            clients_per_round=plan.clients_per_round,
            silent=plan.silent,
            colluding=plan.colluding,
            rounds=_NUMBER + 1,
            numbers=plan.numbers,
            ring_bits=plan.ring_bits,
            seconds=_SECONDS,
        )
        self._clients = {name: SumClient(self._terms, name) for name in names}
        self._sent = dict(zip(names, sent, strict=True))
        self._shown = {name: shown(number) for number, name in enumerate(names)}
        self.views = (SumCoordinator(self._terms), SumCoordinator(self._terms))

    def run(self) -> None:
        """Plays the round to its end."""
        now, both = 0.0, (0, 1)
        waiting = self._merged(
            [view.open(_NUMBER, 0, list(self._clients), now) for view in self.views]
        )
        while any(view.awaited != frames.OPEN for view in self.views):
            for asked_by, frame in waiting:
                for answer in self._answers(frame, now):
                    waiting += self._merged(
                        [self._take(view, answer, asked_by, now) for view in both]
                    )
            now += _SECONDS + 1
            waiting = self._merged([view.tick(now) for view in self.views])

    def _take(self, number: int, frame: Frame, asked_by: Views, now: float) -> list[Frame]:
        """Gives a client's frame to a view that asked for it; the second lacks one vector."""
        if number not in asked_by:
            return []
        view = self.views[number]
        if number == 1 and frame.phase == VECTOR and frame.sender == min(self._clients):
            return view.lost(frame.sender, now)
        return view.receive(frame, now)

    def _merged(self, sent: list[list[Frame]]) -> list[tuple[Views, Frame]]:
        """Returns what clients get, and from whom: both views say the same before the lists."""
        lists = (SURVIVORS, REVEAL)
        found: list[tuple[Views, Frame]]
        found = [((0, 1), frame) for frame in sent[0] if frame.phase not in lists]
        for name, numbers in self._shown.items():
            for number in numbers:
                theirs = (frame for frame in sent[number] if frame.recipient == name)
                found += [((number,), frame) for frame in theirs if frame.phase in lists]
        return found

    def _answers(self, frame: Frame, now: float) -> list[Frame]:
        client = self._clients[frame.recipient]
        try:
            answer = client.receive(self._signed(frame, frame.recipient), now)
            if client.awaited == CONTRIBUTION:
                answer += client.contribute(self._sent[frame.recipient])
        except (FrameError, PrivacyError):  # the client refuses
            return []
        return [self._signed(found, _COORDINATOR) for found in answer]

    def _signed(self, frame: Frame, reader: str) -> Frame:
        terms, data = self._terms, frames.encode(frame, self._keys[frame.sender])
        return frames.decode(data, terms.keys, run=terms.run, roster=terms.roster, recipient=reader)
