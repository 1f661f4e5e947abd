"""Private fitting: a linear-chain random field trained by DP-SGD, a document as one record.

Contract, from which the guarantee follows. In every step each record is drawn by its own coin; the
gradient of all its items, for rows and transitions together, is scaled down to an L2 norm of at
most the clipping norm and cut off to whole steps of a public grid; the gradients are added up;
every one of the R x d cells and every transition receives integer noise of `noise_multiplier`
clipping norms; the sum is divided by a constant. Row scales, start and settings are public. What is
released is an average of iterates: a function of whole numbers, by the same line for every cell.

Most cells are read by no record. Noise that falls on such a cell is never looked at in training, so
the sum of all its draws is drawn once at the end. Nobody who sees the result can tell: a sum of
discrete Gaussians, each some times as wide as the multiples that it is counted in, is the discrete
Gaussian of the added variances (`integer_noise`), so its distribution is the same, cell for cell
and bit for bit, as if every draw had been made in its step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hushdoc.hashing import Features
from hushdoc.labels import OUTSIDE
from hushdoc_training.crf.chain import (
    Gradient,
    Grouping,
    Numbers,
    RecordSet,
    gradients,
    record_set,
)
from hushdoc_training.metering import Meter
from hushdoc_training.randomness import integer_noise, lattice
from hushdoc_training.randomness.secret_stream import SecretStream, origin_of
from hushdoc_training.receipt import Receipt

Floats = npt.NDArray[np.float64]

UNSEEN_SCALE = 0.02
"""Scale of rows that comparable public text does not use, as a share of the largest."""

_SLACK = 1e-9
"""Every gradient is shorter by this share: no rounding in float64 lifts one above the norm."""

LARGEST_WEIGHT = float(np.finfo(np.float16).max)
"""What a sealed table holds at most; export refuses others."""

_DEVIATIONS = 8.0
"""Deviations of the noise beyond which no cell of a table is to be expected."""

_CHUNK_ROWS = 1 << 18
_CHUNK_RECORDS = 1 << 10
"""Records whose gradients are held at once."""


class Plan(Protocol):
    """What the guarantee is made from; `hushdoc_training.privacy.plan.PrivacyPlan` is one."""

    @property
    def sampling_rate(self) -> float: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def clipping_norm(self) -> float: ...  # noqa: D102
    @property
    def noise_multiplier(self) -> float: ...  # noqa: D102
    @property
    def expected_records(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How training goes on; chosen without looking at the documents.

    The total learning rate is that of a step times the number of steps: how far a table whose mean
    gradient always had the clipping norm would get. It need not change with the number of steps.
    """

    total_learning_rate: float = 500.0
    emphasis: float = 8.0  # by how much an item with a label counts more than one without
    transition_scale: float = 0.1  # of transitions as parameters; 0 leaves them at their start
    averaged: float = 0.5  # share of the last iterates whose mean is released
    length: float | None = None  # to which each record's scaled features, added up, are drawn


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What training begins with; all of it is public knowledge.

    The gradient and the noise of a row are multiplied by its scale, which may not be 0, so that no
    row stays without noise.
    """

    tags: tuple[str, ...]  # the labels, OUTSIDE among them or not
    scales: Floats  # shape [R]
    transitions: Floats  # shape [d, d]
    weights: Floats | None = None  # shape [R, d], in the table's own units; None is zero

    def __post_init__(self) -> None:
        """Refuses what does not fit together."""
        d, rows = len(self.tags), len(self.scales)
        if self.transitions.shape != (d, d):
            raise ValueError(
                f"transitions have the shape {self.transitions.shape}; expected {(d, d)}."
            )
        if self.weights is not None and self.weights.shape != (rows, d):
            raise ValueError(f"weights have the shape {self.weights.shape}; expected {(rows, d)}.")
        if not (np.isfinite(self.scales).all() and (self.scales > 0).all()):
            raise ValueError("Every row's scale must be a finite number above 0.")


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateTable:
    """What may be released, for every cell of it carries noise, and the receipt of how."""

    weights: npt.NDArray[np.float32]  # shape [R, d], complete
    transitions: npt.NDArray[np.float32]  # shape [d, d]
    tags: tuple[str, ...]
    receipt: Receipt


def public_scales(
    public: Features, rows: int, *, least: int = 3, unseen_scale: float = UNSEEN_SCALE
) -> npt.NDArray[np.float64]:
    """Returns scales of rows from public text alone: how rare a row is there, 0 being common.

    Noise reaches a score through every feature of an item, so rows that other texts never use
    would bring noise and hardly any signal: what fewer than `least` public items have is scaled
    down, to `unseen_scale` of the largest. Private sentences must not be among the public ones.
    The less the public text has to do with the private one, the more of its words are such rows.
    With these scales a public item's features have a mean squared norm of 1.

    Example:
        >>> items = Features(indices=np.array([0, 0, 1], np.int32), offsets=np.array([0, 1, 3]))
        >>> public_scales(items, 3, least=1).round(2).tolist()
        [0.03, 1.41, 0.03]
    """
    counts = np.bincount(public.indices, minlength=rows)
    rarity = np.log((public.num_items + 1) / (counts + 1))
    largest = max(float(rarity[counts >= least].max(initial=0.0)), 1e-9)
    scales = np.maximum(np.where(counts >= least, rarity, 0.0), unseen_scale * largest)
    norm = np.sqrt(np.sum(counts * scales**2) / max(1, public.num_items))
    return np.asarray(scales / (norm if norm > 0 else 1.0), dtype=np.float64)


def transitions_of(tags: Sequence[str], *, rarity: float = 5.5, staying: float = 1.0) -> Floats:
    """Returns transitions from common knowledge: labels are rare, and come in runs.

    A run costs `rarity`, half where it begins and half where it ends, and each further item
    `staying`. `I-x` may only follow `B-x` or `I-x`.

    Example:
        >>> transitions_of(["O", "TERM"]).tolist()
        [[0.0, -2.75], [-2.75, -1.0]]
    """
    made = np.zeros((len(tags), len(tags)))
    for i, before in enumerate(tags):
        for j, after in enumerate(tags):
            goes_on = after.startswith("I-")
            if goes_on and before[2:] != after[2:]:
                made[i, j] = -4 * rarity
            elif before == OUTSIDE or after == OUTSIDE:
                made[i, j] = 0.0 if before == after else -rarity / 2
            elif not goes_on:
                made[i, j] = -staying if before == after else -rarity
    return made


def fit_private(
    features: Features,
    labels: npt.NDArray[np.int64],
    *,
    sequences: Numbers,
    records: Numbers | Grouping,
    start: Start,
    plan: Plan,
    settings: Settings,
    stream: SecretStream,
    charge: Callable[[int], None] | None = None,
) -> PrivateTable:
    """Returns a table trained by DP-SGD; arguments as of `chain.record_set`.

    The plan holds sampling, clipping and noise; sampling and noise come from the stream. Nothing is
    certified of records whose unit nobody knows: give a `Grouping`. `charge` is called with the
    number of steps before the first draw.
    """
    data = data_of(features, labels, sequences, records, start)
    largest_scale = float(start.scales.max())
    require_releasable(plan, settings, steps=plan.steps, largest_scale=largest_scale)
    return Training(data, start, plan, settings, stream, charge=charge).run()


def data_of(
    features: Features,
    labels: npt.NDArray[np.int64],
    sequences: Numbers,
    records: Numbers | Grouping,
    start: Start,
) -> RecordSet:
    """Returns records as training takes them; a ValueError where they do not fit the start."""
    data = record_set(features, labels, sequences=sequences, records=records)
    require_rows(data, len(start.scales))
    return data


def require_releasable(
    plan: Plan, settings: Settings, *, steps: int, largest_scale: float = 1.0
) -> None:
    """Raises ValueError where so much noise can't be drawn, or no sealed table can hold it."""
    grid, shares = _grid_of(plan), _shares_of(steps, settings)
    width = grid.added(shares).width
    if width > integer_noise.GREATEST_WIDTH:
        raise ValueError(
            f"{plan.steps} steps with a noise multiplier of {plan.noise_multiplier:.6g} add up to "
            "more noise than can be drawn at once. Take fewer steps; each needs less noise then."
        )
    rate = settings.total_learning_rate / steps / plan.expected_records / plan.clipping_norm
    deviation = rate * grid.step * width / int(shares.max()) * largest_scale
    if _DEVIATIONS * deviation > LARGEST_WEIGHT:
        raise ValueError(
            f"The total learning rate {settings.total_learning_rate:g} gives weights a noise of "
            f"deviation {deviation:.3g}, and a sealed table holds weights of at most "
            f"{LARGEST_WEIGHT:g}. Take a smaller rate."
        )


