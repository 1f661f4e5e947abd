"""Which options only training with privacy has, and which only training without it.

One of the other kind is refused where it is typed. In a configuration, which a run of the other
kind may have left, it counts as not given.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection

from hushdoc_training.commands import configuration
from hushdoc_training.commands.training_options import takes_noise

PRIVATE = frozenset(
    (
        *("delta", "steps", "expected-records", "clipping-norm", "sampling-rate", "privacy-unit"),
        *("ledger", "documents-changed", "tuned-on", "private-numbers", "duplicates", "accountant"),
        *("audit", "declared-documents", "read-layers", "scaling", "clipping", "averaging"),
        *("backend", "noise-distribution", "noisy-loss", "canaries", "passes", "directions"),
    )
)
"""Options of training with privacy, in every task that has them."""

PLAIN = frozenset(("epochs", "segment-shuffling", "token-noise", "label-smoothing"))
"""Options of training without privacy, in every task that has them."""


def choose(
    options: argparse.Namespace, *, private: Collection[str] = (), plain: Collection[str] = ()
) -> None:
    """Refuses typed options of the other kind of training, and takes back those of a file.

    Args:
        options: Of a task; `unused` names then what it has of the other kind.
        private: What this task has with privacy alone, besides PRIVATE.
        plain: What this task has without privacy alone, besides PLAIN.
    """
    noise = takes_noise(options)
    actions = configuration.options_of(options.parser)
    others = {*PLAIN, *plain} if noise else {*PRIVATE, *private}
    options.unused = others & actions.keys()
    values = {name: getattr(options, actions[name].dest) for name in options.unused}
    typed = [
        f"--{name}"
        for name in sorted(options.unused & options.typed)
        # A switch that is turned off as it is anyway asks for nothing.
        if values[name] is not False or actions[name].default is not False
    ]
    if typed:
        kind, instead = (
            ("with", "train without privacy by --public or --not-private")
            if noise
            else ("without", "leave --public, --not-private or --synthetic")
        )
        options.refuse_usage(
            f"training {kind} privacy does not use {' and '.join(typed)}: leave that out, or "
            f"{instead}"
        )
    for name in options.unused:
        setattr(options, actions[name].dest, actions[name].default)
