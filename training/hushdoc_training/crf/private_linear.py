"""Private linear classifiers over hashed features: a random field whose sequences are one item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hushdoc.hashing import Features
from hushdoc_training.crf.chain import Floats, Grouping
from hushdoc_training.crf.private_fitting import Plan, PrivateTable, Settings, Start, fit_private
from hushdoc_training.randomness.secret_stream import SecretStream

LINEAR = Settings(total_learning_rate=350.0, emphasis=1.0, transition_scale=0.0)


def fit_private_linear(
    features: Features,
    labels: npt.NDArray[np.int64],
    *,
    names: tuple[str, ...],
    scales: Floats,
    plan: Plan,
    stream: SecretStream,
    settings: Settings = LINEAR,
    weights: npt.NDArray[np.float32] | None = None,
    unit: str | None = None,
    charge: Callable[[int], None] | None = None,
) -> PrivateTable:
    """Returns a multinomial logistic regression trained by DP-SGD, each item one record.

    `unit` is what an item is; nothing is certified where nobody says.
    """
    if settings.transition_scale:
        raise ValueError(
            f"transition_scale is {settings.transition_scale}; expected 0: items have "
            "no neighbours."
        )
    each = np.arange(features.num_items + 1)
    transitions = np.zeros((len(names), len(names)))
    start = Start(
        tags=names,
        scales=scales,
        transitions=transitions,
        weights=None if weights is None else weights.astype(np.float64),
    )
    return fit_private(
        features,
        labels,
        sequences=each,
        records=Grouping(ends=each, unit=unit),
        start=start,
        plan=plan,
        settings=settings,
        stream=stream,
        charge=charge,
    )
