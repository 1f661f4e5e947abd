"""Receipt: what a private training executed, written down by the code that executed it.

A plan says what shall run, and a claim that is made from a plan says nothing of what did. So the
code that draws records, clips them and adds noise notes each value where it uses it
(`hushdoc_training.metering`), and claims are made from the receipt that comes out. Python keeps
nobody from writing any object; what is kept out here are mistakes, and numbers from elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, asdict, dataclass, fields
from typing import Any, Self

from hushdoc import arguments
from hushdoc.accounting.mechanism import Composed, Gaussian, Mechanism, PoissonSampled
from hushdoc.certificate.vocabulary import PRIVACY_UNITS
from hushdoc.errors import HushdocError, PrivacyError
from hushdoc.serialization import strict_json

SOURCES = ("operating-system", "given", "unknown")
"""Where the key of a random stream came from. `given`: a caller passed it; `unknown`: the stream is
not one of ours, so nothing is known of it."""

_ADDED = (
    "sums and noise are whole steps of a public grid and are added exactly; rounding sums to it, "
    "and the error of adding up float32 gradients, however many records are drawn, is part of the "
    "sensitivity; "
)
_FLOAT32 = (
    "where gradients are computed in float32 or less, how one record changes the rounding of "
    "others in the same pass is not covered by the guarantee"
)
NOISE_DISTRIBUTIONS = {
    "gaussian": (
        f"{_ADDED}noise is a Gaussian computed in float64 from 53-bit uniforms and rounded to the "
        f"grid, without what lies beyond 8.5 deviations; {_FLOAT32}"
    ),
    "discrete-gaussian": (
        f"{_ADDED}noise is a discrete Gaussian, drawn in integers by comparison with thresholds of "
        f"128 bits; {_FLOAT32}"
    ),
}
"""What noise was drawn from and how it was added, with the certificate's words on its rounding."""

DIFFERENCE = 1e-9
"""How far (relative) what ran may lie from what was planned: some roundings, and no more."""

LATER = ("begun_with", "declared")
"""Fields that are written only where they hold something: earlier versions did not know them."""

MAX_READS = 64
"""Most different reads of private numbers that a receipt lists."""

Held = tuple[tuple[str, tuple[str, ...]], ...]
"""Parameters that hold what earlier private steps have left, by name, each with where these were
charged: the mark of a ledger's run and its last step, as "mark:step", or "" of no ledger."""

