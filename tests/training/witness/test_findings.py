"""What noise has to look like for a witness."""

from __future__ import annotations

import numpy as np
import pytest

from hushdoc_training.witness import findings

DRAWN = np.random.default_rng(4).normal(size=(4096, 6))
HALF = np.random.default_rng(5).normal(size=12_288)
OWN = "noise: each number has its own"


def differing(values: np.ndarray) -> list[str]:
    found = findings.noise("noise", values, expected=1.0)
    return [finding.what for finding in found if not finding.agrees]


@pytest.mark.parametrize("count", [600, 24_576])
def test_independent_normals_are_noise(count: int) -> None:
    assert differing(DRAWN.ravel()[:count]) == []


@pytest.mark.parametrize(
    "values",
    [
        np.broadcast_to(HALF[:4096, None], (4096, 6)),
        np.concatenate([HALF, HALF]),
        np.concatenate([HALF, -HALF]),
        np.concatenate([HALF[:2000], DRAWN.ravel(), HALF[:2000]]),
        np.resize(HALF[:370], 740),
    ],
    ids=["all labels of a row", "two halves", "cancelling", "two parameters", "few numbers"],
)
def test_noise_that_several_numbers_share_is_told_though_each_alone_is_normal(
    values: np.ndarray,
) -> None:
    assert differing(values) == [OWN]


def test_no_noise_is_none() -> None:
    """Of numbers that are all the same, as where nothing was drawn."""
    for constant in (0.0, 1.0):
        assert differing(np.full(1000, constant))
    assert differing(np.full(1000, np.nan))
