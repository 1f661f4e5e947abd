"""A spy at the table: sees by how much each step of its fitting moves it.

The state of a `crf.private_fitting.Training` is looked at before and after each `step`; what is in
between is not touched. So are the noisy counts of a `crf.private_counts`, if it takes the first
step. A run may fit tables of other documents too, which are told apart by their number of records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hushdoc_training.crf import private_counts, private_fitting
from hushdoc_training.crf.chain import Gradient, Record

Floats = npt.NDArray[np.float64]

_FITTING: Any = private_fitting
_COUNTING: Any = private_counts


@dataclass(kw_only=True)
class Seen:
    """What one fitting was seen to do.

    Attributes:
        training: The fitting.
        first: By how much the first step moved rows and transitions, in one row.
        steps: How many it took.
        finite: Whether every move was.
        counts: The noisy counts of all rows that it began with; empty where it counted none.
        counted: How often it counted.
    """

    training: Any
    first: Floats = field(default_factory=lambda: np.zeros(0))
    steps: int = 0
    finite: bool = True
    counts: Floats = field(default_factory=lambda: np.zeros(0))
    counted: int = 0

    @property
    def read(self) -> npt.NDArray[np.integer[Any]]:
        """The numbers of the rows that a record reads."""
        return self.training._data.rows

    @property
    def scales(self) -> Floats:
        """The public scales of all rows."""
        return self.training._start.scales


class TableSpy:
    """Looks on inside a `with` block.

    Args:
        records: Number of records of the documents that it was told of.
        poisoned: Whether the last record's gradient is made no number.
    """

    def __init__(self, *, records: int, poisoned: bool = False) -> None:
        """Prepares to look."""
        self._records, self._poisoned = records, poisoned
        self._seen: list[Seen] = []
        self._counts: list[Floats] = []

    def __enter__(self) -> Self:
        """Begins."""
        self._step = _FITTING.Training.step
        self._gradients: Callable[..., list[Gradient]] = _FITTING.gradients
        step, look = self._step, self._look
        self._count, keep = _COUNTING.noisy_counts, self._keep
        count = self._count

        def counted(data: Any, rows: int, plan: Any, grid: Any, **named: Any) -> Floats:
            counts: Floats = count(data, rows, plan, grid, **named)
            keep(data, counts * grid.step)
            return counts

        def watched(training: Any) -> None:
            look(training, step)

        _FITTING.Training.step = watched
        _COUNTING.noisy_counts = counted
        if self._poisoned:
            _FITTING.gradients = self._spoiled
        return self

    def __exit__(self, *_: object) -> None:
        """Ends."""
        _FITTING.Training.step = self._step
        _COUNTING.noisy_counts = self._count
        _FITTING.gradients = self._gradients

    @property
    def seen(self) -> Seen | None:
        """What the fitting of the known documents did; None where none was seen."""
        if not self._seen:
            return None
        seen = self._seen[0]
        seen.counted = len(self._counts)
        seen.counts = self._counts[0] if self._counts else seen.counts
        return seen

    def _keep(self, data: Any, counts: Floats) -> None:
        if len(data.records) == self._records:
            self._counts.append(counts)

    def _look(self, training: Any, step: Callable[[Any], None]) -> None:
        if len(training._data.records) != self._records:
            return step(training)
        known = [seen for seen in self._seen if seen.training is training]
        if not known:
            self._seen.append(Seen(training=training))
        seen = known[0] if known else self._seen[-1]
        before = _state(training)
        step(training)
        move = _state(training) - before
        seen.steps += 1
        seen.finite &= bool(np.isfinite(move).all())
        if seen.steps == 1:
            seen.first = move
        return None

    def _spoiled(self, records: Sequence[Record], *others: Any, **named: Any) -> list[Gradient]:
        found = self._gradients(records, *others, **named)
        last = self._seen[0].training._data.records[-1] if self._seen else None
        for record, gradient in zip(records, found, strict=True):
            if record is last:
                gradient.rows[:] = np.nan
        return found


def _state(training: Any) -> Floats:
    """Returns rows, and transitions as parameters: in the unit that gradients are clipped in."""
    scale = training._settings.transition_scale
    transitions = training._transitions(training._moves)
    moves = transitions.ravel() / scale if scale else np.zeros(0)
    return np.concatenate([training.rows.ravel(), moves])
