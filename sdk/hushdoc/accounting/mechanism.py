"""The closed vocabulary of privacy claims: mechanisms, units, adjacencies, adversaries.

A mechanism is what a certificate's transcript says and an accountant recomputes. The words are
a subset of the DpEvent words of google/differential-privacy, parsed into classes of our own and
never into objects of a library. A word is only ever added, never given another meaning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushdoc.errors import CertificateError
from hushdoc.fields import bad_field, integer, kind_of, number, require_keys

PRIVACY_UNITS = (
    "token-term",
    "word-box",
    "sequence",
    "page",
    "document",
    "client",
    "provider",
    "user",
)
"""What one record is. There is no order among them: a policy names the units it accepts."""

ADJACENCIES = ("add-remove", "replace-one", "zero-out", "all-occurrences-of-one-term")
"""How two neighbouring data sets differ."""

ADVERSARIES = (
    "model-recipient",
    "api-user",
    "synthetic-data-recipient",
    "server",
    "co-client",
    "network-observer",
)
"""Against whom a guarantee holds."""

KINDS = ("dp", "dp-conditional", "empirical", "none")
"""How strong a statement a guarantee is."""

ACCOUNTANTS = ("pld", "prv", "rdp", "zcdp", "analytic-gaussian", "gdp-clt", "none")
"""How epsilon was computed. gdp-clt underestimates and never certifies."""

ASSURANCES = ("self-attested", "reproduced", "third-party", "enclave-attested")
"""Who vouches that training ran as stated; each is stronger than the one before."""

SAMPLINGS = ("poisson", "full-batch", "shuffled", "fixed-size", "unknown")
"""How batches were drawn in the code that ran."""

TUNINGS = ("none", "public-data", "accounted", "unaccounted")
"""On what hyperparameters were chosen; `none` means one run with values fixed beforehand."""

RNGS = ("csprng", "seeded", "unknown")
"""Where the noise came from: secret and unpredictable, reproducible from a seed, or unknown."""

MAX_NODES = 10_000
"""Events in one transcript."""

MAX_DEPTH = 16
"""Events inside one another."""

_NOISE = number()
_RATE = number(maximum=1.0)
_COUNT = integer()


@dataclass(frozen=True, kw_only=True, slots=True)
class Gaussian:
    """Gaussian noise on a sum that one record changes by at most 1 in the Euclidean norm.

    Attributes:
        noise_multiplier: Standard deviation of the noise divided by the clipping norm.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        """Refuses what is not a finite number from 0."""
        _require(noise_multiplier=self.noise_multiplier)


@dataclass(frozen=True, kw_only=True, slots=True)
class PoissonSampled:
    """An event on a batch that each record enters independently with the same probability.

    Attributes:
        sampling_rate: That probability, per step.
        event: What is done to the batch.
    """

    sampling_rate: float
    event: Mechanism

    def __post_init__(self) -> None:
        """Refuses what is not a probability."""
        _require(sampling_rate=self.sampling_rate)
        if self.sampling_rate > 1:
            raise ValueError(f"sampling_rate is {self.sampling_rate!r}; expected 0 to 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """The same event again and again, each time with fresh randomness; training steps.

    Attributes:
        event: One step.
        count: How many steps.
    """

    event: Mechanism
    count: int

    def __post_init__(self) -> None:
        """Refuses what is not a whole number from 0."""
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 0:
            raise ValueError(f"count is {self.count!r}; expected a whole number from 0.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sequence:
    """Different events one after the other on the same data.

    Attributes:
        events: In the order they ran.
    """

    events: tuple[Mechanism, ...]


Mechanism = Gaussian | PoissonSampled | Composed | Sequence


def to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """Returns plain data for JSON; `from_dict` reads it back.

    Example:
        >>> to_dict(Composed(event=Gaussian(noise_multiplier=2.0), count=3))
        {'type': 'composed', 'event': {'type': 'gaussian', 'noiseMultiplier': 2.0}, 'count': 3}
    """
    match mechanism:
        case Gaussian():
            return {"type": "gaussian", "noiseMultiplier": mechanism.noise_multiplier}
        case PoissonSampled():
            return {
                "type": "poisson-sampled",
                "samplingRate": mechanism.sampling_rate,
                "event": to_dict(mechanism.event),
            }
        case Composed():
            return {
                "type": "composed",
                "event": to_dict(mechanism.event),
                "count": mechanism.count,
            }
        case Sequence():
            return {"type": "sequence", "events": [to_dict(event) for event in mechanism.events]}


def from_dict(data: Any, where: str = "Mechanism") -> Mechanism:
    """Returns the mechanism that `to_dict` wrote.

    Args:
        data: Parsed JSON.
        where: Where it stands in the certificate, for messages.

    Raises:
        CertificateError: BAD_FIELD (a key or a value is wrong, or it is too large or too deep) or
            UNKNOWN_VALUE (an event this version does not know).
    """
    return _read(data, where, 1, [0])


def is_amplified(event: Mechanism) -> bool:
    """Returns whether the privacy of an event rests on Poisson sampling at a rate below 1."""
    match event:
        case PoissonSampled():
            return event.sampling_rate < 1 or is_amplified(event.event)
        case Composed():
            return is_amplified(event.event)
        case Sequence():
            return any(is_amplified(part) for part in event.events)
        case Gaussian():
            return False


def _read(data: Any, where: str, depth: int, num_nodes: list[int]) -> Mechanism:
    num_nodes[0] += 1
    if num_nodes[0] > MAX_NODES or depth > MAX_DEPTH:
        raise bad_field(
            where, f"found more than {MAX_NODES} events or {MAX_DEPTH} levels of a transcript"
        )
    match data.get("type") if isinstance(data, dict) else None:
        case "gaussian":
            require_keys(data, {"type", "noiseMultiplier"}, where)
            noise = _NOISE.read(data["noiseMultiplier"], f"{where}.noiseMultiplier")
            return Gaussian(noise_multiplier=noise)
        case "poisson-sampled":
            require_keys(data, {"type", "samplingRate", "event"}, where)
            rate = _RATE.read(data["samplingRate"], f"{where}.samplingRate")
            event = _read(data["event"], f"{where}.event", depth + 1, num_nodes)
            return PoissonSampled(sampling_rate=rate, event=event)
        case "composed":
            require_keys(data, {"type", "event", "count"}, where)
            count = _COUNT.read(data["count"], f"{where}.count")
            event = _read(data["event"], f"{where}.event", depth + 1, num_nodes)
            return Composed(event=event, count=count)
        case "sequence":
            require_keys(data, {"type", "events"}, where)
            if not isinstance(data["events"], list):
                raise bad_field(where, f"events is {kind_of(data['events'])}, expected a list")
            return Sequence(
                events=tuple(
                    _read(item, f"{where}.events[{index}]", depth + 1, num_nodes)
                    for index, item in enumerate(data["events"])
                )
            )
        case str() as unknown:
            raise CertificateError(
                f"{where}: the event {ascii(unknown)[:60]} is not one of gaussian, "
                "poisson-sampled, composed, sequence. It can't be recomputed, so it is refused.",
                code="UNKNOWN_VALUE",
            )
        case _:
            raise bad_field(where, f"found {kind_of(data)}, expected an object with a type")


def _require(**values: float) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not math.isfinite(value) or value < 0:
            raise ValueError(f"{name} is {value!r}; expected a finite number from 0.")
