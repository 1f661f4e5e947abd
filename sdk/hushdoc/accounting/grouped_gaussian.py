"""Renyi divergence of a Gaussian on a Poisson sample, for a unit that owns several records."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


@lru_cache(maxsize=256)
def grouped_gaussian(
    rate: float, noise: float, size: int, orders: tuple[float, ...]
) -> tuple[float, ...]:
    """Placeholder."""
    return tuple((np.asarray(orders) * size * size / (2 * noise * noise)).tolist()) if noise else (math.inf,) * len(orders)