def _grid_of(plan: Plan) -> lattice.Lattice:
    return lattice.of_truncated(norm=plan.clipping_norm, noise_multiplier=plan.noise_multiplier)


def _shares_of(steps: int, settings: Settings) -> npt.NDArray[np.int64]:
    """Returns how many of the averaged iterates the noise of each step is part of."""
    num_averaged = max(1, round(settings.averaged * steps))
    return np.minimum(num_averaged, steps - np.arange(steps))


def require_rows(data: RecordSet, rows: int) -> None:
    """Raises ValueError where a feature stands in a row that the table does not have."""
    if len(data.rows) and int(data.rows[-1]) >= rows:
        raise ValueError(f"A feature stands in row {int(data.rows[-1])}; the start has {rows}.")


class Training:
    """The state of one run: transitions, and rows that are read, in units of their scales."""

    def __init__(
        self,
        data: RecordSet,
        start: Start,
        plan: Plan,
        settings: Settings,
        stream: SecretStream,
        *,
        charge: Callable[[int], None] | None = None,
        begun: Meter | None = None,  # of a training whose first step was taken elsewhere
    ) -> None:
        """Begins at the start."""
        self._data, self._start, self._plan = data, start, plan
        self._settings, self._stream, self._charge = settings, stream, charge
        self._meter = begun or Meter(planned_steps=plan.steps, privacy_unit=data.unit)
        self._steps = plan.steps - (begun is not None)
        d = len(start.tags)
        self._scales = start.scales[data.rows][:, None]
        self._begun: Floats | float = 0.0
        if start.weights is not None:
            self._begun = start.weights[data.rows] / self._scales
        # How far the steps went, in whole steps of the grid as long as they are private.
        self._went = np.zeros((len(data.rows), d))
        self._moves = np.zeros((d, d))
        self._emphasis = np.array(
            [1.0 if tag == OUTSIDE else settings.emphasis for tag in start.tags]
        )
        self._shares = _shares_of(self._steps, settings)
        self._num_averaged = int(self._shares.max())
        self._rate = (
            settings.total_learning_rate / self._steps / plan.expected_records / plan.clipping_norm
        )
        self._multipliers = self._drawn_to(settings.length)
        self._meter.divided(plan.expected_records)
        self._lattice = _grid_of(plan)

    @property
    def rows(self) -> Floats:
        """The rows that are read, in units of their scales, shape [read, d]."""
        return self._begun - self._rate * self._lattice.step * self._went

    @rows.setter
    def rows(self, rows: Floats) -> None:
        self._went = (self._begun - rows) / (self._rate * self._lattice.step)

    def run(self) -> PrivateTable:
        """Takes all steps and returns a whole table."""
        rows, transitions = self._take_steps()
        return PrivateTable(
            weights=self._whole(rows),
            transitions=transitions.astype(np.float32),
            tags=self._start.tags,
            receipt=self._meter.receipt(),
        )

    def learn(self) -> tuple[Floats, Floats]:
        """Takes all steps and returns the mean of the last iterates: read rows, transitions."""
        rows, transitions = self._take_steps()
        return self._released(rows, self._data.rows), transitions

    def step(self) -> None:
        """Takes one step."""
        rows, moves = self._clipped_sum()
        self._meter.noised(
            std=self._lattice.deviation,
            sensitivity=self._lattice.reach,
            origin=origin_of(self._stream),
            distribution=self._lattice.distribution,
        )
        self._went += rows + self._lattice.noise(self._stream, rows.shape)
        moves += self._lattice.noise(self._stream, moves.shape)
        if self._settings.transition_scale:
            self._moves += moves

    def _take_steps(self) -> tuple[Floats, Floats]:
        """Returns how far the averaged iterates went, added up, and the mean's transitions."""
        if self._charge is not None:
            self._charge(self._plan.steps)
        rows, moves = np.zeros_like(self._went), np.zeros_like(self._moves)
        for step in range(self._steps):
            self.step()
            if step >= self._steps - self._num_averaged:
                rows += self._went
                moves += self._moves
        return rows, self._transitions(moves / self._num_averaged)

    def _clipped_sum(self) -> tuple[Floats, Floats]:
        """Returns the sum of the drawn records' gradients in whole steps, each clipped."""
        rows, moves = np.zeros_like(self._went), np.zeros_like(self._moves)
        rate, bound = self._plan.sampling_rate, self._plan.clipping_norm
        self._meter.drawn(rate, origin_of(self._stream))
        self._meter.clipped(bound)
        drawn = self._stream.uniforms(len(self._data.records)) <= rate
        numbers = np.flatnonzero(drawn).tolist()
        scaled = self.rows * self._scales
        for first in range(0, len(numbers), _CHUNK_RECORDS):
            some = numbers[first : first + _CHUNK_RECORDS]
            chosen = [self._data.records[n] for n in some]
            factors = self._multipliers[some].tolist()
            found = gradients(
                chosen,
                [scaled[one.rows] * factor for one, factor in zip(chosen, factors, strict=True)],
                self._transitions(self._moves),
                emphasis=self._emphasis,
            )
            for record, gradient, factor in zip(chosen, found, factors, strict=True):
                own, pairs = self._clipped(gradient, self._scales[record.rows] * factor, bound)
                rows[record.rows] += own
                moves += pairs
        return rows, moves

    def _drawn_to(self, length: float | None) -> Floats:
        """Returns what each record's features are multiplied by; it hangs on no other record."""
        made = np.ones(len(self._data.records))
        if length is None:
            return made
        for number, record in enumerate(self._data.records):
            counts = np.bincount(record.places, minlength=len(record.rows))
            norm = float(np.linalg.norm(counts * self._scales[record.rows, 0]))
            made[number] = length / norm if norm else 1.0
        return made

    def _clipped(self, gradient: Gradient, scales: Floats, bound: float) -> tuple[Floats, Floats]:
        own = gradient.rows * scales
        pairs = gradient.transitions * self._settings.transition_scale
        norm = float(np.sqrt(np.square(own).sum() + np.square(pairs).sum()))
        if not np.isfinite(norm):
            return np.zeros_like(own), np.zeros_like(pairs)
        factor = bound / max(norm, bound) * (1 - _SLACK)
        step = self._lattice.step
        return lattice.truncated(own * factor, step), lattice.truncated(pairs * factor, step)

    def _transitions(self, moves: Floats) -> Floats:
        worth = self._settings.transition_scale * self._rate * self._lattice.step
        return self._start.transitions - worth * moves

    def _whole(self, rows: Floats) -> npt.NDArray[np.float32]:
        """Returns the whole table: rows that were read, and the noise of those that were not."""
        total, d = len(self._start.scales), len(self._start.tags)
        unread = self._lattice.added(self._shares)
        table = np.empty((total, d), dtype=np.float32)
        for first in range(0, total, _CHUNK_ROWS):
            part = slice(first, min(total, first + _CHUNK_ROWS))
            noise = unread.noise(self._stream, (part.stop - first, d))
            table[part] = self._released(noise, part)
        table[self._data.rows] = self._released(rows, self._data.rows)
        return table

    def _released(self, went: Floats, part: slice | npt.NDArray[Any]) -> Floats:
        """Returns rows in the table's own units, from how far all averaged iterates went."""
        worth = self._rate * self._lattice.step / self._num_averaged
        moved: Floats = went * (-worth * self._start.scales[part][:, None])
        return moved if self._start.weights is None else moved + self._start.weights[part]
