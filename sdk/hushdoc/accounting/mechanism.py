"""Mechanisms: the events of a certificate's transcript, which accountants recompute.

They are a subset of the DpEvents of google/differential-privacy, parsed into classes of our own
and never into objects of a library. An event may be added, but never gets another meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hushdoc import arguments
from hushdoc.errors import CertificateError
from hushdoc.serialization.records import (
    Codec,
    Record,
    bad_field,
    integer,
    json_type,
    listed,
    number,
    record,
    stored,
    word,
)

ADJACENCIES = ("add-remove", "replace-one", "zero-out", "all-occurrences-of-one-term")
"""How two neighbouring data sets differ."""

MAX_NODES = 10_000
"""Events in one transcript."""

MAX_DEPTH = 16
"""Events inside one another."""

REPETITIONS = ("logarithmic", "geometric", "poisson")
"""Distribution of the number of tuning runs (Papernot, Steinke 2022, definitions 1 and 5)."""


def _read_event(data: Any, where: str) -> Mechanism:
    kind = data.get("type") if isinstance(data, dict) else None
    if not isinstance(kind, str):
        raise bad_field(where, f"found {json_type(data)}, expected an object with a type")
    if kind not in _CLASSES:
        raise CertificateError(
            f"{where}: the event {arguments.short_repr(kind)} is not one of {', '.join(_CLASSES)}. "
            "It can't be recomputed, so it is refused.",
            code="UNKNOWN_VALUE",
        )
    try:
        return _CLASSES[kind]({key: value for key, value in data.items() if key != "type"}, where)
    except ValueError as problem:
        raise bad_field(where, str(problem).removesuffix(".")) from problem


def to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """Returns plain data for JSON; `from_dict` reads it back.

    Example:
        >>> to_dict(Composed(event=Gaussian(noise_multiplier=2.0), count=3))
        {'type': 'composed', 'event': {'type': 'gaussian', 'noiseMultiplier': 2.0}, 'count': 3}
    """
    return {"type": _NAMES[type(mechanism)], **mechanism.to_dict()}


_event: Codec[Mechanism] = Codec(read=_read_event, write=to_dict)
_rate = number(maximum=1.0)

_NUMBERS = {
    "noise_multiplier": (0.0, math.inf),
    "sampling_rate": (0.0, 1.0),
    "expected_runs": (1.0, math.inf),
}
_INTEGERS = {"population": 1, "sample_size": 0, "size": 1, "count": 0, "rows": 1, "columns": 1}
"""Ranges of the fields of all events; of integers the smallest."""


class _Checked(Record):
    """An event whose numbers are checked however it is made."""

    def __post_init__(self) -> None:
        """Refuses numbers out of their ranges."""
        for name, value in vars(self).items():
            if name in _INTEGERS:
                arguments.integer(value, what=name, least=_INTEGERS[name])
            elif name in _NUMBERS:
                minimum, maximum = _NUMBERS[name]
                _require_number(name, value, minimum=minimum, maximum=maximum)


@dataclass(frozen=True, kw_only=True)
class Gaussian(_Checked):
    """Gaussian noise on a sum that one record changes by at most 1 in the Euclidean norm.

    Attributes:
        noise_multiplier: Standard deviation of the noise divided by the clipping norm.
    """

    noise_multiplier: float = stored(number())


@dataclass(frozen=True, kw_only=True)
class PoissonSampled(_Checked):
    """An event on a batch that each record enters independently with the same probability.

    Attributes:
        sampling_rate: That probability, per step.
        event: What is done to the batch.
    """

    sampling_rate: float = stored(_rate)
    event: Mechanism = stored(_event)


@dataclass(frozen=True, kw_only=True)
class WithoutReplacement(_Checked):
    """An event on a batch of fixed size, every batch of that size equally likely.

    The size of the data is public then, so neighbours differ by replacing one record.

    Attributes:
        population: Records in the data.
        sample_size: Records in a batch.
        event: What is done to the batch.
    """

    population: int = stored(integer(minimum=1))
    sample_size: int = stored(integer())
    event: Mechanism = stored(_event)

    def __post_init__(self) -> None:
        """Refuses what is not a batch out of the data."""
        super().__post_init__()
        if self.sample_size > self.population:
            raise ValueError(
                f"sample_size is {self.sample_size}, out of {self.population} records."
            )


@dataclass(frozen=True, kw_only=True)
class ClusterSampled(_Checked):
    """An event on a cluster of records, such as a client, that takes part with a probability.

    Whether the cluster takes part is public, so it hides nothing by itself; all records of a
    cluster take part together (PrIeD-KIE samples clients so; privacy of one of their records).

    Attributes:
        sampling_rate: Probability that a cluster takes part in a round.
        event: What is done to its records.
    """

    sampling_rate: float = stored(_rate)
    event: Mechanism = stored(_event)


@dataclass(frozen=True, kw_only=True)
class Grouped(_Checked):
    """An event for a unit that owns up to `size` of the records which the event is about.

    Each record is sampled and clipped alone, so the unit may enter a batch several times.

    Attributes:
        size: Most records of one unit.
        event: What was done, as one record sees it.
    """

    size: int = stored(integer(minimum=1))
    event: Mechanism = stored(_event)


@dataclass(frozen=True, kw_only=True)
class Composed(_Checked):
    """The same event several times, each with fresh randomness: training steps.

    Attributes:
        event: One step.
        count: How many steps.
    """

    event: Mechanism = stored(_event)
    count: int = stored(integer())


@dataclass(frozen=True, kw_only=True)
class Sequence(Record):
    """Different events one after the other on the same data.

    Attributes:
        events: In the order they ran.
    """

    events: tuple[Mechanism, ...] = stored(listed(_event, maximum=MAX_NODES))


@dataclass(frozen=True, kw_only=True)
class Parallel(Record):
    """Events on disjoint parts of the data; a record is in at most one part.

    A record itself determines its part (by its label), so the cost is that of the costliest event
    only where neighbours differ by adding or removing a record: replacing one may change two parts.

    Attributes:
        events: One for each part.
    """

    events: tuple[Mechanism, ...] = stored(listed(_event, maximum=MAX_NODES))


@dataclass(frozen=True, kw_only=True)
class RepeatAndSelect(_Checked):
    """An event repeated a random number of times, of which only the best result is released.

    Attributes:
        event: One run.
        distribution: One of REPETITIONS, that of the number of runs.
        expected_runs: Its mean, from 1.
    """

    event: Mechanism = stored(_event)
    distribution: str = stored(word(REPETITIONS))
    expected_runs: float = stored(number(minimum=1.0))

    def __post_init__(self) -> None:
        """Refuses unknown distributions and less than one run."""
        super().__post_init__()
        arguments.choice(self.distribution, REPETITIONS, what="distribution")


@dataclass(frozen=True, kw_only=True)
class HashFill(_Checked):
    """Every missing row of a table of hashed features filled with random weights.

    The genuine rows stay as they are, so no epsilon follows from it whatever is measured (Hash the
    Universe).

    Attributes:
        rows: Rows of the table.
        columns: Weights in a row.
    """

    rows: int = stored(integer(minimum=1))
    columns: int = stored(integer(minimum=1))


Mechanism = (
    Gaussian
    | PoissonSampled
    | WithoutReplacement
    | ClusterSampled
    | Grouped
    | Composed
    | Sequence
    | Parallel
    | RepeatAndSelect
    | HashFill
)

_NAMES: Mapping[type[Any], str] = {
    Gaussian: "gaussian",
    PoissonSampled: "poisson-sampled",
    WithoutReplacement: "without-replacement",
    ClusterSampled: "cluster-sampled",
    Grouped: "group",
    Composed: "composed",
    Sequence: "sequence",
    Parallel: "parallel",
    RepeatAndSelect: "repeat-and-select",
    HashFill: "hash-fill",
}
_CLASSES: Mapping[str, Callable[[Any, str], Mechanism]] = {
    name: record(cls).read for cls, name in _NAMES.items()
}


def from_dict(data: Any, where: str = "Mechanism") -> Mechanism:
    """Returns the mechanism that `to_dict` wrote; `where` is its place, for messages.

    Raises:
        CertificateError: BAD_FIELD (a key or a value is wrong, or it is too large or too deep) or
            UNKNOWN_VALUE (an event this version does not know).
    """
    _require_small(data, where)
    return _read_event(data, where)


def parts(event: Mechanism) -> tuple[Mechanism, ...]:
    """Returns the events directly inside one."""
    match event:
        case Gaussian() | HashFill():
            return ()
        case Sequence() | Parallel():
            return event.events
    return (event.event,)


def num_events(event: Mechanism) -> int:
    """Returns how many events a transcript has."""
    return 1 + sum(map(num_events, parts(event)))


def is_amplified(event: Mechanism) -> bool:
    """Returns whether the privacy of an event rests on Poisson samples of records."""
    if isinstance(event, PoissonSampled) and event.sampling_rate < 1:
        return True
    return any(is_amplified(part) for part in parts(event))


def reads_data(event: Mechanism) -> bool:
    """Returns whether an event reads any data: one that never runs, or on nothing, does not."""
    match event:
        case Gaussian() | HashFill():
            return True
        case PoissonSampled() | ClusterSampled() if event.sampling_rate == 0:
            return False
        case WithoutReplacement() if event.sample_size == 0:
            return False
        case Composed() if event.count == 0:
            return False
    return any(reads_data(part) for part in parts(event))


def draws_clusters(event: Mechanism) -> bool:
    """Returns whether the privacy of an event rests on which clusters were drawn."""
    if isinstance(event, ClusterSampled) and event.sampling_rate < 1:
        return True
    return any(draws_clusters(part) for part in parts(event))


def is_fixed_size(event: Mechanism) -> bool:
    """Returns whether an event has batches of a fixed size."""
    return isinstance(event, WithoutReplacement) or any(
        is_fixed_size(part) for part in parts(event)
    )


def _require_small(data: Any, where: str) -> None:
    """Refuses a transcript of too many events or levels before any of it is read."""
    num_nodes, waiting = 0, [(data, 1)]
    while waiting:
        value, depth = waiting.pop()
        if not isinstance(value, dict):
            continue
        num_nodes += 1
        if num_nodes > MAX_NODES or depth > MAX_DEPTH:
            raise bad_field(
                where, f"found more than {MAX_NODES} events or {MAX_DEPTH} levels of a transcript"
            )
        events = value.get("events")
        inner = events if isinstance(events, list) else [value.get("event")]
        waiting.extend((item, depth + 1) for item in inner)


def _require_number(name: str, value: float, *, minimum: float, maximum: float) -> None:
    if isinstance(value, bool) or not (math.isfinite(value) and minimum <= value <= maximum):
        raise ValueError(
            f"{name} is {value!r}; expected a finite number from {minimum:g} to {maximum:g}."
        )
