"""Settings: what training on questions does where nobody says otherwise, by architecture.

Those of training without privacy are such as were seen to learn on invented providers, those of
private pointers such as were best on a part of SROIE's companies (docs/results.md).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
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

OTHERS = Private()

MOST_MOVED, MOST_NOISE = 9.0, 1.0
"""How far the planned number of records may move a scaled layer in a step if their gradients agree,
and the standard deviation of the noise that all steps may add to one of its numbers: what sets the
rate of its steps."""

ADAM_RATE = 0.4
"""Of DP-Adam in a scaled layer."""


def complete(options: argparse.Namespace, architecture: str) -> None:
    """Sets what nobody gave of a private run, before anything is read."""
    scaled = (
        architecture == "pointer"
        and options.algorithm != PROVIDER
        and options.scaling != "none"
        and (options.trained is None or options.scaling is not None)
    )
    defaults = SCALED if scaled else OTHERS
    for name in (field.name for field in fields(Private)):
        if getattr(options, name) is None:
            setattr(options, name, getattr(defaults, name))


def private_rate(plan: PrivacyPlan, *, algorithm: str, scaling: str) -> float:
    """Returns the step size where nobody gives one, of a plan's own numbers alone."""
    if scaling == "none":
        return DEFAULTS["pointer"].learning_rate
    if algorithm == "dp-adam":
        return ADAM_RATE
    noise = plan.noise_deviation * math.sqrt(plan.steps)
    return min(MOST_MOVED / plan.clipping_norm, MOST_NOISE / noise)


def told(name: str) -> str:
    """Returns the default of a setting in words: of a pointer, and of a VT5 where it differs."""
    pointer, vt5 = (getattr(DEFAULTS[kind], name) for kind in ("pointer", "vt5"))
    return f"{pointer}" if pointer == vt5 else f"{pointer}, of a VT5 {vt5}"


def told_private(name: str) -> str:
    """Returns the default of a setting with privacy: of a scaled pointer, and of all others."""
    scaled, others = (getattr(kind, name) for kind in (SCALED, OTHERS))
    return f"{scaled}; of a VT5, or where other parts of a pointer are trained, {others}"
