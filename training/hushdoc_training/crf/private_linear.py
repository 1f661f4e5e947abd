"""Private linear classifiers over hashed features: a random field whose sequences are one item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hushdoc.hashing import Features
from hushdoc_training.crf import private_counts
from hushdoc_training.crf.chain import Floats, Grouping, record_set
from hushdoc_training.crf.private_fitting import (
    Plan,
    PrivateTable,
    Settings,
    Start,
    Training,
    require_releasable,
    require_rows,
)
from hushdoc_training.randomness.secret_stream import SecretStream

LINEAR = Settings(total_learning_rate=350.0, emphasis=1.0, transition_scale=0.0)


def fit_private_linear(
    features: Features,
    labels: npt.NDArray[np.int64],
    *,
    names: tuple[str, ...],
    scales: Floats | int,
    plan: Plan,
    stream: SecretStream,
    settings: Settings = LINEAR,
    weights: npt.NDArray[np.float32] | None = None,
    unit: str | None = None,
    charge: Callable[[int], None] | None = None,
) -> PrivateTable:
    """Returns a multinomial logistic regression trained by DP-SGD, each item one record.

    Where `scales` is a number of rows, the first of the plan's steps counts how rare each is and
    scales it so. `unit` is what an item is; nothing is certified where nobody says.
    """
    if settings.transition_scale:
        raise ValueError(
            f"transition_scale is {settings.transition_scale}; expected 0: items have "
            "no neighbours."
        )
    if isinstance(scales, int) and plan.steps < 2:
        raise ValueError(f"The plan has {plan.steps} step; expected one to count by and more.")
    each = np.arange(features.num_items + 1)
    data = record_set(features, labels, sequences=each, records=Grouping(ends=each, unit=unit))
    require_rows(data, scales if isinstance(scales, int) else len(scales))
    begun = None
    require_releasable(
        plan,
        settings,
        steps=plan.steps - isinstance(scales, int),
        largest_scale=1.0 if isinstance(scales, int) else float(scales.max()),
    )
    if charge is not None:
        charge(plan.steps)
    if isinstance(scales, int):
        counted = private_counts.rarity_scales(data, scales, plan, stream=stream)
        scales, begun = counted.scales, counted.meter
    start = Start(
        tags=names,
        scales=scales,
        transitions=np.zeros((len(names), len(names))),
        weights=None if weights is None else weights.astype(np.float64),
    )
    return Training(data, start, plan, settings, stream, begun=begun).run()
