"""Settings: what training on questions does where nobody says otherwise, by architecture.

Those of training without privacy are such as were seen to learn on invented providers, those of
private pointers such as were best on a part of SROIE's companies, and of many records such as were
best on invented receipts (docs/results.md).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushdoc_training.privacy.plan import PrivacyPlan

PROVIDER = "fl-provider-dp"
ALGORITHMS = ("dp-adam", "dp-sgd", PROVIDER)


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What an architecture starts from, how much it reads at once, and how it learns."""

    start: str
    max_tokens: int  # of a window, of VT5 with its question
    batch_size: int  # windows, of VT5 rows, in a step without privacy
    learning_rate: float = 3e-4  # without privacy, and of fl-provider-dp


DEFAULTS: Mapping[str, Defaults] = {
    "pointer": Defaults(start="minilm", max_tokens=384, batch_size=4),
    "vt5": Defaults(start="small", max_tokens=256, batch_size=16),
}


@dataclass(frozen=True, kw_only=True)
class Private:
    """How models learn with privacy: public constants, of which none is counted on documents."""

    algorithm: str = "dp-adam"
    trained: str = "biases"
    scaling: str = "none"
    directions: int | None = None
    sampling_rate: float = 0.25
    steps: int = 40
    clipping_norm: float = 0.1
    expected_records: int = 40


SCALED = Private(
    algorithm="dp-sgd",
    trained="output",
    scaling="public",
    sampling_rate=1.0,
    steps=20,
    clipping_norm=0.05,
    expected_records=160,
)
"""Of a pointer: the last layer of its reader, by all records in each of few steps."""

MANY = replace(SCALED, algorithm="dp-adam", directions=64, steps=60)
MORE = replace(MANY, directions=128, steps=120)
"""Of a pointer, where noise is small, or smaller still, beside what so many records say."""

LEAST_OF_MANY, LEAST_OF_MORE = 3000, 16_000
"""Records times epsilon from which they are many, or more: from as many invented receipts far more
was learned so, and from fewer of SROIE's less (docs/results.md)."""

OTHERS = Private()

MOST_MOVED, MOST_NOISE = 9.0, 1.0
"""How far the planned number of records may move a scaled layer in a step if their gradients agree,
and the standard deviation of the noise that all steps may add to one of its numbers: what sets the
rate of its steps."""

ADAM_RATE, ADAM_RATE_OF_MANY = 0.4, 0.8
"""Of DP-Adam in a scaled layer, by whether records are many."""


def complete(options: argparse.Namespace, architecture: str) -> None:
    """Sets what nobody gave of a private run, before anything is read."""
    scaled = (
        architecture == "pointer"
        and options.algorithm != PROVIDER
        and options.scaling != "none"
        and (options.trained is None or options.scaling is not None)
    )
    defaults = OTHERS
    if scaled:
        defaults = scaled_for(options.expected_records, options.epsilon)
    for name in (field.name for field in fields(Private)):
        if getattr(options, name) is None:
            setattr(options, name, getattr(defaults, name))


def scaled_for(expected_records: float | None, epsilon: float | None) -> Private:
    """Returns how a pointer's last layer learns from so many; few where one is not given."""
    many = (expected_records or 0) * (epsilon or 0)
    return MORE if many >= LEAST_OF_MORE else MANY if many >= LEAST_OF_MANY else SCALED


def private_rate(plan: PrivacyPlan, *, algorithm: str, scaling: str, many: bool = False) -> float:
    """Returns the step size where nobody gives one, of what is declared alone.

    `many` says that records are not few for their epsilon; see `scaled_for`.
    """
    if scaling == "none":
        return DEFAULTS["pointer"].learning_rate
    if algorithm == "dp-adam":
        return ADAM_RATE_OF_MANY if many else ADAM_RATE
    noise = plan.noise_deviation * math.sqrt(plan.steps)
    return min(MOST_MOVED / plan.clipping_norm, MOST_NOISE / noise)


def where_many(few: object, many: object, more: object) -> str:
    """Returns settings of few, many and more records in words."""
    told = f"{few}, and {many} where --expected-records times --epsilon is {LEAST_OF_MANY} or more"
    return told if more == many else f"{told}, {more} from {LEAST_OF_MORE} on"


def told(name: str) -> str:
    """Returns the default of a setting in words: of a pointer, and of a VT5 where it differs."""
    pointer, vt5 = (getattr(DEFAULTS[kind], name) for kind in ("pointer", "vt5"))
    return f"{pointer}" if pointer == vt5 else f"{pointer}, of a VT5 {vt5}"


def told_private(name: str) -> str:
    """Returns the default of a setting with privacy: of a scaled pointer, and of all others."""
    few, many, more, others = (getattr(kind, name) for kind in (SCALED, MANY, MORE, OTHERS))
    pointer = f"{few}" if few == many == more else where_many(few, many, more)
    return f"{pointer}; of a VT5, or where other parts of a pointer are trained, {others}"