_WRITTEN = object()
"""What the makers of receipts show, so that none is made by accident."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where random numbers came from.

    Attributes:
        source: One of SOURCES: where the key came from.
        secret: Whether nobody outside of the training knows the key; only one that the operating
            system drew can be.
    """

    source: str
    secret: bool

    def __post_init__(self) -> None:
        """Refuses a key that can't be secret."""
        arguments.choice(self.source, SOURCES, what="source")
        if type(self.secret) is not bool or (self.secret and self.source != "operating-system"):
            raise ValueError(
                f"secret is {self.secret!r} and source '{self.source}'; expected True only for a "
                "key that the operating system drew."
            )


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a private training executed; only a `metering.Meter` and `from_json` make one.

    Attributes:
        noise_multiplier: Standard deviation of the noise that was added / how far (L2) one record
            could move the sum that it was added to; 0 where none was added, of which nothing is
            certified.
        sampling_rate: What the uniforms of the draws were compared with; 1 where all take part, and
            0 where none could, of which nothing is certified either.
        clipping_norm: How far (L2) one record could move the sum before rounding: what was applied,
            not planned.
        divisor: What the noised sum was divided by.
        steps: How many steps were drawn.
        planned_steps: How many steps could be drawn at most, fixed before the first. A claim covers
            all of them: those that were charged and lost in a kill, and those that were not taken.
        privacy_unit: What one record was, as those who grouped the records declared; None where
            they did not.
        coins: Where the draws of records came from; None where every record took part.
        noise: Where the noise came from.
        noise_distribution: One of NOISE_DISTRIBUTIONS.
        invocations: How often the training was begun or gone on with.
        private_reads: What un-noised private numbers were read for, each in words.
        begun_with: What the start held of other private trainings. Ledgers stay with the trainer,
            and so does this.
        declared: What a claim says besides, in words: what checks read the records for, each with
            its treatment, and what the guarantee assumes, with "".
    """

    noise_multiplier: float
    sampling_rate: float
    clipping_norm: float
    divisor: float
    steps: int
    planned_steps: int
    privacy_unit: str | None
    coins: Origin | None
    noise: Origin
    noise_distribution: str
    invocations: int = 1
    private_reads: tuple[str, ...] = ()
    begun_with: Held = ()
    declared: tuple[tuple[str, str], ...] = ()
    written: InitVar[object] = None

    def __post_init__(self, written: object) -> None:
        """Refuses values that no training could have executed, and makers of another kind."""
        if written is not _WRITTEN:
            raise TypeError(
                "A Receipt is written by what trains, where it trains, and by nobody else. Take it "
                "from there: `PrivateTraining.receipt`, or what a table was fitted with."
            )
        _require_numbers(
            noise_multiplier=1.0 if self.noise_multiplier == 0 else self.noise_multiplier,
            sampling_rate=1.0 if self.sampling_rate == 0 else self.sampling_rate,
            clipping_norm=self.clipping_norm,
            divisor=self.divisor,
        )
        arguments.integer(self.steps, what="steps")
        arguments.integer(self.planned_steps, what="planned_steps")
        arguments.integer(self.invocations, what="invocations")
        arguments.choice(self.noise_distribution, tuple(NOISE_DISTRIBUTIONS), what="noise")
        if self.privacy_unit is not None:
            arguments.choice(self.privacy_unit, PRIVACY_UNITS, what="privacy_unit")
        if self.steps > self.planned_steps:
            raise ValueError(
                f"{self.steps} steps were drawn; expected at most {self.planned_steps}, as planned."
            )
        if self.sampling_rate > 1 or (self.coins is None and self.sampling_rate != 1):
            raise ValueError(
                f"sampling_rate is {self.sampling_rate!r}; expected at most 1, and 1 where no coin "
                "was drawn."
            )

    @property
    def is_secret(self) -> bool:
        """Whether nobody can foretell draws and noise."""
        return self.noise.secret and (self.coins is None or self.coins.secret)

    @property
    def step(self) -> Mechanism:
        """One step, in the certificate's words."""
        noise = Gaussian(noise_multiplier=self.noise_multiplier)
        if self.coins is None:
            return noise
        return PoissonSampled(sampling_rate=self.sampling_rate, event=noise)

    def mechanism(self) -> Mechanism:
        """Returns all planned steps, in the certificate's words."""
        if self.coins is None and self.planned_steps == 1:
            return self.step
        return Composed(event=self.step, count=self.planned_steps)

    @classmethod
    def of_meter(cls, **executed: Any) -> Self:
        """Returns a receipt of what a meter noted; nothing else calls this."""
        return cls(**executed, written=_WRITTEN)

    def told(self) -> dict[str, Any]:
        """Returns what others may see of it, in plain data; what is declared claims say."""
        return {name: value for name, value in asdict(self).items() if name not in LATER}

    def to_json(self) -> bytes:
        """Returns the text of a run folder; `from_json` reads it."""
        later = {name: value for name in LATER if (value := getattr(self, name))}
        return json.dumps({**self.told(), **later}, sort_keys=True).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Returns the receipt that `to_json` wrote; a PrivacyError where it is no such text."""
        try:
            found = strict_json.loads(content, what="The receipt")
            expected = {field.name for field in fields(cls)}
            if not isinstance(found, dict) or {*found, *LATER} != expected:
                raise ValueError(f"expected the keys {', '.join(sorted(expected))}")
            return cls(**_typed(found), written=_WRITTEN)
        except (HushdocError, TypeError, ValueError) as error:
            raise PrivacyError(
                f"A receipt can't be read: {str(error).rstrip('.')}. Without it nothing is "
                "certified of the steps that it was for. Restore it, or start a new run; what this "
                "one spent stays spent.",
                code="NO_RECEIPT",
            ) from error


def merged(receipts: Iterable[Receipt]) -> Receipt:
    """Returns one receipt of a run that was interrupted and gone on with.

    What holds for every step must be the same in all, or a PrivacyError names both values; steps
    and invocations add up, and may not pass what was planned.
    """
    first, *others = receipts
    whole = asdict(first)
    for other in others:
        for name, value in asdict(other).items():
            if name in ("steps", "invocations"):
                whole[name] += value
            elif name in ("private_reads", "declared"):
                whole[name] = tuple(dict.fromkeys((*whole[name], *value)))
            elif name == "begun_with":
                whole[name] = held_in_all(whole[name], value)
            elif whole[name] != value:
                raise PrivacyError(
                    f"A run was gone on with otherwise than it began: {name} is {value!r} after "
                    f"{whole[name]!r}. No claim holds for both; start a new run."
                )
    try:
        return Receipt(**_typed(whole), written=_WRITTEN)
    except ValueError as error:
        raise PrivacyError(f"The receipts of a run do not fit together: {error}") from error


def held_in_all(*parts: Held) -> Held:
    """Returns what was held by any of several starts, in one order."""
    found: dict[str, set[str]] = {}
    for name, charged in (one for held in parts for one in held):
        found.setdefault(name, set()).update(charged)
    return tuple((name, tuple(sorted(found[name]))) for name in sorted(found))


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns plain values as a receipt's fields."""
    typed = dict(values)
    for name in ("coins", "noise"):
        typed[name] = None if typed[name] is None and name == "coins" else Origin(**typed[name])
    reads = typed["private_reads"]
    if len(reads) > MAX_READS or not all(isinstance(read, str) and read for read in reads):
        raise ValueError(f"private_reads is {arguments.short_repr(reads)}; expected words.")
    typed["private_reads"] = tuple(reads)
    typed["begun_with"] = held_in_all(tuple(_held(*one) for one in typed.get("begun_with", ())))
    typed["declared"] = tuple(_declared(*one) for one in typed.get("declared", ()))
    return typed


def _declared(what: object, treatment: object) -> tuple[str, str]:
    if not (isinstance(what, str) and what and isinstance(treatment, str)):
        raise ValueError(f"declared has {arguments.short_repr(what)}; expected two texts")
    return what, treatment


def _held(name: object, charged: Any) -> tuple[str, tuple[str, ...]]:
    known = isinstance(charged, list | tuple) and all(isinstance(one, str) for one in charged)
    if not (isinstance(name, str) and charged and known):
        raise ValueError(
            f"begun_with has {arguments.short_repr(name)}; expected names, each with its charges"
        )
    return name, tuple(charged)


def _require_numbers(**numbers: float) -> None:
    for name, value in numbers.items():
        if not (type(value) is float and math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value!r}; expected a finite number above 0.")
